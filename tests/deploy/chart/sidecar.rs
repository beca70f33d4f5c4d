//! hookonce beside a consumer: through a chart that depends on this one, and as a manifest to copy.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::config::load;
use super::monitoring::copy_folder;
use super::pod::is_restricted;
use super::render::{HELMS, KUBES, Rendered, chart, list, named, objects, path, run, template, text};
use crate::tools::root;

/// A consumer's chart with this one among its dependencies, fetched as Helm fetches them.
struct Parent {
    folder: TempDir,
    helm: &'static str,
}

impl Parent {
    fn new(helm: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy_folder(&root().join("tests/deploy/chart/parent"), folder.path());
        let file = folder.path().join("Chart.yaml");
        let text = fs::read_to_string(&file).unwrap().replace("file://HOOKONCE", &format!("file://{}", path(&chart())));
        fs::write(&file, text).unwrap();
        let output = run(helm, &["dependency", "update", path(folder.path())]);
        assert!(output.status.success(), "{helm}: {}", String::from_utf8_lossy(&output.stderr));
        Self { folder, helm }
    }

    fn render(&self, kube: &'static str, more: &[&str]) -> Rendered {
        let objects = template(self.helm, self.folder.path(), "billing", kube, more);
        let objects = objects.unwrap_or_else(|said| panic!("{}: {said}", self.helm));
        Rendered { set: format!("parent {more:?}"), helm: self.helm, kube, objects }
    }
}

/// The parent's pods by both Helms, for both ends of the range; and for the newest, with the consumer as the native sidecar.
pub static ALL: LazyLock<Vec<Rendered>> = LazyLock::new(|| {
    let of_helm = |helm| {
        let parent = Parent::new(helm);
        let [oldest, newest] = KUBES;
        [parent.render(oldest, &[]), parent.render(newest, &[]), parent.render(newest, &["--set", "native=true"])]
    };
    HELMS.into_iter().flat_map(of_helm).collect()
});

fn example() -> Rendered {
    let file: PathBuf = root().join("examples/kubernetes/sidecar.yaml");
    let objects = objects(&fs::read_to_string(file).unwrap());
    Rendered { set: "examples/kubernetes/sidecar.yaml".to_owned(), helm: "nobody", kube: KUBES[0], objects }
}

#[test]
fn a_chart_that_depends_on_this_one_gets_the_configuration_and_no_more() {
    for rendered in ALL.iter() {
        let kinds: Vec<&str> = rendered.objects.iter().map(|object| text(&object["kind"])).collect();
        assert_eq!(kinds, ["ConfigMap", "Service", "Deployment"], "{rendered}");
    }
    let (three, four) = ALL.split_at(ALL.len() / 2);
    for (three, four) in three.iter().zip(four) {
        assert_eq!(three.objects, four.objects, "{four}");
    }
}

#[test]
fn the_sidecar_is_whole_without_its_pod() {
    for rendered in ALL.iter().chain([&example()]) {
        // The pod says nothing of users and rights here: the container says it all.
        assert!(is_restricted(rendered.container()), "{rendered}");
        assert_eq!(rendered.container()["securityContext"]["runAsUser"], 65532);
        let volumes: BTreeSet<&str> =
            list(&rendered.pod()["spec"]["volumes"]).iter().map(|volume| text(&volume["name"])).collect();
        for mount in list(&rendered.container()["volumeMounts"]) {
            assert!(volumes.contains(text(&mount["name"])), "{rendered}: {mount}");
        }
        let configuration = named(&rendered.pod()["spec"]["volumes"], "hookonce-config");
        assert_eq!(configuration["configMap"]["name"], rendered.one("ConfigMap")["metadata"]["name"], "{rendered}");
        let target = &rendered.one("Service")["spec"]["ports"][0]["targetPort"];
        let port = named(&rendered.container()["ports"], text(target))["containerPort"].as_u64().unwrap();
        let config = load(rendered).config;
        assert_eq!(u64::from(config.listen.port()), port, "{rendered}");
        assert_eq!(config.providers[0].upstream.0.to_string(), "http://127.0.0.1:3000/", "{rendered}");
    }
}

/// The consumer serves as long as hookonce can take to end, and then has its own time.
#[test]
fn the_consumer_outlives_the_sidecar() {
    for rendered in ALL.iter().chain([&example()]) {
        let spec = &rendered.pod()["spec"];
        let drain = load(rendered).config.drain;
        let needed = drain.delay.as_secs() + drain.timeout.as_secs() + 5;
        let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(grace >= needed + 30, "{rendered}: {grace}");
        if spec["initContainers"].is_array() {
            // A native sidecar gets its SIGTERM when the containers have ended.
            assert_eq!(named(&spec["initContainers"], "consumer")["restartPolicy"], "Always");
            continue;
        }
        let wait = &named(&spec["containers"], "consumer")["lifecycle"]["preStop"];
        let expected = if rendered.kube == KUBES[0] {
            json!({ "exec": { "command": ["sleep", needed.to_string()] } })
        } else {
            json!({ "sleep": { "seconds": needed } })
        };
        assert_eq!(*wait, expected, "{rendered}");
        assert!(rendered.container()["lifecycle"].is_null(), "{rendered}");
    }
}

/// Two of them in one release must not take each other's events for their own.
#[test]
fn an_alias_has_a_namespace_of_its_own() {
    for helm in HELMS {
        let rendered = Parent::new(helm).render(KUBES[0], &["--set", "events.enabled=true"]);
        let maps = rendered.all("ConfigMap");
        let of =
            |name: &str| maps.iter().find(|map| map["metadata"]["name"] == name).unwrap_or_else(|| panic!("{name}: {maps:#?}"));
        let toml = |name: &str| text(&of(name)["data"]["hookonce.toml"]).to_owned();
        assert!(toml("billing-hookonce").contains("namespace = \"shop.billing\"\n"));
        assert!(toml("billing-events").contains("namespace = \"shop.billing_events\"\n"));
    }
}

#[test]
fn mistakes_of_the_parent_are_told() {
    let parent = Parent::new(HELMS[1]);
    for (values, said) in [
        ("hookonce.store.url=file:/data,hookonce.persistence.enabled=true", "sidecar.singleReplica: true"),
        ("hookonce.terminationGracePeriodSeconds=50", "75 (the above, and sidecar.consumerStopSeconds)"),
        ("hookonce.upstream=", "upstream: is missing"),
        ("hookonce.replica=3", "replica"),
        ("hookonce.ingress.enabled=true", "ingress.enabled: is for the gateway's own pods"),
        ("hookonce.serviceMonitor.enabled=true", "serviceMonitor.enabled: is for the gateway's own pods"),
    ] {
        let told = template(parent.helm, parent.folder.path(), "billing", KUBES[0], &["--set", values]).unwrap_err();
        assert!(told.contains(said), "{values}: {told}");
    }
    let single = "hookonce.store.url=file:/data,hookonce.persistence.enabled=true,hookonce.sidecar.singleReplica=true";
    let rendered = parent.render(KUBES[0], &["--set", single]);
    let volume = named(&rendered.pod()["spec"]["volumes"], "hookonce-data");
    assert_eq!(volume["persistentVolumeClaim"]["claimName"], rendered.one("PersistentVolumeClaim")["metadata"]["name"]);
}

/// The values that the documentation shows a parent, as one takes them from there.
#[test]
fn the_documented_values_of_a_parent_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    fs::write(&file, super::documented_values("hookonce:")).unwrap();
    for helm in HELMS {
        let rendered = Parent::new(helm).render(KUBES[0], &["--values", path(&file)]);
        assert_eq!(load(&rendered).config.providers[0].path, "/webhooks/stripe");
    }
}

/// The manifest to copy is what the chart renders, so that what is tried of one holds for the other.
#[test]
fn the_example_is_as_the_chart_would_have_it() {
    let (example, rendered) = (example(), &ALL[0]);
    super::assert_valid(KUBES[0], &example.objects.iter().map(Value::to_string).collect());
    super::assert_valid(KUBES[1], &example.objects.iter().map(Value::to_string).collect());
    assert_eq!(example.container(), rendered.container());
    assert_eq!(example.toml().trim_end(), rendered.toml().trim_end());
    for key in ["volumes", "terminationGracePeriodSeconds"] {
        assert_eq!(example.pod()["spec"][key], rendered.pod()["spec"][key], "{key}");
    }
}
