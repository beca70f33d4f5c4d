//! A master is lost while events come in, and a replica takes over.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::provider::until_accepted;
use crate::support::cluster::Cluster;
use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::sender::{Delivery, now, stripe_with};
use crate::support::sentinel::Sentinels;

/// From the moment that a new master is known to the first event that goes through.
const RESUMES_IN: Duration = Duration::from_secs(2);
const SENDERS: usize = 8;

/// An event of this moment.
fn event(id: &str) -> Delivery {
    let created = now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    stripe_with(format!("{{\"id\":\"{id}\",\"created\":{created}}}"))
}

/// Senders that deliver one event after the other, each until it is accepted, and some of them once more to another instance.
struct Load {
    sending: JoinSet<Vec<String>>,
    accepted: Arc<AtomicUsize>,
    enough: CancellationToken,
}

impl Load {
    fn on(instances: &[Instance]) -> Self {
        let places: Vec<SocketAddr> = instances.iter().map(|instance| instance.listen).collect();
        let mut load = Self { sending: JoinSet::new(), accepted: Arc::default(), enough: CancellationToken::new() };
        for sender in 0..SENDERS {
            let (places, accepted, enough) = (places.clone(), Arc::clone(&load.accepted), load.enough.clone());
            load.sending.spawn(async move {
                let mut sent = Vec::new();
                for nth in (0..).take_while(|_| !enough.is_cancelled()) {
                    let id = format!("e{sender}-{nth}");
                    let delivery = event(&id);
                    until_accepted(&delivery, places[nth % places.len()]).await;
                    accepted.fetch_add(1, Ordering::Relaxed);
                    if nth % 3 == 0 {
                        until_accepted(&delivery, places[(nth + 1) % places.len()]).await;
                    }
                    sent.push(id);
                }
                sent
            });
        }
        load
    }

    /// Waits until this many more have been accepted.
    async fn goes_on(&self, more: usize) {
        let until = self.accepted.load(Ordering::Relaxed) + more;
        eventually("more events", async || (self.accepted.load(Ordering::Relaxed) >= until).then_some(())).await;
    }

    async fn end(self) -> Vec<String> {
        self.enough.cancel();
        self.sending.join_all().await.concat()
    }
}

/// How long it takes from now until every instance gets an event through.
async fn resumes(instances: &[Instance]) -> Duration {
    let known = Instant::now();
    for (nth, instance) in instances.iter().enumerate() {
        until_accepted(&event(&format!("probe-{nth}")), instance.listen).await;
    }
    known.elapsed()
}

/// No event was lost, none was doubled without a word, and the loss of a server was noticed by everybody.
async fn assert_kept(consumer: &Consumer, sent: &[String], instances: &[Instance]) {
    let mut effects: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for seen in consumer.seen() {
        let (all, unmarked) = effects.entry(seen.event_id().to_owned()).or_default();
        *all += 1;
        *unmarked += usize::from(seen.mark().is_none());
    }
    let lost: Vec<_> = sent.iter().filter(|id| !effects.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let silent: Vec<_> = effects.iter().filter(|(_, (_, unmarked))| *unmarked > 1).collect();
    assert!(silent.is_empty(), "{silent:?}");
    for instance in instances {
        let counted = async || (instance.metrics().await.value("hookonce_store_resets_total", &[]) >= 1.0).then_some(());
        eventually("the replaced server is counted", counted).await;
    }
}

/// A new master has just become known: service resumes, and what came meanwhile is kept.
async fn assert_resumed(consumer: &Consumer, instances: &[Instance], load: Load) {
    let took = resumes(instances).await;
    assert!(took < RESUMES_IN, "{took:?}");
    load.goes_on(50).await;
    let sent = load.end().await;
    println!("resumed {took:?} after the new master was known; {} events", sent.len());
    assert_kept(consumer, &sent, instances).await;
}

fn setup(consumer: &Consumer, url: &str) -> Setup {
    in_front_of(consumer).store(url).top("workers = 2").stripe("on_store_down = \"closed\"")
}

#[tokio::test]
async fn a_sentinel_failover_under_load_loses_nothing() {
    let (consumer, mut sentinels) = (Consumer::answering(200).await, Sentinels::start().await);
    let setup = setup(&consumer, &sentinels.url());
    let instances = [Instance::start(&setup).await, Instance::start(&setup).await];
    let load = Load::on(&instances);
    load.goes_on(50).await;
    let old = sentinels.kill_master().await;
    sentinels.await_new_master(old).await;
    assert_resumed(&consumer, &instances, load).await;
}

#[tokio::test]
async fn a_cluster_that_loses_a_master_under_load_loses_nothing() {
    let (consumer, mut cluster) = (Consumer::answering(200).await, Cluster::start().await);
    let setup = setup(&consumer, &cluster.url());
    let instances = [Instance::start(&setup).await, Instance::start(&setup).await];
    let load = Load::on(&instances);
    load.goes_on(50).await;
    let key = "test:stripe:probe-0";
    let old = cluster.kill_master_of(key).await;
    cluster.await_new_master_of(key, old).await;
    assert_resumed(&consumer, &instances, load).await;
}
