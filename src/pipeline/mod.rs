//! The way of one delivery.

pub mod handshake;
pub mod identify;
