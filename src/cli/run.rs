//! `hookonce run`: serves until a signal, then stops in order.

use std::process::ExitCode;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::{FAILED, UNUSABLE, block_on, fail};
use crate::app::App;
use crate::config::problem::Report;
use crate::config::{Config, Environment, Flags, Loaded, StoreUrl};
use crate::store::{Keeping, StoreSource};
use crate::telemetry::{log, outlet};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub flags: Flags,
}

pub fn run(args: &Args, environment: &Environment) -> ExitCode {
    let loaded = match Config::load(&args.flags, environment) {
        Ok(loaded) => loaded,
        Err(problems) => {
            eprint!("{}", Report { word: "error", problems: &problems });
            return ExitCode::from(UNUSABLE);
        }
    };
    log::start(&loaded.config.log);
    let code = block_on(serve(loaded)).unwrap_or_else(|error| fail(FAILED, error));
    outlet::flush();
    code
}

async fn serve(loaded: Loaded) -> ExitCode {
    let Loaded { config, warnings } = loaded;
    for warning in &warnings {
        tracing::warn!(key = warning.key, "{}; {}", warning.what, warning.help);
    }
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(FAILED, error),
    };
    if let Some(why) = loss(&config).await {
        let help = "or write accept_loss = true in [queue]";
        return fail(UNUSABLE, format!("mode = \"queue\" acknowledges events that this store can lose: {why}; {help}"));
    }
    let introduction = Introduction::of(&config);
    let app = match App::start(config) {
        Ok(app) => app,
        Err(error) => return fail(FAILED, error),
    };
    introduction.say(&app);
    signals.next().await;
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

/// What a server can lose of the events that are accepted for later, unless that is accepted. One that does not answer is
/// asked again while the program serves, and nothing is accepted before.
async fn loss(config: &Config) -> Option<String> {
    let is_asked = config.has_queue() && !config.queue.accept_loss && matches!(config.store.url, StoreUrl::Redis(_));
    if !is_asked {
        return None;
    }
    let store = StoreSource::open(&config.store).ok()?.connect().ok()?;
    match store.keeping().await {
        Ok(Keeping::Lossy(why)) => Some(why),
        Ok(Keeping::Durable) | Err(_) => None,
    }
}

/// Signals within this time are one.
const ONE_SIGNAL: Duration = Duration::from_millis(50);

/// The signals that ask the program to end. Whoever listens for them is no longer ended by them.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        let [terminate, interrupt, hangup] = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        Ok(Self { terminate: terminate?, interrupt: interrupt?, hangup: hangup? })
    }

    /// What has come by now counts as one.
    fn forget(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        while self.terminate.poll_recv(&mut cx).is_ready() || self.interrupt.poll_recv(&mut cx).is_ready() {}
    }

    pub(super) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                // Others reload on it. Ending without a word would be the worst answer.
                _ = self.hangup.recv() => tracing::warn!("SIGHUP changes nothing: restart to read the configuration anew"),
            }
        }
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
