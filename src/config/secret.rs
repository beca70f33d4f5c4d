//! Secrets: read from a variable, a file or, for trying out, the configuration itself; never printed.

use std::fmt;
use std::path::Path;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::files;
use super::problem::Origin;
use super::reader::{At, FromNode, Reader};
use super::tree::{Node, Value};
use super::written::AsWritten;

/// Key material. Wiped when dropped; `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// Below this many bytes a secret can be guessed.
const SHORT_BYTES: usize = 16;

impl Secret {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// In constant time, whoever compares.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl FromNode for Secret {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        Sourced::from_node(node, at).map(|sourced| sourced.secret)
    }
}

/// A secret, and where it was read from, in words that may be shown.
#[derive(Clone, Debug)]
pub struct Sourced {
    pub secret: Secret,
    pub source: String,
    /// By which deliveries name it, where they do.
    pub id: Option<String>,
    pub origin: Origin,
}

impl AsWritten for Sourced {
    fn as_written(&self) -> String {
        format!("set ({})", self.source)
    }
}

impl FromNode for Sourced {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let ((bytes, source), id) = match &node.value {
            Value::Text(text) | Value::Loose(text) => ((text.clone().into_bytes(), in_place(&node.origin)), None),
            Value::Table(table) => from_source(node, Reader::of_table(table, at), at)?,
            _ => {
                at.wrong_type(node, "a secret", "{ env = \"NAME\" }, { file = \"PATH\" } or, for trying out, a string");
                return None;
            }
        };
        let secret = usable(node, bytes, &source, at)?;
        Some(Self { secret, source, id, origin: node.origin.clone() })
    }
}

/// A variable laid over the key is the secret itself.
fn in_place(origin: &Origin) -> String {
    match origin {
        Origin::Env(name) => format!("variable {name}"),
        _ => "the value".to_owned(),
    }
}

/// A secret's bytes, and where they were read from.
type Read = (Vec<u8>, String);

/// Reads `{ env = }` or `{ file = }`, and `id` beside it.
fn from_source(node: &Node, reader: Reader<'_>, at: &At<'_>) -> Option<(Read, Option<String>)> {
    let source = (reader.get::<String>("env"), reader.get::<String>("file"));
    let id = reader.get::<String>("id");
    reader.finish();
    let read = match source {
        (Some(name), None) => from_variable(node, &name, at),
        (None, Some(path)) => from_file(node, &path, at),
        _ => {
            at.error(node, "must name one source", "write { env = \"NAME\" } or { file = \"PATH\" }");
            None
        }
    };
    Some((read?, id))
}

fn from_variable(node: &Node, name: &str, at: &At<'_>) -> Option<Read> {
    if let Some(value) = at.environment.var(name) {
        return Some((value.as_bytes().to_vec(), format!("variable {name}")));
    }
    // A secret pasted in place of the name must not be repeated: only what is surely a name is.
    if name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
        at.error(node, format!("variable {name} is not set"), format!("export {name}=... before starting"));
    } else {
        at.error(node, "the variable named here is not set", "env takes the name of a variable, not the secret itself");
    }
    None
}

fn from_file(node: &Node, path: &str, at: &At<'_>) -> Option<Read> {
    let content = files::read(Path::new(path));
    at.problems.was_read(Path::new(path), content.as_deref().ok());
    match content {
        Ok(mut bytes) => {
            // Editors and `echo` end a file with one newline; more than one is the secret's own.
            if bytes.ends_with(b"\n") {
                bytes.pop();
                if bytes.ends_with(b"\r") {
                    bytes.pop();
                }
            }
            Some((bytes, format!("file {path}")))
        }
        Err(error) => {
            // As with a variable: a secret pasted in place of the path must not be repeated.
            let file = if path.starts_with(['/', '.']) { format!("file {path}") } else { "the file named here".to_owned() };
            at.error(node, format!("{file} cannot be read: {error}"), "check the path and its permissions");
            None
        }
    }
}

/// Refuses what is certainly not a secret, and warns of what can be guessed.
fn usable(node: &Node, bytes: Vec<u8>, source: &str, at: &At<'_>) -> Option<Secret> {
    let secret = Secret::new(bytes);
    let bytes = secret.bytes();
    if bytes.iter().all(u8::is_ascii_whitespace) {
        at.error(node, format!("{source} is empty"), "an empty secret would let anybody sign");
        return None;
    }
    if bytes.starts_with(b"${") && bytes.ends_with(b"}") {
        at.error(node, format!("{source} is an unexpanded reference"), "whatever should have filled it in did not");
        return None;
    }
    if bytes.len() < SHORT_BYTES {
        at.warn(&node.origin, format!("{source} is shorter than {SHORT_BYTES} bytes"), "a short secret can be guessed");
    }
    Some(secret)
}
