//! A delivery in the making, for `sign` and `send`: the preset's sample or a body of one's own, the event's id where the
//! preset finds it, signed with its scheme.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::cli::providers::choice;
use crate::config::Secret;
use crate::pipeline::identify::{self, EventId};
use crate::scheme::preset::{Compiled, Preset};
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

/// A signed delivery, and what whoever asked for it should know.
#[derive(Debug)]
pub struct Letter {
    pub draft: Draft,
    /// Sentences for standard error.
    pub remarks: Vec<String>,
    /// Whether the preset says where the event's id is.
    pub names_event: bool,
}

/// A URL with its scheme and its host, or what to write instead.
pub fn whole_url(text: &str) -> Result<Uri, String> {
    let is_whole = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    let whole = text.parse().ok().filter(is_whole);
    whole.ok_or_else(|| format!("{text} is not a whole URL: write http://127.0.0.1:8080/webhooks/NAME"))
}

impl LetterArgs {
    /// One signed delivery to this URL.
    pub fn letter(&self, to: &str) -> Result<Letter, String> {
        let preset = choice::preset(self.preset.as_deref(), self.preset_file.as_deref())?;
        let mut compiled = choice::compiled(preset)?;
        let public_url = self.public_url.as_deref().unwrap_or(to);
        let public_url = PublicUrl::parse(public_url).map_err(|what| format!("{public_url} {what}"))?;
        compiled.scheme = compiled.scheme.at_url(Some(public_url));
        let key = self.key(preset, &compiled)?;
        let now = self.now();
        let mut draft = self.unsigned(preset, &compiled, to, now)?;
        compiled.scheme.sign(&key, &mut draft, now).map_err(|error| format!("{}: {error}", preset.name))?;
        let remarks = self.url_remark(preset, &compiled, to).into_iter().chain(self.id_remark(&compiled, &draft)).collect();
        Ok(Letter { draft, remarks, names_event: compiled.event_id.is_some() })
    }

    /// Behind a gateway the URL that hookonce is reached at is not the one that the provider calls.
    fn url_remark(&self, preset: &Preset, compiled: &Compiled, to: &str) -> Option<String> {
        let is_guessed = compiled.scheme.signs_url() && self.public_url.is_none();
        is_guessed
            .then(|| format!("{} signs the URL that it calls: {to} was signed; --public-url signs another one", preset.title()))
    }

    /// A body of one's own is left as it is, with the id that it has.
    fn id_remark(&self, compiled: &Compiled, draft: &Draft) -> Option<String> {
        let (given, rule) = (self.event_id.as_ref()?, compiled.event_id.as_ref()?);
        let is_used = draft.headers.values().any(|value| value.as_bytes() == given.as_bytes());
        if is_used || (self.data.is_none() && self.body.is_none()) {
            return None;
        }
        let found = identify::event_id(rule, None, &draft.received()).ok().flatten();
        match found.as_ref().map(EventId::display) {
            Some(id) if id.contains(given) => None,
            Some(id) => Some(format!("--event-id is not used: the id in the body counts, which is {id}")),
            None => Some("--event-id is not used: the id is looked for in the body, which has none".to_owned()),
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
        match &self.secret_env {
            Some(name) => choice::secret_of(name).map(Some),
            None => Ok(self.secret.as_deref().map(Secret::new)),
        }
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
        let body = own.unwrap_or_else(|| fill(&sample.body).into());
        let mut draft = Draft { method: Method::POST, uri: whole_url(to)?, headers: HeaderMap::new(), body };
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
