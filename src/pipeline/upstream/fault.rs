//! What keeps an answer from being one, or its rest from coming.

use std::{error, fmt, io};

#[derive(Debug)]
pub enum Fault {
    /// The connection broke.
    Io(io::Error),
    /// It ended before the answer did.
    Closed,
    /// What came is no head of an answer.
    Head(httparse::Error),
    /// A status that is none, or a header that cannot be passed on.
    Field,
    /// A head longer than any answer's, or interim answers without end.
    Endless,
    /// Lengths that are none, or differ.
    Length,
    /// A transfer coding that is none, or where there can be none.
    Coding,
    /// Chunks that are none.
    Chunk,
    /// The body that was to be passed on broke off.
    Source(hyper::Error),
    /// It is longer or shorter than was said.
    Misfit,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io(_) => "it can no longer be read or written",
            Self::Closed => "it was closed before the answer was whole",
            Self::Head(_) => "what came is no head of an answer",
            Self::Field => "the head has a status or a header that is none",
            Self::Endless => "the head of the answer has no end, or interim answers have none",
            Self::Length => "the length of the answer is none, or there are two",
            Self::Coding => "the answer's transfer coding is none",
            Self::Chunk => "the answer's chunks are none",
            Self::Source(_) => "the request's body broke off",
            Self::Misfit => "the request's body is not as long as was said",
        })
    }
}

impl error::Error for Fault {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Head(error) => Some(error),
            Self::Source(error) => Some(error),
            Self::Closed | Self::Field | Self::Endless | Self::Length | Self::Coding | Self::Chunk | Self::Misfit => None,
        }
    }
}
