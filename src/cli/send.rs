//! `hookonce send`: a correctly signed delivery, as often and as many at once as one likes, and what became of each.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::sign::letter::LetterArgs;
use super::{FAILED, UNUSABLE, block_on, fail, say};
use crate::pipeline::upstream;

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
  hookonce send --preset stripe --secret-env STRIPE_WEBHOOK_SECRET --to http://127.0.0.1:8080/webhooks/stripe \\
      --times 10 --concurrency 10";

/// Longer than any consumer should need.
const PATIENCE: Duration = Duration::from_secs(60);
/// Answers that are shown one by one; more are only counted.
const SHOWN_MAX: u32 = 20;

type Sender = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

pub fn run(args: &Args) -> ExitCode {
    let uri: Uri = match args.to.parse() {
        Ok(uri) => uri,
        Err(_) => return fail(UNUSABLE, format!("{} is not a URL", args.to)),
    };
    if uri.host().is_none() {
        return fail(UNUSABLE, format!("{} is not a whole URL: write http://127.0.0.1:8080/webhooks/NAME", args.to));
    }
    // Once before anything is sent, so that a mistake is told as such.
    let draft = match args.letter.draft(&args.to) {
        Ok(draft) => draft,
        Err(error) => return fail(UNUSABLE, error),
    };
    let letter = draft.into_request();
    match block_on(send_all(args, letter)) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::from(FAILED),
        Ok(Err(error)) => fail(FAILED, error),
        Err(error) => fail(FAILED, error),
    }
}

/// Sends all copies; tells whether each was answered with a success.
async fn send_all(args: &Args, letter: Request<Full<Bytes>>) -> Result<bool, String> {
    let connector = upstream::connector(upstream::public_roots()).map_err(|error| error.to_string())?;
    let sender: Sender = Client::builder(TokioExecutor::new()).build(connector);
    let places = Arc::new(Semaphore::new(args.concurrency as usize));
    let mut running = JoinSet::new();
    for _ in 0..args.times {
        let (sender, letter, places) = (sender.clone(), letter.clone(), Arc::clone(&places));
        running.spawn(async move {
            let _place = places.acquire().await;
            deliver(&sender, letter).await
        });
    }
    let (mut counts, mut is_ok) = (BTreeMap::<String, u32>::new(), true);
    while let Some(answer) = running.join_next().await {
        let answer = answer.map_err(|error| error.to_string())?;
        is_ok &= answer.is_success;
        if args.times <= SHOWN_MAX {
            say(format_args!("{}  {:.1} ms", answer.told, answer.took.as_secs_f64() * 1e3));
        }
        *counts.entry(answer.told).or_default() += 1;
    }
    if args.times > 1 {
        let parts: Vec<String> = counts.iter().map(|(told, count)| format!("{count} x {told}")).collect();
        say(format_args!("{} deliveries of one event: {}", args.times, parts.join(", ")));
    }
    Ok(is_ok)
}

struct Answer {
    /// The status, and what hookonce says of it.
    told: String,
    is_success: bool,
    took: Duration,
}

async fn deliver(sender: &Sender, letter: Request<Full<Bytes>>) -> Answer {
    let began = Instant::now();
    let answered = timeout(PATIENCE, async {
        let response = sender.request(letter).await.map_err(|error| upstream::chain(&error).to_string())?;
        let (parts, body) = response.into_parts();
        // Read to its end, as a provider does.
        let _ = body.collect().await;
        Ok::<_, String>(parts)
    })
    .await;
    let took = began.elapsed();
    match answered {
        Ok(Ok(parts)) => {
            let outcome = parts.headers.get("hookonce-outcome").and_then(|value| value.to_str().ok());
            let told = outcome.map_or_else(|| parts.status.to_string(), |outcome| format!("{} {outcome}", parts.status.as_u16()));
            Answer { told, is_success: parts.status.is_success(), took }
        }
        Ok(Err(error)) => Answer { told: format!("not delivered: {error}"), is_success: false, took },
        Err(_) => Answer { told: "no answer".to_owned(), is_success: false, took },
    }
}
