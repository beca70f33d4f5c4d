//! A user with the rights that the documentation gives, and no others. The contract runs as that user too.

use std::time::Duration;

use bytes::Bytes;
use hookonce::pipeline::identify::EventKey;
use hookonce::store::backlog::{Appended, Backlog, CellOf, Finished, Lane, LetterId, NewLetter, Revived, Room, Slip, TakeTerms};
use hookonce::store::cells::{AtAge, Cells, Change, StoreError, Swapped};
use hookonce::store::entry::now;
use hookonce::store::redis::RedisCells;
use hookonce::store::{Binder, Bound, Keeping, Store, StoreErrorKind, Token};

use crate::support::redis::RedisProcess;
use crate::support::rights::{LOGIN, Line};
use crate::support::{BUDGET, RETENTION, TICK, digest, event_key, server_at};

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

/// Everything that is done with letters. Each right is needed by one of these at least.
async fn everything_with_letters(process: &RedisProcess, cells: &RedisCells) -> Result<(), StoreError> {
    let lane = Lane::new("test", event_key().as_str().rsplit(':').next().unwrap());
    let (token, room) = (Token::random().unwrap(), Room { letters: 9, bytes: 999, dead_bytes: 999 });
    let slip = Slip { attempt: 0, doubt: None, status: None, queued_at: now() };
    let letter = || NewLetter {
        id: LetterId::new(now()).unwrap(),
        cell: Some(CellOf { key: lane.beside(&event_key()), value: "1q".into(), over: None }),
        line: Some("line".to_owned()),
        slip: slip.clone(),
        content: "x".into(),
    };
    let first = letter();
    assert_eq!(cells.append(&lane, first.clone(), room).await?, Appended::Added);
    let second = letter();
    assert_eq!(cells.append(&lane, second.clone(), room).await?, Appended::Added);
    let terms = TakeTerms { lease: RETENTION, most: 9, bytes: 9, token, trusts_cells: true };
    let holding = cells.take(&lane, terms).await?.letters.remove(0).holding;
    assert!(cells.extend(&lane, &holding, RETENTION).await?);
    assert!(cells.postpone(&lane, &holding, slip.clone(), Duration::ZERO).await?);
    let terms = TakeTerms { token: Token::random().unwrap(), ..terms };
    let holding = cells.take(&lane, terms).await?.letters.remove(0).holding;
    assert!(cells.bury(&lane, &holding, slip.clone(), true).await?);
    assert_eq!(cells.list(&lane, true, None, 9).await?.len(), 1);
    assert_eq!(cells.revive(&lane, first.id, slip.clone()).await?, Revived::Revived);
    assert!(cells.letter(&lane, first.id).await?.is_some());
    assert_eq!(cells.tally(&lane).await?.letters, 2);
    let cell = first.cell.map(|cell| (cell.key, Bytes::from_static(b"1d"), RETENTION));
    cells.finish(&lane, Finished { id: first.id, line: first.line, cell }).await?;
    // Somebody throws a letter away that others wait for.
    let () = process.ask(&["DEL", &format!("{}:letter:{}", lane.prefix(), second.id)]).await;
    assert_eq!(cells.append(&lane, letter(), room).await?, Appended::Added);
    match cells.keeping().await? {
        Keeping::Lossy(why) if why.contains("not allowed") => Err(StoreError::new(StoreErrorKind::Refused, why)),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn every_right_for_letters_is_needed() {
    let process = RedisProcess::start();
    // Where there is no log it is not asked how that is written.
    let () = process.ask(&["CONFIG", "SET", "appendonly", "yes"]).await;
    let (server, queue) = (Line::Server.words(), Line::Queue.words());
    let rights: Vec<&str> = queue.iter().copied().filter(|word| word.starts_with('+')).collect();
    assert!(rights.len() > 10, "{rights:?}");
    everything_with_letters(&process, &with_rights(&process, &[&server[..], &rights].concat()).await).await.unwrap();
    for right in &rights {
        let fewer: Vec<&str> = rights.iter().copied().filter(|word| word != right).collect();
        let cells = with_rights(&process, &[&server[..], &fewer].concat()).await;
        let error = everything_with_letters(&process, &cells).await.expect_err(right);
        assert_eq!(error.kind, StoreErrorKind::Refused, "{right}: {error}");
    }
}

#[tokio::test]
async fn keys_beyond_the_namespace_are_out_of_reach() {
    let process = RedisProcess::start();
    let words: Vec<&str> = Line::Server.words().into_iter().map(|word| if word == "~*" { "~test:*" } else { word }).collect();
    let cells = with_rights(&process, &words).await;
    everything(&cells).await.unwrap();
    // What signed bytes belong to lies within it, too.
    let (store, key) = (Store::new(cells.clone()), event_key());
    let binder = Binder { key: &key, claim: None, life: RETENTION, lease: TICK, insists: false };
    let cell = EventKey::binding("test", "orders", digest(b"signed"));
    assert!(matches!(store.bind(&cell, binder).await.unwrap(), Bound::Ours));
    let other = event_key();
    while !matches!(store.bind(&cell, Binder { key: &other, ..binder }).await.unwrap(), Bound::Taken) {}
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
