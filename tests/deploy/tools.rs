//! The tools, and the project's own files.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A tool as `scripts/install/` has put it there: the project's own copy, or the machine's.
pub fn tool(name: &str) -> Command {
    let own = root().join("target/tools/bin").join(name);
    Command::new(if own.exists() { own } else { PathBuf::from(name) })
}
