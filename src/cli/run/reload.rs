//! Reading the configuration anew while the program runs: on SIGHUP, and when a file it was read from says something else.

use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::loss;
use crate::app::App;
use crate::config::{Config, Environment, Files, Flags, Problem};

/// Files are read this often. What is compared is their content: that is seen on any file system and behind any link, and a few
/// small files a second cost nothing.
const EVERY: Duration = Duration::from_secs(1);

/// What a configuration is read from.
pub(super) struct Reloads {
    pub(super) flags: Flags,
    pub(super) environment: Environment,
    /// As they were when they were last taken, or refused.
    pub(super) files: Files,
    looking: Option<JoinHandle<Files>>,
}

/// How long files may take to be read.
const PATIENCE: Duration = Duration::from_secs(5);

impl Reloads {
    pub(super) fn new(flags: &Flags, environment: &Environment, files: Files) -> Self {
        Self { flags: flags.clone(), environment: environment.clone(), files, looking: None }
    }

    /// Names of files, for the log. A secret pasted in place of a path must not be repeated.
    fn shown(&self, files: &[&Path]) -> String {
        let is_path = |path: &Path| path.is_absolute() || path.starts_with(".") || Some(path) == self.flags.config.as_deref();
        let name = |path: &&Path| if is_path(path) { path.display().to_string() } else { "another".to_owned() };
        files.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Reloads whenever there is reason to.
    pub(super) async fn watch(&mut self, app: &App, mut hangup: Signal) -> ! {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Some(self.files.clone());
        loop {
            tokio::select! {
                Some(()) = hangup.recv() => self.reload(app, "SIGHUP").await,
                _ = ticks.tick() => {
                    let now = self.look().await;
                    if now.is_none() && last.is_some() {
                        tracing::error!("the files of the configuration cannot be read: whether they have changed is not known");
                    }
                    // The same twice in a row: whoever writes has come to an end.
                    if now == last && now.as_ref().is_some_and(|now| *now != self.files) {
                        self.reload(app, "a file has changed").await;
                    }
                    last = now;
                }
            }
        }
    }

    /// The files as they are now. `None`: nobody could say in time.
    async fn look(&mut self) -> Option<Files> {
        let files = self.files.clone();
        // One at a time: where a file system hangs, so does whoever asks it, and goes on when it does.
        let looking = self.looking.get_or_insert_with(|| tokio::task::spawn_blocking(move || files.read_again()));
        let looked = timeout(PATIENCE, looking).await.ok()?;
        self.looking = None;
        looked.ok()
    }

    async fn reload(&mut self, app: &App, why: &str) {
        let (flags, environment) = (self.flags.clone(), self.environment.clone());
        let loading = tokio::task::spawn_blocking(move || Config::load_from_files(&flags, &environment));
        let Ok(Ok((loaded, files))) = timeout(PATIENCE, loading).await else {
            app.telemetry.reloaded(Some("its files cannot be read.".to_owned()));
            return tracing::error!(why, "the configuration could not be read anew: its files hang");
        };
        let changed = self.shown(&files.differing(&self.files));
        self.files = files;
        let taken = match loaded {
            Ok(loaded) => {
                for warning in &loaded.warnings {
                    tracing::warn!(key = warning.key, "{}; {}", warning.what, warning.help);
                }
                take(app, loaded.config).await
            }
            Err(problems) => Err(problems),
        };
        app.telemetry.reloaded(taken.as_ref().err().map(|problems| in_short(problems)));
        match taken {
            Ok(keys) => tracing::info!(why, files = changed, changes = keys.join(", "), "configuration reloaded"),
            Err(problems) => {
                for problem in &problems {
                    tracing::error!(key = problem.key, "{}", problem.to_string().replace("\n    ", "; "));
                }
                let count = problems.len();
                tracing::error!(
                    why,
                    files = changed,
                    count,
                    "the new configuration is refused; the one before goes on unchanged"
                );
            }
        }
    }
}

/// The first problem, and how many there are beside it.
fn in_short(problems: &[Problem]) -> String {
    let first = problems.first().map(|problem| problem.to_string().replace("\n    ", "; ")).unwrap_or_default();
    match problems.len() {
        0 | 1 => format!("{first}."),
        count => format!("{first}; and {} more, which the log has.", count - 1),
    }
}

/// Goes on by this configuration, whole or not at all.
async fn take(app: &App, config: Config) -> Result<Vec<String>, Vec<Problem>> {
    if let Some(what) = loss(&config).await {
        return Err(vec![Problem { key: "queue.accept_loss".to_owned(), origin: None, what, help: String::new() }]);
    }
    app.reload(config).await
}
