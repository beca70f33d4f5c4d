//! What the Prometheus operator and Grafana take up. Their kinds have no schema here: their shape is looked at by hand.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::render::{ALL, HELMS, KUBES, Rendered, chart, file_of, list, of, template, text};

#[test]
fn a_monitor_finds_the_admin_service_and_no_other() {
    let mut monitors = 0;
    for rendered in ALL.iter() {
        for monitor in rendered.all("ServiceMonitor") {
            monitors += 1;
            let selector = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
            let is_selected =
                |service: &&&Value| selector.iter().all(|(key, value)| service["metadata"]["labels"][key] == *value);
            let services = rendered.all("Service");
            let selected: Vec<_> = services.iter().filter(is_selected).collect();
            let [admin] = selected[..] else { panic!("{rendered}: {selected:#?}") };
            let [endpoint] = list(&monitor["spec"]["endpoints"]) else { panic!("{rendered}") };
            assert_eq!(endpoint["port"], admin["spec"]["ports"][0]["name"], "{rendered}");
            assert_eq!(endpoint["path"], "/metrics");
            assert_eq!(monitor["spec"]["namespaceSelector"]["matchNames"], json!([admin["metadata"]["namespace"]]));
        }
    }
    assert_eq!(monitors, 2 * HELMS.len() * KUBES.len());
}

#[test]
fn monitoring_lies_where_it_is_looked_for() {
    let rendered = of("monitoring");
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        let object = rendered.one(kind);
        assert_eq!(object["apiVersion"], "monitoring.coreos.com/v1");
        assert_eq!(object["metadata"]["namespace"], "monitoring");
        assert_eq!(object["metadata"]["labels"]["release"], "prometheus");
    }
    let endpoint = &rendered.one("ServiceMonitor")["spec"]["endpoints"][0];
    assert_eq!((&endpoint["interval"], &endpoint["scrapeTimeout"]), (&json!("15s"), &json!("10s")));
    assert_eq!(endpoint["metricRelabelings"][0]["action"], "drop");
    assert_eq!(endpoint["relabelings"][0]["regex"], "pod");
    let dashboard = dashboard(rendered);
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(dashboard["metadata"]["namespace"], "monitoring");
    assert_eq!(dashboard["metadata"]["annotations"]["grafana_folder"], "Webhooks");
}

fn dashboard(rendered: &Rendered) -> &Value {
    let maps = rendered.all("ConfigMap");
    maps.into_iter().find(|map| text(&map["metadata"]["name"]).ends_with("-dashboard")).unwrap()
}

/// What came in as files goes out as it was.
#[test]
fn rules_and_dashboard_are_those_of_the_files() {
    for helm in HELMS {
        let folder = tempfile::tempdir().unwrap();
        let chart = copy_of_chart(folder.path());
        fs::write(chart.join("files/hookonce.rules.yaml"), RULES).unwrap();
        let board = "{\n  \"title\": \"{{ provider }} <b>&amp;</b>\",\n  \"panels\": [1.50, 1e3]\n}\n";
        fs::write(chart.join("files/hookonce.json"), board).unwrap();
        let (values, more) = (file_of("monitoring"), "prometheusRule.disabled={Noisy,Alone}");
        let objects = template(helm, &chart, "billing", KUBES[0], &["--values", &values, "--set", more]).unwrap();
        let rendered = Rendered { set: "monitoring".to_owned(), helm, kube: KUBES[0], objects };
        let groups = json!([{
            "name": "one",
            "interval": "30s",
            "rules": [
                { "record": "hookonce:rate", "expr": "rate(hookonce_deliveries_total[5m])" },
                {
                    "alert": "Kept",
                    "expr": "hookonce_store_up == 0",
                    "for": "5m",
                    "labels": { "severity": "page", "team": "payments" },
                    "annotations": { "summary": "{{ $labels.instance }} has {{ $value }}" },
                },
                { "alert": "Bare", "expr": "vector(1)", "labels": { "team": "payments" } },
            ],
        }]);
        assert_eq!(rendered.one("PrometheusRule")["spec"]["groups"], groups, "{helm}");
        assert_eq!(text(&dashboard(&rendered)["data"]["hookonce.json"]), board, "{helm}");
    }
}

const RULES: &str = r#"
groups:
  - name: one
    interval: 30s
    rules:
      - record: hookonce:rate
        expr: rate(hookonce_deliveries_total[5m])
      - alert: Kept
        expr: hookonce_store_up == 0
        for: 5m
        labels: { severity: page, team: nobody }
        annotations: { summary: "{{ $labels.instance }} has {{ $value }}" }
      - alert: Noisy
        expr: vector(1)
      - alert: Bare
        expr: vector(1)
  - name: two
    rules:
      - alert: Alone
        expr: vector(1)
"#;

/// A chart of one's own to change.
pub fn copy_of_chart(folder: &Path) -> std::path::PathBuf {
    let copy = folder.join("hookonce");
    copy_folder(&chart(), &copy);
    copy
}

pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
