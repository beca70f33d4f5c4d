//! The ways to the pods and from them: Services, Ingress, HTTPRoute, NetworkPolicy.

use serde_json::{Value, json};

use super::render::{ALL, Rendered, list, named, of, text};

/// Whether a selector takes these labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    selector.as_object().is_some_and(|selector| !selector.is_empty() && selector.iter().all(|(key, value)| labels[key] == *value))
}

#[test]
fn services_lead_to_the_pods_ports() {
    for rendered in ALL.iter() {
        assert_eq!(rendered.all("Service").len(), 2);
        for (component, port) in [("gateway", "http"), ("admin", "admin")] {
            let service = &rendered.service(component)["spec"];
            assert!(selects(&service["selector"], &rendered.pod()["metadata"]["labels"]), "{rendered}");
            assert_eq!(list(&service["ports"]).len(), 1, "{rendered}: one must not be reached through the other");
            assert_eq!(service["ports"][0]["targetPort"], port);
            assert!(named(&rendered.container()["ports"], port)["containerPort"].is_number(), "{rendered}");
        }
        assert_eq!(rendered.service("admin")["spec"]["type"], "ClusterIP");
    }
    assert_eq!(of("full").service("gateway")["spec"]["type"], "LoadBalancer");
    assert_eq!(of("full").service("gateway")["spec"]["ports"][0]["nodePort"], 30443);
}

#[test]
fn the_pod_of_helm_test_asks_the_admin_service() {
    let rendered = of("minimal");
    let (test, admin) = (rendered.one("Pod"), rendered.service("admin"));
    let address = format!("{}.shop.svc:{}", text(&admin["metadata"]["name"]), admin["spec"]["ports"][0]["port"]);
    assert_eq!(test["spec"]["containers"][0]["args"], json!(["health", "--ready", "--admin", address]));
    assert_eq!(test["metadata"]["annotations"]["helm.sh/hook"], "test");
    // No Service takes it for one of its own.
    assert!(!selects(&admin["spec"]["selector"], &test["metadata"]["labels"]));
    assert!(of("full").all("Pod").is_empty());
}

#[test]
fn nothing_but_what_is_configured_can_be_asked_for() {
    let rendered = of("ingress");
    let ingress = &rendered.one("Ingress")["spec"];
    let service = rendered.service("gateway");
    let paths = |host: &Value| -> Vec<(String, String)> {
        let paths = list(&host["http"]["paths"]).iter().map(|path| {
            assert_eq!(path["backend"]["service"]["name"], service["metadata"]["name"]);
            assert_eq!(path["backend"]["service"]["port"]["name"], service["spec"]["ports"][0]["name"]);
            (text(&path["path"]).to_owned(), text(&path["pathType"]).to_owned())
        });
        paths.collect()
    };
    let of_all = [("/app", "Prefix"), ("/health", "Exact"), ("/webhooks/github", "Exact"), ("/webhooks/stripe", "Exact")];
    let of_all = of_all.map(|(path, kind)| (path.to_owned(), kind.to_owned()));
    let [hooks, eu] = list(&ingress["rules"]) else { panic!("{ingress:#}") };
    assert_eq!((text(&hooks["host"]), paths(hooks)), ("hooks.example.com", of_all.to_vec()));
    let without_github: Vec<_> = of_all.iter().filter(|(path, _)| path != "/webhooks/github").cloned().collect();
    assert_eq!((text(&eu["host"]), paths(eu)), ("eu.example.com", without_github));
    assert_eq!(ingress["ingressClassName"], "public");
    assert_eq!(ingress["tls"], json!([{ "secretName": "hooks-tls", "hosts": ["hooks.example.com", "eu.example.com"] }]));
}

#[test]
fn a_route_has_rules_of_eight_matches() {
    let rendered = of("gateway-api");
    let route = &rendered.one("HTTPRoute")["spec"];
    let service = rendered.service("gateway");
    assert_eq!(route["parentRefs"], json!([{ "name": "public", "namespace": "edge", "sectionName": "https" }]));
    assert_eq!(route["hostnames"], json!(["hooks.example.com"]));
    let rules = list(&route["rules"]);
    assert_eq!(rules.iter().map(|rule| list(&rule["matches"]).len()).collect::<Vec<_>>(), [8, 2]);
    for rule in rules {
        let backend = json!([{ "name": service["metadata"]["name"], "port": service["spec"]["ports"][0]["port"] }]);
        assert_eq!(rule["backendRefs"], backend);
    }
    assert_eq!(rules[0]["matches"][7]["path"], json!({ "type": "Exact", "value": "/webhooks/slack" }));
    assert_eq!(rules[1]["matches"][1]["path"], json!({ "type": "PathPrefix", "value": "/z" }));
}

/// The rules of a policy that concern a port.
fn rules<'v>(rules: &'v Value, port: &Value) -> Vec<&'v Value> {
    list(rules).iter().filter(|rule| list(&rule["ports"]).iter().any(|entry| entry["port"] == *port)).collect()
}

fn port(rendered: &Rendered, name: &str) -> Value {
    named(&rendered.container()["ports"], name)["containerPort"].clone()
}

#[test]
fn a_policy_lets_in_and_out_whom_it_names() {
    let rendered = of("network-policy");
    let policy = &rendered.one("NetworkPolicy")["spec"];
    assert!(selects(&policy["podSelector"]["matchLabels"], &rendered.pod()["metadata"]["labels"]));
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    let [data] = rules(&policy["ingress"], &port(rendered, "http"))[..] else { panic!("{policy:#}") };
    assert_eq!(data["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "ingress");
    let [admin] = rules(&policy["ingress"], &port(rendered, "admin"))[..] else { panic!("{policy:#}") };
    assert_eq!(list(&admin["from"]).len(), 2);
    let test_pod = &rendered.one("Pod")["metadata"]["labels"];
    assert!(selects(&admin["from"][1]["podSelector"]["matchLabels"], test_pod), "helm test must get through");
    let ways = [(json!(53), 1), (json!(3000), 1), (json!(6379), 1), (json!(4318), 1)];
    for (port, count) in ways {
        let found = rules(&policy["egress"], &port);
        assert!(found.len() == count && found.iter().all(|rule| !list(&rule["to"]).is_empty()), "{port}: {found:?}");
    }
    assert_eq!(list(&policy["egress"]).len(), 4);
}

#[test]
fn a_policy_without_peers_opens_deliveries_alone() {
    let rendered = of("network-policy-open");
    let policy = &rendered.one("NetworkPolicy")["spec"];
    assert_eq!(policy["policyTypes"], json!(["Ingress"]));
    let [only] = list(&policy["ingress"]) else { panic!("{policy:#}") };
    assert_eq!(*only, json!({ "ports": [{ "port": port(rendered, "http"), "protocol": "TCP" }] }));
    assert!(policy["egress"].is_null());
}
