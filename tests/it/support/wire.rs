//! A sender's bare connection: says what it is told to, whole or in part, and can hang up at any point.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;
use super::sender::Answer;

/// Dropped, it has hung up.
pub struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    pub async fn to(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() }
    }

    /// Connects and says this.
    pub async fn with(address: SocketAddr, bytes: &[u8]) -> Self {
        let mut wire = Self::to(address).await;
        wire.say(bytes).await;
        wire
    }

    pub async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Says this, unless the other side has closed.
    pub async fn try_say(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Whether something has come back by now.
    pub fn has_answer(&mut self) -> bool {
        let _ = self.stream.try_read_buf(&mut self.read);
        !self.read.is_empty()
    }

    /// Reads one answer: its head, and its body by its `Content-Length`.
    pub async fn answer(&mut self) -> Answer {
        loop {
            if let Some(answer) = self.parse() {
                return answer;
            }
            assert!(self.read_more().await > 0, "closed without an answer, after {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    /// Everything that comes until the other side closes; a reset is an error.
    pub async fn rest(mut self) -> std::io::Result<String> {
        self.stream.read_to_end(&mut self.read).await?;
        Ok(String::from_utf8_lossy(&self.read).into_owned())
    }

    /// Waits until the other side has said this.
    pub async fn heard(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.read).contains(text) {
            assert!(self.read_more().await > 0, "closed before {text:?} was said");
        }
    }

    /// The same, where it may close without having said it.
    pub async fn heard_or_closed(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.read).contains(text) && self.read_more().await > 0 {}
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Reads this much or until the other side closes, keeps nothing, and gives how much it was.
    pub async fn skip(&mut self, most: usize) -> usize {
        let mut skipped = std::mem::take(&mut self.read).len();
        while skipped < most && self.read_more().await > 0 {
            skipped += std::mem::take(&mut self.read).len();
        }
        skipped
    }

    /// Waits until the other side has closed.
    pub async fn closed(&mut self) {
        while self.read_more().await > 0 {}
    }

    /// A reset is an end too.
    async fn read_more(&mut self) -> usize {
        let reading = timeout(PATIENCE, self.stream.read_buf(&mut self.read));
        reading.await.expect("the other side says something or closes").unwrap_or(0)
    }

    fn parse(&mut self) -> Option<Answer> {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(body_at) = head.parse(&self.read).unwrap() else { return None };
        let field = |field: &httparse::Header<'_>| {
            (HeaderName::try_from(field.name).unwrap(), HeaderValue::from_bytes(field.value).unwrap())
        };
        let headers: HeaderMap = head.headers.iter().map(field).collect();
        let length = headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse().unwrap());
        let (status, body) = (head.code.unwrap(), self.read.get(body_at..body_at + length)?);
        let answer = Answer { status, headers, body: Bytes::copy_from_slice(body) };
        self.read.drain(..body_at + length);
        Some(answer)
    }
}
