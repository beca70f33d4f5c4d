//! The index of ends: when to look whether a cell has ended.
//!
//! ```text
//!   END KEY               nothing                          END: eight bytes, big-endian
//!   END ff NUMBER PART    keys, each after its length      as a key is text, none begins with ff
//! ```
//!
//! Cells that are written together mostly end together, and an entry for all of them costs as much as one for each.

use std::collections::BTreeMap;

use fjall::{Keyspace, UserKey};

use super::tables::WriteBatch;

/// Keys of one entry: what the sweeper does at once.
const GROUP_MAX: usize = 64;
const GROUP: u8 = 0xff;

/// Entries that are to be written.
#[derive(Default)]
pub(super) struct Ends(BTreeMap<u64, Vec<Vec<u8>>>);

impl Ends {
    pub(super) fn add(&mut self, end: u64, key: &[u8]) {
        self.0.entry(end).or_default().push(key.to_vec());
    }

    /// `number` is of this batch alone.
    pub(super) fn write(self, number: u64, table: &Keyspace, batch: &mut WriteBatch) {
        let mut part = 0_u32;
        for (end, keys) in self.0 {
            for keys in keys.chunks(GROUP_MAX) {
                match keys {
                    [key] => batch.insert(table, [&end.to_be_bytes()[..], key].concat(), &[][..]),
                    keys => batch.insert(table, group_key(end, number, part), group(keys)),
                }
                part += 1;
            }
        }
    }
}

fn group_key(end: u64, number: u64, part: u32) -> Vec<u8> {
    [&end.to_be_bytes()[..], &[GROUP], &number.to_be_bytes(), &part.to_be_bytes()].concat()
}

fn group(keys: &[Vec<u8>]) -> Vec<u8> {
    let mut group = Vec::with_capacity(keys.iter().map(|key| size_of::<u32>() + key.len()).sum());
    for key in keys {
        // What does not fit is nobody's key: the engine has an end of its own at 64 KiB.
        group.extend(u32::try_from(key.len()).unwrap_or(0).to_be_bytes());
        group.extend_from_slice(key);
    }
    group
}

/// The keys of an entry.
pub(super) fn keys<'e>(entry: &'e UserKey, group: &'e [u8]) -> Vec<&'e [u8]> {
    let key = entry.get(size_of::<u64>()..).unwrap_or_default();
    if key.first() != Some(&GROUP) {
        return vec![key];
    }
    let (mut keys, mut rest) = (Vec::new(), group);
    while let Some((length, others)) = rest.split_first_chunk()
        && let Some((key, others)) =
            usize::try_from(u32::from_be_bytes(*length)).ok().and_then(|length| others.split_at_checked(length))
    {
        keys.push(key);
        rest = others;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_gives_back_the_keys_it_was_made_of() {
        let single = UserKey::from([&7_u64.to_be_bytes()[..], b"a key"].concat());
        assert_eq!(keys(&single, &[]), [b"a key"]);
        let all = [b"first".to_vec(), Vec::new(), vec![b'x'; 300]];
        assert_eq!(keys(&group_key(7, 1, 0).into(), &group(&all)), all);
        assert_eq!(keys(&group_key(7, 1, 0).into(), &group(&all)[..20]), [&b"first"[..], b""], "what is cut short is left out");
    }
}
