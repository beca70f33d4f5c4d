//! One connection to a consumer. It is driven by whoever waits for its answer, which costs no task of its own, and no word
//! from that to the delivery's; while it is idle nobody looks after it, and whoever takes it up finds out what became of it.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::unconstrained;
use tokio_util::io::InspectReader;

use crate::pipeline::body::Outgoing;

/// A consumer's head, and what is read ahead of its body. A head of this size is no answer but a fault, and so are interim
/// answers (1xx) of this size together: a few are a sign of life, whoever goes on so never answers.
const HEAD_BYTES_MAX: usize = 128 * 1024;

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type Metered = InspectReader<TokioIo<Stream>, Box<dyn FnMut(&[u8]) + Send>>;
type Driver = Connection<TokioIo<Metered>, Outgoing>;

pub struct Line {
    sender: SendRequest<Outgoing>,
    /// Nothing, once it has ended: why, the request's own future tells.
    driver: Option<Box<Driver>>,
    /// Bytes that came since the last request.
    read: Arc<AtomicUsize>,
    is_tls: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The request was never written: here it is, whole.
    Unsent(Box<Request<Outgoing>>),
    Broken(hyper::Error),
    /// Interim answers without end.
    Interim,
}

impl Line {
    pub async fn over(stream: Stream) -> Result<Self, hyper::Error> {
        let read = Arc::new(AtomicUsize::new(0));
        let is_tls = matches!(stream, MaybeHttpsStream::Https(_));
        let count = Arc::clone(&read);
        let metered: Metered =
            InspectReader::new(TokioIo::new(stream), Box::new(move |bytes| _ = count.fetch_add(bytes.len(), Relaxed)));
        let (sender, driver) = client().handshake(TokioIo::new(metered)).await?;
        Ok(Self { sender, driver: Some(Box::new(driver)), read, is_tls })
    }

    /// Has it driven by a task of its own from now on, to its end: what is still to be written does not wait for whoever reads.
    pub fn let_go(&mut self) {
        // Without a runtime the process is at its end.
        if let (Some(driver), Ok(runtime)) = (self.driver.take(), Handle::try_current()) {
            // Why it ends, the request's own future tells.
            runtime.spawn(driver);
        }
    }

    /// Moves what is to be written, and what has come.
    pub fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }

    /// Whether it can take a request now. One that cannot is closed, or still writes the last one.
    pub fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Finds out whether it can take a request, or never will.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.drive(cx);
        self.sender.poll_ready(cx).map(|ready| ready.is_ok())
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn ask(&mut self, request: Box<Request<Outgoing>>) -> Result<Response<Incoming>, NoAnswer> {
        let Self { sender, driver, read, .. } = self;
        read.store(0, Relaxed);
        // Whatever the task has done before: an answer that is put off for its sake would be so without a word.
        let mut answer = pin!(unconstrained(sender.try_send_request(*request)));
        std::future::poll_fn(|cx| {
            drive(driver, cx);
            // Where it is driven here, the answer comes from there alone: there is nothing to be woken for when it does.
            let polled = match driver {
                Some(_) => answer.as_mut().poll(&mut Context::from_waker(Waker::noop())),
                None => answer.as_mut().poll(cx),
            };
            match polled {
                Poll::Pending if read.load(Relaxed) > HEAD_BYTES_MAX => Poll::Ready(Err(NoAnswer::Interim)),
                polled => polled.map_err(NoAnswer::from),
            }
        })
        .await
    }
}

impl Drop for Line {
    /// TLS has a farewell, without which the other side takes an end for a fault.
    fn drop(&mut self) {
        if self.is_tls {
            self.let_go();
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("sender", &self.sender).finish_non_exhaustive()
    }
}

fn drive(driver: &mut Option<Box<Driver>>, cx: &mut Context<'_>) {
    driver.take_if(|driver| Pin::new(driver.as_mut()).poll(cx).is_ready());
}

impl From<TrySendError<Request<Outgoing>>> for NoAnswer {
    fn from(mut refused: TrySendError<Request<Outgoing>>) -> Self {
        match refused.take_message() {
            // The connection had been closed.
            Some(unsent) => Self::Unsent(Box::new(unsent)),
            None => Self::Broken(refused.into_error()),
        }
    }
}

/// How a consumer is spoken with. Header fields are as many as hyper has room for on the stack, which is 100.
fn client() -> http1::Builder {
    let mut client = http1::Builder::new();
    // The default, stated: bytes without a head are no answer.
    client.max_buf_size(HEAD_BYTES_MAX).http09_responses(false);
    client
}
