//! Deliveries at a fixed rate, or as fast as the connections can; prints what came of them.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, spawn_local};
use tokio::time::timeout;

use crate::Trouble;
use crate::connection::Connection;
use crate::delivery::{FIRST, Mint};
use crate::desk::{Desk, Line};
use crate::figures::Figures;
use crate::options::Options;
use crate::schedule::{Schedule, is_repeat};

/// How long the last answers may take before they count as missing.
const PATIENCE: Duration = Duration::from_secs(10);

struct Load {
    to: Vec<SocketAddr>,
    mint: Arc<Mint>,
    duplicates: u64,
    desk: Desk,
    figures: RefCell<Figures>,
}

pub async fn run(options: &Options) -> Result<(), Trouble> {
    let own = ["to", "rate", "seconds", "count", "connections", "duplicates"];
    options.only(&[&own[..], &Mint::OPTIONS[..]].concat())?;
    let (to, mint) = (options.addresses("to")?, Mint::new(options)?);
    let duplicates = options.number("duplicates", 0)?;
    let connections = open(&to, options.number("connections", 64)?).await?;
    // Without repeats there is only each connection to warm up, and large bodies take their time.
    let first = if duplicates > 0 { FIRST } else { FIRST.min(connections.len() as u64) };
    let connections = send_first(connections, &mint, first).await?;

    let (rate, seconds) = (options.number("rate", 0u64)?, options.number("seconds", 5.0)?);
    let count = options.number("count", u64::MAX)?;
    let began = Instant::now();
    let desk = if rate == 0 {
        Desk::Closed { next: 0.into(), count, end: began + Duration::from_secs_f64(seconds) }
    } else {
        Desk::Open(Line::default())
    };
    let load = Rc::new(Load { to, mint, duplicates, desk, figures: RefCell::default() });
    let follower = Rc::clone(&load);
    let count = count.min((rate as f64 * seconds) as u64);
    let following = spawn_local(async move {
        match &follower.desk {
            Desk::Open(line) => line.follow(Schedule { began, rate }, count).await,
            Desk::Closed { .. } => Ok(()),
        }
    });
    serve(&load, connections, Duration::from_secs_f64(seconds) + PATIENCE).await;
    let took = began.elapsed();
    following.abort();
    let mut figures = Figures { before: first, ..load.figures.take() };
    if let Desk::Open(line) = &load.desk {
        figures.errors += line.left();
    }
    println!("{}", figures.json(took));
    Ok(())
}

/// Connections to each of the addresses in turn.
pub async fn open(to: &[SocketAddr], count: usize) -> io::Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for (number, address) in to.iter().cycle().take(count).enumerate() {
        connections.push(Connection::open(*address, number).await?);
    }
    Ok(connections)
}

/// Sends the events that others repeat. One of them that is answered wrongly is found by those that are counted.
async fn send_first(connections: Vec<Connection>, mint: &Arc<Mint>, count: u64) -> io::Result<Vec<Connection>> {
    let shares = connections.len().max(1) as u64;
    let mut sending = JoinSet::new();
    for (number, mut connection) in connections.into_iter().enumerate() {
        let mint = Arc::clone(mint);
        sending.spawn_local(async move {
            for event in (number as u64..count).step_by(shares as usize) {
                connection.call(&mint.parcel(event)).await?;
            }
            Ok(connection)
        });
    }
    sending.join_all().await.into_iter().collect()
}

/// Returns when every delivery has its answer, or when there was time enough for it.
async fn serve(load: &Rc<Load>, connections: Vec<Connection>, at_most: Duration) {
    let mut working = JoinSet::new();
    for (number, connection) in connections.into_iter().enumerate() {
        working.spawn_local(work(Rc::clone(load), connection, number));
    }
    let all = async { while working.join_next().await.is_some() {} };
    if timeout(at_most, all).await.is_err() {
        load.figures.borrow_mut().errors += working.len() as u64;
    }
}

async fn work(load: Rc<Load>, mut connection: Connection, number: usize) {
    while let Some(ticket) = load.desk.next().await {
        let event = event_of(ticket.number, load.duplicates);
        let parcel = load.mint.parcel(event);
        let delay = ticket.due.elapsed();
        let answered = connection.call(&parcel).await;
        let latency = ticket.due.elapsed();
        let is_open = answered.is_ok();
        load.note(answered, delay, latency);
        if !is_open {
            let to = load.to[number % load.to.len()];
            let Ok(another) = Connection::open(to, number).await else { return };
            connection = another;
        }
    }
}

/// Which event the delivery of that number carries.
fn event_of(number: u64, duplicates: u64) -> u64 {
    if is_repeat(number, duplicates) { number % FIRST } else { FIRST + number }
}

impl Load {
    fn note(&self, answered: io::Result<u16>, delay: Duration, latency: Duration) {
        let mut figures = self.figures.borrow_mut();
        match answered {
            Ok(status) => {
                figures.latencies.push(latency);
                figures.delays.push(delay);
                figures.wrong += u64::from(!self.mint.is_right(status));
            }
            Err(_) => figures.errors += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_events_are_never_those_that_are_repeated() {
        assert!((0..1000).all(|number| event_of(number, 0) >= FIRST));
        assert!((0..1000).all(|number| event_of(number, 100) < FIRST));
    }
}
