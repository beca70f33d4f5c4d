//! What makes a provider the one it is, and no other: its route, its scheme, its events, its habits.
//! These keys have no place in `[defaults]`.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;

use crate::config::Tenant;
use crate::config::path::{Host, RoutePath};
use crate::config::reader::{At, FromNode};
use crate::config::tree::{Node, Value};
use crate::scheme::{EventTime, Handshake, IdRule, Key, Place, PublicUrl, Scheme};

use super::preset::{Preset, Presets};
use super::secrets;
use super::section::{NOT_SET, Section};

/// The keys that `Identity` reads.
pub(super) const KEYS: &[&str] = &[
    "path",
    "methods",
    "host",
    "preset",
    "scheme",
    "secret",
    "secrets",
    "public_key",
    "public_url",
    "event_id",
    "event_time",
    "tenant",
    "handshake",
    "retry_window",
    "disables_on_failure",
    "special_statuses",
];

pub(super) struct Identity {
    pub(super) path: Option<String>,
    pub(super) methods: Vec<Method>,
    pub(super) host: Option<String>,
    pub(super) preset: Option<&'static str>,
    pub(super) scheme: Option<Scheme>,
    pub(super) keys: Option<Vec<Key>>,
    pub(super) event_id: Option<IdRule>,
    pub(super) event_time: Option<EventTime>,
    pub(super) tenant: Option<Tenant>,
    pub(super) handshakes: Vec<Handshake>,
    pub(super) retry_window: Option<Duration>,
    pub(super) disables_on_failure: bool,
    pub(super) special_statuses: BTreeMap<u16, String>,
}

impl Identity {
    pub(super) fn read(name: &str, section: &Section<'_>, preset: Option<Preset>, presets: &Presets) -> Self {
        let path = section.require::<RoutePath>("path", "write path = \"/webhooks/NAME\": where this provider delivers to");
        let methods = methods(section);
        let host = section.optional::<Host>("host");
        let scheme = scheme(name, section, presets);
        let public_url = public_url(section, scheme.as_ref());
        let handshakes = handshakes(section);
        if let Some(what) = scheme.as_ref().and_then(|scheme| handshakes.iter().find_map(|handshake| handshake.misfit(scheme))) {
            section.error("handshake", what, "{sign(...)} is for schemes with an HMAC: echo what the challenge holds instead");
        }
        Self {
            path: path.map(|path| path.0),
            methods,
            host: host.map(|host| host.0),
            preset: preset.map(|preset| preset.name),
            keys: secrets::keys(section, scheme.as_ref()),
            scheme: scheme.map(|scheme| scheme.at_url(public_url)),
            event_id: section.verbatim("event_id", NOT_SET),
            event_time: section.verbatim("event_time", NOT_SET),
            tenant: section.verbatim("tenant", NOT_SET),
            handshakes,
            retry_window: section.optional("retry_window"),
            disables_on_failure: section.or("disables_on_failure", false),
            special_statuses: section.verbatim("special_statuses", NOT_SET).unwrap_or_default(),
        }
    }

    /// Whether a delivery that fails is the last one: it is not sent again, or the provider turns the endpoint off.
    pub(super) fn cannot_be_put_off(&self) -> bool {
        self.retry_window == Some(Duration::ZERO) || self.disables_on_failure
    }

    /// Whether nobody but the provider can have chosen the event id, and the body that comes with it.
    pub(super) fn has_signed_id(&self) -> bool {
        let (Some(id), Some(scheme)) = (&self.event_id, &self.scheme) else { return false };
        let is_tenant_signed = match &self.tenant {
            Some(Tenant::At(place)) => scheme.covers(place),
            Some(Tenant::Fixed(_)) | None => true,
        };
        // With a body that anybody could change, whoever is first with another one must not have the event dropped.
        id.is_signed(scheme) && is_tenant_signed && scheme.covers(&Place::Body)
    }
}

fn methods(section: &Section<'_>) -> Vec<Method> {
    let methods = section.or("methods", vec![Method::POST]);
    if methods.is_empty() {
        section.refuse("methods", "is empty", "write [\"POST\"]: without a method nothing would be let in");
    }
    methods
}

fn scheme(name: &str, section: &Section<'_>, presets: &Presets) -> Option<Scheme> {
    // A preset that was named and does not exist has been noted: that is the mistake, not the missing scheme.
    if !section.has("scheme") && !section.has("preset") {
        section.error("scheme", "is missing", presets.help_without_scheme(name));
    }
    section.verbatim("scheme", NOT_SET)
}

/// Never put together from what a request says of itself, so it has to be told where it counts.
fn public_url(section: &Section<'_>, scheme: Option<&Scheme>) -> Option<PublicUrl> {
    let url = section.optional::<PublicUrl>("public_url");
    if scheme.is_some_and(Scheme::signs_url) && !section.has("public_url") {
        let help =
            "write public_url = \"https://hooks.example.com\": the URL as it stands at the provider, without or with its path";
        section.error("public_url", "is missing: this provider signs the URL that it calls", help);
    }
    url
}

fn handshakes(section: &Section<'_>) -> Vec<Handshake> {
    match section.node("handshake") {
        Some((Node { value: Value::List(_), .. }, _)) => section.verbatim("handshake", NOT_SET).unwrap_or_default(),
        _ => section.verbatim("handshake", NOT_SET).into_iter().collect(),
    }
}

impl FromNode for Tenant {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        match &node.value {
            Value::Text(text) | Value::Loose(text) if text.is_empty() => {
                at.error(node, "is empty", "write the tenant's name, or a place such as { header = \"X-Shop\" }");
                None
            }
            Value::Text(text) | Value::Loose(text) => Some(Self::Fixed(text.clone())),
            _ => Place::from_node(node, at).map(Self::At),
        }
    }
}
