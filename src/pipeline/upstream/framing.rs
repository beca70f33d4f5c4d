//! Where the body of an answer ends, and what of it has come (RFC 9112, 6 and 7). Pure: no I/O.

use bytes::{Buf, Bytes, BytesMut};
use httparse::Status;

use super::fault::Fault;

/// The line before a chunk, with its extensions, and the trailers behind the last one: neither is passed on.
const LINE_BYTES_MAX: usize = 16 * 1024;
const TRAILERS_MAX: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes are left.
    Sized(u64),
    Chunked(Chunk),
    UntilClose,
}

/// What comes next of a chunked body.
#[derive(Debug, PartialEq, Eq)]
pub enum Chunk {
    Size,
    Data(u64),
    /// The end of the line behind a chunk.
    Break,
    Trailers,
    End,
}

impl Framing {
    pub fn chunked() -> Self {
        Self::Chunked(Chunk::Size)
    }

    pub fn is_at_end(&self) -> bool {
        matches!(self, Self::Sized(0) | Self::Chunked(Chunk::End))
    }

    /// How much is still to be taken, where that is known.
    pub fn left(&self) -> Option<u64> {
        match self {
            Self::Sized(left) => Some(*left),
            Self::Chunked(_) | Self::UntilClose => None,
        }
    }

    /// Takes what is there of the body. Nothing, where more has to come, or the body is at its end.
    pub fn take(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, Fault> {
        match self {
            Self::Sized(left) => Ok(take_from(input, left)),
            Self::UntilClose => {
                let mut all = u64::MAX;
                Ok(take_from(input, &mut all))
            }
            Self::Chunked(chunk) => chunk.take(input),
        }
    }

    /// The connection was closed. Tells whether that is the end of the body.
    pub fn closed(&mut self) -> bool {
        if *self == Self::UntilClose {
            *self = Self::Sized(0);
        }
        self.is_at_end()
    }
}

impl Chunk {
    fn take(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, Fault> {
        loop {
            match self {
                Self::Size => {
                    // The library takes an empty line for nought.
                    if input.first().is_some_and(|first| !first.is_ascii_hexdigit()) {
                        return Err(Fault::Chunk);
                    }
                    let Status::Complete((line, size)) = httparse::parse_chunk_size(input).map_err(|_| Fault::Chunk)? else {
                        return within_measure(input).map(|()| None);
                    };
                    advance(input, line)?;
                    *self = if size == 0 { Self::Trailers } else { Self::Data(size) };
                }
                Self::Data(left) => {
                    let data = take_from(input, left);
                    if *left == 0 {
                        *self = Self::Break;
                    }
                    return Ok(data);
                }
                Self::Break if input.len() < 2 => return Ok(None),
                Self::Break if input.starts_with(b"\r\n") => {
                    input.advance(2);
                    *self = Self::Size;
                }
                Self::Break => return Err(Fault::Chunk),
                Self::Trailers => {
                    let mut trailers = [httparse::EMPTY_HEADER; TRAILERS_MAX];
                    let parsed = httparse::parse_headers(input, &mut trailers).map_err(|_| Fault::Chunk)?;
                    let Status::Complete((length, _)) = parsed else { return within_measure(input).map(|()| None) };
                    advance(input, length)?;
                    *self = Self::End;
                }
                Self::End => return Ok(None),
            }
        }
    }
}

fn take_from(input: &mut BytesMut, left: &mut u64) -> Option<Bytes> {
    let length = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= length as u64;
    (length > 0).then(|| input.split_to(length).freeze())
}

/// Takes lines off that are not passed on. The library lets a line end without `\r` there, and others do not: where two read
/// differently what comes behind it, it is nothing.
fn advance(input: &mut BytesMut, lines: usize) -> Result<(), Fault> {
    let lines = input.split_to(lines);
    let has_bare_end = lines.starts_with(b"\n") || lines.windows(2).any(|pair| pair[1] == b'\n' && pair[0] != b'\r');
    if has_bare_end { Err(Fault::Chunk) } else { Ok(()) }
}

fn within_measure(line: &[u8]) -> Result<(), Fault> {
    if line.len() > LINE_BYTES_MAX { Err(Fault::Chunk) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of a body that comes in these pieces, whether it has come to its end, and what is left behind it.
    fn read(mut framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, bool, Vec<u8>), Fault> {
        let (mut input, mut body) = (BytesMut::new(), Vec::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            while let Some(data) = framing.take(&mut input)? {
                body.extend_from_slice(&data);
            }
        }
        Ok((body, framing.is_at_end(), input.to_vec()))
    }

    #[test]
    fn a_body_is_the_same_however_it_comes() {
        let chunked = b"4\r\nWiki\r\n6;x=\"y\"\r\npedia \r\nE \r\nin \r\n\r\nchunks.\r\n0\r\nx-sum: 1\r\n\r\nHTTP";
        for (framing, text, expected) in [
            (Framing::chunked as fn() -> Framing, &chunked[..], &b"Wikipedia in \r\n\r\nchunks."[..]),
            (Framing::chunked, b"0\r\n\r\nHTTP", b""),
            (|| Framing::Sized(5), b"helloHTTP", b"hello"),
        ] {
            let expected = (expected.to_vec(), true, b"HTTP".to_vec());
            assert_eq!(read(framing(), &[text]).unwrap(), expected);
            for cut in 1..text.len() {
                let (before, behind) = text.split_at(cut);
                assert_eq!(read(framing(), &[before, behind]).unwrap(), expected, "cut at {cut}");
            }
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            assert_eq!(read(framing(), &bytes).unwrap(), expected, "byte by byte");
        }
    }

    #[test]
    fn a_body_that_is_cut_short_is_not_at_its_end() {
        for (mut framing, text) in
            [(Framing::chunked(), &b"4\r\nWi"[..]), (Framing::chunked(), b"2\r\nok\r\n"), (Framing::Sized(5), b"hell")]
        {
            let mut input = BytesMut::from(text);
            while framing.take(&mut input).unwrap().is_some() {}
            assert!(!framing.closed(), "{text:?}");
        }
        let mut framing = Framing::UntilClose;
        assert_eq!(framing.take(&mut BytesMut::from("all")).unwrap().unwrap(), "all");
        assert!(!framing.is_at_end() && framing.closed());
    }

    #[test]
    fn chunks_that_are_none_are_a_fault() {
        let endless = format!("1;{}", "x".repeat(LINE_BYTES_MAX));
        let trailers = format!("0\r\n{}\r\n", "x: y\r\n".repeat(TRAILERS_MAX + 1));
        let trailer = format!("0\r\nx: {}", "y".repeat(LINE_BYTES_MAX));
        for text in [
            "\r\n",
            "zz\r\n",
            "-5\r\n",
            "fffffffffffffffff\r\n",
            "1\r\nabc",
            "1\n",
            "1;\n\r\n",
            "0\r\n\n",
            "0\r\nx: y\n\r\n",
            &endless,
            &trailers,
            &trailer,
        ] {
            assert!(matches!(read(Framing::chunked(), &[text.as_bytes()]), Err(Fault::Chunk)), "{text:.20}");
        }
    }
}
