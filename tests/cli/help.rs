//! `--help` and `--version`: what there is, and how it is written.

use crate::{ended, with};

/// The commands that the program's own help lists.
async fn commands() -> Vec<String> {
    let help = ended(with(&["--help"])).await;
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    let listed = help.out.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty()).filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    listed.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn help_lists_every_command_and_each_has_its_own() {
    let commands = commands().await;
    for known in ["run", "check", "demo", "verify", "event", "queue", "bypass", "health"] {
        assert!(commands.iter().any(|command| command == known), "{known}: {commands:?}");
    }
    for command in commands.iter().filter(|command| *command != "help") {
        let help = ended(with(&[command, "--help"])).await;
        assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{command}");
        assert!(help.out.contains(&format!("Usage: hookonce {command}")), "{}", help.out);
        assert!(help.out.contains("Options:"), "{}", help.out);
    }
}

#[tokio::test]
async fn the_version_is_the_package_s() {
    let expected = format!("hookonce {}\n", env!("CARGO_PKG_VERSION"));
    for flag in ["--version", "-V"] {
        let version = ended(with(&[flag])).await;
        assert_eq!((version.code, version.out), (Some(0), expected.clone()));
    }
}

#[tokio::test]
async fn what_is_no_command_is_a_usage_error() {
    for words in [&[][..], &["serve"], &["run", "--prot", "1"], &["run", "extra"]] {
        let end = ended(with(words)).await;
        assert_eq!((end.code, end.out.as_str()), (Some(2), ""), "{words:?}");
        assert!(end.err.contains("Usage: hookonce"), "{}", end.err);
    }
}

#[tokio::test]
async fn nobody_reading_is_not_a_crash() {
    for words in [&["demo"][..], &["check", "--config", "tests/fixtures/config/bad/unknown-keys.toml"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = with(words);
        command.stdout(writer);
        let end = ended(command).await;
        assert!(end.code.is_some_and(|code| code < 100) && !end.err.contains("panicked"), "{words:?}: {end:?}");
    }
}
