//! The dashboard: it can be read by whoever stands in front of it, and every one of its questions has an answer.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::exported::Exported;
use crate::promql::{asked, assert_readable};
use crate::rules::records;

const DASHBOARD: &str = include_str!("../../grafana/hookonce.json");

/// The columns of Grafana's grid.
const COLUMNS: u64 = 24;

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).unwrap()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a Vec<Value> {
    value.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("there is no list at {pointer}"))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The panels that show something.
fn panels(dashboard: &Value) -> Vec<&Value> {
    list(dashboard, "/panels").iter().filter(|panel| panel["type"] != "row").collect()
}

/// Every expression with the title of what it is for, its variables replaced as Grafana does.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let of_panels = panels(dashboard).into_iter().flat_map(|panel| {
        let title = text(panel, "/title");
        list(panel, "/targets").iter().map(move |target| (title.to_owned(), text(target, "/expr").to_owned()))
    });
    let of_annotations = list(dashboard, "/annotations/list").iter().filter(|it| it.get("expr").is_some());
    let of_annotations = of_annotations.map(|it| (text(it, "/name").to_owned(), text(it, "/expr").to_owned()));
    of_panels.chain(of_annotations).map(|(title, expr)| (title, filled(&expr))).collect()
}

fn filled(expr: &str) -> String {
    let known = [("$__rate_interval", "5m"), ("$__range", "6h"), ("$job", ".*"), ("$namespace", ".*"), ("$provider", ".*")];
    let filled = known.iter().fold(expr.to_owned(), |expr, (variable, value)| expr.replace(variable, value));
    assert!(!filled.contains('$'), "an unknown variable: {expr}");
    filled
}

#[test]
fn promtool_can_read_every_expression() {
    let dashboard = dashboard();
    let expressions = expressions(&dashboard);
    assert!(expressions.len() > 50, "{}", expressions.len());
    assert_readable(&expressions.into_iter().map(|(_, expr)| expr).collect::<Vec<_>>());
}

#[tokio::test]
async fn panels_ask_only_for_what_is_exported_and_leave_nothing_out() {
    let dashboard = dashboard();
    let mut exported = Exported::by_the_program().await;
    for (name, expr) in records() {
        exported.record(&name, &expr);
    }
    let mut shown = String::new();
    for (title, expr) in expressions(&dashboard) {
        exported.check(&title, &expr);
        shown += &expr;
    }
    for variable in list(&dashboard, "/templating/list").iter().filter(|variable| variable["type"] == "query") {
        let query = text(variable, "/query/query");
        let (selector, label) = query.trim_start_matches("label_values(").trim_end_matches(')').rsplit_once(", ").unwrap();
        exported.check(text(variable, "/name"), &format!("sum by ({label}) ({})", filled(selector)));
    }
    // A recorded metric shows what it is made from.
    let made = |(name, expr): &(String, String)| shown.contains(name.as_str()).then(|| expr.clone());
    let shown = shown.clone() + &records().iter().filter_map(made).collect::<String>();
    let missing: Vec<&str> = exported.families().into_iter().filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

#[test]
fn it_can_be_imported_with_any_data_source() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(39));
    assert!(!text(&dashboard, "/uid").is_empty() && !text(&dashboard, "/title").is_empty());
    assert_eq!(dashboard.get("id"), None, "the number is that of one Grafana");
    let variables: Vec<&str> = list(&dashboard, "/templating/list").iter().map(|variable| text(variable, "/name")).collect();
    assert_eq!(variables, ["datasource", "job", "namespace", "provider"]);
    for panel in panels(&dashboard) {
        let sources = list(panel, "/targets").iter().chain([panel]).map(|it| text(it, "/datasource/uid"));
        assert!(sources.into_iter().all(|uid| uid == "${datasource}"), "{}", panel["title"]);
    }
}

#[test]
fn every_panel_says_what_it_is_and_what_to_do() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    for panel in list(&dashboard, "/panels") {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{} is there twice", panel["id"]);
    }
    for panel in panels(&dashboard) {
        let title = text(panel, "/title");
        assert!(!title.is_empty() && text(panel, "/description").len() > 10, "{title} has no description");
        let defaults = &panel["fieldConfig"]["defaults"];
        assert!(!text(defaults, "/unit").is_empty() && !list(defaults, "/thresholds/steps").is_empty(), "{title} has no unit");
        assert!(!text(defaults, "/noValue").is_empty(), "{title} does not say what nothing means");
        assert!(!list(panel, "/targets").is_empty(), "{title} asks nothing");
        let references: BTreeSet<&str> = list(panel, "/targets").iter().map(|target| text(target, "/refId")).collect();
        assert_eq!(references.len(), list(panel, "/targets").len(), "{title}");
        let selects = |target: &Value| asked(&filled(text(target, "/expr"))).selectors.iter().any(|one| !one.matchers.is_empty());
        assert!(list(panel, "/targets").iter().all(selects), "{title} does not heed the variables");
    }
}

#[test]
fn no_panel_covers_another() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    for panel in list(&dashboard, "/panels") {
        let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(side("x") + side("w") <= COLUMNS, "{}", panel["title"]);
        for (x, y) in (side("x")..side("x") + side("w")).flat_map(|x| (side("y")..side("y") + side("h")).map(move |y| (x, y))) {
            assert!(taken.insert((x, y)), "{} covers another", panel["title"]);
        }
    }
}
