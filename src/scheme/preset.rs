//! The presets that ship with the program: provider sections in files of their own, embedded and parsed once.
//!
//! A preset can say nothing that a user's own section cannot.

use std::sync::LazyLock;

use super::{Handshake, IdRule, Scheme};
use crate::config::problem::Problems;
use crate::config::reader::{Environment, Layer, Reader};
use crate::config::tree::{self, Table, Value};
use crate::config::{Origin, Problem};

/// One line for each file, in the order of names.
const FILES: [(&str, &str); 6] = [
    ("github", include_str!("../../presets/github.toml")),
    ("shopify", include_str!("../../presets/shopify.toml")),
    ("slack", include_str!("../../presets/slack.toml")),
    ("standard-webhooks", include_str!("../../presets/standard-webhooks.toml")),
    ("stripe", include_str!("../../presets/stripe.toml")),
    ("svix", include_str!("../../presets/svix.toml")),
];

static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| FILES.iter().map(|(name, text)| Preset::parse(name, text)).collect());

/// A provider section that ships with the program: the same keys, and `docs`, `evidence`, `aliases`.
#[derive(Debug)]
pub struct Preset {
    pub name: &'static str,
    pub table: Table,
    /// What is wrong with the file: nothing, as a test sees to.
    problems: Vec<Problem>,
}

/// What a delivery is judged with.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub scheme: Scheme,
    pub event_id: Option<IdRule>,
    pub handshake: Option<Handshake>,
}

/// The preset of this name or alias.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name || preset.aliases().any(|alias| alias == name))
}

pub fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

impl Preset {
    fn parse(name: &'static str, text: &str) -> Self {
        let problems = Problems::default();
        let table = tree::parse(text, |_| Origin::Preset(name), &problems);
        Self { name, table, problems: problems.into_parts().0 }
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
        let (event_id, handshake) = (reader.get("event_id"), reader.get("handshake"));
        match scheme {
            Some(scheme) if problems.is_empty() => Ok(Compiled { scheme: scheme.value, event_id, handshake }),
            _ => Err(problems.into_parts().0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_compiles_and_none_is_left_out() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/presets")).unwrap();
        assert_eq!(files.count(), FILES.len(), "a file is not in the table");
        assert_eq!(names().len(), 6);
        for name in names() {
            let compiled = find(name).unwrap().compile();
            assert!(compiled.is_ok(), "{name}: {compiled:?}");
            assert!(compiled.unwrap().event_id.is_some(), "{name}");
        }
        assert!(find("slack").unwrap().compile().unwrap().handshake.is_some());
    }

    #[test]
    fn names_and_aliases_are_each_of_one_preset() {
        let mut all: Vec<&str> = PRESETS.iter().flat_map(|preset| std::iter::once(preset.name).chain(preset.aliases())).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(find("standardwebhooks").unwrap().name, "standard-webhooks");
        assert!(find("nobody").is_none());
    }

    #[test]
    fn every_preset_says_where_its_facts_are_from() {
        for preset in PRESETS.iter() {
            for key in ["docs", "evidence", "retention"] {
                assert!(matches!(preset.table.get(key).map(|node| &node.value), Some(Value::Text(_))), "{}: {key}", preset.name);
            }
        }
    }

    #[test]
    fn the_signature_covers_the_id_where_the_provider_signs_it() {
        let signed = |name: &str| {
            let compiled = find(name).unwrap().compile().unwrap();
            compiled.event_id.unwrap().is_signed(&compiled.scheme)
        };
        let covered: Vec<&str> = names().into_iter().filter(|name| signed(name)).collect();
        assert_eq!(covered, ["slack", "standard-webhooks", "stripe", "svix"]);
    }
}
