//! One connection that is kept alive: a parcel goes out, a status comes back.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};

use bytes::{Buf, BytesMut};
use httparse::{EMPTY_HEADER, Response, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::delivery::Parcel;

/// Connections from one address: a proxy may bound them, and an address has only so many ports.
const PER_ADDRESS: usize = 500;
const HEADERS_MAX: usize = 64;

pub struct Connection {
    stream: TcpStream,
    seen: BytesMut,
}

/// How the end of an answer is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunked,
}

struct Head {
    bytes: usize,
    status: u16,
    length: Length,
}

impl Connection {
    /// The number decides which local address it comes from.
    pub async fn open(to: SocketAddr, number: usize) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if to.ip().is_loopback() {
            let last = u8::try_from(1 + number / PER_ADDRESS).map_err(io::Error::other)?;
            socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
        }
        let stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, seen: BytesMut::with_capacity(4096) })
    }

    pub async fn call(&mut self, parcel: &Parcel) -> io::Result<u16> {
        self.stream.write_all_buf(&mut parcel.bytes()).await?;
        let head = loop {
            if let Some(head) = parse_head(&self.seen)? {
                break head;
            }
            self.more().await?;
        };
        self.seen.advance(head.bytes);
        match head.length {
            Length::Bytes(bytes) => self.skip(bytes).await?,
            Length::Chunked => self.skip_chunks().await?,
        }
        Ok(head.status)
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.seen).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn skip(&mut self, mut bytes: usize) -> io::Result<()> {
        loop {
            let here = bytes.min(self.seen.len());
            self.seen.advance(here);
            bytes -= here;
            if bytes == 0 {
                return Ok(());
            }
            self.more().await?;
        }
    }

    async fn skip_chunks(&mut self) -> io::Result<()> {
        loop {
            match httparse::parse_chunk_size(&self.seen).map_err(|_| invalid("a chunk's size"))? {
                Status::Partial => self.more().await?,
                Status::Complete((line, size)) => {
                    let size = usize::try_from(size).map_err(io::Error::other)?;
                    self.skip(line + size + 2).await?;
                    if size == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }
}

fn parse_head(seen: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = Response::new(&mut headers);
    let Status::Complete(bytes) = response.parse(seen).map_err(io::Error::other)? else { return Ok(None) };
    let value =
        |name: &str| response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value);
    let length = match value("content-length") {
        Some(text) => std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).map(Length::Bytes),
        None => value("transfer-encoding").map(|_| Length::Chunked),
    };
    let length = length.ok_or_else(|| invalid("the answer's length"))?;
    Ok(Some(Head { bytes, status: response.code.unwrap_or_default(), length }))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{what} cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_how_long_it_is() {
        let head = parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n").unwrap().unwrap();
        assert_eq!((head.bytes, head.status, head.length), (38, 200, Length::Bytes(3)));
        let head = parse_head(b"HTTP/1.1 401 No\r\ntransfer-encoding: chunked\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.status, head.length), (401, Length::Chunked));
    }

    #[test]
    fn half_a_head_is_none_yet_and_one_without_a_length_is_refused() {
        assert!(parse_head(b"HTTP/1.1 200 OK\r\nConte").unwrap().is_none());
        assert!(parse_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
