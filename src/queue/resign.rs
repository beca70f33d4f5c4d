//! Signatures that have grown old while an event waited are made anew, by the provider's own scheme and secret, so that a
//! consumer that verifies for itself still accepts them.

use std::time::{Duration, SystemTime};

use crate::config::Provider;
use crate::pipeline::intake::Delivery;
use crate::scheme::Draft;

/// A signature is made anew once this part of its time is over: consumers' clocks differ, and so does their patience.
const PART: u32 = 5;

/// Signs the delivery anew if it has waited for so long that it needs it. Tells whether it was.
pub(super) fn resign(provider: &Provider, delivery: Delivery, waited: Duration, now: SystemTime) -> (Delivery, bool) {
    let (Some(tolerance), Some(key)) = (provider.scheme.tolerance(), provider.keys.first()) else { return (delivery, false) };
    if waited < tolerance / PART || !provider.scheme.can_be_signed() {
        return (delivery, false);
    }
    let Delivery { mut parts, body, caller, .. } = delivery;
    let mut draft =
        Draft { method: parts.method.clone(), uri: parts.uri.clone(), headers: parts.headers.clone(), body: body.clone() };
    match provider.scheme.sign(key, &mut draft, now) {
        Ok(()) => {
            (parts.uri, parts.headers) = (draft.uri, draft.headers);
            (Delivery::kept(parts, draft.body, caller), true)
        }
        Err(why) => {
            tracing::warn!(provider = provider.name, why, "a signature could not be made anew: delivered as it was");
            (Delivery::kept(parts, body, caller), false)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use bytes::Bytes;
    use http::Request;

    use super::*;
    use crate::config::{Config, Environment};
    use crate::pipeline::caller::Caller;
    use crate::scheme::{Disproof, preset};

    const HOUR: Duration = Duration::from_secs(3600);

    fn then() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_794_787_700)
    }

    /// A provider that is verified with a secret, if it is, and a delivery that it has signed.
    fn signed(name: &str) -> Option<(std::sync::Arc<Provider>, Delivery)> {
        let secret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let text = format!(
            "upstream = \"http://127.0.0.1:1\"\n[providers.{name}]\npath = \"/\"\nsecret = \"{secret}\"\n\
             public_url = \"https://hooks.example.com\""
        );
        let provider = std::sync::Arc::clone(&Config::from_text(&text, &Environment::default()).ok()?.config.providers[0]);
        let sample = preset::find(name)?.sample();
        let filled = |text: &str| text.replace("{id}", "evt_1").replace("{now}", "1").replace("{now_ms}", "1");
        let filled = |text: &str| filled(text).replace("{now_rfc3339}", "2026-11-16T00:08:20Z");
        let mut request = Request::post("/hooks").header("content-type", sample.content_type).body(()).unwrap();
        for (name, value) in &sample.headers {
            request.headers_mut().insert(name.parse::<http::HeaderName>().unwrap(), filled(value).parse().unwrap());
        }
        let (mut parts, ()) = request.into_parts();
        let (method, uri, headers) = (parts.method.clone(), parts.uri.clone(), parts.headers.clone());
        let mut draft = Draft { method, uri, headers, body: Bytes::from(filled(&sample.body)) };
        if let Some(rule) = &provider.event_id {
            rule.fill(&mut draft, "evt_1", false).ok()?;
        }
        provider.scheme.sign(&provider.keys[0], &mut draft, then()).ok()?;
        (parts.uri, parts.headers) = (draft.uri, draft.headers);
        Some((provider, Delivery::kept(parts, draft.body, Caller::new([127, 0, 0, 1].into(), false))))
    }

    #[test]
    fn what_grew_old_is_signed_anew_and_holds() {
        let mut resigned = 0;
        for name in preset::names() {
            let Some((provider, delivery)) = signed(name) else { continue };
            let Some(tolerance) = provider.scheme.tolerance().filter(|tolerance| *tolerance < HOUR) else { continue };
            let late = then() + HOUR;
            let judge = |delivery: &Delivery| provider.scheme.verify(&provider.keys, &delivery.received(), late).map(drop);
            assert_eq!(judge(&delivery), Err(Disproof::Stale), "{name}");
            let (parts, body) = (delivery.parts.clone(), delivery.body.clone());
            let (delivery, is_resigned) = resign(&provider, delivery, HOUR, late);
            assert!(is_resigned && judge(&delivery).is_ok(), "{name}: {delivery:?} {tolerance:?}");
            assert_eq!((delivery.parts.method, delivery.parts.uri), (parts.method, parts.uri), "{name}");
            let is_in_body = delivery.body != body;
            let changed = parts.headers.iter().filter(|(name, value)| delivery.parts.headers.get(*name) != Some(*value)).count();
            assert!(is_in_body || changed > 0, "{name}");
            assert_eq!(delivery.parts.headers.len(), parts.headers.len(), "{name}: nothing is added");
            resigned += 1;
        }
        assert!(resigned > 50, "{resigned}");
    }

    #[test]
    fn what_is_fresh_or_ageless_stays_as_it_was() {
        for (name, waited) in [("stripe", Duration::from_secs(59)), ("github", HOUR), ("intercom", HOUR)] {
            let (provider, delivery) = signed(name).unwrap();
            let headers = delivery.parts.headers.clone();
            let (delivery, is_resigned) = resign(&provider, delivery, waited, then() + waited);
            assert!(!is_resigned && delivery.parts.headers == headers, "{name}");
        }
    }
}
