use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BodyDigest([u8; 16]);
impl BodyDigest {
    pub fn of(body: &[u8]) -> Self {
        let mut out = [0; 16];
        out.copy_from_slice(&Sha256::digest(body)[..16]);
        Self(out)
    }
    pub fn parse(text: &str) -> Option<Self> {
        data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }
}
impl fmt::Display for BodyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventKey(Arc<str>);
impl EventKey {
    /// The key as it is stored: for tests of the store.
    pub fn raw(key: &str) -> Self {
        Self(key.into())
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
