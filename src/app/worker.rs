//! One core's share of deliveries: a listener, a pipeline, and the letters of some providers.

use std::collections::HashMap;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle as Task;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{LAST_WORDS, Lifecycle, Shared, StartError, internal, on_own_runtime};
use crate::pipeline::Pipeline;
use crate::pipeline::listener::{self, spread::Share};
use crate::pipeline::plan::{Door, Plan};
use crate::pipeline::upstream::Upstreams;
use crate::queue;

/// How often memory is given back, and what is asked for to have it done: more than fits in a page that the allocator has open.
const TIDY: Duration = Duration::from_secs(1);
const TIDY_BYTES: usize = 1 << 20;

/// A plan to go by from now on. Whoever sent it is told when deliveries do.
pub(super) type Successor = (Plan, oneshot::Sender<()>);

/// A runtime that takes deliveries.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) thread: JoinHandle<()>,
    pub(super) successors: mpsc::UnboundedSender<Successor>,
}

impl Worker {
    pub(super) fn start(index: usize, socket: StdListener, share: Share, shared: Shared) -> Result<Self, StartError> {
        let upstreams = Arc::new(Upstreams::new().map_err(internal)?);
        let (successors, next) = mpsc::unbounded_channel();
        let thread = on_own_runtime(format!("hookonce-{index}"), move || async move {
            match prepare(socket, &shared, upstreams) {
                Ok((listener, pipeline)) => serve(index, listener, share, pipeline, shared, next).await,
                Err(error) => tracing::error!(%error, "a worker could not start"),
            }
        })?;
        Ok(Self { thread, successors })
    }
}

/// What must be made on the runtime that will use it.
fn prepare(socket: StdListener, shared: &Shared, upstreams: Arc<Upstreams>) -> Result<(TcpListener, Pipeline), StartError> {
    let listener = TcpListener::from_std(socket).map_err(internal)?;
    let pipeline = Pipeline {
        plan: (*shared.plan.load_full()).clone(),
        flights: Arc::clone(&shared.flights),
        telemetry: Arc::clone(&shared.telemetry),
        buffered: shared.buffered.clone(),
        store: shared.source.connect()?,
        reserve: Arc::clone(&shared.reserve),
        condition: Arc::clone(&shared.condition),
        keyring: Arc::clone(&shared.keyring),
        upstreams,
        attempts: shared.attempts.clone(),
        failures: shared.failures.clone(),
        tasks: TaskTracker::new(),
        // A token of this runtime's own: its waiters meet on no other core's lock.
        stop: shared.lifecycle.stopping.child_token(),
    };
    Ok((listener, pipeline))
}

async fn serve(
    index: usize,
    listener: TcpListener,
    share: Share,
    pipeline: Pipeline,
    shared: Shared,
    successors: mpsc::UnboundedReceiver<Successor>,
) {
    let Lifecycle { looked, draining, closing, stopping, .. } = shared.lifecycle;
    let (tasks, upstreams) = (pipeline.tasks.clone(), Arc::clone(&pipeline.upstreams));
    let door = Arc::new(Door::new(pipeline));
    let mut office =
        Office { index, workers: shared.workers, door: Arc::clone(&door), closing: closing.clone(), open: HashMap::new() };
    office.open_all();
    let everything = async {
        // One turn of the watch, which is short also where the store does not answer. Connections wait in their queue.
        looked.cancelled().await;
        let serving = listener::serve(listener, share, door, shared.crowd, draining, closing.clone());
        tokio::join!(serving, office.run(successors));
        tasks.close();
        tasks.wait().await;
    };
    let last_words = async {
        stopping.cancelled().await;
        sleep(LAST_WORDS).await;
    };
    tokio::select! {
        () = everything => {}
        never = upstreams.reap() => never,
        never = give_memory_back() => never,
        () = last_words => {
            let left = tasks.len();
            tracing::warn!(left, "stopped with calls under way; their claims are left to their leases");
        }
    }
}

/// The allocator gives freed memory back to the system, a thread's own, only while that thread allocates: a program that has
/// become idle after a rush would keep all of it. So each runtime allocates a little now and then, which is never touched.
async fn give_memory_back() -> ! {
    loop {
        sleep(TIDY).await;
        drop(std::hint::black_box(Vec::<u8>::with_capacity(TIDY_BYTES)));
    }
}

/// Where the letters of some providers are given out. Each provider has one runtime that does so, and keeps it.
struct Office {
    index: usize,
    workers: usize,
    door: Arc<Door>,
    closing: CancellationToken,
    open: HashMap<String, Task<()>>,
}

impl Office {
    /// Takes up each plan that comes, until the program closes and those who give letters out have ended.
    async fn run(&mut self, mut successors: mpsc::UnboundedReceiver<Successor>) {
        loop {
            let (plan, taken_up) = tokio::select! {
                Some(successor) = successors.recv() => successor,
                () = self.closing.cancelled() => break,
            };
            self.door.take_up(&plan);
            self.open_all();
            // Whoever asked may have gone.
            let _ = taken_up.send(());
        }
        for (_, task) in self.open.drain() {
            let _ = task.await;
        }
    }

    /// Sees to it that somebody gives out the letters of every provider that is this runtime's.
    fn open_all(&mut self) {
        for route in self.door.pipeline().plan.routes.all() {
            let name = &route.provider.name;
            let is_own = crc32fast::hash(name.as_bytes()) as usize % self.workers == self.index;
            if is_own && self.open.get(name).is_none_or(Task::is_finished) {
                let delivering = queue::deliver(Arc::clone(&self.door), name.clone(), self.closing.clone());
                self.open.insert(name.clone(), tokio::spawn(delivering));
            }
        }
    }
}
