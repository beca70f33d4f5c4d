//! What a signature was made over, as a digest: by that a delivery is known again under whatever id it comes.
//!
//! Not the signature itself, which may be written in several ways (ECDSA), and not the secret, of which there are several. What
//! the signature leaves out could be anything: a body that it does not cover counts beside what it does, so that two events
//! are never taken for one.

use sha2::{Digest, Sha256};

use super::json::feed;
use super::key::Chunk;

/// What was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// The body and nothing else, so that its digest will do. So it is for tokens, too, which sign nothing.
    Body,
    Digest([u8; 32]),
}

/// What was signed, as far as it has been looked at.
#[derive(Debug, Default)]
pub(super) struct Gathered(Option<Sha256>);

impl Gathered {
    pub fn is_of_body(&self) -> bool {
        self.0.is_none()
    }

    pub fn add(&mut self, message: &[Chunk<'_>]) {
        let digest = self.0.get_or_insert_default();
        // The secret is left out: a delivery signed with another one says the same.
        message.iter().for_each(|chunk| digest.update(chunk.public_bytes()));
    }

    /// A body that the signature says nothing of.
    pub fn and_body(&mut self, body: &[u8]) {
        feed(self.0.get_or_insert_default(), body);
    }

    pub fn signed(self) -> Signed {
        self.0.map_or(Signed::Body, |digest| Signed::Digest(digest.finalize().into()))
    }
}
