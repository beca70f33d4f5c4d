//! Who sends a request, as far as can be told.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

use super::headers::FORWARDED_FOR;

/// Whoever is at the other end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// An IPv4 address is always written as one.
    pub address: IpAddr,
    pub is_tls: bool,
}

impl Caller {
    pub fn new(address: IpAddr, is_tls: bool) -> Self {
        Self { address: address.to_canonical(), is_tls }
    }

    /// Where the request began: at the caller, or where proxies that somebody has named say that it came to them. `None` where
    /// one of them says what cannot be read.
    pub fn origin(self, headers: &HeaderMap, proxies: &[IpNet]) -> Option<IpAddr> {
        // The last one was written last, by the nearest.
        let lines = headers.get_all(&FORWARDED_FOR).iter().rev();
        let mut hops = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        let mut address = self.address;
        while has(proxies, address)
            && let Some(hop) = hops.next()
        {
            address = std::str::from_utf8(hop).ok().and_then(|hop| parsed(hop.trim()))?;
        }
        Some(address)
    }
}

/// Whether one of these networks has the address.
pub fn has(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

/// Some proxies write the port too.
fn parsed(hop: &str) -> Option<IpAddr> {
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']')).unwrap_or(hop);
    bare.parse::<IpAddr>().ok().or_else(with_port).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(peer: &str, lines: &[&str]) -> String {
        let proxies: Vec<IpNet> = ["10.0.0.0/8", "::1/128"].map(|net| net.parse().unwrap()).to_vec();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&FORWARDED_FOR, http::HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        let origin = Caller::new(peer.parse().unwrap(), false).origin(&headers, &proxies);
        origin.map_or_else(|| "nobody".to_owned(), |address| address.to_string())
    }

    #[test]
    fn a_request_began_at_the_first_who_is_not_believed() {
        for (peer, lines, expected) in [
            ("192.0.2.1", &["198.51.100.1"][..], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", &["198.51.100.1:443"], "198.51.100.1"),
            ("::1", &["[2001:db8::7]:80"], "2001:db8::7"),
            ("10.0.0.1", &["203.0.113.9, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", &["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["\u{ff}, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["[2001:db8::7]"], "2001:db8::7"),
            ("10.0.0.1", &["198.51.100.1, unknown"], "nobody"),
            ("10.0.0.1", &["198.51.100.1, \u{ff}"], "nobody"),
            ("10.0.0.1", &["198.51.100.1, "], "nobody"),
        ] {
            assert_eq!(origin(peer, lines), expected, "{peer} {lines:?}");
        }
    }
}
