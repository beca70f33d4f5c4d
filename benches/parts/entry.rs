//! Writing and reading what is stored for an event, and putting it under a seal.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use futures_util::FutureExt as _;
use hookonce::config::{Fingerprint, Secret};
use hookonce::pipeline::identify::fingerprint;
use hookonce::store::cells::{Cells, Change, Cursor, Held, Step, StoreError, Swapped};
use hookonce::store::memory::MemoryCells;
use hookonce::store::seal::{Seal, Sealed};
use hookonce::store::{Claimed, Done, Entry, Failed, Mark, StoredReply, Token};

use crate::payload::{ID, IdAt, KIB, json};

/// How long a cell lives; nothing here waits for its end.
const LIFE: Duration = Duration::from_secs(259_200);

pub fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("entry");
    for (name, entry) in entries() {
        let encoded = entry.encode();
        assert_eq!(Entry::decode(&encoded).as_ref(), Some(&entry));
        group.bench_function(format!("{name}/encode"), |bencher| bencher.iter(|| black_box(&entry).encode()));
        group.bench_function(format!("{name}/decode"), |bencher| bencher.iter(|| Entry::decode(black_box(&encoded))));
        under_a_seal(&mut group, name, &encoded);
    }
    group.finish();
}

fn entries() -> Vec<(&'static str, Entry)> {
    let (body, at) = (fingerprint(&Fingerprint::Body, b"{}"), UNIX_EPOCH + Duration::from_millis(1_794_787_700_123));
    let claimed = Claimed {
        token: Token::random().unwrap(),
        lease: Duration::from_secs(30),
        retention: LIFE,
        attempt: 1,
        doubt: None,
        body,
        at,
    };
    let failed = Failed { attempt: 1, doubt: Some(Mark::Unknown), status: Some(503), body, at };
    let done = Done { status: 200, body, attempt: 1, at, reply: None };
    let reply = Box::new(StoredReply { content_type: Some("application/json".to_owned()), body: json(KIB, IdAt::Beginning) });
    vec![
        ("claimed", Entry::Claimed(claimed)),
        ("failed", Entry::Failed(failed)),
        ("done", Entry::Done(done.clone())),
        ("done with a reply of 1KiB", Entry::Done(Done { reply: Some(reply), ..done })),
    ]
}

/// Sealing is done by the cells on their way to others, so that these have to be none.
fn under_a_seal(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, value: &Bytes) {
    let key = format!("bench:orders:{ID}");
    let seal = Arc::new(Seal::new(&Secret::new("a secret that only we know")).unwrap());
    let memory = Sealed::new(MemoryCells::default(), Some(Arc::clone(&seal)));
    now(memory.put(&key, value.clone(), LIFE)).unwrap();
    let sealed = now(memory.inner().read(&key)).unwrap().unwrap();
    let cells = Sealed::new(Echo(sealed), Some(seal));
    assert_eq!(&now(cells.read(&key)).unwrap().unwrap().value, value);
    group.bench_function(format!("{name}/seal"), |bencher| {
        bencher.iter(|| now(cells.put_new(&key, black_box(value).clone(), LIFE)));
    });
    group.bench_function(format!("{name}/open"), |bencher| bencher.iter(|| now(cells.read(black_box(&key)))));
}

/// What comes of something that does not wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().unwrap()
}

/// Cells that drop what they are given and always hold the same.
struct Echo(Held);

impl Cells for Echo {
    async fn put_new(&self, _: &str, value: Bytes, _: Duration) -> Result<Option<Bytes>, StoreError> {
        drop(black_box(value));
        Ok(None)
    }

    async fn put(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        self.put_new(key, value, life).await
    }

    async fn swap(&self, _: &str, change: Change) -> Result<Swapped, StoreError> {
        Ok(change.judge(Some(self.0.clone())))
    }

    async fn touch(&self, _: &str, value: Bytes, _: Duration) -> Result<bool, StoreError> {
        Ok(value == self.0.value)
    }

    async fn read(&self, _: &str) -> Result<Option<Held>, StoreError> {
        Ok(Some(self.0.clone()))
    }

    async fn walk(&self, _: &str, _: Option<Cursor>) -> Result<Step, StoreError> {
        Ok(Step::default())
    }

    async fn pulse(&self, _: &str) -> Result<Option<Bytes>, StoreError> {
        Ok(Some(self.0.value.clone()))
    }
}
