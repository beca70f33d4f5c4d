//! What is known of a provider, written for a terminal, for a script and for the documentation.

use serde::Serialize;

use super::choice;
use crate::config::tree::Value;
use crate::config::units::{self, Written};
use crate::scheme::preset::{Compiled, Preset};
use crate::scheme::{Answerer, IdRule};

pub(super) struct Page {
    preset: &'static Preset,
    compiled: Compiled,
}

/// What `--json` prints of a provider.
#[derive(Serialize)]
pub(super) struct Facts<'a> {
    name: &'a str,
    title: &'a str,
    aliases: Vec<&'a str>,
    docs: Option<&'a str>,
    evidence: Option<&'a str>,
    judge: Option<&'a str>,
    setup: Option<&'a str>,
    algorithm: &'a str,
    /// One text for each way to sign.
    signature: Vec<String>,
    secret: String,
    event_id: Option<String>,
    event_id_signed: bool,
    /// `None`: not documented.
    event_id_stable: Option<bool>,
    retry_window: Option<&'a str>,
    retention: &'a str,
    answer_deadline: Option<&'a str>,
    disables_on_failure: bool,
    challenge: bool,
    reply_matters: bool,
    /// Scripts ask whether it is there at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsigned: Option<&'a str>,
}

/// How long events are remembered where a preset does not say.
const RETENTION: &str = "72h";

/// How the evidence of a preset is told.
const EVIDENCE: [(&str, &str); 5] = [
    ("sdk", "judged by the provider's own SDK"),
    ("source", "judged by a named open implementation"),
    ("docs-example", "an example printed in the provider's documentation"),
    ("family", "the scheme of a verified preset under other names"),
    ("token", "a plain token, compared as it is"),
];

impl Page {
    pub fn of(preset: &'static Preset) -> Result<Self, String> {
        Ok(Self { preset, compiled: choice::compiled(preset)? })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.preset.text(key)
    }

    fn flag(&self, key: &str) -> Option<bool> {
        match self.preset.table.get(key).map(|node| &node.value) {
            Some(Value::Bool(is)) => Some(*is),
            _ => None,
        }
    }

    fn has_signed_id(&self) -> bool {
        self.compiled.event_id.as_ref().is_some_and(|rule| rule.is_signed(&self.compiled.scheme))
    }

    fn is_reply_kept(&self) -> bool {
        self.text("on_duplicate") == Some("replay")
    }

    /// Where the id stands and what is known of it. `None`: there is none.
    fn event_id(&self) -> Option<String> {
        let rule = self.compiled.event_id.as_ref()?;
        let signed = if self.has_signed_id() { "signed" } else { "not signed" };
        let stable = match self.flag("id_stable") {
            Some(true) => "the same on every retry",
            Some(false) => "another one on some retries",
            None => "whether retries keep it is not documented",
        };
        Some(format!("{}; {signed}; {stable}", rule.describe()))
    }

    fn retries(&self) -> String {
        let retention = self.text("retention").unwrap_or(RETENTION);
        let (tries, joint) = match self.text("retry_window") {
            Some("0s") => ("never tries again by itself".to_owned(), ", and"),
            Some(window) => (format!("tries again for {window}"), ", and"),
            None => ("for how long it tries again is not known".to_owned(), "; it"),
        };
        let is_turned_off = self.flag("disables_on_failure") == Some(true);
        let ends = if is_turned_off { format!("{joint} turns off an endpoint that keeps failing") } else { String::new() };
        format!("{tries}{ends}; events are remembered for {retention}")
    }

    fn evidence(&self) -> String {
        let word = self.text("evidence").unwrap_or_default();
        let told = EVIDENCE.iter().find(|(other, _)| *other == word).map_or(word, |(_, told)| told);
        self.text("judge").map_or_else(|| told.to_owned(), |judge| format!("{told}: {judge}"))
    }

    fn challenges(&self) -> Option<String> {
        let count = self.compiled.handshakes.len();
        let is_passed = self.compiled.handshakes.iter().any(|handshake| handshake.answer == Answerer::Upstream);
        let told = if is_passed {
            "the provider's challenge is passed on to your consumer, without a claim"
        } else {
            "hookonce answers the provider's challenge by itself"
        };
        (count > 0).then(|| told.to_owned())
    }

    fn special_statuses(&self) -> Option<String> {
        let Some(Value::Table(table)) = self.preset.table.get("special_statuses").map(|node| &node.value) else { return None };
        let told = table.entries.iter().filter_map(|entry| match &entry.node.value {
            Value::Text(text) => Some(format!("{}: {text}", entry.key)),
            _ => None,
        });
        Some(told.collect::<Vec<_>>().join("; "))
    }

    /// What is known, by name, in the order in which it is told.
    fn known(&self) -> Vec<(&'static str, String)> {
        let scheme = &self.compiled.scheme;
        let mut known = Vec::new();
        known.extend(scheme.describe().into_iter().map(|way| ("signature", way)));
        let key = if scheme.takes_public_keys() { "key" } else { "secret" };
        known.push((key, scheme.describe_key()));
        known.extend(self.text("unsigned").map(|text| ("not signed", text.to_owned())));
        known.push(("event id", self.event_id().unwrap_or_else(|| NO_ID.to_owned())));
        known.push(("retries", self.retries()));
        let patience = |time| ("patience", format!("hookonce answers after {} at the latest", spoken(time)));
        known.extend(self.text("answer_deadline").map(patience));
        known.extend(self.challenges().map(|text| ("challenge", text)));
        known.extend(self.special_statuses().map(|text| ("statuses", text)));
        if self.is_reply_kept() {
            known.push(("reply", "its body matters: duplicates get the first one again".to_owned()));
        }
        known.extend(self.text("max_body").map(|size| ("body", format!("up to {size}"))));
        known.push(("evidence", self.evidence()));
        known.push(("more", self.text("docs").unwrap_or_default().to_owned()));
        known
    }

    pub fn facts(&self) -> Facts<'_> {
        let (preset, scheme) = (self.preset, &self.compiled.scheme);
        Facts {
            name: preset.name,
            title: preset.title(),
            aliases: preset.aliases().collect(),
            docs: self.text("docs"),
            evidence: self.text("evidence"),
            judge: self.text("judge"),
            setup: self.text("setup"),
            algorithm: scheme.algorithm(),
            signature: scheme.describe(),
            secret: scheme.describe_key(),
            event_id: self.compiled.event_id.as_ref().map(IdRule::describe),
            event_id_signed: self.has_signed_id(),
            event_id_stable: self.flag("id_stable"),
            retry_window: self.text("retry_window"),
            retention: self.text("retention").unwrap_or(RETENTION),
            answer_deadline: self.text("answer_deadline"),
            disables_on_failure: self.flag("disables_on_failure") == Some(true),
            challenge: !self.compiled.handshakes.is_empty(),
            reply_matters: self.is_reply_kept(),
            unsigned: self.text("unsigned"),
        }
    }

    /// The lines of a configuration that connect it.
    fn section(&self) -> String {
        let name = self.preset.name;
        let variable = format!("{}_WEBHOOK_SECRET", name.replace('-', "_").to_uppercase());
        let scheme = &self.compiled.scheme;
        let mut lines = vec![format!("[providers.{name}]"), format!("path       = \"/webhooks/{name}\"")];
        if scheme.takes_public_keys() {
            let line = format!("public_key = {{ env = \"{}\" }}", variable.replace("_SECRET", "_PUBLIC_KEY"));
            let is_optional = scheme.fetches_keys();
            lines.push(if is_optional { format!("# {line}   # optional: fetched from the provider") } else { line });
        } else if scheme.names_keys() {
            lines.push(format!("secret     = {{ env = \"{variable}\", id = \"...\" }}   # the id is optional"));
        } else {
            lines.push(format!("secret     = {{ env = \"{variable}\" }}"));
        }
        if scheme.signs_url() {
            lines.push(format!("public_url = \"https://hooks.example.com\"   # as {} calls it", self.preset.title()));
        }
        lines.extend(self.text("also").map(|also| also.trim().to_owned()));
        lines.join("\n")
    }

    fn try_it(&self) -> String {
        let scheme = &self.compiled.scheme;
        let is_public = scheme.takes_public_keys();
        let key = if is_public { "--private-key KEY.pem" } else { "--secret SECRET" };
        let name = self.preset.name;
        let url = if scheme.signs_url() { " --public-url https://hooks.example.com" } else { "" };
        let send =
            format!("hookonce send --preset {name} {key}{url} \\\n    --to http://127.0.0.1:8080/webhooks/{name} --times 3");
        if !is_public {
            return send;
        }
        // Nobody has the provider's private key, so that one tries it with a pair of one's own.
        format!(
            "# Make a key pair, and configure its public half as public_key while you try.\n\
             openssl genpkey {} -out KEY.pem\n\
             openssl pkey -in KEY.pem -pubout\n\
             {send}",
            key_kind(scheme.algorithm())
        )
    }

    pub fn in_full(&self) -> String {
        let mut text = format!("{} ({})\n\n", self.preset.title(), self.preset.name);
        if let Some(setup) = self.text("setup") {
            text.push_str(&format!("At the provider\n{}\n\n", indented(&wrapped(setup, 96))));
        }
        text.push_str(&format!("In hookonce.toml\n{}\n\n", indented(&self.section())));
        text.push_str(&format!("Try it\n{}\n\nWhat is known\n", indented(&self.try_it())));
        for (name, told) in self.known() {
            let lines = wrapped(&told, 96);
            for (nth, line) in lines.lines().enumerate() {
                text.push_str(&format!("  {:<11} {line}\n", if nth == 0 { name } else { "" }));
            }
        }
        text
    }
}

const NO_ID: &str = "none: every delivery is forwarded, marked no-id, unless you set event_id or missing_id = \"hash\"";

/// How OpenSSL is told to make a private key for an algorithm.
fn key_kind(algorithm: &str) -> &'static str {
    match algorithm {
        "ed25519" | "jwt-eddsa" => "-algorithm ed25519",
        "ecdsa-p256-sha256" | "jwt-es256" => "-algorithm EC -pkeyopt ec_paramgen_curve:P-256",
        _ => "-algorithm RSA -pkeyopt rsa_keygen_bits:2048",
    }
}

/// A duration as people say it: `4500ms` is 4.5s.
fn spoken(text: &str) -> String {
    match units::duration(text) {
        Some(time) if time.as_secs() < 60 && time.as_secs() > 0 => format!("{}s", time.as_secs_f64()),
        Some(time) => Written(time).to_string(),
        None => text.to_owned(),
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Breaks a text into lines of at most so many letters, at its spaces.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let is_full = lines.last().is_some_and(|line| !line.is_empty() && line.len() + word.len() >= width);
        if is_full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

const EVENT_ID_LETTERS_MAX: usize = 60;

pub(super) fn table(pages: &[Page]) -> String {
    let mut rows = vec![["NAME", "PROVIDER", "ALGORITHM", "EVIDENCE", "EVENT ID"].map(str::to_owned)];
    rows.extend(pages.iter().map(|page| {
        let id = page.compiled.event_id.as_ref().map_or("none".to_owned(), IdRule::describe);
        let (name, title, algorithm) = (page.preset.name, page.preset.title(), page.compiled.scheme.algorithm());
        let [name, title, algorithm, evidence] =
            [name, title, algorithm, page.text("evidence").unwrap_or_default()].map(str::to_owned);
        [name, title, algorithm, evidence, shortened(id)]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let [name, title, algorithm, evidence] = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for row in &rows {
        let [first, second, third, fourth, last] = row;
        text.push_str(&format!("{first:<name$}  {second:<title$}  {third:<algorithm$}  {fourth:<evidence$}  {last}\n"));
    }
    let count = if pages.len() == 1 { "1 provider".to_owned() } else { format!("{} providers", pages.len()) };
    text.push_str(&format!("\n{count}. `hookonce providers NAME` tells all about one.\n"));
    text
}

fn shortened(text: String) -> String {
    if text.chars().count() <= EVENT_ID_LETTERS_MAX {
        return text;
    }
    format!("{}...", text.chars().take(EVENT_ID_LETTERS_MAX - 3).collect::<String>())
}

pub(super) fn markdown(pages: &[Page]) -> String {
    let mut text = String::from(
        "# Providers\n\nMade by `hookonce providers --markdown` from the files in `presets/`; a test keeps it fresh. Each preset says what its scheme\n\
         rests on: requests judged by the provider's own SDK (`sdk`) or by a named open implementation (`source`), an example printed in\n\
         the provider's documentation (`docs-example`), the scheme of a verified preset under other names (`family`), or a plain token\n\
         (`token`). A provider that is not here is a few lines: [schemes.md](schemes.md).\n\n",
    );
    text.push_str("| preset | provider | signature | event id | retries | evidence |\n|---|---|---|---|---|---|\n");
    for page in pages {
        let cell = |told: &str| told.replace('|', "\\|").replace('\n', " ");
        let docs = page.text("docs").unwrap_or_default();
        let signature: Vec<String> = page.compiled.scheme.describe().iter().map(|way| cell(way)).collect();
        text.push_str(&format!(
            "| `{}` | [{}]({docs}) | {} | {} | {} | {} |\n",
            page.preset.name,
            page.preset.title(),
            signature.join("<br>"),
            cell(page.event_id().as_deref().unwrap_or("none")),
            cell(&page.retries()),
            cell(&page.evidence()),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment};
    use crate::scheme::preset;

    /// Readable as text, as hex and as base64.
    const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn what_is_shown_for_a_configuration_is_one() {
        let mut tried = 0;
        for name in preset::names() {
            let page = Page::of(preset::find(name).unwrap()).unwrap();
            if page.compiled.scheme.takes_public_keys() && !page.compiled.scheme.fetches_keys() {
                continue;
            }
            let section = page.section();
            let text = format!("upstream = \"http://127.0.0.1:3000\"\n{section}\n");
            let mut named = section.split("env = \"").skip(1).filter_map(|rest| rest.split('"').next());
            let environment =
                Environment::from([named.next().unwrap_or("A"), named.next().unwrap_or("B")].map(|it| (it, SECRET)));
            let loaded = Config::from_text(&text, &environment);
            assert!(loaded.is_ok(), "{section}\n{loaded:#?}");
            tried += 1;
        }
        assert!(tried > 100, "{tried}");
    }
}
