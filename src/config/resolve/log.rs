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

fn log_filter(text: &str) -> Result<String, Fault> {
    let is_directive = |part: &str| {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        LEVELS.contains(&level.trim().to_ascii_lowercase().as_str())
    };
    if text.split(',').all(is_directive) && tracing_subscriber::EnvFilter::try_new(text).is_ok() {
        return Ok(text.to_owned());
    }
    let help = format!("write a level ({}), or one a module: \"warn,hookonce=debug\"", LEVELS.join(", "));
    Err(Fault::new(format!("is not a log filter: {}", quoted(text)), help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_level_is_not_taken_for_a_module() {
        for good in ["info", "WARN", "hookonce=debug,warn", "hookonce::store=trace"] {
            assert!(log_filter(good).is_ok(), "{good}");
        }
        for wrong in ["", "inof", "info,", "hookonce=loud", "=,="] {
            assert!(log_filter(wrong).is_err(), "{wrong}");
        }
    }
}
