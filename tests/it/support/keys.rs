//! What stands in Redis, seen by a client of the test's own.

use std::collections::BTreeMap;

use redis::Connection;

use super::eventually;
use super::redis::RedisProcess;

/// Commands that nobody's delivery causes: the watch over the store, and what this client asks.
const BACKGROUND: [&str; 9] = ["ping", "info", "time", "exists", "hello", "getrange", "keys", "ttl", "monitor"];

pub struct Keys {
    link: Connection,
}

impl Keys {
    pub fn of(server: &RedisProcess) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        Self { link: client.get_connection().unwrap() }
    }

    /// The key that the tests' configuration gives an event.
    pub fn name(provider: &str, event: &str) -> String {
        format!("test:{provider}:{event}")
    }

    pub fn names(&mut self) -> Vec<String> {
        self.ask(redis::cmd("KEYS").arg("*"))
    }

    pub fn flush(&mut self) {
        self.ask(&redis::cmd("FLUSHALL"))
    }

    /// Any other command, whose answer nobody needs.
    pub fn order(&mut self, words: &[&str]) {
        let mut command = redis::cmd(words[0]);
        self.ask::<redis::Value>(command.arg(&words[1..]));
    }

    /// Changes a setting of the server.
    pub fn set(&mut self, name: &str, value: &str) {
        self.ask(redis::cmd("CONFIG").arg("SET").arg(name).arg(value))
    }

    /// Seconds that a key will live; negative where it lives for ever.
    pub fn ttl(&mut self, key: &str) -> i64 {
        self.ask(redis::cmd("TTL").arg(key))
    }

    /// The value as an operator reads it; empty where there is none. Not by GET, which is counted.
    pub fn value(&mut self, key: &str) -> String {
        self.ask(redis::cmd("GETRANGE").arg(key).arg(0).arg(-1))
    }

    /// Writes what a test needs to be there, for so many seconds.
    pub fn put(&mut self, key: &str, value: &str, seconds: u64) {
        self.put_many([(key.to_owned(), value.to_owned())], seconds);
    }

    pub fn put_many(&mut self, cells: impl IntoIterator<Item = (String, String)>, seconds: u64) {
        let mut pipe = redis::pipe();
        for (key, value) in cells {
            pipe.set_ex(key, value, seconds).ignore();
        }
        pipe.exec(&mut self.link).unwrap();
    }

    pub fn remove(&mut self, key: &str) {
        self.ask::<()>(redis::cmd("DEL").arg(key));
    }

    /// Waits until the event is done, and gives what is stored.
    pub async fn done(&mut self, provider: &str, event: &str) -> String {
        let (key, keys) = (Self::name(provider, event), std::sync::Mutex::new(self));
        eventually("a completion in Redis", async || {
            let value = keys.lock().unwrap().value(&key);
            value.starts_with("1d|").then_some(value)
        })
        .await
    }

    /// Begins counting anew.
    pub fn reset_commands(&mut self) {
        self.ask::<()>(redis::cmd("CONFIG").arg("RESETSTAT"));
    }

    /// How often each command was called since, but for those in the background.
    pub fn commands(&mut self) -> BTreeMap<String, u64> {
        let text: String = self.ask(redis::cmd("INFO").arg("commandstats"));
        let lines = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
        let calls = lines.map(|(name, rest)| (name.to_owned(), rest.split(',').next().unwrap().parse().unwrap()));
        calls.filter(|(name, _)| !BACKGROUND.contains(&name.split('|').next().unwrap()) && name != "config|resetstat").collect()
    }

    /// From now on this client only hears what others ask.
    pub fn listen(mut self) -> Overheard {
        self.ask::<()>(&redis::cmd("MONITOR"));
        Overheard { link: self.link }
    }

    fn ask<T: redis::FromRedisValue>(&mut self, command: &redis::Cmd) -> T {
        command.query(&mut self.link).unwrap()
    }
}

/// Every command that the server is given, as MONITOR shows it.
pub struct Overheard {
    link: Connection,
}

impl Overheard {
    /// The words of the next command that names this key.
    pub fn next_about(&mut self, key: &str) -> Vec<String> {
        loop {
            let redis::Value::SimpleString(line) = self.link.recv_response().unwrap() else { continue };
            let words: Vec<String> = line.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            if words.iter().any(|word| word == key) {
                return words;
            }
        }
    }
}
