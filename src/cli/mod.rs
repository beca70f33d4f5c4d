//! The command line: one file a command.

pub mod bypass;
pub mod caller;
pub mod check;
pub mod demo;
pub mod event;
pub mod health;
pub mod providers;
pub mod queue;
pub mod run;
pub mod send;
pub mod sign;
mod table;
pub mod verify;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::Environment;

/// Something went wrong while running.
const FAILED: u8 = 1;
/// The command line or the configuration cannot be used.
const UNUSABLE: u8 = 2;

/// Dedupes inbound webhooks in front of any consumer: forwards each event once, and marks what may be a second time.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Try it:
  hookonce demo

Put it in front of a consumer on port 3000, without a file and without a server:
  hookonce run --upstream http://127.0.0.1:3000 \\
      --provider github --secret-env GITHUB_SECRET --path /webhooks/github

With a configuration:
  hookonce check --config hookonce.toml
  hookonce run --config hookonce.toml";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve: verify deliveries, forward each event once, answer duplicates
    Run(run::Args),
    /// Check configuration, secrets, store and upstream, and show where each value came from
    Check(check::Args),
    /// See it work: the real proxy, a built-in consumer, signed deliveries with duplicates
    Demo(demo::Args),
    /// List the providers that hookonce knows, or tell all about one
    Providers(providers::Args),
    /// Sign a delivery as a provider would, and print it
    Sign(sign::Args),
    /// Send a signed delivery, several times for duplicates
    Send(send::Args),
    /// Judge a saved request as hookonce would: signature, timestamp, event id, and what is wrong
    Verify(verify::VerifyArgs),
    /// Show what a running instance knows of an event, or let events through again
    Event(event::Args),
    /// Show what waits in the queue of a running instance, have it tried again, or drop it
    Queue(queue::Args),
    /// Let a provider's done events through again for a while, marked
    Bypass(bypass::Args),
    /// Ask a running instance whether it is alive, or ready
    Health(health::Args),
}

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let environment = Environment::of_process();
    match Cli::parse().command {
        Command::Run(args) => run::run(&args, &environment),
        Command::Check(args) => check::main(&args, &environment),
        Command::Demo(args) => demo::run(&args),
        Command::Providers(args) => providers::run(&args),
        Command::Sign(args) => sign::run(&args),
        Command::Send(args) => send::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Event(args) => event::run(&args, &environment),
        Command::Queue(args) => queue::run(&args, &environment),
        Command::Bypass(args) => bypass::run(&args, &environment),
        Command::Health(args) => health::run(&args, &environment),
    }
}

/// A small runtime for a command that is not serving.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, io::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    // A thread of its own may still wait for something; whoever told the program to end at once does not.
    runtime.shutdown_background();
    Ok(result)
}

/// Prints a line. That nobody reads it is no reason to fail.
fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Asks whoever sits there; nobody does where the input is no terminal.
fn is_wanted(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    eprint!("{question} [y/N] ");
    // An input or output that is gone is a no.
    let _ = io::stderr().flush();
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}

fn fail(code: u8, error: impl std::fmt::Display) -> ExitCode {
    eprintln!("hookonce: {error}");
    ExitCode::from(code)
}
