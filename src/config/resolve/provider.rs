//! `[providers.NAME]` over `[defaults]`, its preset and what is built in.

use std::time::Duration;

use crate::config::reader::Layer;
use crate::config::tree::{Entry, Table, Value};
use crate::config::written::quoted;
use crate::config::{Limits, OnConflict, OnStoreDown, Provider, ReplayGuard};

use super::identity::{self, Identity};
use super::policy::{Derived, Policy};
use super::section::Section;
use super::top::Top;
use super::{Context, checks};

/// Where nobody knows how long the provider tries: an outage this long is no blip, and most try for longer.
const CLOSED_MAX: Duration = Duration::from_secs(15 * 60);

/// What a provider is read together with.
pub(super) struct Surroundings<'s, 'a> {
    pub(super) context: &'s Context<'a>,
    pub(super) defaults: Layer<'a>,
    pub(super) top: &'s Top,
    pub(super) limits: &'s Limits,
}

/// A provider as far as it could be read. It outlives its own mistakes, so that checks across providers see it too.
pub(super) struct Draft<'a> {
    pub(super) name: &'a str,
    pub(super) section: Section<'a>,
    pub(super) identity: Identity,
    pub(super) policy: Policy,
}

impl<'a> Draft<'a> {
    pub(super) fn read(entry: &'a Entry, surroundings: &Surroundings<'_, 'a>) -> Option<Self> {
        let name = entry.key.as_str();
        let (context, table) = (surroundings.context, table_of(entry, surroundings.context)?);
        let mut section = context.section(table, format!("providers.{name}"));
        section.lay_under(surroundings.defaults.clone());
        let preset = context.presets.of(name, &section);
        if let Some(preset) = preset {
            section.lay_under(Layer { table: preset.table, path: format!("providers.{name}") });
        }
        let identity = Identity::read(name, &section, preset, context.presets);
        let policy = Policy::read(&section, surroundings.top.upstream.as_ref(), derived(&identity));
        let draft = Self { name, section, identity, policy };
        checks::check(&draft, surroundings.limits);
        Some(draft)
    }

    /// Whether it names an upstream of its own, usable or not.
    pub(super) fn has_upstream(&self) -> bool {
        self.section.has("upstream")
    }

    /// The provider, unless something is missing that nothing can stand in for.
    pub(super) fn finish(self) -> Option<Provider> {
        let settings = self.section.finish();
        let (identity, Policy { mode, order_by, target, copies, times, outcomes, door }) = (self.identity, self.policy);
        Some(Provider {
            name: self.name.to_owned(),
            path: identity.path?,
            methods: identity.methods,
            host: identity.host,
            preset: identity.preset,
            scheme: identity.scheme?,
            keys: identity.keys?,
            event_id: identity.event_id,
            event_time: identity.event_time,
            tenant: identity.tenant,
            handshakes: identity.handshakes,
            retry_window: identity.retry_window,
            disables_on_failure: identity.disables_on_failure,
            special_statuses: identity.special_statuses,
            mode,
            order_by,
            upstream: target.upstream?,
            preserve_path: target.preserve_path,
            missing_id: copies.missing_id,
            fingerprint: copies.fingerprint,
            retention: times.retention,
            lease: times.lease,
            upstream_timeout: times.upstream_timeout,
            answer_deadline: times.answer_deadline,
            connect_retry: times.connect_retry,
            in_flight: copies.in_flight,
            on_duplicate: copies.on_duplicate,
            on_conflict: copies.on_conflict,
            replay_guard: copies.replay_guard,
            complete_on: outcomes.complete_on,
            release_on: outcomes.release_on,
            ambiguous: outcomes.ambiguous,
            on_store_down: outcomes.on_store_down,
            closed_max: outcomes.closed_max,
            settle: outcomes.settle,
            enforce: door.enforce,
            dedupe: copies.dedupe,
            reject_status: door.reject_status,
            reject_body: door.reject_body,
            max_body: door.max_body,
            max_concurrent: door.max_concurrent,
            rate_limit: door.rate_limit,
            allow_networks: door.allow_networks,
            settings,
        })
    }
}

/// The section's table, its name looked at on the way: it is a metric label and a part of every key.
fn table_of<'a>(entry: &'a Entry, context: &Context<'a>) -> Option<&'a Table> {
    let at = context.at(format!("providers.{}", entry.key));
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let begins_well = entry.key.bytes().next().is_some_and(is_plain);
    if !begins_well || !entry.key.bytes().all(|b| is_plain(b) || matches!(b, b'_' | b'-')) {
        let help = "write small letters, digits, `_` and `-`, a letter or digit first";
        at.error(&entry.node, format!("is not a name for a provider: {}", quoted(&entry.key)), help);
    }
    match &entry.node.value {
        Value::Table(table) => Some(table),
        _ => {
            at.wrong_type(&entry.node, "a table", &format!("[providers.{}] and its keys below it", entry.key));
            None
        }
    }
}

fn derived(identity: &Identity) -> Derived {
    Derived {
        // Where the signature covers the id, another body is still the same event: such bodies differ legitimately.
        on_conflict: if identity.has_signed_id() { OnConflict::Duplicate } else { OnConflict::Forward },
        // Nobody can give a captured delivery another id where the signature covers that.
        replay_guard: if identity.has_signed_id() { ReplayGuard::Off } else { ReplayGuard::Observe },
        // A 503 helps only where the provider comes back and bears it.
        on_store_down: if identity.cannot_be_put_off() { OnStoreDown::Local } else { OnStoreDown::Closed },
        closed_max: identity.retry_window.map_or(CLOSED_MAX, |window| window / 4),
    }
}

/// Reads `[defaults]` for its own sake: what is wrong there is said once, whether or not a provider uses it.
pub(super) fn check_defaults(section: Section<'_>) {
    section.reader().refuse(identity::KEYS, "cannot be a default", "it belongs to one provider: write it in [providers.NAME]");
    Policy::read(
        &section,
        None,
        Derived {
            on_conflict: OnConflict::Forward,
            replay_guard: ReplayGuard::Observe,
            on_store_down: OnStoreDown::Closed,
            closed_max: CLOSED_MAX,
        },
    );
    section.finish();
}
