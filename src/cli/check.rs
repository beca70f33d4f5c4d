//! `hookonce check`: everything that can be known before traffic. Nothing here writes to the store or calls a path of
//! the consumer.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::config::problem::Report;
use crate::config::{Config, Environment, Flags, Loaded, Setting, StoreUrl, Tls, TraceConfig, Upstream};
use crate::pipeline::now;
use crate::pipeline::upstream::{self, Upstreams};
use crate::store::{Keeping, StoreError, StoreSource};
use crate::telemetry::trace::export::Collector;

/// A value longer than this stands alone, so that one long scheme does not push every origin out of sight.
const VALUE_WIDTH_MAX: usize = 40;

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

pub fn main(args: &Args, environment: &Environment) -> ExitCode {
    let checked = super::block_on(run(args, environment, reach, &mut io::stdout()));
    match checked.and_then(|result| result) {
        Ok(code) => code,
        Err(error) => super::fail(super::FAILED, error),
    }
}

/// Asks the store, every upstream and the collector once.
async fn reach(config: &Config) -> Vec<Probe> {
    let mut probes = vec![Probe { name: format!("store {}", config.store.url.masked()), result: reach_store(config).await }];
    let mut seen: Vec<&Upstream> = Vec::new();
    for provider in &config.providers {
        if !seen.contains(&&provider.upstream) {
            seen.push(&provider.upstream);
            let result = reach_upstream(&provider.upstream).await;
            probes.push(Probe { name: format!("upstream {}", provider.upstream.0), result });
        }
    }
    if let Some(tls) = &config.tls {
        probes.push(Probe { name: "certificate".to_owned(), result: good_until(tls) });
    }
    if let Some(trace) = &config.trace {
        probes.push(Probe { name: format!("trace {}", trace.endpoint), result: reach_collector(trace).await });
    }
    probes
}

async fn reach_store(config: &Config) -> Result<String, String> {
    if let StoreUrl::File(path) = &config.store.url
        && !path.exists()
    {
        return Ok("will be made at the first start".to_owned());
    }
    let words = |error: StoreError| error.to_string();
    let store = StoreSource::open(&config.store).map_err(words)?.connect().map_err(words)?;
    store.pulse(&config.store.marker()).await.map_err(words)?;
    if config.has_queue()
        && !config.queue.accept_loss
        && let Keeping::Lossy(why) = store.keeping().await.map_err(words)?
    {
        return Err(format!("mode = \"queue\" acknowledges events that it can lose: {why}; or set accept_loss"));
    }
    match store.about().await.map_err(words)? {
        Some(about) if about.evicts() => {
            Err(format!("maxmemory-policy is {}: forgotten events would be forwarded again; set noeviction", about.policy))
        }
        Some(about) => Ok(format!("answers, version {}", about.version)),
        None => Ok("can be opened".to_owned()),
    }
}

fn good_until(tls: &Tls) -> Result<String, String> {
    match tls.expires {
        Some(end) if tls.is_expired(now()) => Err(format!("ended at {}", humantime::format_rfc3339_seconds(end))),
        Some(end) => Ok(format!("good until {}", humantime::format_rfc3339_seconds(end))),
        None => Ok("can be used; when it ends cannot be read".to_owned()),
    }
}

async fn reach_upstream(upstream: &Upstream) -> Result<String, String> {
    let upstreams = Upstreams::new().map_err(|error| error.to_string())?;
    upstreams.probe(upstream).await.map_err(|error| error.to_string())?;
    Ok("takes connections".to_owned())
}

async fn reach_collector(trace: &TraceConfig) -> Result<String, String> {
    let connector = upstream::connector(upstream::public_roots()).map_err(|error| error.to_string())?;
    Collector::new(trace, connector).probe().await?;
    Ok("takes spans".to_owned())
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
            return Ok(ExitCode::from(super::UNUSABLE));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How `check` ends, and what it prints.
    async fn check(store: &str, probes: fn() -> Vec<Probe>) -> (String, String) {
        let flag = |text: &str| Some(text.to_owned());
        let flags = Flags {
            upstream: flag("http://127.0.0.1:3000"),
            store: flag(store),
            provider: flag("stripe"),
            secret_env: flag("SECRET"),
            ..Flags::default()
        };
        let environment = Environment::from([("SECRET", "0123456789abcdef")]);
        let mut out = Vec::new();
        let code = run(&Args { flags }, &environment, async |_: &Config| probes(), &mut out).await.unwrap();
        (format!("{code:?}"), String::from_utf8(out).unwrap())
    }

    #[tokio::test]
    async fn usable_configuration_is_shown_with_its_origins() {
        let (code, text) = check("memory:", || vec![Probe { name: "store memory:".into(), result: Ok("answers".into()) }]).await;
        assert_eq!(code, format!("{:?}", ExitCode::SUCCESS));
        for line in [
            "upstream        = \"http://127.0.0.1:3000\"  # flag --upstream\n",
            "# flag --store\n",
            "# preset stripe\n",
            "ok: store memory:: answers\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_reached_fails_the_check() {
        let (code, text) = check("memory:", || vec![Probe { name: "upstream".into(), result: Err("refused".into()) }]).await;
        assert_eq!(code, format!("{:?}", ExitCode::FAILURE));
        assert!(text.ends_with("error: upstream: refused\n"), "{text}");
    }

    #[tokio::test]
    async fn unusable_configuration_ends_before_anything_is_reached() {
        let (code, text) = check("postgres://db", || unreachable!("nothing is asked")).await;
        assert_eq!(code, format!("{:?}", ExitCode::from(2)));
        assert!(text.starts_with("error: flag --store: store.url: PostgreSQL is not built yet\n"), "{text}");
    }
}
