//! `hookonce run`: serves until a signal, then stops in order.

mod reload;

use std::future::poll_fn;
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::{FAILED, UNUSABLE, block_on, fail};
use crate::app::App;
use crate::config::problem::Report;
use crate::config::{Config, Environment, Flags, Loaded, StoreUrl};
use crate::store::{Keeping, StoreSource};
use crate::telemetry::{log, outlet};
use reload::Reloads;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub flags: Flags,
}

pub fn run(args: &Args, environment: &Environment) -> ExitCode {
    let (loaded, files) = Config::load_from_files(&args.flags, environment);
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(problems) => {
            eprint!("{}", Report { word: "error", problems: &problems });
            return ExitCode::from(UNUSABLE);
        }
    };
    log::start(&loaded.config.log);
    open_as_many_files_as_may_be();
    let reloads = Reloads::new(&args.flags, environment, files);
    let code = block_on(serve(loaded, reloads)).unwrap_or_else(|error| fail(FAILED, error));
    outlet::flush();
    code
}

/// Each connection is a file. The soft limit is for programs that cannot count beyond a thousand.
fn open_as_many_files_as_may_be() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

async fn serve(loaded: Loaded, mut reloads: Reloads) -> ExitCode {
    let Loaded { config, warnings } = loaded;
    for warning in &warnings {
        tracing::warn!(key = warning.key, "{}; {}", warning.what, warning.help);
    }
    let (mut signals, hangup) = match listened_for() {
        Ok(signals) => signals,
        Err(error) => return fail(FAILED, error),
    };
    if let Some(loss) = loss(&config).await {
        return fail(UNUSABLE, loss);
    }
    let introduction = Introduction::of(&config);
    let app = match App::start(config) {
        Ok(app) => app,
        Err(error) => return fail(FAILED, error),
    };
    introduction.say(&app);
    tokio::select! {
        () = signals.next() => {}
        never = reloads.watch(&app, hangup) => never,
    }
    // Whoever signals a process and its group, as `timeout` does, means one signal.
    sleep(ONE_SIGNAL).await;
    signals.forget();
    tracing::info!("stopping: not ready any more, finishing what is under way; a second signal stops at once");
    tokio::select! {
        is_finished = app.stop() => {
            tracing::info!(finished = is_finished, "stopped");
            ExitCode::SUCCESS
        }
        () = signals.next() => {
            tracing::warn!("stopped at once; claims that were open are left to their leases");
            ExitCode::from(FAILED)
        }
    }
}

/// What ends the program, and what has it read its configuration anew.
fn listened_for() -> std::io::Result<(Signals, Signal)> {
    Ok((Signals::new(&[SignalKind::terminate(), SignalKind::interrupt()])?, signal(SignalKind::hangup())?))
}

/// What a server can lose of the events that are accepted for later, unless that is accepted. One that does not answer is
/// asked again while the program serves, and nothing is accepted before.
async fn loss(config: &Config) -> Option<String> {
    let is_asked = config.has_queue() && !config.queue.accept_loss && matches!(config.store.url, StoreUrl::Redis(_));
    if !is_asked {
        return None;
    }
    let store = StoreSource::open(&config.store).ok()?.connect().ok()?;
    match store.keeping().await {
        Ok(Keeping::Lossy(why)) => Some(format!(
            "mode = \"queue\" acknowledges events that this store can lose: {why}; or write accept_loss = true in [queue]"
        )),
        Ok(Keeping::Durable) | Err(_) => None,
    }
}

/// Signals within this time are one.
const ONE_SIGNAL: Duration = Duration::from_millis(50);

/// The signals that ask the program to end. Whoever listens for them is no longer ended by them.
pub(super) struct Signals(Vec<Signal>);

impl Signals {
    pub(super) fn new(kinds: &[SignalKind]) -> std::io::Result<Self> {
        kinds.iter().map(|kind| signal(*kind)).collect::<Result<_, _>>().map(Self)
    }

    /// What has come by now counts as one.
    fn forget(&mut self) {
        while self.poll(&mut Context::from_waker(Waker::noop())).is_ready() {}
    }

    pub(super) async fn next(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let has_come = self.0.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
        if has_come { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// What is said at start, taken from the configuration before it is handed over.
struct Introduction {
    store: String,
    limit: Option<&'static str>,
    providers: Vec<(String, String, String)>,
}

impl Introduction {
    fn of(config: &Config) -> Self {
        let limit = match config.store.url {
            StoreUrl::Memory => Some("memory: forgets every event when the program ends; it is for trying out"),
            StoreUrl::File(_) => Some("file: serves a single instance; several instances need Redis"),
            StoreUrl::Redis(_) => None,
        };
        let providers = config.providers.iter().map(|provider| {
            let upstream = provider.upstream.0.to_string();
            (provider.name.clone(), provider.path.clone(), upstream)
        });
        Self { store: config.store.url.masked(), limit, providers: providers.collect() }
    }

    fn say(self, app: &App) {
        let Self { store, limit, providers } = self;
        tracing::info!(listen = %app.listen, admin = %app.admin, store, version = env!("CARGO_PKG_VERSION"), "serving");
        if let Some(limit) = limit {
            tracing::info!("{limit}");
        }
        for (provider, path, upstream) in providers {
            tracing::info!(provider, path, upstream, "provider");
        }
    }
}
