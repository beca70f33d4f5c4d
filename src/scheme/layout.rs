//! How signatures are written into their header: alone, or in a list beside other parts.

use super::disproof::Disproof;

/// How the header's value is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// The value is one signature.
    Plain,
    /// The value is a list of named items, of which some are signatures.
    Items(Items),
}

/// `t=1,v1=abc` and `v1,abc v1,def` are one thing with different separators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Items {
    pub separator: String,
    pub assign: String,
    /// The name under which signatures stand.
    pub pick: String,
}

impl Layout {
    /// The most signatures that one header may hold: rotation needs two, and each costs a comparison.
    const SIGNATURES_MAX: usize = 64;

    /// Every signature in the header, still encoded; at least one.
    pub fn signatures<'a>(&self, value: &'a str) -> Result<Vec<&'a str>, Disproof> {
        let Self::Items(items) = self else { return Ok(vec![value]) };
        let picked: Vec<&str> = items.named(&items.pick, value).take(Self::SIGNATURES_MAX + 1).collect();
        match picked.len() {
            0 if items.split(value).next().is_none() => Err(Disproof::MalformedSignature),
            0 => Err(Disproof::OtherVersion),
            count if count > Self::SIGNATURES_MAX => Err(Disproof::TooManySignatures),
            _ => Ok(picked),
        }
    }

    /// A part beside the signatures. Twice the same part is no part: nobody could say which one counts.
    pub fn part<'a>(&self, name: &str, value: &'a str) -> Result<Option<&'a str>, Disproof> {
        let Self::Items(items) = self else { return Ok(None) };
        let mut named = items.named(name, value);
        match (named.next(), named.next()) {
            (_, Some(_)) => Err(Disproof::MalformedSignature),
            (part, None) => Ok(part.filter(|part| !part.is_empty())),
        }
    }

    /// Writes a header's value: the parts, then the signature.
    pub fn write(&self, parts: &[(&str, &str)], signature: &str) -> String {
        match self {
            Self::Plain => signature.to_owned(),
            Self::Items(items) => {
                let all = parts.iter().copied().chain([(items.pick.as_str(), signature)]);
                let written: Vec<String> = all.map(|(name, part)| format!("{name}{}{part}", items.assign)).collect();
                written.join(&items.separator)
            }
        }
    }
}

impl Items {
    /// The items that have a name, in order. Nothing is trimmed: a space belongs to the name or the value it stands at.
    fn split<'a>(&self, value: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        value.split(self.separator.as_str()).filter_map(|item| item.split_once(self.assign.as_str()))
    }

    fn named<'a>(&self, name: &str, value: &'a str) -> impl Iterator<Item = &'a str> {
        self.split(value).filter(move |(other, _)| *other == name).map(|(_, part)| part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(separator: &str, assign: &str) -> Layout {
        Layout::Items(Items { separator: separator.into(), assign: assign.into(), pick: "v1".into() })
    }

    #[test]
    fn pairs_and_tagged_lists_are_read() {
        let pairs = items(",", "=");
        assert_eq!(pairs.signatures("t=1,v1=a==,v0=b,v1=c"), Ok(vec!["a==", "c"]));
        assert_eq!(pairs.part("t", "t=1,v1=a"), Ok(Some("1")));
        assert_eq!(pairs.part("t", "v1=a,t="), Ok(None));
        assert_eq!(pairs.part("t", "t=1,t=1,v1=a"), Err(Disproof::MalformedSignature));
        assert_eq!(items(" ", ",").signatures("v1a,x v1,y= v2,z  v1,w"), Ok(vec!["y=", "w"]));
    }

    #[test]
    fn spaces_are_not_forgiven_and_names_keep_their_case() {
        assert_eq!(items(",", "=").signatures("t=1, v1=a"), Err(Disproof::OtherVersion));
        assert_eq!(items(",", "=").signatures("V1=a"), Err(Disproof::OtherVersion));
        assert_eq!(items(",", "=").signatures("garbage"), Err(Disproof::MalformedSignature));
    }

    #[test]
    fn the_number_of_signatures_is_bounded() {
        assert_eq!(items(",", "=").signatures(&vec!["v1=a"; 64].join(",")).map(|all| all.len()), Ok(64));
        assert_eq!(items(",", "=").signatures(&vec!["v1=a"; 65].join(",")), Err(Disproof::TooManySignatures));
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(items(",", "=").write(&[("t", "1")], "abc"), "t=1,v1=abc");
        assert_eq!(items(" ", ",").write(&[], "abc="), "v1,abc=");
        assert_eq!(Layout::Plain.write(&[], "abc"), "abc");
    }
}
