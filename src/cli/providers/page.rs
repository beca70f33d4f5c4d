//! What is known of a provider, written for a terminal, for a script and for the documentation.

use std::collections::BTreeMap;

use crate::config::tree::Value;
use crate::scheme::preset::{Compiled, Preset};

pub(super) struct Page {
    preset: &'static Preset,
    compiled: Compiled,
}

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
        let compiled = preset.compile().map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            told.join("\n")
        })?;
        Ok(Self { preset, compiled })
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

    fn event_id(&self) -> String {
        let Some(rule) = &self.compiled.event_id else {
            return "none: every delivery is forwarded, marked no-id, unless you set event_id or missing_id = \"hash\""
                .to_owned();
        };
        let signed = if rule.is_signed(&self.compiled.scheme) { "signed" } else { "not signed" };
        let stable = match self.flag("id_stable") {
            Some(true) => "the same on every retry",
            Some(false) => "another one on some retries",
            None => "whether retries keep it is not documented",
        };
        format!("{}; {signed}; {stable}", rule.describe())
    }

    fn retries(&self) -> String {
        let retention = self.text("retention").unwrap_or("72h");
        let tries = match self.text("retry_window") {
            Some("0s") => "never tries again by itself".to_owned(),
            Some(window) => format!("tries again for {window}"),
            None => "for how long it tries again is not known".to_owned(),
        };
        let ends =
            if self.flag("disables_on_failure") == Some(true) { ", and turns off an endpoint that keeps failing" } else { "" };
        format!("{tries}{ends}; events are remembered for {retention}")
    }

    fn evidence(&self) -> String {
        let word = self.text("evidence").unwrap_or_default();
        let told = EVIDENCE.iter().find(|(other, _)| *other == word).map_or(word, |(_, told)| told);
        self.text("judge").map_or_else(|| told.to_owned(), |judge| format!("{told}: {judge}"))
    }

    fn challenges(&self) -> Option<String> {
        let count = self.compiled.handshakes.len();
        (count > 0).then(|| "hookonce answers the provider's challenge by itself".to_owned())
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
        known.push(("secret", scheme.describe_key()));
        known.extend(self.text("unsigned").map(|text| ("not signed", text.to_owned())));
        known.push(("event id", self.event_id()));
        known.push(("retries", self.retries()));
        known.extend(self.text("answer_deadline").map(|time| ("patience", format!("answered after {time} at the latest"))));
        known.extend(self.challenges().map(|text| ("challenge", text)));
        known.extend(self.special_statuses().map(|text| ("statuses", text)));
        if self.text("on_duplicate") == Some("replay") {
            known.push(("reply", "its body matters: duplicates get the first one again".to_owned()));
        }
        known.extend(self.text("max_body").map(|size| ("body", format!("up to {size}"))));
        known.push(("evidence", self.evidence()));
        known.push(("more", self.text("docs").unwrap_or_default().to_owned()));
        known
    }

    pub fn facts(&self) -> BTreeMap<&'static str, String> {
        let mut facts: BTreeMap<&'static str, String> = BTreeMap::new();
        for (name, text) in self.known() {
            facts.entry(name).and_modify(|known| *known = format!("{known}; {text}")).or_insert(text);
        }
        facts.insert("name", self.preset.name.to_owned());
        facts.insert("title", self.preset.title().to_owned());
        facts
    }

    /// The lines of a configuration that connect it.
    fn section(&self) -> String {
        let name = self.preset.name;
        let variable = format!("{}_WEBHOOK_SECRET", name.replace('-', "_").to_uppercase());
        let scheme = &self.compiled.scheme;
        let mut lines = vec![format!("[providers.{name}]"), format!("path       = \"/webhooks/{name}\"")];
        if scheme.takes_public_keys() {
            lines.push(format!("public_key = {{ env = \"{}\" }}", variable.replace("_SECRET", "_PUBLIC_KEY")));
        } else if scheme.names_keys() {
            lines.push(format!("secret     = {{ env = \"{variable}\", id = \"...\" }}   # the id is optional"));
        } else {
            lines.push(format!("secret     = {{ env = \"{variable}\" }}"));
        }
        if scheme.signs_url() {
            lines.push(format!("public_url = \"https://hooks.example.com\"   # as {} calls it", self.preset.title()));
        }
        lines.join("\n")
    }

    fn try_it(&self) -> String {
        let scheme = &self.compiled.scheme;
        let key = if scheme.takes_public_keys() { "--private-key KEY.pem" } else { "--secret SECRET" };
        let name = self.preset.name;
        let url = if scheme.signs_url() { " --public-url https://hooks.example.com" } else { "" };
        format!("hookonce send --preset {name} {key}{url} --to http://127.0.0.1:8080/webhooks/{name} --times 3")
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

pub(super) fn table(pages: &[Page]) -> String {
    let mut text = format!("{:<20} {:<24} {:<19} {:<13} {}\n", "NAME", "PROVIDER", "ALGORITHM", "EVIDENCE", "EVENT ID");
    for page in pages {
        let id = page.compiled.event_id.as_ref().map_or("none".to_owned(), crate::scheme::IdRule::describe);
        let id = if id.chars().count() > 60 { format!("{}...", id.chars().take(57).collect::<String>()) } else { id };
        let (name, title, algorithm) = (page.preset.name, page.preset.title(), page.compiled.scheme.algorithm());
        let evidence = page.text("evidence").unwrap_or_default();
        text.push_str(&format!("{name:<20} {title:<24} {algorithm:<19} {evidence:<13} {id}\n"));
    }
    text.push_str(&format!("\n{} providers. `hookonce providers NAME` tells all about one.\n", pages.len()));
    text
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
            cell(&page.event_id()),
            cell(&page.retries()),
            cell(&page.evidence()),
        ));
    }
    text
}
