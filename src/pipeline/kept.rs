//! A delivery as a letter keeps it: a line of JSON for its head, and the body as it came.

use std::borrow::Cow;
use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use serde::{Deserialize, Serialize};

use super::caller::Caller;
use super::identify::BodyDigest;
use super::intake::Delivery;

/// What stands in the first line. Header values are any bytes: each is written as the letter of its number.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    version: u8,
    method: Cow<'a, str>,
    uri: Cow<'a, str>,
    headers: Vec<(Cow<'a, str>, String)>,
    peer: IpAddr,
    #[serde(default)]
    tls: bool,
    id: Option<Cow<'a, str>>,
    /// The fingerprint of the body.
    body: Cow<'a, str>,
}

/// A delivery that was kept, and the id of its event as it is shown.
#[derive(Debug)]
pub struct Kept {
    pub delivery: Delivery,
    pub event_id: Option<String>,
    pub body: BodyDigest,
}

const VERSION: u8 = 1;

pub fn write(delivery: &Delivery, event_id: Option<&str>, digest: BodyDigest) -> Bytes {
    let Delivery { parts, body, caller, .. } = delivery;
    let headers = parts.headers.iter().map(|(name, value)| {
        (Cow::Borrowed(name.as_str()), value.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>())
    });
    let head = Head {
        version: VERSION,
        method: parts.method.as_str().into(),
        uri: parts.uri.to_string().into(),
        headers: headers.collect(),
        peer: caller.address,
        tls: caller.is_tls,
        id: event_id.map(Cow::Borrowed),
        body: digest.to_string().into(),
    };
    // Text and numbers: nothing that JSON could not hold.
    let mut content = serde_json::to_vec(&head).unwrap_or_default();
    content.reserve_exact(body.len() + 1);
    content.push(b'\n');
    content.extend_from_slice(body);
    content.into()
}

/// `None` where it was not written here.
pub fn read(content: &Bytes) -> Option<Kept> {
    let end = memchr::memchr(b'\n', content)?;
    let head: Head<'_> = serde_json::from_slice(&content[..end]).ok().filter(|head: &Head<'_>| head.version == VERSION)?;
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(head.method.as_bytes()).ok()?;
    *request.uri_mut() = head.uri.parse::<Uri>().ok()?;
    for (name, value) in &head.headers {
        let bytes = value.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect::<Option<Vec<u8>>>()?;
        let (name, value) = (name.parse::<HeaderName>().ok()?, HeaderValue::from_bytes(&bytes).ok()?);
        request.headers_mut().append(name, value);
    }
    let (parts, ()) = request.into_parts();
    let delivery = Delivery::kept(parts, content.slice(end + 1..), Caller::new(head.peer, head.tls));
    Some(Kept { delivery, event_id: head.id.map(Cow::into_owned), body: BodyDigest::parse(&head.body)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fingerprint;
    use crate::pipeline::identify::fingerprint;

    fn digest() -> BodyDigest {
        fingerprint(&Fingerprint::Body, b"{}")
    }

    fn delivery(uri: &str, body: &'static [u8]) -> Delivery {
        let mut request = Request::post(uri).body(()).unwrap();
        for value in [&b"plain"[..], b"\xff\x80 latin \"quoted\"", b""] {
            request.headers_mut().append("x-any", HeaderValue::from_bytes(value).unwrap());
        }
        request.headers_mut().insert("content-type", "application/json".parse().unwrap());
        Delivery::kept(request.into_parts().0, Bytes::from_static(body), Caller::new([127, 0, 0, 1].into(), true))
    }

    #[test]
    fn a_delivery_comes_back_as_it_was() {
        for (uri, body) in
            [("/hooks?x=1&y=%20", &b"{\"id\":1}\n\n"[..]), ("https://hooks.example.com/hooks", b""), ("/", b"\0\xff\n")]
        {
            let before = delivery(uri, body);
            let Kept { delivery: after, event_id, body } = read(&write(&before, Some("evt_1:\u{e9}"), digest())).unwrap();
            assert_eq!(body, digest());
            assert_eq!(event_id.as_deref(), Some("evt_1:\u{e9}"));
            assert_eq!((after.parts.method, after.parts.uri), (before.parts.method, before.parts.uri));
            assert_eq!((after.parts.headers, after.body, after.caller), (before.parts.headers, before.body, before.caller));
        }
        assert_eq!(read(&write(&delivery("/", b""), None, digest())).unwrap().event_id, None);
    }

    #[test]
    fn what_was_not_written_here_is_not_read() {
        let whole = write(&delivery("/", b"body"), None, digest());
        let other = String::from_utf8(whole.to_vec()).unwrap().replace("\"version\":1", "\"version\":2");
        for content in [Bytes::new(), Bytes::from_static(b"{}\n"), whole.slice(..10), other.into()] {
            assert!(read(&content).is_none(), "{content:?}");
        }
    }
}
