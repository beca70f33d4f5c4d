//! `[trace]`: where spans go. Nowhere, unless an endpoint is written.

use http::uri::{Parts, PathAndQuery};
use http::{HeaderName, HeaderValue, Uri};

use crate::config::TraceConfig;
use crate::config::address::Upstream;
use crate::config::reader::{At, FromNode};
use crate::config::secret::Secret;
use crate::config::share::Share;
use crate::config::tree::{Node, Value};
use crate::config::written::AsWritten;

use super::section::Section;

/// Where collectors take spans, unless the endpoint says another place.
const PATH: &str = "/v1/traces";
const SERVICE_NAME: &str = "hookonce";

pub(super) fn resolve(section: &Section<'_>) -> Option<TraceConfig> {
    let endpoint = section.optional::<Upstream>("endpoint");
    let service_name = section.or("service_name", SERVICE_NAME.to_owned());
    let sample = section.or("sample", Share::ALL);
    let headers = section.optional::<Headers>("headers").map(|headers| headers.0).unwrap_or_default();
    if service_name.is_empty() {
        section.refuse("service_name", "is empty", "write the name under which the traces are to be found");
    }
    Some(TraceConfig { endpoint: whole(endpoint?), service_name, sample, headers })
}

fn whole(endpoint: Upstream) -> Uri {
    if endpoint.has_path() {
        return endpoint.0;
    }
    let mut parts = Parts::from(endpoint.0.clone());
    parts.path_and_query = Some(PathAndQuery::from_static(PATH));
    Uri::from_parts(parts).unwrap_or(endpoint.0)
}

/// What a collector asks for beside the spans: a key, as a rule.
#[derive(Clone, Debug)]
struct Headers(Vec<(HeaderName, HeaderValue)>);

impl FromNode for Headers {
    fn from_node(node: &Node, at: &At<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            at.wrong_type(node, "a table", "{ \"api-key\" = { env = \"VARIABLE\" } }");
            return None;
        };
        let read: Vec<_> = table.entries.iter().map(|entry| header(&entry.key, &entry.node, &at.inner(&entry.key))).collect();
        read.into_iter().collect::<Option<_>>().map(Self)
    }
}

fn header(name: &str, node: &Node, at: &At<'_>) -> Option<(HeaderName, HeaderValue)> {
    let secret = Secret::from_node(node, at)?;
    let (Ok(name), Ok(mut value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(secret.bytes())) else {
        at.error(node, "is not a header", "write \"NAME\" = { env = \"VARIABLE\" }, one line of text in it");
        return None;
    };
    value.set_sensitive(true);
    Some((name, value))
}

impl AsWritten for Headers {
    fn as_written(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|(name, _)| format!("{name} (set)")).collect();
        names.join(", ")
    }
}
