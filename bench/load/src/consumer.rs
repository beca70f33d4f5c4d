//! A consumer that reads a delivery, takes its time, and answers 200.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use httparse::{EMPTY_HEADER, Request, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::Trouble;
use crate::options::Options;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
const HEADERS_MAX: usize = 100;

pub async fn run(options: &Options) -> Result<(), Trouble> {
    options.only(&["delay"])?;
    let delay = options.duration("delay")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        spawn_local(serve(stream, delay));
    }
}

async fn serve(mut stream: TcpStream, delay: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut seen = BytesMut::with_capacity(8 * 1024);
    loop {
        let mut bytes = loop {
            if let Some(bytes) = request_bytes(&seen)? {
                break bytes;
            }
            if stream.read_buf(&mut seen).await? == 0 {
                return Ok(());
            }
        };
        while bytes > seen.len() {
            bytes -= seen.len();
            seen.clear();
            if stream.read_buf(&mut seen).await? == 0 {
                return Ok(());
            }
        }
        seen.advance(bytes);
        if !delay.is_zero() {
            sleep(delay).await;
        }
        stream.write_all(ANSWER).await?;
    }
}

/// How long the request is with its body, once its head is whole.
fn request_bytes(seen: &[u8]) -> io::Result<Option<usize>> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut headers);
    let Status::Complete(head) = request.parse(seen).map_err(io::Error::other)? else { return Ok(None) };
    let length = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse::<usize>().ok());
    Ok(Some(head + length.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_long_as_its_head_and_its_body() {
        assert_eq!(request_bytes(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhe").unwrap(), Some(38 + 5));
        assert_eq!(request_bytes(b"GET / HTTP/1.1\r\n\r\n").unwrap(), Some(18));
        assert_eq!(request_bytes(b"POST / HTTP/1.1\r\nContent-Le").unwrap(), None);
    }
}
