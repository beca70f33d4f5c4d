//! What cannot be seen from outside: what is left on disk, and what the engine is trusted with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use tempfile::TempDir;

use super::ends;
use super::journal::newest_number;
use super::mend::mend;
use super::rounds::Rounds;
use super::tables::Tables;
use super::writer::{Job, Until};
use super::{Cells, Change, FileCells, StoreErrorKind, Swapped, checkpoint};
use crate::store::cells::FOR_EVER;

const LONG: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(10);

fn open() -> (TempDir, FileCells) {
    let directory = tempfile::tempdir().unwrap();
    let cells = FileCells::open(directory.path()).unwrap();
    (directory, cells)
}

/// How many cells are on disk, ended ones included, and how many of them are in the index.
async fn stored(cells: &FileCells) -> (usize, usize) {
    let count = |batch: &mut super::Batch<'_>| {
        let entries = batch.tables.ends.iter().map(|entry| entry.into_inner().unwrap());
        Ok((batch.tables.cells.len().unwrap(), entries.map(|(entry, group)| ends::keys(&entry, &group).len()).sum()))
    };
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

/// It has no index entry any more that could be moved on.
#[tokio::test]
async fn a_cell_that_comes_again_after_it_was_swept_is_swept_again() {
    let (_directory, cells) = open();
    for _ in 0..2 {
        cells.put_new("brief", "x".into(), Duration::from_millis(50)).await.unwrap();
        assert_eq!(stored(&cells).await, (1, 1));
        eventually_stored(&cells, (0, 0)).await;
    }
    cells.close().await.unwrap();
}

/// The note is of one run, and whoever opens the engine begins another, also where nothing could be looked at before that.
#[test]
fn an_engine_that_is_open_has_no_checkpoint_of_another_run() {
    let directory = tempfile::tempdir().unwrap();
    checkpoint::note(directory.path(), 1000).unwrap();
    let tables = Tables::open_engine(directory.path(), 0).unwrap();
    assert_eq!(checkpoint::noted(directory.path()).unwrap(), 0);
    drop(tables);
}

/// Were somebody to wait for a round that nobody has, all that is asked on this thread would.
#[tokio::test]
async fn a_round_that_is_dropped_is_waited_for_by_nobody() {
    let (orders, queue) = std::sync::mpsc::channel();
    let rounds = Rounds::new(orders);
    for _ in 0..2 {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let job = Job::new(Until::Written, |_| Ok(()), move |outcome| drop(answer.send(outcome)));
        rounds.add(job);
        let taken = async {
            while queue.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, taken).await.unwrap();
        assert!(tokio::time::timeout(PATIENCE, answered).await.unwrap().is_err(), "it was dropped without a word");
        // Whoever carried it learns of it and leaves, and the next job has somebody to carry it.
        tokio::time::timeout(PATIENCE, rounds.left()).await.unwrap();
    }
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

/// So many cells of a kibibyte, many at a time.
async fn fill(cells: &FileCells, count: usize) {
    for first in (0..count).step_by(256) {
        let puts = (first..count.min(first + 256)).map(|number| {
            let cells = cells.clone();
            async move { cells.put_new(&format!("filled:{number}"), "x".repeat(1024).into(), LONG).await.unwrap() }
        });
        assert!(join_all(puts).await.iter().all(Option::is_none));
    }
}

async fn is_filled(cells: &FileCells, count: usize) {
    for number in 0..count {
        assert!(cells.read(&format!("filled:{number}")).await.unwrap().is_some(), "{number} of {count}");
    }
}

/// What a process that is started now would find, if this one were killed.
fn copy_of(directory: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    assert!(Command::new("cp").arg("-rT").args([directory, copy.path()]).status().unwrap().success());
    copy
}

#[tokio::test]
async fn a_store_that_was_closed_leaves_no_journal_to_read() {
    let (directory, cells) = open();
    fill(&cells, 2000).await;
    assert!(mend(copy_of(directory.path()).path()).unwrap() > 2 << 20, "it is in the journal before");
    cells.close().await.unwrap();
    let journal = fs::metadata(directory.path().join("0.jnl")).unwrap();
    assert_eq!(journal.len(), 0);
    for round in ["first", "second"] {
        let cells = FileCells::open(directory.path()).unwrap();
        is_filled(&cells, 2000).await;
        // What is written afterwards is numbered on, and found as well.
        let key = format!("{round} later");
        cells.put(&key, "x".into(), LONG).await.unwrap();
        cells.close().await.unwrap();
        let cells = FileCells::open(directory.path()).unwrap();
        assert!(cells.read(&key).await.unwrap().is_some(), "{round}");
        cells.close().await.unwrap();
    }
}

#[tokio::test]
async fn the_journal_that_a_start_has_to_read_is_bounded_while_the_store_is_used() {
    let (directory, cells) = open();
    // More than twice as much as is left to be read, and less than makes the engine go on to another journal.
    fill(&cells, 40 << 10).await;
    let began = Instant::now();
    while !directory.path().join("checkpoint").exists() {
        assert!(began.elapsed() < PATIENCE * 3, "there is no checkpoint");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Until the engine has come to rest, so that the copy is of one moment.
    tokio::time::sleep(Duration::from_secs(2)).await;
    cells.put("after", "x".into(), LONG).await.unwrap();
    let killed = copy_of(directory.path());
    let left = mend(killed.path()).unwrap();
    assert!(left < 20 << 20, "{left} bytes of more than 40 MiB would be read");
    assert!(!killed.path().join("checkpoint").exists(), "it is of one run alone: numbers are given again");
    let again = FileCells::open(killed.path()).unwrap();
    is_filled(&again, 40 << 10).await;
    assert!(again.read("after").await.unwrap().is_some());
    again.close().await.unwrap();
    cells.close().await.unwrap();
}

#[test]
fn a_round_whose_runtime_has_ended_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let cells = FileCells::open(directory.path()).unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(async {
        // Asked once, and given up before the task that takes it to the writer has had its turn.
        let mut put = Box::pin(cells.put_new("given up", "x".into(), LONG));
        assert!(futures_util::poll!(&mut put).is_pending());
    });
    runtime().block_on(async {
        assert!(cells.read("given up").await.unwrap().is_some(), "it was asked for");
        cells.close().await.unwrap();
    });
}

#[tokio::test]
async fn cells_that_are_written_together_share_an_entry_and_are_swept_one_by_one() {
    let (_directory, cells) = open();
    let put = |number: usize, life| {
        let cells = cells.clone();
        async move { cells.put_new(&format!("cell:{number}"), "x".into(), life).await.unwrap() }
    };
    join_all((0..150).map(|number| put(number, Duration::from_millis(300)))).await;
    let entries = cells.ask(Until::Written, |batch| Ok(batch.tables.ends.len().unwrap())).await.unwrap();
    assert!((1..10).contains(&entries), "{entries} entries for 150 cells");
    assert_eq!(stored(&cells).await, (150, 150));
    cells.put("cell:7", "y".into(), LONG).await.unwrap();
    eventually_stored(&cells, (1, 1)).await;
    assert!(cells.read("cell:7").await.unwrap().is_some());
    cells.close().await.unwrap();
}

/// Where a file is damaged, and how.
#[derive(Debug)]
enum Damage {
    CutAt(usize),
    Flipped { byte: usize, bit: usize },
}

impl Damage {
    fn of(file: &Path, dice: &mut impl FnMut(usize) -> usize) -> Self {
        let mut bytes = fs::read(file).unwrap();
        let byte = dice(bytes.len());
        let damage = if dice(3) == 0 { Self::CutAt(byte) } else { Self::Flipped { byte, bit: dice(8) } };
        match damage {
            Self::CutAt(length) => bytes.truncate(length),
            Self::Flipped { byte, bit } => bytes[byte] ^= 1 << bit,
        }
        fs::write(file, bytes).unwrap();
        damage
    }
}

/// Cells in tables and in the journal.
async fn settled_store() -> TempDir {
    let (directory, cells) = open();
    for number in 0..100 {
        cells.put_new(&format!("in a table:{number}"), "x".repeat(100).into(), LONG).await.unwrap();
    }
    let flush = |batch: &mut super::Batch<'_>| {
        for table in [&batch.tables.cells, &batch.tables.ends] {
            table.rotate_memtable_and_wait().unwrap();
        }
        Ok(())
    };
    cells.ask(Until::Written, flush).await.unwrap();
    for number in 0..20 {
        cells.put_new(&format!("in the journal:{number}"), "x".repeat(100).into(), LONG).await.unwrap();
    }
    cells.close().await.unwrap();
    // Once more, so that the journal is as long as what is in it.
    FileCells::open(directory.path()).unwrap().close().await.unwrap();
    directory
}

fn files_in(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(files_in(&path));
        } else if path.metadata().unwrap().len() > 0 {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Reads everything and writes; gives the errors.
async fn used(cells: &FileCells) -> Vec<StoreErrorKind> {
    let mut errors = Vec::new();
    for number in 0..100 {
        errors.extend(cells.read(&format!("in a table:{number}")).await.err());
    }
    errors.extend(cells.walk("", None).await.err());
    errors.extend(cells.put("new", "x".into(), LONG).await.err());
    errors.into_iter().map(|error| error.kind).collect()
}

#[tokio::test]
async fn a_damaged_file_makes_the_store_neither_hang_nor_panic() {
    let intact = settled_store().await;
    let mut state = 42_u64;
    let mut dice = |sides: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % sides
    };
    for file in files_in(intact.path()) {
        for _ in 0..4 {
            let (copy, name) = (tempfile::tempdir().unwrap(), file.strip_prefix(intact.path()).unwrap());
            let copied = Command::new("cp").arg("-rT").args([intact.path(), copy.path()]).status().unwrap();
            assert!(copied.success());
            let damage = Damage::of(&copy.path().join(name), &mut dice);
            let what = format!("{}: {damage:?}", name.display());
            match FileCells::open(copy.path()) {
                Ok(cells) => {
                    // Whatever cannot be read is an error of its own, by no later than the budget.
                    let errors = used(&cells).await;
                    assert!(errors.iter().all(|kind| *kind == StoreErrorKind::Local), "{what}: {errors:?}");
                    cells.close().await.unwrap();
                }
                Err(error) => assert!(error.to_string().contains("is damaged"), "{what}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_list_of_tables_with_a_wrong_bit_is_named() {
    let intact = settled_store().await;
    let lists = files_in(&intact.path().join("keyspaces/1")).into_iter();
    let newest = lists.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with('v')).max().unwrap();
    let whole = fs::read(&newest).unwrap();
    for byte in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[byte] ^= 0x40;
        fs::write(&newest, bytes).unwrap();
        let error = FileCells::open(intact.path()).unwrap_err().to_string();
        assert!(error.contains("keyspaces/1: is damaged (its files `v"), "{byte}: {error}");
    }
    fs::write(&newest, whole).unwrap();
    FileCells::open(intact.path()).unwrap().close().await.unwrap();
}
