//! Where Redis is: one server, the master that Sentinels name, or a Cluster.
//!
//! `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`
//! `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../SERVICE[/DATABASE][?sentinel_username=...&sentinel_password=...]`
//! `redis+cluster://[USER:PASSWORD@]HOST[:PORT],...`
//!
//! `rediss` in place of `redis` for TLS. The URL may hold passwords: no message repeats any part of it.

use std::fmt;

use super::scalar::Fault;
use super::secret::Secret;
use crate::pipeline::route::percent_decoded;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisUrl {
    pub topology: Topology,
    pub tls: bool,
    pub login: Login,
    pub database: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    Single(Address),
    Sentinel {
        sentinels: Vec<Address>,
        service: String,
        /// Sentinels have users of their own.
        login: Login,
    },
    /// Some of its servers; these tell of the others.
    Cluster(Vec<Address>),
}

impl Topology {
    /// The addresses that were written, one at least.
    pub fn addresses(&self) -> &[Address] {
        match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Sentinel { sentinels: addresses, .. } | Self::Cluster(addresses) => addresses,
        }
    }
}

/// As whom a server is spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// Without brackets, where it is an IPv6 address.
    pub host: String,
    pub port: u16,
}

pub const FORMS: &str = "write \"redis://HOST:6379\", \"redis+sentinel://HOST:26379,HOST:26379/SERVICE\" or \
                         \"redis+cluster://HOST:6379,HOST:6379\"; \"rediss\" in place of \"redis\" for TLS";

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl RedisUrl {
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("is not the URL of a Redis server"))?;
        let (plain, tls) = match scheme.strip_prefix("rediss") {
            Some(kind) => (kind, true),
            None => (scheme.strip_prefix("redis").ok_or_else(|| wrong("is not the URL of a Redis server"))?, false),
        };
        let parts = Parts::of(rest);
        let login = parts.login();
        match plain {
            "" => parts.single(tls, login),
            "+sentinel" | "-sentinel" => parts.sentinel(tls, login),
            "+cluster" | "-cluster" => parts.cluster(tls, login),
            _ => Err(wrong("is not the URL of a Redis server")),
        }
    }
}

/// The URL without what may be secret.
impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, service) = match &self.topology {
            Topology::Single(_) => ("", None),
            Topology::Sentinel { service, .. } => ("+sentinel", Some(service)),
            Topology::Cluster(_) => ("+cluster", None),
        };
        let hidden = if self.login.password.is_some() || self.login.user.is_some() { "***@" } else { "" };
        let servers: Vec<String> = self.topology.addresses().iter().map(Address::to_string).collect();
        write!(f, "{}{kind}://{hidden}{}", if self.tls { "rediss" } else { "redis" }, servers.join(","))?;
        if let Some(service) = service {
            write!(f, "/{service}")?;
        }
        if self.database != 0 {
            write!(f, "/{}", self.database)?;
        }
        Ok(())
    }
}

/// What stands after `//`.
struct Parts<'a> {
    credentials: Option<&'a str>,
    servers: &'a str,
    path: &'a str,
    query: &'a str,
    fragment: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// A password may hold `/`, `?` and `#`: the last `@` ends it.
    fn of(rest: &'a str) -> Self {
        let (credentials, rest) = rest.rsplit_once('@').map_or((None, rest), |(credentials, rest)| (Some(credentials), rest));
        let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (servers, path) = rest.split_once('/').unwrap_or((rest, ""));
        Self { credentials, servers, path: path.trim_end_matches('/'), query, fragment }
    }

    fn login(&self) -> Login {
        let (user, password) = match self.credentials {
            Some(credentials) => credentials.split_once(':').map_or((credentials, None), |(user, word)| (user, Some(word))),
            None => ("", None),
        };
        Login {
            user: Some(percent_decoded(user)).filter(|user| !user.is_empty()),
            password: password.map(|word| Secret::new(percent_decoded(word))),
        }
    }

    fn single(&self, tls: bool, login: Login) -> Result<RedisUrl, Fault> {
        self.no_parameters()?;
        if self.servers.contains(',') {
            return Err(wrong("names several servers, and not what they are to each other"));
        }
        let topology = Topology::Single(Address::parse(self.servers, PORT)?);
        Ok(RedisUrl { topology, tls, login, database: database(self.path)? })
    }

    /// `/SERVICE[/DATABASE]`, or as some clients write it `/[DATABASE]#SERVICE`.
    fn sentinel(&self, tls: bool, login: Login) -> Result<RedisUrl, Fault> {
        let (service, path) = match self.fragment {
            Some(service) => (service, self.path),
            None => self.path.split_once('/').unwrap_or((self.path, "")),
        };
        if service.is_empty() {
            return Err(wrong("does not name the service that the Sentinels watch"));
        }
        let (sentinels, own) = (self.servers(SENTINEL_PORT)?, self.sentinel_login()?);
        let topology = Topology::Sentinel { sentinels, service: percent_decoded(service), login: own };
        Ok(RedisUrl { topology, tls, login, database: database(path)? })
    }

    fn cluster(&self, tls: bool, login: Login) -> Result<RedisUrl, Fault> {
        self.no_parameters()?;
        if database(self.path)? != 0 {
            return Err(wrong("names a database, of which a Cluster has one: 0"));
        }
        Ok(RedisUrl { topology: Topology::Cluster(self.servers(PORT)?), tls, login, database: 0 })
    }

    fn sentinel_login(&self) -> Result<Login, Fault> {
        let mut login = Login::default();
        for parameter in self.query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sentinel_username", user)) => login.user = Some(percent_decoded(user)),
                Some(("sentinel_password", word)) => login.password = Some(Secret::new(percent_decoded(word))),
                _ => return Err(wrong("has a parameter that is neither sentinel_username nor sentinel_password")),
            }
        }
        Ok(login)
    }

    /// One that is ignored might be one that somebody relies on.
    fn no_parameters(&self) -> Result<(), Fault> {
        if self.query.is_empty() && self.fragment.is_none() {
            return Ok(());
        }
        Err(wrong("has parameters, of which this form takes none"))
    }

    fn servers(&self, port: u16) -> Result<Vec<Address>, Fault> {
        self.servers.split(',').map(|server| Address::parse(server, port)).collect()
    }
}

impl Address {
    /// `HOST`, `HOST:PORT`, `[::1]` or `[::1]:PORT`.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, Fault> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(wrong("has no host"));
        }
        let port = port.map_or(Some(default_port), |port| port.parse().ok()).filter(|&port| port != 0);
        Ok(Self { host: host.to_owned(), port: port.ok_or_else(|| wrong("has a port that is not a number"))? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

fn database(path: &str) -> Result<u16, Fault> {
    match path {
        "" => Ok(0),
        number => number.parse().map_err(|_| wrong("has a database that is not a number")),
    }
}

fn wrong(what: &str) -> Fault {
    Fault::new(what, FORMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_and_shown_without_secrets() {
        for (url, shown) in [
            ("redis://127.0.0.1", "redis://127.0.0.1:6379"),
            ("redis://[::1]:6380/2", "redis://[::1]:6380/2"),
            ("redis://[::1]", "redis://[::1]:6379"),
            ("redis://:canary@redis/", "redis://***@redis:6379"),
            ("rediss://user:can/ary?#@redis.internal/0", "rediss://***@redis.internal:6379"),
            ("redis+sentinel://a,b:1,[::1]:2/orders", "redis+sentinel://a:26379,b:1,[::1]:2/orders"),
            ("rediss-sentinel://:canary@a/orders/3", "rediss+sentinel://***@a:26379/orders/3"),
            ("redis-sentinel://a/3#orders", "redis+sentinel://a:26379/orders/3"),
            ("redis+sentinel://a/orders?sentinel_password=canary", "redis+sentinel://a:26379/orders"),
            ("redis-cluster://u:canary@a,b:1", "redis+cluster://***@a:6379,b:1"),
            ("rediss+cluster://a/0", "rediss+cluster://a:6379"),
        ] {
            let read = RedisUrl::parse(url).unwrap();
            assert_eq!(read.to_string(), shown);
            assert!(!format!("{read:?}").contains("canary"));
        }
    }

    #[test]
    fn credentials_are_percent_decoded() {
        let url = "redis+sentinel://us%40er:p%3Aw%2F%40d@h/s%2F1?sentinel_username=se%26nt&sentinel_password=pa%40ss";
        let RedisUrl { login, topology, .. } = RedisUrl::parse(url).unwrap();
        let Topology::Sentinel { service, login: sentinel, .. } = topology else { panic!("{topology:?}") };
        let plain = |login: &Login| (login.user.clone().unwrap(), login.password.clone().unwrap().bytes().to_vec());
        assert_eq!(plain(&login), ("us@er".to_owned(), b"p:w/@d".to_vec()));
        assert_eq!(plain(&sentinel), ("se&nt".to_owned(), b"pa@ss".to_vec()));
        assert_eq!(service, "s/1");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_and_not_repeated() {
        for (url, what) in [
            ("redis:canary", "not the URL"),
            ("rediscanary://h", "not the URL"),
            ("redis://:canary@", "no host"),
            ("redis://:canary@h:port", "port"),
            ("redis://canary:0", "port"),
            ("redis://h/canary", "database"),
            ("redis://h?canary=1", "parameters"),
            ("rediss://h#canary", "parameters"),
            ("redis://canary,h", "several servers"),
            ("redis+sentinel://canary", "service"),
            ("redis+sentinel://h/s/canary", "database"),
            ("redis+sentinel://h/s?canary=1", "sentinel_username"),
            ("redis+cluster://canary/1", "Cluster has one"),
            ("redis+cluster://canary,", "no host"),
        ] {
            let fault = RedisUrl::parse(url).unwrap_err();
            assert!(fault.what.contains(what), "{url}: {fault:?}");
            assert!(!format!("{fault:?}").contains("canary"), "{fault:?}");
        }
    }
}
