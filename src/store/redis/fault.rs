//! What an error of a server means: whether the same call may succeed a moment later, and what callers are told.

use redis::{ErrorKind, RedisError};

use super::super::cells::{StoreError, StoreErrorKind};
use crate::config::Address;

/// Codes of a server that cannot serve now and may a moment later.
///
/// BUSY: a script of somebody's does not end. NOREPLICAS: too few replicas follow a master that must not write
/// without them. MISCONF: it cannot save its data and takes no more.
const PASSING: [&str; 10] =
    ["LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "NOREPLICAS", "MISCONF"];

/// The code of an answer, the one inside where a script failed. Empty where there was no answer.
pub(super) fn code(error: &RedisError) -> &str {
    match error.code() {
        // Before 7.0 the code of an error in a script is that of the script.
        Some("ERR") => error.detail().and_then(inner_code).unwrap_or("ERR"),
        code => code.unwrap_or_default(),
    }
}

/// `Error running script (...): @user_script:1: [-]CODE ...`: the first word in capitals.
fn inner_code(detail: &str) -> Option<&str> {
    let words = detail.strip_prefix("Error running script")?.split(' ').map(|word| word.trim_start_matches('-'));
    words.into_iter().find(|word| word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase()))
}

/// Whether the same call may succeed a moment later.
pub(super) fn may_pass(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Io || PASSING.contains(&code(error))
}

/// Whether the server is no master, or no longer.
pub(super) fn is_demoted(error: &RedisError) -> bool {
    matches!(code(error), "READONLY" | "MASTERDOWN")
}

pub(super) fn store_error(error: RedisError) -> StoreError {
    let kind = if error.is_timeout() {
        StoreErrorKind::Timeout
    } else if error.kind() == ErrorKind::Io {
        StoreErrorKind::Unreachable
    } else if may_pass(&error) {
        StoreErrorKind::NotReady
    } else if code(&error) == "WRONGTYPE" {
        StoreErrorKind::Foreign
    } else {
        StoreErrorKind::Refused
    };
    StoreError::new(kind, error)
}

/// Whether it was not the call that failed, but the greeting of a new connection: login, database.
pub(super) fn is_unwelcome(error: &RedisError) -> bool {
    error.kind() != ErrorKind::Io && error.clone().into_server_errors().is_none()
}

/// As a server would tell that there is none to write to.
pub(super) fn no_master(what: String) -> RedisError {
    redis::make_extension_error("MASTERDOWN".to_owned(), Some(what))
}

/// Where a server of a Cluster sends a call on to.
pub(super) struct Redirect {
    pub address: Address,
    /// Only this once: the slot is on its way.
    pub asking: bool,
}

impl Redirect {
    /// A server that does not know how it is reached names no host: it is its own that `from` has.
    pub fn of(error: &RedisError, from: &Address) -> Option<Self> {
        let (place, _) = error.redirect_node()?;
        let (host, port) = place.rsplit_once(':')?;
        let host = if host.is_empty() { &from.host } else { host };
        Some(Self { address: Address { host: host.to_owned(), port: port.parse().ok()? }, asking: code(error) == "ASK" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> RedisError {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn answers_are_told_apart_by_their_codes() {
        for (line, kind) in [
            ("LOADING Redis is loading the dataset in memory", StoreErrorKind::NotReady),
            ("NOREPLICAS Not enough good replicas to write.", StoreErrorKind::NotReady),
            ("BUSY Redis is busy running a script.", StoreErrorKind::NotReady),
            ("CLUSTERDOWN Hash slot not served", StoreErrorKind::NotReady),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", StoreErrorKind::Foreign),
            ("WRONGPASS invalid username-password pair or user is disabled.", StoreErrorKind::Refused),
            ("NOPERM this user has no permissions to run the 'set' command", StoreErrorKind::Refused),
            ("ERR unknown command", StoreErrorKind::Refused),
            // As servers before 7.0 tell of scripts.
            (
                "ERR Error running script (call to f_1): @user_script:2: @user_script: 2: -READONLY You can't write against a read \
                 only replica.",
                StoreErrorKind::NotReady,
            ),
            (
                "ERR Error running script (call to f_1): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind \
                 of value",
                StoreErrorKind::Foreign,
            ),
        ] {
            let told = store_error(error(line));
            assert_eq!(told.kind, kind, "{line}");
        }
    }

    #[test]
    fn redirects_are_read() {
        let from = Address { host: "10.0.0.1".to_owned(), port: 6379 };
        for (line, address, asking) in [
            ("MOVED 3999 10.0.0.2:7000", "10.0.0.2:7000", false),
            ("ASK 3999 redis.internal:7000", "redis.internal:7000", true),
            ("MOVED 3999 :7000", "10.0.0.1:7000", false),
            ("MOVED 3999 ::1:7000", "[::1]:7000", false),
        ] {
            let redirect = Redirect::of(&error(line), &from).unwrap();
            assert_eq!((redirect.address.to_string().as_str(), redirect.asking), (address, asking));
        }
        assert!(Redirect::of(&error("READONLY x"), &from).is_none());
    }
}
