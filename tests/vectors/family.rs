//! What a preset has in common with the verified one that it is judged by: everything but names.
//!
//! The names are taken out of both schemes, which must then be the same; and what was recorded of the verified one is judged
//! again under the names of the other.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

/// How a preset is written.
pub fn written(preset: &str) -> Table {
    let path = format!("{}/presets/{preset}.toml", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// A scheme as it is written.
pub struct Scheme(Table);

/// What is called otherwise elsewhere, in one order.
#[derive(Default)]
struct Names {
    signature: Vec<String>,
    others: Vec<Vec<String>>,
    prefix: String,
    pick: String,
    stamp: String,
}

impl Scheme {
    pub fn of(preset: &str) -> Self {
        Self(written(preset)["scheme"].as_table().unwrap().clone())
    }

    fn text(&self, key: &str, default: &str) -> String {
        self.0.get(key).map_or_else(|| default.to_owned(), |value| value.as_str().unwrap().to_owned())
    }

    fn table(&self, key: &str) -> Table {
        self.0.get(key).and_then(Value::as_table).cloned().unwrap_or_default()
    }

    /// The scheme without its names, and with what it leaves out.
    pub fn shape(&self) -> BTreeMap<String, String> {
        let mut shape = BTreeMap::new();
        let mut put = |key: &str, value: String| shape.insert(key.to_owned(), value);
        let is_token = self.text("algorithm", "").as_str() == "token";
        put("algorithm", self.text("algorithm", "hmac-sha256"));
        put("encoding", self.text("encoding", if is_token { "text" } else { "hex" }));
        put("secret_encoding", self.text("secret_encoding", "utf8"));
        put("signed", without_names(&self.0.get("signed").map_or_else(|| "{body}".to_owned(), ToString::to_string)));
        for key in ["prefix", "secret_prefix"] {
            put(key, self.0.contains_key(key).to_string());
        }
        let mut signature = self.table("signature");
        signature.remove("pick");
        let layout = signature.remove("layout").map_or_else(|| "plain".to_owned(), |layout| layout.to_string());
        put("layout", layout);
        for key in ["separator", "assign", "trim"] {
            put(key, signature.remove(key).map(|value| value.to_string()).unwrap_or_default());
        }
        put("signature", kind(&signature));
        put("key_id", kind(&self.table("key_id")));
        let mut timestamp = self.table("timestamp");
        let at = timestamp.remove("at").map(|at| kind(at.as_table().unwrap())).unwrap_or_default();
        put("timestamp", format!("{at} {timestamp:?}"));
        let known = ["algorithm", "encoding", "secret_encoding", "signed", "prefix", "secret_prefix", "signature", "timestamp"];
        for (key, value) in self.0.iter().filter(|(key, _)| !known.contains(&key.as_str()) && *key != "key_id") {
            put(key, value.to_string());
        }
        shape
    }

    fn names(&self) -> Names {
        let (signature, timestamp) = (self.table("signature"), self.table("timestamp"));
        let at = timestamp.get("at").and_then(Value::as_table).cloned().unwrap_or_default();
        let text = |table: &Table, key: &str| table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let signed = self.0.get("signed").map(ToString::to_string).unwrap_or_default();
        let in_template = signed.split("{header:").skip(1).map(|rest| rest.split('}').next().unwrap());
        let in_template = in_template.map(|names| names.split('|').map(str::to_ascii_lowercase).collect());
        Names {
            signature: headers(&signature),
            others: [headers(&at), headers(&self.table("key_id"))].into_iter().chain(in_template).collect(),
            prefix: self.text("prefix", ""),
            pick: text(&signature, "pick"),
            stamp: text(&at, "part"),
        }
    }

    /// A recorded case of this scheme under the names of another. `None` where a name has no other.
    pub fn renamed(&self, line: &str, other: &Self) -> Option<String> {
        let (ours, theirs) = (self.names(), other.names());
        let mut renames: Vec<(&String, &String)> = ours.signature.iter().zip(&theirs.signature).collect();
        renames.extend(ours.others.iter().zip(&theirs.others).flat_map(|(from, to)| from.iter().zip(to)));
        let mut case: Json = serde_json::from_str(line).unwrap();
        let mut headers = Map::new();
        for (name, value) in case["headers"].as_object().unwrap() {
            let lower = name.to_ascii_lowercase();
            let to = renames.iter().find(|(from, _)| **from == lower).map(|(_, to)| (*to).clone());
            let is_left = ours.signature.contains(&lower) || ours.others.iter().flatten().any(|other| *other == lower);
            let value = match value.as_str() {
                Some(text) if ours.signature.contains(&lower) => Json::from(self.signature_renamed(text, &ours, &theirs)),
                _ => value.clone(),
            };
            match to {
                Some(to) => headers.insert(to, value),
                None if is_left => return None,
                None => headers.insert(lower, value),
            };
        }
        case["headers"] = Json::Object(headers);
        Some(case.to_string())
    }

    fn signature_renamed(&self, text: &str, ours: &Names, theirs: &Names) -> String {
        let signature = self.table("signature");
        let setting = |key: &str, default: &str| signature.get(key).and_then(Value::as_str).unwrap_or(default).to_owned();
        let (separator, assign) = match setting("layout", "plain").as_str() {
            "pairs" => (setting("separator", ","), setting("assign", "=")),
            "tagged" => (setting("separator", " "), setting("assign", ",")),
            _ => {
                let bare = text.strip_prefix(&ours.prefix).filter(|_| !ours.prefix.is_empty());
                return bare.map_or_else(|| text.to_owned(), |bare| format!("{}{bare}", theirs.prefix));
            }
        };
        let item = |item: &str| match item.split_once(assign.as_str()) {
            Some((name, value)) if name.trim() == ours.pick => {
                format!("{}{assign}{value}", name.replace(&ours.pick, &theirs.pick))
            }
            Some((name, value)) if name.trim() == ours.stamp && !ours.stamp.is_empty() => {
                format!("{}{assign}{value}", name.replace(&ours.stamp, &theirs.stamp))
            }
            _ => item.to_owned(),
        };
        text.split(separator.as_str()).map(item).collect::<Vec<_>>().join(&separator)
    }
}

/// What a place is, without its name.
fn kind(place: &Table) -> String {
    let kinds: Vec<&str> = place.keys().map(|key| if key == "headers" { "header" } else { key }).collect();
    let count = place.get("every").and_then(Value::as_array).map(|every| every.len().to_string()).unwrap_or_default();
    kinds.join(" ") + &count
}

fn headers(place: &Table) -> Vec<String> {
    let one = place.get("header").into_iter();
    let several = ["headers", "every"].into_iter().filter_map(|key| place.get(key)?.as_array()).flatten();
    one.chain(several).map(|name| name.as_str().unwrap().to_ascii_lowercase()).collect()
}

/// A template whose values have lost their names: `{header:X}.{body}` and `{header:Y}.{body}` are one.
fn without_names(template: &str) -> String {
    let mut bare = String::new();
    for (number, piece) in template.split('{').enumerate() {
        let (inside, after) = if number == 0 { ("", piece) } else { piece.split_once('}').unwrap_or((piece, "")) };
        if number > 0 {
            let name = inside.split(':').next().unwrap();
            bare.push_str(&format!("{{{name}}}"));
        }
        bare.push_str(after);
    }
    bare
}
