//! Recognising a path however it is spelt. Servers disagree on what a path means: each of their readings counts here.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;

use super::percent_decoded;

/// How often a path is decoded. No server does so more than twice; what goes on for longer is meant to mislead.
const DECODED_MAX: usize = 8;

/// Providers' paths, as they are recognised.
#[derive(Debug)]
pub struct Guarded(Vec<String>);

impl Guarded {
    pub fn new<'a>(paths: impl Iterator<Item = &'a String>) -> Self {
        Self(paths.map(|path| folded(&plain(path))).collect())
    }

    /// Whether a consumer could take this for one of the paths, or for whatever path it likes.
    pub fn has(&self, path: &str) -> bool {
        let Some(decoded) = decoded(path) else { return true };
        // Some servers take this for the end of a path, once they have decoded it, and some leave out what cannot be seen.
        let cut = decoded.split(|c: char| matches!(c, ';' | '?' | '#') || c.is_control()).next().unwrap_or_default();
        let visible: String = decoded.chars().filter(|c| !c.is_control()).collect();
        [decoded.as_str(), cut, &visible].into_iter().any(|reading| {
            // Clients resolve these before they send. Servers do so in as many ways as there are: before or after they decode,
            // merge slashes and drop parameters. So no path that has them can be said to be another.
            steps(reading).any(|step| step.bytes().all(|byte| byte == b'.')) || self.names(&folded(&joined(reading)))
        })
    }

    fn names(&self, reading: &str) -> bool {
        // `/hooks.json` is `/hooks` in another format to some frameworks.
        let without_format = reading.rsplit_once('.').map(|(path, _)| path).filter(|path| !path.ends_with('/'));
        // What comes behind a file is, to others, an argument of it.
        let is_behind_file = |path: &str| {
            let is_file = path.rsplit('/').next().is_some_and(|file| file.contains('.'));
            is_file && reading.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        };
        self.0.iter().any(|path| path == reading || Some(path.as_str()) == without_format || is_behind_file(path))
    }
}

/// The same letters in one case, as servers that do not mind cases have it: to some a dotless i is one, and a dotted I.
fn folded(text: &str) -> String {
    const DOT_ABOVE: char = '\u{307}';
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).filter(|c| *c != DOT_ABOVE).collect()
}

/// The path as a lenient server may read it: decoded, without empty steps, parameters and a slash at its end.
pub fn plain(path: &str) -> String {
    joined(&decoded(path).unwrap_or_default())
}

fn joined(decoded: &str) -> String {
    format!("/{}", steps(decoded).collect::<Vec<_>>().join("/"))
}

/// The steps of a decoded path, without what some servers drop: parameters, spaces and dots at the end.
fn steps(decoded: &str) -> impl Iterator<Item = &str> {
    let is_slash = |c: char| matches!(c, '/' | '\\' | '\u{2044}' | '\u{2215}' | '\u{29f5}');
    let named = decoded.split(is_slash).map(|step| step.split(';').next().unwrap_or_default());
    let trimmed = named.map(|step| step.trim_matches(|c: char| c.is_whitespace() || c.is_control()));
    trimmed.filter(|step| !step.is_empty()).map(|step| {
        let name = step.trim_end_matches(|c: char| c == '.' || c.is_whitespace());
        if name.is_empty() { step } else { name }
    })
}

/// The path with all that is encoded decoded, again and again, and letters that only look different made the same.
/// `None` where that never comes to an end.
fn decoded(path: &str) -> Option<String> {
    let mut text = path.to_owned();
    for _ in 0..DECODED_MAX {
        let once = percent_decoded(&words_decoded(&text));
        let next = ComposingNormalizerBorrowed::new_nfkc().normalize(&once).into_owned();
        if next == text {
            return Some(text);
        }
        text = next;
    }
    None
}

/// `%u002f`, as one server writes it, and what is UTF-8 but longer than it has to be, as in `%c0%af`, are plain letters.
fn words_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let (letter, length) = word(rest).or_else(|| overlong(rest)).unwrap_or(('%', 1));
        plain.push(letter);
        rest = &rest[length..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

fn word(text: &str) -> Option<(char, usize)> {
    let digits = text.strip_prefix("%u").or_else(|| text.strip_prefix("%U"))?.get(..4)?;
    Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, 6))
}

/// A letter of ASCII that takes two to four bytes. Readers that let this pass do not look at the upper bits of those that follow.
fn overlong(text: &str) -> Option<(char, usize)> {
    let byte = |nth: usize| {
        let digits = text.get(nth * 3..nth * 3 + 3)?.strip_prefix('%')?;
        u8::from_str_radix(digits, 16).ok()
    };
    let follows = |nth| byte(nth).map(|byte| byte & 0x3f);
    let (low, high, length) = match byte(0)? {
        first @ 0xc0..=0xc1 => (follows(1)?, first & 1, 2),
        0xe0 if follows(1)? <= 1 => (follows(2)?, follows(1)?, 3),
        0xf0 if follows(1)? == 0 && follows(2)? <= 1 => (follows(3)?, follows(2)?, 4),
        _ => return None,
    };
    Some((char::from(high << 6 | low), length * 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded() -> Guarded {
        Guarded::new([&"/webhooks/stripe".to_owned(), &"/in.php".to_owned()].into_iter())
    }

    #[test]
    fn spellings_of_one_path_are_recognised() {
        for spelling in [
            "/webhooks/stripe",
            "//webhooks/stripe",
            "/webhooks//stripe/",
            "/webhooks%2fstripe",
            "/webhooks%252Fstripe",
            "/webhooks%25252525252Fstripe",
            "/%77ebhooks/stripe",
            "/webhooks\\stripe",
            "/webhooks/stripe;v=1",
            "/webhooks/stripe;/x",
            "/webhooks;a/stripe",
            "/webhooks%c0%afstripe",
            "/webhooks%c0%2fstripe",
            "/webhooks%c1%1cstripe",
            "/webhooks%e0%80%afstripe",
            "/webhooks%f0%80%80%afstripe",
            "/webhooks%u002fstripe",
            "/webhooks%ef%bc%8fstripe",
            "/webhooks%e2%88%95stripe",
            "/webhooks%e2%81%84stripe",
            "/webhooks/\u{ff53}tripe",
            "/webhooks/%c5%bftripe",
            "/webhooks/stripe%00.png",
            "/web%00hooks/str%0aipe",
            "/webhooks/str%c4%b1pe",
            "/webhooks/str%c4%b0pe",
            "/webhooks/stripe%20",
            "/webhooks/stripe%09",
            "/webhooks/stripe.",
            "/webhooks/stripe%3fa=b",
            "/webhooks/stripe%23a",
            "/webhooks/stripe.json",
            "/WEBHOOKS/Stripe",
            "/in.php/more",
            "/In.PHP",
        ] {
            assert!(guarded().has(spelling), "{spelling}");
        }
    }

    #[test]
    fn a_path_that_leads_back_could_be_any() {
        for path in [
            "/x/../y",
            "/./y",
            "/x/%2e%2E/y",
            "/x/..;a/y",
            "/x/.. /y",
            "/x/..%c0%af",
            "/x/%c0%2e%c0%6e/y",
            "/..",
            "/x/...",
            "/x\\..\\y",
        ] {
            assert!(guarded().has(path), "{path}");
        }
        let endless = (0..20).fold("%2f".to_owned(), |path, _| path.replacen('%', "%25", 1));
        assert!(guarded().has(&format!("/{endless}")));
    }

    #[test]
    fn other_paths_are_others() {
        for path in [
            "/",
            "/webhooks",
            "/webhooks/stripes",
            "/webhooks/stripe/x",
            "/x/webhooks/stripe",
            "/.well-known/x",
            "/a..b/c.d",
            "/100%/x%zz",
            "/in.phpx",
            "/caf%e9",
            "/caf%c3%a9",
            "/%c0%80",
        ] {
            assert!(!guarded().has(path), "{path}");
        }
        assert_eq!((plain("/"), plain("/100%/x%zz")), ("/".into(), "/100%/x%zz".into()));
    }
}
