//! The least that such a proxy could cost: bare sockets, one read and one write for each message, Redis's commands of a round in one
//! write, the MAC of the body and its digest. A new event is claimed, passed on and noted as done, with as many bytes to Redis as
//! hookonce sends.
//!
//! There is no limit, lease, time, second try, log or metric, and no care for what could go wrong: it ends at the first surprise,
//! but for senders that go.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use httparse::{EMPTY_HEADER, Header, Request, Response, Status};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use sha2::{Digest, Sha256};

use crate::Trouble;
use crate::options::Options;

const HEADERS_MAX: usize = 32;
const READ_BYTES: usize = 16 * 1024;
const EVENTS_MAX: usize = 1024;
/// What else than these has a socket is an end of a connection.
const LISTENER: u64 = 0;
const REDIS: u64 = 1;
const FIRST_END: u64 = 2;

const FORGED: &[u8] = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
const DUPLICATE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{\"status\":\"duplicate\"}";
/// As many bytes as what hookonce notes beside the digest: token, lease, retention, attempt, time.
const CLAIMED: &str = "1c|0123456789abcdef0123456789abcdef|15000|324000|1||";
const DONE: &str = "1d|200|1||1789000000000|";

pub fn run(options: &Options) -> Result<(), Trouble> {
    options.only(&["consumer", "redis", "secret"])?;
    let one = |name: &str| Ok::<_, Trouble>(*options.addresses(name)?.first().ok_or("an address is needed")?);
    let mac = Hmac::new_from_slice(options.required("secret")?.as_bytes())?;
    let mut floor = Floor::open(one("consumer")?, one("redis")?, mac)?;
    println!("listening on {}", floor.listener.local_addr()?);
    loop {
        floor.round()?;
    }
}

struct Floor {
    epoll: OwnedFd,
    events: Vec<Event>,
    listener: TcpListener,
    consumer: SocketAddr,
    mac: Hmac<Sha256>,
    redis: Redis,
    /// Both kinds, by number; `None` where one has ended.
    ends: Vec<Option<End>>,
    /// Connections to the consumer that nobody uses.
    idle: Vec<usize>,
}

struct End {
    socket: Socket,
    /// Who waits for the answer that comes here, where this leads to the consumer.
    sender: Option<usize>,
    key: String,
    digest: String,
}

struct Redis {
    socket: Socket,
    output: Vec<u8>,
    /// Senders whose event was asked for; `None` for what needs no answer.
    asked: VecDeque<Option<usize>>,
}

struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// How much of it was read.
    filled: usize,
}

impl Socket {
    fn over(stream: TcpStream) -> Self {
        Self { stream, buffer: vec![0; READ_BYTES], filled: 0 }
    }

    /// Reads what there is. `false` at its end.
    fn read(&mut self) -> bool {
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.filled, 0);
        }
        let read = self.stream.read(&mut self.buffer[self.filled..]).unwrap_or(0);
        self.filled += read;
        read > 0
    }

    fn input(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.stream.write(bytes)?;
        if written == bytes.len() { Ok(()) } else { Err(surprise("a socket is full")) }
    }
}

impl Floor {
    fn open(consumer: SocketAddr, redis: SocketAddr, mac: Hmac<Sha256>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        watch(&epoll, &listener, LISTENER)?;
        let redis = Redis { socket: connected(&epoll, redis, REDIS)?, output: Vec::new(), asked: VecDeque::new() };
        let (events, ends, idle) = (Vec::with_capacity(EVENTS_MAX), Vec::new(), Vec::new());
        Ok(Self { epoll, events, listener, consumer, mac, redis, ends, idle })
    }

    /// Serves whoever has something to say, and tells Redis all of it at once.
    fn round(&mut self) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        epoll::wait(&self.epoll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            match event.data.u64() {
                LISTENER => self.accept()?,
                REDIS => self.hear_redis()?,
                end => self.hear(usize::try_from(end - FIRST_END).map_err(io::Error::other)?)?,
            }
        }
        self.events = events;
        if !self.redis.output.is_empty() {
            self.redis.socket.write(&self.redis.output)?;
            self.redis.output.clear();
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        watch(&self.epoll, &stream, FIRST_END + self.ends.len() as u64)?;
        self.add(Socket::over(stream));
        Ok(())
    }

    fn add(&mut self, socket: Socket) -> usize {
        self.ends.push(Some(End { socket, sender: None, key: String::new(), digest: String::new() }));
        self.ends.len() - 1
    }

    fn hear(&mut self, number: usize) -> io::Result<()> {
        let Some(end) = &mut self.ends[number] else { return Ok(()) };
        if !end.socket.read() {
            self.ends[number] = None;
            self.idle.retain(|idle| *idle != number);
            return Ok(());
        }
        if end.sender.is_some() { self.pass_back(number) } else { self.judge(number) }
    }

    /// A delivery, or the beginning of one.
    fn judge(&mut self, number: usize) -> io::Result<()> {
        let Self { mac, redis, ends, .. } = self;
        let Some(end) = &mut ends[number] else { return Ok(()) };
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        let Status::Complete(head) = request.parse(end.socket.input()).map_err(io::Error::other)? else { return Ok(()) };
        if end.socket.input().len() < head + length(request.headers)? {
            return Ok(());
        }
        let body = &end.socket.input()[head..];
        let signature = header(request.headers, "x-hub-signature-256").strip_prefix(b"sha256=").unwrap_or_default();
        let is_genuine = HEXLOWER.decode(signature).is_ok_and(|tag| mac.clone().chain_update(body).verify_slice(&tag).is_ok());
        if !is_genuine {
            end.socket.filled = 0;
            return end.socket.write(FORGED);
        }
        let digest = HEXLOWER.encode(&Sha256::digest(body)[..16]);
        let key = format!("floor:github:{}", String::from_utf8_lossy(header(request.headers, "x-github-delivery")));
        redis.ask(&["SET", &key, &format!("{CLAIMED}{digest}"), "NX", "GET", "EX", "324000"], Some(number))?;
        (end.key, end.digest) = (key, digest);
        Ok(())
    }

    /// What Redis knows of events: nothing, or something.
    fn hear_redis(&mut self) -> io::Result<()> {
        if !self.redis.socket.read() {
            return Err(surprise("redis has gone"));
        }
        let mut buffer = std::mem::take(&mut self.redis.socket.buffer);
        let mut rest = &buffer[..self.redis.socket.filled];
        while let Some((is_known, left)) = answer(rest) {
            rest = left;
            let asked = self.redis.asked.pop_front().ok_or_else(|| surprise("redis answers what nobody asked"))?;
            match asked.and_then(|sender| Some((sender, self.ends[sender].as_mut()?))) {
                None => {}
                Some((_, end)) if is_known => {
                    end.socket.filled = 0;
                    let _ = end.socket.write(DUPLICATE);
                }
                Some((sender, _)) => self.pass_on(sender)?,
            }
        }
        let left = rest.len();
        buffer.copy_within(self.redis.socket.filled - left..self.redis.socket.filled, 0);
        (self.redis.socket.buffer, self.redis.socket.filled) = (buffer, left);
        Ok(())
    }

    fn pass_on(&mut self, sender: usize) -> io::Result<()> {
        let number = match self.idle.pop() {
            Some(number) => number,
            None => {
                let socket = connected(&self.epoll, self.consumer, FIRST_END + self.ends.len() as u64)?;
                self.add(socket)
            }
        };
        let Ok([Some(end), Some(line)]) = self.ends.get_disjoint_mut([sender, number]) else {
            return Err(surprise("a connection has gone"));
        };
        line.sender = Some(sender);
        line.socket.write(end.socket.input())?;
        end.socket.filled = 0;
        Ok(())
    }

    /// The consumer's answer. The connection is known as one to the consumer for good.
    fn pass_back(&mut self, number: usize) -> io::Result<()> {
        let Self { redis, ends, idle, .. } = self;
        let Some(line) = ends[number].take() else { return Ok(()) };
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut answer = Response::new(&mut headers);
        let parsed = answer.parse(line.socket.input()).map_err(io::Error::other)?;
        let is_whole = matches!(parsed, Status::Complete(head) if line.socket.input().len() == head + length(answer.headers)?);
        if !is_whole || answer.code != Some(200) {
            return Err(surprise("an answer that is not a 200, whole"));
        }
        if let Some(end) = line.sender.and_then(|sender| ends[sender].as_mut()) {
            let _ = end.socket.write(line.socket.input());
            redis.ask(&["SET", &end.key, &format!("{DONE}{}", end.digest), "GET", "EX", "324000"], None)?;
        }
        idle.push(number);
        let line = ends[number].insert(line);
        line.socket.filled = 0;
        Ok(())
    }
}

impl Redis {
    fn ask(&mut self, words: &[&str], sender: Option<usize>) -> io::Result<()> {
        write!(self.output, "*{}\r\n", words.len())?;
        for word in words {
            write!(self.output, "${}\r\n{word}\r\n", word.len())?;
        }
        self.asked.push_back(sender);
        Ok(())
    }
}

/// Whether Redis's first answer is a value, and what follows it; `None` while it is not whole.
fn answer(input: &[u8]) -> Option<(bool, &[u8])> {
    let end = input.windows(2).position(|two| two == b"\r\n")? + 2;
    let length = std::str::from_utf8(&input[1..end - 2]).ok()?.parse::<usize>().ok();
    match length {
        Some(length) => Some((true, input.get(end + length + 2..)?)),
        None => Some((false, &input[end..])),
    }
}

fn header<'a>(headers: &[Header<'a>], name: &str) -> &'a [u8] {
    headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map_or(&[], |header| header.value)
}

fn length(headers: &[Header<'_>]) -> io::Result<usize> {
    let text = std::str::from_utf8(header(headers, "content-length")).map_err(io::Error::other)?;
    text.parse().map_err(io::Error::other)
}

fn connected(epoll: &OwnedFd, to: SocketAddr, number: u64) -> io::Result<Socket> {
    let stream = TcpStream::connect(to)?;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    watch(epoll, &stream, number)?;
    Ok(Socket::over(stream))
}

fn watch(epoll: &OwnedFd, socket: impl AsFd, number: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, socket, EventData::new_u64(number), EventFlags::IN)?)
}

fn surprise(what: &'static str) -> io::Error {
    io::Error::other(what)
}
