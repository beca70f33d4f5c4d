//! The listening side: sockets, one a runtime; connections, bounded in number and time; HTTP/1.1 and HTTP/2 (h2c).

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Pipeline;
use crate::config::Limits;
use crate::telemetry::{Limit, Telemetry};

/// Connections the kernel holds for us while we are busy.
const BACKLOG: i32 = 1024;
/// hyper keeps this many headers on the stack; another number costs an allocation a request.
const HEADERS_ON_STACK: usize = 100;
/// An HTTP/2 peer that does not answer a ping for this long is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_WAIT: Duration = Duration::from_secs(10);
/// When the process is out of files, accepting again at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Binds `count` sockets to one address; the kernel spreads connections over them.
pub fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<StdListener>> {
    // With SO_REUSEPORT a second process would silently share the port. Without it, the first bind tells.
    let probe = socket(address, false)?;
    let address = probe.local_addr()?;
    drop(probe);
    (0..count).map(|_| socket(address, true)).collect()
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

/// The open connections of all runtimes.
#[derive(Clone, Debug)]
pub struct Connections {
    open: Arc<AtomicUsize>,
    max: usize,
}

impl Connections {
    pub fn new(max: usize) -> Self {
        Self { open: Arc::default(), max }
    }

    fn admit(&self) -> Option<Admitted> {
        let admitted = Admitted(Arc::clone(&self.open));
        (self.open.fetch_add(1, Ordering::Relaxed) < self.max).then_some(admitted)
    }
}

/// One connection's place among the open ones.
#[derive(Debug)]
struct Admitted(Arc<AtomicUsize>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts connections until told to stop, then finishes those that are open.
pub async fn serve(listener: TcpListener, pipeline: Arc<Pipeline>, connections: Connections, stop: CancellationToken) {
    let server = server(&pipeline.config.limits);
    let graceful = GracefulShutdown::new();
    let accept = async |listener: &TcpListener| match listener.accept().await {
        Ok((stream, peer)) => start(&server, &graceful, stream, peer, &pipeline, &connections),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            sleep(ACCEPT_PAUSE).await;
        }
    };
    loop {
        tokio::select! {
            // First, so that what waits in the backlog when the socket is closed has been taken.
            biased;
            () = accept(&listener) => {}
            () = stop.cancelled() => break,
        }
    }
    drop(listener);
    graceful.shutdown().await;
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

fn start(
    server: &auto::Builder<TokioExecutor>,
    graceful: &GracefulShutdown,
    stream: TcpStream,
    peer: SocketAddr,
    pipeline: &Arc<Pipeline>,
    connections: &Connections,
) {
    let Some(admitted) = connections.admit() else {
        refuse(&stream, &pipeline.telemetry);
        return;
    };
    // Small replies go out at once.
    let _ = stream.set_nodelay(true);
    let (service_pipeline, spoken) = (Arc::clone(pipeline), CancellationToken::new());
    let silence = silence(pipeline.config.limits.header_timeout, spoken.clone());
    let service = service_fn(move |request| {
        spoken.cancel();
        let pipeline = Arc::clone(&service_pipeline);
        async move { Ok::<_, Infallible>(pipeline.handle(request, peer).await) }
    });
    let connection = graceful.watch(server.serve_connection(TokioIo::new(stream), service).into_owned());
    tokio::spawn(async move {
        tokio::select! {
            ended = connection => if let Err(error) = ended {
                tracing::debug!(%peer, error, "a connection ended with an error");
            },
            () = silence => tracing::debug!(%peer, "a connection never came to its first request"),
        }
        drop(admitted);
    });
}

/// Over when a connection has had its time for a first request and used it for none. The server's own timeout begins
/// only when it has read enough to tell one version of HTTP from the other.
async fn silence(time: Duration, spoken: CancellationToken) {
    if timeout(time, spoken.cancelled()).await.is_ok() {
        std::future::pending().await
    }
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
