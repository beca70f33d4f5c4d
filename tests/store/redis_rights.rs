//! A user with the rights that the documentation gives, and no others. The contract runs as that user too.

use bytes::Bytes;
use hookonce::store::StoreErrorKind;
use hookonce::store::cells::{AtAge, Cells, Change, StoreError, Swapped};
use hookonce::store::redis::RedisCells;

use crate::support::redis::RedisProcess;
use crate::support::rights::{LOGIN, Line};
use crate::support::{BUDGET, RETENTION, TICK, event_key, server_at};

/// A server with such a user, and a connection as that user.
async fn with_rights(process: &RedisProcess, words: &[&str]) -> RedisCells {
    let () = process.ask(&["ACL", "DELUSER", "hookonce"]).await;
    let () = process.ask(words).await;
    // Otherwise scripts would not have to be sent in full.
    let () = process.ask(&["SCRIPT", "FLUSH"]).await;
    server_at(&format!("redis://{LOGIN}@{}", process.address()), BUDGET).connect()
}

async fn everything(cells: &RedisCells) -> Result<(), StoreError> {
    let (key, one, two) = (event_key(), Bytes::from_static(b"one"), Bytes::from_static(b"two"));
    let key = key.as_str();
    assert_eq!(cells.put_new(key, one.clone(), RETENTION).await?, None);
    let at_age = Some(AtAge { life: RETENTION, least: TICK });
    while cells.swap(key, Change { from: one.clone(), to: two.clone(), life: RETENTION, at_age }).await? != Swapped::Written {}
    assert!(cells.touch(key, two.clone(), RETENTION).await?);
    assert_eq!(cells.read(key).await?.map(|held| held.value), Some(two.clone()));
    assert_eq!(cells.put(key, one, RETENTION).await?, Some(two));
    assert_eq!(cells.walk(key, None).await?.cells.len(), 1);
    assert!(cells.pulse(key).await?.is_some());
    cells.about().await.map(drop)
}

#[tokio::test]
async fn every_right_that_is_given_is_needed() {
    let process = RedisProcess::start();
    let words = Line::Server.words();
    everything(&with_rights(&process, &words).await).await.unwrap();
    let rights: Vec<&str> = words.iter().copied().filter(|word| word.starts_with('+')).collect();
    assert!(rights.len() > 5, "{rights:?}");
    for right in rights {
        let fewer: Vec<&str> = words.iter().copied().filter(|word| *word != right).collect();
        let error = everything(&with_rights(&process, &fewer).await).await.expect_err(right);
        assert_eq!(error.kind, StoreErrorKind::Refused, "{error}");
    }
}

#[tokio::test]
async fn keys_beyond_the_namespace_are_out_of_reach() {
    let process = RedisProcess::start();
    let words: Vec<&str> = Line::Server.words().into_iter().map(|word| if word == "~*" { "~test:*" } else { word }).collect();
    let cells = with_rights(&process, &words).await;
    everything(&cells).await.unwrap();
    for key in ["other:orders:evt_1", "test"] {
        assert_eq!(cells.put_new(key, Bytes::from_static(b"x"), RETENTION).await.unwrap_err().kind, StoreErrorKind::Refused);
        assert_eq!(cells.read(key).await.unwrap_err().kind, StoreErrorKind::Refused);
    }
}

#[tokio::test]
async fn another_database_needs_the_right_to_choose_it() {
    let process = RedisProcess::start();
    let words = [&Line::Server.words()[..], &["+select"]].concat();
    with_rights(&process, &words).await;
    let cells = server_at(&format!("redis://{LOGIN}@{}/3", process.address()), BUDGET).connect();
    everything(&cells).await.unwrap();
    assert!(process.info("db3").await.is_some());
}
