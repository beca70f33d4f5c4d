//! A consumer that keeps a ledger, and behaves as the dice say. It reads and writes its connections itself: a server's
//! library would not let it misbehave.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::dice::Dice;
use super::history::{Clock, Forward, digest};
use super::plan::Plan;
use super::provider::PLACE;

/// Longer than any proxy of a round waits for an answer.
const HANG: Duration = Duration::from_secs(5);
const HEADERS_MAX: usize = 64;
/// How much is shown of what is no delivery.
const GARBLED_MAX: usize = 200;

/// What it does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Takes effect and says so.
    Accept { after: Duration },
    /// Takes no effect and says so.
    Refuse { status: u16, after: Duration },
    /// The connection ends without an answer, before or after it took effect.
    Vanish { takes_effect: bool, resets: bool },
    /// Takes effect, and the head of the answer breaks off.
    BreakOffHead,
    /// Takes effect, and the body of the answer breaks off: the head has said it all.
    BreakOffBody,
    /// Takes effect, and never answers.
    EffectThenHang,
    /// Takes effect when nobody waits any more.
    HangThenEffect { after: Duration },
}

impl Act {
    /// Whether the proxy is told how it ended.
    fn is_clear(self) -> bool {
        matches!(self, Self::Accept { .. } | Self::Refuse { .. } | Self::BreakOffBody)
    }

    fn takes_effect_first(self) -> bool {
        match self {
            Self::Accept { .. } | Self::BreakOffHead | Self::BreakOffBody | Self::EffectThenHang => true,
            Self::Vanish { takes_effect, .. } => takes_effect,
            Self::Refuse { .. } | Self::HangThenEffect { .. } => false,
        }
    }

    /// By its temper, in a thousand.
    fn of(dice: &mut Dice, fails: usize) -> Self {
        let after = dice.millis(0..20);
        if !dice.permille(fails) {
            return Self::Accept { after };
        }
        match dice.below(12) {
            0..4 => Self::Refuse { status: *dice.pick(&[500, 503, 429, 404, 400, 302]), after },
            4 => Self::Accept { after: dice.millis(300..700) },
            5 | 6 => Self::Vanish { takes_effect: dice.permille(500), resets: true },
            7 => Self::Vanish { takes_effect: dice.permille(500), resets: false },
            8 => Self::BreakOffHead,
            9 => Self::BreakOffBody,
            10 => Self::EffectThenHang,
            _ => Self::HangThenEffect { after: dice.millis(900..1500) },
        }
    }
}

/// Serves until dropped.
pub struct Consumer {
    pub address: SocketAddr,
    books: Arc<Books>,
    serving: AbortHandle,
}

struct Books {
    clock: Clock,
    dice: Dice,
    fails: usize,
    behaves: AtomicBool,
    ledger: Mutex<Vec<Forward>>,
    garbled: Mutex<Vec<String>>,
}

impl Consumer {
    pub async fn start(plan: &Plan, clock: Clock) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let books = Books {
            clock,
            dice: plan.dice().aside(1),
            fails: plan.consumer_fails,
            behaves: AtomicBool::new(false),
            ledger: Mutex::default(),
            garbled: Mutex::default(),
        };
        let books = Arc::new(books);
        let serving = tokio::spawn(accept(listener, Arc::clone(&books))).abort_handle();
        Self { address, books, serving }
    }

    /// From now on it accepts everything.
    pub fn behave(&self) {
        self.books.behaves.store(true, Ordering::Relaxed);
    }

    pub fn ledger(&self) -> Vec<Forward> {
        self.books.ledger.lock().unwrap().clone()
    }

    /// What came and was no delivery.
    pub fn garbled(&self) -> Vec<String> {
        self.books.garbled.lock().unwrap().clone()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, books: Arc<Books>) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => drop(open.spawn(serve(stream, Arc::clone(&books)))),
            Some(_) = open.join_next() => {}
        }
    }
}

/// Answers requests until the connection, or its patience with it, ends.
async fn serve(mut stream: TcpStream, books: Arc<Books>) {
    let mut read = Vec::new();
    loop {
        let request = match Seen::read(&mut stream, &mut read).await {
            Ok(Some(request)) => request,
            Err(error) if error.kind() == ErrorKind::InvalidData => return books.garbled(&read),
            Ok(None) | Err(_) => return,
        };
        let (row, act) = books.write_down(request);
        if !matches!(books.perform(act, row, &mut stream).await, Ok(true)) {
            return;
        }
    }
}

/// What the ledger needs of a request.
struct Seen {
    event: usize,
    id: Option<String>,
    mark: Option<String>,
    body: Vec<u8>,
}

impl Seen {
    /// The next request; `None` where the connection ends between two.
    async fn read(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Option<Self>> {
        loop {
            if let Some((seen, length)) = Self::parse(read).map_err(|why| io::Error::new(ErrorKind::InvalidData, why))? {
                read.drain(..length);
                return Ok(Some(seen));
            }
            if stream.read_buf(read).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// A whole request and its length, if it is there.
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Box<dyn Error + Send + Sync>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(head) = request.parse(bytes)? else { return Ok(None) };
        let header = |name: &str| {
            let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            Some(String::from_utf8_lossy(found.value).into_owned())
        };
        let length: usize = header("content-length").ok_or("no length")?.parse()?;
        let Some(body) = bytes.get(head..head + length) else { return Ok(None) };
        let event = header(PLACE).ok_or("no event")?.parse()?;
        let (id, mark) = (header("hookonce-event-id"), header("hookonce-maybe-duplicate"));
        Ok(Some((Self { event, id, mark, body: body.to_vec() }, head + length)))
    }
}

impl Books {
    /// Notes a request, and decides what becomes of it by how often its event has come.
    fn write_down(&self, seen: Seen) -> (usize, Act) {
        let Seen { event, id, mark, body } = seen;
        let mut ledger = self.ledger.lock().unwrap();
        let nth = ledger.iter().filter(|forward| forward.event == event).count();
        let fails = if self.behaves.load(Ordering::Relaxed) { 0 } else { self.fails };
        let act = Act::of(&mut self.dice.aside(event as u64).aside(nth as u64), fails);
        let (began, is_clear) = (self.clock.now(), act.is_clear());
        ledger.push(Forward { event, id, mark, body: digest(&body), began, is_clear, effect: None });
        (ledger.len() - 1, act)
    }

    /// Notes something that no proxy should have written.
    fn garbled(&self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(GARBLED_MAX)]).into_owned();
        self.garbled.lock().unwrap().push(text);
    }

    fn take_effect(&self, row: usize) {
        self.ledger.lock().unwrap()[row].effect = Some(self.clock.now());
    }

    /// Does it, and tells whether the connection can be used again.
    async fn perform(&self, act: Act, row: usize, stream: &mut TcpStream) -> io::Result<bool> {
        if let Act::Accept { after } | Act::Refuse { after, .. } | Act::HangThenEffect { after } = act {
            sleep(after).await;
        }
        if act.takes_effect_first() {
            self.take_effect(row);
        }
        match act {
            Act::Accept { .. } => stream.write_all(answer(200).as_bytes()).await?,
            Act::Refuse { status, .. } => stream.write_all(answer(status).as_bytes()).await?,
            Act::Vanish { resets, .. } => {
                let linger = resets.then_some(Duration::ZERO);
                SockRef::from(&*stream).set_linger(linger)?;
                return Ok(false);
            }
            Act::BreakOffHead => {
                stream.write_all(&answer(200).as_bytes()[..20]).await?;
                return Ok(false);
            }
            Act::BreakOffBody => {
                let answer = answer(200);
                stream.write_all(&answer.as_bytes()[..answer.len() - 5]).await?;
                return Ok(false);
            }
            Act::EffectThenHang => {
                sleep(HANG).await;
                return Ok(false);
            }
            Act::HangThenEffect { .. } => {
                self.take_effect(row);
                stream.write_all(answer(200).as_bytes()).await?;
            }
        }
        Ok(true)
    }
}

fn answer(status: u16) -> String {
    let body = format!("{{\"consumer\":{status}}}");
    format!("HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
