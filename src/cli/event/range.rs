//! `hookonce event forget --provider P --since T`: counts first, asks, and forgets; the instance is asked slice by slice.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::json;

use super::Forget;
use crate::cli::caller::{Caller, encoded, parsed};
use crate::cli::{FAILED, fail, is_wanted, say};

/// One slice of a walk, as the instance tells of it.
#[derive(Debug, Deserialize)]
struct Slice {
    since: String,
    until: String,
    seen: u64,
    done: u64,
    in_flight: u64,
    forgotten: u64,
    /// Where the next slice begins.
    next: Option<String>,
}

/// The slices of a walk so far.
#[derive(Debug, Default)]
struct Total {
    seen: u64,
    done: u64,
    in_flight: u64,
    forgotten: u64,
}

/// A range as the instance understood it: the second walk must not mean another one by "2h".
struct Range {
    since: String,
    until: Option<String>,
}

pub(super) fn forget(caller: &Caller, args: &Forget, provider: &str, since: &str) -> Result<(), ExitCode> {
    let mut range = Range { since: since.to_owned(), until: args.until.clone() };
    let counted = walk(caller, "GET", provider, &mut range)?;
    let Range { since, until } = &range;
    let until = until.as_deref().unwrap_or("now");
    let (done, in_flight) = (counted.done, counted.in_flight);
    if !args.access.json {
        say(format_args!("{provider}, done from {since} to {until}: {done} to forget, {in_flight} in flight and left alone"));
    }
    if done > 0 && !args.yes && !is_wanted("Forget them?") {
        return Err(fail(FAILED, "nothing was forgotten; --yes goes on without asking"));
    }
    let told = if done > 0 { walk(caller, "DELETE", provider, &mut range)? } else { counted };
    let forgotten = told.forgotten;
    if args.access.json {
        say(json!({ "provider": provider, "forgotten": forgotten, "in_flight": told.in_flight }));
    } else {
        say(format_args!("forgotten: {forgotten}. The next delivery of each is forwarded, marked `forgotten`."));
    }
    Ok(())
}

/// Walks over all of a provider's events, and says how far it has come to whoever looks.
fn walk(caller: &Caller, method: &str, provider: &str, range: &mut Range) -> Result<Total, ExitCode> {
    let (mut total, mut from) = (Total::default(), None::<String>);
    loop {
        let field =
            |name: &str, value: Option<&str>| value.map_or_else(String::new, |value| format!("&{name}={}", encoded(value)));
        let (until, place) = (field("until", range.until.as_deref()), field("from", from.as_deref()));
        let target = format!("/api/events?provider={}&since={}{until}{place}", encoded(provider), encoded(&range.since));
        let slice: Slice = parsed(&caller.json(method, &target, "")?)?;
        total.add(&slice);
        let is_long = slice.next.is_some() || from.is_some();
        if is_long && io::stderr().is_terminal() {
            let end = if slice.next.is_some() { "" } else { "\n" };
            let (count, word) = if method == "GET" { (total.done, "to forget") } else { (total.forgotten, "forgotten") };
            eprint!("\r{} events looked at, {count} {word}{end}", total.seen);
        }
        *range = Range { since: slice.since, until: Some(slice.until) };
        match slice.next {
            Some(next) => from = Some(next),
            None => return Ok(total),
        }
    }
}

impl Total {
    fn add(&mut self, slice: &Slice) {
        self.seen += slice.seen;
        self.done += slice.done;
        self.in_flight += slice.in_flight;
        self.forgotten += slice.forgotten;
    }
}
