//! How servers are spoken to: encrypted or not, as whom, and for how long a connection is waited for.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::select_ok;
use redis::{Cmd, ErrorKind, RedisError, Value, cmd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::about::About;
use super::fault::{is_unwelcome, may_pass};
use super::reply;
use super::roll::Roll;
use super::wire::late;
use crate::config::{Address, Login};

/// A peer that is gone without a word is noticed after this long, by keepalive or unacknowledged data.
const DEAD_PEER: Duration = Duration::from_secs(5);

/// Boxed where it is encrypted, which is large.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

#[derive(Clone)]
pub(super) struct Dialer {
    /// `None`: not encrypted.
    tls: Option<TlsConnector>,
    login: Login,
    database: u16,
    pub budget: Duration,
}

/// Trusts the authorities in PEM, the well-known ones if there are none.
pub(super) fn tls(authorities: Option<&[u8]>) -> Result<TlsConnector, rustls::Error> {
    let mut roots = RootCertStore { roots: Vec::new() };
    match authorities {
        None => roots.roots.extend_from_slice(webpki_roots::TLS_SERVER_ROOTS),
        Some(pem) => {
            let unreadable = |error| rustls::Error::General(format!("the authority is no certificate in PEM: {error:?}"));
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.map_err(unreadable)?)?;
            }
        }
    }
    if roots.is_empty() {
        return Err(rustls::Error::General("there is no certificate in PEM".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()).into())
}

impl Dialer {
    pub fn new(tls: Option<TlsConnector>, login: &Login, database: u16, budget: Duration) -> Self {
        Self { tls, login: login.clone(), database, budget }
    }

    /// A connection to a server that has let us in and has said who it is, which the roll knows before anything is asked.
    pub async fn dial(&self, address: &Address, roll: &Roll) -> Result<Stream, RedisError> {
        let dialed = async {
            let mut stream = self.connect(address).await?;
            let greeting = Greeting { dialer: self, stream: &mut stream };
            if let Some(run_id) = greeting.exchange().await? {
                roll.met(address, &run_id);
            }
            Ok(stream)
        };
        timeout(self.budget, dialed).await.unwrap_or_else(|_| Err(late()))
    }

    async fn connect(&self, address: &Address) -> Result<Stream, RedisError> {
        // All addresses of the name at once: one that is dead must not use up the time of the others.
        let each: Vec<_> =
            lookup_host((address.host.as_str(), address.port)).await?.map(|at| Box::pin(TcpStream::connect(at))).collect();
        if each.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", address.host)).into());
        }
        let (stream, _) = select_ok(each).await?;
        let keepalive = TcpKeepalive::new().with_time(DEAD_PEER).with_interval(Duration::from_secs(1)).with_retries(3);
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(DEAD_PEER))?;
        let Some(tls) = &self.tls else { return Ok(Either::Left(stream)) };
        let name =
            ServerName::try_from(address.host.clone()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Either::Right(Box::new(tls.connect(name, stream).await?)))
    }
}

/// The first words on a connection, in one piece: who we are, which database, and the question who is there.
struct Greeting<'a> {
    dialer: &'a Dialer,
    stream: &'a mut Stream,
}

impl Greeting<'_> {
    /// The run id of the server, where it tells.
    async fn exchange(mut self) -> Result<Option<String>, RedisError> {
        let Login { user, password } = &self.dialer.login;
        let with_password = |user: Option<&String>| password.as_ref().map(|password| auth(user, password.bytes()));
        let mut said = self.say(with_password(user.as_ref())).await?;
        // Servers before 6.0 have passwords and no users.
        if user.is_some()
            && matches!(&said.auth, Err(error) if error.detail().is_some_and(|detail| detail.contains("wrong number of arguments")))
        {
            said = self.say(with_password(None)).await?;
        }
        said.auth.map_err(|error| unwelcome("the server does not accept user and password", &error))?;
        said.select
            .map_err(|error| if may_pass(&error) { error } else { unwelcome("the server refused to switch database", &error) })?;
        match said.info {
            Ok(info) => Ok(Some(About::parse(&redis::from_redis_value::<String>(info)?).run_id)),
            Err(error) if may_pass(&error) || is_unwelcome(&error) => Err(error),
            // Not for us to ask.
            Err(_) => Ok(None),
        }
    }

    async fn say(&mut self, auth: Option<Cmd>) -> Result<Said, RedisError> {
        let select = (self.dialer.database > 0).then(|| cmd("SELECT").arg(self.dialer.database).to_owned());
        let mut info = cmd("INFO");
        info.arg("server");
        let mut words = Vec::new();
        for command in auth.iter().chain(&select).chain([&info]) {
            command.write_packed_command(&mut words);
        }
        self.stream.write_all(&words).await?;
        self.stream.flush().await?;
        let mut input = BytesMut::new();
        let mut answer = async |is_asked: bool| if is_asked { self.answer(&mut input).await } else { Ok(Ok(Value::Okay)) };
        Ok(Said { auth: answer(auth.is_some()).await?, select: answer(select.is_some()).await?, info: answer(true).await? })
    }

    /// What the server says, or that there is none.
    async fn answer(&mut self, input: &mut BytesMut) -> Result<Result<Value, RedisError>, RedisError> {
        loop {
            if let Some(value) = reply::take(input)? {
                return Ok(value.extract_error());
            }
            if self.stream.read_buf(input).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}

/// The answers to a greeting; as if said where it was not asked.
struct Said {
    auth: Result<Value, RedisError>,
    select: Result<Value, RedisError>,
    info: Result<Value, RedisError>,
}

fn auth(user: Option<&String>, password: &[u8]) -> Cmd {
    let mut auth = cmd("AUTH");
    auth.arg(user).arg(password);
    auth
}

/// Told apart from what a server says to a call. Without what was sent to it.
fn unwelcome(what: &'static str, said: &RedisError) -> RedisError {
    let said = format!("{} {}", said.code().unwrap_or_default(), said.detail().unwrap_or_default());
    RedisError::from((ErrorKind::AuthenticationFailed, what, said))
}
