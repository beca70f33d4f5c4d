//! The watch over the store: one ping every half second, so that an outage is known also without traffic.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::Admin;
use crate::store::StoreError;
use crate::store::redis::About;
use crate::telemetry::StoreOp;

const EVERY: Duration = Duration::from_millis(500);
/// A look at the server's own figures, every so many pings.
const ABOUT_EVERY: u32 = 20;

/// Watches until dropped.
pub async fn watch(admin: &Admin) -> ! {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut state = State { is_up: None, pings: 0, evicted: None };
    let marker = admin.config.store.marker();
    loop {
        ticks.tick().await;
        let answer = admin.telemetry.store(StoreOp::Ping, admin.store.pulse(&marker)).await;
        let is_new = state.turn(admin, answer.map(drop));
        if (is_new || state.pings.is_multiple_of(ABOUT_EVERY))
            && let Ok(Some(about)) = admin.store.about().await
        {
            state.note(admin, &about, is_new);
        }
        state.pings = state.pings.wrapping_add(1);
    }
}

struct State {
    /// `None` before the first answer.
    is_up: Option<bool>,
    pings: u32,
    evicted: Option<u64>,
}

impl State {
    /// Notes whether the store answers; says so when that changes. Tells whether it has just come up.
    fn turn(&mut self, admin: &Admin, answer: Result<(), StoreError>) -> bool {
        let is_up = answer.is_ok();
        admin.telemetry.metrics.store_up.set(i64::from(is_up));
        let before = self.is_up.replace(is_up);
        match answer {
            Err(error) if before != Some(false) => {
                tracing::warn!(%error, "the store does not answer; each provider's `on_store_down` decides now");
            }
            Ok(()) if before == Some(false) => tracing::info!("the store answers again"),
            _ => {}
        }
        is_up && before != Some(true)
    }

    fn note(&mut self, admin: &Admin, about: &About, is_new: bool) {
        if is_new {
            tracing::info!(version = about.version, "connected to Redis");
            if about.evicts() {
                tracing::warn!(
                    policy = about.policy,
                    "Redis throws keys away when its memory is full: forgotten events will be forwarded again; set noeviction"
                );
            }
        }
        // A server that was restarted counts from nought again.
        let more = self.evicted.map_or(0, |before| about.evicted_keys.saturating_sub(before));
        self.evicted = Some(about.evicted_keys);
        if more > 0 {
            admin.telemetry.metrics.store_evicted_keys.inc_by(more);
            tracing::warn!(keys = more, "Redis has thrown keys away: forgotten events will be forwarded again");
        }
    }
}
