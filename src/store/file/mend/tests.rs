use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::store::cells::Cells;
use crate::store::file::FileCells;

const LONG: Duration = Duration::from_secs(600);

/// A store that was closed, and what its journal holds.
struct Kept {
    directory: TempDir,
    journal: Vec<u8>,
    /// Where each batch begins, and where the last one ends.
    starts: Vec<usize>,
}

impl Kept {
    /// One batch a value, `cell 0` and so on.
    async fn with(values: &[Bytes]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cells = FileCells::open(directory.path()).unwrap();
        for (index, value) in values.iter().enumerate() {
            cells.put(&format!("cell {index}"), value.clone(), LONG).await.unwrap();
        }
        cells.close().await.unwrap();
        let journal = written(&directory.path().join("0.jnl")).unwrap();
        let mut starts = vec![0];
        while let (Some(length), _) = batch(&journal[starts[starts.len() - 1]..]) {
            starts.push(starts[starts.len() - 1] + length);
        }
        assert_eq!((starts.len(), starts.last()), (values.len() + 1, Some(&journal.len())), "this engine writes otherwise");
        Self { directory, journal, starts }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("0.jnl")
    }

    fn write(&self, journal: &[u8]) {
        fs::write(self.path(), journal).unwrap();
    }

    fn mend(&self) -> Result<u64, String> {
        mend(self.directory.path()).map_err(|error| error.to_string())
    }

    /// How many of the first cells a program finds that is started now. It finds no others, and can write.
    async fn known(&self) -> usize {
        let cells = FileCells::open(self.directory.path()).unwrap();
        let mut known = 0;
        for index in 0..self.starts.len() - 1 {
            let is_there = cells.read(&format!("cell {index}")).await.unwrap().is_some();
            assert!(!is_there || known == index, "cell {index} is there, but not the one before");
            known += usize::from(is_there);
        }
        cells.put("new", "value".into(), LONG).await.unwrap();
        cells.close().await.unwrap();
        known
    }
}

fn small() -> Vec<Bytes> {
    vec![Bytes::from(vec![b'v'; 40]); 3]
}

/// Several sectors each.
fn large() -> Vec<Bytes> {
    vec![Bytes::from(vec![b'v'; 5000]); 3]
}

#[tokio::test]
async fn wherever_a_journal_ends_all_whole_batches_before_it_are_kept() {
    let kept = Kept::with(&small()).await;
    for end in 0..kept.journal.len() {
        let batches = kept.starts.iter().rposition(|start| *start <= end).unwrap();
        let mut with_zeros = kept.journal.clone();
        with_zeros[end..].fill(0);
        for torn in [&kept.journal[..end], &with_zeros] {
            kept.write(torn);
            kept.mend().unwrap();
            assert_eq!(written(&kept.path()).unwrap(), kept.journal[..kept.starts[batches]], "{end}");
        }
    }
}

/// The engine's own reading is in it: it panicked, built for tests, where a journal ended between the two lengths of a value.
#[tokio::test]
async fn wherever_a_batch_was_torn_off_the_store_opens() {
    let kept = Kept::with(&small()).await;
    let last = kept.starts[2];
    for end in (last..last + 100).chain([kept.journal.len() - 1]) {
        let mut torn = kept.journal.clone();
        torn[end..].fill(0);
        kept.write(&torn);
        assert_eq!(kept.known().await, 2, "torn {} bytes after the start of the last batch", end - last);
    }
}

#[tokio::test]
async fn a_last_batch_that_lost_a_sector_is_cut_off() {
    let kept = Kept::with(&large()).await;
    let sector = (kept.starts[2] + 1000).next_multiple_of(SECTOR);
    let mut torn = kept.journal.clone();
    torn[sector..sector + SECTOR].fill(0);
    kept.write(&torn);
    assert_eq!(kept.known().await, 2);
}

#[tokio::test]
async fn sectors_written_out_of_order_are_cut_off_with_what_follows() {
    let kept = Kept::with(&large()).await;
    // The last of a sector of the second batch, which was begun before and not written again.
    let sector = (kept.starts[1] + 1000).next_multiple_of(SECTOR);
    let mut torn = kept.journal.clone();
    torn[sector + 100..sector + SECTOR].fill(0);
    kept.write(&torn);
    assert_eq!(kept.known().await, 1);
}

#[tokio::test]
async fn damage_before_whole_batches_is_refused_with_what_to_do_and_changes_nothing() {
    let kept = Kept::with(&small()).await;
    let is_number = |at: usize| kept.starts.iter().any(|start| (start + 5..start + 13).contains(&at));
    // A batch's number is the one thing that is not summed.
    for at in (0..kept.starts[2]).filter(|at| !is_number(*at)) {
        let mut damaged = kept.journal.clone();
        damaged[at] ^= 0x10;
        kept.write(&damaged);
        let said = kept.mend().unwrap_err();
        let start = if at < kept.starts[1] { 0 } else { kept.starts[1] };
        assert!(said.contains(&format!("0.jnl: is damaged at byte {start}, ")), "{at}: {said}");
        assert_eq!(fs::read(kept.path()).unwrap(), damaged, "{at}");
    }
    let said = FileCells::open(kept.directory.path()).unwrap_err().to_string();
    assert!(said.contains("is damaged"), "{said}");
    let advice = said.split('`').nth(1).unwrap();
    assert!(std::process::Command::new("sh").args(["-c", advice]).status().unwrap().success(), "{advice}");
    assert_eq!(kept.known().await, 1);
}

#[tokio::test]
async fn a_journal_with_a_later_one_has_to_be_whole_if_that_holds_anything() {
    let kept = Kept::with(&small()).await;
    let later = kept.directory.path().join("1.jnl");
    let torn = &kept.journal[..kept.journal.len() - 20];
    fs::write(&later, &kept.journal[..kept.starts[1]]).unwrap();
    kept.write(torn);
    assert!(kept.mend().unwrap_err().contains("0.jnl: is damaged"));
    fs::write(&later, [0; 100]).unwrap();
    kept.mend().unwrap();
    assert_eq!(fs::read(kept.path()).unwrap(), kept.journal[..kept.starts[2]]);
}

#[tokio::test]
async fn a_store_in_use_is_left_alone() {
    let kept = Kept::with(&small()).await;
    let cells = FileCells::open(kept.directory.path()).unwrap();
    let torn = &kept.journal[..kept.journal.len() - 20];
    kept.write(torn);
    kept.mend().unwrap();
    assert_eq!(fs::read(kept.path()).unwrap(), torn);
    let error = FileCells::open(kept.directory.path()).unwrap_err().to_string();
    assert!(error.contains("in use by another process"), "{error}");
    cells.close().await.unwrap();
}

#[tokio::test]
async fn batches_before_a_checkpoint_are_taken_out_of_every_journal() {
    let kept = Kept::with(&small()).await;
    let third = number(&kept.journal[kept.starts[2]..]).unwrap();
    let later = kept.directory.path().join("1.jnl");
    fs::write(&later, &kept.journal[kept.starts[2]..]).unwrap();
    kept.write(&kept.journal[..kept.starts[2]]);
    checkpoint::note(kept.directory.path(), third).unwrap();
    assert_eq!(kept.mend().unwrap(), (kept.journal.len() - kept.starts[2]) as u64);
    assert_eq!((fs::read(kept.path()).unwrap(), fs::read(later).unwrap()), (vec![], kept.journal[kept.starts[2]..].to_vec()));
    assert!(!kept.directory.path().join("checkpoint").exists(), "it is of one run alone: numbers are given again");
}

#[tokio::test]
async fn what_cannot_be_trusted_to_be_in_tables_is_left_in_the_journal() {
    let kept = Kept::with(&small()).await;
    let note = kept.directory.path().join("checkpoint");
    checkpoint::note(kept.directory.path(), u64::MAX).unwrap();
    let mut bytes = fs::read(&note).unwrap();
    bytes[3] ^= 1;
    for damaged in [&bytes[..], &bytes[..7], &[]] {
        fs::write(&note, damaged).unwrap();
        assert_eq!(kept.mend().unwrap(), kept.journal.len() as u64, "{damaged:?}");
        assert_eq!(written(&kept.path()).unwrap(), kept.journal);
    }
    // The second batch's number, which no sum covers, has become lower than the one before.
    let mut damaged = kept.journal.clone();
    damaged[kept.starts[1] + 5..kept.starts[1] + 13].fill(0);
    kept.write(&damaged);
    checkpoint::note(kept.directory.path(), u64::MAX).unwrap();
    kept.mend().unwrap();
    assert_eq!(fs::read(kept.path()).unwrap(), damaged[kept.starts[1]..]);
}

#[tokio::test]
async fn a_journal_that_is_damaged_is_left_as_it_is_whatever_is_in_tables() {
    let kept = Kept::with(&small()).await;
    let mut damaged = kept.journal.clone();
    damaged[kept.starts[1] + 20] ^= 0x10;
    kept.write(&damaged);
    checkpoint::note(kept.directory.path(), number(&kept.journal[kept.starts[1]..]).unwrap()).unwrap();
    assert!(kept.mend().unwrap_err().contains("is damaged"));
    assert_eq!(fs::read(kept.path()).unwrap(), damaged);
}

#[test]
fn a_search_for_whole_batches_comes_to_an_end_whatever_was_stored() {
    // Each begins like a batch of one item, which holds all that follows.
    let (mut rest, step) = (Vec::new(), 1 << 16);
    for _ in 0..1 << 16 {
        let item = [&[START, 1, 0, 0, 0][..], &[0; 8], &[ITEM, 0, 0], &[0; 8], &[0, 0]].concat();
        let length = u32::try_from(step).unwrap().to_le_bytes();
        rest.extend([&item[..], &length, &length].concat());
    }
    rest.resize(rest.len() + step, b'v');
    assert_eq!(next_whole(&rest), Some(rest.len()));
    assert_eq!(next_whole(&vec![START; 1 << 20]), None);
}
