//! A disk that is full, broken or read-only under the file store: what is not stored is not forwarded, what was stored is
//! known afterwards.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::{NamedTempFile, TempDir};

use crate::provider::until_accepted;
use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::program::{Program, hookonce};
use crate::support::proxy::{Setup, in_front_of};
use crate::support::sender::stripe;

/// A file system of a test's own, which only the commands run on it can see. Gone with its keeper.
struct Disk {
    keeper: Child,
    folder: TempDir,
}

impl Disk {
    /// `mount` is told the folder as `$1`.
    fn mounted(mount: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // It lives as long as its standard input, which ends with the test.
        let script = format!("set -e; {mount}; echo mounted; exec cat");
        let mut keeper = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script, "sh"])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare is needed: apt-get install util-linux");
        let mut said = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "mounted\n", "mounting a file system needs root");
        Self { keeper, folder }
    }

    /// Runs a script there, which is told the folder as `$1`.
    fn run(&self, script: &str) -> String {
        let output = self.inside("sh").args(["-c", script, "sh"]).arg(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.keeper.id().to_string(), "--mount", "--"]).arg(program);
        command
    }

    fn hookonce(&self) -> Command {
        self.inside(hookonce().get_program())
    }

    fn setup(&self, consumer: &Consumer) -> Setup {
        on_files(consumer, &self.folder.path().join("events"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

fn on_files(consumer: &Consumer, path: &Path) -> Setup {
    let store = format!("file:{}", path.display());
    in_front_of(consumer).store(&store).top("workers = 1").stripe("lease = \"1s\"\nin_flight = \"retry\"")
}

/// Delivers one event after another until one is refused, which must be because of the store.
async fn fill(instance: &Instance) -> usize {
    for index in 0..20_000 {
        let answer = instance.send(&stripe(&format!("e{index}"))).await;
        if !answer.is_success() {
            assert_eq!((answer.status, answer.outcome()), (503, "store_down"));
            return index;
        }
    }
    panic!("this disk has no end");
}

/// Waits until every completion is on the disk: until then the last ones are in the kernel's hands.
async fn all_flushed(instance: &Instance) {
    eventually("all completions are on the disk", async || {
        let metrics = instance.metrics().await;
        (metrics.value("hookonce_claims_in_flight", &[("provider", "stripe")]) == 0.0).then_some(())
    })
    .await;
}

/// Nothing new is taken, and whatever is known is answered.
async fn takes_nothing_more(instance: &Instance, consumer: &Consumer) {
    for index in 0..3 {
        assert_eq!(instance.send(&stripe(&format!("too late {index}"))).await.outcome(), "store_down");
    }
    assert_eq!(instance.send(&stripe("e0")).await.outcome(), "duplicate");
    assert!(consumer.seen().iter().all(|seen| !seen.body.starts_with(b"{\"id\":\"too late")));
}

/// Every event that was accepted is known, but for the last, whose completion may not have been stored: that is in doubt.
async fn knows_all(instance: &Instance, consumer: &Consumer, accepted: usize) {
    for index in 0..accepted - 1 {
        assert_eq!(instance.send(&stripe(&format!("e{index}"))).await.outcome(), "duplicate", "e{index}");
    }
    let last = format!("e{}", accepted - 1);
    until_accepted(&stripe(&last), instance.listen).await;
    let marks: Vec<_> =
        consumer.seen().into_iter().filter(|seen| seen.event_id() == last).map(|seen| seen.mark().is_some()).collect();
    assert!([vec![false], vec![false, true]].contains(&marks), "{marks:?}");
    assert_eq!(instance.send(&stripe("new")).await.outcome(), "forwarded");
}

#[tokio::test]
async fn when_the_disk_is_full_nothing_is_forwarded_unstored_and_nothing_that_was_stored_is_lost() {
    let disk = Disk::mounted("mount -t tmpfs -o size=1m none \"$1\"; head -c 800K /dev/zero > \"$1/ballast\"");
    let consumer = Consumer::answering(200).await;
    let setup = disk.setup(&consumer);
    let mut instance = Instance::start_as(disk.hookonce(), &setup).await;
    let accepted = fill(&instance).await;
    assert!(accepted > 50, "{accepted}");
    takes_nothing_more(&instance, &consumer).await;
    assert_eq!(consumer.seen().len(), accepted);
    // The log has a thread of its own.
    eventually("why", async || instance.log().contains("No space left on device").then_some(())).await;

    instance.kill();
    disk.run("rm \"$1/ballast\"");
    let again = Instance::start_as(disk.hookonce(), &setup).await;
    knows_all(&again, &consumer, accepted).await;
}

/// ext4 turns read-only when it finds itself damaged, with every file still open.
const FRAGILE: &str =
    "truncate -s 16M \"$1.img\"; mkfs.ext4 -q -F \"$1.img\"; mount -o loop,errors=remount-ro \"$1.img\" \"$1\"; rm \"$1.img\"";

#[tokio::test]
async fn when_the_disk_turns_read_only_nothing_more_is_forwarded_and_all_is_known_once_it_is_mended() {
    let disk = Disk::mounted(FRAGILE);
    let consumer = Consumer::answering(200).await;
    let setup = disk.setup(&consumer);
    let mut instance = Instance::start_as(disk.hookonce(), &setup).await;
    for index in 0..20 {
        assert_eq!(instance.send(&stripe(&format!("e{index}"))).await.outcome(), "forwarded");
    }
    all_flushed(&instance).await;
    let device = disk.run("basename $(findmnt -n -o SOURCE \"$1\")");
    disk.run(&format!("echo 1 > /sys/fs/ext4/{device}/trigger_fs_error"));
    let refused = instance.send(&stripe("e20")).await;
    assert_eq!((refused.status, refused.outcome()), (503, "store_down"));
    takes_nothing_more(&instance, &consumer).await;
    assert_eq!(consumer.seen().len(), 20);

    instance.kill();
    // Somebody who starts it again before the disk is mended is told why it does not.
    let config = NamedTempFile::new().unwrap();
    std::fs::write(config.path(), setup.text()).unwrap();
    let mut refused = Program::start(disk.hookonce().args(["run", "--config"]).arg(config.path()));
    assert_eq!(refused.ended().await.code(), Some(1), "{}", refused.err());
    assert!(refused.err().contains("Read-only file system"), "{}", refused.err());
    disk.run(&format!(
        "losetup /dev/{device} > /dev/null; exec 3< /dev/{device}; umount \"$1\"; e2fsck -fy /dev/{device} > /dev/null || [ $? -le 2 ]; mount /dev/{device} \"$1\""
    ));
    let again = Instance::start_as(disk.hookonce(), &setup).await;
    knows_all(&again, &consumer, 20).await;
}

#[tokio::test]
async fn after_a_flush_that_failed_nothing_more_is_taken_until_the_next_start() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let setup = on_files(&consumer, &folder.path().join("events"));
    let mut command = hookonce();
    command.env("HOOKONCE_FAILPOINT", "before-sync:3:error");
    let mut instance = Instance::start_as(command, &setup).await;
    for event in ["e0", "e1"] {
        assert_eq!(instance.send(&stripe(event)).await.outcome(), "forwarded");
        all_flushed(&instance).await;
    }
    // The consumer has accepted it: its sender is told so, whatever the disk does.
    assert_eq!(instance.send(&stripe("e2")).await.outcome(), "forwarded");
    eventually("a flush that failed", async || instance.log().contains("a flush failed").then_some(())).await;
    takes_nothing_more(&instance, &consumer).await;
    assert_eq!((instance.send(&stripe("e2")).await.outcome(), consumer.seen().len()), ("duplicate", 3));

    instance.kill();
    let again = Instance::start(&setup).await;
    knows_all(&again, &consumer, 3).await;
}

fn newest_journal(store: &Path) -> PathBuf {
    let files = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "jnl")).max().unwrap()
}

/// Takes the last bytes that were written off the newest journal, as a power cut does.
fn tear_journal(store: &Path) {
    let newest = newest_journal(store);
    let mut bytes = std::fs::read(&newest).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end - 20..=end].fill(0);
    std::fs::write(&newest, bytes).unwrap();
}

#[tokio::test]
async fn a_journal_whose_end_was_torn_off_has_all_that_came_before() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let store = folder.path().join("events");
    let setup = on_files(&consumer, &store);
    let mut instance = Instance::start(&setup).await;
    for index in 0..20 {
        assert_eq!(instance.send(&stripe(&format!("e{index}"))).await.outcome(), "forwarded");
    }
    instance.in_state("stripe", "e19", "done").await;
    instance.kill();
    tear_journal(&store);
    let again = Instance::start(&setup).await;
    knows_all(&again, &consumer, 20).await;
    // What was torn off is the completion of the last event, which is why that is in doubt.
    assert_eq!(consumer.count("e19"), 2);
}

#[tokio::test]
async fn a_journal_damaged_before_its_end_is_not_cut_short_but_named_with_the_way_out() {
    let (consumer, folder) = (Consumer::answering(200).await, tempfile::tempdir().unwrap());
    let store = folder.path().join("events");
    let setup = on_files(&consumer, &store);
    let mut instance = Instance::start(&setup).await;
    for index in 0..20 {
        assert_eq!(instance.send(&stripe(&format!("e{index}"))).await.outcome(), "forwarded");
    }
    all_flushed(&instance).await;
    instance.kill();
    let journal = newest_journal(&store);
    let mut bytes = std::fs::read(&journal).unwrap();
    let key = b"stripe:e10";
    let last = bytes.windows(key.len()).rposition(|window| window == key).unwrap();
    bytes[last] ^= 1;
    std::fs::write(&journal, bytes).unwrap();

    let config = NamedTempFile::new().unwrap();
    std::fs::write(config.path(), setup.text()).unwrap();
    let mut refused = Program::start(hookonce().args(["run", "--config"]).arg(config.path()));
    assert_eq!(refused.ended().await.code(), Some(1), "{}", refused.err());
    let said = refused.err();
    assert!(said.contains("is damaged at byte"), "{said}");
    let way_out = said.split('`').find(|words| words.starts_with("truncate ")).unwrap();
    assert!(Command::new("sh").args(["-c", way_out]).status().unwrap().success(), "{way_out}");
    let again = Instance::start(&setup).await;
    // All that was settled before the damage is known.
    knows_all(&again, &consumer, 10).await;
}
