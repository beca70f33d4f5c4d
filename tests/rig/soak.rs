//! Seed after seed. `scripts/soak` says how many; the tests run one of each kind but the calm one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::checker::{Broken, Tally, Violation};
use super::plan::Plan;
use super::round::{self, Verdict};

/// Violations of one round that are shown.
const SHOWN_MAX: usize = 20;

/// How much is run.
struct Extent {
    from: u64,
    seeds: u64,
    events: usize,
    /// Rounds at the same time: they mostly wait.
    jobs: u64,
    /// No round begins after this long.
    time: Option<Duration>,
}

impl Extent {
    fn asked_for() -> Self {
        let minutes = asked("MINUTES").map(|minutes| Duration::from_secs(minutes * 60));
        Self {
            from: asked("FROM").unwrap_or(10),
            seeds: asked("SEEDS").unwrap_or(4),
            events: usize::try_from(asked("EVENTS").unwrap_or(200)).unwrap(),
            jobs: asked("JOBS").unwrap_or(4),
            time: minutes,
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "how `scripts/soak` talks to it")]
fn asked(name: &str) -> Option<u64> {
    let written = std::env::var(format!("HOOKONCE_SOAK_{name}")).ok()?;
    Some(written.parse().unwrap_or_else(|_| panic!("HOOKONCE_SOAK_{name}: not a number: {written}")))
}

#[test]
fn every_seed_keeps_the_promise() {
    let extent = Extent::asked_for();
    let (next, began) = (AtomicU64::new(0), Instant::now());
    let total = Mutex::new((0, Tally::default(), Vec::new()));
    println!("{}", heading());
    std::thread::scope(|scope| {
        for _ in 0..extent.jobs {
            scope.spawn(|| {
                while extent.time.is_none_or(|time| began.elapsed() < time) {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= extent.seeds {
                        return;
                    }
                    let seed = extent.from + turn;
                    let verdict = verdict_of(Plan::of(seed, extent.events));
                    println!("{}", report(seed, &verdict, extent.events));
                    let mut total = total.lock().unwrap();
                    total.0 += 1;
                    total.1.add(&verdict.tally);
                    if !verdict.violations.is_empty() {
                        total.2.push(seed);
                    }
                }
            });
        }
    });
    let (seeds, tally, broken) = total.into_inner().unwrap();
    println!("{}\n{seeds} seeds in {:.0?}", line("total", &tally), began.elapsed());
    assert!(broken.is_empty(), "these seeds broke the promise: {broken:?}");
    assert!(seeds > 0, "nothing was run");
}

/// Each round has a runtime of its own. One that fails in itself breaks the promise too: nobody knows what it hides.
fn verdict_of(plan: Plan) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let verdict = catch_unwind(AssertUnwindSafe(|| runtime.block_on(round::run(plan))));
    verdict.unwrap_or_else(|_| Verdict {
        tally: Tally::default(),
        violations: vec![Violation { broken: Broken::Unfinished, event: None, what: "the round itself failed".to_owned() }],
        evidence: Vec::new(),
    })
}

fn report(seed: u64, verdict: &Verdict, events: usize) -> String {
    let mut text = line(&seed.to_string(), &verdict.tally);
    for violation in verdict.violations.iter().take(SHOWN_MAX) {
        text += &format!("\n  {violation}");
    }
    if !verdict.violations.is_empty() {
        let evidence = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{seed}.txt"));
        std::fs::write(&evidence, verdict.evidence.join("\n")).unwrap();
        text += &format!("\n  what is known of them: {}", evidence.display());
        text += &format!("\n  again with: scripts/soak --seeds 1 --from {seed} --events-per-seed {events}");
    }
    text
}

fn heading() -> String {
    columns(["seed", "events", "deliveries", "forwards", "duplicates", "faults", "untouched"])
        + &columns(["lost", "unaccepted", "unasked", "doubled", "unmarked", "excused", "unaware"])
}

fn line(name: &str, tally: &Tally) -> String {
    let Tally { events, deliveries, forwards, duplicates, faults, untouched, .. } = *tally;
    let Tally { lost, never_accepted, unasked, doubled_marked, unmarked, excused, unaware, .. } = *tally;
    let number = |count: usize| count.to_string();
    let name = name.to_owned();
    columns([name, number(events), number(deliveries), number(forwards), number(duplicates), number(faults), number(untouched)])
        + &columns([lost, never_accepted, unasked, doubled_marked, unmarked, excused, unaware].map(number))
}

fn columns<const N: usize>(words: [impl std::fmt::Display; N]) -> String {
    words.iter().map(|word| format!("{word:>11}")).collect()
}
