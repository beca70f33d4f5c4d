//! The watch over the store: a sign of life every half second, so that an outage, lost data and an operator's changes
//! are known within a second, also without traffic.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Admin, bypass};
use crate::config::Mode;
use crate::pipeline::plan::Plan;
use crate::store::cells::FOR_EVER;
use crate::store::redis::About;
use crate::store::{Keeping, Marker, StoreError, StoreErrorKind};
use crate::telemetry::StoreOp;

const EVERY: Duration = Duration::from_millis(500);
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// How often a queue leaves word that it is in use.
const TRACE_EVERY: Duration = Duration::from_secs(600);
/// A look at the server's own figures, every so many pulses.
const ABOUT_EVERY: u32 = 20;
/// Clocks further apart than this are worth a word, whatever the providers tolerate.
const SKEW_WORTH_SAYING: Duration = Duration::from_secs(30);

/// Watches until dropped.
pub async fn watch(admin: &Admin) -> ! {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watch = Watch {
        admin,
        key: admin.config().store.marker(),
        is_up: None,
        pulses: 0,
        known: None,
        has_news: false,
        is_due: true,
        replaced: None,
        evicted_keys: None,
        traced: None,
        plan: admin.plan.load_full(),
    };
    loop {
        ticks.tick().await;
        watch.turn().await;
        admin.lifecycle.looked.cancel();
    }
}

/// Looks at what the queues hold, until dropped.
pub async fn count_letters(admin: &Admin) -> ! {
    let mut ticks = interval(COUNT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for route in admin.routes().all().filter(|route| route.has_letters()) {
            match admin.telemetry.store(StoreOp::Letters, admin.store.tally(&route.lane)).await {
                Ok(tally) => route.watch.queue(&tally, now()),
                Err(error) => tracing::debug!(provider = route.provider.name, %error, "the queue could not be counted"),
            }
        }
    }
}

/// Tells the store what was done without it, whenever it can be asked.
pub async fn make_amends(admin: &Admin) -> ! {
    admin.reserve.keep_writing_back(&admin.store, |written| admin.telemetry.written_back(written)).await
}

struct Watch<'a> {
    admin: &'a Admin,
    /// Where the marker is.
    key: String,
    /// `None` before the first answer.
    is_up: Option<bool>,
    pulses: u32,
    /// The marker as it was seen last.
    known: Option<Marker>,
    /// Whether something that an operator can change has to be read again.
    has_news: bool,
    /// Whether the servers are to be asked about themselves.
    is_due: bool,
    /// When a call last met another server than before, as far as that has been looked into.
    replaced: Option<SystemTime>,
    /// What the servers have thrown away, when they were asked last.
    evicted_keys: Option<u64>,
    /// When it was last seen to it that the modes of providers are known.
    traced: Option<Instant>,
    /// What was run when this was last looked at.
    plan: Arc<Plan>,
}

impl Watch<'_> {
    async fn turn(&mut self) {
        let admin = self.admin;
        self.look_at_plan();
        let pulse = admin.telemetry.store(StoreOp::Pulse, admin.store.pulse(&self.key)).await;
        let has_come_up = self.note_whether_up(&pulse);
        admin.telemetry.metrics.store_breaker_open.set(i64::from(admin.store.breaker().is_open()));
        if let Ok(found) = pulse {
            let is_emptied = self.known.as_ref().is_some_and(|known| found.as_ref().is_none_or(|it| !it.is_of_same_store(known)));
            let replaced = admin.store.replaced();
            self.is_due |= has_come_up
                || is_emptied
                || self.is_held_up()
                || replaced > self.replaced
                || self.pulses.is_multiple_of(ABOUT_EVERY);
            // A store that fails in the middle of this is looked at again in the next turn, with what was known before.
            match self.look(found, is_emptied, has_come_up).await {
                Ok(()) => (self.is_due, self.replaced) = (false, replaced),
                Err(error) => tracing::debug!(%error, "the store could not be looked at"),
            }
        }
        bypass::note(admin);
        self.pulses = self.pulses.wrapping_add(1);
    }

    /// After a reload there may be providers of which nothing has been asked yet.
    fn look_at_plan(&mut self) {
        let plan = self.admin.plan.load_full();
        if !Arc::ptr_eq(&plan, &self.plan) {
            (self.plan, self.has_news, self.is_due, self.traced) = (plan, true, true, None);
        }
    }

    /// Says so when it changes whether the store answers. Tells whether it has just come up.
    fn note_whether_up(&mut self, pulse: &Result<Option<Marker>, StoreError>) -> bool {
        let is_up = pulse.is_ok();
        self.admin.telemetry.metrics.store_up.set(i64::from(is_up));
        let before = self.is_up.replace(is_up);
        match pulse {
            Err(error) if before != Some(false) => {
                tracing::warn!(%error, "the store does not answer; each provider's `on_store_down` decides now");
            }
            Ok(_) if before == Some(false) => tracing::info!("the store answers again"),
            _ => {}
        }
        is_up && before != Some(true)
    }

    /// Compares the marker and the servers with those that were known, and takes in what they say.
    async fn look(&mut self, found: Option<Marker>, is_emptied: bool, has_come_up: bool) -> Result<(), StoreError> {
        let admin = self.admin;
        self.traced = self.traced.filter(|_| !has_come_up && !is_emptied);
        if self.is_due || self.traced.is_none() {
            // What is not known of queues must not keep a reset from being known.
            let looked = async {
                self.look_at_keeping().await?;
                self.look_at_modes().await
            };
            if let Err(error) = looked.await {
                tracing::debug!(%error, "the queues could not be looked at");
            }
        }
        let servers = if self.is_due { self.ask_servers(has_come_up).await? } else { String::new() };
        let is_replaced = found.as_ref().is_some_and(|found| {
            // By what the servers say; or somebody else has asked them before, and has noted it.
            found.is_bereft_by(&servers) || self.known.as_ref().is_some_and(|known| known.is_bereft_by(&found.servers))
        });
        let is_reset = is_emptied || is_replaced;
        let marker = match found {
            // Somebody else has found it out before, and has dated it.
            Some(marker) if is_reset && marker.reset.is_some() && !marker.is_bereft_by(&servers) => marker,
            _ if is_reset => admin.store.mark(&self.key, Some(now()), &servers).await?,
            Some(marker) if servers.is_empty() || marker.servers == servers => marker,
            // Never seen by anybody, a new store; or it has more servers than before.
            _ => admin.store.mark(&self.key, None, &servers).await?,
        };
        // First of all: whoever sees the reset counted may rely on its mark.
        admin.condition.set_reset(marker.reset);
        if is_reset {
            admin.telemetry.metrics.store_resets.inc();
            let what =
                if is_emptied { "has lost its data" } else { "was restarted or replaced and may have lost its latest writes" };
            tracing::warn!("the store {what}: events it knew may be forwarded again, marked where their own time is known");
        }
        let is_another =
            self.known.as_ref().is_none_or(|known| known.edition != marker.edition || !known.is_of_same_store(&marker));
        self.has_news |= is_another;
        // Among what was changed may be that a provider's events are queued elsewhere.
        self.traced = self.traced.filter(|_| !is_another || self.known.is_none());
        // Known even if the rest fails: a reset is counted once.
        self.known = Some(marker);
        if self.has_news {
            admin.reserve.recent.clear();
            bypass::reread(admin).await?;
            self.has_news = false;
        }
        Ok(())
    }

    /// Whether nothing is accepted for later until the servers have said that they keep it.
    fn is_held_up(&self) -> bool {
        let (config, condition) = (self.admin.config(), &self.admin.condition);
        config.has_queue() && !config.queue.accept_loss && condition.keeping() != Some(Keeping::Durable)
    }

    /// Where events are accepted for later, it matters whether the store can lose them.
    async fn look_at_keeping(&self) -> Result<(), StoreError> {
        let admin = self.admin;
        if !admin.config().has_queue() {
            return Ok(());
        }
        let keeping = admin.store.keeping().await?;
        if admin.condition.set_keeping(keeping.clone())
            && let Keeping::Lossy(why) = keeping
        {
            let what =
                if admin.config().queue.accept_loss { "as configured" } else { "until then nothing is accepted for later" };
            tracing::warn!(why, "an acknowledged event can be lost: {what}");
        }
        Ok(())
    }

    /// A queue leaves word that it is in use; who is not in queue mode looks whether it was.
    async fn look_at_modes(&mut self) -> Result<(), StoreError> {
        let admin = self.admin;
        let is_due = self.traced.is_none_or(|traced| traced.elapsed() > TRACE_EVERY);
        let mut has_begun = false;
        for route in admin.routes().all().filter(|_| is_due) {
            if route.provider.mode == Mode::Sync && admin.store.has_trace(&route.lane).await? {
                route.note_queued();
            }
            if route.has_letters() {
                let tally = admin.store.tally(&route.lane).await?;
                let is_empty = tally.letters + tally.dead == 0;
                let life = if is_empty { route.provider.retention.max(TRACE_EVERY * 2) } else { FOR_EVER };
                // Who was in queue mode until lately does not lengthen that, unless something is left.
                let is_longer = async || admin.store.trace_left(&route.lane).await.map(|left| left > life);
                has_begun |= route.provider.mode == Mode::Queue && !admin.store.has_trace(&route.lane).await?;
                if route.provider.mode == Mode::Queue || !is_empty || is_longer().await? {
                    admin.store.leave_trace(&route.lane, life).await?;
                }
            }
        }
        // Others that are still in sync mode have to look at this queue's events from now on. A file has no others.
        if has_begun && admin.config().store.url.is_shared() {
            admin.announce().await?;
        }
        if is_due {
            self.traced = Some(Instant::now());
        }
        Ok(())
    }

    /// Asks the servers about themselves. Tells who they are, where there are any and they say so.
    async fn ask_servers(&mut self, has_come_up: bool) -> Result<String, StoreError> {
        let asked = now();
        let about = match self.admin.store.about().await {
            Ok(Some(about)) => about,
            Ok(None) => return Ok(String::new()),
            // Not for us to ask, now or later.
            Err(error) if error.kind == StoreErrorKind::Refused => return Ok(String::new()),
            Err(error) => return Err(error),
        };
        let took = now().duration_since(asked).unwrap_or_default();
        if has_come_up {
            tracing::info!(version = about.version, "connected to Redis");
            if about.evicts() {
                tracing::warn!(
                    policy = about.policy,
                    "Redis throws keys away when its memory is full: forgotten events will be forwarded again; set noeviction"
                );
            }
        }
        self.compare_clocks(&about, asked + took / 2);
        // A server that was restarted counts from nought again.
        let evicted = self.evicted_keys.map_or(0, |before| about.evicted_keys.saturating_sub(before));
        self.evicted_keys = Some(about.evicted_keys);
        if evicted > 0 {
            self.admin.telemetry.metrics.store_evicted_keys.inc_by(evicted);
            tracing::warn!(keys = evicted, "Redis has thrown keys away: forgotten events will be forwarded again");
        }
        Ok(about.run_id)
    }

    fn compare_clocks(&self, about: &About, ours: SystemTime) {
        let Some(theirs) = about.clock else { return };
        let ahead = match theirs.duration_since(ours) {
            Ok(ahead) => millis(ahead),
            Err(behind) => -millis(behind.duration()),
        };
        let condition = &self.admin.condition;
        let was_off = condition.skew() > SKEW_WORTH_SAYING;
        condition.set_skew(ahead);
        self.admin
            .telemetry
            .metrics
            .clock_skew
            .set(Duration::from_millis(ahead.unsigned_abs()).as_secs_f64().copysign(ahead as f64));
        if condition.skew() > SKEW_WORTH_SAYING && !was_off {
            tracing::warn!(
                store_is_ahead_ms = ahead,
                "this machine's clock and the store's lie apart: timestamps may be judged wrongly"
            );
        }
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "a reset is dated, and this machine's clock compared with the store's")]
fn now() -> SystemTime {
    SystemTime::now()
}
