//! What `verify`, `sign` and `send` are told to work with: a preset or a file like one, and secrets from variables.

use std::path::Path;

use crate::config::reader::nearest;
use crate::config::{Environment, Problem, Secret};
use crate::scheme::preset::{self, Compiled, Preset};

/// The preset of this name, however it is capitalised, or the file in its place.
pub fn preset(name: Option<&str>, file: Option<&Path>) -> Result<&'static Preset, String> {
    match (name, file) {
        (_, Some(path)) => of_file(path),
        (Some(name), None) => named(name),
        (None, None) => Err("--preset is needed".to_owned()),
    }
}

/// A file like those that ship with the program.
pub fn of_file(path: &Path) -> Result<&'static Preset, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let preset = Preset::of_text(name, &text);
    compiled(preset).map(|_| preset)
}

fn named(name: &str) -> Result<&'static Preset, String> {
    let lower = name.to_lowercase();
    preset::find(&lower).ok_or_else(|| {
        format!("there is no preset \"{name}\": {}; `hookonce providers` lists them", nearest(&lower, &preset::names()))
    })
}

/// A preset ready for use, or everything that is wrong with it.
pub fn compiled(preset: &Preset) -> Result<Compiled, String> {
    preset.compile().map_err(|problems| lines(&problems))
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The secret that a variable holds, taken as it is.
pub fn secret_of(variable: &str) -> Result<Secret, String> {
    let environment = Environment::of_process();
    let value = environment.var(variable).ok_or_else(|| format!("the variable {variable} is not set"))?;
    Ok(Secret::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_found_however_it_is_capitalised() {
        assert_eq!(preset(Some("GitHub"), None).unwrap().name, "github");
        assert!(preset(Some("Strip"), None).unwrap_err().contains("did you mean `stripe`?"));
        assert!(preset(None, None).is_err());
    }
}
