//! Answers of a server, one behind the other, in what has come so far (RESP 2).

use bytes::{Buf, BytesMut};
use memchr::memchr;
use redis::{ErrorKind, RedisError, Value};

/// No answer of a server has a longer line: numbers, states and errors.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// What a server takes for one value at most, unless it is told otherwise.
const VALUE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Takes the first answer out; `None` while it is not whole.
pub(super) fn take(input: &mut BytesMut) -> Result<Option<Value>, RedisError> {
    let Some(end) = end(input)? else { return Ok(None) };
    let whole = input.split_to(end);
    Ok(Some(match whole[..] {
        // What a delivery is answered with: nothing, or a value.
        [b'$', b'-', ..] => Value::Nil,
        [b'$', ..] => Value::BulkString(value_of(&whole).to_vec()),
        _ => redis::parse_redis_value(&whole).map_err(|_| garbled())?,
    }))
}

fn value_of(whole: &[u8]) -> &[u8] {
    let mut rest = whole;
    rest.advance(memchr(b'\n', whole).map_or(whole.len(), |at| at + 1));
    rest.strip_suffix(b"\r\n").unwrap_or(rest)
}

/// Where the first answer ends.
fn end(input: &[u8]) -> Result<Option<usize>, RedisError> {
    // Those that are still to come belong to a list.
    let (mut at, mut to_come) = (0, 1_usize);
    while to_come > 0 {
        let rest = &input[at..];
        let Some(feed) = memchr(b'\n', &rest[..rest.len().min(LINE_BYTES_MAX)]) else {
            return if rest.len() < LINE_BYTES_MAX { Ok(None) } else { Err(garbled()) };
        };
        let (kind, line) = rest[..feed].strip_suffix(b"\r").and_then(<[u8]>::split_first).ok_or_else(garbled)?;
        (at, to_come) = (at + feed + 1, to_come - 1);
        match kind {
            b'+' | b'-' | b':' => {}
            b'$' => {
                if let Some(length) = length(line)? {
                    at += length + 2;
                    let Some(value) = input.get(..at) else { return Ok(None) };
                    value.ends_with(b"\r\n").then_some(()).ok_or_else(garbled)?;
                }
            }
            b'*' => to_come += length(line)?.unwrap_or(0),
            _ => return Err(garbled()),
        }
    }
    Ok(Some(at))
}

/// `None` for what is not there, which is `-1`.
fn length(line: &[u8]) -> Result<Option<usize>, RedisError> {
    if line == b"-1" {
        return Ok(None);
    }
    let length = std::str::from_utf8(line).ok().and_then(|digits| digits.parse().ok());
    length.filter(|length| *length <= VALUE_BYTES_MAX).map(Some).ok_or_else(garbled)
}

/// As a broken connection: nobody can tell which answer is whose from here on.
fn garbled() -> RedisError {
    RedisError::from((ErrorKind::Io, "what answers does not speak the protocol of Redis"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: [&[u8]; 12] = [
        b"+OK\r\n",
        b":-42\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"$5\r\nhello\r\n",
        b"$6\r\na\r\nb\r\n\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n:0\r\n$3\r\nabc\r\n",
        b"*3\r\n*2\r\n$-1\r\n+x\r\n*0\r\n:1\r\n",
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        b"*1\r\n-ERR inner\r\n",
    ];

    #[test]
    fn an_answer_is_read_as_the_library_reads_it() {
        for bytes in ANSWERS {
            let read = take(&mut BytesMut::from(bytes)).unwrap();
            assert_eq!(read, Some(redis::parse_redis_value(bytes).unwrap()), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn answers_that_come_in_any_pieces_are_taken_when_they_are_whole() {
        let all = ANSWERS.concat();
        for piece in 1..all.len() {
            let (mut input, mut taken, mut come) = (BytesMut::new(), 0, 0);
            for bytes in all.chunks(piece) {
                input.extend_from_slice(bytes);
                come += bytes.len();
                while take(&mut input).unwrap().is_some() {
                    taken += 1;
                }
                let whole = (1..=ANSWERS.len()).filter(|count| ANSWERS[..*count].concat().len() <= come).count();
                assert_eq!(taken, whole, "in pieces of {piece}, after {come}");
            }
            assert!(input.is_empty());
        }
    }

    #[test]
    fn what_is_no_answer_is_told_at_once() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\r\n",
            b"+OK\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$3\r\nabcd\r\n",
            b"$99999999999\r\n",
            b"*99999999999999999999\r\n",
            b"*2\r\n:1\r\nno\r\n",
            b":one\r\n",
            &[b'+'; LINE_BYTES_MAX],
        ] {
            let error = take(&mut BytesMut::from(bytes)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{}", bytes.escape_ascii());
        }
    }
}
