//! From the tree to what is run: one small resolver a section.
//!
//! Every resolver reads all its keys before it gives up, and gives up only where nothing could stand in for what is
//! missing: no problem hides another. Checks that look at several keys at once come after, in `checks` and `routes`.

mod checks;
mod drain;
mod identity;
mod limits;
mod log;
mod policy;
mod preset;
mod provider;
mod queue;
mod routes;
mod secrets;
mod section;
mod store;
#[cfg(test)]
mod tests;
mod tls;
mod top;
mod trace;

use std::net::SocketAddr;
use std::sync::Arc;

use super::problem::Problems;
use super::reader::{At, Layer, Reader};
use super::tree::{Entry, Table};
use super::{Config, Environment, Limits, Mode, Provider, Secret, SectionSettings, StoreUrl};
pub(super) use preset::Presets;
use provider::{Draft, Surroundings};
use section::Section;
use top::Top;

/// What every resolver may look at.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) problems: &'a Problems,
    pub(super) environment: &'a Environment,
    pub(super) presets: &'a Presets,
}

impl<'a> Context<'a> {
    fn at(&self, key: String) -> At<'a> {
        At { key, problems: self.problems, environment: self.environment }
    }

    fn section(&self, table: &'a Table, path: String) -> Section<'a> {
        Section::new(Reader::new(Layer { table, path }, self.problems, self.environment))
    }
}

/// Resolves a key that a caller of the admin side needs.
pub(super) fn admin_address(root: &Table, context: &Context<'_>) -> SocketAddr {
    top::admin_address(&context.section(root, String::new()))
}

/// The other one.
pub(super) fn admin_token(root: &Table, context: &Context<'_>) -> Option<Secret> {
    top::admin_token(&context.section(root, String::new()))
}

/// Resolves the whole tree. `None` only where a problem has been noted.
pub(super) fn config<'a>(root: &'a Table, context: &Context<'a>) -> Option<Config> {
    let root = context.section(root, String::new());
    let mut sections = Vec::new();
    let top = Top::read(&root);
    let store = read(&root, "store", &mut sections, store::resolve);
    let tls = read(&root, "tls", &mut sections, tls::resolve);
    let limits = read(&root, "limits", &mut sections, limits::resolve);
    let log = read(&root, "log", &mut sections, log::resolve);
    let trace = read(&root, "trace", &mut sections, trace::resolve);
    let drain = read(&root, "drain", &mut sections, drain::resolve);
    let queue = read(&root, "queue", &mut sections, queue::resolve);
    let providers = providers(&root, &top, &limits, context);
    let is_queued = providers.iter().flatten().any(|provider| provider.mode == Mode::Queue);
    if is_queued && matches!(store.url, StoreUrl::Memory) && !queue.accept_loss {
        let what = "is in memory: what was accepted for later would be lost when the program ends";
        root.section("store").refuse("url", what, "use file: or redis://, or write accept_loss = true in [queue] to try it out");
    }
    sections.insert(0, SectionSettings { name: "", settings: root.finish() });
    Some(Config {
        listen: top.listen,
        admin: top.admin,
        admin_token: top.admin_token,
        passthrough: top.passthrough,
        trusted_proxies: top.trusted_proxies,
        readiness: top.readiness,
        workers: top.workers,
        store,
        tls,
        limits,
        log,
        trace,
        drain,
        queue,
        providers: providers?,
        sections,
    })
}

fn read<'a, T>(
    root: &Section<'a>,
    name: &'static str,
    sections: &mut Vec<SectionSettings>,
    resolve: impl Fn(&Section<'a>) -> T,
) -> T {
    let section = root.section(name);
    let value = resolve(&section);
    sections.push(SectionSettings { name, settings: section.finish() });
    value
}

/// Reads `[defaults]` and every `[providers.NAME]`.
fn providers<'a>(root: &Section<'a>, top: &Top, limits: &Limits, context: &Context<'a>) -> Option<Vec<Arc<Provider>>> {
    let defaults = root.section("defaults");
    let surroundings = Surroundings { context, defaults: defaults.reader().own().clone(), top, limits };
    provider::check_defaults(defaults);
    let entries = entries(root);
    if entries.is_empty() {
        let help = "write [providers.NAME] with path and secret, or give --provider NAME --secret-env VARIABLE";
        root.error("providers", "no provider is configured", help);
    }
    let drafts: Vec<Draft<'a>> = entries.iter().filter_map(|entry| Draft::read(entry, &surroundings)).collect();
    top::require_upstream(root, drafts.iter().any(|draft| !draft.has_upstream()));
    routes::check(&drafts, top.passthrough.as_ref());
    let finished: Vec<Option<Arc<Provider>>> = drafts.into_iter().map(|draft| draft.finish().map(Arc::new)).collect();
    finished.into_iter().collect()
}

/// The sections below `[providers]`, in the order they were written.
fn entries<'a>(root: &Section<'a>) -> &'a [Entry] {
    &root.reader().section("providers").own().table.entries
}
