//! `hookonce send`: a correctly signed delivery, as often and as many at once as one likes, and what became of each.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::sign::letter::{Letter, LetterArgs, whole_url};
use super::{FAILED, UNUSABLE, block_on, fail, say};
use crate::pipeline::upstream;
use crate::telemetry::log;

/// Send a signed delivery, several times for duplicates
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to: hookonce, or the consumer itself
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    letter: LetterArgs,
    /// How often the same event is delivered
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    times: u32,
    /// How many deliveries at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
}

const EXAMPLES: &str = "\
Ten copies of one event at once: one is forwarded, nine are told so.
  hookonce send --preset stripe --secret-env STRIPE_WEBHOOK_SECRET \\
      --to http://127.0.0.1:8080/webhooks/stripe \\
      --times 10 --concurrency 10";

/// Longer than any consumer should need.
const PATIENCE: Duration = Duration::from_secs(60);
/// Answers that are shown one by one; more are only counted.
const SHOWN_MAX: u32 = 20;

type Sender = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

pub fn run(args: &Args) -> ExitCode {
    // Before anything is sent, so that a mistake is told as such.
    let letter = match whole_url(&args.to).and_then(|_| args.letter.letter(&args.to)) {
        Ok(letter) => letter,
        Err(error) => return fail(UNUSABLE, error),
    };
    letter.remarks.iter().for_each(|remark| eprintln!("hookonce: {remark}"));
    match block_on(send_all(args, letter)) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::from(FAILED),
        Ok(Err(error)) => fail(FAILED, error),
        Err(error) => fail(FAILED, error),
    }
}

/// Sends all copies; tells whether each was answered with a success.
async fn send_all(args: &Args, letter: Letter) -> Result<bool, String> {
    let (request, names_event) = (letter.draft.into_request(), letter.names_event);
    let connector = upstream::connector(upstream::public_roots()).map_err(|error| error.to_string())?;
    let sender: Sender = Client::builder(TokioExecutor::new()).build(connector);
    let places = Arc::new(Semaphore::new(args.concurrency as usize));
    let mut running = JoinSet::new();
    for _ in 0..args.times {
        let (sender, request, places) = (sender.clone(), request.clone(), Arc::clone(&places));
        running.spawn(async move {
            let _place = places.acquire().await;
            deliver(&sender, request).await
        });
    }
    let mut tally = Tally { is_ok: true, ..Tally::default() };
    while let Some(answer) = running.join_next().await {
        let answer = answer.map_err(|error| error.to_string())?;
        if args.times <= SHOWN_MAX {
            say(format_args!("{:<TOLD_LETTERS$}  {:>8.1} ms", answer.told, answer.took.as_secs_f64() * 1e3));
        }
        tally.add(answer);
    }
    tally.closing(args.times, names_event).iter().for_each(say);
    Ok(tally.is_ok)
}

/// Room for a status and the longest word that hookonce has for an outcome.
const TOLD_LETTERS: usize = "500 store_down".len();

/// What became of all copies.
#[derive(Debug, Default)]
struct Tally {
    counts: BTreeMap<String, u32>,
    is_ok: bool,
    /// Why the first of those that were refused was.
    reason: Option<String>,
    has_no_id: bool,
}

impl Tally {
    fn add(&mut self, answer: Answer) {
        self.is_ok &= answer.is_success;
        self.has_no_id |= answer.has_no_id;
        if self.reason.is_none() {
            self.reason = answer.reason;
        }
        *self.counts.entry(answer.told).or_default() += 1;
    }

    /// What is said once all copies are answered.
    fn closing(&self, times: u32, names_event: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if times > 1 {
            let parts: Vec<String> = self.counts.iter().map(|(told, count)| format!("{count} x {told}")).collect();
            lines.push(format!("{times} deliveries of one event: {}", parts.join(", ")));
        }
        lines.extend(self.reason.as_ref().map(|reason| format!("refused{reason}")));
        if self.has_no_id {
            let why = if names_event { "no event id was found in it" } else { "this preset names no event" };
            lines.push(format!("{why}, so nothing was deduped"));
        }
        lines
    }
}

#[derive(Debug)]
struct Answer {
    /// The status, and what hookonce says of it.
    told: String,
    is_success: bool,
    /// Why it was refused, where the answer says so.
    reason: Option<String>,
    has_no_id: bool,
    took: Duration,
}

impl Answer {
    /// A delivery that nobody answered.
    fn none(told: String, took: Duration) -> Self {
        Self { told, is_success: false, reason: None, has_no_id: false, took }
    }

    fn of(parts: &response::Parts, body: &[u8], took: Duration) -> Self {
        let outcome = parts.headers.get("hookonce-outcome").and_then(|value| value.to_str().ok());
        let told = outcome.map_or_else(|| parts.status.to_string(), |outcome| format!("{} {outcome}", parts.status.as_u16()));
        let is_success = parts.status.is_success();
        let reason = if is_success { None } else { reason(body) };
        Self { told, is_success, reason, has_no_id: outcome == Some("no_id"), took }
    }
}

/// Why, in the words of `{"code": ..., "reason": ...}`. A consumer's own answer may be anything, and then says nothing here.
fn reason(body: &[u8]) -> Option<String> {
    let said: serde_json::Value = serde_json::from_slice(body).ok()?;
    let reason = said["reason"].as_str()?;
    let code = said["code"].as_str().map_or_else(String::new, |code| format!(" ({code})"));
    // Whoever answers does not get to move the cursor.
    Some(format!("{code}: {reason}").replace(char::is_control, " "))
}

async fn deliver(sender: &Sender, request: Request<Full<Bytes>>) -> Answer {
    let began = Instant::now();
    let answered = timeout(PATIENCE, async {
        let response = sender.request(request).await.map_err(|error| log::chain(&error).to_string())?;
        let (parts, body) = response.into_parts();
        // Read to its end, as a provider does.
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        Ok::<_, String>((parts, body))
    })
    .await;
    let took = began.elapsed();
    match answered {
        Ok(Ok((parts, body))) => Answer::of(&parts, &body, took),
        Ok(Err(error)) => Answer::none(format!("not delivered: {error}"), took),
        Err(_) => Answer::none("no answer".to_owned(), took),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closing(status: u16, outcome: &str, body: &str, times: u32, names_event: bool) -> Vec<String> {
        let response = http::Response::builder().status(status).header("hookonce-outcome", outcome).body(()).unwrap();
        let mut tally = Tally { is_ok: true, ..Tally::default() };
        let parts = response.into_parts().0;
        (0..times).for_each(|_| tally.add(Answer::of(&parts, body.as_bytes(), Duration::ZERO)));
        assert_eq!(tally.is_ok, status < 300);
        tally.closing(times, names_event)
    }

    #[test]
    fn a_refusal_tells_its_reason_once() {
        let body = r#"{"status":"refused","code":"no_match","reason":"no secret\u001b fits"}"#;
        assert_eq!(
            closing(401, "rejected", body, 2, true),
            ["2 deliveries of one event: 2 x 401 rejected", "refused (no_match): no secret  fits"]
        );
        assert!(closing(500, "failed", "<html>", 1, true).is_empty());
        assert!(closing(200, "forwarded", body, 1, true).is_empty());
    }

    #[test]
    fn without_an_id_nothing_is_deduped() {
        assert_eq!(closing(200, "no_id", "", 1, false), ["this preset names no event, so nothing was deduped"]);
        assert_eq!(closing(200, "no_id", "", 1, true), ["no event id was found in it, so nothing was deduped"]);
    }
}
