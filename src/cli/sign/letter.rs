//! A delivery in the making, for `sign` and `send`: the preset's sample or a body of one's own, the event's id where the
//! preset finds it, signed with its scheme.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::config::Secret;
use crate::config::reader::nearest;
use crate::scheme::preset::{self, Compiled, Preset};
use crate::scheme::{Draft, Key, PublicUrl};

#[derive(Debug, clap::Args)]
pub struct LetterArgs {
    /// The provider to play
    #[arg(long, value_name = "NAME", required_unless_present = "preset_file")]
    pub preset: Option<String>,
    /// A file with a scheme of your own, as in `[providers.NAME]`
    #[arg(long, value_name = "TOML", conflicts_with = "preset")]
    pub preset_file: Option<PathBuf>,
    /// The secret to sign with, taken as it is
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, conflicts_with = "secret_env")]
    pub secret: Option<String>,
    /// Variable that holds the secret
    #[arg(long, value_name = "VARIABLE")]
    pub secret_env: Option<String>,
    /// Private key (PKCS#8, PEM) to sign with, where the provider is verified with a public one
    #[arg(long, value_name = "FILE")]
    pub private_key: Option<PathBuf>,
    /// The identifier that belongs to the secret, for providers that name their keys
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub key_id: Option<String>,
    /// The URL as it stands at the provider, where that is signed
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// The event's id [default: a new one]
    #[arg(long, value_name = "ID")]
    pub event_id: Option<String>,
    /// The body [default: the preset's sample]
    #[arg(long, value_name = "TEXT", conflicts_with = "body")]
    pub data: Option<String>,
    /// A file with the body, taken byte for byte
    #[arg(long, value_name = "FILE")]
    pub body: Option<PathBuf>,
    /// A header to send along; may be given several times
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Sign as of this moment instead of now
    #[arg(long, value_name = "UNIX_SECONDS")]
    pub at: Option<u64>,
}

impl LetterArgs {
    /// One signed delivery to this URL.
    pub fn draft(&self, to: &str) -> Result<Draft, String> {
        let preset = self.preset()?;
        let mut compiled = preset.compile().map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            told.join("\n")
        })?;
        let public_url = self.public_url.as_deref().unwrap_or(to);
        let public_url = PublicUrl::parse(public_url).map_err(|what| format!("{public_url} {what}"))?;
        compiled.scheme = compiled.scheme.at_url(Some(public_url));
        let key = self.key(preset, &compiled)?;
        let now = self.now();
        let mut draft = self.unsigned(preset, &compiled, to, now)?;
        compiled.scheme.sign(&key, &mut draft, now).map_err(|error| format!("{}: {error}", preset.name))?;
        Ok(draft)
    }

    fn preset(&self) -> Result<&'static Preset, String> {
        match (&self.preset, &self.preset_file) {
            (_, Some(path)) => Preset::of_file(path),
            (Some(name), None) => preset::find(name).ok_or_else(|| {
                format!("there is no preset \"{name}\": {}; `hookonce providers` lists them", nearest(name, &preset::names()))
            }),
            (None, None) => Err("--preset is needed".to_owned()),
        }
    }

    fn key(&self, preset: &Preset, compiled: &Compiled) -> Result<Key, String> {
        let scheme = &compiled.scheme;
        let key = if scheme.takes_public_keys() {
            let path = self
                .private_key
                .as_ref()
                .ok_or_else(|| format!("--private-key is needed: what {} signs is verified with a public key", preset.title()))?;
            let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            scheme.signing_key(&Secret::new(pem)).map_err(|why| format!("{} {why}", path.display()))?
        } else {
            let secret = self.secret()?.ok_or("--secret is needed, or --secret-env")?;
            scheme.key(&secret).map_err(|why| format!("the secret {why}"))?
        };
        Ok(key.with_id(self.key_id.clone()))
    }

    fn secret(&self) -> Result<Option<Secret>, String> {
        let Some(name) = &self.secret_env else { return Ok(self.secret.as_deref().map(Secret::new)) };
        let environment = crate::config::Environment::of_process();
        let value = environment.var(name).ok_or_else(|| format!("the variable {name} is not set"))?;
        Ok(Some(Secret::new(value)))
    }

    /// What is sent before it is signed.
    fn unsigned(&self, preset: &Preset, compiled: &Compiled, to: &str, now: SystemTime) -> Result<Draft, String> {
        let id = match &self.event_id {
            Some(id) => id.clone(),
            None => new_id()?,
        };
        let fill = |text: &str| filled(text, &id, now);
        let sample = preset.sample();
        let own = match (&self.data, &self.body) {
            (Some(text), _) => Some(Bytes::from(text.clone())),
            (None, Some(path)) => Some(read(path)?),
            (None, None) => None,
        };
        let is_own = own.is_some();
        let body = own.unwrap_or_else(|| fill(sample.body).into());
        let uri = to.parse().map_err(|_| format!("{to} is not a URL"))?;
        let mut draft = Draft { method: Method::POST, uri, headers: HeaderMap::new(), body };
        draft.headers.insert(CONTENT_TYPE, HeaderValue::from_str(sample.content_type).map_err(|error| error.to_string())?);
        for (name, value) in sample.headers {
            put(&mut draft.headers, &name, &fill(&value))?;
        }
        // A body of one's own has the id that it has; headers are ours to fill in.
        if let Some(rule) = &compiled.event_id {
            rule.fill(&mut draft, &id, is_own)?;
        }
        for line in &self.headers {
            let (name, value) = line.split_once(':').ok_or_else(|| format!("\"{line}\" is no header: write \"Name: value\""))?;
            put(&mut draft.headers, name.trim(), value.trim())?;
        }
        Ok(draft)
    }

    #[expect(clippy::disallowed_methods, reason = "a provider signs at the time it sends")]
    fn now(&self) -> SystemTime {
        self.at.map_or_else(SystemTime::now, |seconds| UNIX_EPOCH + Duration::from_secs(seconds))
    }
}

fn read(path: &Path) -> Result<Bytes, String> {
    std::fs::read(path).map(Bytes::from).map_err(|error| format!("{}: {error}", path.display()))
}

fn put(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let unsendable = || format!("the header \"{name}\" cannot be sent");
    let name: HeaderName = name.parse().map_err(|_| unsendable())?;
    headers.insert(name, HeaderValue::from_str(value).map_err(|_| unsendable())?);
    Ok(())
}

/// A sample with the event's id and time in it.
fn filled(text: &str, id: &str, now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    text.replace("{id}", id)
        .replace("{now}", &since.as_secs().to_string())
        .replace("{now_ms}", &since.as_millis().to_string())
        .replace("{now_rfc3339}", &humantime::format_rfc3339_seconds(now).to_string())
}

/// An id that nobody has used before.
fn new_id() -> Result<String, String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(format!("hookonce_{}", data_encoding::HEXLOWER.encode(&bytes)))
}
