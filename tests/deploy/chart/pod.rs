//! The gateway's pods: their rights, their probes, their volumes, and how they go.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::render::{ALL, Rendered, list, named, of, text};

/// Volumes that the restricted standard lets pods have.
const VOLUMES: [&str; 8] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];

/// Whether a container keeps to the "restricted" pod security standard, whatever its pod says.
pub fn is_restricted(container: &Value) -> bool {
    let rights = &container["securityContext"];
    let has_host_port = list(&container["ports"]).iter().any(|port| !port["hostPort"].is_null());
    rights["runAsNonRoot"] == true
        && rights["runAsUser"] != 0
        && rights["allowPrivilegeEscalation"] == false
        && rights["privileged"] != true
        && rights["capabilities"] == json!({ "drop": ["ALL"] })
        && rights["seccompProfile"]["type"] == "RuntimeDefault"
        && !has_host_port
}

#[test]
fn pods_keep_to_the_restricted_standard() {
    for rendered in ALL.iter() {
        let test_pods = rendered.all("Pod").into_iter().map(|pod| &pod["spec"]);
        for spec in test_pods.chain([&rendered.pod()["spec"]]) {
            assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{rendered}");
            assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{rendered}");
            assert_eq!(spec["automountServiceAccountToken"], false, "{rendered}");
            for host in ["hostNetwork", "hostPID", "hostIPC"] {
                assert!(spec[host].is_null(), "{rendered}");
            }
            for volume in list(&spec["volumes"]) {
                let kinds: Vec<_> = volume.as_object().unwrap().keys().filter(|key| *key != "name").collect();
                assert!(kinds.iter().all(|kind| VOLUMES.contains(&kind.as_str())), "{rendered}: {kinds:?}");
            }
            for container in list(&spec["containers"]) {
                assert!(is_restricted(container), "{rendered}: {container:#}");
                assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{rendered}");
            }
        }
        for account in rendered.all("ServiceAccount") {
            assert_eq!(account["automountServiceAccountToken"], false, "{rendered}");
        }
    }
    assert_eq!(of("minimal").container()["securityContext"]["runAsUser"], 65532);
    assert!(of("openshift").container()["securityContext"]["runAsUser"].is_null());
}

#[test]
fn probes_ask_the_admin_side() {
    for rendered in ALL.iter() {
        let container = rendered.container();
        let port = named(&container["ports"], "admin");
        for (probe, path) in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            assert_eq!(container[probe]["httpGet"], json!({ "path": path, "port": port["name"] }), "{rendered}");
        }
        // hookonce answers its own SIGTERM: a hook before it would only put it off.
        assert!(container["lifecycle"].is_null(), "{rendered}");
    }
    assert_eq!(of("full").container()["livenessProbe"]["initialDelaySeconds"], 5);
    assert_eq!(of("full").container()["livenessProbe"]["failureThreshold"], 3);
}

/// A file that is mounted by itself is not followed when what it came from changes.
#[test]
fn nothing_is_mounted_by_subpath() {
    for rendered in ALL.iter() {
        let spec = &rendered.pod()["spec"];
        let volumes: BTreeSet<&str> = list(&spec["volumes"]).iter().map(|volume| text(&volume["name"])).collect();
        for mount in list(&rendered.container()["volumeMounts"]) {
            assert!(mount["subPath"].is_null() && mount["subPathExpr"].is_null(), "{rendered}: {mount}");
            assert!(volumes.contains(text(&mount["name"])), "{rendered}: {mount}");
        }
        assert_eq!(list(&rendered.container()["volumeMounts"]).len(), volumes.len(), "{rendered}");
    }
}

#[test]
fn nothing_is_mounted_that_is_not_asked_for() {
    let projected = |rendered: &Rendered| -> BTreeSet<String> {
        let volume = named(&rendered.pod()["spec"]["volumes"], "hookonce-secrets");
        let sources = list(&volume["projected"]["sources"]).iter().flat_map(|source| {
            let (kind, source) = source.as_object().unwrap().iter().next().unwrap();
            let items = list(&source["items"]);
            assert!(!items.is_empty(), "every entry of {source}");
            items.iter().map(move |item| format!("{kind} {}/{}", text(&source["name"]), text(&item["key"])))
        });
        sources.collect()
    };
    assert_eq!(projected(of("minimal")), BTreeSet::from(["secret stripe/webhook-secret".to_owned()]));
    let secrets = [
        "secret discord/public-key",
        "secret feed/secret",
        "secret feed/verify-token",
        "secret redis/ca.crt",
        "secret webhooks-eu/stripe",
        "secret webhooks/admin.token",
        "secret webhooks/eu-stripe",
        "secret webhooks/stripe.former",
    ];
    assert_eq!(projected(of("secrets")), secrets.map(str::to_owned).into());
}

#[test]
fn a_file_store_has_its_volume_and_its_pod_to_itself() {
    for (set, claim) in [("file-store", "billing-hookonce"), ("file-store-own-claim", "events")] {
        let deployment = &of(set).one("Deployment")["spec"];
        assert_eq!(deployment["replicas"], 1);
        assert_eq!(deployment["strategy"], json!({ "type": "Recreate" }));
        let volume = named(&deployment["template"]["spec"]["volumes"], "hookonce-data");
        assert_eq!(volume["persistentVolumeClaim"]["claimName"], claim);
    }
    let claim = of("file-store").one("PersistentVolumeClaim");
    assert_eq!(claim["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOncePod"]));
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    assert!(of("file-store-own-claim").all("PersistentVolumeClaim").is_empty());
}

#[test]
fn an_image_is_named_by_its_digest_where_there_is_one() {
    let digest = "0123456789abcdef".repeat(4);
    assert_eq!(of("full").container()["image"], format!("images.example.com/tools/hookonce@sha256:{digest}"));
    assert_eq!(of("minimal").container()["image"], format!("hookonce:{}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn pods_are_counted_by_one_of_two() {
    assert_eq!(of("minimal").one("Deployment")["spec"]["replicas"], 2);
    let scaled = of("scaled");
    assert!(scaled.one("Deployment")["spec"]["replicas"].is_null());
    let scaler = &scaled.one("HorizontalPodAutoscaler")["spec"];
    assert_eq!(scaler["scaleTargetRef"]["name"], scaled.one("Deployment")["metadata"]["name"]);
    assert_eq!((&scaler["minReplicas"], &scaler["maxReplicas"]), (&json!(3), &json!(12)));
    assert_eq!(list(&scaler["metrics"]).len(), 2);
    let budget = |set| &of(set).one("PodDisruptionBudget")["spec"];
    assert_eq!((&budget("scaled")["minAvailable"], &budget("scaled")["maxUnavailable"]), (&json!(2), &Value::Null));
    assert_eq!((&budget("minimal")["minAvailable"], &budget("minimal")["maxUnavailable"]), (&Value::Null, &json!(1)));
}

#[test]
fn pods_are_spread_by_their_own_labels() {
    for rendered in ALL.iter() {
        let (pod, selector) = (rendered.pod(), &rendered.one("Deployment")["spec"]["selector"]["matchLabels"]);
        for constraint in list(&pod["spec"]["topologySpreadConstraints"]) {
            let labels = constraint["labelSelector"]["matchLabels"].as_object().unwrap();
            assert!(labels.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value), "{rendered}: {constraint}");
        }
        let selector = selector.as_object().unwrap();
        assert!(selector.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value), "{rendered}");
        assert_eq!(selector.len(), 3);
    }
    assert_eq!(list(&of("minimal").pod()["spec"]["topologySpreadConstraints"]).len(), 2);
}
