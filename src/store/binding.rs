//! To which event signed bytes belong: a cell for each of them, so that they are forwarded once under whatever id they come.
//!
//! ```text
//!   absent --bind--> an event's --the event failed, or is gone, or its lease is over--> the event's that asks
//!                        |
//!                        +-- it is done, queued or under way: whoever asks is its duplicate
//! ```
//!
//! An event binds while it holds the claim on its own id, and forwards only then. The value names the claim: whoever would take
//! the bytes over, having found their event failed, finds another value if that event was claimed anew meanwhile.

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
}

impl Binding {
    fn encode(binder: &Binder<'_>, life: Duration) -> Bytes {
        let token = binder.claim.map(|claim| claim.held.token.to_string()).unwrap_or_default();
        format!("1s|{token}|{}|{}", life.as_secs(), binder.key.as_str()).into()
    }

    fn decode(value: &Bytes) -> Option<Self> {
        let mut fields = std::str::from_utf8(value).ok()?.splitn(4, '|');
        if fields.next()? != "1s" {
            return None;
        }
        let (_token, life) = (fields.next()?, fields.next()?.parse().ok()?);
        Some(Self { life: Duration::from_secs(life), key: EventKey::stored(fields.next()?) })
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
        let ours = Binding::encode(&binder, life);
        let put_first = async || self.breaker.guard(self.cells.put_new(cell, ours.clone(), life)).await;
        let mut seen = put_first().await?;
        for _ in 0..TURNS {
            let Some(from) = seen else { return Ok(Bound::Ours) };
            let foreign = || StoreError::new(StoreErrorKind::Foreign, "a signed digest's key holds a value of somebody else");
            let theirs = Binding::decode(&from).ok_or_else(foreign)?;
            // The same event, at another attempt or in another mode.
            let is_own = theirs.key.untagged() == binder.key.untagged();
            let at_age = match is_own {
                true => None,
                false => match self.owner(&theirs, &binder).await? {
                    Owner::Ended(bound) => return Ok(bound),
                    Owner::Free(at_age) => at_age,
                },
            };
            let change = Change { from, to: ours.clone(), life, at_age };
            seen = match self.breaker.guard(self.cells.swap(cell, change)).await? {
                Swapped::Written if is_own => return Ok(Bound::Ours),
                Swapped::Written => return Ok(Bound::Taken),
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
