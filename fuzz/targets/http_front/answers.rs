//! Whether what came back on a connection is HTTP, read without any of the program's own code.

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What a peer may send that was told nothing else.
const FRAME_BYTES_MAX: usize = 16_384;

pub fn are_well_formed(answers: &[u8], sent: &[u8]) {
    // A connection that is closed on a sender who still writes loses the end of what was said: what is there must be right.
    if sent.starts_with(PREFACE) && !answers.starts_with(b"HTTP/1.") {
        frames(answers);
    } else {
        let has_head = sent.windows(5).any(|word| word == b"HEAD ");
        let mut rest = answers;
        while !rest.is_empty() {
            rest = after_answer(rest, has_head, answers);
        }
    }
}

/// HTTP/2: frame after frame, each within its bounds.
fn frames(mut rest: &[u8]) {
    while let Some((head, tail)) = rest.split_first_chunk::<9>() {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        assert!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
        assert!(head[3] <= 9, "a frame of an unknown kind: {}", head[3]);
        rest = tail.get(length..).unwrap_or_default();
    }
}

/// HTTP/1: what follows one answer.
fn after_answer<'a>(text: &'a [u8], has_head: bool, all: &[u8]) -> &'a [u8] {
    let shown = || String::from_utf8_lossy(all).into_owned();
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut headers);
    let parsed = answer.parse(text).unwrap_or_else(|error| panic!("no answer: {error} in {}", shown()));
    let httparse::Status::Complete(head) = parsed else { return &[] };
    let status = answer.code.unwrap();
    assert!((100..600).contains(&status), "{status} in {}", shown());
    let values = |name: &str| -> Vec<&[u8]> {
        answer.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value).collect()
    };
    let (lengths, codings, rest) = (values("content-length"), values("transfer-encoding"), &text[head..]);
    assert!(lengths.len() + codings.len() <= 1, "framed twice: {}", shown());
    if status < 200 || status == 204 || status == 304 {
        return rest;
    }
    // An answer to a HEAD has its length and no body.
    if has_head && (rest.is_empty() || rest.starts_with(b"HTTP/1.")) {
        return rest;
    }
    if let [length] = lengths.as_slice() {
        let length: usize = std::str::from_utf8(length).unwrap().parse().unwrap_or_else(|_| panic!("its length: {}", shown()));
        return rest.get(length..).unwrap_or_default();
    }
    if codings.is_empty() { &[] } else { after_chunks(rest, &shown) }
}

fn after_chunks<'a>(mut rest: &'a [u8], shown: &impl Fn() -> String) -> &'a [u8] {
    loop {
        let parsed = httparse::parse_chunk_size(rest).unwrap_or_else(|_| panic!("no chunk: {}", shown()));
        let httparse::Status::Complete((start, length)) = parsed else { return &[] };
        let end = start + usize::try_from(length).unwrap();
        let Some(tail) = rest.get(end..).filter(|tail| tail.len() >= 2) else { return &[] };
        assert!(tail.starts_with(b"\r\n"), "a chunk without an end: {}", shown());
        rest = &tail[2..];
        if length == 0 {
            return rest;
        }
    }
}
