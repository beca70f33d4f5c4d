//! The demo's provider: signs as the presets say, and delivers at least once.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::config::Secret;
use crate::scheme::{Draft, Scheme, preset};

/// How often a provider tries before it gives up, and how long it waits in between.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// One event and how often it is delivered.
#[derive(Clone, Debug)]
pub struct Plan {
    pub provider: &'static str,
    pub event: String,
    pub what: &'static str,
    /// Copies sent at the same time.
    at_once: usize,
    /// Deliveries after it was accepted.
    redelivered: usize,
}

/// What came of it.
#[derive(Debug)]
pub struct Account {
    pub plan: Plan,
    pub answers: Vec<StatusCode>,
    pub was_told_ok: bool,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Plan {
    pub fn new(provider: &'static str, event: &str, what: &'static str, at_once: usize, redelivered: usize) -> Self {
        Self { provider, event: event.to_owned(), what, at_once, redelivered }
    }
}

/// Delivers every event as planned, all at the same time.
pub async fn deliver_all(to: SocketAddr, secret: &str, plans: &[Plan]) -> Result<Vec<Account>, Failure> {
    let mut running = JoinSet::new();
    for (index, plan) in plans.iter().cloned().enumerate() {
        let secret = Secret::new(secret);
        running.spawn(async move { deliver(to, &secret, plan).await.map(|account| (index, account)) });
    }
    let mut accounts = Vec::new();
    while let Some(joined) = running.join_next().await {
        accounts.push(joined??);
    }
    accounts.sort_by_key(|(index, _)| *index);
    Ok(accounts.into_iter().map(|(_, account)| account).collect())
}

async fn deliver(to: SocketAddr, secret: &Secret, plan: Plan) -> Result<Account, Failure> {
    let mut answers = Vec::new();
    for _ in 0..TRIES {
        let mut copies = JoinSet::new();
        for _ in 0..plan.at_once {
            copies.spawn(send(to, signed(&plan, secret)?));
        }
        while let Some(answer) = copies.join_next().await {
            answers.push(answer??);
        }
        if answers.iter().any(StatusCode::is_success) {
            break;
        }
        sleep(PAUSE).await;
    }
    for _ in 0..plan.redelivered {
        answers.push(send(to, signed(&plan, secret)?).await?);
    }
    let was_told_ok = answers.last().is_some_and(StatusCode::is_success);
    Ok(Account { plan, answers, was_told_ok })
}

/// The delivery as the provider would send it: the id where its preset finds it, signed with its scheme.
fn signed(plan: &Plan, secret: &Secret) -> Result<Request<Full<Bytes>>, Failure> {
    let preset = preset::find(plan.provider).ok_or("no such preset")?.compile().map_err(|_| "a preset that does not compile")?;
    let scheme: &Scheme = &preset.scheme;
    let body = Bytes::from(format!("{{\"id\":\"{}\",\"object\":\"event\",\"demo\":true}}", plan.event));
    let path = format!("/{}", plan.provider);
    let mut draft = Draft { method: Method::POST, uri: path.parse()?, headers: HeaderMap::new(), body };
    draft.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for name in ["x-github-delivery", "webhook-id"] {
        draft.headers.insert(HeaderName::from_static(name), HeaderValue::from_str(&plan.event)?);
    }
    let key = scheme.key(&secret_for(plan.provider, secret))?;
    scheme.sign(&key, &mut draft, now())?;
    draft.headers.insert(http::header::HOST, HeaderValue::from_static("demo.localhost"));
    Ok(draft.into_request())
}

fn secret_for(provider: &str, secret: &Secret) -> Secret {
    Secret::new(super::secret_text(provider, secret.bytes()))
}

async fn send(to: SocketAddr, request: Request<Full<Bytes>>) -> Result<StatusCode, Failure> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    response.into_body().collect().await?;
    drop(sender);
    driving.await??;
    Ok(status)
}

/// A provider signs at the time it sends.
#[expect(clippy::disallowed_methods, reason = "the demo's provider has a clock of its own")]
fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
