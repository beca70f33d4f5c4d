//! JSON that parsers disagree on: an id is taken only where every parser would read the same one.

use crate::raw::Recorder;
use crate::support::proxy::Proxy;
use crate::support::sender::stripe_with;

/// What became of a body, all of them signed as they stand.
async fn ending(proxy: &Proxy, recorder: &Recorder, body: &[u8]) -> String {
    let before = recorder.requests().len();
    let answer = proxy.send(&stripe_with(body.to_vec())).await;
    let requests = recorder.requests();
    match requests.len() - before {
        0 => format!("{} {}", answer.status, answer.json()["code"].as_str().unwrap_or(answer.outcome())),
        1 => {
            let (ids, marks) = (requests[before].all("hookonce-event-id"), requests[before].all("hookonce-maybe-duplicate"));
            assert_eq!(requests[before].body, body, "the body goes on as it is");
            format!("{} {}", ids.first().unwrap_or(&"none"), marks.first().unwrap_or(&"-"))
        }
        more => panic!("{more} requests"),
    }
}

async fn all_end(cases: &[(&[u8], &str)]) {
    let recorder = Recorder::new().await;
    let proxy = recorder.setup().await.top("workers = 1").start();
    for (body, expected) in cases {
        let text = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        assert_eq!(ending(&proxy, &recorder, body).await, *expected, "{text}");
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_key_that_is_there_twice_is_no_id_however_it_is_spelt() {
    all_end(&[
        (br#"{"id":"a","id":"b"}"#, "400 bad_event_id"),
        (br#"{"id":"a","id":"a"}"#, "400 bad_event_id"),
        (br#"{"id":"a","\u0069d":"b"}"#, "400 bad_event_id"),
        (br#"{"\u0069\u0064":"a","id":null}"#, "400 bad_event_id"),
        (br#"{"id":{"x":1},"id":"a"}"#, "400 bad_event_id"),
        (br#"{"id":"a","x":{"id":"b"},"y":[{"id":"c"}]}"#, "a -"),
        (br#"{"x":1,"x":2,"id":"b1"}"#, "b1 -"),
        (br#"{"\u0069d":"escaped"}"#, "escaped -"),
        // Keys that only look so are others.
        (br#"{"id\u0000":"z","id":"b2"}"#, "b2 -"),
        (br#"{" id":"z","id":"b3"}"#, "b3 -"),
        (br#"{"id":"b4","i\ud800d":"z"}"#, "none no-id"),
    ])
    .await;
}

#[tokio::test]
async fn a_number_is_an_id_where_it_is_an_integer_and_keeps_its_digits() {
    all_end(&[
        (br#"{"id":9007199254740993}"#, "9007199254740993 -"),
        // Rounded, this would be the one above.
        (br#"{"id":9007199254740992}"#, "9007199254740992 -"),
        (br#"{"id":123456789012345678901234567890}"#, "123456789012345678901234567890 -"),
        (br#"{"id":-1}"#, "-1 -"),
        (br#"{"id":0}"#, "0 -"),
        // Some read nought, some one that differs from it.
        (br#"{"id":-0}"#, "none no-id"),
        (br#"{"id":1.0}"#, "none no-id"),
        (br#"{"id":1e0}"#, "none no-id"),
        (br#"{"id":1E400}"#, "none no-id"),
        (br#"{"id":0.1e1}"#, "none no-id"),
        (br#"{"x":1e400,"id":"beside"}"#, "beside -"),
        (br#"{"id":01}"#, "none no-id"),
        (br#"{"id":+1}"#, "none no-id"),
        (br#"{"id":.5}"#, "none no-id"),
        (br#"{"id":NaN}"#, "none no-id"),
        (br#"{"id":Infinity}"#, "none no-id"),
        (br#"{"id":0x10}"#, "none no-id"),
    ])
    .await;
}

#[tokio::test]
async fn what_is_not_one_document_of_json_has_no_id() {
    all_end(&[
        (b"\xef\xbb\xbf{\"id\":\"a\"}", "none no-id"),
        (b"\xff\xfe{\x00\"\x00", "none no-id"),
        (br#"{"id":"a"}x"#, "none no-id"),
        (br#"{"id":"a"}{"id":"b"}"#, "none no-id"),
        (b"{\"id\":\"a\"}\0", "none no-id"),
        (br#"{"id":"a"} // comment"#, "none no-id"),
        (br#"/* comment */{"id":"a"}"#, "none no-id"),
        (br#"{"id":"a",}"#, "none no-id"),
        (br#"{'id':'a'}"#, "none no-id"),
        (br#"{id:"a"}"#, "none no-id"),
        (br#"{"id":"a""#, "none no-id"),
        (br#"{"id":"a","x":NaN}"#, "none no-id"),
        (br#"{"id":"a","x":undefined}"#, "none no-id"),
        (br#"{"id":"a","x":"\x41"}"#, "none no-id"),
        (b"{\"id\":\"a\nb\"}", "none no-id"),
        (b"{\"id\":\"a\tb\"}", "none no-id"),
        (b"{\"id\":\"a\0b\"}", "none no-id"),
        (b"", "none no-id"),
        (b"null", "none no-id"),
        (br#"["id","a"]"#, "none no-id"),
        (br#""id""#, "none no-id"),
        // White space around a document is of it.
        (b" \r\n\t{ \"id\" : \"spaced\" } \r\n", "spaced -"),
    ])
    .await;
}

#[tokio::test]
async fn a_text_that_parsers_would_read_differently_is_no_id() {
    all_end(&[
        (br#"{"id":"\ud800"}"#, "none no-id"),
        (br#"{"id":"\udc00\ud800"}"#, "none no-id"),
        (br#"{"id":"a\ud888b"}"#, "none no-id"),
        (b"{\"id\":\"a\xffb\"}", "none no-id"),
        (b"{\"id\":\"\xc0\xaf\"}", "none no-id"),
        (b"{\"id\":\"\xed\xa0\x80\"}", "none no-id"),
        (br#"{"id":""}"#, "none no-id"),
        (br#"{"id":null}"#, "none no-id"),
        (br#"{"id":true}"#, "none no-id"),
        (br#"{"id":["a"]}"#, "none no-id"),
        (br#"{"id":{"toString":"a"}}"#, "none no-id"),
        // What is well-formed is an id, and written so that no reader takes it for another.
        (br#"{"id":"a\u0000b"}"#, "a%00b -"),
        (br#"{"id":"a\r\nx: y"}"#, "a%0D%0Ax:%20y -"),
        (br#"{"id":"\ud83d\ude00"}"#, "%F0%9F%98%80 -"),
        // Composed and decomposed: two texts, two ids.
        (br#"{"id":"\u00e9"}"#, "%C3%A9 -"),
        (br#"{"id":"e\u0301"}"#, "e%CC%81 -"),
    ])
    .await;
}

#[tokio::test]
async fn depth_and_size_cost_nothing_but_their_bytes() {
    let deep = format!("{{\"x\":{}{},\"id\":\"deep\"}}", "[".repeat(10_000), "]".repeat(10_000)).into_bytes();
    let deep_objects = format!("{{\"x\":{}1{},\"id\":\"objects\"}}", "{\"a\":".repeat(10_000), "}".repeat(10_000)).into_bytes();
    let deep_id = format!("{{\"id\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000)).into_bytes();
    let open = "[".repeat(100_000).into_bytes();
    let long = format!("{{\"x\":\"{}\",\"id\":\"long\"}}", "\\u0041".repeat(100_000)).into_bytes();
    let long_key = format!("{{\"{}\":1,\"id\":\"key\"}}", "k".repeat(300_000)).into_bytes();
    let many = format!("{{{}\"id\":\"many\"}}", "\"k\":0,".repeat(50_000)).into_bytes();
    let long_number = format!("{{\"x\":{},\"id\":\"number\"}}", "9".repeat(100_000)).into_bytes();
    all_end(&[
        (&deep, "deep -"),
        (&deep_objects, "objects -"),
        (&deep_id, "none no-id"),
        (&open, "none no-id"),
        (&long, "long -"),
        (&long_key, "key -"),
        (&many, "many -"),
        (&long_number, "number -"),
    ])
    .await;
}
