//! The files a configuration was read from, and whether they still say the same.
//!
//! Files are compared by what is in them. So it makes no difference whether one was written over, replaced, or reached through a
//! link that now leads elsewhere, as Kubernetes does it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Each file with a digest of what was in it; none where it could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<PathBuf, Option<[u8; 32]>>);

impl Files {
    /// Notes what was in a file. What was read first counts: if it has changed since, that is a change.
    pub(super) fn note(&mut self, path: &Path, content: Option<&[u8]>) {
        self.0.entry(path.to_owned()).or_insert_with(|| content.map(digest));
    }

    /// The same files as they are now. What is not a file, as a pipe is, was read once and has nothing more to say.
    pub fn read_again(&self) -> Self {
        let now = |(path, known): (&PathBuf, &Option<[u8; 32]>)| {
            let is_other = std::fs::metadata(path).is_ok_and(|about| !about.is_file());
            let content = if is_other { *known } else { read(path).ok().map(|content| digest(&content)) };
            (path.clone(), content)
        };
        Self(self.0.iter().map(now).collect())
    }

    /// The files that say something else in `now`, or are not in there.
    pub fn differing(&self, now: &Self) -> Vec<&Path> {
        self.0.iter().filter(|(path, content)| now.0.get(*path) != Some(content)).map(|(path, _)| path.as_path()).collect()
    }
}

/// More than any configuration or secret needs.
const BYTES_MAX: u64 = 4 << 20;

/// What is in a file of the configuration.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it is larger than 4 MiB"));
    }
    Ok(content)
}

fn digest(content: &[u8]) -> [u8; 32] {
    Sha256::digest(content).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_has_changed_when_its_content_has_however_that_came_about() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, content) in [("one", "a"), ("two", "b"), ("three", "a")] {
            std::fs::write(at(name), content).unwrap();
        }
        symlink("one", at("link")).unwrap();
        let mut files = Files::default();
        files.note(&at("link"), Some(b"a"));
        files.note(&at("missing"), None);
        assert_eq!(files.read_again(), files);
        let relink = |target: &str| {
            symlink(target, at("new")).unwrap();
            std::fs::rename(at("new"), at("link")).unwrap();
        };
        relink("two");
        assert_ne!(files.read_again(), files);
        assert_eq!(files.differing(&files.read_again()), [at("link")]);
        relink("three");
        assert_eq!(files.read_again(), files);
        std::fs::write(at("missing"), "").unwrap();
        assert_ne!(files.read_again(), files);
    }
}
