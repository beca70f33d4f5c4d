//! Deliveries as GitHub makes them: the signature is an HMAC of the body, the id stands in a header.
//!
//! No two events have the same body, since no two of GitHub's have, and a proxy may look. What differs stands at the body's end, so
//! that only this much is hashed for each.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use data_encoding::HEXLOWER;
use hmac::digest::InvalidLength;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::Trouble;
use crate::options::Options;

/// Events that are sent and answered before anything is counted: what repeats repeats one of them.
pub const FIRST: u64 = 64;
const BEGINNING: &str = "{\"ref\":\"refs/heads/main\",\"commits\":\"";
/// An id takes as many bytes as the largest.
const ID_WIDTH: usize = 20;

pub struct Mint {
    run: String,
    path: String,
    paths: u64,
    /// The part of a body that all have, and the MAC up to there.
    common: Bytes,
    begun: Hmac<Sha256>,
    has_tail: bool,
    is_forged: bool,
}

/// A request, in the pieces it is written in.
pub struct Parcel {
    pub head: String,
    pub common: Bytes,
    pub tail: String,
}

impl Parcel {
    pub fn bytes(&self) -> impl Buf + '_ {
        self.head.as_bytes().chain(self.common.as_ref()).chain(self.tail.as_bytes())
    }
}

impl Mint {
    pub const OPTIONS: [&str; 6] = ["secret", "run", "path", "paths", "body", "forged"];

    pub fn new(options: &Options) -> Result<Arc<Self>, Trouble> {
        let run = options.text("run").unwrap_or("run").to_owned();
        let bytes = options.number("body", 2048)?;
        let common = common(&run, bytes);
        let begun = begin(options.required("secret")?, &common).map_err(|error| error.to_string())?;
        Ok(Arc::new(Self {
            run,
            path: options.text("path").unwrap_or("/github").to_owned(),
            paths: options.number("paths", 1u64)?.max(1),
            common,
            begun,
            has_tail: bytes > 0,
            is_forged: options.text("forged") == Some("yes"),
        }))
    }

    /// What a proxy should answer.
    pub fn is_right(&self, status: u16) -> bool {
        if self.is_forged { status == 401 } else { (200..300).contains(&status) }
    }

    pub fn parcel(&self, event: u64) -> Parcel {
        let tail = if self.has_tail { format!("\",\"id\":\"{event:0ID_WIDTH$}\"}}") } else { String::new() };
        let signature = if self.is_forged { "0".repeat(64) } else { self.sign(&tail) };
        let path = self.path.replace("{}", &(event % self.paths).to_string());
        let length = self.common.len() + tail.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: hooks.example\r\nUser-Agent: GitHub-Hookshot/bench\r\nAccept: */*\r\n\
             Content-Type: application/json\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: {}-{event}\r\n\
             X-Hub-Signature-256: sha256={signature}\r\nContent-Length: {length}\r\n\r\n",
            self.run
        );
        Parcel { head, common: self.common.clone(), tail }
    }

    fn sign(&self, tail: &str) -> String {
        let mut mac = self.begun.clone();
        mac.update(tail.as_bytes());
        HEXLOWER.encode(&mac.finalize().into_bytes())
    }
}

/// All of a body of that many bytes but what tells it from others. A body has at least what makes it one, or nothing.
fn common(run: &str, bytes: usize) -> Bytes {
    if bytes == 0 {
        return Bytes::new();
    }
    let around = "\",\"id\":\"\"}".len() + ID_WIDTH;
    let mut text = format!("{BEGINNING}{run}");
    text.extend(std::iter::repeat_n('x', bytes.saturating_sub(text.len() + around)));
    Bytes::from(text)
}

fn begin(secret: &str, common: &[u8]) -> Result<Hmac<Sha256>, InvalidLength> {
    let mut mac = <Hmac<Sha256>>::new_from_slice(secret.as_bytes())?;
    mac.update(common);
    Ok(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mint(more: &str) -> Arc<Mint> {
        let words = format!("--secret 0123456789abcdef {more}");
        Mint::new(&Options::read(words.split_whitespace().map(str::to_owned)).unwrap()).unwrap()
    }

    fn body(parcel: &Parcel) -> String {
        String::from_utf8_lossy(&parcel.common).into_owned() + &parcel.tail
    }

    #[test]
    fn a_body_is_as_long_as_asked_for_and_like_no_other() {
        for bytes in [128, 2048, 65_536] {
            let mint = mint(&format!("--body {bytes}"));
            let (one, other) = (mint.parcel(1), mint.parcel(1_000_000));
            assert_eq!(body(&one).len(), bytes);
            assert_eq!(body(&other).len(), bytes);
            assert_ne!(body(&one), body(&other));
            assert!(one.head.contains(&format!("Content-Length: {bytes}\r\n")));
        }
        assert_eq!(body(&mint("--body 0").parcel(1)), "");
    }

    #[test]
    fn the_signature_covers_the_whole_body() {
        let parcel = mint("--body 300").parcel(77);
        let mut whole = <Hmac<Sha256>>::new_from_slice(b"0123456789abcdef").unwrap();
        whole.update(body(&parcel).as_bytes());
        let expected = HEXLOWER.encode(&whole.finalize().into_bytes());
        assert!(parcel.head.contains(&format!("X-Hub-Signature-256: sha256={expected}\r\n")));
    }

    #[test]
    fn the_mac_is_the_one_that_github_documents() {
        let mac = begin("It's a Secret to Everybody", b"Hello, World!").unwrap().finalize().into_bytes();
        assert_eq!(HEXLOWER.encode(&mac), "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
    }

    #[test]
    fn paths_take_turns() {
        let mint = mint("--path /hooks/{} --paths 3");
        let starts = |event: u64, path: &str| assert!(mint.parcel(event).head.starts_with(&format!("POST {path} HTTP")));
        starts(0, "/hooks/0");
        starts(2, "/hooks/2");
        starts(3, "/hooks/0");
    }

    #[test]
    fn a_forgery_is_right_when_it_is_refused() {
        assert!(mint("--forged yes").is_right(401));
        assert!(!mint("--forged yes").is_right(200));
        assert!(mint("").is_right(202));
        assert!(!mint("").is_right(503));
    }
}
