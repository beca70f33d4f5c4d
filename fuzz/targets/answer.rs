//! What a consumer answers is the same however it comes: at once, byte by byte, or cut anywhere. A head that is taken, hyper's client takes
//! as well, and what is taken for whole it reads alike: status, headers and body. Nothing panics.
//!
//! The first byte of an input says what was asked (an even one: POST, an odd one: HEAD). The rest is what the consumer says before it closes.
#![no_main]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a target fails by panicking")]

use std::convert::Infallible;

use bytes::{Bytes, BytesMut};
use hookonce::pipeline::upstream::head;
use hookonce_fuzz::Dice;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

#[derive(Debug, PartialEq)]
struct Heard {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    is_whole: bool,
}

fuzz_target!(|bytes: &[u8]| {
    let Some((method, said)) = bytes.split_first() else { return };
    let method = if method % 2 == 0 { Method::POST } else { Method::HEAD };
    let heard = ours(&[said], &method);
    let cut = Dice::of(said).below(said.len());
    assert_eq!(ours(&[&said[..cut], &said[cut..]], &method), heard, "cut at {cut}");
    let single: Vec<&[u8]> = said.chunks(1).collect();
    assert_eq!(ours(&single, &method), heard, "byte by byte");
    // It has another way for those who switch to another protocol.
    if let Some(heard) = heard.filter(|heard| heard.status != StatusCode::SWITCHING_PROTOCOLS) {
        let hypers = hypers(said, &method).unwrap_or_else(|| panic!("hyper takes none of {heard:?}"));
        assert_eq!((hypers.status, &hypers.headers), (heard.status, &heard.headers));
        // Some of what it takes is refused: a line behind the last chunk, for one, that ends in another way than lines do.
        if heard.is_whole {
            assert_eq!(hypers, heard);
        }
    }
});

/// What is made of an answer that comes in these pieces.
fn ours(pieces: &[&[u8]], method: &Method) -> Option<Heard> {
    let (mut input, mut pieces) = (BytesMut::new(), pieces.iter());
    let mut head = loop {
        match head::read(&mut input, method).ok()? {
            Some(head) if head.parts.status.is_informational() && head.parts.status != StatusCode::SWITCHING_PROTOCOLS => {}
            Some(head) => break head,
            None => input.extend_from_slice(pieces.next()?),
        }
    };
    let mut body = Vec::new();
    let is_whole = loop {
        match head.framing.take(&mut input) {
            Err(_) => break false,
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) if head.framing.is_at_end() => break true,
            Ok(None) => match pieces.next() {
                Some(piece) => input.extend_from_slice(piece),
                None => break head.framing.closed(),
            },
        }
    };
    Some(Heard { status: head.parts.status, headers: head.parts.headers, body, is_whole })
}

/// What hyper's client makes of it.
fn hypers(said: &[u8], method: &Method) -> Option<Heard> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let (near, mut far) = duplex(64 * 1024);
        let (mut sender, connection) = http1::handshake::<_, Empty<Bytes>>(TokioIo::new(near)).await.unwrap();
        tokio::spawn(async { Ok::<_, Infallible>(connection.await.is_ok()) });
        let asking = sender.send_request(Request::builder().method(method).uri("/").body(Empty::new()).unwrap());
        let answering = async {
            // Before it is asked, it would have said what nobody wants to hear.
            far.read_exact(&mut [0]).await.ok()?;
            far.write_all(said).await.ok()?;
            far.shutdown().await.ok()
        };
        let (parts, mut rest) = tokio::join!(asking, answering).0.ok()?.into_parts();
        let (mut body, mut is_whole) = (Vec::new(), true);
        while let Some(frame) = rest.frame().await {
            match frame {
                Ok(frame) => body.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Err(_) => {
                    is_whole = false;
                    break;
                }
            }
        }
        Some(Heard { status: parts.status, headers: parts.headers, body, is_whole })
    })
}
