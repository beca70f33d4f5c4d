//! A wall clock that a test sets for one process, while it runs.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::{NamedTempFile, TempDir};

/// What it is set to goes for every process that was started with it, at once.
pub struct Clock {
    file: NamedTempFile,
}

impl Clock {
    /// As true as the machine's own.
    pub fn right() -> Self {
        let clock = Self { file: NamedTempFile::new().unwrap() };
        clock.move_to(0);
        clock
    }

    /// Ahead of the right time by so many seconds; behind it, where that is negative.
    pub fn move_to(&self, seconds: i64) {
        // In place, without a moment in which the file is empty: the other side has mapped it.
        self.file.as_file().write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// What a process must find in its environment.
    pub fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", library()), ("HOOKONCE_TEST_CLOCK", self.file.path().to_owned())]
    }
}

/// Built once a test run. The folder is kept until the end of it.
fn library() -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/clock.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(folder.path().join("clock.so")).arg(source);
        assert!(cc.status().expect("a C compiler is needed: apt-get install gcc").success());
        folder
    });
    folder.path().join("clock.so")
}
