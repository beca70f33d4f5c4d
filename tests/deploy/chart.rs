//! The Helm chart, rendered by both Helms from every set of values in `chart/values`, and read by those it is for: Kubernetes' schemas,
//! and the program itself.

mod config;
mod monitoring;
mod network;
mod pod;
mod refused;
mod render;
mod sidecar;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::tools::{root, tool};
use render::{ALL, HELMS, KUBES, NAMESPACE, chart, file_of, list, path, run, sets, text};

/// Kinds that are not Kubernetes' own. What they hold is looked at in `monitoring` and `network`.
const FOREIGN: [&str; 3] = ["HTTPRoute", "PrometheusRule", "ServiceMonitor"];

#[test]
fn no_set_is_left_out() {
    assert_eq!((sets().len(), ALL.len()), (16, 16 * HELMS.len() * KUBES.len()));
}

#[test]
fn both_helms_find_nothing_to_mend() {
    for helm in HELMS {
        for set in sets() {
            let output = run(helm, &["lint", "--strict", "--quiet", path(&chart()), "--values", &file_of(&set)]);
            assert!(output.status.success(), "{set} by {helm}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn both_helms_render_the_same() {
    let (three, four): (Vec<_>, Vec<_>) = ALL.iter().partition(|rendered| rendered.helm == HELMS[0]);
    assert_eq!(three.len(), four.len());
    for (three, four) in three.iter().zip(four) {
        assert_eq!((&three.set, three.kube), (&four.set, four.kube));
        assert_eq!(three.objects, four.objects, "{four}");
    }
}

#[test]
fn kubernetes_takes_every_object() {
    let sidecars = sidecar::ALL.iter();
    for kube in KUBES {
        let rendered = ALL.iter().chain(sidecars.clone()).filter(|rendered| rendered.kube == kube);
        let own = rendered.flat_map(|rendered| &rendered.objects).filter(|object| !FOREIGN.contains(&text(&object["kind"])));
        // Most sets have most objects in common.
        let own: BTreeSet<String> = own.map(Value::to_string).collect();
        assert!(own.len() > 50, "{}", own.len());
        assert_valid(kube, &own);
    }
}

/// Has kubernetes-validate look at objects. It only warns of what it does not know, so that what it passes is counted.
pub fn assert_valid(kube: &str, objects: &BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    let documents: Vec<String> = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    fs::write(&file, documents.concat()).unwrap();
    let output = tool("kubernetes-validate").args(["--strict", "--kubernetes-version", kube, path(&file)]).output();
    let output = output.unwrap_or_else(|error| panic!("{error}: run scripts/install/kubernetes-validate"));
    let said = String::from_utf8(output.stdout).unwrap();
    let (passed, wrong): (Vec<_>, Vec<_>) = said.lines().partition(|line| line.starts_with("INFO "));
    assert!(output.status.success() && passed.len() == objects.len() && wrong.is_empty(), "{kube}: {wrong:#?}");
    assert!(passed.iter().all(|line| line.ends_with(&format!("against version {kube}"))), "{passed:#?}");
}

#[test]
fn names_and_labels_are_what_kubernetes_lets_them_be() {
    let is_plain = |text: &str, others: &str| {
        let (first, last) = (text.chars().next(), text.chars().last());
        let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
        text.len() <= 63 && is_end(first) && is_end(last) && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    for rendered in ALL.iter() {
        for object in &rendered.objects {
            let name = text(&object["metadata"]["name"]);
            // Those of Services may not hold dots, and all of them are made from one.
            let is_name = is_plain(name, "-") && name.starts_with(|c: char| c.is_ascii_lowercase());
            assert!(is_name || text(&object["kind"]) == "ServiceAccount", "{rendered}: {name}");
            for (key, value) in object["metadata"]["labels"].as_object().unwrap() {
                assert!(is_plain(text(value), "-_."), "{rendered}: {key}: {value}");
            }
            assert_ne!(object["metadata"]["labels"]["app.kubernetes.io/name"], "hijacked", "{rendered}");
            for key in ["name", "instance", "component", "version", "managed-by"] {
                let is_foreign_pod = key == "managed-by" && object["kind"] == "Pod";
                let label = &object["metadata"]["labels"][format!("app.kubernetes.io/{key}")];
                assert!(label.is_string() || is_foreign_pod, "{rendered}: {name} has no {key}");
            }
        }
        let names: BTreeSet<_> = rendered
            .objects
            .iter()
            .map(|object| (text(&object["kind"]), &object["metadata"]["name"]))
            .map(|(kind, name)| (kind, text(name)))
            .collect();
        assert_eq!(names.len(), rendered.objects.len(), "{rendered}: two objects with one name");
    }
}

#[test]
fn the_chart_is_of_the_programs_version() {
    let chart = &render::objects(&fs::read_to_string(chart().join("Chart.yaml")).unwrap())[0];
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}

/// `scripts/chart-files` brings them up to date: Helm reads nothing that lies outside of a chart.
#[test]
fn the_charts_copies_are_fresh() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new(root().join("scripts/chart-files")).arg(folder.path()).status().unwrap().success());
    let names: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        let (fresh, copy) = (fs::read(folder.path().join(&name)).unwrap(), fs::read(chart().join("files").join(&name)).unwrap());
        assert!(fresh == copy, "{name:?} is not what it is a copy of: run scripts/chart-files");
    }
}

/// What can be said is written down in values.yaml, and nothing else is taken.
#[test]
fn values_and_their_schema_name_the_same_keys() {
    fn compare(at: &str, values: &Value, schema: &Value) {
        let (Some(values), Some(known)) = (values.as_object(), schema["properties"].as_object()) else { return };
        assert_eq!(schema["additionalProperties"], false, "{at}");
        // What a value is by default `{}` for is not spelt out there.
        if values.is_empty() {
            return;
        }
        let is_elsewhere = |key: &str| {
            at.starts_with(".config") || at.starts_with(".probes") || (at.is_empty() && ["global", "enabled"].contains(&key))
        };
        let known_keys: BTreeSet<&String> = known.keys().filter(|key| values.contains_key(*key) || !is_elsewhere(key)).collect();
        assert_eq!(values.keys().collect::<BTreeSet<_>>(), known_keys, "{at}");
        for (key, value) in values {
            compare(&format!("{at}.{key}"), value, &known[key]);
        }
    }
    let values = &render::objects(&fs::read_to_string(chart().join("values.yaml")).unwrap())[0];
    compare("", values, &config::schema());
    assert!(list(&config::schema()["required"]).is_empty(), "a chart that depends on this one says little");
}

/// What is said after an installation. Helm 3 tells it to nobody without a cluster.
fn notes(set: &str) -> String {
    let (chart, values) = (chart(), file_of(set));
    let output =
        run(HELMS[1], &["install", "billing", path(&chart), "--namespace", NAMESPACE, "--dry-run=client", "--values", &values]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_once("\nNOTES:\n").unwrap().1.to_owned()
}

#[test]
fn the_notes_say_what_to_do_next() {
    let inside = notes("minimal");
    for said in
        ["http://billing-hookonce.shop.svc:80/webhooks/stripe", "inside the cluster only", "svc/billing-hookonce-admin 9090:9090"]
    {
        assert!(inside.contains(said), "{said} is not in: {inside}");
    }
    assert!(inside.contains("helm test billing") && inside.contains("No adminToken is set"), "{inside}");
    let outside = notes("ingress");
    assert!(
        outside.contains("https://hooks.example.com/webhooks/github") && !outside.contains("inside the cluster"),
        "{outside}"
    );
    let full = notes("full");
    assert!(!full.contains("helm test") && !full.contains("adminToken") && full.contains("admin 9090:80\n"), "{full}");
    assert!(notes("memory").contains("every event is forgotten"));
}

/// The block of docs/kubernetes.md that shows values, by how it goes on.
pub fn documented_values(begins: &str) -> String {
    let page = fs::read_to_string(root().join("docs/kubernetes.md")).unwrap();
    let head = format!("```yaml\n# values.yaml\n{begins}");
    let (_, rest) = page.split_once(&head).unwrap_or_else(|| panic!("no values that begin with {begins}"));
    format!("{begins}{}", rest.split_once("```").unwrap().0)
}

#[test]
fn the_documented_values_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    fs::write(&file, documented_values("image:")).unwrap();
    for helm in HELMS {
        let objects = render::template(helm, &chart(), "billing", KUBES[0], &["--values", path(&file)]).unwrap();
        let rendered = render::Rendered { set: "docs/kubernetes.md".to_owned(), helm, kube: KUBES[0], objects };
        assert_eq!(config::load(&rendered).config.providers[0].path, "/webhooks/stripe");
        assert_eq!(rendered.one("Ingress")["spec"]["rules"][0]["host"], "hooks.example.com");
    }
}
