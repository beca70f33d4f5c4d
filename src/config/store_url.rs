//! The store's URL. It may hold a password: no message repeats it, and `masked` is the only form that is printed.

use std::path::PathBuf;

use super::reader::{At, FromNode};
use super::redis_url::RedisUrl;
use super::scalar::{Fault, from_text};
use super::tree::Node;
use super::written::{AsWritten, quoted};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    Memory,
    File(PathBuf),
    Redis(RedisUrl),
}

const KNOWN: &str = "write \"redis://HOST:6379\", \"rediss://HOST:6379\", \"file:PATH\" or \"memory:\"";

impl StoreUrl {
    /// The URL without what may be secret: for logs, `check` and the admin page.
    pub fn masked(&self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::File(path) => format!("file:{}", path.display()),
            Self::Redis(url) => url.to_string(),
        }
    }

    /// Whether several services may share it, so that keys need a namespace of their own.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Redis(_))
    }

    /// Whether the way to it is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Redis(url) if url.tls)
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let (scheme, rest) = text.split_once(':').ok_or_else(unknown)?;
        match (scheme, rest) {
            ("memory", "" | "//") => Ok(Self::Memory),
            ("file", path) => file(path),
            ("postgres" | "postgresql", _) => Err(Fault::new("PostgreSQL is not built yet", KNOWN)),
            (redis, _) if redis.starts_with("redis") => RedisUrl::parse(text).map(Self::Redis),
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
            ("rediss://user:canary@redis.internal/1", "rediss://***@redis.internal:6379/1"),
            ("redis+sentinel://:canary@a,b/orders", "redis+sentinel://***@a:26379,b:26379/orders"),
            ("redis+cluster://a,b", "redis+cluster://a:6379,b:6379"),
        ] {
            let read = StoreUrl::parse(url).unwrap();
            assert_eq!(read.masked(), masked);
            assert!(!format!("{read:?}").contains("canary"));
        }
    }

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        let fault = StoreUrl::parse("postgres://db/x").unwrap_err();
        assert!(fault.what.contains("PostgreSQL") && fault.what.contains("not built yet"), "{fault:?}");
    }

    #[test]
    fn nothing_of_a_wrong_url_is_repeated() {
        for wrong in ["canary", "canary:6379", "redis:canary", "redis://:canary@", "file:", "file://canary"] {
            let fault = StoreUrl::parse(wrong).unwrap_err();
            assert!(!format!("{fault:?}").contains("canary"), "{fault:?}");
        }
    }
}
