//! One thing to ask of a server: a command, or a script by its hash.

use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{Arg, Cmd, RedisError, Script, Value, cmd};

use super::fault;

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
    pub async fn send(&self, to: &ConnectionManager, asking: bool) -> Result<Value, RedisError> {
        match (send(to, &self.command, asking).await, self.script) {
            // In full at once, not loaded first: one way there, and nothing that could be forgotten again in between.
            (Err(error), Some(script)) if fault::code(&error) == "NOSCRIPT" => {
                Box::pin(async move { send(to, &self.in_full(script), asking).await }).await
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

async fn send(to: &ConnectionManager, command: &Cmd, asking: bool) -> Result<Value, RedisError> {
    let mut link = to.clone();
    if !asking {
        return link.send_packed_command(command).await?.extract_error();
    }
    Box::pin(send_asking(link, command)).await
}

/// In one write: the connection is shared, and ASKING counts for whichever command comes next on it.
async fn send_asking(mut link: ConnectionManager, command: &Cmd) -> Result<Value, RedisError> {
    let mut pair = redis::pipe();
    pair.cmd("ASKING").add_command(command.clone());
    let mut answers = link.req_packed_commands(&pair, 1, 1).await?;
    answers.pop().unwrap_or(Value::Nil).extract_error()
}
