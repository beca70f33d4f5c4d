//! The store's URL. It may hold a password: no message repeats it, and `masked` is the only form that is printed.

use std::path::PathBuf;

use super::reader::{At, FromNode};
use super::scalar::{Fault, from_text};
use super::secret::Secret;
use super::tree::Node;
use super::written::{AsWritten, quoted};

#[derive(Clone, Debug)]
pub enum StoreUrl {
    Memory,
    File(PathBuf),
    /// The URL as written, password included: never printed.
    Redis(Secret),
}

const KNOWN: &str = "write \"redis://HOST:6379\", \"rediss://HOST:6379\", \"file:PATH\" or \"memory:\"";

/// Stores that are part of the design and not built yet, by the schemes people write for them.
const PENDING: [(&str, &[&str]); 3] = [
    ("PostgreSQL", &["postgres", "postgresql"]),
    ("Redis Sentinel", &["redis+sentinel", "rediss+sentinel", "redis-sentinel", "rediss-sentinel"]),
    ("Redis Cluster", &["redis-cluster", "rediss-cluster", "redis+cluster", "rediss+cluster"]),
];

impl StoreUrl {
    /// The URL without what may be secret: for logs, `check` and the admin page.
    pub fn masked(&self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::File(path) => format!("file:{}", path.display()),
            Self::Redis(url) => masked(&String::from_utf8_lossy(url.bytes())),
        }
    }

    /// Whether several services may share it, so that keys need a namespace of their own.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Redis(_))
    }

    /// Whether the way to it is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Redis(url) if url.bytes().starts_with(b"rediss:"))
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let (scheme, rest) = text.split_once(':').ok_or_else(unknown)?;
        if let Some((name, _)) = PENDING.iter().find(|(_, schemes)| schemes.contains(&scheme)) {
            return Err(Fault::new(format!("{name} is not built yet"), KNOWN));
        }
        match (scheme, rest) {
            ("memory", "" | "//") => Ok(Self::Memory),
            ("file", path) => file(path),
            ("redis" | "rediss", rest) => redis(rest).map(|()| Self::Redis(Secret::new(text))),
            _ => Err(unknown()),
        }
    }
}

fn unknown() -> Fault {
    Fault::new("is not the URL of a store", KNOWN)
}

/// `file:./data` and `file:///var/lib/data`; `file://data` would name a host.
fn file(path: &str) -> Result<StoreUrl, Fault> {
    let path = match path.strip_prefix("//") {
        Some(rest) if !rest.starts_with('/') => return Err(Fault::new("names a host", "write \"file:PATH\", without //")),
        Some(rest) => rest,
        None => path,
    };
    if path.is_empty() {
        return Err(Fault::new("has no path", "write \"file:./hookonce-data\""));
    }
    Ok(StoreUrl::File(PathBuf::from(path)))
}

/// Looks at everything but the credentials, which may hold any byte: `//[credentials@]HOST[:PORT][/DATABASE][?...]`.
fn redis(rest: &str) -> Result<(), Fault> {
    let rest = rest.strip_prefix("//").ok_or_else(unknown)?;
    let (address, tail) = address_and_tail(rest);
    if address.contains(',') {
        return Err(Fault::new("Redis Cluster and Sentinel are not built yet", "write one address: \"redis://HOST:6379\""));
    }
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !address.ends_with(']') => (host, Some(port)),
        _ => (address, None),
    };
    if host.is_empty() {
        return Err(Fault::new("has no host", KNOWN));
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(Fault::new("has a port that is not a number", KNOWN));
    }
    let database = tail.split('?').next().unwrap_or_default().trim_start_matches('/');
    if !database.is_empty() && database.parse::<u32>().is_err() {
        return Err(Fault::new("has a database that is not a number", "write \"redis://HOST:6379/0\""));
    }
    Ok(())
}

/// Splits what follows `//`, credentials left out. A password may hold `/` and `?`: the last `@` ends it.
fn address_and_tail(rest: &str) -> (&str, &str) {
    let bare = rest.rsplit_once('@').map_or(rest, |(_, bare)| bare);
    bare.split_at(bare.find(['/', '?']).unwrap_or(bare.len()))
}

fn masked(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
    let (address, tail) = address_and_tail(rest);
    let credentials = if rest.contains('@') { "***@" } else { "" };
    let database = tail.split('?').next().unwrap_or_default();
    format!("{scheme}://{credentials}{address}{database}")
}

impl FromNode for StoreUrl {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        from_text(node, at, Self::parse)
    }
}

impl AsWritten for StoreUrl {
    fn as_written(&self) -> String {
        quoted(&self.masked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_stores_are_read_and_masked() {
        for (url, masked) in [
            ("memory:", "memory:"),
            ("file:./data", "file:./data"),
            ("file:///var/lib/hookonce", "file:/var/lib/hookonce"),
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://[::1]:6379/2", "redis://[::1]:6379/2"),
            ("redis://[::1]", "redis://[::1]"),
            ("rediss://user:canary@redis.internal/0", "rediss://***@redis.internal/0"),
            ("redis://:can/ary?@redis:6379/1?protocol=resp3", "redis://***@redis:6379/1"),
        ] {
            let read = StoreUrl::parse(url).unwrap();
            assert_eq!(read.masked(), masked);
            assert!(!format!("{read:?}").contains("canary"));
        }
    }

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        for (url, name) in [
            ("postgres://db/x", "PostgreSQL"),
            ("redis+sentinel://a:1", "Sentinel"),
            ("redis-cluster://a:1", "Cluster"),
            ("redis://a:1,b:2", "Cluster"),
        ] {
            let fault = StoreUrl::parse(url).unwrap_err();
            assert!(fault.what.contains(name) && fault.what.contains("not built yet"), "{fault:?}");
        }
    }

    #[test]
    fn nothing_of_a_wrong_url_is_repeated() {
        for wrong in [
            "canary",
            "canary:6379",
            "redis:canary",
            "redis://:canary@",
            "redis://:canary@h:port",
            "redis://h/canary",
            "file:",
            "file://canary",
        ] {
            let fault = StoreUrl::parse(wrong).unwrap_err();
            assert!(!format!("{fault:?}").contains("canary"), "{fault:?}");
        }
    }
}
