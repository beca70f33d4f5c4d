//! What must not be deployed: said by both Helms before anything reaches a cluster, in words that tell what to do.

use std::fs;

use super::render::{HELMS, KUBES, chart, file_of, path, template};

/// What each Helm says to a set with something else on top.
fn refusals(set: &str, yaml: &str) -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("more.yaml");
    fs::write(&file, yaml).unwrap();
    HELMS.map(|helm| {
        let values = file_of(set);
        match template(helm, &chart(), "billing", KUBES[0], &["--values", &values, "--values", path(&file)]) {
            Ok(_) => panic!("{helm} rendered {set} with {yaml}"),
            Err(said) => said,
        }
    })
}

fn assert_refused(set: &str, yaml: &str, words: &[&str]) {
    for said in refusals(set, yaml) {
        for word in words {
            assert!(said.contains(word), "{yaml}: {word:?} is not in: {said}");
        }
    }
}

#[test]
fn a_file_store_is_refused_for_several_pods() {
    let file = "store: { url: 'file:/data' }\n";
    let alone = format!("{file}replicas: 1\nstrategy: {{ type: Recreate }}\npersistence: {{ enabled: true }}\n");
    assert_refused(
        "minimal",
        &alone.replace("replicas: 1", "replicas: 2"),
        &["store.url: file: serves one instance: set replicas: 1"],
    );
    assert_refused("minimal", &alone.replace("Recreate", "RollingUpdate"), &["set strategy.type: Recreate"]);
    assert_refused("minimal", &alone.replace("enabled: true", "enabled: false"), &["set persistence.enabled: true"]);
    assert_refused("minimal", &format!("{alone}autoscaling: {{ enabled: true }}"), &["set autoscaling.enabled: false"]);
    assert_refused("minimal", &alone.replace("file:/data", "file:/database"), &["/database is not on the volume"]);
    // All of it at once, not one after the other.
    assert_refused("minimal", file, &["set replicas: 1", "set strategy.type: Recreate", "set persistence.enabled: true"]);
}

#[test]
fn a_volume_that_holds_nothing_is_refused() {
    assert_refused("minimal", "persistence: { enabled: true }", &["persistence.enabled: nothing is kept on that volume"]);
}

#[test]
fn a_store_that_forgets_needs_a_word() {
    assert_refused("minimal", "{ store: { url: 'memory:' }, replicas: 1 }", &["store.acceptForgetting: true"]);
    assert_refused("memory", "replicas: 2", &["memory: is known to its own pod only"]);
    assert_refused("memory", "autoscaling: { enabled: true }", &["memory: is known to its own pod only"]);
}

#[test]
fn what_is_missing_is_told_at_once() {
    for helm in HELMS {
        let said = template(helm, &chart(), "billing", KUBES[0], &[]).unwrap_err();
        assert!(said.contains("providers: there is none") && said.contains("store: set url, or urlFrom"), "{said}");
    }
    assert_refused("minimal", "upstream: ''", &["upstream: is missing, and stripe has none of its own"]);
}

#[test]
fn secrets_are_refused_where_everybody_can_read_them() {
    let plain = "a ConfigMap is no place for it";
    assert_refused("minimal", "store: { url: 'redis://:hunter2@redis:6379' }", &["store.url", plain, "urlFrom"]);
    assert_refused("minimal", "store: { url: 'redis+sentinel://a/s?sentinel_password=x' }", &["store.url", plain]);
    let token = "handshake: { when: { query: a }, reply: { query: b }, token: { query: c, secret: hunter2 } }";
    let said = "providers.stripe.handshake.token.secret: is the secret itself";
    assert_refused("minimal", &format!("providers: {{ stripe: {{ {token} }} }}"), &[said, plain]);
    // The schema is asked first, and says it in words of its own.
    assert_refused("minimal", "providers: { stripe: { secret: hunter2 } }", &["stripe", "secret", "object"]);
    assert_refused("minimal", "adminToken: hunter2", &["adminToken"]);
    for said in refusals("minimal", "store: { url: 'redis://:hunter2@redis:6379' }") {
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_secret_is_named_whole() {
    let secret = |secret: &str| format!("providers: {{ other: {{ preset: stripe, path: /o, secret: {secret} }} }}");
    assert_refused(
        "minimal",
        &secret("{ existingSecret: s }"),
        &["providers.other.secret: write { existingSecret: NAME, key: KEY }"],
    );
    assert_refused("minimal", &secret("{ key: k }"), &["providers.other.secret: key names an entry of a Secret"]);
    assert_refused("minimal", &secret("{ existingSecret: s, key: k, env: E }"), &["providers.other.secret", "nothing else"]);
    assert_refused("minimal", "store: { password: { existingSecret: s } }", &["store.password: write { existingSecret"]);
    assert_refused("minimal", "store: { ca: { key: k } }", &["store.ca", "existingConfigMap"]);
    assert_refused("minimal", "store: { username: u }", &["store.username: has no password"]);
    assert_refused("minimal", "store: { urlFrom: { existingSecret: s, key: k } }", &["url and urlFrom are both set"]);
    let file = "{ store: { password: { existingSecret: s, key: k } } }";
    assert_refused("file-store", file, &["store.password: is put into url, which has to be that of a Redis"]);
}

#[test]
fn a_pod_is_not_ended_in_the_middle() {
    let short = "terminationGracePeriodSeconds: 44";
    assert_refused("minimal", short, &["terminationGracePeriodSeconds: 44 would end a pod", "45 (drain.delaySeconds"]);
    assert_refused("full", "drain: { timeoutSeconds: 131 }", &["terminationGracePeriodSeconds: 150", "151"]);
}

#[test]
fn what_the_chart_owns_is_written_where_it_belongs() {
    let said =
        ["config.listen", "ports.data", "config.store", "config.providers", "config.drain", "config.admin_token", "adminToken"];
    let all = "config: { listen: 'a', admin: 'b', admin_token: { env: T }, upstream: 'c', store: {}, providers: {}, drain: {} }";
    assert_refused("minimal", all, &said);
}

#[test]
fn ways_that_lead_nowhere_are_refused() {
    assert_refused("minimal", "ingress: { enabled: true }", &["ingress.hosts: is empty"]);
    let elsewhere = "{ ingress: { enabled: true, hosts: [b.example.com] }, providers: { stripe: { host: a.example.com } } }";
    assert_refused("minimal", elsewhere, &["every provider belongs to another host than b.example.com"]);
    assert_refused("minimal", "httpRoute: { enabled: true }", &["httpRoute.parentRefs: is empty"]);
    let cut = "networkPolicy: { enabled: true, egress: { enabled: true } }";
    assert_refused("minimal", cut, &["egress.consumer.to: is empty", "egress.store.to: is empty"]);
}

#[test]
fn numbers_that_contradict_each_other_are_refused() {
    assert_refused("minimal", "podDisruptionBudget: { minAvailable: 2 }", &["2 of 2 would keep every node from being drained"]);
    assert_refused("scaled", "autoscaling: { minReplicas: 13 }", &["minReplicas is above maxReplicas"]);
}

#[test]
fn names_that_cannot_be_are_refused() {
    for helm in HELMS {
        let said = template(helm, &chart(), "1st", KUBES[0], &["--values", &file_of("minimal")]).unwrap_err();
        assert!(said.contains("\"1st-hookonce\" cannot name a Service") && said.contains("fullnameOverride"), "{said}");
    }
}

/// By the schema, whose words are Helm's own: that the key is named is what counts.
#[test]
fn misspelt_keys_and_wrong_types_are_named() {
    for (yaml, key) in [
        ("replica: 3", "replica"),
        ("replicas: '3'", "replicas"),
        ("providers: { stripe: { retenton: 7d } }", "retenton"),
        ("providers: { stripe: { retention: 7 } }", "retention"),
        ("providers: { stripe: { retention: 7 days } }", "retention"),
        ("providers: { stripe: { dedupe: on } }", "dedupe"),
        ("providers: { stripe: { mode: later } }", "mode"),
        ("providers: { stripe: { path: webhooks } }", "path"),
        ("providers: { Stripe: { path: /x } }", "Stripe"),
        ("providers: { other: {} }", "path"),
        ("config: { limits: { buffred: 1MiB } }", "buffred"),
        ("config: { limits: { buffered: 1M } }", "buffered"),
        ("config: { workers: 0 }", "workers"),
        ("store: { url: 'postgres://db' }", "url"),
        ("store: { namespace: 'a b' }", "namespace"),
        ("upstream: billing:3000", "upstream"),
        ("image: { digest: latest }", "digest"),
        ("ports: { data: 70000 }", "data"),
        ("rolloutOnConfig: sometimes", "rolloutOnConfig"),
        ("service: { type: ExternalName }", "type"),
        ("strategy: { type: BlueGreen }", "type"),
        ("persistence: { mountPath: /data/ }", "mountPath"),
    ] {
        assert_refused("minimal", yaml, &[key, "schema"]);
    }
}
