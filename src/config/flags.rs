//! The command line as configuration: enough for one provider without a file, or over a file's top level.

use std::path::PathBuf;

use super::problem::Origin;
use super::tree::{Table, Value};

/// What the command line says. It becomes part of the same tree as a file, and wins over it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address for deliveries [default: 0.0.0.0:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address for metrics, probes and the API [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
    /// Where the consumer is, such as http://127.0.0.1:3000
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// Where events are remembered: redis://, file: or memory: [default: file:./hookonce-data]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Without a file: the provider, by its preset's name
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub provider: Option<String>,
    /// Without a file: the variable that holds the provider's secret
    #[arg(long, value_name = "VARIABLE", requires = "provider")]
    pub secret_env: Option<String>,
    /// Without a file: the variable that holds the provider's public key, where it signs with one
    #[arg(long, value_name = "VARIABLE", requires = "provider")]
    pub public_key_env: Option<String>,
    /// Without a file: the path the provider delivers to [default: /]
    #[arg(long, value_name = "PATH", requires = "provider")]
    pub path: Option<String>,
}

impl Flags {
    /// Lays what was given over the tree.
    pub(super) fn lay(&self, root: &mut Table) {
        for (flag, key, value) in [
            ("--listen", &["listen"][..], &self.listen),
            ("--admin", &["admin"], &self.admin),
            ("--upstream", &["upstream"], &self.upstream),
            ("--store", &["store", "url"], &self.store),
        ] {
            lay(root, key, value.as_deref(), flag);
        }
        if let Some(name) = &self.provider {
            self.lay_provider(root, name);
        }
    }

    fn lay_provider(&self, root: &mut Table, name: &str) {
        let provider = ["providers", name];
        lay(root, &[&provider[..], &["path"]].concat(), self.path.as_deref(), "--path");
        lay(root, &[&provider[..], &["secret", "env"]].concat(), self.secret_env.as_deref(), "--secret-env");
        lay(root, &[&provider[..], &["public_key", "env"]].concat(), self.public_key_env.as_deref(), "--public-key-env");
        let has_path = root.table("providers").and_then(|all| all.table(name)?.get("path")).is_some();
        if !has_path {
            // A sender of its own needs no path to be told apart by.
            let path = [&provider[..], &["path"]].concat();
            root.set(&path, Value::Text("/".to_owned()), &Origin::Flag("--provider"));
        }
    }
}

fn lay(root: &mut Table, key: &[&str], value: Option<&str>, flag: &'static str) {
    if let Some(value) = value {
        root.set(key, Value::Loose(value.to_owned()), &Origin::Flag(flag));
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        flags: Flags,
    }

    #[test]
    fn provider_by_flags_stands_in_for_a_file() {
        Program::command().debug_assert();
        let parse =
            |args: &str| Program::try_parse_from(std::iter::once("run").chain(args.split(' '))).map(|program| program.flags);
        let flags = parse("--upstream http://a --provider github --secret-env NAME --path /x --store memory:").unwrap();
        assert_eq!((flags.provider.as_deref(), flags.path.as_deref()), (Some("github"), Some("/x")));
        assert!(parse("--config a.toml --listen 127.0.0.1:1 --admin 127.0.0.1:2 --upstream http://a --store memory:").is_ok());
        for wrong in ["--config a.toml --provider github", "--secret-env NAME", "--public-key-env NAME", "--path /x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
