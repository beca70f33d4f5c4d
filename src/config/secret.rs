//! Secrets: read from a variable, a file or, for trying out, the configuration itself; never printed.

use std::fmt;
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::reader::{At, Found, FromNode, Reader};
use super::tree::{Node, Value};

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

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl FromNode for Secret {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let (bytes, named) = match &node.value {
            // A variable laid over the key is the secret itself.
            Value::Text(text) | Value::Loose(text) => (text.clone().into_bytes(), "the value".to_owned()),
            Value::Table(table) => from_source(node, &Reader::of_table(table, at), at)?,
            _ => {
                at.wrong_type(node, "a secret", "{ env = \"NAME\" }, { file = \"PATH\" } or, for trying out, a string");
                return None;
            }
        };
        usable(node, bytes, &named, at)
    }
}

/// Reads `{ env = }` or `{ file = }`.
fn from_source(node: &Node, reader: &Reader<'_>, at: &At<'_>) -> Option<(Vec<u8>, String)> {
    let env: Option<Found<String>> = reader.found("env");
    let file: Option<Found<String>> = reader.found("file");
    match (env, file) {
        (Some(name), None) => match at.environment.var(&name.value) {
            Some(value) => Some((value.as_bytes().to_vec(), format!("variable {}", name.value))),
            None => {
                at.error(
                    node,
                    format!("variable {} is not set", name.value),
                    format!("export {}=... before starting", name.value),
                );
                None
            }
        },
        (None, Some(path)) => match std::fs::read(PathBuf::from(&path.value)) {
            Ok(mut bytes) => {
                // Editors and `echo` end a file with one newline; more than one is the secret's own.
                if bytes.ends_with(b"\n") {
                    bytes.pop();
                    if bytes.ends_with(b"\r") {
                        bytes.pop();
                    }
                }
                Some((bytes, format!("file {}", path.value)))
            }
            Err(error) => {
                at.error(node, format!("file {} cannot be read: {error}", path.value), "check the path and its permissions");
                None
            }
        },
        _ => {
            at.error(node, "must name one source", "write { env = \"NAME\" } or { file = \"PATH\" }");
            None
        }
    }
}

/// Refuses what is certainly not a secret, and warns of what can be guessed.
fn usable(node: &Node, bytes: Vec<u8>, named: &str, at: &At<'_>) -> Option<Secret> {
    let secret = Secret::new(bytes);
    let bytes = secret.bytes();
    if bytes.is_empty() {
        at.error(node, format!("{named} is empty"), "an empty secret would let anybody sign");
        return None;
    }
    if bytes.starts_with(b"${") && bytes.ends_with(b"}") {
        at.error(node, format!("{named} is an unexpanded reference"), "whatever should have filled it in did not");
        return None;
    }
    if bytes.len() < SHORT_BYTES {
        at.warn(&node.origin, format!("{named} is shorter than {SHORT_BYTES} bytes"), "a short secret can be guessed");
    }
    Some(secret)
}
