//! The instances of a round, each with a network of its own to the store.

use std::sync::Arc;

use super::history::{At, Clock, Service};
use super::plan::Plan;
use super::provider;
use super::sender::Doors;
use super::store::{NAMESPACE, Store};
use super::support::eventually;
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
    clock: Clock,
    began: At,
    pub instance: Instance,
    /// What it held when it had just started.
    at_start: Held,
    /// Processes that had its place before.
    pub earlier: Vec<Service>,
    /// What they have written to their logs.
    logs: String,
    /// Losses of the store that they have counted.
    resets: f64,
}

impl Fleet {
    pub async fn start(plan: &Plan, clock: Clock, store: &Store, upstream: &FaultProxy) -> Self {
        let (doors, mut members) = (Arc::new(Doors::default()), Vec::new());
        for place in 0..plan.instances {
            let config = config(plan, &store.url_for(place), upstream);
            members.push(Member::start(place, config, Arc::clone(&doors), clock).await);
        }
        Self { doors, members }
    }

    /// Waits until every instance has made itself known to the store, and vice versa.
    pub async fn settled_in(&self) {
        for Member { instance, .. } in &self.members {
            eventually("a second pulse", async || {
                let pulses = instance.metrics().await.value("hookonce_store_seconds_count", &[("op", "pulse")]);
                (pulses >= 2.0).then_some(())
            })
            .await;
        }
    }

    /// The sum of all series with this name, over all instances.
    pub async fn sum(&self, name: &str) -> f64 {
        let mut sum = 0.0;
        for member in &self.members {
            sum += total(&member.instance.metrics().await, name);
        }
        sum
    }

    /// Losses of the store that anybody has counted.
    pub async fn resets(&self) -> f64 {
        let before: f64 = self.members.iter().map(|member| member.resets).sum();
        before + self.sum(RESETS).await
    }

    /// Every process there was.
    pub fn services(&self) -> Vec<Service> {
        let now = |member: &Member| Service { from: member.began, until: At::MAX };
        self.members.iter().flat_map(|member| member.earlier.iter().copied().chain([now(member)])).collect()
    }

    /// What the logs say about an event.
    pub fn about(&self, id: &str) -> Vec<String> {
        self.lines_with(&format!("{id}\""))
    }

    /// What the logs say of code that failed.
    pub fn panics(&self) -> Vec<String> {
        self.lines_with("panicked")
    }

    /// Lines of all logs, each with the instance's place.
    fn lines_with(&self, text: &str) -> Vec<String> {
        let logs = self.members.iter().map(|member| (member.place, member.logs.clone() + &member.instance.log()));
        let found = |(place, log): (usize, String)| {
            let lines = log.lines().filter(|line| line.contains(text)).map(move |line| format!("{place}: {line}"));
            lines.collect::<Vec<_>>()
        };
        logs.flat_map(found).collect()
    }
}

impl Member {
    async fn start(place: usize, config: String, doors: Arc<Doors>, clock: Clock) -> Self {
        let instance = Instance::configured(&config).await;
        doors.open(place, instance.listen);
        let at_start = Held::by(&instance);
        let began = clock.now();
        Self { place, config, doors, clock, began, instance, at_start, earlier: Vec::new(), logs: String::new(), resets: 0.0 }
    }

    /// Dies without a word. The load balancer does not know yet.
    pub async fn kill(&mut self) {
        self.count_resets().await;
        self.instance.kill();
        self.has_ended();
    }

    /// Ends in order: no more deliveries come, and those under way are finished.
    pub async fn stop(&mut self) {
        self.count_resets().await;
        self.doors.close(self.place);
        self.instance.program.signal("TERM");
        self.instance.ended().await;
        self.has_ended();
    }

    async fn count_resets(&mut self) {
        self.resets += total(&self.instance.metrics().await, RESETS);
    }

    fn has_ended(&mut self) {
        self.earlier.push(Service { from: self.began, until: self.clock.now() });
    }

    /// Another takes its place.
    pub async fn replace(&mut self) {
        let fresh = Self::start(self.place, self.config.clone(), Arc::clone(&self.doors), self.clock).await;
        let logs = std::mem::take(&mut self.logs) + &self.instance.log();
        *self = Self { earlier: std::mem::take(&mut self.earlier), logs, resets: self.resets, ..fresh };
    }

    /// What it holds more than when it started, beyond what a quiet instance keeps.
    pub async fn leak(&self) -> Option<String> {
        let claims = total(&self.instance.metrics().await, "hookonce_claims_in_flight");
        let now = Held::by(&self.instance);
        let before = self.at_start;
        let is_back = now.files <= before.files + FILES_SPARE
            && now.threads <= before.threads + THREADS_SPARE
            && now.memory_kib <= before.memory_kib + MEMORY_SPARE_KIB
            && claims == 0.0;
        (!is_back).then(|| format!("instance {}: {before:?} at the start, {now:?} in the end, {claims} claims", self.place))
    }
}

const RESETS: &str = "hookonce_store_resets_total";
/// Connections to the store, made when they are needed.
const FILES_SPARE: usize = 8;
/// Blocking threads go after ten idle seconds; a round does not wait for them.
const THREADS_SPARE: usize = 8;
/// What an allocator keeps of two thousand connections, which come at once when an instance was frozen.
const MEMORY_SPARE_KIB: usize = 256 * 1024;

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
    let (workers, upstream, providers) = (plan.workers, upstream.address(), provider::sections(plan.times, plan.queues));
    let timeout = plan.store_timeout.as_millis();
    format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nupstream = \"http://{upstream}\"\nworkers = {workers}\n\
         [store]\nurl = \"{store}\"\nnamespace = \"{NAMESPACE}\"\ntimeout = \"{timeout}ms\"\n\
         [drain]\ndelay = \"0s\"\ntimeout = \"3s\"\n{providers}"
    )
}
