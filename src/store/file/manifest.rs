//! Looks whether the engine's lists of its own files are as it wrote them, before it reads them.
//!
//! Each table of ours is a folder in `keyspaces/`, with its list in `vN`; `current` holds `N` (u64, little-endian), the XXH3
//! of the whole list (u128) and a zero. The engine, in the version that `Cargo.toml` pins, does not compare the two: a list with
//! a wrong bit in it ends the program without a word that helps, by a panic within a panic or for want of memory.

use std::path::Path;
use std::{fs, io};

use xxhash_rust::xxh3::xxh3_128;

use super::local;
use super::tables::damaged;
use crate::store::cells::StoreError;

/// Where one is damaged, an error says which.
pub(super) fn check(directory: &Path) -> Result<(), StoreError> {
    let folder = directory.join("keyspaces");
    let entries = match fs::read_dir(&folder) {
        // A store whose making was interrupted. The engine finds that out.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| local(&folder, &error))?,
    };
    for entry in entries {
        let path = entry.map_err(|error| local(&folder, &error))?.path();
        if path.is_dir() {
            check_list(&path).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => damaged(&path, &error),
                _ => local(&path, &error),
            })?;
        }
    }
    Ok(())
}

fn check_list(folder: &Path) -> io::Result<()> {
    let is_ours = folder.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok()).is_some();
    if !is_ours {
        return Err(wrong("hookonce has made no such folder".into()));
    }
    let current = match fs::read(folder.join("current")) {
        // One that was being made. The engine makes it anew.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let parts = current.split_first_chunk().and_then(|(number, rest)| Some((number, rest.first_chunk()?)));
    let (number, sum) = parts.ok_or_else(|| wrong("its file `current` is cut short".into()))?;
    let name = format!("v{}", u64::from_le_bytes(*number));
    let list = match fs::read(folder.join(&name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(wrong(format!("its file `{name}` is missing"))),
        read => read?,
    };
    if xxh3_128(&list) == u128::from_le_bytes(*sum) {
        Ok(())
    } else {
        Err(wrong(format!("its files `{name}` and `current` do not agree")))
    }
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
