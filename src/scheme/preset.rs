//! The presets that ship with the program: provider sections in files of their own, embedded, and parsed when they are asked for.
//!
//! A preset can say nothing that a user's own section cannot.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use super::{Handshake, IdRule, Scheme};
use crate::config::problem::Problems;
use crate::config::reader::{Environment, FromNode, Layer, Reader};
use crate::config::tree::{self, Entry, Table, Value};
use crate::config::{Origin, Problem};

/// Names and texts, in the order of names: `build.rs` collects the files.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/presets.rs"));

static SHIPPED: LazyLock<Vec<Shipped>> =
    LazyLock::new(|| FILES.iter().map(|(name, text)| Shipped { name, text, read: OnceLock::new() }).collect());

/// A preset's file. Most programs need a few of them: all together take a mebibyte, once they are parsed.
struct Shipped {
    name: &'static str,
    text: &'static str,
    read: OnceLock<Preset>,
}

impl Shipped {
    fn preset(&self) -> &Preset {
        self.read.get_or_init(|| Preset::parse(self.name, self.text))
    }

    /// Whether it answers to this name beside its own. Few have such names at all.
    fn has_alias(&self, name: &str) -> bool {
        self.text.contains("aliases") && self.preset().aliases().any(|alias| alias.eq_ignore_ascii_case(name))
    }
}

/// A provider section that ships with the program: the same keys, and `docs`, `evidence`, `aliases`.
#[derive(Debug)]
pub struct Preset {
    pub name: &'static str,
    pub table: Table,
    /// What is wrong with the file: nothing, as a test sees to.
    problems: Vec<Problem>,
}

/// What a provider's deliveries look like. `{id}`, `{now}`, `{now_ms}` and `{now_rfc3339}` are filled in.
#[derive(Debug)]
pub struct Sample<'a> {
    pub body: Cow<'a, str>,
    pub content_type: &'a str,
    pub headers: Vec<(String, String)>,
}

/// What a delivery is judged with.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub scheme: Scheme,
    pub event_id: Option<IdRule>,
    pub handshakes: Vec<Handshake>,
}

/// The preset of this name or alias.
pub fn find(name: &str) -> Option<&'static Preset> {
    let named = SHIPPED.iter().find(|shipped| shipped.name.eq_ignore_ascii_case(name));
    named.or_else(|| SHIPPED.iter().find(|shipped| shipped.has_alias(name))).map(Shipped::preset)
}

pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

impl Preset {
    /// A preset of one's own, for trying it out. It lives as long as the process.
    pub fn of_text(name: String, text: &str) -> &'static Self {
        Box::leak(Box::new(Self::parse(Box::leak(name.into_boxed_str()), text)))
    }

    fn parse(name: &'static str, text: &str) -> Self {
        let problems = Problems::default();
        let table = tree::parse(text, |_| Origin::Preset(name), &problems);
        Self { name, table, problems: problems.into_parts().0 }
    }

    /// What it says under a key of its own: `title`, `docs`, `evidence`, `judge`, `setup`, `also`, `unsigned`.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.table.get(key).map(|node| &node.value) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The provider's name as people write it.
    pub fn title(&self) -> &str {
        self.text("title").unwrap_or(self.name)
    }

    /// A delivery to try it with.
    pub fn sample(&self) -> Sample<'_> {
        let table = match self.table.get("sample").map(|node| &node.value) {
            Some(Value::Table(table)) => Some(table),
            _ => None,
        };
        let text = |key: &str| match table.and_then(|table| table.get(key)).map(|node| &node.value) {
            Some(Value::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let headers = match table.and_then(|table| table.get("headers")).map(|node| &node.value) {
            Some(Value::Table(headers)) => headers.entries.as_slice(),
            _ => &[],
        };
        let header = |entry: &Entry| match &entry.node.value {
            Value::Text(value) => Some((entry.key.clone(), value.clone())),
            _ => None,
        };
        Sample {
            body: match text("body") {
                None => r#"{"id":"{id}","type":"hookonce.test","created":{now}}"#.into(),
                // A form in parts has its line ends; others are broken only to be read.
                Some(body) if body.contains('\r') => body.into(),
                Some(body) => body.replace('\n', "").into(),
            },
            content_type: text("content_type").unwrap_or("application/json"),
            headers: headers.iter().filter_map(header).collect(),
        }
    }

    /// Other names that it answers to.
    pub fn aliases(&self) -> impl Iterator<Item = &str> {
        let list = match self.table.get("aliases").map(|node| &node.value) {
            Some(Value::List(list)) => list.as_slice(),
            _ => &[],
        };
        list.iter().filter_map(|node| match &node.value {
            Value::Text(alias) => Some(alias.as_str()),
            _ => None,
        })
    }

    /// The preset by itself, without a section that would change it.
    pub fn compile(&self) -> Result<Compiled, Vec<Problem>> {
        let (problems, environment) = (Problems::default(), Environment::default());
        self.problems.iter().cloned().for_each(|problem| problems.error(problem));
        let layer = Layer { table: &self.table, path: format!("presets.{}", self.name) };
        let reader = Reader::new(layer, &problems, &environment);
        let scheme = reader.require("scheme", "a preset says how its provider signs");
        let event_id = reader.get("event_id");
        let handshakes = match reader.node("handshake") {
            Some((node, at)) if matches!(node.value, Value::List(_)) => Vec::from_node(node, &at),
            Some((node, at)) => Handshake::from_node(node, &at).map(|handshake| vec![handshake]),
            None => Some(Vec::new()),
        };
        match scheme {
            Some(scheme) if problems.is_empty() => {
                Ok(Compiled { scheme: scheme.value, event_id, handshakes: handshakes.unwrap_or_default() })
            }
            _ => Err(problems.into_parts().0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = &'static Preset> {
        names().into_iter().filter_map(find)
    }

    #[test]
    fn every_preset_compiles_and_none_is_left_out() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/presets")).unwrap();
        assert_eq!(files.count(), FILES.len());
        assert!(names().len() >= 183, "{}", names().len());
        for name in names() {
            let compiled = find(name).unwrap().compile();
            assert!(compiled.is_ok(), "{name}: {compiled:?}");
        }
    }

    /// What only presets have; every other key is one of `[providers.NAME]`.
    const OWN_KEYS: [&str; 10] =
        ["title", "docs", "evidence", "judge", "aliases", "setup", "also", "id_stable", "unsigned", "sample"];

    #[test]
    fn every_preset_says_what_a_section_can_say_and_what_presets_have() {
        let known = crate::config::known_keys();
        for preset in all() {
            for entry in &preset.table.entries {
                let key = entry.key.as_str();
                let is_known = OWN_KEYS.contains(&key) || known.contains(&format!("providers.NAME.{key}"));
                assert!(is_known && !["path", "secret", "secrets", "upstream"].contains(&key), "{}: {key}", preset.name);
            }
        }
    }

    #[test]
    fn names_and_aliases_are_each_of_one_preset() {
        let mut all: Vec<&str> = all().flat_map(|preset| std::iter::once(preset.name).chain(preset.aliases())).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(find("standardwebhooks").unwrap().name, "standard-webhooks");
        assert!(find("nobody").is_none());
    }

    #[test]
    fn every_preset_says_where_its_facts_are_from() {
        for preset in all() {
            for key in ["title", "docs", "evidence", "retention", "setup"] {
                assert!(preset.text(key).is_some_and(|text| !text.is_empty()), "{}: {key}", preset.name);
            }
            assert!(preset.text("docs").unwrap().starts_with("https://"), "{}", preset.name);
        }
    }

    #[test]
    fn what_is_signed_is_verified_and_carries_its_id_where_it_is_looked_for() {
        // Readable as text, as hex and as base64.
        let secret = crate::config::Secret::new("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
        let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_794_787_700);
        for preset in all() {
            let Compiled { scheme, event_id, .. } = preset.compile().unwrap();
            let scheme = scheme.at_url(super::super::PublicUrl::parse("https://hooks.example.com").ok());
            // Signing takes the provider's private half: scripts/sdk-check does it with keys of its own.
            if scheme.takes_public_keys() {
                continue;
            }
            let key = scheme.key(&secret).unwrap_or_else(|why| panic!("{}: {why}", preset.name)).with_id(Some("key".to_owned()));
            let sample = preset.sample();
            let filled =
                |text: &str| text.replace("{id}", "evt_1").replace("{now}", "1794787700").replace("{now_ms}", "1794787700000");
            let filled = |text: &str| filled(text).replace("{now_rfc3339}", "2026-11-16T00:08:20Z");
            let headers = sample.headers.iter().map(|(name, value)| (name.parse().unwrap(), filled(value).parse().unwrap()));
            let mut draft = super::super::Draft {
                method: http::Method::POST,
                uri: "/hooks".parse().unwrap(),
                headers: headers.collect(),
                body: filled(&sample.body).into(),
            };
            draft.headers.insert(http::header::CONTENT_TYPE, sample.content_type.parse().unwrap());
            if let Some(rule) = &event_id {
                rule.fill(&mut draft, "evt_1", false).unwrap();
            }
            scheme.sign(&key, &mut draft, now).unwrap_or_else(|why| panic!("{}: {why}", preset.name));
            let judged = scheme.verify(&[key], &draft.received(), now);
            assert!(judged.is_ok(), "{}: {judged:?} {draft:?}", preset.name);
            if let Some(rule) = &event_id {
                let id = crate::pipeline::identify::event_id(rule, None, &draft.received()).unwrap();
                assert!(id.is_some(), "{}: {draft:?}", preset.name);
            }
        }
    }

    #[test]
    fn the_signature_covers_the_id_where_the_provider_signs_it() {
        let signed = |name: &str| {
            let compiled = find(name).unwrap().compile().unwrap();
            compiled.event_id.unwrap().is_signed(&compiled.scheme)
        };
        for name in ["slack", "standard-webhooks", "stripe", "svix", "square"] {
            assert!(signed(name), "{name}");
        }
        for name in ["github", "shopify", "razorpay", "linear", "twilio", "adyen"] {
            assert!(!signed(name), "{name}");
        }
    }
}
