//! From one configuration to the next while the program runs: what may change, and what has.

use std::sync::Arc;

use super::problem::{Origin, Problem};
use super::{Config, SectionSettings, Setting};

/// Sections that are read once, at start: sockets, connections, threads and tables are made by them. The top level is no section.
const FIXED_SECTIONS: [&str; 4] = ["store", "limits", "log", "trace"];
/// The same of the top level.
const FIXED_KEYS: [&str; 3] = ["listen", "admin", "workers"];

impl Config {
    /// What keeps `next` from taking this configuration's place without a restart.
    pub fn kept_from_by_a_start(&self, next: &Self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for section in &next.sections {
            let is_fixed = |setting: &&Setting| match section.name {
                "" => FIXED_KEYS.contains(&setting.key),
                name => FIXED_SECTIONS.contains(&name),
            };
            let fixed = section.settings.iter().filter(is_fixed);
            let changed =
                fixed.filter(|setting| self.setting(section.name, setting.key).is_some_and(|was| differs(was, setting)));
            problems.extend(changed.map(|setting| refused(section.name, setting)));
        }
        // Of passwords and keys it is shown only that there are some.
        let unshown = [("store", "url", self.store != next.store), ("trace", "headers", self.trace != next.trace)];
        let is_shown = |section: &str| problems.iter().any(|problem| problem.key.starts_with(section));
        let changed: Vec<_> = unshown.into_iter().filter(|(section, _, differs)| *differs && !is_shown(section)).collect();
        for (section, key, _) in changed {
            problems.extend(next.setting(section, key).map(|setting| refused(section, setting)));
        }
        problems
    }

    /// The keys by which `next` differs, for people.
    pub fn changes(&self, next: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for section in &next.sections {
            let was = self.sections.iter().find(|was| was.name == section.name);
            let was = was.map_or(&[][..], |was| &was.settings);
            let path = |key: &str| if section.name.is_empty() { key.to_owned() } else { format!("{}.{key}", section.name) };
            changes.extend(differing(was, &section.settings).map(path));
        }
        for provider in &next.providers {
            let path = |key: &str| format!("providers.{}.{key}", provider.name);
            match self.providers.iter().find(|was| was.name == provider.name) {
                None => changes.push(format!("providers.{} (new)", provider.name)),
                Some(was) => changes.extend(differing(&was.settings, &provider.settings).map(path)),
            }
        }
        let is_gone = |name: &str| next.providers.iter().all(|provider| provider.name != name);
        let gone = self.providers.iter().filter(|was| is_gone(&was.name));
        changes.extend(gone.map(|was| format!("providers.{} (gone)", was.name)));
        changes
    }

    /// Whether a provider is in `next` what it is here, as far as that was written.
    pub fn has_same(&self, name: &str, next: &Self) -> bool {
        let provider = |config: &Self| config.providers.iter().find(|provider| provider.name == name).map(Arc::clone);
        match (provider(self), provider(next)) {
            (Some(was), Some(is)) => was.settings.iter().map(shown).eq(is.settings.iter().map(shown)),
            _ => false,
        }
    }

    fn setting(&self, section: &str, key: &str) -> Option<&Setting> {
        let is_it = |it: &&SectionSettings| it.name == section;
        self.sections.iter().find(is_it)?.settings.iter().find(|setting| setting.key == key)
    }
}

fn shown(setting: &Setting) -> (&'static str, &str) {
    (setting.key, &setting.value)
}

/// A default may follow the machine, as the number of cores does. That is no wish of anybody's.
fn differs(was: &Setting, is: &Setting) -> bool {
    was.value != is.value && (&was.origin, &is.origin) != (&Origin::Builtin, &Origin::Builtin)
}

fn differing<'a>(was: &'a [Setting], is: &'a [Setting]) -> impl Iterator<Item = &'static str> + 'a {
    let before = |key: &str| was.iter().find(|setting| setting.key == key).map(|setting| setting.value.as_str());
    is.iter().filter(move |setting| before(setting.key) != Some(setting.value.as_str())).map(|setting| setting.key)
}

fn refused(section: &str, setting: &Setting) -> Problem {
    let key = if section.is_empty() { setting.key.to_owned() } else { format!("{section}.{}", setting.key) };
    let what = "cannot change while the program runs".to_owned();
    Problem {
        key,
        origin: Some(setting.origin.clone()),
        what,
        help: "restart the program, or write what it was started with".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;

    const BEFORE: &str = "upstream = \"http://a\"\n[store]\nurl = \"redis://:one@h:6379\"\nnamespace = \"n\"\n\
                          [providers.stripe]\npath = \"/s\"\nsecret = \"0123456789abcdef\"\n";

    fn config(text: &str) -> Config {
        Config::from_text(text, &Environment::default()).unwrap_or_else(|problems| panic!("{problems:?}")).config
    }

    fn refused_keys(text: &str) -> Vec<String> {
        config(BEFORE).kept_from_by_a_start(&config(text)).into_iter().map(|problem| problem.key).collect()
    }

    #[test]
    fn what_is_made_at_start_cannot_change_and_the_rest_can() {
        let with = |line: &str| format!("{line}\n{BEFORE}");
        for (top, key) in
            [("listen = \"0.0.0.0:81\"", "listen"), ("admin = \"127.0.0.1:82\"", "admin"), ("workers = 250", "workers")]
        {
            assert_eq!(refused_keys(&with(top)), [key]);
        }
        for (table, key) in [
            ("[limits]\nconnections = 7", "limits.connections"),
            ("[log]\nformat = \"json\"", "log.format"),
            ("[trace]\nsample = \"1%\"", "trace.sample"),
        ] {
            assert_eq!(refused_keys(&format!("{BEFORE}{table}\n")), [key]);
        }
        assert_eq!(refused_keys(&BEFORE.replace("\"n\"", "\"m\"")), ["store.namespace"]);
        assert_eq!(refused_keys(&BEFORE.replace(":one@", ":two@")), ["store.url"]);
        let [one, two] = ["one", "two"].map(|key| {
            let trace = format!("[trace]\nendpoint = \"http://c\"\nheaders = {{ key = \"0123456789abcdef-{key}\" }}\n");
            config(&format!("{BEFORE}{trace}"))
        });
        assert_eq!(one.kept_from_by_a_start(&two)[0].key, "trace.headers");
        assert_eq!(one.kept_from_by_a_start(&one), []);
        let others =
            "admin_token = { env = \"T\" }\npassthrough = [\"/x\"]\ntrusted_proxies = [\"10.0.0.0/8\"]\nreadiness = \"store\"";
        let others = others.replace("{ env = \"T\" }", "\"0123456789abcdef\"");
        let rest = "[drain]\ndelay = \"1s\"\n[queue]\nresign = false\n[defaults]\nlease = \"20s\"\n[providers.b]\npath = \"/b\"\n\
                    preset = \"github\"\nsecret = \"0123456789abcdef\"\n";
        assert_eq!(refused_keys(&format!("{others}\n{BEFORE}{rest}")), [""; 0]);
    }

    #[test]
    fn changes_are_named_by_their_keys() {
        let after = BEFORE.replace("/s\"", "/t\"").replace("http://a", "http://b")
            + "[providers.github]\npath = \"/g\"\nsecret = \"0123456789abcdef\"\n";
        let named = ["upstream", "providers.stripe.path", "providers.stripe.upstream", "providers.github (new)"];
        assert_eq!(config(BEFORE).changes(&config(&after)), named);
        assert_eq!(config(&after).changes(&config(BEFORE)).last().unwrap(), "providers.github (gone)");
        assert_eq!(config(BEFORE).changes(&config(BEFORE)), [""; 0]);
    }
}
