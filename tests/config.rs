//! The configuration through its door: files, variables and flags in; a `Config` or everything that is wrong out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hookonce::cli::check::print_config;
use hookonce::config::problem::Report;
use hookonce::config::{Config, Environment, Flags, Loaded, Origin, Problem, Provider, StoreUrl, known_keys};

/// What the fixtures name.
const VARIABLES: [(&str, &str); 5] = [
    ("STRIPE_SECRET", "whsec_0123456789abcdef"),
    ("GITHUB_SECRET", "0123456789abcdef0123456789abcdef"),
    ("SVIX_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
    ("SHORT", "hunter2"),
    ("EMPTY", ""),
];

const MINIMAL: &str = "tests/fixtures/config/good/minimal.toml";

fn load_file(path: impl Into<PathBuf>, variables: &Environment) -> Result<Loaded, Vec<Problem>> {
    Config::load(&Flags { config: Some(path.into()), ..Flags::default() }, variables)
}

fn load_text(text: &str, variables: &Environment) -> Result<Loaded, Vec<Problem>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    load_file(file.path(), variables)
}

fn report(problems: &[Problem]) -> String {
    Report { word: "error", problems }.to_string()
}

fn provider<'l>(loaded: &'l Loaded, name: &str) -> &'l Provider {
    loaded.config.providers.iter().find(|provider| provider.name == name).unwrap()
}

/// How a setting came out, as `check` prints it: its value and its origin.
fn setting(provider: &Provider, key: &str) -> String {
    let setting = provider.settings.iter().find(|setting| setting.key == key).unwrap();
    format!("{} # {}", setting.value, setting.origin)
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new("tests/fixtures/config").join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "toml")).collect();
    files.sort();
    files
}

/// The text beside a fixture; nothing where there is none.
fn expected(file: &Path) -> String {
    fs::read_to_string(file.with_extension("expected")).unwrap_or_default()
}

#[test]
fn every_bad_file_is_refused_with_exactly_its_text() {
    let files = files("bad");
    for file in &files {
        let problems = load_file(file, &VARIABLES.into()).map(|_| ()).unwrap_err();
        assert_eq!(report(&problems), expected(file), "{}", file.display());
    }
    assert_eq!(files.len(), 21);
}

#[test]
fn every_good_file_loads_with_exactly_its_warnings() {
    let files = files("good");
    for file in &files {
        let loaded = load_file(file, &VARIABLES.into()).unwrap_or_else(|problems| panic!("{}", report(&problems)));
        let warnings = Report { word: "warning", problems: &loaded.warnings }.to_string();
        assert_eq!(warnings, expected(file), "{}", file.display());
    }
    assert_eq!(files.len(), 6);
}

#[test]
fn six_mistakes_are_reported_at_once_each_with_its_line() {
    let problems = load_file("tests/fixtures/config/bad/six-mistakes.toml", &VARIABLES.into()).map(|_| ()).unwrap_err();
    let found: Vec<(&str, Option<Origin>)> = problems.iter().map(|p| (p.key.as_str(), p.origin.clone())).collect();
    let line = |line| Some(Origin::File { line });
    assert_eq!(
        found,
        [
            ("lissten", line(3)),
            ("workers", line(4)),
            ("store.namespace", line(6)),
            ("providers.stripe.secret", line(11)),
            ("providers.stripe.retention", line(12)),
            ("providers.github.retries", line(17)),
        ]
    );
}

#[test]
fn missing_file_is_one_clear_problem() {
    let problems = load_file("/nowhere/hookonce.toml", &Environment::default()).map(|_| ()).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(report(&problems).contains("/nowhere/hookonce.toml cannot be read: No such file"), "{}", report(&problems));
}

#[test]
fn nothing_at_all_says_what_is_needed() {
    let problems = Config::load(&Flags::default(), &Environment::default()).map(|_| ()).unwrap_err();
    let text = report(&problems);
    assert!(text.contains("providers: no provider is configured") && text.contains("--provider NAME"), "{text}");
}

// ---- where a value comes from ----

fn github_by_flags() -> Flags {
    let flag = |text: &str| Some(text.to_owned());
    Flags {
        upstream: flag("http://127.0.0.1:3000"),
        provider: flag("github"),
        secret_env: flag("GITHUB_SECRET"),
        ..Flags::default()
    }
}

#[test]
fn flags_alone_make_a_configuration() {
    let loaded = Config::load(&github_by_flags(), &VARIABLES.into()).unwrap_or_else(|p| panic!("{}", report(&p)));
    let github = provider(&loaded, "github");
    assert_eq!((github.path.as_str(), github.preset), ("/", Some("github")));
    assert_eq!(setting(github, "upstream"), "\"http://127.0.0.1:3000\" # flag --upstream");
    assert_eq!(setting(github, "secret"), "set (variable GITHUB_SECRET) # flag --secret-env");
    assert_eq!(loaded.config.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(loaded.config.admin.to_string(), "127.0.0.1:9090");
    assert!(matches!(&loaded.config.store.url, StoreUrl::File(path) if path == Path::new("./hookonce-data")));
    assert_eq!(loaded.config.store.namespace, "hookonce");
}

#[test]
fn flags_report_all_that_is_wrong_too() {
    let flag = |text: &str| Some(text.to_owned());
    let flags = Flags {
        upstream: flag("localhost:3000"),
        listen: flag("8080"),
        store: flag("redis://127.0.0.1"),
        provider: flag("github"),
        secret_env: flag("NOT_SET"),
        path: flag("hooks"),
        ..Flags::default()
    };
    let problems = Config::load(&flags, &VARIABLES.into()).map(|_| ()).unwrap_err();
    let found: BTreeSet<String> =
        problems.iter().map(|p| format!("{}: {}", p.origin.as_ref().map_or(String::new(), Origin::to_string), p.key)).collect();
    let wanted = [
        "flag --listen: listen",
        "flag --path: providers.github.path",
        "flag --secret-env: providers.github.secret",
        "flag --store: store.namespace",
        "flag --upstream: upstream",
    ];
    assert_eq!(found, wanted.map(str::to_owned).into());
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let mut flags = Flags { config: Some(MINIMAL.into()), listen: Some("127.0.0.1:1111".into()), ..Flags::default() };
    let variables = Environment::from([
        VARIABLES[0],
        ("HOOKONCE__LISTEN", "127.0.0.1:2222"),
        ("HOOKONCE__UPSTREAM", "http://variable:3000"),
        ("HOOKONCE__STORE__URL", "memory:"),
        ("HOOKONCE__WORKERS", "3"),
        ("HOOKONCE__PROVIDERS__STRIPE__PATH", "/by/variable"),
        ("HOOKONCE__PROVIDERS__STRIPE__METHODS", "[\"POST\", \"PUT\"]"),
        ("HOOKONCE__PROVIDERS__STRIPE__COMPLETE_ON", "2xx"),
        ("HOOKONCE__DEFAULTS__LEASE", "20s"),
    ]);
    let loaded = Config::load(&flags, &variables).unwrap_or_else(|p| panic!("{}", report(&p)));
    let stripe = provider(&loaded, "stripe");
    assert_eq!(loaded.config.listen.port(), 1111);
    assert_eq!(loaded.config.workers, 3);
    assert!(matches!(loaded.config.store.url, StoreUrl::Memory));
    assert_eq!(setting(stripe, "path"), "\"/by/variable\" # variable HOOKONCE__PROVIDERS__STRIPE__PATH");
    assert_eq!(setting(stripe, "methods"), "[\"POST\", \"PUT\"] # variable HOOKONCE__PROVIDERS__STRIPE__METHODS");
    assert_eq!(setting(stripe, "upstream"), "\"http://variable:3000\" # variable HOOKONCE__UPSTREAM");
    assert_eq!(setting(stripe, "lease"), "\"20s\" # variable HOOKONCE__DEFAULTS__LEASE");

    flags.upstream = Some("http://flag:3000".into());
    flags.store = Some("file:/tmp/x".into());
    let loaded = Config::load(&flags, &variables).unwrap();
    assert_eq!(setting(provider(&loaded, "stripe"), "upstream"), "\"http://flag:3000\" # flag --upstream");
    assert_eq!(loaded.config.store.url.masked(), "file:/tmp/x");
}

#[test]
fn variables_alone_make_a_configuration() {
    let variables = Environment::from([
        VARIABLES[0],
        ("HOOKONCE__UPSTREAM", "http://127.0.0.1:3000"),
        ("HOOKONCE__PROVIDERS__STRIPE__PATH", "/"),
        ("HOOKONCE__PROVIDERS__STRIPE__SECRET__ENV", "STRIPE_SECRET"),
    ]);
    let loaded = Config::load(&Flags::default(), &variables).unwrap_or_else(|p| panic!("{}", report(&p)));
    assert_eq!(provider(&loaded, "stripe").keys.len(), 1);
}

#[test]
fn variable_reaches_a_provider_whose_name_holds_a_hyphen() {
    let mut flags = github_by_flags();
    flags.provider = Some("standard-webhooks".into());
    flags.secret_env = Some("SVIX_SECRET".into());
    let variables = Environment::from([VARIABLES[2], ("HOOKONCE__PROVIDERS__STANDARD_WEBHOOKS__PATH", "/hooks")]);
    let loaded = Config::load(&flags, &variables).unwrap_or_else(|p| panic!("{}", report(&p)));
    assert_eq!(loaded.config.providers.len(), 1);
    assert_eq!(provider(&loaded, "standard-webhooks").path, "/hooks");
}

#[test]
fn misspelt_variable_is_an_unknown_key() {
    let variables = Environment::from([VARIABLES[0], ("HOOKONCE__STORE__URI", "memory:")]);
    let problems = load_file(MINIMAL, &variables).map(|_| ()).unwrap_err();
    assert_eq!(
        report(&problems),
        "error: variable HOOKONCE__STORE__URI: store.uri: is not a known key\n    did you mean `url`?\n"
    );
}

// ---- stores ----

#[test]
fn stores_that_are_not_built_or_not_known_are_refused() {
    for (url, what) in [
        ("postgres://db/hookonce", "PostgreSQL is not built yet"),
        ("redis+sentinel://a:26379", "does not name the service that the Sentinels watch"),
        ("redis://a:6379,b:6379", "names several servers, and not what they are to each other"),
        ("mysql://db/hookonce", "is not the URL of a store"),
        ("localhost:6379", "is not the URL of a store"),
    ] {
        let variables = Environment::from([VARIABLES[0], ("HOOKONCE__STORE__URL", url)]);
        let problems = load_file(MINIMAL, &variables).map(|_| ()).unwrap_err();
        let [problem] = problems.as_slice() else { panic!("{}", report(&problems)) };
        assert_eq!((problem.key.as_str(), problem.what.as_str()), ("store.url", what));
        assert!(problem.help.contains("redis://HOST:6379"), "{problem}");
    }
}

#[test]
fn retention_is_rounded_up_to_whole_seconds() {
    let variables = Environment::from([VARIABLES[0], ("HOOKONCE__PROVIDERS__STRIPE__RETENTION", "1h1ms")]);
    let loaded = load_file(MINIMAL, &variables).unwrap();
    assert_eq!(provider(&loaded, "stripe").retention, Duration::from_secs(3601));
    assert!(setting(provider(&loaded, "stripe"), "retention").starts_with("\"1h1s\""));
}

// ---- secrets ----

#[test]
fn secret_that_the_scheme_cannot_decode_is_named_by_its_line() {
    let text =
        "upstream = 'http://127.0.0.1'\n[providers.svix]\npath = '/'\nsecrets = [\n{ env = 'GOOD' },\n{ env = 'BAD' }\n]\n";
    let variables = Environment::from([("GOOD", VARIABLES[2].1), ("BAD", "whsec_this is not base64!")]);
    let problems = load_text(text, &variables).map(|_| ()).unwrap_err();
    let [problem] = problems.as_slice() else { panic!("{}", report(&problems)) };
    assert_eq!((problem.key.as_str(), &problem.origin), ("providers.svix.secrets", &Some(Origin::File { line: 6 })));
    assert!(problem.what.starts_with("variable BAD does not fit the scheme: "), "{problem}");
    assert!(!problem.to_string().contains("this is not"), "{problem}");
}

/// Stands for any secret. It has neither the form of a name nor that of a path.
const CANARY: &str = "canary-Zm9vYmFy";

#[test]
fn no_secret_is_in_any_message() {
    let broken = [
        "secret = 'CANARY'\nlease = 5",
        "secret = ['CANARY']",
        "secret = { value = 'CANARY' }",
        "secret = { env = 'CANARY' }",
        "secret = { file = 'CANARY' }",
        "secret = CANARY",
        "secret = \"CANARY",
        "secrets = 'CANARY'",
        "secrets = [{ env = 'SECRET', file = 'CANARY' }]",
        "secrets = ['CANARY', 5]",
        "secret = 'CANARY'\nsecrets = ['CANARY']",
        "secret = '${CANARY}'",
        "secret = 'CANARY'\npreset = 'svix'",
        "secret = 'CANARY'\nhandshake = { when = 5, token = { query = 'x', secret = 'CANARY' } }",
        "secret = 'CANARY'\nupstream = 'http://user:CANARY@127.0.0.1'",
    ];
    for lines in broken {
        let text = format!("upstream = 'http://127.0.0.1'\n[providers.stripe]\npath = '/'\n{lines}\n").replace("CANARY", CANARY);
        let problems = load_text(&text, &Environment::from([("SECRET", CANARY)])).map(|_| ()).unwrap_err();
        assert!(!problems.is_empty() && !format!("{}{problems:?}", report(&problems)).contains(CANARY), "{lines}");
    }
    let urls =
        ["redis://:CANARY@", "redis://:CANARY@host:x", "redis://:CANARY@h/x", "CANARY", "rediss:CANARY", "postgres://u:CANARY@h"];
    for url in urls {
        let url = url.replace("CANARY", CANARY);
        let variables = Environment::from([VARIABLES[0], ("HOOKONCE__STORE__URL", &url)]);
        let problems = load_file(MINIMAL, &variables).map(|_| ()).unwrap_err();
        assert!(!format!("{}{problems:?}", report(&problems)).contains(CANARY), "{url}");
    }
}

#[test]
fn no_secret_is_in_what_is_printed_of_a_configuration() {
    let text = r#"
        upstream = "http://127.0.0.1:3000"
        admin_token = "CANARY"
        [store]
        url = "redis+sentinel://user:CANARY@127.0.0.1/main/1?sentinel_password=CANARY"
        namespace = "n"
        [providers.stripe]
        path = "/stripe"
        secrets = ["CANARY", { env = "SECRET" }]
        [providers.slack]
        path = "/slack"
        secret = "CANARY"
        handshake = { when = { json = "/type", is = "x" }, reply = { json = "/c" }, token = { query = "t", secret = "CANARY" } }
    "#;
    let variables = Environment::from([("SECRET", CANARY), ("HOOKONCE__PROVIDERS__SLACK__SECRET", CANARY)]);
    let loaded = load_text(&text.replace("CANARY", CANARY), &variables).unwrap_or_else(|p| panic!("{}", report(&p)));
    let mut printed = Vec::new();
    print_config(&loaded, &mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert!(!printed.contains(CANARY), "{printed}");
    assert!(!format!("{loaded:?}").contains(CANARY), "{loaded:?}");
    assert!(!format!("{variables:?}").contains(CANARY));
    for shown in [
        "= \"redis+sentinel://***@127.0.0.1:26379/main/1\"",
        "= set (the value), set (variable SECRET)",
        "= set (variable HOOKONCE__PROVIDERS__SLACK__SECRET)",
        "secret = set }",
    ] {
        assert!(printed.contains(shown), "{shown} is not in\n{printed}");
    }
}

// ---- config.example.toml ----

const EXAMPLE: &str = "config.example.toml";

/// The example with every `#key = value` and `#[table]` opened, and its files in `folder`.
fn opened_example(folder: &Path) -> String {
    let opened = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => rest.to_owned(),
        _ => line.to_owned(),
    };
    let text = fs::read_to_string(EXAMPLE).unwrap();
    let text: String = text.lines().map(|line| opened(line) + "\n").collect();
    text.replace("/run/secrets", &folder.display().to_string()).replace("/etc/hookonce", &folder.display().to_string())
}

fn example_variables() -> Environment {
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    Environment::from(
        [
            "STRIPE_WEBHOOK_SECRET",
            "HOOKONCE_ADMIN_TOKEN",
            "ORDERS_SECRET",
            "FEED_SECRET",
            "FEED_VERIFY_TOKEN",
            "JOBS_SECRET",
            "COLLECTOR_KEY",
            "HOOKONCE_SEAL",
        ]
        .map(|name| (name, secret)),
    )
}

#[test]
fn example_loads_as_it_is() {
    let loaded = load_file(EXAMPLE, &Environment::from([("STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef")])).unwrap();
    let names: Vec<&str> = loaded.config.providers.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!(names, ["stripe"]);
    assert_eq!(loaded.warnings, []);
}

/// The files that the example names.
fn example_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["github", "github-old", "redis-ca.pem"] {
        fs::write(folder.path().join(name), "0123456789abcdef0123456789abcdef\n").unwrap();
    }
    // RFC 8410, section 10.1.
    let key = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n");
    fs::write(folder.path().join("bank.pem"), pem).unwrap();
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["hooks.example.com".to_owned()]).unwrap();
    for (name, pem) in [("tls.crt", cert.pem()), ("tls.key", signing_key.serialize_pem()), ("senders-ca.pem", cert.pem())] {
        fs::write(folder.path().join(name), pem).unwrap();
    }
    folder
}

/// No key takes a date: each must say so under its own name, and none may be left unread.
#[test]
fn every_key_of_the_example_refuses_a_wrong_type() {
    let folder = example_folder();
    let example = opened_example(folder.path());
    let mut seen = 0;
    for line in example.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')) {
        let key = line.split(' ').next().unwrap();
        let broken = example.replacen(&format!("\n{line}\n"), &format!("\n{key} = 1979-05-27\n"), 1);
        let problems = load_text(&broken, &example_variables()).map(|_| line).unwrap_err();
        assert!(problems.iter().any(|problem| problem.key.ends_with(key)), "{line}: {}", report(&problems));
        assert!(
            problems.iter().all(|problem| !problem.what.is_empty() && !problem.help.is_empty()),
            "{line}: {}",
            report(&problems)
        );
        seen += 1;
    }
    assert_eq!(seen, 137);
}

#[test]
fn example_loads_with_every_line_opened() {
    let folder = example_folder();
    let loaded = load_text(&opened_example(folder.path()), &example_variables()).unwrap_or_else(|p| panic!("{}", report(&p)));
    assert_eq!(loaded.config.providers.len(), 6);
}

#[test]
fn example_shows_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let opened: toml::Table = opened_example(folder.path()).parse().unwrap();
    let loaded = load_file(MINIMAL, &VARIABLES.into()).unwrap();
    // What follows from the machine, the provider or nothing at all has no default to show.
    let without = [
        "admin_token",
        "passthrough",
        "trusted_proxies",
        "workers",
        "ca_file",
        "cert_file",
        "key_file",
        "client_ca_file",
        "seal",
        "url",
        "namespace",
        "upstream",
        "release_on",
        "order_by",
        "endpoint",
    ];
    // The other key of this name has one.
    let has_default = |section: &str, key: &str| !without.contains(&key) && (section, key) != ("trace", "headers");
    let of_stripe = ["retention", "on_conflict", "replay_guard", "closed_max"];
    let mut seen = 0;
    for section in &loaded.config.sections {
        let table = if section.name.is_empty() { &opened } else { opened[section.name].as_table().unwrap() };
        for setting in section.settings.iter().filter(|setting| has_default(section.name, setting.key)) {
            assert_eq!(setting.value, table[setting.key].to_string(), "{}.{}", section.name, setting.key);
            seen += 1;
        }
    }
    let defaults = opened["defaults"].as_table().unwrap();
    for setting in &provider(&loaded, "stripe").settings {
        if let Some(shown) =
            defaults.get(setting.key).filter(|_| !without.contains(&setting.key) && !of_stripe.contains(&setting.key))
        {
            assert_eq!(setting.value, shown.to_string(), "defaults.{}", setting.key);
            seen += 1;
        }
    }
    assert_eq!(seen, 58);
}

/// That it shows no other follows from its loading: an unknown key is an error.
#[test]
fn example_shows_every_key() {
    let folder = tempfile::tempdir().unwrap();
    let opened: toml::Table = opened_example(folder.path()).parse().unwrap();
    let mut shown = BTreeSet::new();
    collect_keys(&opened, "", &mut shown);
    let known: BTreeSet<String> = known_keys().iter().map(|key| of_any_provider(key)).collect();
    assert_eq!(known.difference(&shown).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the example");
    assert!(known.len() > 80, "{known:?}");
}

/// A key of `[defaults]` or of any provider is shown once, for all of them.
fn of_any_provider(key: &str) -> String {
    match key.split_once('.') {
        Some(("providers", rest)) => rest.split_once('.').map_or("providers".to_owned(), |(_, key)| format!("provider.{key}")),
        Some(("defaults", key)) => format!("provider.{key}"),
        _ => key.to_owned(),
    }
}

fn collect_keys(table: &toml::Table, path: &str, keys: &mut BTreeSet<String>) {
    for (key, value) in table {
        let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        keys.insert(of_any_provider(&key));
        let inner = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        if let Some(inner) = inner.as_table() {
            collect_keys(inner, &key.replace(".secrets", ".secret"), keys);
        }
    }
}
