//! From a file, the environment and flags to a `Config`: one tree, one resolver.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use super::files;
use super::problem::{Origin, Problem, Problems};
use super::resolve::{self, Context, Presets};
use super::tree::{self, Table, Value};
use super::{Config, Environment, Files, Flags, Secret};

/// A configuration that can be run, and what is worth a second look.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<Problem>,
}

impl Config {
    /// Reads everything that was written: flags win over variables, variables over the file.
    ///
    /// On failure everything that is wrong comes back at once, in the order of the file.
    pub fn load(flags: &Flags, environment: &Environment) -> Result<Loaded, Vec<Problem>> {
        Self::load_from_files(flags, environment).0
    }

    /// The same, with the files that were read for it, whatever came of it.
    pub fn load_from_files(flags: &Flags, environment: &Environment) -> (Result<Loaded, Vec<Problem>>, Files) {
        let problems = Problems::default();
        let root = match laid(flags, environment, &problems) {
            Ok(root) => root,
            Err(wrong) => return (Err(wrong), problems.files()),
        };
        let config = resolve::config(&root, &Context { problems: &problems, environment, presets: &Presets::SHIPPED });
        let files = problems.files();
        (judged(config, problems), files)
    }

    /// Where the admin side of an instance with this configuration answers; nothing else of it is looked at.
    pub fn admin_address(flags: &Flags, environment: &Environment) -> Result<SocketAddr, Vec<Problem>> {
        of_admin(flags, environment, resolve::admin_address)
    }

    /// What opens it; again nothing else is looked at.
    pub fn admin_token(flags: &Flags, environment: &Environment) -> Result<Option<Secret>, Vec<Problem>> {
        of_admin(flags, environment, resolve::admin_token)
    }

    /// Reads a configuration that is text already, without flags or variables laid over it.
    pub fn from_text(text: &str, environment: &Environment) -> Result<Loaded, Vec<Problem>> {
        let problems = Problems::default();
        let root = tree::parse(text, |line| Origin::File { line }, &problems);
        let config = resolve::config(&root, &Context { problems: &problems, environment, presets: &Presets::SHIPPED });
        judged(config, problems)
    }
}

/// One key that a caller of the admin side needs.
fn of_admin<T>(
    flags: &Flags,
    environment: &Environment,
    read: impl FnOnce(&Table, &Context<'_>) -> T,
) -> Result<T, Vec<Problem>> {
    let problems = Problems::default();
    let root = laid(flags, environment, &problems)?;
    let value = read(&root, &Context { problems: &problems, environment, presets: &Presets::SHIPPED });
    let (errors, _) = problems.into_parts();
    if errors.is_empty() { Ok(value) } else { Err(errors) }
}

/// The file, with variables over it and flags over those.
fn laid(flags: &Flags, environment: &Environment, problems: &Problems) -> Result<Table, Vec<Problem>> {
    let mut root = match &flags.config {
        Some(path) => read(path, problems).map_err(|problem| vec![problem])?,
        None => Table::empty(Origin::Builtin),
    };
    // Flags go first to name their provider, so that a variable finds it, and again because they win.
    flags.lay(&mut root);
    tree::lay_environment(&mut root, environment.iter());
    flags.lay(&mut root);
    Ok(root)
}

fn read(path: &Path, problems: &Problems) -> Result<Table, Problem> {
    let content = files::read(path);
    problems.was_read(path, content.as_deref().ok());
    let text = content.and_then(|content| String::from_utf8(content).map_err(io::Error::other));
    let text = text.map_err(|error| Problem {
        key: String::new(),
        origin: None,
        what: format!("{} cannot be read: {error}", path.display()),
        help: "check the path given to --config, and its permissions".to_owned(),
    })?;
    Ok(tree::parse(&text, |line| Origin::File { line }, problems))
}

fn judged(config: Option<Config>, problems: Problems) -> Result<Loaded, Vec<Problem>> {
    let (errors, warnings) = problems.into_parts();
    match config {
        Some(config) if errors.is_empty() => Ok(Loaded { config, warnings }),
        // A reader that fails without a word is a defect of ours. Even then somebody must be told.
        None if errors.is_empty() => Err(vec![unexplained()]),
        _ => Err(errors),
    }
}

fn unexplained() -> Problem {
    let what = "the configuration cannot be used, and no reason was noted".to_owned();
    Problem { key: String::new(), origin: None, what, help: "this is a defect of hookonce: please report it".to_owned() }
}

/// Tables inside of a provider, empty ones of which are asked for their keys.
const INNER_TABLES: [&str; 4] = ["secret", "scheme", "fingerprint", "handshake"];

/// Every key a file may hold, as the resolvers ask for them: `listen`, `store.url`, `providers.NAME.path`.
pub fn known_keys() -> BTreeSet<String> {
    let (problems, environment) = (Problems::default(), Environment::default());
    let mut root = Table::empty(Origin::Builtin);
    for table in INNER_TABLES {
        root.set(&["providers", "NAME", table], Value::Table(Table::empty(Origin::Builtin)), &Origin::Builtin);
    }
    resolve::config(&root, &Context { problems: &problems, environment: &environment, presets: &Presets::SHIPPED });
    problems.into_asked()
}
