//! What the documents say is what the program does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use hookonce::config::{Config, Environment};
use hookonce::scheme::preset;
use hookonce::store::Mark;
use hookonce::telemetry::metrics::Metrics;

const README: &str = include_str!("../README.md");
const SCHEMES: &str = include_str!("../docs/schemes.md");
const GUARANTEE: &str = include_str!("../docs/guarantee.md");

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

/// `hookonce providers --markdown > docs/providers.md` brings it up to date.
#[test]
fn the_page_of_providers_is_fresh() {
    let program = env!("CARGO_BIN_EXE_hookonce");
    let made = std::process::Command::new(program).args(["providers", "--markdown"]).output().unwrap();
    let page = std::fs::read_to_string("docs/providers.md").unwrap();
    assert!(made.stdout == page.as_bytes(), "run: hookonce providers --markdown > docs/providers.md");
}

/// The blocks of TOML after a heading of docs/schemes.md.
fn schemes_after(heading: &str) -> Vec<&'static str> {
    let text = SCHEMES.split(heading).nth(1).unwrap();
    text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn every_scheme_in_the_documentation_is_read() {
    let environment = Environment::from([("ORDERS_SECRET", "0123456789abcdef"), ("SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==")]);
    let examples = schemes_after("## Worked examples");
    for example in &examples {
        let name = example.split(['.', ']']).nth(1).unwrap();
        let section =
            format!("[providers.{name}]\npath = \"/\"\nsecret = {{ env = \"SECRET\" }}\npublic_url = \"https://a.example\"");
        let text = format!("upstream = \"http://c:1\"\n{section}\n{example}");
        Config::from_text(&text, &environment).unwrap_or_else(|problems| panic!("{example}: {problems:#?}"));
    }
    assert_eq!(examples.len(), 5);
    let first = format!("upstream = \"http://c:1\"\n{}", schemes_after("# Schemes")[0]);
    Config::from_text(&first, &environment).unwrap_or_else(|problems| panic!("{problems:#?}"));
}

#[test]
fn the_readme_counts_the_presets_there_are() {
    let names = |name: &&str| preset::find(name).unwrap().compile().unwrap().event_id.is_some();
    let (all, named) = (preset::names().len(), preset::names().iter().filter(|name| names(name)).count());
    let said =
        [format!("{all} providers"), format!("{named} of them name their events"), format!("other {} send nothing", all - named)];
    for count in said {
        assert!(README.contains(&count), "the README does not say: {count}");
    }
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

/// The tests that the guarantee names, as file and function.
fn named_tests() -> BTreeSet<(&'static str, &'static str)> {
    let rows = GUARANTEE.lines().filter(|line| line.starts_with("| "));
    rows.flat_map(|line| line.split('`').skip(1).step_by(2)).filter_map(|word| word.split_once("::")).collect()
}

fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file).with_extension("rs");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_test_that_the_guarantee_names_exists() {
    let named = named_tests();
    assert!(named.len() > 60, "{}", named.len());
    for (file, test) in named {
        let (source, head) = (source(file), format!("fn {test}"));
        let is_there = source.match_indices(&head).any(|(at, _)| matches!(source.as_bytes()[at + head.len()], b'(' | b'<'));
        assert!(is_there, "there is no {test} in tests/{file}.rs");
    }
}

#[test]
fn every_fault_that_is_injected_is_in_the_guarantee() {
    let named = named_tests();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for file in files.map(|path| format!("faults/{}", path.file_stem().unwrap().to_str().unwrap())) {
        for test in source(&file).split("#[tokio::test]").skip(1).map(|rest| rest.split_once("fn ").unwrap().1) {
            let test = test.split('(').next().unwrap();
            assert!(named.contains(&(file.as_str(), test)), "{file}::{test} is in no row");
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
}
