//! `hookonce health`: asks the admin address of a running instance; for container health checks, which have no shell.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use super::{FAILED, UNUSABLE, fail};
use crate::config::problem::Report;
use crate::config::{Config, Environment, Flags};

/// A probe that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(3);
/// The answer's head, and more than enough of it.
const ANSWER_BYTES_MAX: u64 = 4096;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Ask whether it is ready for traffic, not only alive
    #[arg(long)]
    pub ready: bool,
    /// Configuration file of the instance, to find its admin address
    #[arg(long, value_name = "FILE")]
    pub config: Option<std::path::PathBuf>,
    /// Its admin address [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
}

pub fn run(args: &Args, environment: &Environment) -> ExitCode {
    let flags = Flags { config: args.config.clone(), admin: args.admin.clone(), ..Flags::default() };
    let address = match Config::admin_address(&flags, environment) {
        Ok(address) => reachable(address),
        Err(problems) => {
            eprint!("{}", Report { word: "error", problems: &problems });
            return ExitCode::from(UNUSABLE);
        }
    };
    let path = if args.ready { "/readyz" } else { "/healthz" };
    match ask(address, path) {
        Ok(status) if status.starts_with("HTTP/1.1 200") => {
            println!("{}", if args.ready { "ready" } else { "alive" });
            ExitCode::SUCCESS
        }
        Ok(status) => fail(FAILED, format!("http://{address}{path} answered {}", status.trim_start_matches("HTTP/1.1 "))),
        Err(error) => fail(FAILED, format!("http://{address}{path} does not answer: {error}")),
    }
}

/// An instance that listens everywhere listens on this machine too.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    address
}

/// The status line of the answer.
fn ask(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    Ok(text.lines().next().unwrap_or("nothing").to_owned())
}
