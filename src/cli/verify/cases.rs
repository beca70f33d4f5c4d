//! `--cases`: lines of JSON, each a request with its key material and its clock, judged in order.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use data_encoding::BASE64;
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::judge::{KeyMaterial, Trial, Verdict};
use super::request::{self, SavedRequest};
use super::since_epoch;
use crate::config::Secret;
use crate::scheme::preset::{self, Preset};

/// A line as it is written. Keys that are not named here are for other readers.
#[derive(Deserialize)]
struct Case {
    provider: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    sdk: String,
    secret: Option<String>,
    additional_secrets: Option<Vec<String>>,
    next_secret: Option<String>,
    public_key: Option<String>,
    key_id: Option<String>,
    method: String,
    url: String,
    headers: BTreeMap<String, String>,
    body_b64: String,
    oracle_now: u64,
}

#[derive(Serialize)]
struct CaseVerdict {
    provider: String,
    name: String,
    sdk: String,
    #[serde(flatten)]
    verdict: Verdict,
}

/// Judges every line. The error names the first that cannot be read.
/// `own` judges the cases of the provider that it is named after.
pub(super) fn judge_all(lines: impl BufRead, own: Option<&'static Preset>, out: &mut impl Write) -> Result<(), String> {
    for (number, line) in lines.lines().enumerate() {
        let told = |error: String| format!("line {}: {error}", number + 1);
        let line = line.map_err(|error| told(error.to_string()))?;
        let case: Case = serde_json::from_str(&line).map_err(|error| told(error.to_string()))?;
        let verdict = judge(&case, own).map_err(told)?;
        let judged = CaseVerdict { provider: case.provider, name: case.name, sdk: case.sdk, verdict };
        let json = serde_json::to_string(&judged).map_err(|error| told(error.to_string()))?;
        writeln!(out, "{json}").map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn judge(case: &Case, own: Option<&'static Preset>) -> Result<Verdict, String> {
    let own = own.filter(|preset| preset.name == case.provider);
    let Some(preset) = own.or_else(|| preset::find(&case.provider)) else {
        return Ok(Verdict { reason: Some("unknown_preset"), ..Verdict::default() });
    };
    let trial = Trial::new(preset, since_epoch(case.oracle_now), Some(&case.url))?;
    Ok(match case.headers() {
        Ok(headers) => {
            let keys = case.keys(trial.compiled.scheme.takes_public_keys());
            trial.judge(&keys, &case.request(headers)?).verdict()
        }
        // No request could carry such a header, so none is valid.
        Err(note) => Verdict { valid: Some(false), reason: Some("unreadable_header"), note: Some(note), ..Verdict::default() },
    })
}

impl Case {
    fn keys(&self, are_public: bool) -> KeyMaterial {
        let secrets = self.secret.iter().chain(self.additional_secrets.iter().flatten()).chain(&self.next_secret);
        let public = self.public_key.iter().filter(|_| are_public);
        let secrets: Vec<&String> = if are_public { public.collect() } else { secrets.collect() };
        let secrets = secrets.into_iter().map(|secret| Secret::new(secret.as_bytes())).collect();
        KeyMaterial { secrets, id: self.key_id.clone() }
    }

    fn headers(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            request::append(&mut headers, name, value.as_bytes())?;
        }
        Ok(headers)
    }

    fn request(&self, headers: HeaderMap) -> Result<SavedRequest, String> {
        let method = self.method.parse().map_err(|_| "`method` is not one".to_owned())?;
        let uri = self.url.parse().map_err(|_| "`url` is not one".to_owned())?;
        let body = BASE64.decode(self.body_b64.as_bytes()).map_err(|error| format!("`body_b64`: {error}"))?;
        Ok(SavedRequest { method, uri, headers, body: body.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lines: &str) -> Result<String, String> {
        let mut out = Vec::new();
        judge_all(lines.as_bytes(), None, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    const CASE: &str = r#"{"provider":"PROVIDER","name":"n","sdk":"s","secret":"It's a Secret to Everybody","method":"POST",
        "url":"https://x.example/","headers":{"X-GitHub-Delivery":"d","X-Hub-Signature-256":"sha256=SIGNATURE"},
        "body_b64":"SGVsbG8sIFdvcmxkIQ==","oracle_now":1}"#;

    #[test]
    fn each_case_gets_one_line_in_order() {
        // The example of GitHub's own documentation.
        let good = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let case = CASE.replace('\n', "").replace("SIGNATURE", good);
        let lines = format!("{}\n{}\n", case.replace("PROVIDER", "github"), case.replace("PROVIDER", "nobody"));
        let printed = judged(&lines).unwrap();
        let (first, second) = printed.trim_end().split_once('\n').unwrap();
        assert!(first.starts_with(r#"{"provider":"github","name":"n","sdk":"s","valid":true,"reason":null,"#), "{first}");
        assert!(first.ends_with(r#""event_id":"d","event_ids":["d"],"note":null}"#), "{first}");
        assert!(second.contains(r#""valid":null,"reason":"unknown_preset""#), "{second}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        assert!(judged("{}\n").unwrap_err().starts_with("line 1: missing field"));
        let unsendable = CASE.replace('\n', "").replace("PROVIDER", "github").replace("SIGNATURE", "\\u0000");
        assert!(judged(&unsendable).unwrap().contains(r#""valid":false,"reason":"unreadable_header""#));
    }
}
