//! Redis behind TLS, however it is reached: trusted by its own authority, and by no other.

use hookonce::config::RedisUrl;
use hookonce::store::StoreErrorKind;
use hookonce::store::cells::Cells;
use hookonce::store::redis::{RedisCells, RedisServer};
use rcgen::CertifiedKey;
use tempfile::TempDir;

use crate::support::redis::{RedisProcess, quiet_port, wait_until};
use crate::support::{BUDGET, RETENTION, event_key};

fn certificate() -> CertifiedKey<rcgen::KeyPair> {
    rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap()
}

/// A certificate, in files as servers want it.
struct Identity {
    authority: Vec<u8>,
    folder: TempDir,
}

impl Identity {
    fn new() -> Self {
        // As the program does when it starts; another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (identity, folder) = (certificate(), tempfile::tempdir().unwrap());
        std::fs::write(folder.path().join("cert.pem"), identity.cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), identity.signing_key.serialize_pem()).unwrap();
        Self { authority: identity.cert.pem().into_bytes(), folder }
    }

    /// What makes a server speak TLS at `port`, and plainly at its own.
    fn settings(&self, port: u16) -> Vec<String> {
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| self.folder.path().join(name).to_str().unwrap().to_owned());
        let files = [("--tls-cert-file", cert.clone()), ("--tls-key-file", key), ("--tls-ca-cert-file", cert)];
        let ways = [("--tls-auth-clients", "no"), ("--tls-replication", "yes")].map(|(name, value)| (name, value.to_owned()));
        let port = [("--tls-port", port.to_string())];
        port.into_iter().chain(files).chain(ways).flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    async fn trusts_only_its_own(&self, url: &str) {
        let cells = |authority: Vec<u8>| -> RedisCells {
            RedisServer::new(&RedisUrl::parse(url).unwrap(), Some(authority), BUDGET).unwrap().connect()
        };
        let (trusting, key) = (cells(self.authority.clone()), event_key());
        wait_until("a write", async || trusting.put(key.as_str(), "x".into(), RETENTION).await.is_ok()).await;
        assert_eq!(trusting.read(key.as_str()).await.unwrap().unwrap().value, "x");
        let stranger = cells(certificate().cert.pem().into_bytes());
        let error = stranger.read(key.as_str()).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

fn words(settings: &[String]) -> Vec<&str> {
    settings.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn one_server_is_reached_through_tls() {
    let (identity, port) = (Identity::new(), quiet_port());
    let _redis = RedisProcess::start_with(&words(&identity.settings(port)));
    identity.trusts_only_its_own(&format!("rediss://localhost:{port}")).await;
}

#[tokio::test]
async fn sentinels_and_what_they_name_are_reached_through_tls() {
    let (identity, port, watched) = (Identity::new(), quiet_port(), quiet_port());
    let _redis = RedisProcess::start_with(&words(&identity.settings(watched)));
    let sentinel = RedisProcess::start_sentinel(&words(&identity.settings(port)));
    let () = sentinel.ask(&["SENTINEL", "MONITOR", "orders", "127.0.0.1", &watched.to_string(), "1"]).await;
    identity.trusts_only_its_own(&format!("rediss+sentinel://localhost:{port}/orders")).await;
}

#[tokio::test]
async fn a_cluster_is_reached_through_tls() {
    let (identity, port, bus) = (Identity::new(), quiet_port(), quiet_port());
    let settings = identity.settings(port);
    let bus = bus.to_string();
    let cluster = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", &bus];
    let node = RedisProcess::start_with(&[&words(&settings)[..], &cluster].concat());
    let () = node.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    identity.trusts_only_its_own(&format!("rediss+cluster://localhost:{port}")).await;
}

#[test]
fn an_authority_that_is_none_is_refused_at_the_start() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = RedisUrl::parse("rediss://localhost").unwrap();
    let error = RedisServer::new(&url, Some(b"-----BEGIN CERTIFICATE-----\nnot one".to_vec()), BUDGET).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Refused, "{error}");
}
