//! Runs Helm, and reads what it renders.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::LazyLock;
use std::thread;

use serde_json::Value;

use crate::tools::{root, tool};

/// The chart is for both.
pub const HELMS: [&str; 2] = ["helm3", "helm4"];
/// The oldest Kubernetes that the chart is for, and the newest that kubernetes-validate knows.
pub const KUBES: [&str; 2] = ["1.27", "1.37"];
pub const NAMESPACE: &str = "shop";
const RELEASE: &str = "billing";
/// 53 letters, which is as long as Helm lets a release's name be.
const LONG_RELEASE: &str = "payments.and-refunds-of-the-whole-company-in-europe-6";

/// What one Helm made of one set of values for one Kubernetes.
#[derive(Debug)]
pub struct Rendered {
    pub set: String,
    pub helm: &'static str,
    pub kube: &'static str,
    pub objects: Vec<Value>,
}

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {} for {}", self.set, self.helm, self.kube)
    }
}

impl Rendered {
    /// The one object of a kind.
    pub fn one(&self, kind: &str) -> &Value {
        let [one] = self.all(kind)[..] else { panic!("{self}: {} of {kind}", self.all(kind).len()) };
        one
    }

    pub fn all(&self, kind: &str) -> Vec<&Value> {
        self.objects.iter().filter(|object| object["kind"] == kind).collect()
    }

    /// The Service of a component.
    pub fn service(&self, component: &str) -> &Value {
        let is_it = |service: &&&Value| service["metadata"]["labels"]["app.kubernetes.io/component"] == component;
        self.all("Service").iter().find(is_it).unwrap_or_else(|| panic!("{self}: no Service for {component}"))
    }

    /// The pod that hookonce is in.
    pub fn pod(&self) -> &Value {
        &self.one("Deployment")["spec"]["template"]
    }

    /// The container that hookonce is.
    pub fn container(&self) -> &Value {
        named(&self.pod()["spec"]["containers"], "hookonce")
    }

    /// The configuration in TOML, from the ConfigMap that the pod mounts.
    pub fn toml(&self) -> &str {
        let name = &named(&self.pod()["spec"]["volumes"], "hookonce-config")["configMap"]["name"];
        let maps = self.all("ConfigMap");
        let map = maps.into_iter().find(|map| map["metadata"]["name"] == *name);
        text(&map.unwrap_or_else(|| panic!("{self}: no configuration"))["data"]["hookonce.toml"])
    }
}

/// The item of a list that has this name.
pub fn named<'v>(list: &'v Value, name: &str) -> &'v Value {
    let items = list.as_array().unwrap_or_else(|| panic!("not a list: {list}"));
    items.iter().find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {name} in {list}"))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

pub fn chart() -> PathBuf {
    root().join("helm/hookonce")
}

fn values() -> PathBuf {
    root().join("tests/deploy/chart/values")
}

/// The names of the sets of values.
pub fn sets() -> Vec<String> {
    let files = values().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut sets: Vec<String> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    sets.sort();
    sets
}

/// Its file, as Helm is given it.
pub fn file_of(set: &str) -> String {
    path(&values().join(set).with_extension("yaml")).to_owned()
}

/// Every set, by both Helms, for both ends of the range: rendered once for all tests.
pub static ALL: LazyLock<Vec<Rendered>> = LazyLock::new(|| {
    let render = |set: String, helm| KUBES.map(|kube| rendered(&set, helm, kube, &[]));
    thread::scope(|scope| {
        let threads: Vec<_> = HELMS
            .map(|helm| scope.spawn(move || sets().into_iter().flat_map(|set| render(set, helm)).collect::<Vec<_>>()))
            .into_iter()
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
});

/// One set among them, as Helm 4 renders it for the newest Kubernetes.
pub fn of(set: &str) -> &'static Rendered {
    let is_it = |rendered: &&Rendered| rendered.set == set && rendered.helm == HELMS[1] && rendered.kube == KUBES[1];
    ALL.iter().find(is_it).unwrap_or_else(|| panic!("there is no set {set}"))
}

/// One set with something else said on top: `--set a.b=c`.
pub fn rendered(set: &str, helm: &'static str, kube: &'static str, more: &[&str]) -> Rendered {
    let release = if set == "long-names" { LONG_RELEASE } else { RELEASE };
    let objects = template(helm, &chart(), release, kube, &[&["--values", &file_of(set)], more].concat());
    let objects = objects.unwrap_or_else(|said| panic!("{set} by {helm}: {said}"));
    Rendered { set: set.to_owned(), helm, kube, objects }
}

/// What Helm renders, or what it says instead.
pub fn template(helm: &str, chart: &Path, release: &str, kube: &str, more: &[&str]) -> Result<Vec<Value>, String> {
    let arguments = ["template", release, path(chart), "--namespace", NAMESPACE, "--kube-version", kube];
    let output = run(helm, &[&arguments, more].concat());
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    Ok(objects(std::str::from_utf8(&output.stdout).unwrap()))
}

/// The documents of a file of YAML. A key that is written twice is refused.
pub fn objects(yaml: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

pub fn run(helm: &str, arguments: &[&str]) -> Output {
    let home = root().join("target/tools/helm");
    let mut command = tool(helm);
    command.args(arguments).env("HELM_CACHE_HOME", &home).env("HELM_CONFIG_HOME", &home).env("HELM_DATA_HOME", &home);
    // Whatever cluster somebody has at hand is not meant.
    command.env("KUBECONFIG", "/dev/null");
    command.output().unwrap_or_else(|error| panic!("{helm}: {error}: run scripts/install/helm"))
}

pub fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
