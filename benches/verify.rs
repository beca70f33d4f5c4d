//! What verifying a delivery of 2 KiB costs beside the bare MAC of its body, key and all, as one would compute it by hand;
//! for every preset that signs with one.
//!
//! `cargo bench --bench verify [-- NAME...]`. Each round measures both one after the other, so that a busy machine slows both; the
//! median of the rounds' ratios counts. Ends with 1 where a preset costs more than `MOST` times the MAC, but for
//! those that must do more than sign: read JSON, sort a form, put a URL together.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark fails by panicking and reads the clock")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use hookonce::config::Secret;
use hookonce::scheme::{Draft, PublicUrl, preset};
use http::{HeaderMap, HeaderValue, Method};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};

const BODY_BYTES: usize = 2048;
const MOST: f64 = 1.3;
const ROUNDS: usize = 31;
const TIMES: u32 = 2000;
const AGAIN: usize = 3;
/// Readable as text, as hex and as base64.
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn main() -> ExitCode {
    let mut costly = Vec::new();
    println!("{:<22} {:>10} {:>10} {:>7}", "preset", "MAC", "verify", "ratio");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for name in preset::names() {
        if !wanted.is_empty() && !wanted.iter().any(|other| other == name) {
            continue;
        }
        // What else runs on the machine adds to a measurement and takes nothing away: one that is too long is made again.
        let mut best = measured(name);
        for _ in 0..AGAIN {
            let Some((_, _, ratio)) = best.filter(|(_, _, ratio)| *ratio > MOST) else { break };
            best = measured(name).filter(|(_, _, other)| *other < ratio).or(best);
        }
        let Some((mac, verify, ratio)) = best else { continue };
        let is_plain = preset::find(name).is_some_and(|preset| preset.compile().unwrap().scheme.is_plain());
        let note = if is_plain { "" } else { "  reads or changes more than it signs" };
        println!("{name:<22} {:>7.0} ns {:>7.0} ns {ratio:>7.2}{note}", nanos(mac), nanos(verify));
        if is_plain && ratio > MOST {
            costly.push(name);
        }
    }
    if costly.is_empty() {
        println!("\nNo preset that does nothing but sign costs more than {MOST} times the bare MAC.");
        return ExitCode::SUCCESS;
    }
    println!("\nMore than {MOST} times the bare MAC: {}", costly.join(", "));
    ExitCode::from(1)
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// The medians of both, and of their ratio. `None` where the preset signs with no MAC over a body of our own.
fn measured(name: &str) -> Option<(Duration, Duration, f64)> {
    let compiled = preset::find(name)?.compile().unwrap();
    let scheme = compiled.scheme.at_url(Some(PublicUrl::parse("https://hooks.example.com").unwrap()));
    let digest = scheme.algorithm().strip_prefix("hmac-")?;
    let key = scheme.key(&Secret::new(SECRET)).ok()?;
    let mut draft = draft();
    if let Some(rule) = &compiled.event_id {
        rule.fill(&mut draft, "evt_1", false).ok()?;
    }
    let now = SystemTime::now();
    scheme.sign(&key, &mut draft, now).ok()?;
    let keys = [key];
    scheme.verify(&keys, &draft.received(), now).ok()?;
    let bare = bare_mac(digest);
    let mut rounds: Vec<(Duration, Duration)> = Vec::new();
    for _ in 0..ROUNDS {
        let mac = timed(|| bare(black_box(&draft.body)));
        let verify = timed(|| scheme.verify(&keys, black_box(&draft.received()), now).is_ok());
        rounds.push((mac, verify));
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let ratio = median(rounds.iter().map(|(mac, verify)| verify.as_secs_f64() / mac.as_secs_f64()).collect());
    let of = |pick: fn(&(Duration, Duration)) -> Duration| {
        Duration::from_secs_f64(median(rounds.iter().map(|round| pick(round).as_secs_f64()).collect()))
    };
    Some((of(|round| round.0), of(|round| round.1), ratio))
}

/// A delivery with about as many headers as providers send.
fn draft() -> Draft {
    let mut headers = HeaderMap::new();
    for name in
        ["host", "user-agent", "accept", "content-type", "content-length", "x-forwarded-for", "x-request-id", "traceparent"]
    {
        headers.insert(name, HeaderValue::from_static("a-value-of-some-length"));
    }
    let padding = "x".repeat(BODY_BYTES - 100);
    let body = format!(r#"{{"type":"a.b","data":{{"object":{{"text":"{padding}"}}}},"livemode":false}}"#);
    Draft { method: Method::POST, uri: "/webhooks/x".parse().unwrap(), headers, body: Bytes::from(body) }
}

fn timed<T>(mut work: impl FnMut() -> T) -> Duration {
    let began = Instant::now();
    for _ in 0..TIMES {
        black_box(work());
    }
    began.elapsed() / TIMES
}

type BareMac = Box<dyn Fn(&[u8]) -> u8>;

/// The MAC of a body, as a library gives it.
fn bare_mac(digest: &str) -> BareMac {
    fn of<M: Mac + KeyInit + 'static>() -> BareMac {
        Box::new(move |body| {
            let mut state = <M as KeyInit>::new_from_slice(black_box(SECRET.as_bytes())).unwrap();
            state.update(body);
            state.finalize().into_bytes()[0]
        })
    }
    match digest {
        "sha1" => of::<Hmac<Sha1>>(),
        "sha384" => of::<Hmac<Sha384>>(),
        "sha512" => of::<Hmac<Sha512>>(),
        _ => of::<Hmac<Sha256>>(),
    }
}
