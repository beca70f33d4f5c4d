//! Which preset a provider is built from.

use crate::config::reader::{misspelt, nearest};
use crate::config::tree::Table;
use crate::config::written::quoted;
use crate::scheme::preset;

use super::section::Section;

/// Where presets come from: those that ship with the program, or a test's own.
pub(in crate::config) struct Presets {
    pub(in crate::config) find: fn(&str) -> Option<Preset>,
    pub(in crate::config) names: fn() -> Vec<&'static str>,
}

/// A preset's name and its layer.
#[derive(Clone, Copy)]
pub(in crate::config) struct Preset {
    pub(in crate::config) name: &'static str,
    pub(in crate::config) table: &'static Table,
}

impl Presets {
    pub(in crate::config) const SHIPPED: Self = Self {
        find: |name| preset::find(name).map(|preset| Preset { name: preset.name, table: &preset.table }),
        names: preset::names,
    };

    /// The preset that `preset` names; without that key, the one of the section's own name, unless the section has a scheme of
    /// its own: there are many presets, and a sender of one's own may well be called like one of them.
    pub(super) fn of(&self, name: &str, section: &Section<'_>) -> Option<Preset> {
        let (found, origin) = match section.reader().found::<String>("preset") {
            Some(written) => (self.named(&written.value, section), written.origin),
            None if section.has("scheme") => (None, section.reader().origin()),
            None => ((self.find)(name), section.reader().origin()),
        };
        let shown = found.map_or_else(|| "none".to_owned(), |preset| quoted(preset.name));
        section.note("preset", shown, origin);
        found
    }

    fn named(&self, name: &str, section: &Section<'_>) -> Option<Preset> {
        let preset = (self.find)(name);
        if preset.is_none() {
            let help = nearest(name, &(self.names)());
            section.error("preset", format!("there is no preset {}", quoted(name)), help);
        }
        preset
    }

    /// What to write where a section has neither a preset nor a scheme.
    pub(super) fn help_without_scheme(&self, name: &str) -> String {
        let names = (self.names)();
        match misspelt(name, &names) {
            Some(near) => format!(
                "did you mean the preset `{near}`? `hookonce providers` lists them; otherwise write [providers.{name}.scheme]"
            ),
            None => format!("write [providers.{name}.scheme], or preset = \"NAME\"; `hookonce providers` lists the presets"),
        }
    }
}
