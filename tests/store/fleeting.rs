//! An event that is forgotten while it is being claimed.

use std::time::Duration;

use bytes::Bytes;
use hookonce::store::cells::{Cells, Change, Cursor, Held, Step, StoreError, Swapped};
use hookonce::store::memory::MemoryCells;
use hookonce::store::{ClaimOutcome, Store};

use crate::support::{LONG_LEASE, event_key, first_claim, terms};

/// Cells whose life ends right after they were found to be there.
struct Fleeting(MemoryCells);

impl Cells for Fleeting {
    async fn put_new(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        let held = self.0.put_new(key, value, life).await?;
        Ok(held.inspect(|held| self.0.remove(key, held)))
    }

    async fn put(&self, key: &str, value: Bytes, life: Duration) -> Result<Option<Bytes>, StoreError> {
        self.0.put(key, value, life).await
    }

    async fn swap(&self, key: &str, change: Change) -> Result<Swapped, StoreError> {
        self.0.swap(key, change).await
    }

    async fn touch(&self, key: &str, value: Bytes, life: Duration) -> Result<bool, StoreError> {
        self.0.touch(key, value, life).await
    }

    async fn read(&self, key: &str) -> Result<Option<Held>, StoreError> {
        self.0.read(key).await
    }

    async fn walk(&self, prefix: &str, from: Option<Cursor>) -> Result<Step, StoreError> {
        self.0.walk(prefix, from).await
    }

    async fn pulse(&self, marker: &str) -> Result<Option<Bytes>, StoreError> {
        self.0.pulse(marker).await
    }
}

#[tokio::test]
async fn a_claim_on_what_was_forgotten_meanwhile_is_stored_before_it_is_granted() {
    let (cells, key) = (MemoryCells::default(), event_key());
    let (lasting, fleeting) = (Store::new(cells.clone()), Store::new(Fleeting(cells)));
    let failed = first_claim(&lasting, &key, &terms(LONG_LEASE)).await;
    lasting.fail(&failed, Some(500), None).await.unwrap();
    first_claim(&fleeting, &key, &terms(LONG_LEASE)).await;
    assert!(matches!(lasting.claim(&key, &terms(LONG_LEASE)).await.unwrap(), ClaimOutcome::InFlight { .. }));
}
