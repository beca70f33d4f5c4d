//! What is stored for one event: claimed, failed, queued or done, in a versioned text form.
//!
//! The first character is the version, the second the state; fields follow, separated by `|`. A value that does not
//! parse is never taken for free or for done: it is an error of the store.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;

use super::backlog::LetterId;
use crate::pipeline::identify::BodyDigest;

/// Why a forward may be a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// An earlier attempt ended without a word: timeout, reset, crash.
    Unknown,
    /// Same id, other body.
    Conflict,
    /// The delivery carries no event id.
    NoId,
    /// Deduplication only observes.
    Observe,
    /// An operator asked for the event to go through again.
    Forgotten,
    /// The store could not be asked.
    StoreDown,
    /// The store has lost what it knew of events as old as this one.
    StoreReset,
    /// An operator lets events through again, or the same signed bytes came before under another id.
    Replay,
}

impl Mark {
    pub const ALL: &'static [Self] = &[
        Self::Unknown,
        Self::Conflict,
        Self::NoId,
        Self::Observe,
        Self::Forgotten,
        Self::StoreDown,
        Self::StoreReset,
        Self::Replay,
    ];

    /// The word in the header, the metric label and the stored entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Conflict => "conflict",
            Self::NoId => "no-id",
            Self::Observe => "observe",
            Self::Forgotten => "forgotten",
            Self::StoreDown => "store-down",
            Self::StoreReset => "store-reset",
            Self::Replay => "replay",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mark| mark.as_str() == word)
    }
}

/// Tells one claim from a later one on the same event: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token([u8; 16]);

impl Token {
    /// 128 bits, six to a letter.
    const WRITTEN_BYTES: usize = 22;

    /// The error is the kernel's: it has no random numbers to give.
    pub fn random() -> Result<Self, getrandom::Error> {
        thread_local! {
            static UNUSED: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
        }
        UNUSED.with_borrow_mut(|unused| {
            if unused.is_empty() {
                // Many at a time: asking the kernel costs more than the bytes.
                let mut bytes = [[0; 16]; 64];
                getrandom::fill(bytes.as_flattened_mut())?;
                unused.extend(bytes);
            }
            unused.pop().map(Self).ok_or(getrandom::Error::UNEXPECTED)
        })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&BASE64URL_NOPAD.encode(&self.0))
    }
}

/// An attempt under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub token: Token,
    pub lease: Duration,
    pub retention: Duration,
    pub attempt: u32,
    pub doubt: Option<Mark>,
    pub body: BodyDigest,
    pub at: SystemTime,
}

/// An attempt that ended in an explicit failure, or an event that an operator forgot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub attempt: u32,
    pub doubt: Option<Mark>,
    /// The consumer's status, if there was one.
    pub status: Option<u16>,
    pub body: BodyDigest,
    pub at: SystemTime,
}

/// The consumer accepted the event, or an operator has dropped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The consumer's status, or `DROPPED`.
    pub status: u16,
    pub body: BodyDigest,
    pub attempt: u32,
    pub at: SystemTime,
    /// The consumer's reply, where duplicates are to be given it. Boxed, since most are not.
    pub reply: Option<Box<StoredReply>>,
}

/// No consumer answers so.
const DROPPED: u16 = 0;

impl Done {
    /// Nobody accepted it: its letter was cleared away on purpose, and copies are duplicates all the same.
    pub fn dropped(body: BodyDigest, attempt: u32, at: SystemTime) -> Self {
        Self { status: DROPPED, body, attempt, at, reply: None }
    }

    pub fn is_dropped(&self) -> bool {
        self.status == DROPPED
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReply {
    pub content_type: Option<String>,
    pub body: Bytes,
}

/// The event was accepted, and its letter is in the queue or among the dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    pub letter: LetterId,
    pub body: BodyDigest,
    pub at: SystemTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Claimed(Claimed),
    Failed(Failed),
    Queued(Queued),
    Done(Done),
}

impl Entry {
    pub fn body(&self) -> BodyDigest {
        match self {
            Self::Claimed(claimed) => claimed.body,
            Self::Failed(failed) => failed.body,
            Self::Queued(queued) => queued.body,
            Self::Done(done) => done.body,
        }
    }

    pub fn encode(&self) -> Bytes {
        match self {
            Self::Claimed(claimed) => claimed.encode(),
            Self::Failed(failed) => failed.encode(),
            Self::Queued(queued) => queued.encode(),
            Self::Done(done) => done.encode(),
        }
    }

    /// Reads a stored value; `None` where it is not one of ours.
    pub fn decode(value: &Bytes) -> Option<Self> {
        let head_end = value.iter().position(|byte| *byte == b'\n').unwrap_or(value.len());
        let head = std::str::from_utf8(&value[..head_end]).ok()?;
        let mut fields = head.split('|');
        let entry = match fields.next()? {
            "1c" => Self::Claimed(Claimed {
                token: Token::parse(fields.next()?)?,
                lease: Duration::from_millis(fields.next()?.parse().ok()?),
                retention: Duration::from_secs(fields.next()?.parse().ok()?),
                attempt: fields.next()?.parse().ok()?,
                doubt: doubt(fields.next()?)?,
                body: BodyDigest::parse(fields.next()?)?,
                at: time(fields.next()?)?,
            }),
            "1f" => Self::Failed(Failed {
                attempt: fields.next()?.parse().ok()?,
                doubt: doubt(fields.next()?)?,
                status: optional(fields.next()?, |text| text.parse().ok())?,
                body: BodyDigest::parse(fields.next()?)?,
                at: time(fields.next()?)?,
            }),
            "1q" => Self::Queued(Queued {
                letter: LetterId::parse(fields.next()?)?,
                body: BodyDigest::parse(fields.next()?)?,
                at: time(fields.next()?)?,
            }),
            "1d" => Self::Done(Done {
                status: fields.next()?.parse().ok()?,
                attempt: fields.next()?.parse().ok()?,
                body: BodyDigest::parse(fields.next()?)?,
                at: time(fields.next()?)?,
                reply: if head_end == value.len() {
                    None
                } else {
                    Some(StoredReply::decode(&value.slice(head_end + 1..))?.into())
                },
            }),
            _ => return None,
        };
        // Only a reply may follow the head.
        let is_whole = head_end == value.len() || matches!(entry, Self::Done(_));
        (is_whole && fields.next().is_none()).then_some(entry)
    }
}

/// The head of an entry in the making. Written field by field, because there are two or three for every event, and a format
/// costs as much as all the rest.
struct Head(Vec<u8>);

/// Longer than nearly all of them.
const HEAD_BYTES: usize = 112;

impl Head {
    fn begin(state: &str) -> Self {
        let mut text = Vec::with_capacity(HEAD_BYTES);
        text.extend_from_slice(state.as_bytes());
        Self(text)
    }

    fn field(mut self, text: &[u8]) -> Self {
        self.0.push(b'|');
        self.0.extend_from_slice(text);
        self
    }

    fn text(self, text: &str) -> Self {
        self.field(text.as_bytes())
    }

    fn number(self, number: impl itoa::Integer) -> Self {
        self.text(itoa::Buffer::new().format(number))
    }

    fn token(self, token: Token) -> Self {
        let mut text = [0; Token::WRITTEN_BYTES];
        BASE64URL_NOPAD.encode_mut(&token.0, &mut text);
        self.field(&text)
    }

    fn body(self, body: BodyDigest) -> Self {
        self.field(&body.digits())
    }

    fn time(self, at: SystemTime) -> Self {
        self.number(millis(at))
    }
}

impl Claimed {
    pub fn encode(&self) -> Bytes {
        let Self { token, lease, retention, attempt, doubt, body, at } = self;
        let head = Head::begin("1c").token(*token).number(lease.as_millis()).number(retention.as_secs()).number(*attempt);
        head.text(word(*doubt)).body(*body).time(*at).0.into()
    }
}

impl Failed {
    fn encode(&self) -> Bytes {
        let head = Head::begin("1f").number(self.attempt).text(word(self.doubt));
        let head = match self.status {
            Some(status) => head.number(status),
            None => head.text(""),
        };
        head.body(self.body).time(self.at).0.into()
    }
}

impl Queued {
    pub fn encode(&self) -> Bytes {
        Head::begin("1q").text(&self.letter.to_string()).body(self.body).time(self.at).0.into()
    }
}

impl Done {
    fn encode(&self) -> Bytes {
        let head = Head::begin("1d").number(self.status).number(self.attempt).body(self.body).time(self.at);
        let mut bytes = head.0;
        if let Some(reply) = &self.reply {
            bytes.push(b'\n');
            bytes.extend_from_slice(reply.content_type.as_deref().unwrap_or_default().as_bytes());
            bytes.push(b'\n');
            bytes.extend_from_slice(&reply.body);
        }
        bytes.into()
    }
}

impl StoredReply {
    fn decode(value: &Bytes) -> Option<Self> {
        let end = value.iter().position(|byte| *byte == b'\n')?;
        let content_type = std::str::from_utf8(&value[..end]).ok()?;
        let content_type = (!content_type.is_empty()).then(|| content_type.to_owned());
        Some(Self { content_type, body: value.slice(end + 1..) })
    }
}

pub(super) fn word(doubt: Option<Mark>) -> &'static str {
    doubt.map_or("", Mark::as_str)
}

pub(super) fn doubt(text: &str) -> Option<Option<Mark>> {
    optional(text, Mark::parse)
}

/// A doubt that this version has no word for is a doubt all the same.
pub(super) fn doubt_of_slip(text: &str) -> Option<Mark> {
    doubt(text).unwrap_or(Some(Mark::Unknown))
}

/// An empty field is `None`; anything else must parse.
pub(super) fn optional<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { parse(text).map(Some) }
}

fn since_epoch(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(super) fn millis(at: SystemTime) -> u128 {
    since_epoch(at).as_millis()
}

pub(super) fn time(text: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(text.parse().ok()?))
}

/// The wall clock, for the times an operator reads in an entry, and for the age and the name of a letter. No lease and no
/// retention is decided by it.
#[expect(clippy::disallowed_methods, reason = "stored for people to read; leases and retention use the store's own clock")]
pub fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fingerprint;
    use crate::pipeline::identify::fingerprint;

    fn at() -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_794_787_700_123)
    }

    fn entries() -> Vec<Entry> {
        let body = fingerprint(&Fingerprint::Body, b"{}");
        let claimed = Claimed {
            token: Token([7; 16]),
            lease: Duration::from_secs(15),
            retention: Duration::from_secs(259_200),
            attempt: 3,
            doubt: Some(Mark::Unknown),
            body,
            at: at(),
        };
        let failed = Failed { attempt: 2, doubt: None, status: Some(503), body, at: at() };
        let done = Done { status: 204, body, attempt: 1, at: at(), reply: None };
        let reply = |content_type: Option<&str>, body: &'static [u8]| {
            Some(Box::new(StoredReply { content_type: content_type.map(str::to_owned), body: Bytes::from_static(body) }))
        };
        vec![
            Entry::Claimed(Claimed { doubt: None, ..claimed.clone() }),
            Entry::Claimed(claimed),
            Entry::Failed(Failed { status: None, doubt: Some(Mark::Forgotten), ..failed.clone() }),
            Entry::Failed(failed),
            Entry::Queued(Queued { letter: LetterId::new(at()).unwrap(), body, at: at() }),
            Entry::Done(Done { reply: reply(Some("text/xml"), b"<a>\n|\n\xff</a>"), ..done.clone() }),
            Entry::Done(Done { reply: reply(None, b""), ..done.clone() }),
            Entry::Done(done),
        ]
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for entry in entries() {
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
    }

    /// Other versions of the program read it, and compare it byte for byte.
    #[test]
    fn an_entry_is_written_in_one_way() {
        let letter = LetterId::new(at()).unwrap();
        let (token, body, time) = ("BwcHBwcHBwcHBwcHBwcHBw", "44136fa355b3678a1146ad16f7e8649e", "1794787700123");
        let expected = [
            format!("1c|{token}|15000|259200|3||{body}|{time}"),
            format!("1c|{token}|15000|259200|3|unknown|{body}|{time}"),
            format!("1f|2|forgotten||{body}|{time}"),
            format!("1f|2||503|{body}|{time}"),
            format!("1q|{letter}|{body}|{time}"),
            format!("1d|204|1|{body}|{time}\n\n"),
            format!("1d|204|1|{body}|{time}"),
        ];
        let written = entries().into_iter().filter_map(|entry| match entry {
            Entry::Queued(queued) => Some(Queued { letter, ..queued }.encode()),
            // Its reply is no text.
            Entry::Done(Done { reply: Some(reply), .. }) if reply.content_type.is_some() => None,
            entry => Some(entry.encode()),
        });
        assert!(written.eq(expected));
    }

    #[test]
    fn a_foreign_value_is_never_an_entry() {
        for value in ["", "1", "1c", "x", "2d|200|1||1", "1d|200|1|zz|1", "C|token"] {
            assert_eq!(Entry::decode(&Bytes::from(value)), None, "{value}");
        }
        for entry in entries() {
            let mut longer = entry.encode().to_vec();
            let head = longer.iter().position(|byte| *byte == b'\n').unwrap_or(longer.len());
            longer.splice(head..head, *b"|extra");
            assert_eq!(Entry::decode(&longer.into()), None);
            let followed = [&entry.encode()[..], b"\nextra"].concat();
            assert_ne!(Entry::decode(&followed.into()), Some(entry));
        }
    }
}
