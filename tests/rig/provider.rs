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
    /// More of them in a round that queues, where it is in queue mode then.
    queue_keys: Option<&'static str>,
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
        queue_keys: Some("mode = \"queue\"\norder_by = { json = \"/line\" }"),
        has_time: true,
        headers: |_| Vec::new(),
        body: |id, made, filling| {
            let line = line(id);
            format!("{{\"id\":\"{id}\",\"created\":{made},\"line\":\"{line}\",\"filling\":\"{filling}\"}}")
        },
    },
    Kind {
        name: "standard-webhooks",
        secret: "whsec_cmlnLXNlY3JldC0wMTIzNDU2Nzg5YWJjZGVm",
        keys: "on_store_down = \"closed\"\nclosed_max = \"800ms\"\nsettle = \"before_reply\"",
        queue_keys: None,
        has_time: false,
        headers: |id| vec![("webhook-id", id.to_owned())],
        body: |id, _, filling| format!("{{\"type\":\"invoice.paid\",\"of\":\"{id}\",\"filling\":\"{filling}\"}}"),
    },
    Kind {
        name: "github",
        secret: "rig-secret-0123456789abcdef",
        keys: "on_store_down = \"local\"",
        queue_keys: Some("mode = \"queue\""),
        has_time: false,
        headers: |id| vec![("x-github-delivery", id.to_owned()), ("x-github-event", "issues".to_owned())],
        body: |id, _, filling| format!("{{\"action\":\"opened\",\"of\":\"{id}\",\"filling\":\"{filling}\"}}"),
    },
    Kind {
        name: "slack",
        secret: "rig-secret-0123456789abcdef",
        keys: "on_store_down = \"local\"\non_duplicate = \"replay\"",
        queue_keys: None,
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
        queue_keys: Some("mode = \"queue\""),
        has_time: false,
        headers: |id| vec![("svix-id", id.to_owned())],
        body: |id, _, filling| format!("{{\"type\":\"user.made\",\"of\":\"{id}\",\"filling\":\"{filling}\"}}"),
    },
];

/// Events whose ids end alike are of one line.
fn line(id: &str) -> &str {
    &id[id.len() - 1..]
}

/// A provider that can sign.
pub struct Provider {
    kind: &'static Kind,
    scheme: Scheme,
    key: Key,
    is_queued: bool,
}

impl Provider {
    pub fn all(queues: bool) -> Vec<Self> {
        let provider = |kind: &'static Kind| {
            let scheme = preset::find(kind.name).unwrap().compile().unwrap().scheme;
            let key = scheme.key(&Secret::new(kind.secret)).unwrap();
            Self { kind, scheme, key, is_queued: queues && kind.queue_keys.is_some() }
        };
        KINDS.iter().map(provider).collect()
    }

    /// Makes an event, which is the same in all its deliveries.
    pub fn event(&self, id: String, made: SystemTime, dice: &mut Dice) -> (Event, Bytes) {
        let filling = "x".repeat(dice.below(1500));
        let made = made.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let body = Bytes::from((self.kind.body)(&id, made, &filling));
        let Self { kind: Kind { name, has_time, queue_keys, .. }, is_queued, .. } = *self;
        let is_ordered = is_queued && queue_keys.is_some_and(|keys| keys.contains("order_by"));
        let line = is_ordered.then(|| line(&id).to_owned());
        (Event { id, provider: name, has_time: *has_time, body: digest(&body), is_queued, line }, body)
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
pub fn sections(times: Times, queues: bool) -> String {
    let Times { lease, answer_deadline, upstream_timeout } = times;
    let (lease, deadline, timeout) = (lease.as_millis(), answer_deadline.as_millis(), upstream_timeout.as_millis());
    let mut text = format!(
        "[defaults]\nlease = \"{lease}ms\"\nanswer_deadline = \"{deadline}ms\"\nupstream_timeout = \"{timeout}ms\"\n\
         connect_retry = \"500ms\"\n"
    );
    for Kind { name, secret, keys, queue_keys, .. } in &KINDS {
        let queue_keys = queue_keys.filter(|_| queues).unwrap_or_default();
        text += &format!("[providers.{name}]\npath = \"/{name}\"\nsecret = \"{secret}\"\n{keys}\n{queue_keys}\n");
    }
    if queues {
        // So many attempts that none is the last one in a round.
        text += &format!("[queue]\naccept_loss = true\nschedule = [\"0s\"{}]\n", ", \"250ms\"".repeat(90));
    }
    text
}
