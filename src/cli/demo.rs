//! `hookonce demo`: the real proxy on the embedded store, with a consumer and a provider in the same process.
//!
//! The provider behaves as providers do: it signs, sends overlapping copies, tries again after a failure and
//! redelivers what was accepted long ago. The consumer fails one event's first attempt and counts what it does.

mod consumer;
mod provider;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::SignalKind;

use super::run::Signals;
use super::{FAILED, block_on, fail};
use crate::app::App;
use crate::config::{Config, Environment};
use consumer::{Consumer, Seen};
use provider::{Account, Plan};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Leave it running afterwards, with its addresses printed
    #[arg(long)]
    pub keep: bool,
}

/// Only this demo signs with it.
const SECRET: &str = "a-secret-for-the-demo-alone";

pub fn run(args: &Args) -> ExitCode {
    let folder = Folder::new();
    let shown = block_on(async {
        // From the first moment on, so that the folder goes whenever the demo ends.
        let mut signals = Signals::new(&[SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()])?;
        show(args, &folder, &mut signals).await
    });
    match shown {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::from(FAILED),
        Ok(Err(error)) => fail(FAILED, error),
        Err(error) => fail(FAILED, error),
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the demo; tells whether every event took effect exactly once.
async fn show(args: &Args, folder: &Folder, signals: &mut Signals) -> Result<bool, Failure> {
    let consumer = Consumer::start().await?;
    let text = configuration(consumer.address, folder);
    let loaded = Config::from_text(&text, &Environment::default()).map_err(|problems| join(&problems))?;
    let app = App::start(loaded.config)?;
    let mut out = io::stdout();
    let shown = tokio::select! {
        shown = play(args, &app, &consumer, &mut out) => shown,
        () = signals.next() => Err("interrupted".into()),
    };
    if args.keep && shown.is_ok() {
        signals.next().await;
    }
    // However it went: the store must have let go of its folder before that is removed.
    app.stop().await;
    shown
}

/// Delivers, and prints what came of it. Whoever reads that may stop reading at any time.
async fn play(args: &Args, app: &App, consumer: &Consumer, out: &mut impl Write) -> Result<bool, Failure> {
    writeln!(out, "hookonce {} in front of a consumer, on an embedded store.", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "Deliveries go to http://{}, the consumer is http://{}.\n", app.listen, consumer.address)?;
    let accounts = provider::deliver_all(app.listen, SECRET, &plans()).await?;
    let is_right = report(&accounts, &consumer.ledger(), out)?;
    if args.keep {
        introduce(app, consumer, out)?;
    }
    Ok(is_right)
}

fn configuration(consumer: std::net::SocketAddr, folder: &Folder) -> String {
    let provider = |name: &str| {
        let secret = secret_text(name, SECRET.as_bytes());
        format!("[providers.{name}]\npath = \"/{name}\"\nsecret = \"{secret}\"\n")
    };
    format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nupstream = \"http://{consumer}\"\n\
         [store]\nurl = \"file:{}\"\n[drain]\ndelay = \"0s\"\n{}{}{}",
        folder.0.display(),
        provider("stripe"),
        provider("github"),
        provider("standard-webhooks"),
    )
}

/// Standard Webhooks writes its secrets in base64.
fn secret_text(provider: &str, secret: &[u8]) -> String {
    let is_encoded = provider == "standard-webhooks";
    if is_encoded { data_encoding::BASE64.encode(secret) } else { String::from_utf8_lossy(secret).into_owned() }
}

fn plans() -> Vec<Plan> {
    vec![
        Plan::new("stripe", "evt_invoice_paid", "an overlapping copy", 2, 0),
        Plan::new("stripe", "evt_charge_refunded", "five at once", 5, 0),
        Plan::new("stripe", "evt_payment_failed_first", "the consumer fails once; the provider tries again", 1, 0),
        Plan::new("github", "push-to-main", "redelivered twice afterwards", 1, 2),
        Plan::new("github", "issue-opened", "three at once, redelivered once", 3, 1),
        Plan::new("standard-webhooks", "msg_user_created", "ten at once, redelivered once", 10, 1),
    ]
}

/// One line an event, readable at a glance.
fn report(accounts: &[Account], ledger: &BTreeMap<String, Seen>, out: &mut impl Write) -> io::Result<bool> {
    writeln!(
        out,
        "{:<18} {:<25} {:>10} {:>9} {:>8}         what happened",
        "provider", "event", "deliveries", "forwards", "effects"
    )?;
    let mut is_right = true;
    for account in accounts {
        let seen = ledger.get(&account.plan.event).copied().unwrap_or_default();
        let is_once = seen.effects == 1 && account.was_told_ok;
        is_right &= is_once;
        writeln!(
            out,
            "{:<18} {:<25} {:>10} {:>9} {:>8}  {}  {}",
            account.plan.provider,
            account.plan.event,
            account.answers.len(),
            seen.forwards,
            seen.effects,
            if is_once { "ok   " } else { "WRONG" },
            account.plan.what,
        )?;
    }
    let deliveries: usize = accounts.iter().map(|account| account.answers.len()).sum();
    let effects: u32 = ledger.values().map(|seen| seen.effects).sum();
    writeln!(out, "\n{deliveries} deliveries of {} events: {effects} effects.", accounts.len())?;
    let verdict = if is_right { "Each event took effect once." } else { "This is not as it should be: please report it." };
    writeln!(out, "{verdict}")?;
    Ok(is_right)
}

fn introduce(app: &App, consumer: &Consumer, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nStill running. Ctrl-C ends it.")?;
    writeln!(out, "  deliveries  http://{}/stripe, /github, /standard-webhooks", app.listen)?;
    writeln!(out, "  the page    http://{}/", app.admin)?;
    writeln!(out, "  metrics     http://{}/metrics", app.admin)?;
    writeln!(out, "  events      http://{}/api/events?provider=stripe", app.admin)?;
    writeln!(out, "  consumer    http://{}", consumer.address)
}

fn join(problems: &[crate::config::Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A folder for the store, gone when the demo is over.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("hookonce-demo-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
