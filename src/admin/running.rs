//! `GET /api/config`: the configuration as it runs, each value with where it was written. What `check` prints, so that
//! the same secrets are left out.

use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::{Admin, AdminResponse, Denied, json_reply};
use crate::config::Setting;

pub fn answer<B>(admin: &Admin, request: &Request<B>) -> Result<AdminResponse, Denied> {
    if request.method() != Method::GET {
        return Err(Denied::method("GET"));
    }
    let config = &admin.config();
    let sections = config.sections.iter().map(|section| shown(section.name, &section.settings));
    let providers = config.providers.iter().map(|provider| shown(&format!("providers.{}", provider.name), &provider.settings));
    let sections: Vec<Value> = sections.chain(providers).collect();
    Ok(json_reply(StatusCode::OK, &json!({ "sections": sections })))
}

/// A section by its name in the file; the top level has none.
fn shown(name: &str, settings: &[Setting]) -> Value {
    let setting = |Setting { key, value, origin }: &Setting| json!({ "key": key, "value": value, "origin": origin.to_string() });
    json!({ "name": name, "settings": settings.iter().map(setting).collect::<Vec<_>>() })
}
