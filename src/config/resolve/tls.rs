//! `[tls]`: whether the listening side speaks TLS, and as whom.

use crate::config::Tls;
use crate::config::tls::{Certificates, KeyFile};

use super::section::Section;

/// `None` where nothing is written, or where something is wrong, which has been noted.
pub(super) fn resolve(section: &Section<'_>) -> Option<Tls> {
    let chain = section.optional::<Certificates>("cert_file");
    let key = section.optional::<KeyFile>("key_file");
    let authorities = section.optional::<Certificates>("client_ca_file");
    let is_wanted = ["cert_file", "key_file", "client_ca_file"].iter().any(|key| section.has(key));
    for name in ["cert_file", "key_file"] {
        if is_wanted && !section.has(name) {
            section.error(name, "is missing", "TLS needs both: cert_file with the chain of certificates, and key_file");
        }
    }
    let (chain, key) = (chain?, key?);
    if section.has("client_ca_file") && authorities.is_none() {
        return None;
    }
    let made = Tls::new(chain, key, authorities);
    made.map_err(|error| section.refuse("cert_file", format!("cannot be used: {error}"), "key_file must be its own key")).ok()
}
