//! Whether what a store has confirmed outlives it.

/// How safe an acknowledged event is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// On disk before it is confirmed.
    Durable,
    /// It may be lost: how much, and what would help.
    Lossy(String),
}

impl Keeping {
    /// What `appendonly` and `appendfsync` of a server come to. `None`: it may not be asked.
    pub(super) fn of_redis(has_log: bool, sync: Option<&str>) -> Self {
        let lossy = |what: &str| Self::Lossy(format!("{what}; set appendonly yes and appendfsync always"));
        match (has_log, sync) {
            (false, _) => lossy("Redis keeps no append-only file: where it crashes, it loses what came since its last snapshot"),
            (true, Some("always")) => Self::Durable,
            (true, Some("everysec")) => {
                lossy("appendfsync is everysec: where Redis or its machine crashes, it loses up to a second of what it confirmed")
            }
            (true, Some(_)) => lossy("appendfsync is no: where its machine crashes, Redis loses what the kernel had not written"),
            (true, None) => Self::Lossy(
                "CONFIG GET appendfsync is not allowed, so that nobody knows what a crash of Redis would lose; allow it \
                 (+config|get)"
                    .to_owned(),
            ),
        }
    }

    /// Of several servers the worst counts.
    pub(super) fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().find(|keeping| *keeping != Self::Durable).unwrap_or(Self::Durable)
    }
}
