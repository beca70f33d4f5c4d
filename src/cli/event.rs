//! `hookonce event`: what a running instance knows of an event, and letting events through again on purpose.

mod range;
mod table;

use std::process::ExitCode;

use serde::Deserialize;

use super::caller::{Access, Caller, as_told, encoded, encoded_id, parsed};
use super::{UNUSABLE, fail, say};
use crate::admin::moment::Moment;
use crate::config::Environment;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
What became of an event, by its id as the log and Hookonce-Event-Id show it:
  hookonce event show stripe evt_1PqQ2

The consumer lost what it had accepted: let the next delivery of one event through,
or of everything that was done in two hours, then have the provider send them again:
  hookonce event forget stripe evt_1PqQ2
  hookonce event forget --provider stripe --since 2h

Forwards that follow carry `Hookonce-Maybe-Duplicate: forgotten`. To let a provider's
redeliveries through without naming them, for a while: hookonce bypass --help.";

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show what is known of one event
    Show(One),
    /// Show the events whose id begins so, 100 at most
    Find(Beginning),
    /// Let the next delivery of an event through, or of all that were done within a time
    #[command(override_usage = FORGET_USAGE)]
    Forget(Forget),
}

const FORGET_USAGE: &str = "\
hookonce event forget [OPTIONS] <PROVIDER> <ID>
       hookonce event forget [OPTIONS] --provider <NAME> --since <TIME> [--until <TIME>]";

#[derive(Debug, clap::Args)]
struct One {
    /// Its provider, by its name in the configuration
    provider: String,
    /// Its id, as the log shows it
    id: String,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, clap::Args)]
struct Beginning {
    /// Their provider, by its name in the configuration
    provider: String,
    /// What their ids begin with
    #[arg(default_value = "")]
    prefix: String,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, clap::Args)]
struct Forget {
    /// Its provider, by its name in the configuration
    #[arg(required_unless_present = "of", requires = "id")]
    provider: Option<String>,
    /// Its id, as the log shows it
    id: Option<String>,
    /// The provider whose events are forgotten, by the time they were done
    #[arg(long = "provider", id = "of", value_name = "NAME", conflicts_with = "provider", requires = "since")]
    of: Option<String>,
    /// From when: 2026-11-16T05:20:00Z, seconds since 1970, or how long ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "provider", requires = "of")]
    since: Option<String>,
    /// Until when, written alike [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "provider", requires = "of")]
    until: Option<String>,
    /// Do not ask
    #[arg(long, conflicts_with = "provider", requires = "of")]
    yes: bool,
    #[command(flatten)]
    access: Access,
}

/// A time is sent as it was written: the instance's clock is the one that counts.
fn moment(text: &str) -> Result<String, &'static str> {
    text.parse::<Moment>().map(|_| text.to_owned())
}

pub fn run(args: &Args, environment: &Environment) -> ExitCode {
    let done = match &args.action {
        Action::Show(one) => show(one, environment),
        Action::Find(beginning) => find(beginning, environment),
        Action::Forget(forget) => forget.run(environment),
    };
    done.map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

/// An event as the instance tells of it.
#[derive(Debug, Deserialize)]
struct Event {
    id: String,
    state: String,
    attempt: u32,
    status: Option<u16>,
    #[serde(default)]
    dropped: bool,
    doubt: Option<String>,
    at: String,
    remembered_until: Option<String>,
    lease_left_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Found {
    events: Vec<Event>,
    limit: usize,
}

fn show(one: &One, environment: &Environment) -> Result<(), ExitCode> {
    let body = one.access.caller(environment)?.json("GET", &target(&one.provider, &one.id), "")?;
    if one.access.json {
        say(as_told(&body));
    } else {
        let event: Event = parsed(&body)?;
        let outlook = event.outlook();
        say(format_args!("{}\n{outlook}", table::of(&[event])));
    }
    Ok(())
}

fn find(beginning: &Beginning, environment: &Environment) -> Result<(), ExitCode> {
    let target = format!("/api/events?provider={}&id={}", encoded(&beginning.provider), encoded(&beginning.prefix));
    let body = beginning.access.caller(environment)?.json("GET", &target, "")?;
    if beginning.access.json {
        say(as_told(&body));
    } else {
        let Found { events, limit } = parsed(&body)?;
        let more = if events.len() >= limit { "\n\nThere may be more." } else { "" };
        say(format_args!("{}{more}", table::of(&events).trim_end()));
    }
    Ok(())
}

impl Forget {
    fn run(&self, environment: &Environment) -> Result<(), ExitCode> {
        let caller = || self.access.caller(environment);
        match (self.provider.as_deref().zip(self.id.as_deref()), self.of.as_deref().zip(self.since.as_deref())) {
            (Some((provider, id)), None) => self.one(&caller()?, provider, id),
            (None, Some((provider, since))) => range::forget(&caller()?, self, provider, since),
            _ => Err(fail(UNUSABLE, "name an event by its provider and id, or a time by --provider and --since")),
        }
    }

    fn one(&self, caller: &Caller, provider: &str, id: &str) -> Result<(), ExitCode> {
        let body = caller.json("DELETE", &target(provider, id), "")?;
        self.access.tell(&body, format_args!("forgotten: the next delivery of {id} is forwarded, marked `forgotten`"));
        Ok(())
    }
}

impl Event {
    /// What its next delivery will meet.
    fn outlook(&self) -> String {
        let marked = |mark: &str| format!("Its next delivery is forwarded, marked `{mark}`.");
        match (self.state.as_str(), &self.doubt, self.lease_left_ms) {
            ("done", ..) if self.dropped => {
                "Dropped by an operator before the consumer had accepted it. Its next delivery is answered as a duplicate."
                    .to_owned()
            }
            ("queued", ..) => {
                "It is in the queue, or a dead letter (hookonce queue show). Its next delivery is answered as a duplicate."
                    .to_owned()
            }
            ("done", ..) => "Its next delivery is answered as a duplicate.".to_owned(),
            ("claimed", doubt, None | Some(0)) => {
                format!("Nobody has settled it in time. {}", marked(doubt.as_deref().unwrap_or("unknown")))
            }
            ("claimed", _, Some(left)) => {
                format!(
                    "The consumer is at work on it: a copy waits for the outcome. The lease has {left} ms left, unless renewed."
                )
            }
            (_, Some(doubt), _) => marked(doubt),
            (_, None, _) => "Its next delivery is forwarded.".to_owned(),
        }
    }
}

fn target(provider: &str, id: &str) -> String {
    format!("/api/events/{}/{}", encoded(provider), encoded_id(id))
}
