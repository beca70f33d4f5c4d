//! `--all`: looks through a queue page by page first, and then sees to each letter that was meant. What comes meanwhile is
//! not meant, and whoever stops it has done what was told by then.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::letter::{Letter, Letters, State, target};
use super::{Drop, Retry};
use crate::cli::caller::Caller;
use crate::cli::{FAILED, fail, is_wanted, say};
use crate::config::units::Written;

/// The letter is gone, or somebody is at work on it.
const LEFT_ALONE: [u16; 2] = [404, 409];

/// What is done to letters, and where.
struct Errand<'a> {
    caller: &'a Caller,
    provider: &'a str,
    dead: bool,
    method: &'static str,
    deed: &'static str,
    /// What is said of those that it was done to.
    word: &'static str,
}

/// The letters that are meant, by their ids.
#[derive(Debug, Default)]
struct Plan {
    meant: Vec<String>,
    /// Old enough, and yet not meant.
    left: u64,
}

pub(super) fn retry(caller: &Caller, args: &Retry, dead: bool) -> Result<(), ExitCode> {
    let errand = Errand { caller, provider: &args.provider, dead, method: "POST", deed: "/retry", word: "retried" };
    // One that was never tried is tried anyhow, and need not be marked.
    let is_meant = |letter: &Letter| dead || (letter.state != State::Out && letter.attempt > 0);
    let plan = errand.plan(args.older_than, is_meant)?;
    errand.carry_out(&plan, args.access.json)
}

pub(super) fn drop(caller: &Caller, args: &Drop, older_than: Duration, dead: bool) -> Result<(), ExitCode> {
    let errand = Errand { caller, provider: &args.provider, dead, method: "DELETE", deed: "", word: "dropped" };
    let plan = errand.plan(Some(older_than), |letter| letter.state != State::Out)?;
    if !args.access.json {
        let (provider, age, count) = (&args.provider, Written(older_than), plan.meant.len());
        let under_way = if dead { String::new() } else { format!(", {} under way and left alone", plan.left) };
        say(format_args!("{provider}, older than {age}: {count} to drop{under_way}"));
    }
    if !plan.meant.is_empty() && !args.yes && !is_wanted("Drop them?") {
        return Err(fail(FAILED, "nothing was dropped; --yes goes on without asking"));
    }
    errand.carry_out(&plan, args.access.json)
}

impl Errand<'_> {
    fn plan(&self, older_than: Option<Duration>, is_meant: impl Fn(&Letter) -> bool) -> Result<Plan, ExitCode> {
        let (mut letters, mut plan) = (Letters::of(self.caller, self.provider, self.dead, older_than), Plan::default());
        while let Some(letter) = letters.next()? {
            if is_meant(&letter) {
                plan.meant.push(letter.letter);
            } else {
                plan.left += 1;
            }
        }
        Ok(plan)
    }

    /// Sees to one after the other, and says how far it has come to whoever looks.
    fn carry_out(&self, plan: &Plan, as_json: bool) -> Result<(), ExitCode> {
        let (word, is_watched) = (self.word, io::stderr().is_terminal() && !plan.meant.is_empty());
        let (mut done, mut left) = (0_u64, plan.left);
        for (nth, id) in plan.meant.iter().enumerate() {
            match self.one(id) {
                Ok(true) => done += 1,
                Ok(false) => left += 1,
                Err(code) => {
                    eprintln!("hookonce: stopped; {word} before that: {done} of {}", plan.meant.len());
                    return Err(code);
                }
            }
            if is_watched {
                eprint!("\r{} of {} seen to, {done} {word}", nth + 1, plan.meant.len());
            }
        }
        if is_watched {
            eprintln!();
        }
        if as_json {
            say(json!({ "provider": self.provider, word: done, "left": left }));
        } else {
            let left = if left > 0 { format!("; left alone: {left}") } else { String::new() };
            say(format_args!("{word}: {done}{left}"));
        }
        Ok(())
    }

    /// Tells whether it was done.
    fn one(&self, id: &str) -> Result<bool, ExitCode> {
        let answer = self.caller.answer(self.method, &target(self.provider, id, self.deed, self.dead), "")?;
        if LEFT_ALONE.contains(&answer.status) {
            return Ok(false);
        }
        answer.accepted().map(|_| true)
    }
}
