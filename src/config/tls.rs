//! What the listening side proves itself with, read from files that may be replaced while the program runs.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use zeroize::Zeroizing;

use super::files;
use super::reader::{At, FromNode};
use super::scalar::from_text;
use super::tree::Node;
use super::written::{AsWritten, quoted};
use super::{Fault, Tls};
use crate::scheme::public_key;

/// HTTP/2 where the sender can, otherwise HTTP/1.1.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A file of certificates: a chain, or authorities.
pub struct Certificates {
    path: String,
    pub list: Vec<CertificateDer<'static>>,
}

/// A file with a private key.
pub struct KeyFile {
    path: String,
    pub key: PrivateKeyDer<'static>,
}

impl FromNode for Certificates {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, |path| {
            let pem = content(path, at)?;
            let list = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
            match list {
                Ok(list) if !list.is_empty() => Ok(Self { path: path.to_owned(), list }),
                _ => Err(Fault::new(format!("{path} holds no certificate in PEM"), "it begins with -----BEGIN CERTIFICATE-----")),
            }
        })
    }
}

impl FromNode for KeyFile {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, |path| match PrivateKeyDer::from_pem_slice(&content(path, at)?) {
            Ok(key) => Ok(Self { path: path.to_owned(), key }),
            Err(_) => {
                let help = "it begins with -----BEGIN PRIVATE KEY-----, and is not encrypted";
                Err(Fault::new(format!("{path} holds no private key in PEM"), help))
            }
        })
    }
}

/// What is in a file, which is looked at again while the program runs.
fn content(path: &str, at: &At<'_>) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let content = files::read(Path::new(path)).map(Zeroizing::new);
    at.problems.was_read(Path::new(path), content.as_ref().ok().map(|content| content.as_slice()));
    content.map_err(|error| Fault::new(format!("{path} cannot be read: {error}"), "check the path and its permissions"))
}

impl AsWritten for Certificates {
    fn as_written(&self) -> String {
        quoted(&self.path)
    }
}

impl AsWritten for KeyFile {
    fn as_written(&self) -> String {
        quoted(&self.path)
    }
}

impl Tls {
    /// With `authorities`, whoever has no certificate from one of them is not let in.
    pub(super) fn new(chain: Certificates, key: KeyFile, authorities: Option<Certificates>) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let server = match authorities {
            None => server.with_no_client_auth(),
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                authorities.list.into_iter().try_for_each(|authority| roots.add(authority))?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                server.with_client_cert_verifier(verifier.map_err(|error| rustls::Error::General(error.to_string()))?)
            }
        };
        let expires = chain.list.first().and_then(|leaf| public_key::not_after(leaf));
        let mut server = server.with_single_cert(chain.list, key.key)?;
        server.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Self { server: Arc::new(server), expires })
    }

    /// Whether the certificate can no longer be believed.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}
