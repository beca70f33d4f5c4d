//! Whatever a cell of the store holds, reading it never panics, and what is read is what was written: an entry, a letter's content,
//! a marker or an id that decodes is written down again as something that decodes to the same. Claiming, looking and forgetting
//! over it end in an outcome or an error. Two different ids never share a key.
#![no_main]
#![allow(clippy::unwrap_used, reason = "a target fails by panicking")]

use std::cell::LazyCell;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use hookonce::config::Fingerprint;
use hookonce::pipeline::identify::{BodyDigest, EventId, EventKey, fingerprint};
use hookonce::pipeline::kept;
use hookonce::store::backlog::LetterId;
use hookonce::store::cells::Cells;
use hookonce::store::memory::MemoryCells;
use hookonce::store::{Entry, Store, Terms};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

const LIFE: Duration = Duration::from_secs(259_200);

fuzz_target!(|bytes: &[u8]| {
    let value = Bytes::copy_from_slice(bytes);
    an_entry_is_read_as_it_was_written(&value);
    a_delivery_is_read_as_it_was_kept(&value);
    whatever_a_cell_holds_the_store_goes_on(&value);
    if let Ok(text) = std::str::from_utf8(bytes) {
        ids_and_keys_are_one_to_one(text);
    }
});

fn an_entry_is_read_as_it_was_written(value: &Bytes) {
    if let Some(entry) = Entry::decode(value) {
        assert_eq!(Entry::decode(&entry.encode()), Some(entry));
    }
}

fn a_delivery_is_read_as_it_was_kept(value: &Bytes) {
    let Some(first) = kept::read(value) else { return };
    let second = kept::read(&kept::write(&first.delivery, first.event_id.as_deref(), first.body)).unwrap();
    assert_eq!((&first.event_id, first.body), (&second.event_id, second.body));
    let (first, second) = (first.delivery, second.delivery);
    assert_eq!((first.body, first.caller, first.parts.method), (second.body, second.caller, second.parts.method));
    assert_eq!((first.parts.uri, first.parts.headers), (second.parts.uri, second.parts.headers));
}

/// The store as it is run, over a cell that holds just this.
fn whatever_a_cell_holds_the_store_goes_on(value: &Bytes) {
    let store = Store::new(MemoryCells::default());
    let key = EventKey::stored("fuzz:provider:evt_1");
    let body = fingerprint(&Fingerprint::Body, b"{}");
    let terms = Terms { lease: Duration::from_secs(15), retention: LIFE, body, body_matters: true, doubt: None };
    now(async {
        for body_matters in [true, false] {
            store.cells().put(key.as_str(), value.clone(), LIFE).await.unwrap();
            let _ = store.look(&key).await;
            let _ = store.claim(&key, &Terms { body_matters, ..terms }).await;
            let _ = store.forget(&key).await;
            let _ = store.find("fuzz:", 10).await;
        }
        store.cells().put("fuzz:marker", value.clone(), LIFE).await.unwrap();
        if let Ok(Some(marker)) = store.pulse("fuzz:marker").await {
            let announced = store.announce("fuzz:marker").await.unwrap();
            assert_eq!(store.pulse("fuzz:marker").await.unwrap(), Some(announced.clone()));
            assert_eq!((marker.reset, &marker.servers), (announced.reset, &announced.servers));
            assert!(marker.is_of_same_store(&announced));
        }
    });
}

/// Two lines, each an id as it is shown to people.
fn ids_and_keys_are_one_to_one(text: &str) {
    let (one, other) = text.split_once('\n').unwrap_or((text, ""));
    let ids = [one, other].map(EventId::parse);
    for id in ids.iter().flatten() {
        assert_eq!(EventId::parse(id.display()).as_ref(), Some(id));
        let key = EventKey::new("fuzz", "provider", id);
        assert!(EventKey::shown_as("fuzz", "provider", id.display()).contains(&key));
        assert_eq!(key.tagged("{q07}").untagged(), key);
        assert_eq!(key.tagged("{q07}").id(), key.id());
        assert_eq!(key.as_str().matches(':').count(), 2);
    }
    if let [Some(one), Some(other)] = &ids {
        let keys = [one, other].map(|id| EventKey::new("fuzz", "provider", id));
        assert_eq!(one == other, keys[0] == keys[1]);
        assert_eq!(one == other, one.display() == other.display());
    }
    if let Some(digest) = BodyDigest::parse(one) {
        assert_eq!(digest.to_string(), one);
    }
    if let Some(letter) = LetterId::parse(one) {
        assert_eq!(letter.to_string(), one);
    }
}

/// Cells in memory keep nobody waiting.
fn now<T>(future: impl Future<Output = T>) -> T {
    thread_local!(static RUNTIME: LazyCell<Runtime> = LazyCell::new(|| Builder::new_current_thread().build().unwrap()));
    RUNTIME.with(|runtime| runtime.block_on(future))
}
