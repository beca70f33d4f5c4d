//! A consumer behind HTTPS.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hookonce::config::Upstream;
use hookonce::pipeline::body::Outgoing;
use hookonce::pipeline::upstream::{ForwardError, Heard, NotSent, Patience, Upstreams, Writing};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::support::https::{self, Identity};

/// A consumer behind TLS that says what it was sent.
async fn https_consumer(identity: &Identity) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = https::acceptor(identity);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let echo = service_fn(async |request: Request<Incoming>| {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                Ok::<_, Infallible>(Response::new(Full::new(body)))
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), echo).await;
        }
    });
    address
}

fn trusting(identity: &Identity) -> Arc<Upstreams> {
    Arc::new(Upstreams::trusting(https::roots(identity)).unwrap())
}

async fn send(upstreams: &Arc<Upstreams>, to: SocketAddr) -> Result<Bytes, ForwardError> {
    let upstream = Upstream(format!("https://localhost:{}", to.port()).parse().unwrap());
    let (parts, ()) = Request::post("/hook").body(()).unwrap().into_parts();
    let request = Writing::of(Box::new(parts), &[], Outgoing::Whole("a delivery".into()));
    let stop = CancellationToken::new();
    let patience = Patience { connect: Duration::ZERO, deadline: Instant::now() + Duration::from_secs(10), stop: &stop };
    let Heard { mut used, .. } = *upstreams.send(&upstream, request, patience, || Ok(())).await?;
    let mut body = Vec::new();
    while let Some(piece) = poll_fn(|cx| used.poll_piece(cx)).await {
        body.extend_from_slice(&piece.unwrap());
    }
    used.put_back();
    Ok(body.into())
}

/// An end without it may be somebody else's doing, and consumers log it as such.
#[tokio::test]
async fn an_idle_connection_ends_with_the_farewell_of_tls() {
    let identity = https::identity();
    let (listener, acceptor) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), https::acceptor(&identity));
    let address = listener.local_addr().unwrap();
    let consumer = tokio::spawn(async move {
        let mut stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"a delivery") {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        // Without the farewell this is an error.
        stream.read_buf(&mut read).await
    });
    let upstreams = trusting(&identity);
    assert_eq!(send(&upstreams, address).await.unwrap(), "ok");
    let reaped = async {
        tokio::select! {
            end = consumer => end.unwrap(),
            never = upstreams.reap() => never,
        }
    };
    assert_eq!(timeout(Duration::from_secs(10), reaped).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_consumer_behind_https_is_reached() {
    let identity = https::identity();
    let consumer = https_consumer(&identity).await;
    let upstreams = trusting(&identity);
    for _ in 0..2 {
        assert_eq!(send(&upstreams, consumer).await.unwrap(), "a delivery");
    }
}

#[tokio::test]
async fn a_consumer_that_nobody_vouches_for_gets_nothing() {
    let consumer = https_consumer(&https::identity()).await;
    for upstreams in [trusting(&https::identity()), Arc::new(Upstreams::new().unwrap())] {
        let error = send(&upstreams, consumer).await.unwrap_err();
        assert!(matches!(error, ForwardError::NotSent(NotSent::Connect(_))), "{error:?}");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

/// A consumer that takes connections, and resets each when somebody is about to write on it.
struct Resetting {
    address: SocketAddr,
    wanted: Arc<AtomicUsize>,
    reset: Arc<AtomicUsize>,
}

impl Resetting {
    fn start(tls: Option<TlsAcceptor>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (wanted, reset) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (until, count) = (Arc::clone(&wanted), Arc::clone(&reset));
        let serving = async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let stream = match &tls {
                    Some(tls) => tls.accept(stream).await.unwrap().into_inner().0,
                    None => stream,
                };
                while until.load(Ordering::SeqCst) <= count.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                stream.set_zero_linger().unwrap();
                drop(stream);
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        // On a thread of its own: whoever writes waits for it without giving way.
        std::thread::spawn(|| Builder::new_current_thread().enable_all().build().unwrap().block_on(serving));
        Self { address, wanted, reset }
    }

    /// What becomes of a request whose connection is reset right before its first byte.
    async fn send(&self, upstreams: &Upstreams, scheme: &str) -> ForwardError {
        let upstream = Upstream(format!("{scheme}://localhost:{}", self.address.port()).parse().unwrap());
        let (parts, ()) = Request::post("/hook").body(()).unwrap().into_parts();
        let request = Writing::of(Box::new(parts), &[], Outgoing::Whole("a delivery".into()));
        let stop = CancellationToken::new();
        let deadline = Instant::now() + Duration::from_secs(30);
        let patience = Patience { connect: Duration::from_secs(3), deadline, stop: &stop };
        let may_send = || {
            let wanted = self.wanted.fetch_add(1, Ordering::SeqCst) + 1;
            while self.reset.load(Ordering::SeqCst) < wanted {
                std::thread::yield_now();
            }
            Ok(())
        };
        upstreams.send(&upstream, request, patience, may_send).await.unwrap_err()
    }
}

/// Nothing has left, so that it is tried again: for as long as connecting is, and with its pauses.
#[tokio::test]
async fn a_fresh_connection_that_takes_nothing_is_none() {
    let (consumer, upstreams) = (Resetting::start(None), Upstreams::new().unwrap());
    let error = consumer.send(&upstreams, "http").await;
    assert!(matches!(error, ForwardError::NotSent(NotSent::Connect(_))), "{error:?}");
    let connections = consumer.reset.load(Ordering::SeqCst);
    assert!((2..=10).contains(&connections), "{connections}");
}

/// What TLS has written of a request that it could not write whole, nobody can tell.
#[tokio::test]
async fn behind_tls_what_could_not_be_written_is_not_known() {
    let identity = https::identity();
    let consumer = Resetting::start(Some(https::acceptor(&identity)));
    let error = consumer.send(&trusting(&identity), "https").await;
    assert!(matches!(error, ForwardError::Unknown(_)), "{error:?}");
    assert_eq!(consumer.reset.load(Ordering::SeqCst), 1);
}
