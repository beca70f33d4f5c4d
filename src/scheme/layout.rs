//! How signatures are written into their text: alone, or in a list beside other parts.

use smallvec::SmallVec;

use super::disproof::Disproof;

/// How the text is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// The text is one signature.
    Plain,
    /// The text is a list of named items, of which some are signatures.
    Items(Items),
    /// The text is a list of signatures, and parts that are named by their place: the first is `0`.
    List { separator: String },
}

/// `t=1,v1=abc` and `v1,abc v1,def` are one thing with different separators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Items {
    pub separator: String,
    pub assign: String,
    /// The name under which signatures stand. `None`: each stands under the id of the key that made it.
    pub pick: Option<String>,
    /// Whether spaces around an item are no part of it.
    pub trim: bool,
}

/// A text taken apart: its signatures as they are written, and the parts beside them.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub signatures: SmallVec<[&'a str; 2]>,
    named: SmallVec<[(&'a str, &'a str); 4]>,
    /// Of a list, whose parts are named by their place.
    is_list: bool,
}

/// The parts beside the signatures, borrowed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside<'a> {
    named: &'a [(&'a str, &'a str)],
    /// Of a list, its items: parts are named by their place.
    items: Option<&'a [&'a str]>,
}

impl Parts<'_> {
    pub fn beside(&self) -> Beside<'_> {
        Beside { named: &self.named, items: self.is_list.then_some(&self.signatures[..]) }
    }
}

impl<'a> Beside<'a> {
    /// A part. Twice the same part is no part: nobody could say which one counts.
    pub fn part(&self, name: &str) -> Result<Option<&'a str>, Disproof> {
        let part = if let Some(items) = self.items {
            name.parse().ok().and_then(|place: usize| items.get(place).copied())
        } else {
            let mut named = self.named.iter().filter(|(other, _)| *other == name).map(|(_, part)| *part);
            match (named.next(), named.next()) {
                (_, Some(_)) => return Err(Disproof::MalformedSignature),
                (part, None) => part,
            }
        };
        Ok(part.filter(|part| !part.is_empty()))
    }
}

impl Layout {
    /// The most signatures that one text may hold, and the most parts beside them: rotation needs two, and each costs a
    /// comparison.
    const ITEMS_MAX: usize = 64;

    /// Whether each signature stands under the id of the key that made it.
    pub fn is_keyed(&self) -> bool {
        matches!(self, Self::Items(Items { pick: None, .. }))
    }

    /// Takes a text apart; it holds at least one signature.
    pub fn parse<'a>(&self, text: &'a str) -> Result<Parts<'a>, Disproof> {
        let mut parts = Parts::default();
        self.parse_into(text, &mut parts)?;
        Ok(parts)
    }

    /// The same, into parts that are there and need not be moved.
    #[inline]
    pub fn parse_into<'a>(&self, text: &'a str, parts: &mut Parts<'a>) -> Result<(), Disproof> {
        match self {
            Self::Plain => parts.signatures.push(text),
            Self::Items(items) => {
                for (name, part) in items.split(text) {
                    let is_picked = items.pick.as_ref().is_none_or(|pick| name == pick);
                    if is_picked {
                        parts.signatures.push(part);
                    }
                    if !is_picked || items.pick.is_none() {
                        parts.named.push((name, part));
                    }
                    if parts.signatures.len().max(parts.named.len()) > Self::ITEMS_MAX {
                        return Err(Disproof::TooManySignatures);
                    }
                }
                if parts.signatures.is_empty() {
                    return Err(if parts.named.is_empty() { Disproof::MalformedSignature } else { Disproof::OtherVersion });
                }
            }
            Self::List { separator } => {
                parts.is_list = true;
                parts.signatures.extend(split(text, separator).take(Self::ITEMS_MAX + 1));
                if parts.signatures.len() > Self::ITEMS_MAX {
                    return Err(Disproof::TooManySignatures);
                }
            }
        }
        Ok(())
    }

    /// Writes a text: the parts, then the signature, which was made by the key with this id.
    pub fn write(&self, key_id: &str, parts: &[(&str, &str)], signature: &str) -> String {
        match self {
            Self::Plain => signature.to_owned(),
            Self::Items(items) => {
                let all = parts.iter().copied().chain([(items.pick.as_deref().unwrap_or(key_id), signature)]);
                let written: Vec<String> = all.map(|(name, part)| format!("{name}{}{part}", items.assign)).collect();
                written.join(&items.separator)
            }
            Self::List { separator } => {
                let all: Vec<&str> = parts.iter().map(|(_, part)| *part).chain([signature]).collect();
                all.join(separator)
            }
        }
    }
}

impl Items {
    /// The items that have a name, in order. Unless it is said otherwise, a space belongs to what it stands at.
    fn split<'a>(&self, value: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let trimmed = |item: &'a str| if self.trim { item.trim_matches(' ') } else { item };
        split(value, &self.separator).map(trimmed).filter_map(|item| split_once(item, &self.assign))
    }
}

/// As `str::split` does. Separators are one or two bytes: to set up a search for them would cost more than the search.
fn split<'a>(text: &'a str, separator: &str) -> impl Iterator<Item = &'a str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let here = rest?;
        match split_once(here, separator) {
            Some((first, after)) => {
                rest = Some(after);
                Some(first)
            }
            None => rest.take(),
        }
    })
}

#[inline]
fn split_once<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let (bytes, first) = (text.as_bytes(), *separator.as_bytes().first()?);
    let mut from = 0;
    while let Some(offset) = memchr::memchr(first, &bytes[from..]) {
        let at = from + offset;
        if separator.len() == 1 || bytes[at..].starts_with(separator.as_bytes()) {
            return Some((text.get(..at)?, text.get(at + separator.len()..)?));
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(separator: &str, assign: &str) -> Layout {
        Layout::Items(Items { separator: separator.into(), assign: assign.into(), pick: Some("v1".into()), trim: false })
    }

    fn all<'a>(layout: &Layout, text: &'a str) -> Result<Vec<&'a str>, Disproof> {
        layout.parse(text).map(|parts| parts.signatures.to_vec())
    }

    #[test]
    fn pairs_and_tagged_lists_are_read() {
        let pairs = items(",", "=");
        assert_eq!(all(&pairs, "t=1,v1=a==,v0=b,v1=c"), Ok(vec!["a==", "c"]));
        let part = |text: &'static str| pairs.parse(text).unwrap().beside().part("t").map(|part| part.map(str::to_owned));
        assert_eq!(part("t=1,v1=a"), Ok(Some("1".to_owned())));
        assert_eq!(part("v1=a,t="), Ok(None));
        assert_eq!(part("t=1,t=1,v1=a"), Err(Disproof::MalformedSignature));
        assert_eq!(all(&items(" ", ","), "v1a,x v1,y= v2,z  v1,w"), Ok(vec!["y=", "w"]));
    }

    #[test]
    fn parts_of_a_list_are_named_by_their_place() {
        let list = Layout::List { separator: ",".into() };
        assert_eq!(all(&list, "1,a,b"), Ok(vec!["1", "a", "b"]));
        let parts = list.parse("1,a").unwrap();
        let parts = parts.beside();
        assert_eq!((parts.part("0"), parts.part("2"), parts.part("t")), (Ok(Some("1")), Ok(None), Ok(None)));
        assert_eq!(list.write("k", &[("0", "1")], "a"), "1,a");
    }

    #[test]
    fn spaces_are_not_forgiven_unless_it_is_said_and_names_keep_their_case() {
        assert_eq!(all(&items(",", "="), "t=1, v1=a"), Err(Disproof::OtherVersion));
        assert_eq!(all(&items(",", "="), "V1=a"), Err(Disproof::OtherVersion));
        assert_eq!(all(&items(",", "="), "garbage"), Err(Disproof::MalformedSignature));
        let Layout::Items(strict) = items(",", "=") else { return };
        let trimmed = Layout::Items(Items { trim: true, ..strict });
        assert_eq!(all(&trimmed, "t=1, v1=a"), Ok(vec!["a"]));
    }

    #[test]
    fn the_number_of_signatures_is_bounded() {
        assert_eq!(all(&items(",", "="), &vec!["v1=a"; 64].join(",")).map(|all| all.len()), Ok(64));
        assert_eq!(all(&items(",", "="), &vec!["v1=a"; 65].join(",")), Err(Disproof::TooManySignatures));
        assert_eq!(all(&Layout::List { separator: ",".into() }, &",".repeat(64)), Err(Disproof::TooManySignatures));
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(items(",", "=").write("k", &[("t", "1")], "abc"), "t=1,v1=abc");
        assert_eq!(items(" ", ",").write("k", &[], "abc="), "v1,abc=");
        assert_eq!(Layout::Plain.write("k", &[], "abc"), "abc");
    }
}
