//! What is in a store may have been written by an earlier version, and the next may be running beside this one: keys and
//! values have the form that is kept in `tests/fixtures/entries`.

use std::collections::BTreeSet;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hookonce::pipeline::identify::{EventId, EventKey};
use hookonce::store::cells::Cells;
use hookonce::store::memory::MemoryCells;
use hookonce::store::{Claimed, Done, Entry, Failed, Mark, Queued, Store, StoredReply};

use crate::support::RETENTION;

/// A value, and what it means in words.
struct Frozen {
    value: Bytes,
    meaning: Vec<u8>,
}

fn lines(name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("tests/fixtures/entries/{name}")).unwrap();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// The values whose form begins so.
fn frozen(forms: &[&str]) -> Vec<Frozen> {
    let lines = lines("v1.txt");
    let pairs = lines.chunks(2).map(|pair| (&pair[0], pair[1].strip_prefix("  ").expect("a value and its meaning")));
    let wanted = pairs.filter(|(value, _)| forms.iter().any(|form| value.starts_with(form)));
    wanted.map(|(value, meaning)| Frozen { value: unescaped(value).into(), meaning: unescaped(meaning) }).collect()
}

/// Reads `\n`, `\\` and `\xff`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    while let Some(part) = parts.next() {
        let (byte, rest) = match part.chars().next() {
            // Two in a row: what follows the second is plain.
            None => (b'\\', parts.next().unwrap()),
            Some('n') => (b'\n', &part[1..]),
            Some('x') => (u8::from_str_radix(&part[1..3], 16).unwrap(), &part[3..]),
            Some(other) => panic!("\\{other} is not written here"),
        };
        bytes.push(byte);
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}

fn meaning(entry: &Entry) -> Vec<u8> {
    match entry {
        Entry::Claimed(Claimed { token, lease, retention, attempt, doubt, body, at }) => {
            let (lease, retention) = (lease.as_millis(), retention.as_secs());
            format!(
                "claimed by {token}, lease {lease} ms, retention {retention} s, attempt {attempt}, doubt {}, body {body}, at {}",
                word(*doubt),
                millis(*at)
            )
            .into()
        }
        Entry::Failed(Failed { attempt, doubt, status, body, at }) => {
            let status = status.map_or("none".to_owned(), |status| status.to_string());
            format!("failed, attempt {attempt}, doubt {}, status {status}, body {body}, at {}", word(*doubt), millis(*at)).into()
        }
        Entry::Queued(Queued { letter, body, at }) => format!("queued as {letter}, body {body}, at {}", millis(*at)).into(),
        Entry::Done(Done { status, body, attempt, at, reply }) => {
            let head = format!("done, status {status}, attempt {attempt}, body {body}, at {}, ", millis(*at));
            let reply = match reply.as_deref() {
                None => b"no reply".to_vec(),
                Some(StoredReply { content_type, body }) => {
                    let content_type = content_type.as_deref().unwrap_or_default();
                    [format!("reply <{content_type}> <").as_bytes(), body, b">"].concat()
                }
            };
            [head.as_bytes(), &reply].concat()
        }
    }
}

fn word(doubt: Option<Mark>) -> &'static str {
    doubt.map_or("none", Mark::as_str)
}

fn millis(at: SystemTime) -> u128 {
    at.duration_since(UNIX_EPOCH).unwrap().as_millis()
}

#[test]
fn every_entry_that_was_ever_written_is_read_and_written_the_same() {
    let mut doubts = BTreeSet::new();
    for Frozen { value, meaning: expected } in frozen(&["1c|", "1f|", "1q|", "1d|"]) {
        let entry = Entry::decode(&value).unwrap_or_else(|| panic!("{} is not read", value.escape_ascii()));
        assert_eq!(meaning(&entry).escape_ascii().to_string(), expected.escape_ascii().to_string());
        assert_eq!(entry.encode(), value);
        match entry {
            Entry::Claimed(claimed) => doubts.insert(("claimed", word(claimed.doubt))),
            Entry::Failed(failed) => doubts.insert(("failed", word(failed.doubt))),
            Entry::Queued(_) => doubts.insert(("queued", "none")),
            Entry::Done(done) => doubts.insert(("done", if done.reply.is_some() { "reply" } else { "none" })),
        };
    }
    let words = || Mark::ALL.iter().map(|mark| mark.as_str()).chain(["none"]);
    let entries = words().map(|word| ("claimed", word)).chain(words().map(|word| ("failed", word)));
    assert_eq!(doubts, entries.chain([("queued", "none"), ("done", "none"), ("done", "reply")]).collect(), "each form is kept");
}

#[tokio::test]
async fn every_marker_that_was_ever_written_is_read_and_written_the_same() {
    let markers = frozen(&["1m|"]);
    for Frozen { value, meaning } in &markers {
        let (cells, key) = (MemoryCells::default(), "test:marker");
        cells.put(key, value.clone(), RETENTION).await.unwrap();
        let store = Store::new(cells.clone());
        let marker = store.mark(key, None, "").await.unwrap();
        let reset = marker.reset.map_or("none".to_owned(), |at| millis(at).to_string());
        let servers = if marker.servers.is_empty() { "none" } else { &marker.servers };
        assert_eq!(format!("marker, reset {reset}, edition {}, servers {servers}", marker.edition).as_bytes(), meaning);
        // Changed by an operator and written anew, it differs in its edition alone.
        store.announce(key).await.unwrap();
        let announced = cells.read(key).await.unwrap().unwrap().value;
        let edition = |edition| format!("|{edition}{}", if servers == "none" { String::new() } else { format!("|{servers}") });
        let unchanged = value.strip_suffix(edition(marker.edition).as_bytes()).unwrap();
        assert_eq!(announced, [unchanged, edition(marker.edition + 1).as_bytes()].concat());
    }
    assert_eq!(markers.len(), 3);
}

#[test]
fn every_event_is_found_under_the_key_it_was_ever_stored_under() {
    let keys = lines("keys-v1.txt");
    for line in &keys {
        let (id, stored) = line.split_once(' ').unwrap();
        let key = EventKey::new("billing", "stripe", &EventId::parse(id).unwrap());
        assert_eq!(key.as_str(), format!("billing:stripe:{stored}"));
    }
    assert_eq!(keys.len(), 10);
}
