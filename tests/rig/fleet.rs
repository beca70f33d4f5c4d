//! The instances of a round, each with a network of its own to the store.

use std::sync::Arc;

use super::plan::Plan;
use super::provider;
use super::sender::Doors;
use super::store::{NAMESPACE, Store};
use super::support::fault_proxy::FaultProxy;
use super::support::instance::Instance;
use super::support::metrics::Metrics;

pub struct Fleet {
    pub doors: Arc<Doors>,
    pub members: Vec<Member>,
}

pub struct Member {
    place: usize,
    config: String,
    doors: Arc<Doors>,
    pub instance: Instance,
    /// What it held when it had just started.
    at_start: Held,
    /// Whether it is still the one that was started first.
    pub is_first: bool,
    /// What its predecessors have written to their logs.
    logs: String,
}

impl Fleet {
    pub async fn start(plan: &Plan, store: &Store, upstream: &FaultProxy) -> Self {
        let (doors, mut members) = (Arc::new(Doors::default()), Vec::new());
        for place in 0..plan.instances {
            let config = config(plan, &store.url_for(place), upstream);
            members.push(Member::start(place, config, Arc::clone(&doors)).await);
        }
        Self { doors, members }
    }

    /// The sum of all series with this name, over all instances.
    pub async fn sum(&self, name: &str) -> f64 {
        let mut sum = 0.0;
        for member in &self.members {
            sum += total(&Metrics::of(member.instance.admin).await, name);
        }
        sum
    }

    /// What the logs say about an event.
    pub fn about(&self, id: &str) -> Vec<String> {
        let logs = self.members.iter().map(|member| (member.place, member.logs.clone() + &member.instance.log()));
        let about = |(place, log): (usize, String)| {
            let lines = log.lines().filter(|line| line.contains(&format!("{id}\""))).map(move |line| format!("{place}: {line}"));
            lines.collect::<Vec<_>>()
        };
        logs.flat_map(about).collect()
    }
}

impl Member {
    async fn start(place: usize, config: String, doors: Arc<Doors>) -> Self {
        let instance = Instance::configured(&config).await;
        doors.open(place, instance.listen);
        let at_start = Held::by(&instance);
        Self { place, config, doors, instance, at_start, is_first: true, logs: String::new() }
    }

    /// Dies without a word. The load balancer does not know yet.
    pub fn kill(&mut self) {
        self.instance.kill();
    }

    /// Ends in order: no more deliveries come, and those under way are finished.
    pub async fn stop(&mut self) {
        self.doors.close(self.place);
        self.instance.program.signal("TERM");
        self.instance.ended().await;
    }

    /// Another takes its place.
    pub async fn replace(&mut self) {
        let fresh = Self::start(self.place, self.config.clone(), Arc::clone(&self.doors)).await;
        let logs = std::mem::take(&mut self.logs) + &self.instance.log();
        *self = Self { is_first: false, logs, ..fresh };
    }

    /// What it holds more than when it started, beyond what a quiet instance keeps.
    pub async fn leak(&self) -> Option<String> {
        let claims = total(&Metrics::of(self.instance.admin).await, "hookonce_claims_in_flight");
        let now = Held::by(&self.instance);
        let before = self.at_start;
        let is_back = now.files <= before.files + FILES_SPARE
            && now.threads <= before.threads + THREADS_SPARE
            && now.memory_kib <= before.memory_kib + MEMORY_SPARE_KIB
            && claims == 0.0;
        (!is_back).then(|| format!("instance {}: {before:?} at the start, {now:?} in the end, {claims} claims", self.place))
    }
}

/// Connections to the store, made when they are needed.
const FILES_SPARE: usize = 8;
/// Blocking threads go after ten idle seconds; a round does not wait for them.
const THREADS_SPARE: usize = 8;
/// What an allocator keeps after a few thousand deliveries.
const MEMORY_SPARE_KIB: usize = 64 * 1024;

/// What the kernel says that an instance holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    files: usize,
    threads: usize,
    memory_kib: usize,
}

impl Held {
    fn by(instance: &Instance) -> Self {
        let process = instance.program.process();
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
        Self { files, threads: field("Threads:"), memory_kib: field("VmRSS:") }
    }
}

fn total(metrics: &Metrics, name: &str) -> f64 {
    let of = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        (series.split('{').next() == Some(name)).then(|| value.parse::<f64>().unwrap())
    };
    metrics.text().lines().filter_map(of).sum()
}

fn config(plan: &Plan, store: &str, upstream: &FaultProxy) -> String {
    let (workers, upstream, providers) = (plan.workers, upstream.address(), provider::sections(plan.times));
    let timeout = plan.store_timeout.as_millis();
    format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nupstream = \"http://{upstream}\"\nworkers = {workers}\n\
         [store]\nurl = \"{store}\"\nnamespace = \"{NAMESPACE}\"\ntimeout = \"{timeout}ms\"\n\
         [drain]\ndelay = \"0s\"\ntimeout = \"3s\"\n{providers}"
    )
}
