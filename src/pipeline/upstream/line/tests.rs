use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use http::Request;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;
use crate::pipeline::body::Outgoing;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A line, and the consumer at its other end.
async fn pair() -> (Box<Line>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    far.set_nodelay(true).unwrap();
    (Line::over(MaybeHttpsStream::Http(TokioIo::new(near))), far)
}

fn posting(body: impl Into<Bytes>) -> Box<Writing> {
    let (parts, ()) = Request::post("/hook").header("host", "a").body(()).unwrap().into_parts();
    Writing::of(Box::new(parts), &[], Outgoing::Whole(body.into()))
}

async fn body(line: &mut Line) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    while let Some(piece) = poll_fn(|cx| line.poll_piece(cx)).await {
        body.extend_from_slice(&piece?);
    }
    Ok(body)
}

/// What is made of an answer, and whether the line can be used again.
async fn heard(answer: &'static [u8], byte_by_byte: bool) -> (StatusCode, Vec<u8>, bool) {
    let (mut line, mut far) = pair().await;
    let saying = async {
        if !byte_by_byte {
            return far.write_all(answer).await.unwrap();
        }
        for byte in answer {
            far.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let (parts, ()) = tokio::join!(line.ask(posting("{}")), saying);
    let body = body(&mut line).await.unwrap();
    (parts.unwrap().status, body, line.is_free())
}

#[tokio::test]
async fn an_answer_is_the_same_however_it_comes() {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\nx: y\r\n\r\n";
    let interim =
        b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 102 X\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for answer in [OK, chunked, interim] {
        for byte_by_byte in [false, true] {
            assert_eq!(heard(answer, byte_by_byte).await, (StatusCode::OK, b"ok".to_vec(), true), "{byte_by_byte}");
        }
    }
}

#[tokio::test]
async fn a_line_on_which_more_has_come_is_not_used_again() {
    let twice = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    assert_eq!(heard(twice, false).await, (StatusCode::OK, b"ok".to_vec(), false));
    let closing = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    assert_eq!(heard(closing, false).await, (StatusCode::OK, b"ok".to_vec(), false));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_fault() {
    let (mut line, mut far) = pair().await;
    far.write_all(&OK[..OK.len() - 1]).await.unwrap();
    far.shutdown().await.unwrap();
    line.ask(posting("{}")).await.unwrap();
    assert!(matches!(body(&mut line).await, Err(Fault::Closed)));
    assert!(!line.is_free());
}

/// Nothing has left, so that it may go another way. What came back is what would have been written.
#[tokio::test]
async fn what_cannot_be_written_at_all_comes_back_whole() {
    let (mut line, far) = pair().await;
    far.set_zero_linger().unwrap();
    drop(far);
    // Its end has come once it is no longer quiet.
    while line.is_quiet(Waker::noop()) {
        tokio::task::yield_now().await;
    }
    let Err(NoAnswer::Unsent(unsent)) = line.ask(posting("whole")).await else { panic!("it was sent") };
    let (mut other, mut far) = pair().await;
    far.write_all(OK).await.unwrap();
    other.ask(unsent).await.unwrap();
    drop(other);
    let mut came = String::new();
    far.read_to_string(&mut came).await.unwrap();
    assert_eq!(came, "POST /hook HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nwhole");
}

/// A consumer may answer first and read afterwards: it gets everything, also when nobody waits here any more.
#[tokio::test]
async fn what_was_answered_early_is_written_to_its_end() {
    const BODY: usize = 16 << 20;
    let (mut line, mut far) = pair().await;
    far.write_all(OK).await.unwrap();
    line.ask(posting(vec![b'x'; BODY])).await.unwrap();
    assert_eq!(body(&mut line).await.unwrap(), b"ok");
    assert!(!line.is_free(), "it still writes");
    drop(line);
    let mut came = Vec::new();
    far.read_to_end(&mut came).await.unwrap();
    assert!(came.len() > BODY && came.ends_with(&[b'x'; 1024]), "{}", came.len());
}

#[tokio::test]
async fn a_consumer_that_answers_and_closes_before_it_has_read_everything_is_heard() {
    let (mut line, mut far) = pair().await;
    far.write_all(b"HTTP/1.1 413 No\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    far.shutdown().await.unwrap();
    let parts = line.ask(posting(vec![b'x'; 16 << 20])).await.unwrap();
    assert_eq!((parts.status, line.is_free()), (StatusCode::PAYLOAD_TOO_LARGE, false));
}

/// A reset may take the answer with it. That it was never sent it does not mean.
#[tokio::test]
async fn a_consumer_that_answers_and_resets_is_heard_or_unknown_and_never_unasked() {
    let (mut line, mut far) = pair().await;
    let asking = line.ask(posting(vec![b'x'; 16 << 20]));
    let answering = async {
        far.read_exact(&mut [0]).await.unwrap();
        far.write_all(b"HTTP/1.1 413 No\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        // What it has not read makes this a reset.
        drop(far);
    };
    match tokio::join!(asking, answering).0 {
        Ok(parts) => assert_eq!(parts.status, StatusCode::PAYLOAD_TOO_LARGE),
        Err(NoAnswer::Broken(fault)) => assert!(matches!(fault, Fault::Io(_) | Fault::Closed), "{fault:?}"),
        Err(NoAnswer::Unsent(_)) => panic!("some of it was read"),
    }
    assert!(!line.is_free());
}

/// A body that nobody else holds any more once it is dropped.
struct Watched(Vec<u8>, Arc<AtomicBool>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_body_that_is_written_is_let_go_of_however_long_its_answer_takes() {
    const BODY: usize = 16 << 20;
    let ((mut line, mut far), is_gone) = (pair().await, Arc::<AtomicBool>::default());
    far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await.unwrap();
    let body = Bytes::from_owner(Watched(vec![b'x'; BODY], Arc::clone(&is_gone)));
    line.ask(posting(body)).await.unwrap();
    assert!(!is_gone.load(Ordering::SeqCst), "it was answered before it was written");
    let (mut read, mut room) = (0, vec![0; 1 << 16]);
    while read < BODY {
        read += far.read(&mut room).await.unwrap();
    }
    while !is_gone.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    far.write_all(b"ok").await.unwrap();
    assert_eq!(self::body(&mut line).await.unwrap(), b"ok");
}

#[derive(Default)]
struct Rung(AtomicBool);

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn an_idle_line_rings_when_it_is_closed() {
    let (mut line, far) = pair().await;
    let rung = Arc::<Rung>::default();
    assert!(line.is_quiet(&Arc::clone(&rung).into()));
    assert!(!rung.0.load(Ordering::SeqCst));
    drop(far);
    while !rung.0.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    assert!(!line.is_quiet(Waker::noop()));
}
