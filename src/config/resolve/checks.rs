//! Checks of one provider that look at several of its keys at once.

use std::time::Duration;

use http::StatusCode;

use crate::config::units::Written;
use crate::config::written::AsWritten;
use crate::config::{Ambiguous, InFlight, Limits, MissingId, Mode, OnDuplicate, ReplayGuard};

use super::policy::Copies;
use super::provider::Draft;

pub(super) fn check(draft: &Draft<'_>, limits: &Limits) {
    retention_outlasts_tolerance(draft);
    retention_outlasts_lease(draft);
    retention_outlasts_retries(draft);
    deadline_comes_before_timeout(draft);
    status_means_one_thing(draft);
    rejection_has_no_other_meaning(draft);
    path_goes_to_one_place(draft);
    body_fits_the_buffers(draft, limits);
    lost_deliveries_are_known(draft);
    events_can_be_told_apart(draft);
    captured_deliveries_are_known(draft);
    what_gives_up_the_promise_is_said(draft);
    what_the_queue_changes_is_said(draft);
}

/// A signature that outlives the memory of its event lets a captured delivery through again.
fn retention_outlasts_tolerance(draft: &Draft<'_>) {
    let (retention, tolerance) = (draft.policy.times.retention, draft.identity.scheme.as_ref().and_then(|s| s.tolerance()));
    if let Some(tolerance) = tolerance.filter(|tolerance| retention < *tolerance) {
        let what = shorter("retention", retention, "the scheme's tolerance", tolerance);
        let help = format!("a delivery could be replayed once its event is forgotten: write {} or more", tolerance.as_written());
        draft.section.error(draft.section.written_of(&["retention", "scheme"]), what, help);
    }
}

/// A claim lives as long as the retention, and must be found for a while after its lease: whoever takes over would not
/// know otherwise that somebody was before.
fn retention_outlasts_lease(draft: &Draft<'_>) {
    let (retention, twice) = (draft.policy.times.retention, draft.policy.times.lease * 2);
    if retention < twice {
        let what = shorter("retention", retention, "twice the lease", twice);
        let help = format!("write a retention of {} or more, or a shorter lease", twice.as_written());
        draft.section.error(draft.section.written_of(&["retention", "lease"]), what, help);
    }
}

fn retention_outlasts_retries(draft: &Draft<'_>) {
    let (retention, window) = (draft.policy.times.retention, draft.identity.retry_window);
    if let Some(window) = window.filter(|window| retention < *window) {
        let what = shorter("retention", retention, "the provider's retry_window", window);
        draft.section.warn("retention", what, "a late copy is forwarded as a new event");
    }
}

/// A deadline past the timeout would never be met: the call is given up first.
fn deadline_comes_before_timeout(draft: &Draft<'_>) {
    let times = &draft.policy.times;
    let Some(deadline) = times.answer_deadline else { return };
    if deadline > times.upstream_timeout {
        let what = shorter("upstream_timeout", times.upstream_timeout, "answer_deadline", deadline);
        let help = format!("write an answer_deadline of {} or less, or \"none\"", times.upstream_timeout.as_written());
        draft.section.error(draft.section.written_of(&["answer_deadline", "upstream_timeout"]), what, help);
    }
}

fn status_means_one_thing(draft: &Draft<'_>) {
    let outcomes = &draft.policy.outcomes;
    let shared = outcomes.release_on.as_ref().and_then(|release_on| release_on.overlap(&outcomes.complete_on));
    if let Some(status) = shared {
        draft.section.error("release_on", format!("{status} is in complete_on too"), "a status either completes or releases");
    }
}

fn rejection_has_no_other_meaning(draft: &Draft<'_>) {
    let status = draft.policy.door.reject_status;
    if let Some(meaning) = draft.identity.special_statuses.get(&status.as_u16()) {
        let what = format!("{} means something to {}: {meaning}", status.as_u16(), draft.name);
        let other = if status == StatusCode::BAD_REQUEST { 403 } else { 400 };
        draft.section.warn("reject_status", what, format!("write a status without a meaning of its own, such as {other}"));
    }
}

/// With `preserve_path` the delivery's own path is sent: one in the upstream would be dropped silently.
fn path_goes_to_one_place(draft: &Draft<'_>) {
    let target = &draft.policy.target;
    if let Some(upstream) = target.upstream.as_ref().filter(|upstream| target.preserve_path && upstream.has_path()) {
        let what = format!("has a path that preserve_path would leave out: {}", upstream.as_written());
        draft.section.error("upstream", what, "write preserve_path = false to deliver to that path, or drop the path");
    }
}

fn body_fits_the_buffers(draft: &Draft<'_>, limits: &Limits) {
    let max_body = draft.policy.door.max_body;
    let (all, large) = (limits.buffered, limits.buffered_large());
    if max_body > all || max_body > large.max(Limits::SMALL_BODY) {
        let what = format!("{max_body} is more than large bodies together may take, {large} of {all}");
        draft.section.error("max_body", what, "raise buffered in [limits], or write less here");
    }
}

fn lost_deliveries_are_known(draft: &Draft<'_>) {
    if draft.identity.retry_window == Some(Duration::ZERO) && draft.policy.mode == Mode::Sync {
        let what =
            format!("{} never delivers again by itself: in sync mode an event is lost when the consumer fails", draft.name);
        let help = "write mode = \"queue\", or plan for redelivery by hand";
        draft.section.warn("retry_window", what, help);
    }
}

/// These are for those who know what they do; nobody should find them in a configuration by surprise.
fn what_gives_up_the_promise_is_said(draft: &Draft<'_>) {
    let section = &draft.section;
    if !draft.policy.door.enforce {
        section.warn(
            "enforce",
            "is off: what does not verify is forwarded, without dedupe",
            "set it to true once everything verifies",
        );
    }
    if draft.policy.copies.in_flight == InFlight::Ack {
        section.warn(
            "in_flight",
            "is \"ack\": a copy is told 2xx before the first has succeeded",
            "if that one fails, the event is lost",
        );
    }
    if draft.policy.outcomes.ambiguous == Ambiguous::Keep {
        section.warn(
            "ambiguous",
            "is \"keep\": a call without an answer counts as done",
            "if it took no effect, the event is lost",
        );
    }
}

/// From the queue, a consumer's answer reaches nobody.
fn what_the_queue_changes_is_said(draft: &Draft<'_>) {
    let (section, is_queue) = (&draft.section, draft.policy.mode == Mode::Queue);
    let scheme = draft.identity.scheme.as_ref();
    if is_queue && scheme.is_some_and(|scheme| scheme.tolerance().is_some() && !scheme.can_be_signed()) {
        let what = format!("is \"queue\", and only {} can sign: a signature that grew old cannot be made anew", draft.name);
        section.warn("mode", what, "a consumer that verifies the timestamp for itself refuses what was delivered late");
    }
    if is_queue && draft.policy.copies.on_duplicate == OnDuplicate::Replay {
        let what = format!("is \"queue\", and {} reads the answer's body, which it no longer gets", draft.name);
        section.warn("mode", what, "use \"sync\" for endpoints whose answer matters");
    }
    if !is_queue && section.has("order_by") {
        section.warn("order_by", "means nothing in sync mode", "write mode = \"queue\", or remove it");
    }
}

fn events_can_be_told_apart(draft: &Draft<'_>) {
    let Copies { missing_id, replay_guard, .. } = &draft.policy.copies;
    // Both give an event a name that has none.
    let is_named = *missing_id == MissingId::Hash || (*missing_id, *replay_guard) == (MissingId::Forward, ReplayGuard::Enforce);
    if draft.section.has("event_id") || is_named {
        return;
    }
    let fate = if draft.policy.copies.missing_id == MissingId::Reject { "rejected" } else { "forwarded, duplicates too" };
    let what = format!("is not set: every delivery is {fate}");
    let help = match draft.identity.preset {
        Some(preset) => {
            format!("this provider names no event: where yours do, set event_id; `hookonce providers {preset}` tells more")
        }
        None => "write event_id = { json = \"/id\" }, or missing_id = \"hash\"".to_owned(),
    };
    draft.section.warn("event_id", what, help);
}

/// Whoever has seen one delivery can send it again: what stands against that is a timestamp, an id, or the memory of it.
fn captured_deliveries_are_known(draft: &Draft<'_>) {
    let Some(scheme) = &draft.identity.scheme else { return };
    let Copies { missing_id, replay_guard, .. } = &draft.policy.copies;
    let is_enforced = *replay_guard == ReplayGuard::Enforce;
    let is_nameless = !draft.section.has("event_id") && *missing_id == MissingId::Forward;
    if is_nameless && scheme.tolerance().is_none() && !is_enforced {
        let what = "a captured delivery can be sent again at any time: it has neither a timestamp nor an event id";
        draft.section.warn("replay_guard", what, "write replay_guard = \"enforce\"");
    }
    if is_enforced && !scheme.tells_bodies_apart() {
        let what = "is \"enforce\", and the signature does not cover the body";
        draft.section.warn("replay_guard", what, "a captured delivery whose body was changed is not known again");
    }
}

fn shorter(one: &str, length: Duration, other: &str, wanted: Duration) -> String {
    format!("{one} ({}) is shorter than {other} ({})", Written(length), Written(wanted))
}
