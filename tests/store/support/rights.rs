//! The user that the documentation tells to make.

use super::redis::RedisProcess;

const DOCUMENT: &str = include_str!("../../../docs/redis.md");

/// The lines of the documentation, in their order.
#[derive(Clone, Copy)]
pub enum Line {
    Server,
    OfCluster,
    Sentinel,
    /// What queue mode needs beside one of the first two.
    Queue,
}

impl Line {
    /// Its words, for keys of any name: tests use more than one namespace.
    pub fn words(self) -> Vec<&'static str> {
        let lines: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("ACL SETUSER hookonce ")).collect();
        assert_eq!(lines.len(), 4);
        lines[self as usize].split(' ').map(|word| if word == "~billing:*" { "~*" } else { word }).collect()
    }
}

/// Makes the user, which logs in as `LOGIN`.
pub async fn grant(process: &RedisProcess, line: Line) {
    let () = process.ask(&line.words()).await;
}

/// As in the documentation.
pub const LOGIN: &str = "hookonce:PASSWORD";
