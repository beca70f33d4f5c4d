//! The query of a request: `provider=stripe&id=evt_`.

use crate::pipeline::route::percent_decoded;

#[derive(Clone, Copy, Debug)]
pub struct Query<'a>(pub &'a str);

impl Query<'_> {
    /// The first field of this name, decoded.
    pub fn field(&self, name: &str) -> Option<String> {
        self.0.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(percent_decoded)
    }
}
