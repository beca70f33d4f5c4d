//! Values in the form one would write them: what `check` prints, and what messages name.

use std::time::Duration;

use http::{Method, StatusCode};

use super::scalar::OrNone;
use super::tree::{Entry, Node, Value};
use super::units::{Size, Written};

pub trait AsWritten {
    fn as_written(&self) -> String;
}

/// A TOML string.
pub fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

impl AsWritten for String {
    fn as_written(&self) -> String {
        quoted(self)
    }
}

impl AsWritten for Duration {
    fn as_written(&self) -> String {
        quoted(&Written(*self).to_string())
    }
}

impl AsWritten for Size {
    fn as_written(&self) -> String {
        quoted(&self.to_string())
    }
}

impl AsWritten for bool {
    fn as_written(&self) -> String {
        self.to_string()
    }
}

impl AsWritten for usize {
    fn as_written(&self) -> String {
        self.to_string()
    }
}

impl AsWritten for StatusCode {
    fn as_written(&self) -> String {
        self.as_u16().to_string()
    }
}

impl AsWritten for Method {
    fn as_written(&self) -> String {
        quoted(self.as_str())
    }
}

impl<T: AsWritten> AsWritten for Vec<T> {
    fn as_written(&self) -> String {
        let items: Vec<String> = self.iter().map(AsWritten::as_written).collect();
        format!("[{}]", items.join(", "))
    }
}

/// A node has kept its form; tables are written inline, and a secret in them is left out.
impl AsWritten for Node {
    fn as_written(&self) -> String {
        match &self.value {
            Value::Text(text) | Value::Loose(text) => quoted(text),
            Value::Integer(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::List(items) => items.as_written(),
            Value::Table(table) => {
                let entries: Vec<String> = table.entries.iter().map(AsWritten::as_written).collect();
                format!("{{ {} }}", entries.join(", "))
            }
            Value::Foreign(kind) => (*kind).to_owned(),
        }
    }
}

impl AsWritten for Entry {
    fn as_written(&self) -> String {
        match &self.node.value {
            Value::Text(_) | Value::Loose(_) if self.key == "secret" => "secret = set".to_owned(),
            _ => format!("{} = {}", self.key, self.node.as_written()),
        }
    }
}

impl<T: AsWritten> AsWritten for OrNone<T> {
    fn as_written(&self) -> String {
        self.0.as_ref().map_or_else(|| quoted("none"), AsWritten::as_written)
    }
}
