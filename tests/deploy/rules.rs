//! The rules for Prometheus: each alert fires when it should and only then, and says what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::exported::Exported;
use crate::promql::{asked, assert_readable};
use crate::support::program::hookonce;
use crate::tools::{root, tool};

const RULES: &str = include_str!("../../prometheus/hookonce.rules.yaml");
const README: &str = include_str!("../../prometheus/README.md");
const RUNBOOKS: &str = include_str!("../../docs/runbooks.md");

/// What every runbook says.
const PARTS: [&str; 4] = ["**Means.**", "**At stake.**", "**Look.**", "**Do.**"];

/// A rule as it is written. The file keeps to one layout, which is read line by line.
#[derive(Debug, Default)]
struct Rule {
    /// `alert` or `record`.
    kind: String,
    name: String,
    expr: String,
    /// Everything else by its key: `for`, `severity`, `runbook_url` and so on.
    keys: BTreeMap<String, String>,
}

impl Rule {
    fn is_alert(&self) -> bool {
        self.kind == "alert"
    }
}

fn rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    // The key whose text goes on in the lines that are indented deeper.
    let mut open: Option<(usize, String)> = None;
    for line in RULES.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let depth = line.len() - line.trim_start().len();
        if let Some((at, key)) = &open {
            if depth > *at {
                let rule = rules.last_mut().unwrap();
                let text = if key == "expr" { &mut rule.expr } else { rule.keys.entry(key.clone()).or_default() };
                *text += &format!("{}\n", line.trim());
                continue;
            }
            open = None;
        }
        let (is_first, line) = line.trim_start().strip_prefix("- ").map_or((false, line.trim()), |rest| (true, rest));
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.to_owned(), value.trim().to_owned());
        if is_first && matches!(key.as_str(), "alert" | "record") {
            rules.push(Rule { kind: key, name: value, ..Rule::default() });
        } else if let Some(rule) = rules.last_mut() {
            match value.as_str() {
                "|" | ">-" => open = Some((depth, key)),
                _ if key == "expr" => rule.expr = value,
                _ => drop(rule.keys.insert(key, value)),
            }
        }
    }
    rules
}

fn alerts() -> Vec<Rule> {
    rules().into_iter().filter(Rule::is_alert).collect()
}

/// The files with tests for promtool.
fn test_files() -> Vec<PathBuf> {
    ["hookonce.rules.test.yaml", "hookonce.rules.week.test.yaml"].map(|name| root().join("prometheus").join(name)).to_vec()
}

#[test]
fn promtool_finds_no_fault_and_as_many_rules_as_are_read_here() {
    let mut promtool = tool("promtool");
    let output =
        promtool.args(["check", "rules", "--lint=all", "--lint-fatal", "prometheus/hookonce.rules.yaml"]).current_dir(root());
    let output = output.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("SUCCESS: {} rules found", rules().len())), "{} were read here; {said}", rules().len());
}

/// Each file by a promtool of its own: they take seconds.
#[test]
fn every_alert_fires_when_it_should_and_not_on_a_calm_day() {
    let start = |file: PathBuf| {
        let mut promtool: Command = tool("promtool");
        promtool.args(["test", "rules"]).arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
        (file, promtool.spawn().unwrap())
    };
    let running: Vec<_> = test_files().into_iter().map(start).collect();
    for (file, promtool) in running {
        let output = promtool.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", file.display());
    }
}

#[test]
fn every_alert_is_tested_to_fire_and_to_hold_still() {
    let (mut firing, mut still) = (BTreeSet::new(), BTreeSet::new());
    for text in test_files().iter().map(|file| fs::read_to_string(file).unwrap()) {
        let mut last = None;
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once("alertname: ") {
                let name = rest.split([',', ' ']).next().unwrap().to_owned();
                if line.contains("exp_alerts: []") {
                    still.insert(name);
                } else {
                    last = Some(name);
                }
            } else if line.trim_start().starts_with("- exp_labels: {") {
                firing.extend(last.clone());
            }
        }
    }
    let all: BTreeSet<String> = alerts().into_iter().map(|alert| alert.name).collect();
    assert_eq!(firing, all);
    assert_eq!(still, all);
}

#[test]
fn every_patience_has_a_reason() {
    let lines: Vec<&str> = RULES.lines().map(str::trim).collect();
    let waits: Vec<&[&str]> = lines.windows(2).filter(|pair| pair[1].starts_with("for: ")).collect();
    assert!(waits.len() > 20, "{}", waits.len());
    for pair in waits {
        assert!(pair[0].starts_with("# "), "no reason for {} after {}", pair[1], pair[0]);
    }
}

#[test]
fn every_alert_says_how_urgent_it_is_and_where_its_runbook_is() {
    let alerts = alerts();
    for severity in ["page", "ticket", "info"] {
        let count = alerts.iter().filter(|alert| alert.keys["severity"] == severity).count();
        let row = README.lines().find(|line| line.starts_with(&format!("| `{severity}` |"))).unwrap();
        assert!(count > 0 && row.ends_with(&format!("| {count} |")), "there are {count}: {row}");
    }
    for Rule { name, keys, .. } in alerts {
        assert!(["page", "ticket", "info"].contains(&keys["severity"].as_str()), "{name}: {}", keys["severity"]);
        assert!(!keys["summary"].is_empty() && !keys["description"].is_empty(), "{name}");
        assert_eq!(keys["runbook_url"], format!("docs/runbooks.md#{}", name.to_lowercase()));
    }
}

/// The sections of the runbooks by their headings.
fn sections() -> BTreeMap<&'static str, &'static str> {
    let sections = RUNBOOKS.split("\n### ").skip(1).map(|section| section.split_once('\n').unwrap());
    // A chapter ends the last section before it.
    sections.map(|(heading, text)| (heading, text.split("\n## ").next().unwrap())).collect()
}

#[test]
fn every_alert_has_a_runbook_that_says_what_is_at_stake_and_what_to_do() {
    let sections = sections();
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let text = sections.get(alert.name.as_str()).unwrap_or_else(|| panic!("{} has no runbook", alert.name));
        let places = PARTS.map(|part| text.find(part).unwrap_or_else(|| panic!("{}: {part} is missing", alert.name)));
        assert!(places.is_sorted(), "{}: its parts are in another order", alert.name);
        names.insert(alert.name);
    }
    for heading in sections.keys().filter(|heading| heading.starts_with("Hookonce")) {
        assert!(names.contains(*heading), "there is no alert {heading}");
    }
}

#[test]
fn every_link_within_the_runbooks_leads_to_a_heading() {
    let headings = RUNBOOKS.lines().filter_map(|line| line.strip_prefix("## ").or(line.strip_prefix("### ")));
    let anchors: BTreeSet<String> = headings.map(|heading| heading.to_lowercase().replace(' ', "-")).collect();
    let links: Vec<&str> = RUNBOOKS.split("](#").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert!(links.len() > 20, "{}", links.len());
    for link in links {
        assert!(anchors.contains(link), "#{link} leads nowhere");
    }
}

/// The blocks of a language, line by line.
fn lines_of(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    RUNBOOKS.split(fence.as_str()).skip(1).flat_map(|rest| rest.split("```").next().unwrap().lines()).collect()
}

#[test]
fn every_command_of_the_runbooks_is_one_that_the_program_knows() {
    let commands: Vec<&str> = lines_of("sh").into_iter().filter_map(|line| line.trim().strip_prefix("hookonce ")).collect();
    assert!(commands.len() > 20, "{}", commands.len());
    for command in commands {
        let words = command.split(" #").next().unwrap().split_whitespace();
        // What stands before `--help` is read first: a command or an option that is not there is an error.
        let output = hookonce().args(words).arg("--help").output().unwrap();
        assert!(output.status.success(), "hookonce {command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_calm_day_has_every_metric_that_an_alert_uses() {
    let rules = rules();
    let recorded: BTreeMap<&str, &str> =
        rules.iter().filter(|rule| !rule.is_alert()).map(|rule| (rule.name.as_str(), rule.expr.as_str())).collect();
    let mut used = BTreeSet::new();
    let mut open: Vec<&str> = rules.iter().filter(|rule| rule.is_alert()).map(|rule| rule.expr.as_str()).collect();
    while let Some(expr) = open.pop() {
        for selector in asked(expr).selectors {
            match recorded.get(selector.metric.as_str()) {
                Some(expr) => open.push(expr),
                None => drop(used.insert(selector.metric)),
            }
        }
    }
    let tests = fs::read_to_string(root().join("prometheus/hookonce.rules.test.yaml")).unwrap();
    let day = tests.split("  # --- ").find(|part| part.starts_with("One calm day")).unwrap();
    let has = |line: &str| line.trim().strip_prefix("- { series: '").map(|rest| rest.split('{').next().unwrap().to_owned());
    let there: BTreeSet<String> = day.lines().filter_map(has).collect();
    let missing: Vec<_> = used.difference(&there).collect();
    assert!(used.len() > 30 && missing.is_empty(), "of {} these are missing: {missing:?}", used.len());
}

#[tokio::test]
async fn rules_and_runbooks_ask_only_for_what_is_exported() {
    let mut exported = Exported::by_the_program().await;
    for rule in rules() {
        match rule.is_alert() {
            true => exported.check(&rule.name, &rule.expr),
            false => exported.record(&rule.name, &rule.expr),
        }
    }
    let queries = lines_of("promql");
    assert!(!queries.is_empty());
    for query in &queries {
        exported.check("docs/runbooks.md", query);
    }
    assert_readable(&queries.into_iter().map(str::to_owned).collect::<Vec<_>>());
}

/// What is recorded, for dashboards.
pub fn records() -> Vec<(String, String)> {
    rules().into_iter().filter(|rule| !rule.is_alert()).map(|rule| (rule.name, rule.expr)).collect()
}
