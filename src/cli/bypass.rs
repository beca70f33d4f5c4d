//! `hookonce bypass`: lets a provider's done events through again for a while, at every instance.

use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::caller::{Access, as_told, encoded, parsed};
use super::say;
use crate::admin::bypass::LONGEST;
use crate::config::Environment;
use crate::config::units::{self, Written};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The provider, by its name in the configuration [default: show every bypass that is on]
    provider: Option<String>,
    /// Begin a bypass that ends by itself after this long, such as 30m; 24h at most
    #[arg(long = "for", id = "for", value_name = "DURATION", value_parser = length, requires = "provider")]
    length: Option<Duration>,
    /// End it now
    #[arg(long, conflicts_with = "for", requires = "provider")]
    end: bool,
    #[command(flatten)]
    access: Access,
}

const EXAMPLES: &str = "\
Have a provider send a day's events again and let all of them through:
  hookonce bypass stripe --for 30m
  hookonce bypass stripe              how long it goes on
  hookonce bypass stripe --end

What was done before is forwarded with `Hookonce-Maybe-Duplicate: replay`. The provider's
own duplicates get through as well meanwhile, marked alike; copies at the same time are
still forwarded once. To name events instead: hookonce event forget --help.";

/// What the instance would refuse is a mistake of the command line.
fn length(text: &str) -> Result<Duration, String> {
    let length = units::duration(text).ok_or("write a duration with its unit, such as 30m")?;
    let is_fit = !length.is_zero() && length <= LONGEST;
    if is_fit { Ok(length) } else { Err(format!("a bypass lasts up to {}", Written(LONGEST))) }
}

/// A bypass as the instance tells of it.
#[derive(Debug, Deserialize)]
struct Bypass {
    provider: String,
    until: Option<String>,
    left_s: u64,
}

#[derive(Debug, Deserialize)]
struct All {
    bypasses: Vec<Bypass>,
}

pub fn run(args: &Args, environment: &Environment) -> ExitCode {
    ask(args, environment).map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

fn ask(args: &Args, environment: &Environment) -> Result<(), ExitCode> {
    let caller = args.access.caller(environment)?;
    let target = match &args.provider {
        Some(provider) => format!("/api/bypass/{}", encoded(provider)),
        None => "/api/bypass".to_owned(),
    };
    let body = match args.length {
        Some(length) => caller.json("PUT", &target, &json!({ "for": Written(length).to_string() }).to_string())?,
        None if args.end => caller.json("DELETE", &target, "")?,
        None => caller.json("GET", &target, "")?,
    };
    if args.access.json {
        say(as_told(&body));
    } else if args.provider.is_some() {
        say(parsed::<Bypass>(&body)?.told());
    } else {
        let All { bypasses } = parsed(&body)?;
        if bypasses.is_empty() {
            say("no provider is bypassed");
        }
        bypasses.iter().for_each(|bypass| say(bypass.told()));
    }
    Ok(())
}

impl Bypass {
    fn told(&self) -> String {
        let Self { provider, until, left_s } = self;
        match until {
            Some(until) => {
                let left = Written(Duration::from_secs(*left_s));
                format!("{provider}: bypassed until {until}, another {left}; done events are forwarded again, marked `replay`")
            }
            None => format!("{provider}: not bypassed"),
        }
    }
}
