//! Bodies as providers send them: objects with texts, numbers and lists, not one long text that a parser runs through.

use std::fmt::Write as _;

use bytes::Bytes;

pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * KIB;
/// A usual event.
pub const USUAL: usize = 2 * KIB;

/// An id of usual length.
pub const ID: &str = "evt_1OqW2jLkdIwHu7ixZ8Yx3k4b";

/// Which end of the body the id stands at.
#[derive(Clone, Copy)]
pub enum IdAt {
    Beginning,
    End,
}

/// JSON of exactly `size` bytes, at least 128, with the id at `/id`.
pub fn json(size: usize, id_at: IdAt) -> Bytes {
    let (first, last) = match id_at {
        IdAt::Beginning => (format!(r#"{{"id":"{ID}","created":1794787700,"lines":["#), r#""}"#.to_owned()),
        IdAt::End => (r#"{"created":1794787700,"lines":["#.to_owned(), format!(r#"","id":"{ID}"}}"#)),
    };
    let (mut body, joint) = (first, r#"{}],"note":""#);
    let mut nth = 0;
    loop {
        let line = format!(r#"{{"line":{nth},"name":"Füller, \"fein\"","price":12.50,"tags":["a","b"],"gift":false}},"#);
        if body.len() + line.len() + joint.len() + last.len() > size {
            break;
        }
        body.push_str(&line);
        nth += 1;
    }
    let room = size.checked_sub(body.len() + joint.len() + last.len()).unwrap();
    write!(body, "{joint}{:x<room$}{last}", "").unwrap();
    body.into()
}

/// How a size is named in a report.
pub fn name_of(size: usize) -> String {
    match size {
        MIB.. => format!("{}MiB", size / MIB),
        KIB.. => format!("{}KiB", size / KIB),
        _ => format!("{size}B"),
    }
}
