//! The program put together: one single-threaded runtime a core for deliveries, one for the admin side.
//!
//! A runtime has its own listener, upstream connections and store connection. Shared between them are the events in
//! flight, the metrics and the configuration, behind short locks or atomics that are never held across an await.

mod worker;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::admin::stream::Feed;
use crate::admin::{self, Admin, Place};
use crate::config::{Config, Problem, TraceConfig};
use crate::pipeline::bound::Bound;
use crate::pipeline::flight::Flights;
use crate::pipeline::intake::Buffered;
use crate::pipeline::keyring::Keyring;
use crate::pipeline::listener::{self, crowd::Crowd, spread::Share};
use crate::pipeline::plan::Plan;
use crate::pipeline::rate::FailurePaces;
use crate::pipeline::route::Route;
use crate::pipeline::upstream;
use crate::store::{Condition, Reserve, StoreError, StoreSource};
use crate::telemetry::Telemetry;
use crate::telemetry::trace::export::Exporter;
use worker::Worker;

/// How long releases of what was never sent may take once everything else has been given up.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why the program cannot start.
#[derive(Debug)]
pub enum StartError {
    Bind {
        address: SocketAddr,
        error: io::Error,
    },
    Store(StoreError),
    /// A runtime, a metric or a TLS client that could not be made.
    Internal(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Internal(error) => write!(f, "cannot start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn internal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StartError {
    StartError::Internal(error.into())
}

/// How far starting and stopping have come. Each token is cancelled once, in this order.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    /// The store has been looked at, or has been found not to answer: what it has lost is known, deliveries may come.
    pub looked: CancellationToken,
    /// Not ready any more; still serving.
    pub draining: CancellationToken,
    /// No new connections.
    pub closing: CancellationToken,
    /// What was never sent is let go.
    pub stopping: CancellationToken,
    /// The admin side ends too.
    pub over: CancellationToken,
}

/// The running program.
#[derive(Debug)]
pub struct App {
    /// Where deliveries are taken.
    pub listen: SocketAddr,
    /// Where the admin side answers.
    pub admin: SocketAddr,
    pub telemetry: Arc<Telemetry>,
    plan: Arc<ArcSwap<Plan>>,
    keyring: Arc<Keyring>,
    source: Arc<StoreSource>,
    reserve: Arc<Reserve>,
    condition: Arc<Condition>,
    lifecycle: Lifecycle,
    workers: Vec<Worker>,
    admin_thread: JoinHandle<()>,
}

/// What every runtime shares.
#[derive(Clone)]
struct Shared {
    plan: Arc<ArcSwap<Plan>>,
    workers: usize,
    flights: Arc<Flights>,
    telemetry: Arc<Telemetry>,
    buffered: Buffered,
    crowd: Crowd,
    attempts: Bound,
    failures: Option<Arc<FailurePaces>>,
    source: Arc<StoreSource>,
    reserve: Arc<Reserve>,
    condition: Arc<Condition>,
    keyring: Arc<Keyring>,
    lifecycle: Lifecycle,
}

impl App {
    /// Opens the store, binds the ports and starts serving. A store that cannot be reached does not stop it.
    pub fn start(config: Config) -> Result<Self, StartError> {
        // Whoever speaks TLS without naming a provider gets this one. A second start finds it in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Arc::new(config);
        let mut telemetry = Telemetry::new().map_err(internal)?;
        let exporter = config.trace.as_ref().map(|trace| exporter(trace, &mut telemetry)).transpose()?;
        telemetry.certificate(config.tls.as_ref());
        let telemetry = Arc::new(telemetry);
        let shared = Shared {
            plan: Arc::new(ArcSwap::from_pointee(Plan::new(Arc::clone(&config), &telemetry))),
            workers: config.workers,
            flights: Arc::new(Flights::new(config.limits.waiters_per_event)),
            buffered: Buffered::new(&config.limits),
            crowd: Crowd::new(&config.limits),
            attempts: Bound::new(config.limits.attempts),
            failures: config.limits.attempts_per_event.map(|rate| Arc::new(FailurePaces::new(rate))),
            source: Arc::new(StoreSource::open(&config.store)?),
            reserve: Arc::new(Reserve::new(config.limits.recent, config.limits.local_claims)),
            condition: Arc::default(),
            keyring: Arc::new(Keyring::new().map_err(internal)?),
            lifecycle: Lifecycle::default(),
            telemetry,
        };
        let sockets = bind(config.listen, config.workers)?;
        let admin_socket = bind(config.admin, 1)?.remove(0);
        let (listen, admin) = (local(&sockets[0])?, local(&admin_socket)?);
        let (lifecycle, source, reserve) = (shared.lifecycle.clone(), Arc::clone(&shared.source), Arc::clone(&shared.reserve));
        let (plan, telemetry, keyring) = (Arc::clone(&shared.plan), Arc::clone(&shared.telemetry), Arc::clone(&shared.keyring));
        let condition = Arc::clone(&shared.condition);
        let sockets = sockets.into_iter().zip(Share::among(config.workers)).enumerate();
        let workers = sockets.map(|(index, (socket, share))| Worker::start(index, socket, share, shared.clone()));
        let workers = workers.collect::<Result<Vec<_>, _>>()?;
        let place = Place { listen, admin, started: Instant::now() };
        let admin_thread = admin_side(admin_socket, place, shared, exporter)?;
        Ok(Self { listen, admin, telemetry, plan, keyring, source, reserve, condition, lifecycle, workers, admin_thread })
    }

    /// Goes on by another configuration: whole, or not at all. Deliveries under way end as they began. Tells what has changed.
    pub async fn reload(&self, config: Config) -> Result<Vec<String>, Vec<Problem>> {
        let before = self.plan.load_full();
        let problems = before.config.kept_from_by_a_start(&config);
        if !problems.is_empty() {
            return Err(problems);
        }
        self.refuse_to_strand(&before, &config).await?;
        let changes = before.config.changes(&config);
        let plan = before.followed_by(config, &self.telemetry);
        self.look_ahead(&before, &plan).await;
        for worker in &self.workers {
            let (taken_up, when_taken_up) = oneshot::channel();
            // A worker that could not start, or has ended, takes no deliveries.
            if worker.successors.send((plan.clone(), taken_up)).is_ok() {
                let _ = when_taken_up.await;
            }
        }
        self.keyring.keep(|provider| before.config.has_same(provider, &plan.config));
        for provider in &before.config.providers {
            self.telemetry.metrics.retire(provider, plan.routes.named(&provider.name).map(|route| &*route.provider));
        }
        self.telemetry.certificate(plan.config.tls.as_ref());
        self.plan.store(Arc::new(plan));
        Ok(changes)
    }

    /// A provider whose queue holds events that were acknowledged cannot go: nobody would deliver them.
    async fn refuse_to_strand(&self, before: &Plan, next: &Config) -> Result<(), Vec<Problem>> {
        let is_gone = |route: &&Arc<Route>| next.providers.iter().all(|provider| provider.name != route.provider.name);
        let gone: Vec<_> = before.routes.all().filter(is_gone).filter(|route| route.has_letters()).collect();
        let mut problems = Vec::new();
        for route in gone {
            let held = match self.source.connect() {
                Ok(store) => store.tally(&route.lane).await.map(|tally| tally.letters + tally.dead),
                Err(error) => Err(error),
            };
            let what = match held {
                Ok(0) => continue,
                Ok(count) => format!("cannot go: its queue holds {count} events that were acknowledged"),
                Err(error) => format!("cannot go: whether its queue is empty is not known: {error}"),
            };
            let help = "let them be delivered, or drop them with `hookonce queue`, and take it out then".to_owned();
            problems.push(Problem { key: format!("providers.{}", route.provider.name), origin: None, what, help });
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Asks the store what deliveries by the next plan need to know from the first one on; the watch would find it out a moment
    /// later.
    async fn look_ahead(&self, before: &Plan, next: &Plan) {
        let is_new = |route: &&Arc<Route>| before.routes.named(&route.provider.name).is_none();
        let new: Vec<_> = next.routes.all().filter(is_new).filter(|route| !route.has_letters()).collect();
        let asks_keeping = next.config.has_queue() && self.condition.keeping().is_none();
        if new.is_empty() && !asks_keeping {
            return;
        }
        let Ok(store) = self.source.connect() else { return };
        if asks_keeping && let Ok(keeping) = store.keeping().await {
            self.condition.set_keeping(keeping);
        }
        for route in new {
            // Who cannot be asked may know of a queue.
            if store.has_trace(&route.lane).await.unwrap_or(true) {
                route.note_queued();
            }
        }
    }

    /// The configuration that is run by now.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.plan.load().config)
    }

    /// Stops in order: not ready, go on for `drain.delay`, stop accepting, finish what is under way, flush settlements,
    /// and after `drain.timeout` let go of what was never sent. Tells whether everything was finished.
    pub async fn stop(self) -> bool {
        let drain = self.config().drain.clone();
        let Self { source, reserve, lifecycle, workers, admin_thread, .. } = self;
        lifecycle.draining.cancel();
        sleep(drain.delay).await;
        lifecycle.closing.cancel();
        let joining = tokio::task::spawn_blocking(move || workers.into_iter().for_each(|worker| drop(worker.thread.join())));
        let mut joining = std::pin::pin!(joining);
        let everything = async {
            let _ = (&mut joining).await;
            // What was done without the store is told to it as long as there is time.
            reserve.settled().await;
        };
        let is_finished = timeout(drain.timeout, everything).await.is_ok();
        if !is_finished {
            lifecycle.stopping.cancel();
            if !joining.is_finished() {
                let _ = timeout(LAST_WORDS * 2, joining).await;
            }
            if let left @ 1.. = reserve.unsettled() {
                tracing::warn!(left, "stopped before the store was told of events: further copies of them will be forwarded");
            }
        }
        lifecycle.over.cancel();
        let _ = tokio::task::spawn_blocking(move || admin_thread.join()).await;
        if let Err(error) = source.close().await {
            tracing::error!(%error, "the store could not be closed in good order");
        }
        is_finished
    }
}

fn bind(address: SocketAddr, count: usize) -> Result<Vec<StdListener>, StartError> {
    listener::bind(address, count).map_err(|error| StartError::Bind { address, error })
}

fn local(socket: &StdListener) -> Result<SocketAddr, StartError> {
    socket.local_addr().map_err(internal)
}

/// Runs `main` on a single-threaded runtime of its own.
fn on_own_runtime<F>(name: String, main: impl FnOnce() -> F + Send + 'static) -> Result<JoinHandle<()>, StartError>
where
    F: Future<Output = ()>,
{
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(internal)?;
    let run = move || {
        runtime.block_on(async { main().await });
        // A MAC on a blocking thread may still run; nobody waits for it.
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name(name).spawn(run).map_err(internal)
}

/// What gives spans away, from now on.
fn exporter(trace: &TraceConfig, telemetry: &mut Telemetry) -> Result<Exporter, StartError> {
    let connector = upstream::connector(upstream::public_roots()).map_err(internal)?;
    let spans = telemetry.trace(trace.sample);
    Ok(Exporter::new(trace, connector, spans, telemetry.metrics.spans.clone()))
}

/// Gives spans away, where that is configured.
async fn export(exporter: Option<&mut Exporter>) -> ! {
    if let Some(exporter) = exporter {
        exporter.run().await;
    }
    std::future::pending().await
}

/// Probes, metrics, the API, the live page, and the watch over the store.
fn admin_side(
    socket: StdListener,
    place: Place,
    shared: Shared,
    mut exporter: Option<Exporter>,
) -> Result<JoinHandle<()>, StartError> {
    on_own_runtime("hookonce-admin".to_owned(), move || async move {
        let store = match shared.source.connect() {
            Ok(store) => store,
            Err(error) => {
                shared.lifecycle.looked.cancel();
                return tracing::error!(%error, "the admin side could not start");
            }
        };
        let over = shared.lifecycle.over.clone();
        let admin = Arc::new(Admin {
            plan: shared.plan,
            telemetry: shared.telemetry,
            lifecycle: shared.lifecycle,
            reserve: shared.reserve,
            condition: shared.condition,
            store,
            feed: Feed::new(place.started),
            place,
        });
        tokio::select! {
            () = admin::serve(socket, Arc::clone(&admin)) => {}
            never = admin::monitor::watch(&admin) => never,
            never = admin::monitor::make_amends(&admin) => never,
            never = admin::monitor::count_letters(&admin) => never,
            never = export(exporter.as_mut()) => never,
            never = admin::stream::sample(&admin) => never,
            () = over.cancelled() => {}
        }
        if let Some(exporter) = &mut exporter {
            exporter.finish().await;
        }
    })
}
