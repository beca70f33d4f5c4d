//! A server's side of TLS, with a certificate that nobody but its test vouches for.

use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

pub type Identity = CertifiedKey<KeyPair>;

/// A certificate for `localhost`.
pub fn identity() -> Identity {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

pub fn acceptor(identity: &Identity) -> TlsAcceptor {
    let key = PrivateKeyDer::try_from(identity.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![identity.cert.der().clone()], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Those who vouch for it: itself.
pub fn roots(identity: &Identity) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(identity.cert.der().clone()).unwrap();
    roots
}
