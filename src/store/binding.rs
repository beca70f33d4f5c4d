//! To which event signed bytes belong: a cell for each of them, so that they are forwarded once under whatever id they come.
//!
//! ```text
//!   absent --bind--> an event's --the event failed, or is gone, or its lease is over--> the event's that asks
//!                        |
//!                        +-- it is done, queued or under way: whoever asks is its duplicate,
//!                            but for the event whose the bytes were first
//! ```
//!
//! An event binds while it holds the claim on its own id, and forwards only then. The value names the claim: whoever would take
//! the bytes over, having found their event failed, finds another value if that event was claimed anew meanwhile.
//!
//! The event that had them first is never told that another one was done in its place. What is signed is not all that a consumer
//! looks at: a captured copy with other headers may have been accepted as something else while the event itself failed.

use std::time::Duration;

use bytes::Bytes;

use super::cells::{AtAge, Cells, Change, StoreError, StoreErrorKind, Swapped};
use super::entry::{Claimed, Done, Entry, Failed, Mark, Queued};
use super::{Claim, Store, TURNS, whole_seconds};
use crate::pipeline::identify::EventKey;

/// Who wants signed bytes to be its own.
#[derive(Clone, Copy, Debug)]
pub struct Binder<'a> {
    pub key: &'a EventKey,
    /// The claim that it holds; events for later have none.
    pub claim: Option<&'a Claim>,
    pub life: Duration,
    /// How long an event that is nowhere to be found may be on its way to the store.
    pub lease: Duration,
    /// Whether an operator wants done events to go through.
    pub insists: bool,
}

/// Whose they are.
#[derive(Debug)]
pub enum Bound {
    /// The binder's: nobody else had them.
    Ours,
    /// The binder's, and another event's before that was not done, as far as is known.
    Taken,
    /// The binder's, whose they were before any other's. The other has been taken on meanwhile.
    Regained,
    /// Another event's, which is done.
    Done(Done),
    /// Another event's, which will be delivered.
    Queued(Queued),
    /// Another event's, which is under way.
    InFlight { lease_left: Duration },
}

/// What such a cell holds.
struct Binding {
    life: Duration,
    key: EventKey,
    /// Whose they were before any other's.
    first: EventKey,
}

impl Binding {
    fn encode(binder: &Binder<'_>, life: Duration, first: &EventKey) -> Bytes {
        let token = binder.claim.map(|claim| claim.held.token.to_string()).unwrap_or_default();
        let (key, first) = (binder.key.as_str(), first.as_str());
        // A key may hold anything, so its length tells where it ends.
        format!("1s|{token}|{}|{}|{key}{first}", life.as_secs(), key.len()).into()
    }

    fn decode(value: &Bytes) -> Option<Self> {
        let mut fields = std::str::from_utf8(value).ok()?.splitn(5, '|');
        if fields.next()? != "1s" {
            return None;
        }
        let (_token, life, len) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (key, first) = fields.next()?.split_at_checked(len)?;
        Some(Self { life: Duration::from_secs(life), key: EventKey::stored(key), first: EventKey::stored(first) })
    }
}

/// What the event says to which bytes belong.
enum Owner {
    Ended(Bound),
    /// It has no use for them any more, once the cell is as old as this.
    Free(Option<AtAge>),
}

impl<C: Cells> Store<C> {
    /// Makes the bytes of this cell the binder's, unless another event has them and has made something of them.
    pub async fn bind(&self, cell: &str, binder: Binder<'_>) -> Result<Bound, StoreError> {
        let life = whole_seconds(binder.life);
        let ours = Binding::encode(&binder, life, binder.key);
        let put_first = async || self.breaker.guard(self.cells.put_new(cell, ours.clone(), life)).await;
        let mut seen = put_first().await?;
        for _ in 0..TURNS {
            let Some(from) = seen else { return Ok(Bound::Ours) };
            let foreign = || StoreError::new(StoreErrorKind::Foreign, "a signed digest's key holds a value of somebody else");
            let theirs = Binding::decode(&from).ok_or_else(foreign)?;
            // The same event, at another attempt or in another mode.
            let is_own = theirs.key.untagged() == binder.key.untagged();
            let was_first = theirs.first.untagged() == binder.key.untagged();
            let (bound, at_age) = match is_own {
                true => (Bound::Ours, None),
                false => match self.owner(&theirs, &binder).await? {
                    Owner::Ended(Bound::Done(_) | Bound::Queued(_)) if was_first => (Bound::Regained, None),
                    Owner::Ended(bound) => return Ok(bound),
                    Owner::Free(at_age) => (Bound::Taken, at_age),
                },
            };
            let change = Change { from, to: Binding::encode(&binder, life, &theirs.first), life, at_age };
            seen = match self.breaker.guard(self.cells.swap(cell, change)).await? {
                Swapped::Written => return Ok(bound),
                Swapped::Young(lease_left) => return Ok(Bound::InFlight { lease_left }),
                Swapped::Differs(Some(other)) => Some(other),
                Swapped::Differs(None) => put_first().await?,
            };
        }
        // Others keep changing it, so others are at work on it.
        Ok(Bound::InFlight { lease_left: binder.lease })
    }

    async fn owner(&self, theirs: &Binding, binder: &Binder<'_>) -> Result<Owner, StoreError> {
        let Some(seen) = self.look(&theirs.key).await? else {
            // In queue mode the event is written after this cell.
            return Ok(Owner::Free(Some(AtAge { life: theirs.life, least: binder.lease })));
        };
        Ok(match (seen.entry, seen.lease_left) {
            (Entry::Done(done), _) if !self.is_wanted(binder).await? => Owner::Ended(Bound::Done(done)),
            (Entry::Queued(queued), _) => Owner::Ended(Bound::Queued(queued)),
            (Entry::Claimed(_), Some(lease_left)) if !lease_left.is_zero() => Owner::Ended(Bound::InFlight { lease_left }),
            (Entry::Done(_) | Entry::Failed(_) | Entry::Claimed(_), _) => Owner::Free(None),
        })
    }

    /// Whether an operator wants the event to go through, whatever came of its like.
    async fn is_wanted(&self, binder: &Binder<'_>) -> Result<bool, StoreError> {
        if binder.insists {
            return Ok(true);
        }
        let own = self.look(binder.key).await?.map(|seen| seen.entry);
        let doubt = match own {
            Some(Entry::Claimed(Claimed { doubt, .. }) | Entry::Failed(Failed { doubt, .. })) => doubt,
            Some(Entry::Queued(_) | Entry::Done(_)) | None => None,
        };
        Ok(doubt == Some(Mark::Forgotten))
    }
}
