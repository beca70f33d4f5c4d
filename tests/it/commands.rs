//! What Redis is asked: two commands for a new event, one for a duplicate, none for a forgery; readable keys that end.

use std::collections::BTreeMap;

use crate::support::consumer::{Act, Consumer};
use crate::support::instance::Instance;
use crate::support::keys::Keys;
use crate::support::proxy::in_front_of;
use crate::support::redis::RedisProcess;
use crate::support::sender::{Delivery, github, github_with, stripe};

struct Scene {
    instance: Instance,
    keys: Keys,
    redis: RedisProcess,
    consumer: Consumer,
}

async fn scene() -> Scene {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let instance = Instance::start(&in_front_of(&consumer).store(&redis.url()).top("workers = 2")).await;
    let mut keys = Keys::of(&redis);
    // The connections of both workers and the admin side are made with their first calls; the events below are counted.
    for event in ["warm-1", "warm-2", "warm-3"] {
        instance.send(&stripe(event)).await;
        keys.done("stripe", event).await;
    }
    keys.reset_commands();
    Scene { instance, keys, redis, consumer }
}

fn sets(count: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("set".to_owned(), count)])
}

#[tokio::test]
async fn a_new_event_costs_two_commands_and_a_duplicate_one() {
    let Scene { instance, mut keys, consumer, redis: _redis } = scene().await;
    let names = (0..10).map(|index| format!("e{index}"));
    let events: Vec<(&str, String, Delivery)> =
        names.flat_map(|name| [("github", name.clone(), github(&name)), ("stripe", name.clone(), stripe(&name))]).collect();
    for (provider, name, delivery) in &events {
        assert_eq!(instance.send(delivery).await.outcome(), "forwarded");
        keys.done(provider, name).await;
    }
    assert_eq!(keys.commands(), sets(40));
    keys.reset_commands();
    for (_, _, delivery) in &events {
        assert_eq!(instance.send(delivery).await.outcome(), "duplicate");
    }
    assert_eq!(keys.commands(), sets(20));
    assert_eq!(consumer.seen().len(), 20 + 3);
}

#[tokio::test]
async fn forged_requests_cause_no_command() {
    let Scene { instance, mut keys, consumer, redis: _redis } = scene().await;
    let before = keys.names();
    for index in 0..50 {
        let event = format!("forged{index}");
        let forged = [
            github(&event).with("x-hub-signature-256", "sha256=0000000000000000000000000000000000000000000000000000000000000000"),
            github(&event).without("x-hub-signature-256"),
            stripe(&event).with("stripe-signature", "t=1,v1=00"),
            Delivery { body: format!("{{\"id\":\"{event}-other\"}}").into(), ..stripe(&event) },
        ];
        for delivery in forged {
            assert_eq!(instance.send(&delivery).await.status, 401);
        }
    }
    assert_eq!(keys.commands(), BTreeMap::new());
    assert_eq!((keys.names(), consumer.seen().len()), (before, 3));
}

#[tokio::test]
async fn the_claim_is_one_plain_command_and_so_is_the_completion() {
    let Scene { instance, keys, redis, consumer: _consumer } = scene().await;
    let mut overheard = keys.listen();
    instance.send(&github("e1")).await;
    let key = Keys::name("github", "e1");
    let (claim, completion) = (overheard.next_about(&key), overheard.next_about(&key));
    assert!(claim[2].starts_with("1c|") && completion[2].starts_with("1d|200|1|"), "{claim:?} {completion:?}");
    let seconds: u64 = claim[6].parse().unwrap();
    assert_eq!([&claim[..2], &claim[3..6]], [&["SET", &key][..], &["NX", "GET", "EX"]]);
    assert_eq!([&completion[..2], &completion[3..]], [&["SET", &key][..], &["GET", "EX", &seconds.to_string()]]);
    assert!(seconds >= 72 * 3600, "{seconds}");
    drop(redis);
}

#[tokio::test]
async fn every_key_has_a_life_and_a_value_that_can_be_read() {
    let (redis, hang) = (RedisProcess::start(), "hangs");
    let consumer = Consumer::deciding(move |seen, _| match seen.event_id() {
        "failed" => Act::Answer(503),
        id if id == hang => Act::Hang,
        _ => Act::Answer(200),
    })
    .await;
    let setup = in_front_of(&consumer).store(&redis.url()).both("retention = \"100h\"\nlease = \"20s\"");
    let instance = Instance::start(&setup).await;
    let mut keys = Keys::of(&redis);
    instance.send(&stripe("done")).await;
    instance.send(&github("failed")).await;
    // The same id with another body is another event here: a key of its own.
    instance.send(&github("two-bodies")).await;
    instance.send(&github_with("two-bodies", "{}")).await;
    instance.send(&stripe("an id/with:delimiters")).await;
    let _waiting = stripe(hang).begin(instance.listen).await;
    consumer.arrived(hang, 1).await;
    keys.done("stripe", "done").await;

    let names = keys.names();
    let events: Vec<&String> = names.iter().filter(|name| *name != "test:marker").collect();
    assert_eq!(events.len(), 6, "{names:?}");
    for name in &events {
        let seconds = keys.ttl(name);
        assert!((300_000..=360_000).contains(&seconds), "{name}: {seconds}");
        assert!(keys.value(name).bytes().all(|byte| byte.is_ascii_graphic()), "{name}");
    }
    assert!(names.iter().any(|name| name.starts_with("test:stripe:~")), "{names:?}");
    let fields = |value: String| value.split('|').map(str::to_owned).collect::<Vec<_>>();
    let done = fields(keys.value("test:stripe:done"));
    assert_eq!(done[..3], ["1d", "200", "1"]);
    let failed = fields(keys.value("test:github:failed"));
    assert_eq!(failed[..4], ["1f", "1", "", "503"]);
    let claimed = fields(keys.value("test:stripe:hangs"));
    assert_eq!((&claimed[0][..], &claimed[2..6]), ("1c", &["20000", "360000", "1", ""].map(str::to_owned)[..]));
}
