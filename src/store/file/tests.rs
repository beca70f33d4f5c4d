//! What cannot be seen from outside: what is left on disk, and what the engine is trusted with.

use std::fs;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;

use super::journal::newest_number;
use super::writer::Until;
use super::{Cells, Change, FileCells, StoreErrorKind, Swapped};
use crate::store::cells::FOR_EVER;

const LONG: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(10);

fn open() -> (TempDir, FileCells) {
    let directory = tempfile::tempdir().unwrap();
    let cells = FileCells::open(directory.path()).unwrap();
    (directory, cells)
}

/// How many cells and index entries are on disk, ended ones included.
async fn stored(cells: &FileCells) -> (usize, usize) {
    let count = |batch: &mut super::Batch<'_>| Ok((batch.tables.cells.len().unwrap(), batch.tables.ends.len().unwrap()));
    cells.ask(Until::Written, count).await.unwrap()
}

async fn eventually_stored(cells: &FileCells, expected: (usize, usize)) {
    let began = Instant::now();
    while stored(cells).await != expected {
        assert!(began.elapsed() < PATIENCE, "{:?} instead of {expected:?}", stored(cells).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn ended_cells_are_swept_from_disk() {
    let (_directory, cells) = open();
    // More than one step of the sweeper.
    for number in 0..250 {
        cells.put_new(&format!("brief:{number}"), "x".into(), Duration::from_millis(50)).await.unwrap();
    }
    cells.put_new("long", "x".into(), LONG).await.unwrap();
    eventually_stored(&cells, (1, 1)).await;
    assert!(cells.read("long").await.unwrap().is_some());
    cells.close().await.unwrap();
}

#[tokio::test]
async fn a_cell_that_does_not_end_is_not_in_the_index() {
    let (_directory, cells) = open();
    cells.put_new("endless", "x".into(), FOR_EVER).await.unwrap();
    assert_eq!(stored(&cells).await, (1, 0));
    // One that becomes endless is taken out of it at its first end, and one that ends after all is in it once.
    cells.put_new("endless later", "x".into(), Duration::from_millis(50)).await.unwrap();
    cells.put("endless later", "y".into(), FOR_EVER).await.unwrap();
    eventually_stored(&cells, (2, 0)).await;
    cells.put("endless", "y".into(), LONG).await.unwrap();
    assert_eq!(stored(&cells).await, (2, 1));
    cells.put("endless", "y".into(), Duration::from_millis(50)).await.unwrap();
    eventually_stored(&cells, (1, 1)).await;
    assert!(cells.read("endless later").await.unwrap().is_some());
    cells.close().await.unwrap();
}

#[tokio::test]
async fn a_cell_that_lives_on_is_not_swept_at_its_first_end() {
    let (_directory, cells) = open();
    for key in ["put", "swapped", "touched", "left"] {
        cells.put_new(key, "x".into(), Duration::from_millis(300)).await.unwrap();
    }
    cells.put("put", "y".into(), LONG).await.unwrap();
    let change = Change { from: "x".into(), to: "y".into(), life: LONG, at_age: None };
    assert_eq!(cells.swap("swapped", change).await.unwrap(), Swapped::Written);
    assert!(cells.touch("touched", "x".into(), LONG).await.unwrap());
    eventually_stored(&cells, (3, 3)).await;
    for key in ["put", "swapped", "touched"] {
        assert!(cells.read(key).await.unwrap().is_some(), "{key}");
    }
    cells.close().await.unwrap();
}

#[tokio::test]
async fn a_cell_whose_life_is_cut_short_is_swept_in_time() {
    let (_directory, cells) = open();
    cells.put_new("cut", "x".into(), LONG).await.unwrap();
    cells.put("cut", "y".into(), Duration::from_millis(50)).await.unwrap();
    // The index entry of the long life stays to its end; it finds nothing then.
    eventually_stored(&cells, (0, 1)).await;
    cells.close().await.unwrap();
}

#[tokio::test]
async fn an_ended_cell_is_absent_before_it_is_swept() {
    let (_directory, cells) = open();
    cells.put_new("brief", "x".into(), Duration::from_millis(1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(3)).await;
    assert_eq!(cells.read("brief").await.unwrap(), None);
    assert_eq!(cells.walk("", None).await.unwrap().cells, []);
    assert!(!cells.touch("brief", "x".into(), LONG).await.unwrap());
    assert_eq!(cells.put_new("brief", "y".into(), LONG).await.unwrap(), None);
    cells.close().await.unwrap();
}

/// `journal.rs` flushes the file that it finds; were it another, completions would be lost with the machine's power.
#[tokio::test]
async fn the_engine_commits_to_its_newest_journal_also_after_a_rotation() {
    let (directory, cells) = open();
    let first = newest_number(directory.path()).unwrap();
    is_in_the_newest_journal(&cells, &directory, "<first mark>").await;
    let ballast = Bytes::from(vec![b'.'; 256 << 10]);
    let began = Instant::now();
    for number in 0.. {
        cells.put_new(&format!("ballast:{number}"), ballast.clone(), LONG).await.unwrap();
        if newest_number(directory.path()).unwrap() > first {
            break;
        }
        assert!(began.elapsed() < PATIENCE * 3, "{number} cells have not made the engine rotate its journal");
    }
    is_in_the_newest_journal(&cells, &directory, "<second mark>").await;
    cells.close().await.unwrap();
}

async fn is_in_the_newest_journal(cells: &FileCells, directory: &TempDir, mark: &'static str) {
    cells.put("mark", mark.into(), LONG).await.unwrap();
    let newest = newest_number(directory.path()).unwrap();
    let journal = fs::read(directory.path().join(format!("{newest}.jnl"))).unwrap();
    let is_there = journal.windows(mark.len()).any(|window| window == mark.as_bytes());
    assert!(is_there, "{mark} is not in {newest}.jnl, though it was committed");
}

#[tokio::test]
async fn after_a_failed_flush_nothing_more_is_written() {
    let (directory, cells) = open();
    cells.put("before", "x".into(), LONG).await.unwrap();
    let newest = newest_number(directory.path()).unwrap();
    fs::remove_file(directory.path().join(format!("{newest}.jnl"))).unwrap();
    let error = cells.put("lost", "x".into(), LONG).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Local);
    let text = error.to_string();
    assert!(text.contains("a flush failed") && text.contains("started again"), "{text}");
    assert_eq!(cells.put_new("after", "x".into(), LONG).await.unwrap_err().kind, StoreErrorKind::Local);
    assert_eq!(cells.pulse("marker").await.unwrap_err().kind, StoreErrorKind::Local);
    assert!(cells.read("before").await.unwrap().is_some(), "reads go on");
    assert_eq!(cells.read("after").await.unwrap(), None);
    cells.close().await.unwrap();
}
