//! A provider's side: signed deliveries, whole or over a raw socket that can hang up at any point.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use hookonce::config::Secret;
use hookonce::scheme::{Draft, preset};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Either, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::wire::Wire;

/// The secret of every provider in these tests.
pub const SECRET: &str = "test-secret-0123456789abcdef";

/// A request in the making. Signed ones are signed when made.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub method: &'static str,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why nothing came back.
pub type Unanswered = Box<dyn std::error::Error + Send + Sync>;

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn outcome(&self) -> &str {
        self.header("hookonce-outcome").unwrap_or("none")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// A delivery of GitHub's kind: the id is an unsigned header.
pub fn github(event: &str) -> Delivery {
    github_with(event, format!("{{\"action\":\"opened\",\"event\":\"{event}\"}}"))
}

pub fn github_with(event: &str, body: impl Into<Bytes>) -> Delivery {
    let headers = [("x-github-delivery", event), ("x-github-event", "issues")];
    signed("github", "/github", &headers, body.into(), now())
}

/// A delivery of Stripe's kind: the id is in the signed body, the signature has a timestamp.
pub fn stripe(event: &str) -> Delivery {
    stripe_with(format!("{{\"id\":\"{event}\",\"object\":\"event\"}}"))
}

/// The event's id is in the body.
pub fn stripe_with(body: impl Into<Bytes>) -> Delivery {
    signed("stripe", "/stripe", &[], body.into(), now())
}

/// Signs with the scheme of a preset, at a time.
pub fn signed(name: &str, path: &str, headers: &[(&str, &str)], body: Bytes, at: SystemTime) -> Delivery {
    signed_with(SECRET, name, path, headers, body, at)
}

/// The same with a secret of one's own.
pub fn signed_with(secret: &str, name: &str, path: &str, headers: &[(&str, &str)], body: Bytes, at: SystemTime) -> Delivery {
    let scheme = preset::find(name).unwrap().compile().unwrap().scheme;
    let mut map = HeaderMap::new();
    map.insert("content-type", HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
    }
    let key = scheme.key(&Secret::new(secret)).unwrap();
    let mut draft = Draft { method: http::Method::POST, uri: path.parse().unwrap(), headers: map, body };
    scheme.sign(&key, &mut draft, at).unwrap();
    Delivery { method: "POST", path: path.to_owned(), headers: draft.headers, body: draft.body }
}

#[allow(clippy::disallowed_methods, reason = "a provider signs at the time it sends")]
pub fn now() -> SystemTime {
    SystemTime::now()
}

impl Delivery {
    /// Unsigned.
    pub fn plain(method: &'static str, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, HeaderValue::try_from(value).unwrap());
        self
    }

    /// Once more, where it may be there already.
    pub fn also(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(name, HeaderValue::try_from(value).unwrap());
        self
    }

    pub fn at(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    pub fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    /// Over a connection of its own, HTTP/1.1.
    pub async fn send(&self, to: SocketAddr) -> Answer {
        self.try_send(to).await.unwrap()
    }

    /// The same, where there may be nobody, or somebody who leaves in the middle.
    pub async fn try_send(&self, to: SocketAddr) -> Result<Answer, Unanswered> {
        let stream = TcpStream::connect(to).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        answer(sender.send_request(self.request("localhost")).await?).await
    }

    /// Over a connection of its own, HTTP/2 with prior knowledge.
    pub async fn send_h2(&self, to: SocketAddr) -> Answer {
        let stream = TcpStream::connect(to).await.unwrap();
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        answer(sender.send_request(self.h2_request()).await.unwrap()).await.unwrap()
    }

    /// The head over HTTP/2, and a body that never comes. A whole delivery behind it on the same connection is answered
    /// first, so that the head has been read. Abort it to reset the stream.
    pub async fn begin_h2(&self, to: SocketAddr, behind: &Self) -> JoinHandle<()> {
        let stream = TcpStream::connect(to).await.unwrap();
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let beginning = sender.send_request(self.h2_request().map(|_| Either::Left(Never)));
        let begun = tokio::spawn(async move { drop(beginning.await) });
        let answered = sender.send_request(behind.h2_request().map(Either::Right)).await.unwrap();
        assert!(answered.status().is_success());
        begun
    }

    /// Writes the request and gives back the socket: drop it to hang up.
    pub async fn begin(&self, to: SocketAddr) -> Wire {
        Wire::with(to, &self.bytes()).await
    }

    /// Writes the head alone, with a body announced.
    pub async fn begin_head(&self, to: SocketAddr) -> Wire {
        Wire::with(to, &self.head(&format!("content-length: {}", self.body.len()))).await
    }

    /// The request as it goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        [&self.head(&format!("content-length: {}", self.body.len())), &self.body[..]].concat()
    }

    /// The request with its body in chunks of this size.
    pub fn chunked(&self, size: usize) -> Vec<u8> {
        let mut bytes = self.head("transfer-encoding: chunked");
        for chunk in self.body.chunks(size) {
            bytes.extend_from_slice(&[format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    fn head(&self, framing: &str) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\nhost: localhost\r\n{framing}\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    /// HTTP/2 has the host in the target.
    fn h2_request(&self) -> Request<Full<Bytes>> {
        let mut request = self.request("localhost");
        *request.uri_mut() = format!("http://localhost{}", self.path).parse().unwrap();
        request.headers_mut().remove("host");
        request
    }

    fn request(&self, host: &str) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.parse().unwrap();
        *request.uri_mut() = self.path.parse().unwrap();
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert("host", HeaderValue::try_from(host).unwrap());
        request
    }
}

/// A body that never comes.
struct Never;

impl Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

async fn answer(response: http::Response<hyper::body::Incoming>) -> Result<Answer, Unanswered> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
}
