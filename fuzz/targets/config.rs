//! Whatever a configuration file says, reading it never panics. It ends in a configuration that can be run, or in at least one
//! problem with words in it. No problem, no warning, no setting that `check` prints and no `Debug` shows a secret.
//!
//! A secret is told by `CANARY`. Where that stands anywhere but in a secret's place, a problem may well quote it.
#![no_main]
#![allow(clippy::panic, reason = "a target fails by panicking")]

use hookonce::config::{Config, Environment, Problem};
use libfuzzer_sys::fuzz_target;
use toml::{Table, Value};

/// In the file.
const CANARY: &str = "c4nary-0123456789abcdef";
/// In a variable that the file may name.
const VARIABLE: &str = "v4riable-fedcba9876543210";

fuzz_target!(|text: &str| {
    // Files are another part's business, and what is in those of this machine is nobody's.
    if text.contains("file") {
        return;
    }
    let environment = Environment::from([("SECRET", VARIABLE), ("EMPTY", ""), ("UNEXPANDED", "${X}"), ("SHORT", "abc")]);
    let shown = match Config::from_text(text, &environment) {
        Ok(loaded) => {
            let providers = loaded.config.providers.iter().flat_map(|provider| &provider.settings);
            let sections = loaded.config.sections.iter().flat_map(|section| &section.settings);
            let settings: String = sections.chain(providers).map(|setting| format!("{setting:?}\n")).collect();
            format!("{:?}\n{settings}{}", loaded.config, listed(&loaded.warnings))
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a word");
            assert!(problems.iter().all(|problem| !problem.what.trim().is_empty()), "refused without words: {problems:?}");
            assert!(
                !problems.iter().any(|problem| problem.help.starts_with("this is a defect of hookonce")),
                "refused without a reason"
            );
            listed(&problems)
        }
    };
    if !text.contains(VARIABLE) && shown.contains(VARIABLE) {
        panic!("a variable's secret is shown:\n{shown}");
    }
    if text.contains(CANARY) && stands_in_secrets_alone(text) && shown.contains(CANARY) {
        panic!("a secret is shown:\n{shown}");
    }
});

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n{problem:?}\n")).collect()
}

/// Whether every `CANARY` of a file is a secret, or the password of a store's URL.
fn stands_in_secrets_alone(text: &str) -> bool {
    let Ok(root) = text.parse::<Table>() else { return false };
    let secrets: usize = root.iter().map(|(key, value)| secrets_in(key, value)).sum();
    secrets == text.matches(CANARY).count()
}

fn secrets_in(key: &str, value: &Value) -> usize {
    match value {
        Value::String(text) if matches!(key, "secret" | "secrets" | "admin_token") => usize::from(text == CANARY),
        Value::String(text) if key == "url" => usize::from(text.contains(&format!(":{CANARY}@"))),
        Value::Array(items) => items.iter().map(|item| secrets_in(key, item)).sum(),
        // It names where a secret is, and is none.
        Value::Table(_) if matches!(key, "secret" | "secrets") => 0,
        Value::Table(table) => table.iter().map(|(key, value)| secrets_in(key, value)).sum(),
        _ => 0,
    }
}
