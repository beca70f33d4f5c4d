//! The listening side: sockets, one a runtime; connections, bounded in number and time; HTTP/1.1 and HTTP/2 (h2c).

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderValue, Version, header};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bound::Bound;
use super::plan::Door;
use crate::config::Limits;
use crate::telemetry::{Limit, Telemetry};

/// Connections the kernel holds for us while we are busy.
const BACKLOG: i32 = 1024;
/// hyper keeps this many headers on the stack; another number costs an allocation a request.
const HEADERS_ON_STACK: usize = 100;
/// An HTTP/2 peer that does not answer a ping for this long is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_WAIT: Duration = Duration::from_secs(10);
/// A request that is on its way when the door closes is still heard: a long way takes this long.
const LAST_WORD: Duration = Duration::from_millis(250);
/// When the process is out of files, accepting again at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections until told to stop, then finishes those that are open.
pub async fn serve(
    listener: TcpListener,
    door: Arc<Door>,
    connections: Bound,
    draining: CancellationToken,
    stop: CancellationToken,
) {
    // What a connection is made by cannot change while the program runs.
    let limits = door.pipeline().config().limits.clone();
    let telemetry = Arc::clone(&door.pipeline().telemetry);
    let server = server(&limits);
    let open = TaskTracker::new();
    // Tokens of this runtime's own: who asks them meets on no other core's lock.
    let (draining, stop) = (draining.child_token(), stop.child_token());
    let admit = |stream: TcpStream, peer| match connections.take() {
        Some(admitted) => {
            let heard = Arc::default();
            let connection = connection(&server, stream, peer, &door, &draining, &heard);
            let patience = Patience { first: limits.header_timeout, heard, stop: stop.clone() };
            open.spawn(async move {
                if let Err(error) = drive(connection, patience).await {
                    tracing::debug!(%peer, error, "a connection ended with an error");
                }
                drop(admitted);
            });
        }
        None => refuse(&stream, &telemetry),
    };
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => admit(stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    for (stream, peer) in backlog(listener) {
        admit(stream, peer);
    }
    open.close();
    open.wait().await;
}

/// Closes the socket, and gives the connections that the kernel had taken for us by then: their senders believe in them.
fn backlog(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let mut taken = Vec::new();
    let Ok(listener) = listener.into_std() else { return taken };
    // No more than fitted in: whoever keeps connecting must not keep the door open.
    for _ in 0..BACKLOG {
        match listener.accept().and_then(|(stream, peer)| Ok((of_runtime(stream)?, peer))) {
            Ok(accepted) => taken.push(accepted),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => tracing::warn!(%error, "a connection could not be accepted"),
        }
    }
    taken
}

fn of_runtime(stream: StdStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

fn server(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let header_bytes = usize::try_from(limits.header_bytes.0).unwrap_or(usize::MAX);
    let mut server = auto::Builder::new(TokioExecutor::new());
    let mut http1 = server.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout).max_buf_size(header_bytes.max(8192));
    if limits.headers != HEADERS_ON_STACK {
        http1.max_headers(limits.headers);
    }
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(limits.streams).unwrap_or(u32::MAX))
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(PING_EVERY))
        .keep_alive_timeout(PING_WAIT);
    server
}

fn connection(
    server: &auto::Builder<TokioExecutor>,
    stream: TcpStream,
    peer: SocketAddr,
    door: &Arc<Door>,
    draining: &CancellationToken,
    heard: &Arc<AtomicBool>,
) -> impl GracefulConnection<Error = Failure> + use<> {
    // Small replies go out at once.
    let _ = stream.set_nodelay(true);
    let (door, draining, heard) = (Arc::clone(door), draining.clone(), Arc::clone(heard));
    let service = service_fn(move |request| {
        heard.store(true, Ordering::Relaxed);
        let (pipeline, draining, version) = (door.pipeline(), draining.clone(), request.version());
        async move {
            let mut response = pipeline.handle(request, peer).await;
            // Whoever keeps a connection learns of its end with an answer, and not when it sends the next delivery.
            if draining.is_cancelled() && version < Version::HTTP_2 {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    server.serve_connection(TokioIo::new(stream), service).into_owned()
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long a connection is waited for.
struct Patience {
    /// For its first request.
    first: Duration,
    /// Whether that has come.
    heard: Arc<AtomicBool>,
    stop: CancellationToken,
}

impl Patience {
    /// Nothing came in time. hyper's own clock runs only once it has seen whether this is HTTP/1 or 2.
    async fn is_silent(&self) {
        sleep(self.first).await;
        if self.heard.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// The door is closed, and what was on its way has been heard.
    async fn is_over(&self) {
        self.stop.cancelled().await;
        sleep(LAST_WORD).await;
    }
}

/// Serves a connection to its end; after a stop, to the end of what was begun on it.
async fn drive(connection: impl GracefulConnection<Error = Failure>, patience: Patience) -> Result<(), Failure> {
    let mut connection = pin!(connection);
    tokio::select! {
        // The connection first: what has come by the end of either time is read.
        biased;
        ended = connection.as_mut() => return ended,
        () = patience.is_silent() => return Err("no request in time".into()),
        // Told to shut down, hyper closes a connection unread that it has not read from yet, or that is idle.
        () = patience.is_over() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// There is no time for more than a word. A connection that cannot even take that is closed without one.
fn refuse(stream: &TcpStream, telemetry: &Telemetry) {
    telemetry.limited(Limit::Connections);
    let _ = stream.try_write(TOO_MANY);
}

const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\nhookonce-outcome: limited\r\n\
content-type: application/json\r\ncontent-length: 80\r\n\r\n\
{\"code\":\"limited\",\"reason\":\"a limit is reached: connections\",\"status\":\"refused\"}";
