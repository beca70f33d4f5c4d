//! `hookonce queue`: what waits to be delivered, what has failed for good, and what an operator does about it.

mod bulk;
mod letter;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::caller::{Access, Caller, as_told, parsed};
use super::table::table;
use super::{UNUSABLE, fail, say};
use crate::config::Environment;
use crate::config::units::{self, Size};
use letter::{Letter, Letters, Queue, Queues, about, rough, target};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
What is in the queues, and what waits in one of them, the oldest first:
  hookonce queue ls
  hookonce queue ls stripe --older-than 1h

One event, by its own id as the log shows it or by that of its letter; --content prints
the delivery too, secrets in its headers included, and is noted in the audit:
  hookonce queue show stripe evt_1PqQ2 --content

The consumer is mended: try everything that has failed for good once more, or hurry what
waits for its next attempt. What is sent then carries `Hookonce-Maybe-Duplicate: replay`,
or the doubt that it had before:
  hookonce queue dead retry stripe --all
  hookonce queue retry stripe evt_1PqQ2

Nobody wants these any more: they are never delivered, and copies of them are duplicates:
  hookonce queue drop stripe evt_1PqQ2
  hookonce queue dead drop stripe --all --older-than 30d";

#[derive(Debug, clap::Subcommand)]
enum Action {
    #[command(flatten)]
    Any(Deed),
    /// The same for dead letters alone: events whose last attempt has failed
    Dead {
        #[command(subcommand)]
        deed: Deed,
    },
}

#[derive(Debug, clap::Subcommand)]
enum Deed {
    /// List what a queue holds, the oldest first, or count what all of them hold
    Ls(Ls),
    /// Show one event, with its content where that is asked for
    Show(Show),
    /// Have one event tried again now, or all of them
    Retry(Retry),
    /// Drop one event for good, or all that are old enough
    Drop(Drop),
}

#[derive(Debug, clap::Args)]
struct Ls {
    /// The provider, by its name in the configuration [default: count what every queue holds]
    provider: Option<String>,
    /// Only what was accepted this long ago or earlier, such as 1h
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "provider")]
    older_than: Option<Duration>,
    /// How many, at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..), requires = "provider")]
    limit: u64,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Its provider, by its name in the configuration
    provider: String,
    /// Its event's id as the log shows it, or its letter's
    id: String,
    /// Print the delivery as it came: method, URI, headers, body
    #[arg(long)]
    content: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, clap::Args)]
struct Retry {
    /// The provider, by its name in the configuration
    provider: String,
    /// The event's id as the log shows it, or its letter's; or --all
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// All of them, but for those under way and those that were never tried
    #[arg(long)]
    all: bool,
    /// Only what was accepted this long ago or earlier, such as 1h
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "all", conflicts_with = "id")]
    older_than: Option<Duration>,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, clap::Args)]
struct Drop {
    /// The provider, by its name in the configuration
    provider: String,
    /// The event's id as the log shows it, or its letter's; or --all
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// All that are old enough, but for those under way
    #[arg(long, requires = "older_than")]
    all: bool,
    /// Only what was accepted this long ago or earlier, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "all", conflicts_with = "id")]
    older_than: Option<Duration>,
    /// Do not ask
    #[arg(long, requires = "all", conflicts_with = "id")]
    yes: bool,
    /// Also while it is being delivered: the consumer may have it then
    #[arg(long, conflicts_with = "all")]
    force: bool,
    #[command(flatten)]
    access: Access,
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    units::duration(text).ok_or("write a duration with its unit, such as 1h")
}

pub fn run(args: &Args, environment: &Environment) -> ExitCode {
    let (deed, dead) = match &args.action {
        Action::Any(deed) => (deed, false),
        Action::Dead { deed } => (deed, true),
    };
    let done = match deed {
        Deed::Ls(ls) => ls.run(dead, environment),
        Deed::Show(show) => show.run(dead, environment),
        Deed::Retry(retry) => retry.run(dead, environment),
        Deed::Drop(drop) => drop.run(dead, environment),
    };
    done.map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

impl Ls {
    fn run(&self, dead: bool, environment: &Environment) -> Result<(), ExitCode> {
        let caller = self.access.caller(environment)?;
        match &self.provider {
            Some(provider) => self.list(&caller, provider, dead),
            None => self.count(&caller),
        }
    }

    fn count(&self, caller: &Caller) -> Result<(), ExitCode> {
        let body = caller.json("GET", "/api/queue", "")?;
        if self.access.json {
            say(as_told(&body));
            return Ok(());
        }
        let Queues { queues } = parsed(&body)?;
        if queues.is_empty() {
            say("no provider has a queue: none is configured with `mode = \"queue\"`");
        } else {
            let heads = ["provider", "events", "bytes", "oldest", "dead letters", "dead bytes"];
            say(table(heads, queues.iter().map(row_of)).trim_end());
        }
        Ok(())
    }

    fn list(&self, caller: &Caller, provider: &str, dead: bool) -> Result<(), ExitCode> {
        let mut letters = Letters::of(caller, provider, dead, self.older_than);
        let (mut found, mut is_more) = (Vec::new(), false);
        while let Some(letter) = letters.next()? {
            is_more = found.len() as u64 == self.limit;
            if is_more {
                break;
            }
            found.push(letter);
        }
        if self.access.json {
            say(json!({ "provider": provider, "letters": found, "more": is_more }));
        } else if found.is_empty() {
            let age = self.older_than.map(|age| format!(" older than {}", units::Written(age))).unwrap_or_default();
            say(format_args!("{provider}: no {}{age}", if dead { "dead letters" } else { "events in the queue" }));
        } else {
            let more = if is_more { "\n\nThere are more: --limit shows them." } else { "" };
            say(format_args!("{}{more}", letter::list(&found).trim_end()));
        }
        Ok(())
    }
}

fn row_of(queue: &Queue) -> [String; 6] {
    let Queue { provider, letters, bytes, dead, dead_bytes, oldest_age_s } = queue;
    let oldest = oldest_age_s.map_or_else(|| "-".to_owned(), rough);
    [provider.clone(), letters.to_string(), Size(*bytes).to_string(), oldest, dead.to_string(), Size(*dead_bytes).to_string()]
}

impl Show {
    fn run(&self, dead: bool, environment: &Environment) -> Result<(), ExitCode> {
        let content = if self.content { "&content=1" } else { "" };
        let target = format!("{}{content}", target(&self.provider, &self.id, "", dead));
        let body = self.access.caller(environment)?.json("GET", &target, "")?;
        if self.access.json {
            say(as_told(&body));
        } else {
            say(about(&parsed::<Letter>(&body)?, &self.provider).trim_end());
        }
        Ok(())
    }
}

impl Retry {
    fn run(&self, dead: bool, environment: &Environment) -> Result<(), ExitCode> {
        let caller = self.access.caller(environment)?;
        let Some(id) = &self.id else { return bulk::retry(&caller, self, dead) };
        let body = caller.json("POST", &target(&self.provider, id, "/retry", dead), "")?;
        self.access.tell(&body, format_args!("retried: {id} is sent as soon as it is its turn, marked as perhaps a second time"));
        Ok(())
    }
}

impl Drop {
    fn run(&self, dead: bool, environment: &Environment) -> Result<(), ExitCode> {
        let caller = self.access.caller(environment)?;
        let Some(id) = &self.id else {
            let how = || fail(UNUSABLE, "name an event by its id, or an age by --all and --older-than");
            return bulk::drop(&caller, self, self.older_than.ok_or_else(how)?, dead);
        };
        let force = if self.force { "&force=1" } else { "" };
        let body = caller.json("DELETE", &format!("{}{force}", target(&self.provider, id, "", dead)), "")?;
        self.access.tell(&body, format_args!("dropped: {id} is not delivered any more, and copies of it are duplicates"));
        Ok(())
    }
}
