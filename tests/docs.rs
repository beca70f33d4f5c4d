//! What the documents say is what the program does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hookonce::config::{Config, Environment};
use hookonce::scheme::preset;
use hookonce::store::Mark;
use hookonce::telemetry::metrics::Metrics;

const README: &str = include_str!("../README.md");
const SCHEMES: &str = include_str!("../docs/schemes.md");
const GUARANTEE: &str = include_str!("../docs/guarantee.md");
const SECURITY: &str = include_str!("../docs/security.md");

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

/// The names of all metrics.
fn exported() -> BTreeSet<String> {
    let metrics = Metrics::new().unwrap();
    metrics.provider("any", 1);
    let text = String::from_utf8(metrics.render().unwrap()).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    names.filter(|name| name.starts_with("hookonce_")).map(str::to_owned).collect()
}

#[test]
fn the_readme_lists_the_metrics_there_are() {
    let listed = quoted(|line| line.starts_with("| `hookonce_"));
    let listed: BTreeSet<String> = listed.into_iter().filter(|name| name.starts_with("hookonce_")).map(str::to_owned).collect();
    assert_eq!(listed, exported());
}

/// Every document for readers, by its path.
fn documents() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "prometheus/README.md", "helm/hookonce/README.md"];
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let all = named.iter().map(|name| root.join(name)).chain(docs);
    all.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// What a heading is linked to by.
fn anchor(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase();
    plain
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let (documents, mut seen) = (documents(), 0);
    for (path, text) in &documents {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.contains(' ')) {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let target = target.canonicalize().unwrap_or_else(|_| panic!("{}: {link}", path.display()));
            if let (Some(text), false) = (documents.get(&target), place.is_empty()) {
                assert!(text.lines().any(|line| line.starts_with('#') && anchor(line) == place), "{}: {link}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 80, "{seen}");
}

#[test]
fn every_metric_that_a_document_names_exists() {
    let (exported, mut seen) = (exported(), 0);
    for (path, text) in documents() {
        for name in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.starts_with("hookonce_")) {
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let is_known = exported.contains(name) || of_histogram.is_some_and(|name| exported.contains(name));
            // A beginning of several names, as in a search for them.
            let is_beginning = exported.iter().any(|metric| metric.starts_with(name));
            assert!(is_known || is_beginning, "{}: {name}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

/// The tests that a document's tables name, as file and function.
fn named_tests(document: &'static str) -> BTreeSet<(&'static str, &'static str)> {
    let rows = document.lines().filter(|line| line.starts_with("| "));
    rows.flat_map(|line| line.split('`').skip(1).step_by(2)).filter_map(|word| word.split_once("::")).collect()
}

/// A file of tests, or of the program with tests in it.
fn source(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_from_root = ["src/", "fuzz/"].iter().any(|folder| file.starts_with(folder));
    let folder = if is_from_root { root.to_owned() } else { root.join("tests") };
    let path = folder.join(file).with_extension("rs");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn assert_all_exist(named: &BTreeSet<(&str, &str)>) {
    for (file, test) in named {
        let (source, head) = (source(file), format!("fn {test}"));
        let is_there = source.match_indices(&head).any(|(at, _)| matches!(source.as_bytes()[at + head.len()], b'(' | b'<'));
        assert!(is_there, "there is no {test} in {file}.rs");
    }
}

/// Every test of a folder is in a row. Gives how many there are.
fn assert_all_named(folder: &str, named: &BTreeSet<(&str, &str)>) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for file in files.map(|path| format!("{folder}/{}", path.file_stem().unwrap().to_str().unwrap())) {
        let source = source(&file).replace("#[test]", "#[tokio::test]");
        for test in source.split("#[tokio::test]").skip(1).map(|rest| rest.split_once("fn ").unwrap().1) {
            let test = test.split('(').next().unwrap();
            assert!(named.contains(&(file.as_str(), test)), "{file}::{test} is in no row");
            count += 1;
        }
    }
    count
}

#[test]
fn every_test_that_the_guarantee_names_exists() {
    let named = named_tests(GUARANTEE);
    assert!(named.len() > 60, "{}", named.len());
    assert_all_exist(&named);
}

#[test]
fn every_fault_that_is_injected_is_in_the_guarantee() {
    let count = assert_all_named("faults", &named_tests(GUARANTEE));
    assert!(count > 40, "{count}");
}

#[test]
fn every_test_that_the_page_on_security_names_exists() {
    let named = named_tests(SECURITY);
    assert!(named.len() > 100, "{}", named.len());
    assert_all_exist(&named);
}

#[test]
fn everything_hostile_that_is_tried_is_on_the_page_on_security() {
    let count = assert_all_named("hostile", &named_tests(SECURITY));
    assert!(count > 70, "{count}");
}
