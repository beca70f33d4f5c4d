//! A store that stands still, in every way there is: a delivery waits no longer than the store's budget, not at all once
//! that is known, and nothing of it is left behind.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::footprint::Footprint;
use crate::provider::until_accepted;
use crate::support::consumer::{Consumer, Seen};
use crate::support::eventually;
use crate::support::fault_proxy::{Fault, FaultProxy, Way};
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::{Answer, Delivery, github, stripe};

const BUDGET: Duration = Duration::from_millis(500);
/// For a busy machine.
const SLACK: Duration = Duration::from_secs(3);
/// Of each provider.
const EVENTS: usize = 15;

struct Scene {
    instance: Instance,
    consumer: Consumer,
    before: Footprint,
}

/// One instance that has used its store before, reached at this address.
async fn scene(store: SocketAddr) -> Scene {
    let consumer = Consumer::answering(200).await;
    let setup = in_front_of(&consumer).store(&format!("redis://{store}")).store_keys("timeout = \"500ms\"").top("workers = 1");
    let instance = Instance::start(&setup).await;
    assert_eq!(instance.send(&stripe("probe")).await.outcome(), "forwarded");
    instance.in_state("stripe", "probe", "done").await;
    let before = Footprint::of(instance.program.process());
    Scene { instance, consumer, before }
}

fn address(redis: &RedisProcess) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], redis.port()))
}

async fn timed(delivery: Delivery, to: SocketAddr) -> (Answer, Duration) {
    let began = Instant::now();
    (delivery.send(to).await, began.elapsed())
}

impl Scene {
    /// Delivers events while the store stands still: those of one provider are put off, those of the other are taken all the
    /// same. Gives the time that each took.
    async fn deliver(&self, wave: &str) -> Vec<Duration> {
        let (to, mut sending) = (self.instance.listen, JoinSet::new());
        for index in 0..EVENTS {
            sending.spawn(timed(stripe(&format!("{wave}{index}")), to));
            sending.spawn(timed(github(&format!("{wave}{index}-gh")), to));
        }
        let answers = sending.join_all().await;
        let count =
            |status| answers.iter().filter(|(answer, _)| (answer.status, answer.outcome()) == (status, "store_down")).count();
        assert_eq!((count(503), count(200)), (EVENTS, EVENTS), "{answers:?}");
        answers.into_iter().map(|(_, took)| took).collect()
    }

    /// Claims that failed at once, because the breaker was open.
    async fn not_asked(&self) -> f64 {
        let labels = [("op", "claim"), ("kind", "breaker_open")];
        self.instance.metrics().await.value("hookonce_store_errors_total", &labels)
    }

    async fn opens(&self) {
        let is_open = async || (self.instance.metrics().await.value("hookonce_store_breaker_open", &[]) == 1.0).then_some(());
        eventually("an open breaker", is_open).await;
    }

    /// The store is as good as before: what was done without it is told, what was put off goes through once, and neither
    /// memory nor connections nor threads have stayed behind.
    async fn mends(self) {
        let Self { instance, consumer, before } = self;
        let probe = async || (instance.send(&stripe("probe")).await.outcome() == "duplicate").then_some(());
        eventually("the store works again", probe).await;
        for event in ["first", "second"].iter().flat_map(|wave| (0..EVENTS).map(move |index| format!("{wave}{index}"))) {
            let accepted = until_accepted(&stripe(&event), instance.listen).await;
            assert_eq!((accepted.answer.outcome(), consumer.count(&event)), ("forwarded", 1), "{event}");
            instance.in_state("github", &format!("{event}-gh"), "done").await;
            assert_eq!(instance.send(&github(&format!("{event}-gh"))).await.outcome(), "duplicate");
        }
        let seen = consumer.seen();
        assert_eq!(seen.len(), 1 + 4 * EVENTS);
        let of = |path: &str| seen.iter().filter(|seen| seen.target == path).map(Seen::mark).collect::<Vec<_>>();
        assert!(of("/stripe").iter().all(Option::is_none), "{:?}", of("/stripe"));
        assert!(of("/github").iter().all(|mark| *mark == Some("store-down")), "{:?}", of("/github"));
        before.is_back(instance.program.process()).await;
    }
}

/// Nothing of the store answers until `thaw`.
async fn stands_still(scene: Scene, freeze: impl FnOnce(), thaw: impl FnOnce()) {
    freeze();
    let took = scene.deliver("first").await;
    assert!(took.iter().all(|took| *took < BUDGET + SLACK), "{took:?}");
    scene.opens().await;
    let so_far = scene.not_asked().await;
    let took = scene.deliver("second").await;
    assert_eq!(scene.not_asked().await - so_far, 2.0 * EVENTS as f64);
    // The quickest shows that none had anything to wait for; the others may have waited for the machine.
    assert!(took.iter().min().is_some_and(|took| *took < BUDGET / 2), "{took:?}");
    thaw();
    scene.mends().await;
}

#[tokio::test]
async fn a_server_that_is_stopped() {
    let redis = RedisProcess::start();
    stands_still(scene(address(&redis)).await, || redis.signal("STOP"), || redis.signal("CONT")).await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_command() {
    let redis = RedisProcess::start_with(&["--enable-debug-command", "local"]);
    let mut keys = Keys::of(&redis);
    let asleep = || drop(std::thread::spawn(move || keys.order(&["DEBUG", "SLEEP", "5"])));
    stands_still(scene(address(&redis)).await, asleep, || {}).await;
}

#[tokio::test]
async fn a_server_whose_clients_are_paused() {
    let redis = RedisProcess::start();
    let mut keys = Keys::of(&redis);
    // It ends by itself: whoever would end it is paused too.
    let pause = || keys.order(&["CLIENT", "PAUSE", "5000", "ALL"]);
    stands_still(scene(address(&redis)).await, pause, || {}).await;
}

/// It answers whoever only asks, so that deliveries are let through on trial, one at a time.
#[tokio::test]
async fn a_server_whose_writers_are_paused() {
    let redis = RedisProcess::start();
    let (mut keys, scene) = (Keys::of(&redis), scene(address(&redis)).await);
    keys.order(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let took = [scene.deliver("first").await, scene.deliver("second").await].concat();
    assert!(took.iter().all(|took| *took < BUDGET + SLACK), "{took:?}");
    for _ in 0..10 {
        assert_eq!(scene.instance.send(&stripe("first0")).await.outcome(), "store_down");
    }
    let at_once = scene.not_asked().await;
    assert!(at_once >= 5.0, "{at_once}");
    keys.order(&["CLIENT", "UNPAUSE"]);
    scene.mends().await;
}

async fn behind_a_network_that(fault: Fault) {
    let redis = RedisProcess::start();
    let network = FaultProxy::to(address(&redis)).await;
    stands_still(scene(network.address()).await, || network.set(fault), || network.heal()).await;
}

#[tokio::test]
async fn a_network_in_which_nothing_moves() {
    behind_a_network_that(Fault::Silence).await;
}

#[tokio::test]
async fn a_network_that_loses_what_is_asked() {
    behind_a_network_that(Fault::Lose(Way::There)).await;
}

#[tokio::test]
async fn a_network_that_loses_what_is_answered() {
    behind_a_network_that(Fault::Lose(Way::Back)).await;
}

#[tokio::test]
async fn a_network_that_resets_every_connection() {
    behind_a_network_that(Fault::Reset).await;
}
