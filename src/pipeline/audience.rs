//! Those who wait for an event's outcome: the sender of the delivery that leads, and copies in this process.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::event::Event;
use super::flight::{Ending, Lead};
use super::refusal::Refusal;
use super::reply::{self, End, Reply, Shared};
use super::route::Slot;
use crate::config::OnDuplicate;
use crate::telemetry::{Facts, Outcome, ProviderWatch};

/// What the task has to say, and what it adds to the delivery's record.
#[derive(Debug)]
pub struct News {
    pub ended: Ended,
    pub facts: Facts,
}

#[derive(Debug)]
pub enum Ended {
    End(End),
    /// The key belongs to another body: the event must be taken up under key and digest.
    Moved(Box<Event>),
}

#[derive(Debug)]
pub struct Audience {
    sender: oneshot::Sender<News>,
    followers: Option<Lead>,
    watch: Arc<ProviderWatch>,
    id: Option<Arc<str>>,
    pub facts: Facts,
    /// The event's place among those under way: given back when everybody has been told.
    pub slot: Option<Slot>,
}

impl Audience {
    pub fn new(event: &Event, followers: Option<Lead>, sender: oneshot::Sender<News>) -> Self {
        let (watch, id) = (Arc::clone(&event.route.watch), event.id.clone());
        Self { sender, followers, watch, id, facts: Facts::default(), slot: None }
    }

    /// Whether anybody still waits.
    pub fn is_there(&self) -> bool {
        !self.sender.is_closed() || self.followers.as_ref().is_some_and(Lead::has_followers)
    }

    /// The store has said that the key belongs to this event's body.
    pub fn owns_key(&self) {
        if let Some(lead) = &self.followers {
            lead.owns_key();
        }
    }

    /// The consumer has accepted the event: a copy that comes now is a duplicate.
    pub fn accepted(&self) {
        if let Some(lead) = &self.followers {
            lead.accepted();
        }
    }

    /// Tells everybody how it ended without the consumer. The event is open for the next delivery.
    pub fn end(self, ending: Ending, on_duplicate: OnDuplicate) {
        if let Some(lead) = &self.followers {
            lead.end(ending.clone());
        }
        self.tell_sender(end_of(ending, on_duplicate));
    }

    /// Tells everybody the consumer's answer, or why there is none. Copies that come while the returned lead is held
    /// find the event accepted, if it was.
    pub fn tell(mut self, (end, shared): (End, Option<Arc<Shared>>)) -> Option<Lead> {
        let lead = self.followers.take();
        if let Some(lead) = &lead {
            lead.end(match (&end, shared) {
                (Err(refusal), _) => Ending::Refused(refusal.clone()),
                (Ok(_), Some(shared)) => Ending::Answered(shared),
                (Ok(_), None) => Ending::Accepted,
            });
        }
        self.tell_sender(end);
        lead
    }

    /// Whether others than the sender may want the answer, once the event was accepted: copies that come from then on are
    /// duplicates, and want it only where those are given the first reply.
    pub fn shares_success(&self, on_duplicate: OnDuplicate) -> bool {
        on_duplicate == OnDuplicate::Replay || self.followers.as_ref().is_some_and(Lead::has_followers)
    }

    /// Sends everybody to the key with the digest.
    pub fn moved(mut self, event: Box<Event>) {
        if let Some(lead) = self.followers.take() {
            lead.end(Ending::Moved);
        }
        let news = News { ended: Ended::Moved(event), facts: self.facts };
        // A sender that has gone has nothing claimed and nothing forwarded: its next delivery begins anew.
        let _ = self.sender.send(news);
    }

    /// A sender that hung up, or was told 503 at its deadline, has its record closed: the late end gets a line of its own.
    fn tell_sender(self, end: End) {
        let (outcome, reason) = (reply::outcome(&end), reply::reason(&end));
        if self.sender.send(News { ended: Ended::End(end), facts: self.facts }).is_err() {
            crate::telemetry::log::late(&self.watch.name, self.id.as_deref(), self.facts, outcome, &reason);
        }
    }
}

/// An ending as the delivery itself is told it.
pub fn end_of(ending: Ending, on_duplicate: OnDuplicate) -> End {
    let replay = on_duplicate == OnDuplicate::Replay;
    match ending {
        Ending::Answered(answer) => {
            let outcome = if answer.is_success { Outcome::Waited } else { Outcome::Failed };
            Ok(Reply::Mirrored { answer, outcome })
        }
        Ending::Done(done) => Ok(Reply::Duplicate { done: Some(done), replay }),
        Ending::Queued | Ending::Accepted => Ok(Reply::Duplicate { done: None, replay: false }),
        Ending::Acked => Ok(Reply::AckedInFlight),
        Ending::Refused(refusal) => Err(refusal),
        // Nobody is moved twice: under key and digest every body is the same.
        Ending::Moved => Err(Refusal::Panicked),
    }
}

/// The same for a copy that came when the event had been accepted: it is a duplicate, though it waited for the reply.
pub fn end_of_accepted(ending: Ending, on_duplicate: OnDuplicate) -> End {
    match ending {
        Ending::Answered(answer) => Ok(Reply::Mirrored { answer, outcome: Outcome::Duplicate }),
        ending => end_of(ending, on_duplicate),
    }
}
