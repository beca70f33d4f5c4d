//! Whether the disk can still be trusted.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::local;
use crate::store::cells::StoreError;

/// Why nothing is written any more, once that is so. Shared by the two threads that may find out.
#[derive(Clone, Debug)]
pub(super) struct Health {
    path: Arc<Path>,
    failure: Arc<OnceLock<String>>,
}

impl Health {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.into(), failure: Arc::default() }
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.failure.get().map_or(Ok(()), |failure| Err(local(&self.path, failure)))
    }

    /// Notes the first failure. What the disk holds is not known from here on.
    pub(super) fn fail(&self, what: &str, error: &dyn fmt::Display) -> StoreError {
        let failure = self.failure.get_or_init(|| {
            let text = format!("{what} failed ({error}): nothing more is written until hookonce is started again");
            tracing::error!(path = %self.path.display(), "{text}");
            text
        });
        local(&self.path, failure)
    }
}
