//! How signatures are written into their text: alone, or in a list beside other parts.

use smallvec::{SmallVec, smallvec};

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
    /// The name under which signatures stand.
    pub pick: String,
    /// Whether spaces around an item are no part of it.
    pub trim: bool,
}

/// Signatures as they are written.
pub(super) type Written<'a> = SmallVec<[&'a str; 4]>;

impl Layout {
    /// The most signatures that one text may hold: rotation needs two, and each costs a comparison.
    const SIGNATURES_MAX: usize = 64;

    /// Every signature in the text, still encoded; at least one.
    pub fn signatures<'a>(&self, value: &'a str) -> Result<Written<'a>, Disproof> {
        let picked: Written<'a> = match self {
            Self::Plain => return Ok(smallvec![value]),
            Self::Items(items) => items.named(&items.pick, value).take(Self::SIGNATURES_MAX + 1).collect(),
            Self::List { separator } => split(value, separator).take(Self::SIGNATURES_MAX + 1).collect(),
        };
        match picked.len() {
            0 if matches!(self, Self::Items(items) if items.split(value).next().is_some()) => Err(Disproof::OtherVersion),
            0 => Err(Disproof::MalformedSignature),
            count if count > Self::SIGNATURES_MAX => Err(Disproof::TooManySignatures),
            _ => Ok(picked),
        }
    }

    /// A part beside the signatures. Twice the same part is no part: nobody could say which one counts.
    pub fn part<'a>(&self, name: &str, value: &'a str) -> Result<Option<&'a str>, Disproof> {
        let part = match self {
            Self::Plain => None,
            Self::Items(items) => {
                let mut named = items.named(name, value);
                match (named.next(), named.next()) {
                    (_, Some(_)) => return Err(Disproof::MalformedSignature),
                    (part, None) => part,
                }
            }
            Self::List { separator } => {
                let place: Option<usize> = name.parse().ok();
                place.and_then(|place| split(value, separator).nth(place))
            }
        };
        Ok(part.filter(|part| !part.is_empty()))
    }

    /// Writes a text: the parts, then the signature.
    pub fn write(&self, parts: &[(&str, &str)], signature: &str) -> String {
        match self {
            Self::Plain => signature.to_owned(),
            Self::Items(items) => {
                let all = parts.iter().copied().chain([(items.pick.as_str(), signature)]);
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

    fn named<'a>(&self, name: &str, value: &'a str) -> impl Iterator<Item = &'a str> {
        self.split(value).filter(move |(other, _)| *other == name).map(|(_, part)| part)
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

fn split_once<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let (bytes, first) = (text.as_bytes(), *separator.as_bytes().first()?);
    let mut from = 0;
    while let Some(offset) = memchr::memchr(first, &bytes[from..]) {
        let at = from + offset;
        if bytes[at..].starts_with(separator.as_bytes()) {
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
        Layout::Items(Items { separator: separator.into(), assign: assign.into(), pick: "v1".into(), trim: false })
    }

    fn all<'a>(layout: &Layout, text: &'a str) -> Result<Vec<&'a str>, Disproof> {
        layout.signatures(text).map(|written| written.to_vec())
    }

    #[test]
    fn pairs_and_tagged_lists_are_read() {
        let pairs = items(",", "=");
        assert_eq!(all(&pairs, "t=1,v1=a==,v0=b,v1=c"), Ok(vec!["a==", "c"]));
        assert_eq!(pairs.part("t", "t=1,v1=a"), Ok(Some("1")));
        assert_eq!(pairs.part("t", "v1=a,t="), Ok(None));
        assert_eq!(pairs.part("t", "t=1,t=1,v1=a"), Err(Disproof::MalformedSignature));
        assert_eq!(all(&items(" ", ","), "v1a,x v1,y= v2,z  v1,w"), Ok(vec!["y=", "w"]));
    }

    #[test]
    fn parts_of_a_list_are_named_by_their_place() {
        let list = Layout::List { separator: ",".into() };
        assert_eq!(all(&list, "1,a,b"), Ok(vec!["1", "a", "b"]));
        assert_eq!((list.part("0", "1,a"), list.part("2", "1,a"), list.part("t", "1,a")), (Ok(Some("1")), Ok(None), Ok(None)));
        assert_eq!(list.write(&[("0", "1")], "a"), "1,a");
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
        assert_eq!(items(",", "=").write(&[("t", "1")], "abc"), "t=1,v1=abc");
        assert_eq!(items(" ", ",").write(&[], "abc="), "v1,abc=");
        assert_eq!(Layout::Plain.write(&[], "abc"), "abc");
    }
}
