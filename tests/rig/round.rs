//! One seed from its first delivery to its verdict.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::checker::{Broken, Tally, Violation, check};
use super::consumer::Consumer;
use super::fleet::Fleet;
use super::history::{At, Clock, Event, History, Trouble};
use super::machine::Machine;
use super::nemesis::Nemesis;
use super::plan::{Kind, Plan};
use super::provider::Provider;
use super::sender::{Senders, Task};
use super::store::Store;
use super::support::fault_proxy::FaultProxy;
use super::support::keys::Keys;
use super::support::sender::now;

/// How long after the last fault every event must have been accepted. A second or two, but for a machine that stands still.
const RECOVERY: Duration = Duration::from_secs(120);
/// Queues are counted once a second.
const COUNTED: Duration = Duration::from_secs(2);
/// How long after the last delivery an instance may hold what it held for them.
const CALM_DOWN: Duration = Duration::from_secs(15);
/// Violations whose events are shown.
const SHOWN_MAX: usize = 5;

/// What a round came to.
pub struct Verdict {
    pub tally: Tally,
    pub violations: Vec<Violation>,
    /// All that is known about the events of the first violations, for whoever has to find out.
    pub evidence: Vec<String>,
}

/// Everybody who takes part.
struct Round {
    plan: Plan,
    clock: Clock,
    consumer: Consumer,
    upstream: FaultProxy,
    store: Store,
    fleet: Fleet,
}

pub async fn run(plan: Plan) -> Verdict {
    let clock = Clock::start();
    let consumer = Consumer::start(&plan, clock).await;
    let upstream = FaultProxy::to(consumer.address).await;
    let store = match plan.kind {
        Kind::File => Store::file(),
        Kind::Counted | Kind::Calm | Kind::Redis => Store::redis(plan.instances, plan.queues).await,
    };
    let fleet = Fleet::start(&plan, clock, &store, &upstream).await;
    let mut round = Round { plan, clock, consumer, upstream, store, fleet };
    let history = round.play().await;
    round.judge(&history).await
}

impl Round {
    /// Lets events be delivered while things go wrong, and goes on until all of them are accepted.
    async fn play(&mut self) -> History {
        if let (Store::Redis(redis), Kind::Counted) = (&self.store, self.plan.kind) {
            self.fleet.settled_in().await;
            Keys::of(&redis.server).reset_commands();
        }
        let machine = Machine::watch(self.clock);
        let (begins, wall) = (self.clock.now(), now());
        let (over, give_up) = watch::channel(None);
        let (events, tasks) = self.events(begins, wall);
        let (clock, doors, habits) = (self.clock, Arc::clone(&self.fleet.doors), self.plan.habits);
        let senders = Arc::new(Senders { clock, doors, habits, give_up, deliveries: Mutex::default() });
        let delivering: JoinSet<()> = tasks.into_iter().map(|task| Arc::clone(&senders).deliver(task)).collect();

        let troubles = self.vex(begins + self.plan.span).await;
        self.consumer.behave();
        over.send_replace(Some(self.clock.now() + RECOVERY));
        delivering.join_all().await;
        self.fleet.doors.hang_up();
        self.drained().await;

        let deliveries = std::mem::take(&mut *senders.deliveries.lock().unwrap());
        let are_resets_counted = self.fleet.resets().await > 0.0;
        let (forwards, stalls, is_calm) = (self.consumer.ledger(), machine.stalls(), self.plan.kind.is_calm());
        let services = self.fleet.services();
        History { events, deliveries, forwards, troubles, stalls, services, are_resets_counted, is_calm }
    }

    /// Waits until queues are empty, and have been for longer than anybody needs to notice that they are not.
    async fn drained(&self) {
        let until = Instant::now() + RECOVERY;
        let mut empty_since = Instant::now();
        while self.plan.queues && empty_since.elapsed() < COUNTED && Instant::now() < until {
            sleep(Duration::from_millis(100)).await;
            if self.fleet.sum("hookonce_queue_events").await > 0.0 {
                empty_since = Instant::now();
            }
        }
    }

    /// The events, spread over the round's span.
    fn events(&self, begins: At, wall: SystemTime) -> (Vec<Event>, Vec<Task>) {
        let providers: Vec<_> = Provider::all(self.plan.queues).into_iter().map(Arc::new).collect();
        let made = |place: usize| {
            let mut dice = self.plan.dice().aside(2).aside(place as u64);
            let provider = Arc::clone(dice.pick(&providers));
            let after = dice.up_to(self.plan.span);
            let id = format!("evt_{}_{place}", self.plan.seed);
            let (event, body) = provider.event(id.clone(), wall + after, &mut dice);
            (event, Task { place, id, body, provider, begins: begins + after, dice })
        };
        (0..self.plan.events).map(made).unzip()
    }

    /// Lets everything go wrong that the plan has, until then; nothing is wrong any more afterwards.
    async fn vex(&mut self, until: At) -> Vec<Trouble> {
        let nemesis = Nemesis { clock: self.clock, until, troubles: Mutex::default() };
        let (faults, dice) = (self.plan.faults, self.plan.dice().aside(3));
        let (store, fleet, upstream) = (&mut self.store, &mut self.fleet, &self.upstream);
        let vex_store = async {
            if let (Store::Redis(redis), true) = (store, faults.store) {
                nemesis.vex_store(redis, dice.aside(0)).await;
            }
        };
        let vex_instances = async {
            if faults.instances {
                nemesis.vex_instances(fleet, dice.aside(1)).await;
            }
        };
        let vex_upstream = async {
            if faults.upstream {
                nemesis.vex_upstream(upstream, dice.aside(2)).await;
            }
        };
        tokio::join!(vex_store, vex_instances, vex_upstream);
        nemesis.troubles.into_inner().unwrap()
    }

    async fn judge(&self, history: &History) -> Verdict {
        let (tally, mut violations) = check(history);
        let mut broken = |broken, what| violations.push(Violation { broken, event: None, what });
        for leak in self.leaks().await {
            broken(Broken::Leak, leak);
        }
        for garbled in self.consumer.garbled() {
            broken(Broken::Altered, format!("no delivery: {garbled:?}"));
        }
        for panic in self.fleet.panics() {
            broken(Broken::Panic, panic);
        }
        for name in ["hookonce_queue_events", "hookonce_dead_letters"] {
            let left = self.fleet.sum(name).await;
            if left > 0.0 {
                broken(Broken::Unfinished, format!("{name} {left}"));
            }
        }
        let marked = history.forwards.iter().filter(|forward| forward.mark.is_some()).count();
        let counted = self.fleet.sum("hookonce_maybe_duplicate_total").await;
        if self.fleet.members.iter().all(|member| member.earlier.is_empty()) && counted < marked as f64 {
            broken(Broken::Uncounted, format!("{marked} marked forwards, {counted} counted"));
        }
        if let Store::Redis(redis) = &self.store {
            for key in redis.endless() {
                broken(Broken::Endless, key);
            }
            // A claim for every delivery, a completion for every event; where nobody has to try again.
            let (commands, due) = (redis.commands(), (tally.deliveries + tally.events) as u64);
            let is_counted = self.plan.kind == Kind::Counted && tally.untouched == tally.events;
            if is_counted && commands.values().sum::<u64>() != due {
                let what = format!("{commands:?} for {} events in {} deliveries", tally.events, tally.deliveries);
                broken(Broken::Commands, what);
            }
        }
        let evidence = self.evidence(history, &violations);
        Verdict { tally, violations, evidence }
    }

    /// What instances still hold when they have had time to let go of it.
    async fn leaks(&self) -> Vec<String> {
        let until = Instant::now() + CALM_DOWN;
        loop {
            let mut leaks = Vec::new();
            for member in &self.fleet.members {
                leaks.extend(member.leak().await);
            }
            if leaks.is_empty() || Instant::now() > until {
                return leaks;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn evidence(&self, history: &History, violations: &[Violation]) -> Vec<String> {
        let mut lines = Vec::new();
        for place in violations.iter().filter_map(|violation| violation.event).take(SHOWN_MAX) {
            let event = &history.events[place];
            lines.push(format!("{} {}", event.provider, event.id));
            let deliveries = history.deliveries.iter().filter(|delivery| delivery.event == place);
            lines.extend(deliveries.map(|delivery| format!("  {delivery:?}")));
            let forwards = history.forwards.iter().filter(|forward| forward.event == place);
            lines.extend(forwards.map(|forward| format!("  {forward:?}")));
            lines.extend(self.fleet.about(&event.id).into_iter().map(|line| format!("  {line}")));
        }
        if !lines.is_empty() {
            let troubles = history.troubles.iter().chain(&history.stalls);
            lines.extend(troubles.map(|Trouble { what, from, until, .. }| format!("{what}: {from:?} to {until:?}")));
        }
        lines
    }
}
