//! A sender of bare HTTP/2 frames: says in fields what no library would.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::PATIENCE;
use crate::support::frames::{ACK, DATA, END_HEADERS, END_STREAM, GO_AWAY, HEADERS, RST_STREAM, SETTINGS, frame, raw_h2};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Of those statuses that are one byte of HPACK; others are 0.
    Status(u16),
    Reset,
    Closed,
}

pub struct Frames(TcpStream);

impl Frames {
    pub async fn to(address: SocketAddr) -> Self {
        Self(raw_h2(address, &[]).await)
    }

    /// A request on the first stream, with a body or ending at its head.
    pub async fn request(mut self, fields: &[(Vec<u8>, Vec<u8>)], body: Option<&[u8]>) -> Ended {
        let mut block = Vec::new();
        for (name, value) in fields {
            // A literal that is not to be indexed, its name new.
            block.push(0);
            string(&mut block, name);
            string(&mut block, value);
        }
        self.say(HEADERS, END_HEADERS | if body.is_some() { 0 } else { END_STREAM }, 1, &block).await;
        if let Some(body) = body {
            self.say(DATA, END_STREAM, 1, body).await;
        }
        self.ended().await
    }

    async fn ended(&mut self) -> Ended {
        loop {
            let Some((kind, flags, stream, content)) = timeout(PATIENCE, self.next()).await.expect("an answer") else {
                return Ended::Closed;
            };
            match kind {
                HEADERS if stream == 1 => {
                    let status = [200, 204, 206, 304, 400, 404, 500].iter().zip(0x88..);
                    return Ended::Status(status.clone().find(|(_, byte)| *byte == content[0]).map_or(0, |(status, _)| *status));
                }
                RST_STREAM if stream == 1 => return Ended::Reset,
                GO_AWAY => return Ended::Closed,
                SETTINGS if flags & ACK == 0 => self.say(SETTINGS, ACK, 0, &[]).await,
                _ => {}
            }
        }
    }

    async fn say(&mut self, kind: u8, flags: u8, stream: u32, content: &[u8]) {
        // It may have been shown the door.
        let _ = self.0.write_all(&frame(kind, flags, stream, content)).await;
    }

    async fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut content = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut content).await.ok()?;
        Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), content))
    }
}

fn string(block: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        short @ ..=126 => block.push(u8::try_from(short).unwrap()),
        long => {
            let mut rest = long - 127;
            block.push(127);
            while rest >= 128 {
                block.push(u8::try_from(rest % 128 + 128).unwrap());
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap());
        }
    }
    block.extend_from_slice(bytes);
}
