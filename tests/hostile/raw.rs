//! A consumer that writes down every byte it is sent, and says exactly the bytes it is told to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::consumer::Consumer;
use crate::support::proxy::{Setup, in_front_of};

/// What it says to one request.
#[derive(Clone, Debug)]
pub struct Says {
    pub bytes: Vec<u8>,
    pub then: Then,
}

#[derive(Clone, Debug)]
pub enum Then {
    /// Waits for the next request.
    Stay,
    Close,
    /// Says this again and again, for as long as anybody takes it.
    Repeat(Vec<u8>),
}

impl Says {
    pub fn closing(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Close }
    }

    pub fn staying(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Stay }
    }

    pub fn repeating(bytes: impl Into<Vec<u8>>, again: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Repeat(again.into()) }
    }
}

pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A request as its bytes were.
#[derive(Clone, Debug)]
pub struct Request {
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    /// All values of a header, by its name in small letters.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }

    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

/// Each connection's bytes, in order.
pub struct Recorder {
    pub address: SocketAddr,
    connections: Arc<Mutex<Vec<Vec<u8>>>>,
    closed: Arc<AtomicUsize>,
}

type Script = dyn Fn(&Request) -> Says + Send + Sync;

impl Recorder {
    pub async fn new() -> Self {
        Self::saying(|_| Says::staying(OK)).await
    }

    pub async fn saying(script: impl Fn(&Request) -> Says + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, connections, script) = (listener.local_addr().unwrap(), Arc::default(), Arc::new(script));
        let all: Arc<Mutex<Vec<Vec<u8>>>> = Arc::clone(&connections);
        let closed = Arc::<AtomicUsize>::default();
        let ended = Arc::clone(&closed);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let place = {
                    let mut all = all.lock().unwrap();
                    all.push(Vec::new());
                    all.len() - 1
                };
                let (all, script, ended) = (Arc::clone(&all), Arc::clone(&script) as Arc<Script>, Arc::clone(&ended));
                tokio::spawn(async move {
                    serve(stream, all, place, script).await;
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, connections, closed }
    }

    /// A configuration that leads here.
    pub async fn setup(&self) -> Setup {
        in_front_of(&Consumer::answering(500).await).upstream(&format!("http://{}", self.address))
    }

    pub fn connections(&self) -> usize {
        self.connections.lock().unwrap().len()
    }

    /// Those that have come to their end.
    pub fn closed_connections(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }

    /// Everything that was ever said to it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.connections.lock().unwrap().concat()).into_owned()
    }

    /// Those requests that came whole, as it saw them itself.
    pub fn whole_requests(&self) -> Vec<Request> {
        let mut requests = Vec::new();
        for bytes in self.connections.lock().unwrap().iter() {
            let mut rest = &bytes[..];
            while let Some((request, size)) = strict(rest) {
                requests.push(request);
                rest = &rest[size..];
            }
        }
        requests
    }

    /// The requests it was sent, read strictly: fails where there is anything else between or behind them.
    pub fn requests(&self) -> Vec<Request> {
        let mut requests = Vec::new();
        for bytes in self.connections.lock().unwrap().iter() {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (request, size) = strict(rest).unwrap_or_else(|| panic!("left over: {:?}", String::from_utf8_lossy(rest)));
                assert_eq!(request.all("transfer-encoding"), [""; 0], "{request:?}");
                requests.push(request);
                rest = &rest[size..];
            }
        }
        requests
    }
}

/// The request at the start of these bytes, if it is whole. It is framed by one length, or, passed through, in chunks.
fn strict(bytes: &[u8]) -> Option<(Request, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{head:?}");
    let request = Request { head, body: Vec::new() };
    if request.all("transfer-encoding") == ["chunked"] && request.all("content-length").is_empty() {
        let size = bytes[end..].windows(5).position(|five| five == b"0\r\n\r\n")? + 5;
        return Some((Request { body: bytes[end..end + size].to_vec(), ..request }, end + size));
    }
    assert_eq!(request.all("transfer-encoding"), [""; 0], "{request:?}");
    let length: usize = match request.all("content-length")[..] {
        [] => 0,
        [one] => one.parse().unwrap(),
        _ => panic!("{request:?}"),
    };
    let body = bytes.get(end..end + length)?.to_vec();
    Some((Request { body, ..request }, end + length))
}

async fn serve(mut stream: TcpStream, all: Arc<Mutex<Vec<Vec<u8>>>>, place: usize, script: Arc<Script>) {
    let (mut read, mut buffer) = (0, vec![0; 65536]);
    loop {
        let next = strict(&all.lock().unwrap()[place][read..]);
        let Some((request, size)) = next else {
            match stream.read(&mut buffer).await {
                Ok(length @ 1..) => all.lock().unwrap()[place].extend_from_slice(&buffer[..length]),
                _ => return,
            }
            continue;
        };
        read += size;
        let says = script(&request);
        if stream.write_all(&says.bytes).await.is_err() {
            return;
        }
        match says.then {
            Then::Stay => {}
            Then::Close => return,
            Then::Repeat(again) => while stream.write_all(&again).await.is_ok() {},
        }
    }
}
