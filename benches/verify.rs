//! What verifying a delivery of 2 KiB costs beside the bare MAC of its body, key and all, as one would compute it by hand;
//! for every preset that signs with one.
//!
//! `cargo bench --bench verify [-- NAME...]`. Short rounds of both take turns, in several passes over all presets. What else
//! runs on the machine adds to a round and takes nothing away, so the fast rounds of each tell what it costs: the tenth of
//! them from below counts. Ends with 1 where a preset costs more than `MOST` times the MAC, but for those that must do more
//! than sign: read JSON, sort a form, put a URL together.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark fails by panicking and reads the clock")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use hookonce::config::Secret;
use hookonce::scheme::{Draft, Key, PublicUrl, Scheme, preset};
use http::{HeaderMap, HeaderValue, Method};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};

const BODY_BYTES: usize = 2048;
const MOST: f64 = 1.3;
/// A neighbour on the same core may be busy for a second; it is not for all passes.
const PASSES: usize = 12;
const ROUNDS: usize = 40;
const TIMES: u32 = 200;
/// Readable as text, as hex and as base64.
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|other| other == name);
    let mut subjects: Vec<Subject> =
        preset::names().into_iter().filter(|name| is_wanted(name)).filter_map(Subject::new).collect();
    for pass in 1..=PASSES {
        eprint!("\rpass {pass} of {PASSES} over {} presets", subjects.len());
        subjects.iter_mut().for_each(Subject::measure);
    }
    eprintln!();
    let mut costly = Vec::new();
    println!("{:<22} {:>10} {:>10} {:>7}", "preset", "MAC", "verify", "ratio");
    for subject in subjects {
        let (name, is_plain) = (subject.name, subject.is_plain);
        let (mac, verify) = (undisturbed(subject.macs), undisturbed(subject.verifies));
        let ratio = verify / mac;
        let note = if is_plain { "" } else { "  reads or changes more than it signs" };
        println!("{name:<22} {:>7.0} ns {:>7.0} ns {ratio:>7.2}{note}", mac * 1e9, verify * 1e9);
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

/// A preset, a delivery it has signed, and what the rounds took, in seconds.
struct Subject {
    name: &'static str,
    is_plain: bool,
    scheme: Scheme,
    keys: [Key; 1],
    draft: Draft,
    now: SystemTime,
    bare: BareMac,
    macs: Vec<f64>,
    verifies: Vec<f64>,
}

impl Subject {
    /// `None` where the preset signs with no MAC over a body of our own.
    fn new(name: &'static str) -> Option<Self> {
        let compiled = preset::find(name)?.compile().unwrap();
        let is_plain = compiled.scheme.is_plain();
        let scheme = compiled.scheme.at_url(Some(PublicUrl::parse("https://hooks.example.com").unwrap()));
        let bare = bare_mac(scheme.algorithm().strip_prefix("hmac-")?);
        let key = scheme.key(&Secret::new(SECRET)).ok()?;
        let mut draft = draft();
        if let Some(rule) = &compiled.event_id {
            rule.fill(&mut draft, "evt_1", false).ok()?;
        }
        let now = SystemTime::now();
        scheme.sign(&key, &mut draft, now).ok()?;
        let keys = [key];
        scheme.verify(&keys, &draft.received(), now).ok()?;
        Some(Self { name, is_plain, scheme, keys, draft, now, bare, macs: Vec::new(), verifies: Vec::new() })
    }

    fn measure(&mut self) {
        for _ in 0..ROUNDS {
            self.macs.push(timed(|| (self.bare)(black_box(&self.draft.body))));
            self.verifies.push(timed(|| self.scheme.verify(&self.keys, black_box(&self.draft.received()), self.now).is_ok()));
        }
    }
}

fn undisturbed(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 10]
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

/// The seconds that one call takes.
fn timed<T>(mut work: impl FnMut() -> T) -> f64 {
    let began = Instant::now();
    for _ in 0..TIMES {
        black_box(work());
    }
    began.elapsed().as_secs_f64() / f64::from(TIMES)
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
