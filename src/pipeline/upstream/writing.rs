//! A request on its way out: what of it is still to be written.

use std::io::{self, Cursor};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, header};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::io::AsyncWrite;
use tokio::task::yield_now;
use tokio_util::io::poll_write_buf;

use super::fault::Fault;
use super::head;
use crate::pipeline::body::Outgoing;

/// So much is written before others on this core have their turn: the kernel takes megabytes at once from whom it can, and a
/// consumer that reads as fast would be written to without end.
const TURN_BYTES: usize = 512 * 1024;

/// A head or the line before a chunk, what follows it, and the end of its line: one write for all of it.
type Pending = Chain<Cursor<Vec<u8>>, Chain<Bytes, &'static [u8]>>;

#[derive(Debug)]
pub struct Writing {
    method: Method,
    pending: Pending,
    /// What is to be read, and then written, after that.
    source: Option<Source>,
    has_begun: bool,
}

/// A body that is passed on as it comes.
#[derive(Debug)]
struct Source {
    body: Incoming,
    /// What is left of the length that was said; without one it goes in chunks.
    left: Option<u64>,
}

impl Writing {
    /// Boxed: it is handed on a few times before it is written.
    pub fn of(mut parts: Box<Parts>, beside: &[(HeaderName, HeaderValue)], body: Outgoing) -> Box<Self> {
        let (data, source) = match body {
            Outgoing::Whole(whole) => (whole, None),
            Outgoing::Stream(body) if body.is_end_stream() => (Bytes::new(), None),
            Outgoing::Stream(body) => (Bytes::new(), Some(Source { left: body.size_hint().exact(), body })),
        };
        frame(&mut parts, source.as_ref().map_or(Some(data.len() as u64), |source| source.left));
        Box::new(Self {
            pending: pending(head::write(&parts, beside), data, b""),
            method: parts.method,
            source,
            has_begun: false,
        })
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Whether a byte of it has left. Before that, it can be written elsewhere.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Writes what can be written; ready once all of it is. Of what is long it writes a part, and asks to be called again.
    pub fn poll(&mut self, stream: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let mut turn = TURN_BYTES;
        loop {
            while self.pending.has_remaining() {
                let mut part = (&mut self.pending).take(turn);
                let written = ready!(poll_write_buf(Pin::new(&mut *stream), cx, &mut part)).map_err(Fault::Io)?;
                if written == 0 {
                    return Poll::Ready(Err(Fault::Io(io::ErrorKind::WriteZero.into())));
                }
                self.has_begun = true;
                turn -= written;
                if turn == 0 {
                    // Called again once sockets were looked at: a wake alone would only let in who is ready already.
                    let _ = pin!(yield_now()).poll(cx);
                    return Poll::Pending;
                }
            }
            let Some(source) = &mut self.source else { break };
            match source.poll_data(cx)? {
                Poll::Ready(Some(data)) => self.pending = source.framed(data)?,
                Poll::Ready(None) => {
                    self.pending = source.last()?;
                    self.source = None;
                }
                // What has come so far is not kept back: TLS may hold some of it.
                Poll::Pending => {
                    let _ = Pin::new(stream).poll_flush(cx).map_err(Fault::Io)?;
                    return Poll::Pending;
                }
            }
        }
        Pin::new(stream).poll_flush(cx).map_err(Fault::Io)
    }
}

impl Source {
    /// The next piece, without trailers, which are not passed on.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose().map_err(Fault::Source)? {
                None => return Poll::Ready(Ok(None)),
                Some(frame) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Ok(Some(data))),
                    Ok(_) | Err(_) => {}
                },
            }
        }
    }

    /// Never more than was said: what is beyond would be taken for the next request.
    fn framed(&mut self, data: Bytes) -> Result<Pending, Fault> {
        let Some(left) = &mut self.left else { return Ok(pending(format!("{:x}\r\n", data.len()).into(), data, b"\r\n")) };
        *left = left.checked_sub(data.len() as u64).ok_or(Fault::Misfit)?;
        Ok(pending(Vec::new(), data, b""))
    }

    fn last(&self) -> Result<Pending, Fault> {
        match self.left {
            None => Ok(pending(Vec::new(), Bytes::new(), b"0\r\n\r\n")),
            Some(0) => Ok(pending(Vec::new(), Bytes::new(), b"")),
            Some(_) => Err(Fault::Misfit),
        }
    }
}

/// Says how long the body is, or that it comes in chunks; a coding that it came in has been taken off (`headers`). What is there
/// whole is as long as it is, whatever was said of it: a consumer that waits for more would take the next request for it.
fn frame(parts: &mut Parts, length: Option<u64>) {
    let is_usual = |method: &Method| matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    match length {
        // Nobody expects a body, and nobody has spoken of one.
        Some(0) if !is_usual(&parts.method) && !parts.headers.contains_key(header::CONTENT_LENGTH) => {}
        Some(length) => _ = parts.headers.insert(header::CONTENT_LENGTH, length.into()),
        None => {
            parts.headers.remove(header::CONTENT_LENGTH);
            parts.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
}

fn pending(head: Vec<u8>, data: Bytes, end: &'static [u8]) -> Pending {
    Cursor::new(head).chain(data.chain(end))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn framed(method: &str, said: Option<&'static str>, length: Option<u64>) -> Vec<(String, String)> {
        let (mut parts, ()) = Request::builder().method(method).body(()).unwrap().into_parts();
        if let Some(said) = said {
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static(said));
        }
        frame(&mut parts, length);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    /// Takes everything at once.
    struct Greedy(usize);

    impl AsyncWrite for Greedy {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0 += bytes.len();
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_long_body_is_written_in_turns() {
        let (parts, ()) = Request::builder().method("POST").body(()).unwrap().into_parts();
        let body = Bytes::from(vec![b'x'; 3 * TURN_BYTES]);
        let mut writing = Writing::of(parts.into(), &[], Outgoing::Whole(body));
        let (mut stream, mut turns) = (Greedy(0), Vec::new());
        // Without a wake in each turn, this would wait for ever.
        std::future::poll_fn(|cx| {
            let before = stream.0;
            let polled = writing.poll(&mut stream, cx);
            turns.push(stream.0 - before);
            polled
        })
        .await
        .unwrap();
        let (rest, whole) = turns.split_last().unwrap();
        assert_eq!(whole, [TURN_BYTES; 3]);
        assert!((1..TURN_BYTES).contains(rest), "the head, and nothing else, is left for the last one: {rest}");
    }

    #[test]
    fn a_request_says_how_long_it_is() {
        let length = |length: &str| vec![("content-length".to_owned(), length.to_owned())];
        assert_eq!(framed("POST", None, Some(0)), length("0"));
        assert_eq!(framed("POST", Some("7"), Some(5)), length("5"));
        assert_eq!(framed("GET", Some("0"), Some(0)), length("0"));
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            assert_eq!(framed(method, None, Some(0)), []);
        }
        let chunked = [("transfer-encoding".to_owned(), "chunked".to_owned())];
        assert_eq!(framed("POST", Some("7"), None), chunked);
    }
}
