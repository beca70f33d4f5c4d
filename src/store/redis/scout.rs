//! Finds out who the masters are: at the start, now and then, and at once when a call has reason to doubt it.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::cluster::Seeds;
use super::link::{Nodes, Sight, View};
use super::sentinel::Sentinels;
use crate::config::Address;

/// The least between two looks, however much doubt there is.
const PACE: Duration = Duration::from_millis(100);

/// How the masters are found.
pub(super) enum Survey {
    Single(Address),
    Sentinel(Sentinels),
    Cluster(Seeds),
}

impl Survey {
    async fn view(&mut self, nodes: &Nodes) -> Result<View, RedisError> {
        match self {
            // The name may lead elsewhere by now: a connection that was given up is made anew.
            Self::Single(address) => Ok(View::of_one(nodes.at(address))),
            Self::Sentinel(sentinels) => sentinels.view(nodes).await,
            Self::Cluster(seeds) => seeds.view(nodes).await,
        }
    }

    /// How long a view is good for while no call doubts it.
    fn patrol(&self) -> Duration {
        match self {
            Self::Single(_) => Duration::MAX,
            // A master that was replaced while it is cut off goes on answering: only the Sentinels know better.
            Self::Sentinel(_) => Duration::from_secs(1),
            // Redirects tell of what has moved; this is for masters that nothing has been sent to.
            Self::Cluster(_) => Duration::from_secs(5),
        }
    }
}

/// Looks out until nobody is there to be told.
pub(super) async fn look_out(mut survey: Survey, nodes: Arc<Nodes>, sight: watch::Sender<Sight>, doubt: Arc<Notify>) {
    let mut masters = Vec::new();
    loop {
        match survey.view(&nodes).await {
            Ok(view) => {
                // Before any call can go to those who have taken over.
                nodes.note_masters(&mut masters, &view.masters);
                nodes.keep(&view.masters);
                sight.send_replace(Sight::Seen(Arc::new(view)));
            }
            Err(error) => {
                tracing::debug!(%error, "the masters were not found");
                // A view that was true once is better than none: its servers tell themselves what is wrong with them.
                sight.send_if_modified(|sight| {
                    let is_blind = !matches!(sight, Sight::Seen(_));
                    if is_blind {
                        *sight = Sight::Blind(error);
                    }
                    is_blind
                });
            }
        }
        sleep(PACE).await;
        // Whether it was doubt or time that ended the wait, there is a look.
        let _ = timeout(survey.patrol(), doubt.notified()).await;
    }
}
