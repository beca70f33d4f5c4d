//! `hookonce sign`: a delivery as a provider would send it, signed by the preset's own scheme, printed for another program.

pub mod letter;

use std::io::Write as _;
use std::process::ExitCode;

use super::{FAILED, UNUSABLE, fail};
use crate::scheme::Draft;
use letter::LetterArgs;

/// Sign a delivery and print it as a raw HTTP request, which `hookonce verify` reads.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    letter: LetterArgs,
    /// Print a curl command that sends it there instead
    #[arg(long, value_name = "URL")]
    curl: Option<String>,
}

const EXAMPLES: &str = "\
  hookonce sign --preset stripe --secret whsec_test | hookonce verify --preset stripe --secret whsec_test -
  hookonce sign --preset github --secret s3cret --data '{\"action\":\"opened\"}' --curl http://127.0.0.1:8080/webhooks/github";

pub fn run(args: &Args) -> ExitCode {
    let drafted = args.letter.draft(args.curl.as_deref().unwrap_or("http://localhost/"));
    let draft = match drafted {
        Ok(draft) => draft,
        Err(error) => return fail(UNUSABLE, error),
    };
    let text = match &args.curl {
        Some(url) => curl(url, &draft),
        None => raw(&draft),
    };
    match std::io::stdout().write_all(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(FAILED, error),
    }
}

/// Head, blank line and body, as they go over the wire.
fn raw(draft: &Draft) -> Vec<u8> {
    let target = draft.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut text = format!("{} {target} HTTP/1.1\r\n", draft.method).into_bytes();
    for (name, value) in &draft.headers {
        text.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    text.extend(format!("content-length: {}\r\n\r\n", draft.body.len()).into_bytes());
    text.extend_from_slice(&draft.body);
    text
}

fn curl(url: &str, draft: &Draft) -> Vec<u8> {
    // The signature may have put something into the query.
    let url =
        draft.uri.query().map_or_else(|| url.to_owned(), |query| format!("{}?{query}", url.split('?').next().unwrap_or(url)));
    let mut words = vec!["curl -i".to_owned(), quoted(&url)];
    for (name, value) in &draft.headers {
        words.push(format!("-H {}", quoted(&format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))));
    }
    words.push(format!("--data-binary {}", quoted(&String::from_utf8_lossy(&draft.body))));
    format!("{}\n", words.join(" ")).into_bytes()
}

/// In single quotes, as shells read them.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
