//! `hookonce health`: asks the admin address of a running instance; for container health checks, which have no shell.

use std::process::ExitCode;

use super::caller::{PROBE_PATIENCE, Place};
use super::{FAILED, fail, say};
use crate::config::Environment;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Ask whether it is ready for traffic, not only alive
    #[arg(long)]
    pub ready: bool,
    #[command(flatten)]
    pub place: Place,
}

pub fn run(args: &Args, environment: &Environment) -> ExitCode {
    let caller = match args.place.caller(environment) {
        Ok(caller) => caller,
        Err(code) => return code,
    };
    let (path, word) = if args.ready { ("/readyz", "ready") } else { ("/healthz", "alive") };
    let url = format!("http://{}{path}", caller.address);
    match caller.ask("GET", path, "", PROBE_PATIENCE) {
        Ok(answer) if answer.status == 200 => {
            say(word);
            ExitCode::SUCCESS
        }
        Ok(answer) => fail(FAILED, format!("{url} answered {}", answer.status)),
        Err(error) => fail(FAILED, format!("{url} does not answer: {error}")),
    }
}
