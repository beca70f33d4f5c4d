//! Reading the configuration anew while the program runs: on SIGHUP, and when a file it was read from says something else.

use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time::{MissedTickBehavior, interval};

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
}

impl Reloads {
    /// Reloads whenever there is reason to.
    pub(super) async fn watch(&mut self, app: &App, mut hangup: Signal) -> ! {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = self.files.clone();
        loop {
            tokio::select! {
                Some(()) = hangup.recv() => self.reload(app, "SIGHUP").await,
                _ = ticks.tick() => {
                    let now = self.look().await;
                    // The same twice in a row: whoever writes has come to an end.
                    if now == last && now != self.files {
                        self.reload(app, "a file has changed").await;
                    }
                    last = now;
                }
            }
        }
    }

    async fn look(&self) -> Files {
        let files = self.files.clone();
        // A file system that hangs must not keep a signal from being heard.
        tokio::task::spawn_blocking(move || files.read_again()).await.unwrap_or_default()
    }

    async fn reload(&mut self, app: &App, why: &str) {
        let (flags, environment) = (self.flags.clone(), self.environment.clone());
        let loading = tokio::task::spawn_blocking(move || Config::load_from_files(&flags, &environment));
        let Ok((loaded, files)) = loading.await else { return tracing::error!("the configuration could not be read anew") };
        let changed = files.differing(&self.files).iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
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
