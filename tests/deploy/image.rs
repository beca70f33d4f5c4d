//! The image, the compose file, the unit and the workflows: each is read by its tool, and all are held to one another.
//!
//! What takes minutes, building the image and running it, is `scripts/image-check`.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hookonce::config::{Config, Environment, Loaded};

use crate::tools::{root, tool};

const DOCKERFILE: &str = include_str!("../../Dockerfile");
const DOCKERIGNORE: &str = include_str!("../../.dockerignore");
const COMPOSE: &str = include_str!("../../docker-compose.yaml");
const COMPOSE_CONFIG: &str = include_str!("../../examples/compose/hookonce/hookonce.toml");
const UNIT: &str = include_str!("../../systemd/hookonce.service");
const IMAGE_CHECK: &str = include_str!("../../scripts/image-check");

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs a tool in the project's root; fails with what it says.
fn passes(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.current_dir(root()).output().unwrap();
    let said = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
    assert!(status.success(), "{command:?}: {said}");
    said
}

/// What follows `before` in the first line that begins with it.
fn after<'a>(text: &'a str, before: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.trim_start().strip_prefix(before));
    found.unwrap_or_else(|| panic!("no line begins with {before}")).trim()
}

fn workflows() -> Vec<PathBuf> {
    let files = std::fs::read_dir(root().join(".github/workflows")).unwrap();
    let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    files
}

fn accepted(text: &str) -> Loaded {
    Config::from_text(text, &Environment::default()).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

#[test]
fn the_dockerfile_is_without_fault() {
    passes(tool("hadolint").arg("Dockerfile"));
}

#[test]
fn the_compose_file_and_the_workflows_are_of_their_schemas() {
    let check = || tool("check-jsonschema");
    passes(check().args(["--builtin-schema", "vendor.compose-spec", "docker-compose.yaml"]));
    passes(check().args(["--builtin-schema", "vendor.github-workflows"]).args(workflows()));
}

/// The file of a secret, as the compose file mounts it, and the folder of the configuration.
#[test]
fn what_compose_runs_is_accepted() {
    let mut text = COMPOSE_CONFIG.to_owned();
    let file = |name: &str| format!("examples/compose/secrets/{name}");
    for name in ["stripe", "admin"] {
        assert!(COMPOSE.contains(&format!("  {name}:\n    file: ./{}\n", file(name))), "{name} is not mounted");
        let mounted = format!("\"/run/secrets/{name}\"");
        assert!(text.contains(&mounted), "{name} is mounted and not used");
        text = text.replace(&mounted, &format!("{:?}", root().join(file(name))));
    }
    let secret = file("stripe");
    assert!(COMPOSE.contains("./examples/compose/hookonce:/etc/hookonce:ro"));
    let loaded = accepted(&text);
    assert_eq!(loaded.warnings.len(), 0, "{:?}", loaded.warnings);
    // Who plays the provider knows the same secret, and where hookonce and its consumer are.
    let written = std::fs::read_to_string(root().join(secret)).unwrap();
    assert_eq!(after(COMPOSE, "STRIPE_WEBHOOK_SECRET: "), written.trim_end());
    let provider = &loaded.config.providers[0];
    assert_eq!(after(COMPOSE, "- --to="), format!("http://hookonce:{}/webhooks/stripe", loaded.config.listen.port()));
    assert_eq!(provider.upstream.0.to_string(), "http://consumer:3000/");
    let consumer = std::fs::read_to_string(root().join("examples/compose/consumer.py")).unwrap();
    assert!(consumer.contains("else 3000"), "the consumer listens elsewhere");
}

#[test]
fn versions_agree() {
    assert_eq!(after(DOCKERFILE, "ARG VERSION="), VERSION);
    let images: BTreeSet<&str> = COMPOSE.lines().filter_map(|line| line.trim().strip_prefix("image: hookonce")).collect();
    assert_eq!(images, BTreeSet::from([format!(":{VERSION}").as_str()]));
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert_eq!(after(DOCKERFILE, "ARG RUST="), rust);
    for workflow in workflows() {
        let text = std::fs::read_to_string(&workflow).unwrap();
        assert_eq!(after(&text, "RUSTUP_TOOLCHAIN: "), format!("{rust:?}"), "{}", workflow.display());
    }
}

#[test]
fn ports_and_users_agree() {
    let minimal = "upstream = \"http://c:1\"\n[providers.stripe]\npath = \"/\"\nsecret = \"0123456789abcdef\"";
    let config = accepted(minimal).config;
    let (listen, admin) = (config.listen.port(), config.admin.port());
    assert_eq!(after(DOCKERFILE, "EXPOSE "), format!("{listen} {admin}"));
    assert_eq!(after(DOCKERFILE, "ENV HOOKONCE__ADMIN="), format!("0.0.0.0:{admin}"));
    for port in [listen, admin] {
        assert!(COMPOSE.contains(&format!("\"127.0.0.1:{port}:{port}\"")), "{port}");
    }
    let user = after(DOCKERFILE, "USER ");
    for from in ["/image/data", "target/image/data"] {
        assert!(DOCKERFILE.contains(&format!("--chown={user} {from} /data")), "the volume is of another user");
    }
    assert_eq!(format!("{0}:{0}", after(IMAGE_CHECK, "USER_ID=")), user);
    // Longer than the program takes to stop.
    let drain = (config.drain.delay + config.drain.timeout).as_secs();
    for seconds in [after(COMPOSE, "stop_grace_period: "), after(UNIT, "TimeoutStopSec=")] {
        assert!(seconds.trim_end_matches('s').parse::<u64>().unwrap() > drain, "{seconds}");
    }
}

/// The paths of macros that put a file into the program, from the file that says so.
fn included(file: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(file).unwrap();
    let macros = ["include!(\"", "include_str!(\"", "include_bytes!(\""];
    let named = macros.iter().flat_map(|name| text.split(name).skip(1)).map(|rest| rest.split('"').next().unwrap());
    named.map(|path| file.parent().unwrap().join(path)).filter_map(|path| path.canonicalize().ok()).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn all_that_the_program_is_built_from_goes_to_the_builder() {
    let sent: Vec<PathBuf> =
        DOCKERIGNORE.lines().filter_map(|line| line.strip_prefix('!')).map(|path| root().join(path)).collect();
    let mut needed = sources(&root().join("src"));
    needed.extend(
        needed.clone().iter().filter(|file| file.extension().is_some_and(|name| name == "rs")).flat_map(|file| included(file)),
    );
    let build = std::fs::read_to_string(root().join("build.rs")).unwrap();
    needed.extend(build.split("rerun-if-changed=").skip(1).map(|rest| root().join(rest.split('"').next().unwrap())));
    needed.extend(["Cargo.toml", "Cargo.lock", "build.rs", "benches", "scripts/static"].map(|path| root().join(path)));
    assert!(needed.len() > 100, "{}", needed.len());
    for file in needed {
        assert!(sent.iter().any(|path| file.starts_with(path)), "{} is not sent: .dockerignore", file.display());
    }
    // What `COPY` takes of a program that was built before.
    let prebuilt = after(DOCKERFILE, "COPY target/").split("/$").next().unwrap();
    assert!(sent.contains(&root().join("target").join(prebuilt)), "{prebuilt}");
}

/// A copy of the unit that names the program of this build.
fn unit(folder: &Path) -> PathBuf {
    let path = folder.join("hookonce.service");
    std::fs::write(&path, UNIT.replace("/usr/bin/hookonce", env!("CARGO_BIN_EXE_hookonce"))).unwrap();
    path
}

#[test]
fn systemd_reads_the_unit_and_finds_it_closed() {
    let folder = tempfile::tempdir().unwrap();
    let said = passes(tool("systemd-analyze").args(["verify", "--man=no"]).arg(unit(folder.path())));
    assert!(!said.contains("hookonce.service:"), "{said}");
    // Ten times the exposure that is tolerated. 1.2 of ten are left, nearly all of it the network.
    passes(tool("systemd-analyze").args(["security", "--offline=yes", "--threshold=14"]).arg(unit(folder.path())));
}

#[test]
fn the_unit_runs_what_the_image_runs() {
    let command = after(UNIT, "ExecStart=").strip_prefix("/usr/bin/hookonce ").unwrap();
    let words: Vec<String> = command.split(' ').map(|word| format!("{word:?}")).collect();
    assert_eq!(after(DOCKERFILE, "CMD "), format!("[{}]", words.join(", ")));
    assert_eq!(after(DOCKERFILE, "ENTRYPOINT "), "[\"/usr/bin/hookonce\"]");
}

#[test]
fn every_script_that_is_called_is_there() {
    let mut called = BTreeSet::new();
    for file in workflows().into_iter().chain([root().join("Dockerfile"), root().join("scripts/image-check")]) {
        let text = std::fs::read_to_string(file).unwrap();
        let names = text.split(|c: char| !(c.is_ascii_alphanumeric() || "/-_.".contains(c)));
        called.extend(names.filter(|name| name.starts_with("scripts/")).map(|name| name.trim_end_matches(['.', '/']).to_owned()));
    }
    assert!(called.len() >= 4, "{called:?}");
    for script in called {
        let path = root().join(&script);
        let mode = std::fs::metadata(&path).unwrap_or_else(|error| panic!("{script}: {error}")).permissions().mode();
        assert!(path.is_dir() || mode & 0o111 != 0, "{script} cannot be run");
    }
}

/// The notes of a release, from a project of this version with this changelog.
fn release_notes(version: &str, asked: &str, changelog: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("scripts/release-notes");
    std::fs::create_dir(folder.path().join("scripts")).unwrap();
    std::fs::copy(root().join("scripts/release-notes"), &script).unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), format!("version = \"{version}\"\n")).unwrap();
    std::fs::write(folder.path().join("CHANGELOG.md"), changelog).unwrap();
    // Not run as a file: it was written a moment ago, and a process that another test starts may hold it open.
    let Output { status, stdout, stderr } = Command::new("bash").arg(script).arg(asked).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
}

#[test]
fn a_release_has_the_notes_of_its_version() {
    let changelog = "# Changelog\n\n## Unreleased\n\n- next\n\n## 1.2.0 - 2026-01-01\n\n- this\n- and that\n\n## 1.1.0\n\n- before\n\n## 1.0.0\n";
    assert_eq!(release_notes("1.2.0", "1.2.0", changelog).unwrap().trim(), "- this\n- and that");
    assert_eq!(release_notes("1.1.0", "1.1.0", changelog).unwrap().trim(), "- before");
    assert_eq!(release_notes("1.2.0-rc.1", "1.2.0-rc.1", changelog).unwrap().trim(), "- this\n- and that");
    assert!(release_notes("1.0.0", "1.0.0", changelog).unwrap_err().contains("says nothing of 1.0.0"));
    assert!(release_notes("1.2", "1.2", changelog).unwrap_err().contains("says nothing of 1.2"));
    assert!(release_notes("1.1.0", "1.2.0", changelog).unwrap_err().contains("Cargo.toml is not of version 1.2.0"));
}
