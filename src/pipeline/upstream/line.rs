//! One connection to a consumer, in HTTP/1.1. It has no task of its own: whoever waits for its answer writes the request and reads.
//!
//! What the protocol library for servers does for both sides is done here for one: written and read by the task that waits, without
//! the channels, buffers and tasks that a connection has which anybody may ask. While it is idle it rings a bell when the
//! consumer closes it.

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::replace;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::response::Parts;
use http::{Method, StatusCode};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf, ReadHalf, split};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::unconstrained;
use tokio::time::{sleep, timeout};
use tokio_util::io::poll_read_buf;

use super::fault::Fault;
use super::framing::Framing;
use super::head::{self, Head};
use super::writing::Writing;

/// A head of this size is no answer but a fault, and so are interim answers (1xx) of this size together: a few are a sign of
/// life, whoever goes on so never answers.
const HEAD_BYTES_MAX: usize = 128 * 1024;
/// What a read has room for: a usual answer, and more where more comes.
const READ_BYTES: usize = 4 * 1024;
const READ_BYTES_MAX: usize = 64 * 1024;
/// What is too little to read into.
const READ_BYTES_MIN: usize = 1024;
/// For how long a consumer whose answer is over may go on reading what it has answered to.
const READ_ON: Duration = Duration::from_secs(10);
/// How long saying farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Boxed, since one with TLS is large, and most are without.
type Stream = Box<TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>>;

pub struct Line {
    socket: Socket,
    /// What has come and was not taken yet.
    input: BytesMut,
    /// What the next read has room for.
    room: usize,
    writing: Option<Box<Writing>>,
    /// Why the request was not written to its end. The answer may have come all the same.
    unwritten: Option<Fault>,
    /// Bytes of interim answers.
    interim: usize,
    /// What is left of the answer.
    framing: Framing,
    is_kept_alive: bool,
}

enum Socket {
    Whole(Stream),
    /// The answer came before the request was written: that goes on in a task, which hears it when nobody waits here any more.
    Apart {
        reading: ReadHalf<Stream>,
        _waits: oneshot::Receiver<Infallible>,
    },
    Gone,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// Nothing was written: here it is, whole.
    Unsent(Box<Writing>),
    Broken(Fault),
}

impl From<Fault> for NoAnswer {
    fn from(fault: Fault) -> Self {
        Self::Broken(fault)
    }
}

impl Line {
    /// Boxed: it is handed on from the pool to the call, the answer and back.
    pub fn over(stream: MaybeHttpsStream<TokioIo<TcpStream>>) -> Box<Self> {
        Box::new(Self {
            socket: Socket::Whole(Box::new(TokioIo::new(stream))),
            input: BytesMut::new(),
            room: READ_BYTES,
            writing: None,
            unwritten: None,
            interim: 0,
            framing: Framing::Sized(0),
            is_kept_alive: true,
        })
    }

    /// Whether it can take another request: the answer to the last one was read whole, and nothing came behind it.
    pub fn is_free(&self) -> bool {
        let is_whole = matches!(self.socket, Socket::Whole(_)) && self.unwritten.is_none();
        is_whole && self.is_kept_alive && self.framing.is_at_end() && self.input.is_empty()
    }

    /// Whether it is still there, and nothing has come that nobody asked for. `bell` rings when that changes.
    pub fn is_quiet(&mut self, bell: &Waker) -> bool {
        let mut byte = [0];
        let mut byte = ReadBuf::new(&mut byte);
        // Whatever the task has done before: it must not be taken for quiet for that.
        let mut read = pin!(unconstrained(poll_fn(|cx| Pin::new(&mut self.socket).poll_read(cx, &mut byte))));
        read.as_mut().poll(&mut Context::from_waker(bell)).is_pending()
    }

    /// Writes a request and waits for the head of its answer.
    pub async fn ask(&mut self, writing: Box<Writing>) -> Result<Box<Parts>, NoAnswer> {
        let method = writing.method().clone();
        (self.writing, self.interim) = (Some(writing), 0);
        let Head { parts, framing, is_kept_alive } = poll_fn(|cx| self.poll_answer(&method, cx)).await?;
        (self.framing, self.is_kept_alive) = (framing, is_kept_alive);
        if let Some(writing) = self.writing.take() {
            self.write_on(writing);
        }
        Ok(parts)
    }

    fn poll_answer(&mut self, method: &Method, cx: &mut Context<'_>) -> Poll<Result<Head, NoAnswer>> {
        if let Poll::Ready(Err(fault)) = self.poll_write(cx) {
            let unsent = self.writing.take().filter(|writing| !writing.has_begun());
            // TLS may have written some of what it calls unwritten.
            if let Some(unsent) = unsent.filter(|_| self.socket.is_plain()) {
                return Poll::Ready(Err(NoAnswer::Unsent(unsent)));
            }
            match fault {
                // A consumer may have answered, and closed, before it had read everything.
                Fault::Io(_) => self.unwritten = Some(fault),
                fault => return Poll::Ready(Err(fault.into())),
            }
        }
        let head = ready!(self.poll_head(method, cx));
        Poll::Ready(head.map_err(|fault| self.unwritten.take().unwrap_or(fault).into()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let (Some(writing), Socket::Whole(stream)) = (&mut self.writing, &mut self.socket) else { return Poll::Ready(Ok(())) };
        ready!(writing.poll(stream, cx))?;
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    /// Reads until there is a head that is no interim one.
    fn poll_head(&mut self, method: &Method, cx: &mut Context<'_>) -> Poll<Result<Head, Fault>> {
        loop {
            let before = self.input.len();
            if ready!(self.poll_read(cx))? == 0 {
                return Poll::Ready(Err(Fault::Closed));
            }
            // A head ends with a line: what comes drop by drop is not read from the beginning with every drop.
            if before > 0 && memchr(b'\n', &self.input[before..]).is_none() {
                self.within_measure()?;
                continue;
            }
            while !self.input.is_empty() {
                let before = self.input.len();
                match head::read(&mut self.input, method)? {
                    Some(head) if is_interim(head.parts.status) => self.interim += before - self.input.len(),
                    Some(head) => return Poll::Ready(Ok(head)),
                    None => break,
                }
            }
            self.within_measure()?;
        }
    }

    fn within_measure(&self) -> Result<(), Fault> {
        if self.interim + self.input.len() > HEAD_BYTES_MAX { Err(Fault::Endless) } else { Ok(()) }
    }

    /// The next piece of the answer's body.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        loop {
            if let Some(piece) = self.framing.take(&mut self.input)? {
                return Poll::Ready(Some(Ok(piece)));
            }
            if self.framing.is_at_end() {
                return Poll::Ready(None);
            }
            // After a fault of writing, which takes the socket's only word of it, an end is no proof that all has come.
            if ready!(self.poll_read(cx))? == 0 && (self.unwritten.is_some() || !self.framing.closed()) {
                return Poll::Ready(Some(Err(Fault::Closed)));
            }
        }
    }

    /// Whether the answer's body is known to be at its end.
    pub fn is_at_end(&self) -> bool {
        self.framing.is_at_end()
    }

    /// How much of the answer's body is still to be taken, where that is known.
    pub fn left(&self) -> Option<u64> {
        self.framing.left()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Fault>> {
        if self.input.capacity() - self.input.len() < READ_BYTES_MIN {
            self.input.reserve(self.room);
        }
        let room = self.input.capacity() - self.input.len();
        let read = ready!(poll_read_buf(Pin::new(&mut self.socket), cx, &mut self.input));
        if read.as_ref().is_ok_and(|read| *read == room) {
            self.room = (self.room * 2).min(READ_BYTES_MAX);
        }
        Poll::Ready(read.map_err(Fault::Io))
    }

    /// Has the rest of a request written by a task of its own. A consumer that has answered may still want all of it, and whoever
    /// sends it may say everything before it takes the answer.
    fn write_on(&mut self, mut writing: Box<Writing>) {
        let Socket::Whole(stream) = replace(&mut self.socket, Socket::Gone) else { return };
        let (reading, mut stream) = split(stream);
        let (mut line, waits) = oneshot::channel();
        self.socket = Socket::Apart { reading, _waits: waits };
        tokio::spawn(async move {
            let patience = async {
                line.closed().await;
                sleep(READ_ON).await;
            };
            tokio::select! {
                _ = poll_fn(|cx| writing.poll(&mut stream, cx)) => {}
                () = patience => {}
            }
            // Its body may be large, and the answer may take long.
            drop(writing);
            line.closed().await;
            let _ = timeout(FAREWELL, stream.shutdown()).await;
        });
    }
}

impl Socket {
    fn is_plain(&self) -> bool {
        matches!(self, Self::Whole(stream) if matches!(stream.inner(), MaybeHttpsStream::Http(_)))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Whole(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Apart { reading, .. } => Pin::new(reading).poll_read(cx, buffer),
            Self::Gone => Poll::Ready(Ok(())),
        }
    }
}

impl Drop for Line {
    /// TLS has a farewell, without which the other side takes an end for a fault.
    fn drop(&mut self) {
        let Socket::Whole(mut stream) = replace(&mut self.socket, Socket::Gone) else { return };
        // Without a runtime the process is at its end.
        if let (MaybeHttpsStream::Https(_), Ok(runtime)) = (stream.inner(), Handle::try_current()) {
            runtime.spawn(async move { timeout(FAREWELL, stream.shutdown()).await });
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("framing", &self.framing).finish_non_exhaustive()
    }
}

/// Whether another answer follows. Who switches to another protocol has said the last word in this one.
fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

#[cfg(test)]
mod tests;
