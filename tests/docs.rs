//! What the documents say is what the program does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use hookonce::config::{Config, Environment};
use hookonce::scheme::preset;
use hookonce::store::Mark;
use hookonce::telemetry::metrics::Metrics;

const README: &str = include_str!("../README.md");

/// The fenced blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    README.split(fence.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Everything between backticks in the lines that `is_it` picks.
fn quoted(is_it: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    README.lines().filter(|line| is_it(line)).flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_configuration_in_the_readme_is_accepted() {
    let environment = Environment::from([("STRIPE_WEBHOOK_SECRET", "0123456789abcdef"), ("ORDERS_SECRET", "0123456789abcdef")]);
    let blocks = blocks("toml");
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let text = if block.contains("upstream") { block.to_owned() } else { format!("upstream = \"http://c:1\"\n{block}") };
        let loaded = Config::from_text(&text, &environment).unwrap_or_else(|problems| panic!("{problems:#?}"));
        assert_eq!(loaded.warnings.len(), 0, "{:?}", loaded.warnings);
    }
}

#[test]
fn the_readme_lists_the_presets_there_are() {
    let listed = quoted(|line| line.starts_with("`stripe`, `github`"));
    assert_eq!(listed, preset::names().into_iter().collect());
}

#[test]
fn the_readme_lists_the_marks_there_are() {
    let listed = quoted(|line| line.contains("attempt may have taken effect"));
    assert_eq!(listed, Mark::ALL.iter().map(|mark| mark.as_str()).collect());
}

#[test]
fn the_readme_lists_the_metrics_there_are() {
    let metrics = Metrics::new().unwrap();
    metrics.provider("any", 1);
    let text = String::from_utf8(metrics.render().unwrap()).unwrap();
    let exported = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let exported: BTreeSet<&str> = exported.filter(|name| name.starts_with("hookonce_")).collect();
    let listed = quoted(|line| line.starts_with("| `hookonce_"));
    assert_eq!(listed.into_iter().filter(|name| name.starts_with("hookonce_")).collect::<BTreeSet<_>>(), exported);
}
