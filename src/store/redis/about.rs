//! What servers say of themselves.

use std::time::SystemTime;

/// What INFO tells that matters here. Of several masters, the worst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub version: String,
    pub policy: String,
    pub maxmemory: u64,
    pub evicted_keys: u64,
    /// Another one after a restart, and after a failover.
    pub run_id: String,
    /// Its clock, a moment ago; of several the one in the middle, so that one that is wrong does not count.
    pub clock: Option<SystemTime>,
}

impl About {
    pub(super) fn parse(info: &str) -> Self {
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim();
        Self {
            version: field("redis_version").to_owned(),
            policy: field("maxmemory_policy").to_owned(),
            maxmemory: field("maxmemory").parse().unwrap_or(0),
            evicted_keys: field("evicted_keys").parse().unwrap_or(0),
            run_id: field("run_id").to_owned(),
            clock: None,
        }
    }

    /// All of them as one: the oldest version, the policy of one that throws keys away if there is such, the keys that
    /// all have thrown away, and who they are, in an order that says nothing.
    pub(super) fn of_all(mut all: Vec<Self>) -> Self {
        all.sort_by(|a, b| a.run_id.cmp(&b.run_id));
        let run_id = all.iter().map(|about| about.run_id.as_str()).collect::<Vec<_>>().join("+");
        let evicted_keys = all.iter().map(|about| about.evicted_keys).sum();
        let version = all.iter().map(|about| about.version.as_str()).min_by_key(|version| numbers(version)).map(str::to_owned);
        let mut clocks: Vec<SystemTime> = all.iter().filter_map(|about| about.clock).collect();
        clocks.sort_unstable();
        let clock = clocks.get(clocks.len() / 2).copied();
        let worst = all.iter().position(Self::evicts).unwrap_or(0);
        let Self { policy, maxmemory, .. } = all.into_iter().nth(worst).unwrap_or_default();
        Self { version: version.unwrap_or_default(), policy, maxmemory, evicted_keys, run_id, clock }
    }

    /// Whether the server throws keys away when its memory is full: events would be forgotten in silence.
    pub fn evicts(&self) -> bool {
        self.maxmemory > 0 && self.policy != "noeviction" && !self.policy.is_empty()
    }

    /// Whether it knows `SET NX GET`.
    pub fn is_before_7(&self) -> bool {
        numbers(&self.version).first().is_some_and(|major| *major < 7)
    }
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn of_several_masters_the_worst_counts() {
        let about = |version: &str, policy: &str, maxmemory, evicted_keys, run_id: &str| About {
            version: version.to_owned(),
            policy: policy.to_owned(),
            maxmemory,
            evicted_keys,
            run_id: run_id.to_owned(),
            clock: None,
        };
        let first = about("7.0.15", "noeviction", 1, 0, "bb");
        let second = about("10.1.0", "allkeys-lru", 2, 3, "aa");
        let third = about("6.2.14", "volatile-ttl", 0, 1, "cc");
        let all = About::of_all(vec![first.clone(), second.clone(), third.clone()]);
        assert_eq!(all, about("6.2.14", "allkeys-lru", 2, 4, "aa+bb+cc"));
        assert_eq!(About::of_all(vec![third, first.clone(), second]), all);
        assert_eq!(About::of_all(vec![first.clone()]), first);
        assert!(all.is_before_7() && all.evicts());
    }

    #[test]
    fn one_wrong_clock_of_three_does_not_count() {
        let at = |seconds| About { clock: Some(UNIX_EPOCH + Duration::from_secs(seconds)), ..About::default() };
        assert_eq!(About::of_all(vec![at(9000), at(100), at(101)]).clock, at(101).clock);
        assert_eq!(About::of_all(vec![at(100)]).clock, at(100).clock);
    }
}
