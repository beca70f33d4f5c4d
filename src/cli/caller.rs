//! Asks the admin side of a running instance: where it is, what opens it, one request and its answer.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{FAILED, UNUSABLE, fail, say};
use crate::config::problem::{Problem, Report};
use crate::config::{Config, Environment, Flags, Secret};

/// Longer than the admin side works on any one call.
const PATIENCE: Duration = Duration::from_secs(30);
/// A probe that takes longer has failed.
pub const PROBE_PATIENCE: Duration = Duration::from_secs(3);
/// More than any answer has: the largest is a letter with its content.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
const HEADERS_MAX: usize = 32;
/// The variable that the token is looked for in, unless another is named.
const TOKEN_VARIABLE: &str = "HOOKONCE_ADMIN_TOKEN";

/// Which instance.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// Configuration file of the instance, to find its admin address
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Its admin address [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
}

/// Which instance, and what it is asked with.
#[derive(Debug, clap::Args)]
pub struct Access {
    #[command(flatten)]
    pub place: Place,
    /// Variable that holds the admin token [default: HOOKONCE_ADMIN_TOKEN, then the file's `admin_token`]
    #[arg(long, value_name = "VARIABLE")]
    pub token_env: Option<String>,
    /// Print JSON, for scripts
    #[arg(long)]
    pub json: bool,
}

impl Access {
    /// Prints what came of a change: as it was told, or in words.
    pub fn tell(&self, body: &[u8], words: impl std::fmt::Display) {
        if self.json { say(as_told(body)) } else { say(words) }
    }
}

/// A way to ask. What goes wrong on the way to it has been printed.
#[derive(Debug)]
pub struct Caller {
    pub address: SocketAddr,
    token: Option<Secret>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Place {
    /// Whom to ask, without a token.
    pub fn caller(&self, environment: &Environment) -> Result<Caller, ExitCode> {
        // The one place where the address may be a name: whoever asks need not be where the instance is.
        let given = self.admin.as_deref().map(|text| text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/'));
        let address = match given.filter(|text| is_name(text)) {
            Some(name) => resolve(name).map_err(|error| fail(FAILED, format!("{name} cannot be found: {error}")))?,
            None => {
                let flags = Flags { admin: given.map(str::to_owned), ..self.flags() };
                reachable(Config::admin_address(&flags, environment).map_err(report)?)
            }
        };
        Ok(Caller { address, token: None })
    }

    fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), ..Flags::default() }
    }
}

impl Access {
    pub fn caller(&self, environment: &Environment) -> Result<Caller, ExitCode> {
        let caller = self.place.caller(environment)?;
        let token = match (&self.token_env, environment.var(TOKEN_VARIABLE).filter(|token| !token.is_empty())) {
            (Some(name), _) => match environment.var(name) {
                Some(token) => Some(Secret::new(token)),
                None => return Err(fail(UNUSABLE, "the variable named by --token-env is not set")),
            },
            (None, Some(token)) => Some(Secret::new(token)),
            (None, None) => Config::admin_token(&self.place.flags(), environment).map_err(report)?,
        };
        if token.as_ref().is_some_and(|token| !token.bytes().iter().all(u8::is_ascii_graphic)) {
            return Err(fail(UNUSABLE, "the admin token holds what cannot be sent in a header"));
        }
        Ok(Caller { token, ..caller })
    }
}

impl Caller {
    /// Asks for JSON. A refusal is printed, with what the instance says of it.
    pub fn json(&self, method: &str, target: &str, body: &str) -> Result<Vec<u8>, ExitCode> {
        self.answer(method, target, body)?.accepted()
    }

    /// Asks for whatever the answer may be. That there is none is printed.
    pub fn answer(&self, method: &str, target: &str, body: &str) -> Result<Answer, ExitCode> {
        let silent = |error| fail(FAILED, format!("http://{} does not answer: {error}", self.address));
        self.ask(method, target, body, PATIENCE).map_err(silent)
    }

    pub fn ask(&self, method: &str, target: &str, body: &str, patience: Duration) -> io::Result<Answer> {
        let mut stream = TcpStream::connect_timeout(&self.address, patience.min(PROBE_PATIENCE))?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let (address, length) = (self.address, body.len());
        write!(stream, "{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n")?;
        if let Some(token) = &self.token {
            stream.write_all(&[b"Authorization: Bearer ", token.bytes(), b"\r\n"].concat())?;
        }
        write!(stream, "\r\n{body}")?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
        Answer::read(bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "this is not an answer of hookonce"))
    }
}

impl Answer {
    fn read(mut bytes: Vec<u8>) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = head.parse(&bytes).ok()? else { return None };
        let status = head.code?;
        Some(Self { status, body: bytes.split_off(length) })
    }

    /// Its body, unless it is a refusal, which is printed.
    pub fn accepted(self) -> Result<Vec<u8>, ExitCode> {
        match self.status {
            200..300 => Ok(self.body),
            status => Err(fail(if status == 400 { UNUSABLE } else { FAILED }, self.reason())),
        }
    }

    fn reason(&self) -> String {
        let said: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        format!("refused ({}): {}", self.status, said["reason"].as_str().unwrap_or("without a reason"))
    }
}

/// What an instance of this version answers.
pub fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, ExitCode> {
    serde_json::from_slice(body).map_err(|error| fail(FAILED, format!("the instance's answer cannot be read: {error}")))
}

/// The same, for scripts.
pub fn as_told(body: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(body.trim_ascii_end())
}

/// A text as it stands in a URL.
pub fn encoded(text: &str) -> String {
    encoded_but(text, b"_.-~:+")
}

/// An id is typed as it is shown, which encodes its percent signs already.
pub fn encoded_id(text: &str) -> String {
    encoded_but(text, b"_.-~:+/%")
}

fn encoded_but(text: &str, plain: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || plain.contains(&byte);
    let written = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(written).collect()
}

fn report(problems: Vec<Problem>) -> ExitCode {
    eprint!("{}", Report { word: "error", problems: &problems });
    ExitCode::from(UNUSABLE)
}

/// `HOST:PORT`, where the host is not an address.
fn is_name(text: &str) -> bool {
    let is_host = |host: &str| !host.is_empty() && !host.contains([':', '/']);
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok());
    has_port && text.parse::<SocketAddr>().is_err()
}

fn resolve(name: &str) -> io::Result<SocketAddr> {
    name.to_socket_addrs()?.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it has no address"))
}

/// An instance that listens everywhere listens on this machine too.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    address
}
