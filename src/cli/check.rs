//! `hookonce check`: everything that can be known before traffic. Nothing here writes to the store or calls a path of
//! the consumer.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::config::problem::Report;
use crate::config::{Config, Environment, Flags, Loaded, Setting};

/// A value longer than this stands alone, so that one long scheme does not push every origin out of sight.
const VALUE_WIDTH_MAX: usize = 40;

/// The configuration cannot be used: the same code as for a wrong command line.
const UNUSABLE: u8 = 2;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub flags: Flags,
}

/// Something outside of the process that was asked, and its answer in words.
#[derive(Debug)]
pub struct Probe {
    /// `store redis://127.0.0.1:6379`, `upstream http://127.0.0.1:3000`.
    pub name: String,
    pub result: Result<String, String>,
}

/// Checks the configuration, then asks `reach` for the store and the upstreams. Fails if any of them does.
pub async fn run(
    args: &Args,
    environment: &Environment,
    reach: impl AsyncFn(&Config) -> Vec<Probe>,
    out: &mut impl Write,
) -> io::Result<ExitCode> {
    let loaded = match Config::load(&args.flags, environment) {
        Ok(loaded) => loaded,
        Err(problems) => {
            write!(out, "{}", Report { word: "error", problems: &problems })?;
            return Ok(ExitCode::from(UNUSABLE));
        }
    };
    print_config(&loaded, out)?;
    let probes = reach(&loaded.config).await;
    print_probes(&probes, out)?;
    let is_ready = probes.iter().all(|probe| probe.result.is_ok());
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints every setting with where it was written, then the warnings.
pub fn print_config(loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    for section in &loaded.config.sections {
        print_section(section.name, &section.settings, out)?;
    }
    for provider in &loaded.config.providers {
        print_section(&format!("providers.{}", provider.name), &provider.settings, out)?;
    }
    write!(out, "{}", Report { word: "warning", problems: &loaded.warnings })
}

fn print_section(name: &str, settings: &[Setting], out: &mut impl Write) -> io::Result<()> {
    if !name.is_empty() {
        writeln!(out, "[{name}]")?;
    }
    let key_width = settings.iter().map(|setting| setting.key.len()).max().unwrap_or_default();
    let value_widths = settings.iter().map(|setting| setting.value.chars().count());
    let value_width = value_widths.filter(|width| *width <= VALUE_WIDTH_MAX).max().unwrap_or_default();
    for Setting { key, value, origin } in settings {
        writeln!(out, "{key:key_width$} = {value:value_width$}  # {origin}")?;
    }
    writeln!(out)
}

fn print_probes(probes: &[Probe], out: &mut impl Write) -> io::Result<()> {
    for Probe { name, result } in probes {
        match result {
            Ok(answer) => writeln!(out, "ok: {name}: {answer}")?,
            Err(failure) => writeln!(out, "error: {name}: {failure}")?,
        }
    }
    Ok(())
}
