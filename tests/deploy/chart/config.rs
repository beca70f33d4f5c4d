//! The configuration that the chart renders, as the program reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use hookonce::config::{Config, Environment, Flags, Loaded, StoreUrl, Tenant, known_keys};
use serde_json::Value;

use super::render::{ALL, HELMS, KUBES, Rendered, chart, list, named, of, rendered, text};

const SECRET_FOLDER: &str = "/run/secrets/hookonce";
/// Fits every scheme of the sets: Standard Webhooks wants base64, the others take anything.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
const PUBLIC_KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
/// Holds what has a meaning in a URL.
const PASSWORD: &str = "p@ss/word:1#?";

/// Reads a set's configuration as its pod would: the secrets that are mounted there as files, and its variables over the file.
pub fn load(rendered: &Rendered) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    for item in mounted(rendered) {
        fs::write(folder.path().join(&item), if item.contains("public") { PUBLIC_KEY } else { SECRET }).unwrap();
    }
    let file = folder.path().join("hookonce.toml");
    fs::write(&file, rendered.toml().replace(SECRET_FOLDER, here)).unwrap();
    let variables = variables(rendered);
    let mut pairs = [("", ""); 8];
    assert!(variables.len() <= pairs.len());
    for (pair, (name, value)) in pairs.iter_mut().zip(&variables) {
        *pair = (name, value);
    }
    let flags = Flags { config: Some(file), ..Flags::default() };
    let loaded = Config::load(&flags, &Environment::from(pairs));
    loaded.unwrap_or_else(|problems| panic!("{rendered}: {problems:#?}\n{}", rendered.toml()))
}

/// The files of the volume of secrets, which lie in one folder.
fn mounted(rendered: &Rendered) -> BTreeSet<String> {
    let volumes = list(&rendered.pod()["spec"]["volumes"]);
    let volume = volumes.iter().find(|volume| volume["name"] == "hookonce-secrets").unwrap_or(&Value::Null);
    if !volume.is_null() {
        assert_eq!(named(&rendered.container()["volumeMounts"], "hookonce-secrets")["mountPath"], SECRET_FOLDER);
    }
    let sources = list(&volume["projected"]["sources"]).iter().flat_map(|source| source.as_object().unwrap().values());
    let paths = sources.flat_map(|source| list(&source["items"])).map(|item| text(&item["path"]).to_owned());
    let (all, count) = paths.fold((BTreeSet::new(), 0), |(mut all, count), path| {
        all.insert(path);
        (all, count + 1)
    });
    assert_eq!(all.len(), count, "{rendered}: two secrets in one file");
    all
}

/// The container's variables, with what a Secret would hold and with references to each other resolved.
fn variables(rendered: &Rendered) -> BTreeMap<String, String> {
    // The image's own, which would win over the file.
    let mut variables = BTreeMap::from([("HOOKONCE__ADMIN".to_owned(), "0.0.0.0:9090".to_owned())]);
    for entry in list(&rendered.container()["env"]) {
        let name = text(&entry["name"]);
        let value = match (entry["value"].as_str(), name) {
            (Some(value), _) => variables.iter().fold(value.to_owned(), |text: String, (name, value): (&String, &String)| {
                text.replace(&format!("$({name})"), value)
            }),
            (None, "HOOKONCE__STORE__URL") => format!("rediss://:{PASSWORD}@redis:6379"),
            (None, "HOOKONCE_STORE_PASSWORD") => PASSWORD.to_owned(),
            (None, _) => SECRET.to_owned(),
        };
        variables.insert(name.to_owned(), value);
    }
    variables
}

#[test]
fn every_configuration_is_accepted() {
    for rendered in ALL.iter() {
        let Loaded { config, warnings } = load(rendered);
        let odd: Vec<_> = warnings.iter().filter(|warning| warning.key != "admin").collect();
        assert!(odd.is_empty(), "{rendered}: {odd:#?}");
        let port = |name| named(&rendered.container()["ports"], name)["containerPort"].as_u64().unwrap();
        assert_eq!(u64::from(config.listen.port()), port("http"), "{rendered}");
        assert_eq!(u64::from(config.admin.port()), port("admin"), "{rendered}");
        assert!(config.admin.ip().is_unspecified(), "{rendered}: probes come from outside of the pod");
        let grace = Duration::from_secs(rendered.pod()["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap());
        assert!(grace >= config.drain.delay + config.drain.timeout + Duration::from_secs(5), "{rendered}");
        assert!(!config.providers.is_empty(), "{rendered}");
    }
}

#[test]
fn no_secret_is_in_a_config_map() {
    for rendered in ALL.iter() {
        for word in [SECRET, PASSWORD, "$(", "@redis"] {
            assert!(!rendered.toml().contains(word), "{rendered}: {word}");
        }
        let lines = rendered.toml().lines().filter(|line| line.contains("secret = ") || line.starts_with("admin_token"));
        for line in lines {
            assert!(line.contains(SECRET_FOLDER) || line.contains("{ env = "), "{rendered}: {line}");
        }
    }
}

#[test]
fn numbers_and_texts_arrive_as_they_were_written() {
    let queue = load(of("queue")).config;
    assert_eq!((queue.workers, queue.queue.max_events, queue.queue.ack_status.as_u16()), (8, 25_000_000, 202));
    assert_eq!((queue.limits.connections, queue.limits.attempts, queue.limits.local_claims), (1_000_000, 123_456, 10_000_000));
    assert_eq!(queue.queue.schedule.last(), Some(&Duration::from_secs(5400)));
    assert_eq!(queue.providers[0].max_concurrent, Some(64));
    let odd = load(of("odd-strings")).config;
    let Some(Tenant::Fixed(tenant)) = &odd.providers[0].tenant else { panic!("{:?}", odd.providers[0].tenant) };
    assert_eq!(tenant, "a\"b\\c <d> & 'e' {{ f }} \t é 日 😀");
    assert_eq!(odd.providers[0].special_statuses, BTreeMap::from([(410, "ends\nit".to_owned()), (429, String::new())]));
    // A number that came by --set is of another type to Helm.
    for helm in HELMS {
        let set = rendered("minimal", helm, KUBES[0], &["--set", "config.limits.connections=987654,drain.timeoutSeconds=90"]);
        let config = load(&set).config;
        assert_eq!((config.limits.connections, config.drain.timeout), (987_654, Duration::from_secs(90)));
        assert_eq!(set.pod()["spec"]["terminationGracePeriodSeconds"], 100);
    }
}

#[test]
fn a_password_reaches_the_store_and_nothing_else() {
    for (set, masked) in [("full", "rediss://***@redis.shop.svc:6379/3"), ("secrets", "rediss://***@redis:6379")] {
        let config = load(of(set)).config;
        let StoreUrl::Redis(url) = &config.store.url else { panic!("{:?}", config.store.url) };
        assert_eq!(config.store.url.masked(), masked);
        assert_eq!(url.login.password.as_ref().map(|password| password.bytes()), Some(PASSWORD.as_bytes()));
    }
}

#[test]
fn a_namespace_in_the_store_belongs_to_one_release() {
    assert_eq!(load(of("minimal")).config.store.namespace, "shop.billing");
    assert_eq!(load(of("full")).config.store.namespace, "Billing_eu.1");
    assert!(load(of("long-names")).config.store.namespace.starts_with("shop.payments.and-refunds"));
}

/// The digest that new pods come with, once something is said on top of a set.
fn digest(set: &str, more: &[&str]) -> String {
    let rendered = rendered(set, HELMS[1], KUBES[1], more);
    rendered.pod()["metadata"]["annotations"]["checksum/config"].as_str().unwrap_or("none").to_owned()
}

/// The program takes up most changes by itself: pods are replaced for the others only, unless somebody wants it otherwise.
#[test]
fn pods_are_replaced_where_the_program_needs_it() {
    let before = digest("minimal", &[]);
    for change in
        ["providers.stripe.path=/other", "config.defaults.lease=30s", "upstream=http://other:1", "config.queue.resign=false"]
    {
        assert_eq!(digest("minimal", &["--set", change]), before, "{change}");
        let always = ["--set", "rolloutOnConfig=always", "--set"];
        assert_ne!(digest("minimal", &[&always[..], &[change]].concat()), digest("minimal", &always[..2]), "{change}");
    }
    for change in [
        "config.workers=3",
        "store.timeout=2s",
        "store.namespace=other",
        "config.limits.streams=7",
        "config.log.level=debug",
        "config.trace.endpoint=http://otel:4318/v1/traces",
        "ports.data=8081",
        "ports.admin=9091",
    ] {
        assert_ne!(digest("minimal", &["--set", change]), before, "{change}");
    }
    assert_eq!(digest("openshift", &[]), "none");
}

pub fn schema() -> Value {
    serde_json::from_str(&fs::read_to_string(chart().join("values.schema.json")).unwrap()).unwrap()
}

/// A key that the program knows and the chart does not could not be written at all.
#[test]
fn every_key_of_the_program_can_be_written() {
    let schema = schema();
    let elsewhere = BTreeMap::from([
        ("listen", "ports"),
        ("admin", "ports"),
        ("admin_token", "adminToken"),
        ("upstream", "upstream"),
        ("drain.delay", "drain"),
        ("drain.timeout", "drain"),
        ("store.url", "store"),
        ("store.namespace", "store"),
        ("store.timeout", "store"),
        ("store.ca_file", "store"),
        ("store.seal", "store"),
    ]);
    let has = |at: &str, key: &str| schema.pointer(at).is_some_and(|properties| !properties[key].is_null());
    let keys = known_keys();
    assert!(keys.len() > 80, "{}", keys.len());
    for key in &keys {
        let steps: Vec<&str> = key.split('.').collect();
        let is_there = match (elsewhere.get(key.as_str()), &steps[..]) {
            (Some(value), _) => has("/properties", value),
            (None, ["providers"] | ["store"] | ["drain"]) => has("/properties", steps[0]),
            // What lies deeper belongs to the scheme's language, which only the program checks.
            (None, ["providers", "NAME", key, ..]) => has("/definitions/provider/properties", key),
            (None, ["defaults", key, ..]) => has("/definitions/policy/properties", key),
            (None, [key]) => has("/properties/config/properties", key),
            (None, [table, key, ..]) => has(&format!("/properties/config/properties/{table}/properties"), key),
            (None, []) => false,
        };
        assert!(is_there, "{key} is not in values.schema.json");
    }
}
