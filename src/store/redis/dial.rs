//! How servers are spoken to: encrypted or not, as whom, and for how long a connection is waited for.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisError, TlsCertificates};

use crate::config::{Address, Login};

/// Commands of concurrent deliveries that may queue for the connection before callers wait.
const PIPELINE_BUFFER: usize = 1024;
/// A peer that is gone without a word is noticed after this long, by keepalive or unacknowledged data.
const DEAD_PEER: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct Dialer {
    /// `None`: not encrypted. The certificates are those to trust, the well-known ones if there are none.
    pub tls: Option<TlsCertificates>,
    pub settings: RedisConnectionInfo,
    pub budget: Duration,
}

impl Dialer {
    pub fn new(tls: Option<TlsCertificates>, login: &Login, database: u16, budget: Duration) -> Self {
        // A least-privilege user need not be allowed CLIENT SETINFO.
        let mut settings = RedisConnectionInfo::default().set_db(database.into()).set_skip_set_lib_name();
        if let Some(user) = &login.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &login.password {
            settings = settings.set_password(String::from_utf8_lossy(password.bytes()));
        }
        Self { tls, settings, budget }
    }

    /// A connection that is made with its first use, and made again whenever it breaks.
    pub fn dial(&self, address: &Address) -> Result<ConnectionManager, RedisError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_max_delay(Duration::from_millis(100))
            .set_connection_timeout(Some(self.budget))
            // Whoever calls has a time of its own for it, and a shorter one: a second timer would cost every call and never end one.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        ConnectionManager::new_lazy_with_config(self.client(address)?, config)
    }

    /// Nothing is connected yet; the certificates are read.
    pub fn client(&self, address: &Address) -> Result<Client, RedisError> {
        let Address { host, port } = address.clone();
        let keepalive = TcpKeepalive::new().with_time(DEAD_PEER).with_interval(Duration::from_secs(1)).with_retries(3);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive).set_user_timeout(DEAD_PEER);
        let at = match self.tls {
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            None => ConnectionAddr::Tcp(host, port),
        };
        let info = at.into_connection_info()?.set_tcp_settings(tcp).set_redis_settings(self.settings.clone());
        match &self.tls {
            Some(certificates) if certificates.root_cert.is_some() => Client::build_with_tls(info, certificates.clone()),
            _ => Client::open(info),
        }
    }
}
