//! The providers of a round: what their deliveries look like, and how the proxy is told of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hookonce::config::Secret;
use hookonce::scheme::{Draft, Key, Scheme, preset};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;

use super::dice::Dice;
use super::history::{Event, digest};
use super::support::sender::now;

/// Names the event to the consumer, whatever the proxy makes of it.
pub const PLACE: &str = "x-rig-event";

/// What is known of a kind of provider.
pub struct Kind {
    pub name: &'static str,
    secret: &'static str,
    /// Keys of its section beside path and secret.
    keys: &'static str,
    /// Whether its events tell when they were made.
    has_time: bool,
    headers: fn(&str) -> Vec<(&'static str, String)>,
    body: fn(&str, u64, &str) -> String,
}

/// One for each way to behave while the store is down, and for each way to name an event.
pub static KINDS: [Kind; 5] = [
    Kind {
        name: "stripe",
        secret: "rig-secret-0123456789abcdef",
        keys: "on_store_down = \"closed\"",
        has_time: true,
        headers: |_| Vec::new(),
        body: |id, made, filling| {
            format!("{{\"id\":\"{id}\",\"created\":{made},\"object\":\"event\",\"filling\":\"{filling}\"}}")
        },
    },
    Kind {
        name: "standard-webhooks",
        secret: "whsec_cmlnLXNlY3JldC0wMTIzNDU2Nzg5YWJjZGVm",
        keys: "on_store_down = \"closed\"\nclosed_max = \"800ms\"\nsettle = \"before_reply\"",
        has_time: false,
        headers: |id| vec![("webhook-id", id.to_owned())],
        body: |id, _, filling| format!("{{\"type\":\"invoice.paid\",\"of\":\"{id}\",\"filling\":\"{filling}\"}}"),
    },
    Kind {
        name: "github",
        secret: "rig-secret-0123456789abcdef",
        keys: "on_store_down = \"local\"",
        has_time: false,
        headers: |id| vec![("x-github-delivery", id.to_owned()), ("x-github-event", "issues".to_owned())],
        body: |id, _, filling| format!("{{\"action\":\"opened\",\"of\":\"{id}\",\"filling\":\"{filling}\"}}"),
    },
    Kind {
        name: "slack",
        secret: "rig-secret-0123456789abcdef",
        keys: "on_store_down = \"local\"\non_duplicate = \"replay\"",
        has_time: true,
        headers: |_| Vec::new(),
        body: |id, made, filling| {
            format!("{{\"type\":\"event_callback\",\"event_id\":\"{id}\",\"event_time\":{made},\"filling\":\"{filling}\"}}")
        },
    },
    Kind {
        name: "svix",
        secret: "whsec_cmlnLXNlY3JldC0wMTIzNDU2Nzg5YWJjZGVm",
        keys: "on_store_down = \"open\"\nin_flight = \"retry\"",
        has_time: false,
        headers: |id| vec![("svix-id", id.to_owned())],
        body: |id, _, filling| format!("{{\"type\":\"user.made\",\"of\":\"{id}\",\"filling\":\"{filling}\"}}"),
    },
];

/// A provider that can sign.
pub struct Provider {
    kind: &'static Kind,
    scheme: Scheme,
    key: Key,
}

impl Provider {
    pub fn all() -> Vec<Self> {
        let provider = |kind: &'static Kind| {
            let scheme = preset::find(kind.name).unwrap().compile().unwrap().scheme;
            let key = scheme.key(&Secret::new(kind.secret)).unwrap();
            Self { kind, scheme, key }
        };
        KINDS.iter().map(provider).collect()
    }

    /// Makes an event, which is the same in all its deliveries.
    pub fn event(&self, id: String, made: SystemTime, dice: &mut Dice) -> (Event, Bytes) {
        let filling = "x".repeat(dice.below(1500));
        let made = made.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let body = Bytes::from((self.kind.body)(&id, made, &filling));
        (Event { id, provider: self.kind.name, has_time: self.kind.has_time, body: digest(&body) }, body)
    }

    /// One delivery, signed as of now.
    pub fn delivery(&self, place: usize, id: &str, body: &Bytes) -> Request<Full<Bytes>> {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("rig.local"));
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert(PLACE, HeaderValue::from(place));
        for (name, value) in (self.kind.headers)(id) {
            headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).unwrap());
        }
        let uri = format!("/{}", self.kind.name).parse().unwrap();
        let mut draft = Draft { method: Method::POST, uri, headers, body: body.clone() };
        self.scheme.sign(&self.key, &mut draft, now()).unwrap();
        draft.into_request()
    }
}

/// The times that all providers have in a round.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub lease: Duration,
    pub answer_deadline: Duration,
    pub upstream_timeout: Duration,
}

/// The providers' part of a configuration.
pub fn sections(times: Times) -> String {
    let Times { lease, answer_deadline, upstream_timeout } = times;
    let (lease, deadline, timeout) = (lease.as_millis(), answer_deadline.as_millis(), upstream_timeout.as_millis());
    let mut text = format!(
        "[defaults]\nlease = \"{lease}ms\"\nanswer_deadline = \"{deadline}ms\"\nupstream_timeout = \"{timeout}ms\"\n\
         connect_retry = \"500ms\"\n"
    );
    for Kind { name, secret, keys, .. } in &KINDS {
        text += &format!("[providers.{name}]\npath = \"/{name}\"\nsecret = \"{secret}\"\n{keys}\n");
    }
    text
}
