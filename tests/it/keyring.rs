//! Keys that a provider publishes, behind HTTPS: fetched once, fetched again when a new one is named, and never faster than
//! they are let.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use hookonce::config::{Config, Environment};
use hookonce::pipeline::keyring::{Keyring, Need, Unavailable};
use hookonce::scheme::{DocumentKind, Key, KeyDocument, Scheme};
use hookonce::telemetry::Telemetry;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::KeyPair;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::support::https::{self, Identity};

/// A provider's page with keys on it.
struct Publisher {
    identity: Identity,
    address: SocketAddr,
    page: Arc<Mutex<(StatusCode, String)>>,
    asked: Arc<AtomicUsize>,
}

impl Publisher {
    async fn start(page: String) -> Self {
        let identity = https::identity();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (page, asked) = (Arc::new(Mutex::new((StatusCode::OK, page))), Arc::new(AtomicUsize::new(0)));
        let (shown, counted, acceptor) = (Arc::clone(&page), Arc::clone(&asked), https::acceptor(&identity));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let answer = service_fn(async |_: Request<Incoming>| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    let (status, text) = shown.lock().unwrap().clone();
                    let mut response = Response::new(Full::new(Bytes::from(text)));
                    *response.status_mut() = status;
                    Ok::<_, Infallible>(response)
                });
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            }
        });
        Self { identity, address, page, asked }
    }

    fn keyring(&self) -> Keyring {
        Keyring::trusting(https::roots(&self.identity)).unwrap()
    }

    fn document(&self) -> KeyDocument {
        let url = format!("https://localhost:{}/jwks.json", self.address.port()).parse().unwrap();
        KeyDocument { url, kind: DocumentKind::Jwks }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn show(&self, status: StatusCode, text: &str) {
        *self.page.lock().unwrap() = (status, text.to_owned());
    }
}

/// A set with one key of Ed25519 under each name.
fn jwks(names: &[&str]) -> String {
    let key = |name: &&str| {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let x = BASE64URL_NOPAD.encode(pair.public_key_raw());
        format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"{name}","x":"{x}"}}"#)
    };
    let keys: Vec<String> = names.iter().map(key).collect();
    format!(r#"{{"keys":[{},{{"kty":"oct","k":"AA"}}]}}"#, keys.join(","))
}

/// Keys are configured nowhere: that is what the scheme is for.
fn scheme() -> Scheme {
    let text = r#"
        upstream = "http://127.0.0.1:1"
        [providers.x]
        path = "/x"
        event_id = { json = "/id" }
        [providers.x.scheme]
        signature = { header = "X-Signature" }
        algorithm = "ed25519"
        key_id    = { header = "X-Key" }
        keys      = { jwks = "https://keys.example.com/jwks.json" }
    "#;
    let loaded = Config::from_text(text, &Environment::default()).unwrap();
    assert!(loaded.config.providers[0].keys.is_empty());
    loaded.config.providers[0].scheme.clone()
}

async fn ask(keyring: &Keyring, publisher: &Publisher, need: Need) -> Result<Arc<[Key]>, Unavailable> {
    keyring.keys(("acme", &scheme()), &publisher.document(), need, &Telemetry::new().unwrap()).await
}

/// Sets the clock forward. It must go on its own while sockets are waited for.
async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_provider_that_is_not_what_it_was_has_its_keys_fetched_anew() {
    let publisher = Publisher::start(jwks(&["one"])).await;
    let keyring = publisher.keyring();
    ask(&keyring, &publisher, Need::Any).await.unwrap();
    keyring.keep(|provider| provider == "acme");
    ask(&keyring, &publisher, Need::Any).await.unwrap();
    assert_eq!(publisher.asked(), 1);
    keyring.keep(|provider| provider != "acme");
    ask(&keyring, &publisher, Need::Any).await.unwrap();
    assert_eq!(publisher.asked(), 2);
}

#[tokio::test]
async fn keys_are_fetched_once_by_however_many_come_for_them() {
    let publisher = Publisher::start(jwks(&["one", "two"])).await;
    let keyring = publisher.keyring();
    let before = Instant::now();
    let asked = futures_util::future::join_all((0..20).map(|_| ask(&keyring, &publisher, Need::Any))).await;
    assert!(asked.iter().all(|keys| keys.as_ref().unwrap().len() == 2));
    assert_eq!(publisher.asked(), 1);
    // Who lacks one and came before has just been told all there are.
    assert_eq!(ask(&keyring, &publisher, Need::FetchedSince(before)).await.unwrap().len(), 2);
    assert_eq!(publisher.asked(), 1);
}

#[tokio::test]
async fn a_key_that_may_be_new_is_not_called_unknown_before_they_are_fetched_again() {
    let publisher = Publisher::start(jwks(&["one"])).await;
    let keyring = publisher.keyring();
    assert_eq!(ask(&keyring, &publisher, Need::Any).await.unwrap().len(), 1);
    publisher.show(StatusCode::OK, &jwks(&["one", "two"]));
    later(1).await;
    let came = Instant::now();
    assert!(ask(&keyring, &publisher, Need::FetchedSince(came)).await.is_err(), "they are not asked for so soon");
    assert_eq!(ask(&keyring, &publisher, Need::Any).await.unwrap().len(), 1, "whoever needs no other is served");
    later(31).await;
    assert_eq!(ask(&keyring, &publisher, Need::FetchedSince(came)).await.unwrap().len(), 2);
    assert_eq!(publisher.asked(), 2);
}

#[tokio::test]
async fn old_keys_do_not_outlive_a_publisher_that_fails_for_a_day() {
    let publisher = Publisher::start(jwks(&["one"])).await;
    let keyring = publisher.keyring();
    assert_eq!(ask(&keyring, &publisher, Need::Any).await.unwrap().len(), 1);
    publisher.show(StatusCode::INTERNAL_SERVER_ERROR, "");
    later(23 * 3600).await;
    assert_eq!(ask(&keyring, &publisher, Need::Any).await.unwrap().len(), 1);
    later(3601).await;
    assert!(ask(&keyring, &publisher, Need::Any).await.is_err());
    publisher.show(StatusCode::OK, &jwks(&["one", "two"]));
    later(31).await;
    assert_eq!(ask(&keyring, &publisher, Need::Any).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_new_key_is_found_and_old_ones_outlive_a_publisher_that_fails() {
    let publisher = Publisher::start(jwks(&["one"])).await;
    let keyring = publisher.keyring();
    assert_eq!(ask(&keyring, &publisher, Need::Any).await.unwrap().len(), 1);
    publisher.show(StatusCode::OK, &jwks(&["one", "two"]));
    later(31).await;
    assert_eq!(ask(&keyring, &publisher, Need::Any).await.unwrap().len(), 1, "they are fresh");
    assert_eq!(ask(&keyring, &publisher, Need::FetchedSince(Instant::now())).await.unwrap().len(), 2);
    publisher.show(StatusCode::INTERNAL_SERVER_ERROR, "");
    later(3601).await;
    assert_eq!(ask(&keyring, &publisher, Need::Any).await.unwrap().len(), 2);
    assert_eq!(publisher.asked(), 3);
}

#[tokio::test]
async fn a_publisher_that_fails_is_not_asked_by_every_delivery() {
    for (status, text) in [
        (StatusCode::INTERNAL_SERVER_ERROR, jwks(&["one"])),
        (StatusCode::FOUND, jwks(&["one"])),
        (StatusCode::OK, "{}".to_owned()),
        (StatusCode::OK, " ".repeat(300 * 1024)),
    ] {
        let publisher = Publisher::start(String::new()).await;
        publisher.show(status, &text);
        let keyring = publisher.keyring();
        for _ in 0..5 {
            assert!(ask(&keyring, &publisher, Need::Any).await.is_err());
        }
        assert_eq!(publisher.asked(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_publisher_that_nobody_vouches_for_is_not_believed() {
    let publisher = Publisher::start(jwks(&["one"])).await;
    let keyring = Keyring::new().unwrap();
    let Unavailable(why) = ask(&keyring, &publisher, Need::Any).await.unwrap_err();
    assert!(why.contains("certificate"), "{why}");
}

#[tokio::test]
async fn places_without_number_are_not_asked_without_number() {
    let publisher = Publisher::start(String::new()).await;
    publisher.show(StatusCode::NOT_FOUND, "");
    let (keyring, scheme, telemetry) = (publisher.keyring(), scheme(), Telemetry::new().unwrap());
    for nth in 0..300 {
        let url = format!("https://localhost:{}/{nth}.pem", publisher.address.port()).parse().unwrap();
        let document = KeyDocument { url, kind: DocumentKind::Certificate };
        assert!(keyring.keys(("acme", &scheme), &document, Need::Any, &telemetry).await.is_err());
    }
    assert!(publisher.asked() <= 12, "{}", publisher.asked());
    // Keys at a place that is configured are nobody's whim.
    publisher.show(StatusCode::OK, &jwks(&["one"]));
    assert_eq!(ask(&keyring, &publisher, Need::Any).await.unwrap().len(), 1);
}

#[tokio::test]
async fn keys_are_each_providers_own() {
    let publisher = Publisher::start(jwks(&["one"])).await;
    let (keyring, scheme, telemetry) = (publisher.keyring(), scheme(), Telemetry::new().unwrap());
    for provider in ["acme", "other", "acme"] {
        keyring.keys((provider, &scheme), &publisher.document(), Need::Any, &telemetry).await.unwrap();
    }
    assert_eq!(publisher.asked(), 2);
}

#[tokio::test]
async fn documents_without_number_do_not_shut_out_a_new_one() {
    let publisher = Publisher::start(jwks(&["one"])).await;
    let (keyring, scheme, telemetry) = (publisher.keyring(), scheme(), Telemetry::new().unwrap());
    for nth in 0..70 {
        let url = format!("https://localhost:{}/{nth}", publisher.address.port()).parse().unwrap();
        let document = KeyDocument { url, kind: DocumentKind::Jwks };
        assert!(keyring.keys(("acme", &scheme), &document, Need::Any, &telemetry).await.is_ok(), "{nth}");
        later(31).await;
    }
}

#[tokio::test]
async fn who_hangs_up_has_asked_all_the_same() {
    let publisher = Publisher::start(String::new()).await;
    publisher.show(StatusCode::NOT_FOUND, "");
    let keyring = publisher.keyring();
    for _ in 0..20 {
        let asking = ask(&keyring, &publisher, Need::Any);
        tokio::select! {
            biased;
            asked = asking => assert!(asked.is_err()),
            () = tokio::task::yield_now() => {}
        }
    }
    assert!(publisher.asked() <= 1, "{}", publisher.asked());
}
