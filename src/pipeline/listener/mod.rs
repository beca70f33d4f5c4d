//! The listening side: sockets, one a runtime; connections, bounded in number and time; HTTP/1.1 and HTTP/2, with or without TLS.

mod connection;
pub mod crowd;
pub mod presence;
pub mod spread;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caller;
use super::plan::Door;
use super::refusal::Refusal;
use crate::telemetry::{Limit, Outcome, Telemetry};
use connection::{Ended, House, Server};
use crowd::{Crowd, Line};
use presence::{Patience, Presence};
use spread::{Handed, Newcomer, Share};

/// Connections the kernel holds for us while we are busy.
const BACKLOG: i32 = 1024;
/// A peer that is gone without a word is found out while we wait for a consumer, when nothing else would tell.
const ASK_AFTER: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_secs(15);
/// When the process is out of files, accepting again at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How many that nobody uses are closed then.
const MAKE_ROOM: usize = 16;
/// A request that is on its way when the door closes is still heard: a long way takes this long. (Told to shut down, hyper closes
/// a connection unread that it has not read from yet, or that is idle.)
const LAST_WORD: Duration = Duration::from_millis(250);

/// Binds `count` sockets to one address; the kernel spreads connections over them.
pub fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<StdListener>> {
    if address.port() != 0 {
        // With SO_REUSEPORT a second process would silently share the port. Without it, the bind tells.
        drop(socket(address, false)?);
    }
    let first = socket(address, true)?;
    let address = first.local_addr()?;
    let others = (1..count).map(|_| socket(address, true));
    std::iter::once(Ok(first)).chain(others).collect()
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    // Connections have it from their socket.
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_EVERY))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections until told to stop, then finishes those that are open.
pub async fn serve(
    listener: TcpListener,
    mut share: Share,
    door: Arc<Door>,
    crowd: Crowd,
    draining: CancellationToken,
    stop: CancellationToken,
) {
    let telemetry = Arc::clone(&door.pipeline().telemetry);
    // What a connection is made by cannot change while the program runs, but for its certificate.
    let limits = door.pipeline().config().limits.clone();
    let patience = Patience { head: limits.header_timeout, idle: limits.idle_timeout };
    let server = Server::new(&limits);
    // A token of this runtime's own: who asks it meets on no other core's lock.
    let house = House { server, door, draining: draining.child_token() };
    let (open, mut line) = (TaskTracker::new(), Line::default());
    let admit = |line: &mut Line, Newcomer { stream, peer, place }: Newcomer| {
        let seat = match crowd.seat(peer.ip(), speaks_for_many(&house, peer), || line.show_one_out()) {
            Ok(seat) => seat,
            Err(limit) => return refuse(&stream, limit, &house, &telemetry),
        };
        let presence = Presence::new(patience, seat.unproven());
        line.add(&presence);
        let (house, telemetry) = (house.clone(), Arc::clone(&telemetry));
        open.spawn(async move {
            if let Err(ended) = house.serve(stream, peer, presence).await {
                note(&ended, peer, &telemetry);
            }
            drop((seat, place));
        });
    };
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted.and_then(|(stream, peer)| share.take(stream, peer)) {
                Ok(newcomer) => newcomer.into_iter().for_each(|newcomer| admit(&mut line, newcomer)),
                Err(error) => {
                    unaccepted(&error);
                    if is_out_of_files(&error) {
                        let _ = (0..MAKE_ROOM).all(|_| line.show_one_out());
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(handed) = share.handed() => match handed.arrive() {
                Ok(newcomer) => admit(&mut line, newcomer),
                Err(error) => unaccepted(&error),
            },
        }
    }
    let last = backlog(listener).into_iter().map(|(stream, peer)| share.keep(stream, peer)).collect::<Vec<_>>();
    for newcomer in last.into_iter().chain(share.close().await.into_iter().map(Handed::arrive)) {
        match newcomer {
            Ok(newcomer) => admit(&mut line, newcomer),
            Err(error) => unaccepted(&error),
        }
    }
    open.close();
    if timeout(LAST_WORD, open.wait()).await.is_err() {
        line.shut();
        open.wait().await;
    }
}

/// Closes the socket, and gives the connections that the kernel had taken for us by then: their senders believe in them.
fn backlog(listener: TcpListener) -> Vec<(StdStream, SocketAddr)> {
    let mut taken = Vec::new();
    let Ok(listener) = listener.into_std() else { return taken };
    // No more than fitted in: whoever keeps connecting must not keep the door open.
    for _ in 0..BACKLOG {
        match listener.accept() {
            Ok(accepted) => taken.push(accepted),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => unaccepted(&error),
        }
    }
    taken
}

fn unaccepted(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
}

fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether somebody has named the peer as a proxy: it brings the connections of many.
fn speaks_for_many(house: &House, peer: SocketAddr) -> bool {
    let pipeline = house.door.pipeline();
    pipeline.config().trusted_proxies.as_ref().is_some_and(|proxies| caller::has(proxies, peer.ip()))
}

fn note(ended: &Ended, peer: SocketAddr, telemetry: &Telemetry) {
    if let Some(limit) = ended.limit() {
        telemetry.limited(limit);
    }
    tracing::debug!(%peer, ?ended, "a connection was ended");
}

/// There is no time for more than a word. A connection that cannot even take that is closed without one, as is one that would
/// not understand it.
fn refuse(stream: &TcpStream, limit: Limit, house: &House, telemetry: &Telemetry) {
    telemetry.limited(limit);
    if house.door.pipeline().config().tls.is_none() {
        let refusal = Refusal::Limited(limit);
        let body = format!(r#"{{"code":"limited","reason":"{}","status":"refused"}}"#, refusal.reason());
        let word = format!(
            "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\nhookonce-outcome: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            Outcome::Limited.as_str(),
            body.len()
        );
        // Without asking the runtime, which has not looked yet at one that was handed on.
        let _ = SockRef::from(stream).send(word.as_bytes());
    }
}
