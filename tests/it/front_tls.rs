//! TLS on the listening side.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Version;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::consumer::Consumer;
use crate::support::https::{self, Identity};
use crate::support::program::{Program, hookonce};
use crate::support::proxy::{Setup, in_front_of};
use crate::support::sender::{Delivery, github};
use crate::support::wire::Wire;
use crate::support::{PATIENCE, eventually};

/// Where the files are that the configuration names.
fn written(folder: &Path, identity: &Identity) -> String {
    std::fs::write(folder.join("key.pem"), identity.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), identity.cert.pem()).unwrap();
    format!("[tls]\ncert_file = \"{0}/cert.pem\"\nkey_file = \"{0}/key.pem\"\n", folder.display())
}

fn behind_tls(consumer: &Consumer, folder: &Path, identity: &Identity) -> Setup {
    in_front_of(consumer).table(&written(folder, identity))
}

/// Who a sender is: nobody, or somebody with a certificate.
type Proof = Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>;

async fn greeted(to: SocketAddr, roots: RootCertStore, proof: Proof, protocol: &[u8]) -> std::io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let mut config = match proof {
        None => config.with_no_client_auth(),
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(to).await?).await
}

/// The status that a delivery gets over TLS, and in which protocol.
async fn send(delivery: &Delivery, stream: TlsStream<TcpStream>) -> Option<(u16, Version)> {
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let mut request =
        http::Request::post(format!("https://localhost{}", delivery.path)).body(Full::new(delivery.body.clone())).unwrap();
    request.headers_mut().extend(delivery.headers.clone());
    let response = if is_h2 {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        sender.send_request(request).await.ok()?
    } else {
        *request.uri_mut() = delivery.path.parse().unwrap();
        request.headers_mut().insert("host", "localhost".parse().unwrap());
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        sender.send_request(request).await.ok()?
    };
    let (parts, body) = response.into_parts();
    let _ = body.collect().await;
    Some((parts.status.as_u16(), parts.version))
}

#[tokio::test]
async fn deliveries_come_over_tls_in_either_protocol_and_the_consumer_is_told_so() {
    let (consumer, folder, identity) = (Consumer::answering(200).await, tempfile::tempdir().unwrap(), https::identity());
    let proxy = behind_tls(&consumer, folder.path(), &identity).start();
    for (event, protocol, version) in [("e1", &b"http/1.1"[..], Version::HTTP_11), ("e2", b"h2", Version::HTTP_2)] {
        let stream = greeted(proxy.listen, https::roots(&identity), None, protocol).await.unwrap();
        assert_eq!(send(&github(event), stream).await, Some((200, version)));
    }
    assert!(consumer.seen().iter().all(|seen| seen.header("x-forwarded-proto") == Some("https")));
    assert!(proxy.metrics().await.value("hookonce_tls_expiry_timestamp_seconds", &[]) > 1e9);
    // Whoever speaks in the clear is not understood, and nothing of it gets through.
    let clear = Wire::with(proxy.listen, &github("e3").bytes()).await.rest().await.unwrap_or_default();
    assert!(!clear.contains("HTTP/1.1"), "{clear}");
    assert_eq!(consumer.seen().len(), 2);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_greeting_that_does_not_come_is_not_waited_for() {
    let (consumer, folder, identity) = (Consumer::answering(200).await, tempfile::tempdir().unwrap(), https::identity());
    let setup = behind_tls(&consumer, folder.path(), &identity).table("[limits]\nheader_timeout = \"300ms\"");
    let proxy = setup.start();
    let began = Instant::now();
    Wire::to(proxy.listen).await.closed().await;
    Wire::with(proxy.listen, &[0x16, 3, 1]).await.closed().await;
    // Greeted, and then silent.
    let mut silent = greeted(proxy.listen, https::roots(&identity), None, b"h2").await.unwrap();
    let mut said = Vec::new();
    let _ = timeout(PATIENCE, silent.read_to_end(&mut said)).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    proxy.counted("hookonce_limited_total", &[("limit", "header_time")], 3.0).await;
    assert!(proxy.stop().await);
}

/// An authority, and somebody it vouches for.
fn vouched(name: &str) -> (CertificateDer<'static>, String, Proof) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["sender.example".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let proof = (vec![leaf.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap());
    (issuer.der().clone(), issuer.pem(), Some(proof))
}

#[tokio::test]
async fn only_senders_that_an_authority_vouches_for_get_in_where_one_is_named() {
    let (consumer, folder, identity) = (Consumer::answering(200).await, tempfile::tempdir().unwrap(), https::identity());
    let (_, authority, proof) = vouched("ours");
    let (_, _, others) = vouched("theirs");
    std::fs::write(folder.path().join("senders.pem"), authority).unwrap();
    let tls = written(folder.path(), &identity) + &format!("client_ca_file = \"{}/senders.pem\"", folder.path().display());
    let proxy = in_front_of(&consumer).table(&tls).start();
    for (who, event, is_let_in) in [(proof, "e1", true), (None, "e2", false), (others, "e3", false)] {
        let status = match greeted(proxy.listen, https::roots(&identity), who, b"http/1.1").await {
            Ok(stream) => send(&github(event), stream).await.map(|(status, _)| status),
            Err(_) => None,
        };
        assert_eq!(status, is_let_in.then_some(200), "{event}");
    }
    assert_eq!(consumer.seen().len(), 1);
    assert!(proxy.stop().await);
}

/// The certificate that is shown now.
async fn shown(to: SocketAddr, identities: [&Identity; 2]) -> Option<usize> {
    for (number, identity) in identities.into_iter().enumerate() {
        if greeted(to, https::roots(identity), None, b"http/1.1").await.is_ok() {
            return Some(number);
        }
    }
    None
}

#[tokio::test]
async fn a_certificate_is_taken_up_when_its_file_changes_and_a_broken_one_is_not() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let (first, second) = (https::identity(), https::identity());
    let config = folder.path().join("hookonce.toml");
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = behind_tls(&consumer, folder.path(), &first).text().replacen("127.0.0.1:0", &listening.to_string(), 1);
    std::fs::write(&config, text).unwrap();
    let mut program = Program::start(hookonce().arg("run").arg("--config").arg(&config));
    let both = [&first, &second];
    eventually("the first certificate", async || (shown(listening, both).await == Some(0)).then_some(())).await;
    // A connection that is open goes on with what it was greeted with.
    let open = greeted(listening, https::roots(&first), None, b"http/1.1").await.unwrap();
    std::fs::write(folder.path().join("cert.pem"), "-----BEGIN CERTIFICATE-----\nnone\n").unwrap();
    eventually("a word of the broken one", async || program.err().contains("tls.cert_file").then_some(())).await;
    assert_eq!(shown(listening, both).await, Some(0), "the one before goes on");
    written(folder.path(), &second);
    eventually("the second certificate", async || (shown(listening, both).await == Some(1)).then_some(())).await;
    assert_eq!(send(&github("e1"), open).await.map(|(status, _)| status), Some(200));
    program.signal("TERM");
    assert!(program.ended().await.success());
}
