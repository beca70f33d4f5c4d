//! Why a delivery is not believed. The words are stable: metrics, logs and `verify --json` use them.

/// Why a delivery is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disproof {
    MissingSignature,
    RepeatedValue,
    MalformedSignature,
    OtherVersion,
    TooManySignatures,
    MissingSignedValue,
    MissingTimestamp,
    MalformedTimestamp,
    UnknownKey,
    NoMatch,
    Altered,
    Stale,
    Future,
}

impl Disproof {
    /// Every reason, for the series that exist from the start.
    pub const ALL: &'static [Self] = &[
        Self::MissingSignature,
        Self::RepeatedValue,
        Self::MalformedSignature,
        Self::OtherVersion,
        Self::TooManySignatures,
        Self::MissingSignedValue,
        Self::MissingTimestamp,
        Self::MalformedTimestamp,
        Self::UnknownKey,
        Self::NoMatch,
        Self::Altered,
        Self::Stale,
        Self::Future,
    ];

    /// The word of the metric label and of the JSON reason.
    pub fn code(self) -> &'static str {
        match self {
            Self::MissingSignature => "missing_signature",
            Self::RepeatedValue => "repeated_value",
            Self::MalformedSignature => "malformed_signature",
            Self::OtherVersion => "other_version",
            Self::TooManySignatures => "too_many_signatures",
            Self::MissingSignedValue => "missing_signed_value",
            Self::MissingTimestamp => "missing_timestamp",
            Self::MalformedTimestamp => "malformed_timestamp",
            Self::UnknownKey => "unknown_key",
            Self::NoMatch => "no_match",
            Self::Altered => "altered",
            Self::Stale => "stale",
            Self::Future => "future",
        }
    }

    /// A sentence for a log line or for `verify`.
    pub fn explain(self) -> &'static str {
        match self {
            Self::MissingSignature => {
                "there is no signature where it is looked for: the sender has no secret configured, puts it elsewhere, or something on \
                 the way dropped it"
            }
            Self::RepeatedValue => {
                "a value that counts for the signature, such as a header, stands there more than once, so that it cannot be told \
                 which one was meant"
            }
            Self::MalformedSignature => {
                "the signature is not written as the scheme writes it: its prefix, its encoding or its length is another"
            }
            Self::OtherVersion => "the header holds signatures, but none of the version that the scheme asks for",
            Self::TooManySignatures => "the header holds more signatures than any sender has reason to send",
            Self::MissingSignedValue => "a value that the signature covers, such as a header with the event's id, is not there",
            Self::MissingTimestamp => "the signed timestamp is not there",
            Self::MalformedTimestamp => "the timestamp is not written as the scheme's unit is",
            Self::UnknownKey => {
                "it names a key that is none of those that are known: the `id` of a secret is another one, or a key was changed"
            }
            Self::Altered => {
                "the signature holds, but what it vouches for is not what came: the body was changed after it was signed, or it was \
                 meant for another URL or another audience"
            }
            Self::NoMatch => {
                "no configured secret gives this signature: the secret is another one, or the body was changed after it \
                 was signed (parsed and written again, decompressed, a newline added)"
            }
            Self::Stale => {
                "the signature holds, but its timestamp is older than the tolerance: the delivery was held up or \
                 replayed, or this clock is ahead"
            }
            Self::Future => {
                "the signature holds, but its timestamp lies in the future: this clock is behind, or the sender's is ahead"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_differ_and_are_snake_case() {
        let mut codes: Vec<_> = Disproof::ALL.iter().map(|reason| reason.code()).collect();
        assert!(codes.iter().all(|code| code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), 13);
    }
}
