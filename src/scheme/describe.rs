//! A scheme in words, for `hookonce providers` and the pages made from it.

use super::algorithm::Primitive;
use super::layout::Layout;
use super::place::{Place, Site};
use super::secret_form::SecretEncoding;
use super::signature::Spot;
use super::template::Source;
use super::timestamp::{Timestamp, Unit};
use super::way::Way;
use super::{IdRule, Scheme};
use crate::config::units::Written;

impl Scheme {
    /// Where the signature stands and what it is made over; one sentence for each way to sign.
    pub fn describe(&self) -> Vec<String> {
        self.ways.iter().map(Way::describe).collect()
    }

    /// What a person has to have at hand to verify: a secret in its form, or a public key.
    pub fn describe_key(&self) -> String {
        let Some(way) = self.ways.first() else { return String::new() };
        let what = match way.algorithm.primitive() {
            Primitive::Public(_) => "public key",
            Primitive::Token => "the token itself",
            Primitive::Hmac(_) | Primitive::Digest(_) => "secret",
        };
        let form = match way.secret.encoding {
            SecretEncoding::Utf8 if way.algorithm.is_public() => "PEM",
            SecretEncoding::Utf8 => "used as it is written",
            SecretEncoding::Base64 => "base64",
            SecretEncoding::Hex => "hex",
            SecretEncoding::Nfkd => "used in Unicode's form NFKD",
            SecretEncoding::Sha1 => "its SHA-1 is the key",
        };
        let prefix = if way.secret.prefix.is_empty() { String::new() } else { format!(", after \"{}\"", way.secret.prefix) };
        format!("{what}, {form}{prefix}")
    }

    /// The algorithm, for a table.
    pub fn algorithm(&self) -> &'static str {
        self.ways.first().map_or("", |way| way.algorithm.as_str())
    }

    /// Whether verifying is little more than a MAC: nothing of the body is read, nothing is changed before it is signed.
    pub fn is_plain(&self) -> bool {
        let is_plain = |way: &Way| {
            let mut values = way.signed.iter().flat_map(|template| template.values());
            let is_fed = |source: &Source| match source {
                Source::Body | Source::Timestamp => true,
                Source::At(site) => site.is_in_head(),
                _ => false,
            };
            let is_stamp =
                |timestamp: &Timestamp| timestamp.at.is_in_head() && matches!(timestamp.unit, Unit::Seconds | Unit::Milliseconds);
            values.all(|value| value.functions.is_empty() && value.sources.iter().all(is_fed))
                && way.timestamp.as_ref().is_none_or(is_stamp)
                && matches!(&way.signature.at, Spot::One(place) if place.header().is_some())
        };
        matches!(self.ways.as_slice(), [way] if is_plain(way))
    }
}

impl Way {
    fn describe(&self) -> String {
        let mut text = format!("{}: {}", self.signature.describe(), self.algorithm.as_str());
        if !self.signed.is_empty() {
            let templates: Vec<String> = self.signed.iter().map(|template| format!("{:?}", template.text())).collect();
            text.push_str(&format!(" over {}, in {}", templates.join(" or "), self.encoding.as_str()));
        }
        for agreement in &self.agreements {
            let templates: Vec<String> = agreement.is.iter().map(|template| format!("{:?}", template.text())).collect();
            text.push_str(&format!("; {} must be {}", agreement.at.describe(), templates.join(" or ")));
        }
        if let Some(list) = &self.each {
            text.push_str(&format!("; of every item of {list}"));
        }
        if let Some(timestamp) = &self.timestamp {
            let age = timestamp.tolerance.map_or("of any age".to_owned(), |age| format!("{} old at most", Written(age)));
            text.push_str(&format!("; timestamp in {}, {age}", timestamp.at.describe()));
        }
        if let Some(site) = &self.key_id {
            text.push_str(&format!("; {} names the key", site.describe()));
        }
        match &self.when {
            Some(when) => match &when.is {
                Some(is) => format!("where {} is {is:?}: {text}", when.place),
                None => format!("where {} is there: {text}", when.place),
            },
            None => text,
        }
    }
}

impl super::signature::Signature {
    fn describe(&self) -> String {
        let at = match &self.at {
            Spot::One(place) => place.to_string(),
            Spot::Every(names) => {
                let names: Vec<&str> = names.iter().map(http::HeaderName::as_str).collect();
                format!("headers {}", names.join(" and "))
            }
            Spot::Numbered(prefix) => format!("headers {prefix}1 and on"),
            Spot::Item(pointer) => format!("{pointer} in the item"),
        };
        let part = match &self.layout {
            Layout::Plain => String::new(),
            Layout::Items(items) => match &items.pick {
                Some(pick) => format!(", {pick}{}", items.assign),
                None => ", under the id of its key".to_owned(),
            },
            Layout::List { .. } => ", a list".to_owned(),
        };
        let prefix = if self.prefix.is_empty() { String::new() } else { format!(", after {:?}", self.prefix) };
        format!("{at}{part}{prefix}")
    }
}

impl Site {
    fn is_in_head(&self) -> bool {
        matches!(self, Self::Part(_) | Self::Request(Place::Header(_) | Place::Query(_)))
    }

    fn describe(&self) -> String {
        match self {
            Self::Request(place) => place.to_string(),
            Self::Part(name) => format!("part {name}"),
            Self::Claim(pointer) => format!("claim {pointer}"),
            Self::Item(pointer) => format!("{pointer} in the item"),
        }
    }
}

impl IdRule {
    /// Where the id stands.
    pub fn describe(&self) -> String {
        let composite = |composite: &super::Composite| {
            let part = |part: &super::IdPart| format!("{}{}", part.place, if part.optional { " (if there)" } else { "" });
            composite.parts().iter().map(part).collect::<Vec<_>>().join(" + ")
        };
        self.alternatives().iter().map(composite).collect::<Vec<_>>().join(", else ")
    }
}
