//! One connection to a server, shared by the calls of a runtime. It is made with the first of them, and anew with the first
//! that comes after it broke.
//!
//! Calls leave what they ask, and a task writes all of it at once, reads what comes and hands it out in the order of the
//! asking. What is asked while other tasks run shares one write, one read, and one timer for those whose time is up.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem::{replace, swap, take};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use redis::{Cmd, ErrorKind, RedisError, Value};
use tokio::io::AsyncWrite;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tokio_util::io::poll_read_buf;

use super::dial::{Dialer, Stream};
use super::reply;
use super::roll::Roll;
use crate::config::Address;

/// Calls that may wait for one server. With more, it is no longer asked: it does not answer, or not soon enough.
const UNANSWERED_MAX: usize = 4096;
/// What may wait to be written, beside what is being written. A server that does not read must not hold what its callers have
/// given up long ago.
const UNWRITTEN_BYTES_MAX: usize = 32 << 20;
/// What a read has room for: the answers to a few dozen calls.
const READ_BYTES: usize = 8 * 1024;
/// What is kept for the next calls. A letter needs more, and gives it back.
const KEPT_BYTES: usize = 64 * 1024;

type Answer = Result<Value, RedisError>;

pub(super) struct Wire(Arc<Post>);

struct Post {
    address: Address,
    dialer: Dialer,
    roll: Arc<Roll>,
    // A std mutex: never held across an await, and for a few instructions.
    state: Mutex<State>,
}

enum State {
    Down,
    /// Who waits for it.
    Dialing(Vec<oneshot::Sender<Result<(), RedisError>>>),
    Up(Traffic),
}

#[derive(Default)]
struct Traffic {
    /// What is still to be written.
    output: Vec<u8>,
    /// Who waits, in the order of the answers.
    unanswered: VecDeque<Asked>,
    /// When the time of one of them is up, or of one that was answered since.
    alarm: Option<Instant>,
    driver: Option<Waker>,
}

struct Asked {
    until: Instant,
    /// `None` where nobody wants it.
    answer: Option<oneshot::Sender<Answer>>,
}

impl Wire {
    /// Connects to nobody yet.
    pub fn new(address: Address, dialer: Dialer, roll: Arc<Roll>) -> Self {
        Self(Arc::new(Post { address, dialer, roll, state: Mutex::new(State::Down) }))
    }

    /// Asks the server. `asking` is for a slot of a Cluster that is still on its way to it: said with the command in one
    /// piece, as it counts for whichever comes next.
    pub async fn ask(&self, command: &Cmd, asking: bool, until: Instant) -> Answer {
        let answer = match self.0.leave(command, asking, until) {
            Some(answer) => answer?,
            // Boxed: it is rare, and large.
            None => {
                Box::pin(self.0.connected(until)).await?;
                self.0.leave(command, asking, until).ok_or_else(broken)??
            }
        };
        answer.await.map_err(|_| broken())??.extract_error()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The task ends when it finds this. Nobody waits: whoever asks holds on to what it asks by.
        if let State::Up(Traffic { driver: Some(driver), .. }) = replace(&mut *self.0.state(), State::Down) {
            driver.wake();
        }
    }
}

impl Post {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a command to be written; `None` where there is no connection.
    fn leave(&self, command: &Cmd, asking: bool, until: Instant) -> Option<Result<oneshot::Receiver<Answer>, RedisError>> {
        let mut state = self.state();
        let State::Up(traffic) = &mut *state else { return None };
        if traffic.unanswered.len() >= UNANSWERED_MAX || traffic.output.len() >= UNWRITTEN_BYTES_MAX {
            return Some(Err(RedisError::from((ErrorKind::Io, "too many calls wait for an answer"))));
        }
        let is_first = traffic.output.is_empty();
        if asking {
            redis::cmd("ASKING").write_packed_command(&mut traffic.output);
            traffic.unanswered.push_back(Asked { until, answer: None });
        }
        command.write_packed_command(&mut traffic.output);
        let (answer, answered) = oneshot::channel();
        traffic.unanswered.push_back(Asked { until, answer: Some(answer) });
        let is_earlier = traffic.alarm.is_none_or(|alarm| until < alarm);
        if is_earlier {
            traffic.alarm = Some(until);
        }
        // Whoever finds something to be written knows that the task has been called.
        if (is_first || is_earlier)
            && let Some(driver) = &traffic.driver
        {
            driver.wake_by_ref();
        }
        Some(Ok(answered))
    }

    /// Waits until there is a connection; makes it where nobody does.
    async fn connected(self: &Arc<Self>, until: Instant) -> Result<(), RedisError> {
        let (up, is_up) = oneshot::channel();
        let is_first = match &mut *self.state() {
            State::Up(_) => return Ok(()),
            State::Dialing(waiting) => {
                waiting.push(up);
                false
            }
            state @ State::Down => {
                *state = State::Dialing(vec![up]);
                true
            }
        };
        // A runtime that ends drops the task on the spot, which takes the lock.
        if is_first {
            tokio::spawn(drive(Watch(Arc::clone(self))));
        }
        match timeout_at(until, is_up).await {
            Ok(made) => made.map_err(|_| broken())?,
            Err(_) => Err(late()),
        }
    }

    /// Calls may come, unless it was dropped meanwhile.
    fn open(&self) -> bool {
        let mut state = self.state();
        let State::Dialing(waiting) = &mut *state else { return false };
        let waiting = take(waiting);
        *state = State::Up(Traffic::default());
        drop(state);
        waiting.into_iter().for_each(|up| drop(up.send(Ok(()))));
        true
    }

    /// There is no connection any more, or there was none to be had.
    fn close(&self, why: &RedisError) {
        match replace(&mut *self.state(), State::Down) {
            State::Down => {}
            State::Dialing(waiting) => waiting.into_iter().for_each(|up| drop(up.send(Err(why.clone())))),
            State::Up(traffic) => traffic.unanswered.into_iter().for_each(|asked| asked.tell(Err(why.clone()))),
        }
    }
}

impl Asked {
    fn tell(self, answer: Answer) {
        // Who no longer waits does not want it.
        self.answer.map(|waiting| waiting.send(answer));
    }
}

/// Nobody waits for a task that is gone with its runtime.
struct Watch(Arc<Post>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.close(&broken());
    }
}

async fn drive(watch: Watch) {
    let post = &watch.0;
    let why = match post.dialer.dial(&post.address, &post.roll).await {
        Ok(_) if !post.open() => return,
        Ok(stream) => {
            let mut driver = pin!(Driver::new(post, stream));
            poll_fn(|cx| driver.as_mut().poll(cx)).await
        }
        Err(why) => why,
    };
    post.close(&why);
}

/// Writes, reads and keeps the time, as long as the connection lasts.
struct Driver<'a> {
    post: &'a Post,
    stream: Stream,
    output: Vec<u8>,
    /// How much of `output`.
    written: usize,
    input: BytesMut,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<'a> Driver<'a> {
    fn new(post: &'a Post, stream: Stream) -> Self {
        Self { post, stream, output: Vec::new(), written: 0, input: BytesMut::new(), alarm: None }
    }

    /// Ready with why the connection is over.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RedisError> {
        let this = self.get_mut();
        if let Poll::Ready(Err(why)) = this.poll_write(cx) {
            return Poll::Ready(why.into());
        }
        if let Err(why) = this.poll_read(cx) {
            return Poll::Ready(why);
        }
        match this.poll_alarm(cx) {
            Ok(()) => Poll::Pending,
            Err(why) => Poll::Ready(why),
        }
    }

    /// Ready once nothing is left to be written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.written == self.output.len() && !self.take_output(cx) {
                return Pin::new(&mut self.stream).poll_flush(cx);
            }
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.output[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
    }

    /// Takes what was left to be written, and has itself called when there is more.
    fn take_output(&mut self, cx: &Context<'_>) -> bool {
        self.output.clear();
        self.output.shrink_to(KEPT_BYTES);
        self.written = 0;
        let mut state = self.post.state();
        let State::Up(traffic) = &mut *state else { return false };
        swap(&mut self.output, &mut traffic.output);
        if !traffic.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            traffic.driver = Some(cx.waker().clone());
        }
        !self.output.is_empty()
    }

    /// Reads what there is, and hands it out.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Result<(), RedisError> {
        loop {
            if self.input.capacity() - self.input.len() < READ_BYTES / 2 {
                self.input.reserve(READ_BYTES);
            }
            match poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.input) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(broken()),
                Poll::Ready(Ok(_)) => {
                    self.hand_out()?;
                    if self.input.is_empty() && self.input.capacity() > KEPT_BYTES {
                        self.input = BytesMut::new();
                    }
                }
                Poll::Ready(Err(error)) => return Err(error.into()),
            }
        }
    }

    fn hand_out(&mut self) -> Result<(), RedisError> {
        while let Some(value) = reply::take(&mut self.input)? {
            let asked = match &mut *self.post.state() {
                State::Up(traffic) => traffic.unanswered.pop_front(),
                State::Down | State::Dialing(_) => None,
            };
            let unasked = || RedisError::from((ErrorKind::Io, "the server answers what nobody asked"));
            asked.ok_or_else(unasked)?.tell(Ok(value));
        }
        Ok(())
    }

    /// Tells those whose time is up. Their answers may still come, in their turn, and are dropped then. An error where
    /// the connection is not wanted any more.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Result<(), RedisError> {
        loop {
            let until = match &*self.post.state() {
                State::Up(traffic) => traffic.alarm,
                State::Down | State::Dialing(_) => return Err(broken()),
            };
            let Some(until) = until else { return Ok(()) };
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if alarm.deadline() != until {
                alarm.as_mut().reset(until);
            }
            if alarm.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
            self.tell_the_time();
        }
    }

    fn tell_the_time(&self) {
        let now = Instant::now();
        let State::Up(traffic) = &mut *self.post.state() else { return };
        for asked in traffic.unanswered.iter_mut().filter(|asked| asked.until <= now) {
            asked.answer.take().map(|waiting| waiting.send(Err(late())));
        }
        let waiting = traffic.unanswered.iter().filter(|asked| asked.answer.is_some());
        traffic.alarm = waiting.map(|asked| asked.until).min();
    }
}

/// The connection is gone, and nobody said why.
fn broken() -> RedisError {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection was closed").into()
}

pub(super) fn late() -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into()
}

#[cfg(test)]
mod tests;
