//! Puts every file of `presets/` into the program, under its name; and into a static one, how it looks up names.

#![allow(clippy::disallowed_methods, reason = "cargo tells a build script where it is by variables")]

use std::fmt::Write as _;
use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    link_names();
    write_presets()
}

/// Links `src/names.c` into a program that is static and made with glibc; see there.
fn link_names() {
    println!("cargo::rerun-if-changed=src/names.c");
    let is = |name, value| env::var(name).is_ok_and(|found| found.split(',').any(|part| part == value));
    if is("CARGO_CFG_TARGET_ENV", "gnu") && is("CARGO_CFG_TARGET_FEATURE", "crt-static") {
        for object in cc::Build::new().file("src/names.c").compile_intermediates() {
            println!("cargo::rustc-link-arg-bins={}", object.display());
        }
    }
}

fn write_presets() -> io::Result<()> {
    println!("cargo::rerun-if-changed=presets");
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let mut files: Vec<String> = fs::read_dir(Path::new(&root).join("presets"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    files.retain(|name| name.ends_with(".toml"));
    // Without the ending, before which a hyphen would sort: `adyen` stands before `adyen-platform`.
    let mut names: Vec<&str> = files.iter().map(|name| name.trim_end_matches(".toml")).collect();
    names.sort_unstable();
    let mut table = String::from("&[\n");
    for name in names {
        let path = Path::new(&root).join("presets").join(format!("{name}.toml"));
        let _ = writeln!(table, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    table.push(']');
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("presets.rs"), table)
}
