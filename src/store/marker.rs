//! The marker: the one cell that is no event's. It tells the store that was there from one that has lost its data, and
//! tells every instance that an operator has changed something.

use std::time::SystemTime;

use bytes::Bytes;

use super::cells::{Cells, Change, FOR_EVER, StoreError, StoreErrorKind, Swapped};
use super::entry::{Token, millis, optional, time};
use super::{Store, TURNS};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Made anew whenever a store is found without a marker.
    id: Token,
    /// When the store was last found to have lost data.
    pub reset: Option<SystemTime>,
    /// Goes up whenever an operator changes something that instances keep in memory.
    pub edition: u64,
    /// The run ids of the servers that held the data, joined by `+`; empty where nobody has asked them.
    pub servers: String,
}

impl Marker {
    /// Whether a server is gone, among these, that held the data when this was written. There may be more of them.
    pub fn is_bereft_by(&self, servers: &str) -> bool {
        let is_there = |id| servers.split('+').any(|other| other == id);
        !servers.is_empty() && !self.servers.is_empty() && !self.servers.split('+').all(is_there)
    }

    /// Whether it was written into the same store: one that has not been emptied in between.
    pub fn is_of_same_store(&self, other: &Self) -> bool {
        self.id == other.id
    }

    fn encode(&self) -> Bytes {
        let reset = self.reset.map(|at| millis(at).to_string()).unwrap_or_default();
        let servers = if self.servers.is_empty() { String::new() } else { format!("|{}", self.servers) };
        format!("1m|{}|{reset}|{}{servers}", self.id, self.edition).into()
    }

    fn decode(value: &Bytes) -> Option<Self> {
        let mut fields = std::str::from_utf8(value).ok()?.split('|');
        if fields.next()? != "1m" {
            return None;
        }
        let marker = Self {
            id: Token::parse(fields.next()?)?,
            reset: optional(fields.next()?, time)?,
            edition: fields.next()?.parse().ok()?,
            servers: fields.next().unwrap_or_default().to_owned(),
        };
        fields.next().is_none().then_some(marker)
    }
}

fn decode(value: &Bytes) -> Result<Marker, StoreError> {
    Marker::decode(value).ok_or_else(|| StoreError::new(StoreErrorKind::Foreign, "the marker holds a value of somebody else"))
}

impl<C: Cells> Store<C> {
    /// Whether the store answers, and its marker.
    pub async fn pulse(&self, key: &str) -> Result<Option<Marker>, StoreError> {
        let pulse = self.cells.pulse(key).await;
        self.breaker.heard(&pulse);
        pulse?.as_ref().map(decode).transpose()
    }

    /// The marker, made if there is none. What is known of a `reset` and of the servers, it says from now on.
    pub async fn mark(&self, key: &str, reset: Option<SystemTime>, servers: &str) -> Result<Marker, StoreError> {
        let id = Token::random().map_err(|error| StoreError::new(StoreErrorKind::Local, error))?;
        let new = Marker { id, reset, edition: 0, servers: servers.to_owned() };
        let Some(found) = self.cells.put_new(key, new.encode(), FOR_EVER).await? else { return Ok(new) };
        let found = decode(&found)?;
        if reset <= found.reset && (servers.is_empty() || servers == found.servers) {
            return Ok(found);
        }
        let amend = |marker: &mut Marker| {
            marker.reset = marker.reset.max(reset);
            if !servers.is_empty() {
                servers.clone_into(&mut marker.servers);
            }
        };
        self.amend(key, amend).await
    }

    /// Tells every instance to read again what an operator can change.
    pub async fn announce(&self, key: &str) -> Result<Marker, StoreError> {
        // It only has to be another one.
        self.amend(key, |marker| marker.edition = marker.edition.wrapping_add(1)).await
    }

    async fn amend(&self, key: &str, change: impl Fn(&mut Marker)) -> Result<Marker, StoreError> {
        for _ in 0..TURNS {
            let Some(from) = self.cells.read(key).await?.map(|held| held.value) else {
                return Err(StoreError::new(StoreErrorKind::Refused, "the marker is not there"));
            };
            let mut marker = decode(&from)?;
            change(&mut marker);
            let change = Change { from, to: marker.encode(), life: FOR_EVER, at_age: None };
            if self.cells.swap(key, change).await? == Swapped::Written {
                return Ok(marker);
            }
        }
        Err(StoreError::new(StoreErrorKind::Refused, "the marker keeps changing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryCells;

    #[tokio::test]
    async fn the_last_edition_is_followed_by_another() {
        let store = Store::new(MemoryCells::default());
        let last = format!("1m|AAECAwQFBgcICQoLDA0ODw||{}", u64::MAX);
        store.cells().put("marker", last.into(), FOR_EVER).await.unwrap();
        assert_eq!(store.announce("marker").await.unwrap().edition, 0);
    }
}
