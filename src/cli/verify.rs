//! `hookonce verify`: a saved request against a preset, step by step, and which of the usual causes it is.
//!
//! Neither a secret nor an expected signature is ever printed.

mod cases;
mod causes;
mod explain;
mod judge;
mod request;

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::providers::choice;
use crate::config::Secret;
use judge::{KeyMaterial, Trial};
use request::SavedRequest;

/// Check a saved request against a preset.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// The preset to judge by.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["cases", "preset_file"])]
    preset: Option<String>,
    /// A file with a scheme of your own to judge by, as in `[providers.NAME]`.
    #[arg(long, value_name = "TOML", conflicts_with = "preset")]
    preset_file: Option<PathBuf>,
    /// A secret, taken as it is; may be given several times.
    #[arg(long = "secret", value_name = "VALUE", allow_hyphen_values = true, value_parser = untouched)]
    secrets: Vec<Secret>,
    /// Variable that holds a secret; may be given several times.
    #[arg(long = "secret-env", value_name = "VARIABLE")]
    secret_variables: Vec<String>,
    /// A public key, for presets that verify with one.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    public_key: Option<String>,
    /// The identifier that belongs to the secret, for presets that select by it.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    key_id: Option<String>,
    /// The URL that the provider called, for presets that sign it.
    #[arg(long, value_name = "URL", visible_alias = "public-url")]
    url: Option<String>,
    /// Judge as of this moment instead of now.
    #[arg(long, value_name = "UNIX_SECONDS")]
    at: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Judge every line of a file of cases and print one JSON object for each. For the checks of this project, so not in the help.
    #[arg(long, value_name = "CASES", hide = true, conflicts_with_all = [
        "preset", "secrets", "secret_variables", "public_key", "key_id", "url", "at", "file",
    ])]
    cases: Option<PathBuf>,
    /// The raw HTTP/1.1 request: head, blank line, body bytes as they are. `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "cases")]
    file: Option<PathBuf>,
}

/// The largest request that is read: what the largest provider sends, twice over.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// Runs the command: 0 where the request is valid (or every case could be read), 1 where it is not, 2 for a usage error.
pub fn run(args: &VerifyArgs) -> ExitCode {
    let mut out = io::stdout().lock();
    let ended = match &args.cases {
        Some(path) => judge_cases(args, path, &mut out).map(|()| true),
        None => judge_one(args, &mut out),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("hookonce verify: {error}");
            ExitCode::from(2)
        }
    }
}

/// A secret is taken as it is: a space at its end may well be the cause that is looked for.
fn untouched(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

fn judge_cases(args: &VerifyArgs, path: &Path, out: &mut impl Write) -> Result<(), String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let own = args.preset_file.as_deref().map(choice::of_file).transpose()?;
    cases::judge_all(BufReader::new(file), own, out)
}

/// Judges one request and says whether it is valid.
fn judge_one(args: &VerifyArgs, out: &mut impl Write) -> Result<bool, String> {
    let Some(path) = &args.file else { return Err("FILE is needed".to_owned()) };
    let preset = choice::preset(args.preset.as_deref(), args.preset_file.as_deref())?;
    let trial = Trial::new(preset, args.at.map_or_else(clock, since_epoch), args.url.as_deref())?;
    let keys = key_material(args, &trial)?;
    let request = SavedRequest::parse(&read(path)?)?;
    let judgement = trial.judge(&keys, &request);
    let text = if args.json {
        let json = serde_json::to_string(&judgement.verdict()).map_err(|error| error.to_string())?;
        format!("{json}\n")
    } else {
        explain::explanation(&trial, &keys, &request, &judgement)
    };
    out.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(judgement.is_valid())
}

/// What the preset verifies with, or what is missing.
fn key_material(args: &VerifyArgs, trial: &Trial) -> Result<KeyMaterial, String> {
    let (scheme, name) = (&trial.compiled.scheme, trial.preset.name);
    if scheme.signs_url() && args.url.is_none() {
        return Err(format!("--url is needed: the provider of the preset \"{name}\" signs the URL that it calls"));
    }
    let secrets = if scheme.takes_public_keys() {
        let key =
            args.public_key.as_ref().ok_or_else(|| format!("--public-key is needed to verify with the preset \"{name}\""))?;
        vec![Secret::new(key.as_bytes())]
    } else {
        let held = args.secret_variables.iter().map(|name| choice::secret_of(name));
        args.secrets.iter().cloned().map(Ok).chain(held).collect::<Result<_, _>>()?
    };
    if secrets.is_empty() {
        return Err(format!("--secret is needed, or --secret-env, to verify with the preset \"{name}\""));
    }
    Ok(KeyMaterial { secrets, id: args.key_id.clone() })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().take(REQUEST_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(REQUEST_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    match read {
        Err(error) => Err(format!("{}: {error}", path.display())),
        Ok(length) if length as u64 > REQUEST_BYTES_MAX => Err(format!("{}: is longer than 64 MiB", path.display())),
        Ok(_) => Ok(bytes),
    }
}

#[expect(clippy::disallowed_methods, reason = "a command of its own: no delivery is judged by this clock")]
fn clock() -> SystemTime {
    SystemTime::now()
}

/// The end of the year 9999. Later moments are cut down to it, so that no sum runs over.
const LATEST_SECONDS: u64 = 253_402_300_799;

fn since_epoch(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.min(LATEST_SECONDS))
}

#[cfg(test)]
mod tests;
