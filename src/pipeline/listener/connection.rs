//! One connection from its first byte to its last: TLS where that is configured, HTTP/1.1 or HTTP/2, and the time it may take.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::presence::{Due, Over, Presence, Taken};
use crate::config::Limits;
use crate::pipeline::caller::Caller;
use crate::pipeline::plan::Door;
use crate::telemetry::Limit;

/// hyper keeps this many headers on the stack; another number costs an allocation a request.
const HEADERS_ON_STACK: usize = 100;
/// An HTTP/2 peer that does not answer a ping for this long is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_WAIT: Duration = Duration::from_secs(10);
/// Streams that a peer has reset before they were looked at: the library's own bound, stated.
const RESETS_PENDING_MAX: usize = 20;
/// Streams that were reset because of what the peer did wrong. The library allows a thousand; nobody errs that often.
const ERRORS_MAX: usize = 100;

/// What serves every connection of a runtime.
#[derive(Clone, Debug)]
pub struct Server(Arc<Protocols>);

#[derive(Debug)]
struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

/// What every connection of HTTP/2 begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What a connection that rests has room for. A request that is longer is read on by whoever parses it.
const FIRST_BYTES: usize = 512;

/// What a connection is served with.
#[derive(Clone, Debug)]
pub struct House {
    pub server: Server,
    pub door: Arc<Door>,
    /// Answers say that no more are to be asked for.
    pub draining: CancellationToken,
}

/// How a connection ended, where that was not the sender's wish.
#[derive(Debug)]
pub enum Ended {
    Over(Over),
    Failed(Failure),
}

type Failure = Box<dyn Error + Send + Sync>;

impl Ended {
    /// The bound that was reached, if that is what it was.
    pub fn limit(&self) -> Option<Limit> {
        match self {
            Self::Over(Over::Head) => Some(Limit::HeaderTime),
            Self::Over(Over::Reply) => Some(Limit::ReplyTime),
            Self::Over(Over::Abandoned) => Some(Limit::Resets),
            Self::Over(Over::Crowded) => Some(Limit::Crowded),
            Self::Over(Over::Idle) => None,
            Self::Failed(error) => {
                let error: &hyper::Error = error.downcast_ref()?;
                if error.is_parse_too_large() {
                    return Some(Limit::Headers);
                }
                let refused = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
                let is_flood = refused.is_some_and(|error| error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM));
                is_flood.then_some(Limit::Resets)
            }
        }
    }
}

impl Server {
    pub fn new(limits: &Limits) -> Self {
        let header_bytes = usize::try_from(limits.header_bytes.0).unwrap_or(usize::MAX);
        let mut http1 = http1::Builder::new();
        // The connection's own watch tells a head that does not come from a connection that nobody uses for a while.
        http1.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(header_bytes.max(8192));
        if limits.headers != HEADERS_ON_STACK {
            http1.max_headers(limits.headers);
        }
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(u32::try_from(limits.streams).unwrap_or(u32::MAX))
            // What is a little too large is refused by us, and counted.
            .max_header_list_size(u32::try_from(header_bytes.saturating_mul(2)).unwrap_or(u32::MAX))
            .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
            .max_local_error_reset_streams(ERRORS_MAX)
            .keep_alive_interval(Some(PING_EVERY))
            .keep_alive_timeout(PING_WAIT);
        Self(Arc::new(Protocols { http1, http2 }))
    }
}

impl House {
    /// Serves a connection to its end.
    pub async fn serve(self, stream: TcpStream, peer: SocketAddr, presence: Arc<Presence>) -> Result<(), Ended> {
        // Small replies go out at once.
        let _ = stream.set_nodelay(true);
        let Some(tls) = self.door.pipeline().config().tls.as_ref().map(|tls| Arc::clone(&tls.server)) else {
            return self.converse(stream, Caller::new(peer.ip(), false), presence).await;
        };
        // Boxed: the others need not have room for it.
        Box::pin(self.converse_over(tls, stream, peer, presence)).await
    }

    async fn converse_over(
        &self,
        tls: Arc<ServerConfig>,
        stream: TcpStream,
        peer: SocketAddr,
        presence: Arc<Presence>,
    ) -> Result<(), Ended> {
        let greeting = TlsAcceptor::from(tls).accept(stream);
        let stream = tokio::select! {
            biased;
            greeted = greeting => greeted.map_err(|error| Ended::Failed(error.into()))?,
            over = presence.over() => return Err(Ended::Over(over)),
        };
        self.converse(stream, Caller::new(peer.ip(), true), presence).await
    }

    /// Answers requests on it, for as long as it keeps its times; after a stop, to the end of what was begun. In HTTP/1.1, what
    /// nobody uses for a while rests: its socket waits for the next request without a parser and without its buffers.
    async fn converse<S>(&self, stream: S, caller: Caller, presence: Arc<Presence>) -> Result<(), Ended>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut stream = Watched { stream, ahead: Bytes::new(), presence: Arc::clone(&presence) };
        if self.awaits(&mut stream, could_be_http2).await? == Heard::Nothing {
            return Ok(());
        }
        if stream.ahead.starts_with(PREFACE) {
            let connection = self.server.0.http2.serve_connection(TokioIo::new(stream), self.service(caller, &presence));
            // Boxed, since it is larger than the others, which are more.
            return self.attend(Box::pin(connection).as_mut(), &presence, false).await.map(drop);
        }
        loop {
            let mut connection = self.server.0.http1.serve_connection(TokioIo::new(stream), self.service(caller, &presence));
            if self.attend(Pin::new(&mut connection), &presence, true).await? == Attended::Ended {
                return Ok(());
            }
            let parts = connection.into_parts();
            stream = Watched { ahead: parts.read_buf, ..parts.io.into_inner() };
            if self.awaits(&mut stream, |_| false).await? == Heard::Nothing {
                return Ok(());
            }
        }
    }

    /// Waits for the first bytes of a request, and for more while `is_unclear` of them.
    async fn awaits<S>(&self, stream: &mut Watched<S>, is_unclear: impl Fn(&[u8]) -> bool) -> Result<Heard, Ended>
    where
        S: AsyncRead + Unpin,
    {
        let presence = Arc::clone(&stream.presence);
        let mut first = BytesMut::from(std::mem::take(&mut stream.ahead));
        if !first.is_empty() {
            presence.spoke();
        }
        while first.is_empty() || is_unclear(&first) {
            first.reserve(FIRST_BYTES);
            let read = tokio::select! {
                biased;
                read = stream.read_buf(&mut first) => read.map_err(|error| Ended::Failed(error.into()))?,
                over = presence.over() => return if over == Over::Idle { Ok(Heard::Nothing) } else { Err(Ended::Over(over)) },
            };
            if read == 0 {
                return Ok(Heard::Nothing);
            }
        }
        stream.ahead = first.freeze();
        Ok(Heard::Something)
    }

    /// Answers requests until the connection ends, or comes to rest where it may.
    async fn attend<C>(&self, mut connection: Pin<&mut C>, presence: &Presence, may_rest: bool) -> Result<Attended, Ended>
    where
        C: GracefulConnection<Error = hyper::Error>,
    {
        let mut is_closing = false;
        loop {
            let due = tokio::select! {
                // The connection first: what has come by the end of its time is read.
                biased;
                ended = connection.as_mut() => return ended.map(|()| Attended::Ended).map_err(|error| Ended::Failed(error.into())),
                due = presence.due(may_rest && !is_closing) => due,
            };
            match due {
                Due::Rest => return Ok(Attended::Resting),
                Due::End(Over::Idle) if is_closing => return Ok(Attended::Ended),
                // What was written last may not have been taken yet, and what is under way goes on.
                Due::End(Over::Idle) => {
                    is_closing = true;
                    presence.close();
                    connection.as_mut().graceful_shutdown();
                }
                Due::End(over) => return Err(Ended::Over(over)),
            }
        }
    }

    fn service(
        &self,
        caller: Caller,
        presence: &Arc<Presence>,
    ) -> impl HttpService<Incoming, ResBody = Taken, Error = Infallible, Future: Send> + Unpin + use<> {
        let (door, draining, presence) = (Arc::clone(&self.door), self.draining.clone(), Arc::clone(presence));
        service_fn(move |request: Request<Incoming>| {
            let (parts, body) = request.into_parts();
            let (pipeline, draining, version) = (door.pipeline(), draining.clone(), parts.version);
            let mut asked = presence.asked(version, !body.is_end_stream());
            let parts = Box::new(parts);
            async move {
                let mut response = pipeline.handle(parts, body, caller, &mut asked).await;
                // Whoever keeps a connection learns of its end with an answer, and not when it sends the next delivery.
                if draining.is_cancelled() && version < Version::HTTP_2 {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                let is_success = response.status().is_success();
                Ok::<_, Infallible>(response.map(|body| asked.replied(body, is_success)))
            }
        })
    }
}

/// Whether more has to be read to know.
fn could_be_http2(first: &[u8]) -> bool {
    first.len() < PREFACE.len() && PREFACE.starts_with(first)
}

/// What came on a connection that nobody used.
#[derive(PartialEq, Eq)]
enum Heard {
    Something,
    /// Its end.
    Nothing,
}

/// Why nobody looks after a connection any more.
#[derive(PartialEq, Eq)]
enum Attended {
    Ended,
    /// Nothing is under way, and nothing is half read or half written.
    Resting,
}

/// A stream that tells when something is read from it, and when what is written is not taken.
#[derive(Debug)]
struct Watched<S> {
    stream: S,
    /// What was read before anybody could parse it.
    ahead: Bytes,
    presence: Arc<Presence>,
}

impl<S> Watched<S> {
    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.presence.wrote(written.is_ready());
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let length = self.ahead.len().min(buffer.remaining());
            buffer.put_slice(&self.ahead.split_to(length));
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.presence.spoke();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(written)
    }
}
