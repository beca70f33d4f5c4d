//! One thing to ask of a server: a command, or a script by its hash.

use redis::{Arg, Cmd, RedisError, Script, Value, cmd};
use tokio::time::Instant;

use super::fault;
use super::wire::Wire;

/// A script that servers know by its hash, once they have seen it.
pub(super) struct Lua {
    code: String,
    hash: String,
}

impl Lua {
    pub fn new(code: impl Into<String>) -> Self {
        let code = code.into();
        Self { hash: Script::new(&code).get_hash().to_owned(), code }
    }

    pub fn on(&'static self, key: &str) -> Call {
        self.over(&[key])
    }

    /// On several keys, of one slot.
    pub fn over(&'static self, keys: &[&str]) -> Call {
        let mut command = cmd("EVALSHA");
        command.arg(&self.hash).arg(keys.len()).arg(keys);
        Call { command, script: Some(self) }
    }
}

pub(super) struct Call {
    command: Cmd,
    script: Option<&'static Lua>,
}

impl From<Cmd> for Call {
    fn from(command: Cmd) -> Self {
        Self { command, script: None }
    }
}

impl Call {
    pub fn arg(mut self, arg: impl redis::ToRedisArgs) -> Self {
        self.command.arg(arg);
        self
    }

    /// `asking` is for a slot that is still on its way to the server.
    pub async fn send(&self, to: &Wire, asking: bool, until: Instant) -> Result<Value, RedisError> {
        match (to.ask(&self.command, asking, until).await, self.script) {
            // In full at once, not loaded first: one way there, and nothing that could be forgotten again in between.
            (Err(error), Some(script)) if fault::code(&error) == "NOSCRIPT" => {
                Box::pin(async move { to.ask(&self.in_full(script), asking, until).await }).await
            }
            (answer, _) => answer,
        }
    }

    fn in_full(&self, script: &Lua) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(&script.code);
        for arg in self.command.args_iter().skip(2) {
            if let Arg::Simple(bytes) = arg {
                command.arg(bytes);
            }
        }
        command
    }
}
