//! Queue mode: events that were accepted durably are delivered until they are done.
//!
//! ```text
//!   sender --> pipeline: verify, identify, append --> 200
//!                                      |
//!                                      v  the store's backlog, one lane a provider
//!   consumer <-- attempt <-- dispatch <-+     finish, or postpone by the schedule, or bury
//! ```
//!
//! `dispatch` takes as many letters as may be under way at once and no more: memory does not grow with the queue. Each is
//! taken to its settlement by `attempt`, in a task of its own, so that a slow or poisonous event stops nobody else.

mod attempt;
mod dispatch;
mod resign;
mod schedule;

pub use dispatch::deliver;
