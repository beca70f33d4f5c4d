//! `hookonce providers`: the catalogue as a table, and everything about one of them.

pub mod choice;
mod page;

use std::process::ExitCode;

use serde::Serialize;

use super::{FAILED, UNUSABLE, fail, say};
use crate::config::reader::nearest;
use crate::scheme::preset::{self, Preset};
use page::Page;

/// List the providers that hookonce knows, or tell all about one
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A provider, or part of a name to search for
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print JSON, for scripts
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the catalogue as a page of documentation
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

const EXAMPLES: &str = "\
Examples:
  hookonce providers            # all of them
  hookonce providers pay        # those with \"pay\" in their name
  hookonce providers stripe     # what it takes to connect Stripe";

pub fn run(args: &Args) -> ExitCode {
    let all = || preset::names().into_iter().filter_map(preset::find);
    let name = args.name.as_deref().map(str::to_lowercase);
    if let Some(found) = name.as_deref().and_then(preset::find) {
        return show(found, args.json);
    }
    let matches = |preset: &&'static Preset| {
        let name = name.as_deref().unwrap_or_default();
        preset.name.contains(name) || preset.title().to_lowercase().contains(name) || preset.aliases().any(|it| it.contains(name))
    };
    let pages: Result<Vec<Page>, String> = all().filter(matches).map(Page::of).collect();
    match pages {
        Err(error) => fail(UNUSABLE, error),
        Ok(pages) if pages.is_empty() => {
            let name = name.unwrap_or_default();
            let hint = "your own sender is a few lines: see docs/schemes.md";
            fail(UNUSABLE, format!("no provider is called \"{name}\": {}; {hint}", nearest(&name, &preset::names())))
        }
        Ok(pages) => list(args, &pages),
    }
}

fn show(preset: &'static Preset, json: bool) -> ExitCode {
    match Page::of(preset) {
        Ok(page) if json => return told(&page.facts()),
        Ok(page) => say(page.in_full().trim_end()),
        Err(error) => return fail(UNUSABLE, error),
    }
    ExitCode::SUCCESS
}

fn list(args: &Args, pages: &[Page]) -> ExitCode {
    if args.json {
        return told(&pages.iter().map(Page::facts).collect::<Vec<_>>());
    }
    let text = if args.markdown { page::markdown(pages) } else { page::table(pages) };
    say(text.trim_end());
    ExitCode::SUCCESS
}

/// For scripts: one line, keys in the order in which they are written down.
fn told(facts: &impl Serialize) -> ExitCode {
    match serde_json::to_string(facts) {
        Ok(json) => {
            say(json);
            ExitCode::SUCCESS
        }
        Err(error) => fail(FAILED, error),
    }
}
