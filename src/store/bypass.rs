//! Bypasses, as the store keeps them for all instances: a cell a provider, which lives as long as the bypass.

use std::time::Duration;

use bytes::Bytes;

use super::Store;
use super::cells::{Cells, StoreError};

const ON: Bytes = Bytes::from_static(b"1b|on");
/// Cells are not deleted: one that has been ended says so for its last moment.
const ENDED: Bytes = Bytes::from_static(b"1b|ended");
const LAST_MOMENT: Duration = Duration::from_secs(1);

impl<C: Cells> Store<C> {
    /// How much longer the bypass kept in this cell goes on.
    pub async fn bypass(&self, key: &str) -> Result<Option<Duration>, StoreError> {
        let held = self.breaker.guard(self.cells.read(key)).await?;
        Ok(held.filter(|held| held.value == ON).map(|held| held.left))
    }

    /// Begins a bypass anew, or ends it. Tells whether there was one.
    pub async fn set_bypass(&self, key: &str, length: Option<Duration>) -> Result<bool, StoreError> {
        let (value, life) = length.map_or((ENDED, LAST_MOMENT), |length| (ON, length));
        Ok(self.breaker.guard(self.cells.put(key, value, life)).await? == Some(ON))
    }
}
