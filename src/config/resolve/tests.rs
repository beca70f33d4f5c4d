//! Layers and what follows from them, with presets of the tests' own: those that ship may change their facts.

use std::time::Duration;

use std::sync::LazyLock;

use super::preset::Preset;
use super::*;
use crate::config::problem::{Origin, Problem};
use crate::config::tree;
use crate::config::{OnConflict, OnStoreDown, ReplayGuard};

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let text = r#"
        docs = "https://example.com"
        evidence = "sdk"
        aliases = ["acme-corp"]
        event_id = { header = "X-Id" }
        retry_window = "0s"
        retention = "8d"
        lease = "11s"
        answer_deadline = "9500ms"
        special_statuses = { 401 = "ends the subscription" }
        [scheme]
        signature = { header = "X-Signature" }
    "#;
    tree::parse(text, |_| Origin::Preset("acme"), &Problems::default())
});

const PRESETS: Presets = Presets {
    find: |name| matches!(name, "acme" | "acme-corp").then(|| Preset { name: "acme", table: &TABLE }),
    names: || vec!["acme"],
};

fn load(text: &str) -> (Option<Config>, Vec<Problem>, Vec<Problem>) {
    let problems = Problems::default();
    let root = tree::parse(text, |line| Origin::File { line }, &problems);
    let environment = Environment::from([("SECRET", "0123456789abcdef")]);
    let config = config(&root, &Context { problems: &problems, environment: &environment, presets: &PRESETS });
    let (errors, warnings) = problems.into_parts();
    (config, errors, warnings)
}

/// The only provider of a file whose mistakes are none.
fn provider(text: &str) -> Arc<Provider> {
    let (config, errors, _) = load(&format!("upstream = 'http://127.0.0.1'\n{text}"));
    assert_eq!(errors, []);
    config.unwrap().providers.remove(0)
}

/// Every value and where it was written: `"11s" # preset acme`.
fn setting(provider: &Provider, key: &str) -> String {
    let setting = provider.settings.iter().find(|setting| setting.key == key).unwrap();
    format!("{} # {}", setting.value, setting.origin)
}

const ACME: &str = "[providers.acme]\npath = '/'\nsecret = { env = 'SECRET' }\n";

#[test]
fn provider_wins_over_defaults_over_preset_over_built_in() {
    let text = "[defaults]\nretention = '9d'\nlease = '12s'\n".to_owned() + ACME + "lease = '13s'";
    let acme = provider(&text);
    assert_eq!(setting(&acme, "lease"), "\"13s\" # line 8");
    assert_eq!(setting(&acme, "retention"), "\"9d\" # line 3");
    assert_eq!(setting(&acme, "answer_deadline"), "\"9s500ms\" # preset acme");
    assert_eq!(setting(&acme, "connect_retry"), "\"3s\" # default");
    assert_eq!(setting(&acme, "preset"), "\"acme\" # line 5");
    assert_eq!(setting(&acme, "secret"), "set (variable SECRET) # line 7");
    assert_eq!(acme.lease.as_secs(), 13);
}

#[test]
fn preset_is_found_by_key_name_and_alias() {
    for section in
        ["[providers.mine]\npreset = 'acme'", "[providers.acme]", "[providers.acme-corp]", "[providers.x]\npreset = 'acme-corp'"]
    {
        let found = provider(&format!("{section}\npath = '/'\nsecret = {{ env = 'SECRET' }}"));
        assert_eq!(found.preset, Some("acme"), "{section}");
    }
}

#[test]
fn key_beside_a_preset_replaces_it_whole() {
    let (config, errors, _) = load(&format!("upstream = 'http://127.0.0.1'\n{ACME}scheme = {{ prefix = 'v1=' }}"));
    assert!(config.is_none());
    let keys: Vec<&str> = errors.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["providers.acme.scheme.signature"], "the preset's signature does not shine through");
}

#[test]
fn none_switches_off_what_a_preset_sets() {
    let acme = provider(&format!("{ACME}answer_deadline = 'none'"));
    assert_eq!(acme.answer_deadline, None);
    assert_eq!(setting(&acme, "answer_deadline"), "\"none\" # line 5");
}

#[test]
fn conflict_with_a_preset_is_named_by_what_was_written() {
    let (_, errors, _) = load(&format!("upstream = 'http://127.0.0.1'\n{ACME}upstream_timeout = '5s'"));
    let [problem] = errors.as_slice() else { panic!("{errors:?}") };
    assert_eq!((problem.key.as_str(), &problem.origin), ("providers.acme.upstream_timeout", &Some(Origin::File { line: 5 })));
}

#[test]
fn store_down_is_local_where_a_delivery_cannot_be_put_off() {
    assert_eq!(provider(ACME).on_store_down, OnStoreDown::Local, "retry_window is 0s");
    let patient = format!("{ACME}retry_window = '1h'\n");
    assert_eq!(provider(&patient).on_store_down, OnStoreDown::Closed);
    assert_eq!(provider(&format!("{patient}disables_on_failure = true")).on_store_down, OnStoreDown::Local);
    assert_eq!(provider(&format!("{ACME}on_store_down = 'closed'")).on_store_down, OnStoreDown::Closed);
}

#[test]
fn closed_lasts_a_quarter_of_the_retries_unless_somebody_has_written_it() {
    let closed_max = |keys: &str| provider(&format!("{ACME}{keys}")).closed_max;
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    assert_eq!(closed_max("retry_window = '1h'"), minutes(15));
    assert_eq!(closed_max("retry_window = '1h'\non_store_down = 'closed'"), None);
    assert_eq!(closed_max("retry_window = '1h'\non_store_down = 'closed'\nclosed_max = '2m'"), minutes(2));
    assert_eq!(closed_max("retry_window = '1h'\nclosed_max = 'none'"), None);
}

#[test]
fn same_id_with_another_body_is_a_duplicate_where_the_id_is_signed() {
    assert_eq!(provider(ACME).on_conflict, OnConflict::Forward, "a header that no signature covers");
    assert_eq!(provider(&format!("{ACME}event_id = {{ json = '/id' }}")).on_conflict, OnConflict::Duplicate);
    assert_eq!(provider(&format!("{ACME}on_conflict = 'reject'")).on_conflict, OnConflict::Reject);
    assert_eq!(provider(ACME).replay_guard, ReplayGuard::Observe, "an id that anybody can change");
    assert_eq!(provider(&format!("{ACME}event_id = {{ json = '/id' }}")).replay_guard, ReplayGuard::Off);
    assert_eq!(provider(&format!("{ACME}replay_guard = 'enforce'")).replay_guard, ReplayGuard::Enforce);
}

#[test]
fn habits_of_a_preset_are_warned_of() {
    let (_, errors, warnings) = load(&format!("upstream = 'http://127.0.0.1'\n{ACME}"));
    assert_eq!(errors, []);
    let keys: Vec<&str> = warnings.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["providers.acme.reject_status", "providers.acme.retry_window"]);
}

#[test]
fn captured_deliveries_that_nothing_tells_again_are_warned_of() {
    let warned = |keys: &str| {
        let own = "[providers.own]\npath = '/'\nsecret = { env = 'SECRET' }\n";
        let (_, errors, warnings) = load(&format!("upstream = 'http://127.0.0.1'\n{own}{keys}"));
        assert_eq!(errors, []);
        let of_guard = warnings.into_iter().filter(|problem| problem.key.ends_with("replay_guard"));
        of_guard.map(|problem| problem.what).collect::<Vec<_>>()
    };
    let scheme = "scheme = { signature = { header = 'S' } }\n";
    let stamped =
        "scheme = { signature = { header = 'S' }, signed = '{timestamp}{body}', timestamp = { at = { header = 'T' } } }\n";
    let token = "scheme = { signature = { header = 'S' }, algorithm = 'token' }\n";
    let anytime = "a captured delivery can be sent again at any time: it has neither a timestamp nor an event id";
    assert_eq!(warned(scheme), [anytime]);
    assert_eq!(warned(token), [anytime]);
    for known in ["event_id = { header = 'X-Id' }", "missing_id = 'hash'", "missing_id = 'reject'", "replay_guard = 'enforce'"] {
        assert_eq!(warned(&format!("{scheme}{known}")), [""; 0], "{known}");
    }
    assert_eq!(warned(stamped), [""; 0]);
    let uncovered = "is \"enforce\", and the signature does not cover the body";
    assert_eq!(warned(&format!("{token}replay_guard = 'enforce'")), [uncovered]);
}

#[test]
fn misspelt_preset_is_recognised() {
    let (_, errors, _) = load("upstream = 'http://127.0.0.1'\n[providers.acne]\npath = '/'\nsecret = { env = 'SECRET' }");
    let [problem] = errors.as_slice() else { panic!("{errors:?}") };
    assert_eq!(problem.key, "providers.acne.scheme");
    assert!(problem.help.starts_with("did you mean the preset `acme`? `hookonce providers` lists them;"), "{problem}");
}

#[test]
fn wrong_default_is_said_once_with_two_providers_or_none() {
    let two = format!("upstream = 'http://127.0.0.1'\n{ACME}[providers.acme-corp]\npath = '/2'\nsecret = {{ env = 'SECRET' }}\n");
    for text in [two.as_str(), ""] {
        let (_, errors, _) = load(&format!("{text}[defaults]\nlease = 5\nleas = '5s'"));
        let of_defaults: Vec<&str> =
            errors.iter().map(|problem| problem.key.as_str()).filter(|key| key.starts_with("defaults")).collect();
        assert_eq!(of_defaults, ["defaults.lease", "defaults.leas"]);
    }
}

#[test]
fn a_sender_with_a_scheme_of_its_own_has_nothing_of_a_preset_that_is_called_alike() {
    let own = format!("{ACME}scheme = {{ signature = {{ header = 'S' }} }}\n");
    let plain = provider(&own);
    assert_eq!((plain.preset, plain.event_id.is_none()), (None, true));
    assert_eq!(provider(&format!("{own}preset = 'acme'")).preset, Some("acme"));
}

#[test]
fn settings_are_in_one_order_whatever_is_written() {
    let keys = |provider: &Provider| provider.settings.iter().map(|setting| setting.key).collect::<Vec<_>>();
    let (plain, full) = (provider(ACME), provider(&format!("{ACME}lease = '9s'\nhost = 'a.example'\nenforce = false")));
    assert_eq!(keys(&plain), keys(&full));
    assert_eq!(keys(&plain)[..3], ["preset", "path", "methods"]);
}

/// Each preset, with a path, what it is verified with and the URL where that is signed, is a provider.
#[test]
fn presets_that_ship_resolve_without_a_problem() {
    // The one that its recorded requests are verified with.
    let key = |name: &str| {
        let path = format!("{}/tests/fixtures/vectors/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap_or("{}")).unwrap();
        first["public_key"].as_str().unwrap_or("none").to_owned()
    };
    for name in (Presets::SHIPPED.names)() {
        let scheme = crate::scheme::preset::find(name).unwrap().compile().unwrap().scheme;
        let material = if scheme.fetches_keys() {
            String::new()
        } else if scheme.takes_public_keys() {
            "public_key = { env = 'KEY' }".to_owned()
        } else {
            "secret = { env = 'SECRET' }".to_owned()
        };
        let url = if scheme.signs_url() { "public_url = 'https://hooks.example.com'" } else { "" };
        let text = format!("upstream = 'http://127.0.0.1'\n[providers.{name}]\npath = '/'\n{material}\n{url}");
        let problems = Problems::default();
        let root = tree::parse(&text, |line| Origin::File { line }, &problems);
        // Readable as text, as hex and as base64.
        let secret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let pem = key(name);
        let environment = Environment::from([("SECRET", secret), ("KEY", pem.as_str())]);
        let resolved = config(&root, &Context { problems: &problems, environment: &environment, presets: &Presets::SHIPPED });
        let (errors, warnings) = problems.into_parts();
        assert!(resolved.is_some() && errors.is_empty(), "{name}: {errors:?}");
        // What a provider lacks is worth a word to whoever configures it.
        let is_said = |what: &str| {
            ["every delivery is forwarded", "sent again at any time", "does not cover the whole body", "never delivers again"]
                .iter()
                .any(|it| what.contains(it))
        };
        assert!(warnings.iter().all(|warning| is_said(&warning.what)), "{name}: {warnings:?}");
    }
}

/// What `[defaults]` refuses as belonging to one provider is exactly what it does not read itself.
#[test]
fn every_key_of_a_provider_is_a_default_or_refused_as_one() {
    let known = crate::config::known_keys();
    let keys = |section: &str| -> Vec<String> {
        let own = known.iter().filter_map(|key| key.strip_prefix(section));
        own.filter(|key| !key.contains('.')).map(str::to_owned).collect()
    };
    let (of_defaults, mut refused) = (keys("defaults."), keys("providers.NAME."));
    refused.retain(|key| !of_defaults.contains(key));
    let mut listed = identity::KEYS.to_vec();
    listed.sort_unstable();
    assert_eq!(refused, listed);
}
