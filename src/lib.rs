//! hookonce: a drop-in reverse proxy that dedupes inbound webhooks.
//!
//! The rooms, in reading order: `pipeline` is the way of one delivery; `scheme` knows how providers sign and name
//! their events; `store` remembers events; `queue` delivers what was accepted for later; `telemetry` is what can be watched; `admin` serves it; `config` is what a
//! file may say; `app` puts them together; `cli` is one file a command.

pub mod admin;
pub mod app;
pub mod cli;
pub mod config;
pub mod failpoint;
pub mod pipeline;
pub mod queue;
pub mod scheme;
pub mod store;
pub mod telemetry;
