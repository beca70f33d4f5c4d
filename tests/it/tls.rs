//! A consumer behind HTTPS.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hookonce::config::Upstream;
use hookonce::pipeline::body::Outgoing;
use hookonce::pipeline::upstream::{ForwardError, Heard, NotSent, Patience, Upstreams};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
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
    let request = Request::post("/hook").body(Outgoing::Whole(Full::from("a delivery"))).unwrap();
    let stop = CancellationToken::new();
    let patience = Patience { connect: Duration::ZERO, deadline: Instant::now() + Duration::from_secs(10), stop: &stop };
    let Heard { response, mut used } = *upstreams.send(&upstream, Box::new(request), patience, || Ok(())).await?;
    let (mut answer, mut body) = (response.into_body(), Vec::new());
    while let Some(frame) = poll_fn(|cx| used.poll_frame(&mut answer, cx)).await {
        body.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
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
