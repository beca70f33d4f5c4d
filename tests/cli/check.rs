//! `hookonce check`: all that can be known before traffic.

use std::io::Write;

use tempfile::NamedTempFile;

use crate::support::consumer::Consumer;
use crate::support::proxy::{Setup, in_front_of};
use crate::support::redis::{RedisProcess, quiet_port};
use crate::{Ended, ended, with};

async fn check(setup: &Setup) -> Ended {
    let mut file = NamedTempFile::new().unwrap();
    write!(file, "{}", setup.text()).unwrap();
    ended(with(&["check", "--config", file.path().to_str().unwrap()])).await
}

#[tokio::test]
async fn a_good_configuration_is_shown_with_what_answers() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let end = check(&in_front_of(&consumer).store(&redis.url()).github("retention = \"9d\"")).await;
    assert_eq!((end.code, end.err.as_str()), (Some(0), ""), "{}", end.out);
    for part in [&format!("ok: store {}: answers, version ", redis.url()), &format!("ok: upstream {}", consumer.url())] {
        assert!(end.out.contains(part), "{part}\n{}", end.out);
    }
    let retention = end.out.lines().find(|line| line.starts_with("retention") && line.contains("\"9d\"")).unwrap();
    assert!(retention.contains("# line "), "{retention}");
    // It asks nothing of the consumer.
    assert_eq!(consumer.seen().len(), 0);
}

#[tokio::test]
async fn a_store_that_does_not_answer_fails_the_check() {
    let consumer = Consumer::answering(200).await;
    let store = format!("redis://127.0.0.1:{}", quiet_port());
    let end = check(&in_front_of(&consumer).store(&store)).await;
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.out.contains(&format!("error: store {store}: ")), "{}", end.out);
    assert!(end.out.contains("ok: upstream"), "{}", end.out);
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_fails_the_check() {
    let (consumer, redis) = (Consumer::answering(200).await, RedisProcess::start());
    let upstream = format!("http://127.0.0.1:{}", quiet_port());
    let end = check(&in_front_of(&consumer).store(&redis.url()).upstream(&upstream)).await;
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.out.contains(&format!("error: upstream {upstream}")) && end.out.contains("ok: store"), "{}", end.out);
}

#[tokio::test]
async fn a_collector_is_asked_whether_it_takes_spans() {
    let (consumer, collector) = (Consumer::answering(200).await, Consumer::answering(200).await);
    let traced = |path: &str| in_front_of(&consumer).table(&format!("[trace]\nendpoint = \"{}{path}\"", collector.url()));
    let end = check(&traced("")).await;
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(end.out.contains("/v1/traces: takes spans"), "{}", end.out);
    let wrong = Consumer::answering(404).await;
    let end = check(&in_front_of(&consumer).table(&format!("[trace]\nendpoint = \"{}/elsewhere\"", wrong.url()))).await;
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.out.contains("/elsewhere: the collector answered 404"), "{}", end.out);
}

#[tokio::test]
async fn a_redis_that_throws_keys_away_fails_the_check() {
    let consumer = Consumer::answering(200).await;
    let redis = RedisProcess::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let end = check(&in_front_of(&consumer).store(&redis.url())).await;
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.out.contains("error: store") && end.out.contains("allkeys-lru"), "{}", end.out);
}

#[tokio::test]
async fn a_wrong_configuration_is_a_usage_error_and_nothing_is_asked() {
    let end = ended(with(&["check", "--config", "tests/fixtures/config/bad/unknown-keys.toml"])).await;
    assert_eq!(end.code, Some(2), "{end:?}");
    assert!(end.out.contains("error: line ") && !end.out.contains("store redis"), "{}", end.out);
}
