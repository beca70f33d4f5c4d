//! Another process with a file store: this test program, run again for one of its tests.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStdout, Command, Stdio};

/// Set in the child alone: the directory of its store.
const STORE: &str = "HOOKONCE_TEST_STORE";
/// What the child says begins so; the rest of its output is the test runner's.
const SAYS: &str = "child: ";

/// Killed when dropped.
pub struct Child {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Runs `test` again, which must look first whether it is the child, on the store in `directory`.
    pub fn run(test: &str, directory: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(STORE, directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// The next thing the child says.
    pub fn says(&mut self) -> String {
        let said = self.lines.by_ref().map(Result::unwrap).find_map(|line| Some(line.split_once(SAYS)?.1.to_owned()));
        said.expect("the child ended without a word")
    }

    /// All that the child had said before it was killed.
    pub fn said(&mut self) -> Vec<String> {
        let lines = self.lines.by_ref().map_while(Result::ok);
        lines.filter_map(|line| Some(line.split_once(SAYS)?.1.to_owned())).collect()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In the child, the directory of its store; in the test run itself, nothing.
pub fn is_child() -> Option<PathBuf> {
    std::env::var_os(STORE).map(PathBuf::from)
}

/// Tells the parent.
pub fn say(word: &str) {
    // In one write, so that a kill cannot cut it.
    std::io::stdout().write_all(format!("{SAYS}{word}\n").as_bytes()).unwrap();
}

/// Tells the parent, and stays until it kills.
pub fn say_and_stay(word: &str) -> ! {
    say(word);
    loop {
        std::thread::park();
    }
}
