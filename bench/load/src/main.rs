//! The load of `scripts/bench`, and what a measured proxy has around it. One thread, so that it takes at most one core from the proxy.

mod alarm;
mod connection;
mod consumer;
mod delivery;
mod desk;
mod figures;
mod floor;
mod hold;
mod options;
mod pace;
mod relay;
mod schedule;

use std::error::Error;
use std::process::ExitCode;

use options::Options;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// Whatever ends a command before its time; it is only told to whoever started it.
type Trouble = Box<dyn Error>;

const HELP: &str = "\
Load for a proxy, and what stands around it. scripts/bench uses it; by hand it is:

hookonce-load pace --to ADDRESS[,ADDRESS] --secret SECRET
    Signed deliveries as GitHub makes them, and how long their answers took, as JSON.
    --rate N          deliveries a second in all, sent when they are due whatever became of those before; latency counts from then.
                      0 (the default) sends the next when the last was answered: the most that the connections can do.
    --seconds N       how long (5)
    --count N         how many at most; without it only the time counts
    --connections N   kept alive, from 500 an address of 127.0.0.0/8 on (64)
    --duplicates N    percent that repeat an event that was answered before (0)
    --forged yes      the signature is wrong, and 401 is the right answer
    --body N          bytes a body; each is another one (2048)
    --path PATH       where to; {} in it counts from 0 to --paths (/github)
    --paths N         (1)
    --run NAME        first part of every id: another one makes other events (run)

hookonce-load hold --to ADDRESS --secret SECRET --connections N
    Opens connections, sends one delivery on each, says how many it holds, and holds them until its input ends.

hookonce-load relay --to ADDRESS --delay 1ms
    Says where it listens, and passes on what comes, half the delay later in each direction: a round trip takes that much longer.

hookonce-load consumer --delay 100ms
    Says where it listens, and answers 200 that much later.

hookonce-load floor --consumer ADDRESS --redis ADDRESS --secret SECRET
    Says where it listens, and is the least that a proxy for deliveries could be: what is not a socket or a hash is left out.";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    if matches!(command.as_str(), "" | "help" | "--help" | "-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match run(&command, words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("hookonce-load {command}: {trouble}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, words: impl Iterator<Item = String>) -> Result<(), Trouble> {
    let options = Options::read(words)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    match command {
        "pace" => local.block_on(&runtime, pace::run(&options)),
        "hold" => hold::run(&local, &runtime, &options),
        "relay" => local.block_on(&runtime, relay::run(&options)),
        "consumer" => local.block_on(&runtime, consumer::run(&options)),
        "floor" => floor::run(&options),
        _ => Err("no such command; try --help".into()),
    }
}
