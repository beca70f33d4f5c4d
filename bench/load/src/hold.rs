//! Connections that have had one delivery each, and are held until the input ends. Meanwhile others look at what they cost.

use std::io::{self, Read};
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::task::{JoinSet, LocalSet};

use crate::Trouble;
use crate::connection::Connection;
use crate::delivery::Mint;
use crate::options::Options;
use crate::pace;

/// Connections that are opened at a time: fewer than a listener lets wait.
const AT_ONCE: usize = 100;

pub fn run(local: &LocalSet, runtime: &Runtime, options: &Options) -> Result<(), Trouble> {
    options.only(&[&["to", "connections"][..], &Mint::OPTIONS[..]].concat())?;
    let (connections, wrong) = local.block_on(runtime, take(options))?;
    println!("{{\"held\": {}, \"wrong\": {wrong}}}", connections.len());
    // Nothing is to be done for a connection that is only held, so that this thread may sleep.
    io::stdin().read_to_end(&mut Vec::new())?;
    drop(connections);
    Ok(())
}

async fn take(options: &Options) -> Result<(Vec<Connection>, u64), Trouble> {
    let (to, mint) = (options.addresses("to")?, Mint::new(options)?);
    let (mut held, mut wrong) = (Vec::new(), 0);
    let mut waiting = pace::open(&to, options.number("connections", 1000)?).await?.into_iter().enumerate();
    loop {
        let mut sending = JoinSet::new();
        for (number, connection) in waiting.by_ref().take(AT_ONCE) {
            sending.spawn_local(send(connection, Arc::clone(&mint), number as u64));
        }
        if sending.is_empty() {
            return Ok((held, wrong));
        }
        for sent in sending.join_all().await {
            let (connection, is_right) = sent?;
            held.push(connection);
            wrong += u64::from(!is_right);
        }
    }
}

async fn send(mut connection: Connection, mint: Arc<Mint>, event: u64) -> io::Result<(Connection, bool)> {
    let status = connection.call(&mint.parcel(event)).await?;
    Ok((connection, mint.is_right(status)))
}
