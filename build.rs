//! Puts every file of `presets/` into the program, under its name.

#![allow(clippy::disallowed_methods, reason = "cargo tells a build script where it is by variables")]

use std::fmt::Write as _;
use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=presets");
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let mut names: Vec<String> = fs::read_dir(Path::new(&root).join("presets"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.retain(|name| name.ends_with(".toml"));
    names.sort();
    let mut table = String::from("&[\n");
    for file in &names {
        let (name, path) = (file.trim_end_matches(".toml"), Path::new(&root).join("presets").join(file));
        let _ = writeln!(table, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    table.push(']');
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("presets.rs"), table)
}
