//! One file a command.

pub mod verify;
