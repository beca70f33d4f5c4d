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
Examples:
  hookonce sign --preset stripe --secret whsec_test \\
      | hookonce verify --preset stripe --secret whsec_test -

  hookonce sign --preset github --secret s3cret \\
      --data '{\"action\":\"opened\"}' \\
      --curl http://127.0.0.1:8080/webhooks/github";

pub fn run(args: &Args) -> ExitCode {
    // Without a place to send it to, it is a request to where the provider would send it.
    let to = args.curl.as_deref().or(args.letter.public_url.as_deref()).unwrap_or("http://localhost/");
    let letter = match args.letter.letter(to) {
        Ok(letter) => letter,
        Err(error) => return fail(UNUSABLE, error),
    };
    let text = match &args.curl {
        Some(url) => curl(url, &letter.draft),
        None => Ok(raw(&letter.draft)),
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => return fail(UNUSABLE, error),
    };
    letter.remarks.iter().for_each(|remark| eprintln!("hookonce: {remark}"));
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

/// The error says why no command line can hold it.
fn curl(url: &str, draft: &Draft) -> Result<Vec<u8>, String> {
    let body = std::str::from_utf8(&draft.body).ok().filter(|text| !text.contains('\0'));
    let body =
        body.ok_or("the body is not UTF-8 text, and no command line can hold it: `hookonce send --to URL` sends it as it is")?;
    // The signature may have put something into the query.
    let url =
        draft.uri.query().map_or_else(|| url.to_owned(), |query| format!("{}?{query}", url.split('?').next().unwrap_or(url)));
    let mut words = vec!["curl -i".to_owned(), quoted(&url)];
    for (name, value) in &draft.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        // With a colon and nothing behind it curl leaves the header out.
        let line = if value.is_empty() { format!("{name};") } else { format!("{name}: {value}") };
        words.push(format!("-H {}", quoted(&line)));
    }
    // Raw, because `--data-binary` reads a file where the text begins with an @.
    words.push(format!("--data-raw {}", quoted(body)));
    Ok(format!("{}\n", words.join(" ")).into_bytes())
}

/// In single quotes, as shells read them.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
