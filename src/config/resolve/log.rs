//! `[log]`: how log lines look, and which are written.

use crate::config::scalar::{Fault, checked_text};
use crate::config::written::quoted;
use crate::config::{LogConfig, LogFormat};

use super::section::Section;

/// One line a delivery, and what went wrong.
const LEVEL: &str = "info";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

pub(super) fn resolve(section: &Section<'_>) -> LogConfig {
    LogConfig { format: section.or("format", LogFormat::Text), level: section.or("level", Filter(LEVEL.to_owned())).0 }
}

checked_text!(
    /// A filter in the manner of `tracing`. There a misspelt level is taken for a module's name; here it is refused.
    Filter by log_filter
);

/// Gives the filter as `tracing` reads it, which takes no blanks.
fn log_filter(text: &str) -> Result<String, Fault> {
    let directives: Option<Vec<String>> = text.split(',').map(directive).collect();
    directives.map(|directives| directives.join(",")).ok_or_else(|| {
        let help = format!("write a level ({}), or one a module: \"warn,hookonce=debug\"", LEVELS.join(", "));
        Fault::new(format!("is not a log filter: {}", quoted(text)), help)
    })
}

/// `LEVEL` or `MODULE=LEVEL`.
fn directive(text: &str) -> Option<String> {
    let (module, level) = text.split_once('=').map_or((None, text), |(module, level)| (Some(module.trim()), level));
    let level = level.trim().to_ascii_lowercase();
    let is_module = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:-".contains(&b));
    let is_right = LEVELS.contains(&level.as_str()) && module.is_none_or(is_module);
    is_right.then(|| module.map_or_else(|| level.clone(), |module| format!("{module}={level}")))
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::Targets;

    use super::*;

    #[test]
    fn misspelt_level_is_not_taken_for_a_module() {
        for good in ["info", "WARN", "hookonce=debug,warn", "hookonce::store=trace", "warn, hookonce = Debug"] {
            assert!(log_filter(good).is_ok(), "{good}");
        }
        for wrong in ["", "inof", "info,", "hookonce=loud", "=,=", "=info", "hookonce=info=debug", "[span]=info", "a b=info"] {
            assert!(log_filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tracing_reads_what_was_accepted() {
        use tracing::Level;
        let filter: Targets = log_filter(" WARN , hookonce = debug,hookonce::late=off").unwrap().parse().unwrap();
        for (target, level, is_written) in [
            ("h2", Level::WARN, true),
            ("h2", Level::INFO, false),
            ("hookonce::delivery", Level::DEBUG, true),
            ("hookonce::delivery", Level::TRACE, false),
            ("hookonce::late", Level::ERROR, false),
        ] {
            assert_eq!(filter.would_enable(target, &level), is_written, "{target} {level}");
        }
    }
}
