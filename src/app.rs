//! The program put together: one single-threaded runtime a core for deliveries, one for the admin side.
//!
//! A runtime has its own listener, upstream connections and store connection. Shared between them are the events in
//! flight, the metrics and the configuration, behind short locks or atomics that are never held across an await.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::stream::Feed;
use crate::admin::{self, Admin, Place};
use crate::config::Config;
use crate::pipeline::Pipeline;
use crate::pipeline::bound::Bound;
use crate::pipeline::flight::Flights;
use crate::pipeline::intake::Buffered;
use crate::pipeline::keyring::Keyring;
use crate::pipeline::listener;
use crate::pipeline::route::Routes;
use crate::pipeline::upstream::Upstreams;
use crate::queue;
use crate::store::{Condition, Reserve, StoreError, StoreSource};
use crate::telemetry::Telemetry;

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
    config: Arc<Config>,
    source: Arc<StoreSource>,
    reserve: Arc<Reserve>,
    lifecycle: Lifecycle,
    workers: Vec<JoinHandle<()>>,
    admin_thread: JoinHandle<()>,
}

/// What every runtime shares.
#[derive(Clone)]
struct Shared {
    config: Arc<Config>,
    routes: Arc<Routes>,
    flights: Arc<Flights>,
    telemetry: Arc<Telemetry>,
    buffered: Buffered,
    connections: Bound,
    attempts: Bound,
    source: Arc<StoreSource>,
    reserve: Arc<Reserve>,
    condition: Arc<Condition>,
    keyring: Arc<Keyring>,
    lifecycle: Lifecycle,
    started: Instant,
}

impl App {
    /// Opens the store, binds the ports and starts serving. A store that cannot be reached does not stop it.
    pub fn start(config: Config) -> Result<Self, StartError> {
        // Whoever speaks TLS without naming a provider gets this one. A second start finds it in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Arc::new(config);
        let telemetry = Arc::new(Telemetry::new().map_err(internal)?);
        let shared = Shared {
            routes: Arc::new(Routes::new(&config, &telemetry)),
            flights: Arc::new(Flights::new(config.limits.waiters_per_event)),
            buffered: Buffered::new(config.limits.buffered.0),
            connections: Bound::new(config.limits.connections),
            attempts: Bound::new(config.limits.attempts),
            source: Arc::new(StoreSource::open(&config.store)?),
            reserve: Arc::new(Reserve::new(config.limits.recent, config.limits.local_claims)),
            condition: Arc::default(),
            keyring: Arc::new(Keyring::new().map_err(internal)?),
            lifecycle: Lifecycle::default(),
            started: Instant::now(),
            telemetry,
            config: Arc::clone(&config),
        };
        let sockets = bind(config.listen, config.workers)?;
        let admin_socket = bind(config.admin, 1)?.remove(0);
        let (listen, admin) = (local(&sockets[0])?, local(&admin_socket)?);
        let (lifecycle, source, reserve) = (shared.lifecycle.clone(), Arc::clone(&shared.source), Arc::clone(&shared.reserve));
        let workers = sockets.into_iter().enumerate().map(|(index, socket)| worker(index, socket, shared.clone()));
        let workers = workers.collect::<Result<Vec<_>, _>>()?;
        let place = Place { listen, admin, started: shared.started };
        let admin_thread = admin_side(admin_socket, place, shared)?;
        Ok(Self { listen, admin, config, source, reserve, lifecycle, workers, admin_thread })
    }

    /// Stops in order: not ready, go on for `drain.delay`, stop accepting, finish what is under way, flush settlements,
    /// and after `drain.timeout` let go of what was never sent. Tells whether everything was finished.
    pub async fn stop(self) -> bool {
        let Self { config, source, reserve, lifecycle, workers, admin_thread, .. } = self;
        lifecycle.draining.cancel();
        sleep(config.drain.delay).await;
        lifecycle.closing.cancel();
        let joining = tokio::task::spawn_blocking(move || workers.into_iter().for_each(|worker| drop(worker.join())));
        let mut joining = std::pin::pin!(joining);
        let everything = async {
            let _ = (&mut joining).await;
            // What was done without the store is told to it as long as there is time.
            reserve.settled().await;
        };
        let is_finished = timeout(config.drain.timeout, everything).await.is_ok();
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

/// One core's share of deliveries.
fn worker(index: usize, socket: StdListener, shared: Shared) -> Result<JoinHandle<()>, StartError> {
    let upstreams = Arc::new(Upstreams::new().map_err(internal)?);
    on_own_runtime(format!("hookonce-{index}"), move || async move {
        match prepare(socket, &shared, upstreams) {
            Ok((listener, pipeline)) => serve(index, listener, pipeline, shared).await,
            Err(error) => tracing::error!(%error, "a worker could not start"),
        }
    })
}

/// What must be made on the runtime that will use it.
fn prepare(socket: StdListener, shared: &Shared, upstreams: Arc<Upstreams>) -> Result<(TcpListener, Arc<Pipeline>), StartError> {
    let listener = TcpListener::from_std(socket).map_err(internal)?;
    let pipeline = Pipeline {
        config: Arc::clone(&shared.config),
        routes: Arc::clone(&shared.routes),
        flights: Arc::clone(&shared.flights),
        telemetry: Arc::clone(&shared.telemetry),
        buffered: shared.buffered.clone(),
        store: shared.source.connect()?,
        reserve: Arc::clone(&shared.reserve),
        condition: Arc::clone(&shared.condition),
        keyring: Arc::clone(&shared.keyring),
        upstreams,
        attempts: shared.attempts.clone(),
        tasks: TaskTracker::new(),
        started: shared.started,
        // A token of this runtime's own: its waiters meet on no other core's lock.
        stop: shared.lifecycle.stopping.child_token(),
    };
    Ok((listener, Arc::new(pipeline)))
}

async fn serve(index: usize, listener: TcpListener, pipeline: Arc<Pipeline>, shared: Shared) {
    let Lifecycle { looked, closing, stopping, .. } = shared.lifecycle;
    // Each provider's letters are given out by one runtime, which one it is does not matter.
    let own = shared
        .routes
        .all()
        .enumerate()
        .filter(|(nth, _)| nth % shared.config.workers == index)
        .map(|(_, route)| Arc::clone(route));
    let dispatching: Vec<_> = own.map(|route| queue::deliver(Arc::clone(&pipeline), route, closing.clone())).collect();
    let everything = async {
        // One turn of the watch, which is short also where the store does not answer. Connections wait in their queue.
        looked.cancelled().await;
        let serving = listener::serve(listener, Arc::clone(&pipeline), shared.connections, closing.clone());
        tokio::join!(serving, join_all(dispatching));
        pipeline.tasks.close();
        pipeline.tasks.wait().await;
    };
    let last_words = async {
        stopping.cancelled().await;
        sleep(LAST_WORDS).await;
    };
    tokio::select! {
        () = everything => {}
        never = pipeline.upstreams.reap() => never,
        () = last_words => {
            let left = pipeline.tasks.len();
            tracing::warn!(left, "stopped with calls under way; their claims are left to their leases");
        }
    }
}

/// Probes, metrics, the API, the live page, and the watch over the store.
fn admin_side(socket: StdListener, place: Place, shared: Shared) -> Result<JoinHandle<()>, StartError> {
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
            config: shared.config,
            routes: shared.routes,
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
            never = admin::stream::sample(&admin) => never,
            () = over.cancelled() => {}
        }
    })
}
