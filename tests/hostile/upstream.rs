//! A consumer that is hostile, or broken: whatever it says, nothing stops, nothing grows, and an event is done only where the
//! head of a good answer said so.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::raw::{OK, Recorder, Says};
use crate::support::consumer::Consumer;
use crate::support::eventually;
use crate::support::instance::Instance;
use crate::support::proxy::in_front_of;
use crate::support::sender::{Answer, Delivery, github, github_with, stripe};
use crate::support::wire::Wire;

const TIMES: &str = "lease = \"1s\"\nupstream_timeout = \"1s\"\nanswer_deadline = \"none\"";

/// What a sender gets where the consumer says this, and what the store knows of the event afterwards.
async fn after(says: Says) -> (Answer, String) {
    let recorder = Recorder::saying(move |_| says.clone()).await;
    let proxy = recorder.setup().await.both(TIMES).start();
    let answer = proxy.send(&github("e1")).await;
    let state = proxy.event("github", "e1").await.unwrap()["state"].as_str().unwrap().to_owned();
    assert!(proxy.stop().await);
    assert_eq!(recorder.requests().len(), 1, "it is sent once");
    (answer, state)
}

/// It was sent, and no answer came that can be read: what became of it is not known.
async fn is_unknown(what: &str, says: Says) {
    let (answer, state) = after(says).await;
    assert_eq!((answer.status, answer.outcome(), state.as_str()), (504, "ambiguous", "claimed"), "{what}");
    assert!(!String::from_utf8_lossy(&answer.body).contains("evil"), "{what}");
}

#[tokio::test]
async fn a_head_that_is_none_leaves_the_event_unknown() {
    for head in [
        "evil\r\n\r\n",
        "evil HTTP/1.1 200 OK\r\n\r\n",
        "\0\0\0\0HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "<html>evil</html>",
        "HTTP/0.9 200 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 1000 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 2OO OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 -20 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nx: a\rset-cookie: evil\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0evil\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx y: evil\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: evil\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "",
    ] {
        is_unknown(head, Says::closing(head)).await;
    }
}

#[tokio::test]
async fn a_head_without_measure_leaves_the_event_unknown() {
    let long = format!("HTTP/1.1 200 OK\r\nx-long: {}\r\ncontent-length: 0\r\n\r\n", "evil".repeat(256 * 1024));
    is_unknown("a header of a mebibyte", Says::staying(long)).await;
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "x: evil\r\n".repeat(1000));
    is_unknown("a thousand headers", Says::staying(many)).await;
    is_unknown("a head without an end", Says::repeating("HTTP/1.1 200 OK\r\n", "x: evil\r\n")).await;
    is_unknown("a line without an end", Says::repeating("HTTP/1.1 200 ", "evil")).await;
}

#[tokio::test]
async fn one_interim_answer_after_another_ends_before_its_time() {
    for status in ["100 Continue", "102 Processing", "103 Early Hints\r\nlink: </evil>", "199 Evil"] {
        let interim = format!("HTTP/1.1 {status}\r\n\r\n");
        let recorder = Recorder::saying(move |_| Says::repeating("", interim.clone())).await;
        let setup = recorder.setup().await.both("lease = \"1s\"").top("passthrough = [\"/app\"]");
        // The time for a call, of five minutes, is not waited for.
        let proxy = setup.start();
        let answer = proxy.send(&github("e1")).await;
        assert_eq!((answer.status, answer.outcome()), (504, "ambiguous"), "{status}");
        assert_eq!(proxy.send(&Delivery::plain("GET", "/app")).await.status, 504);
        // Nobody goes on listening either.
        eventually("hung up", async || (recorder.closed_connections() == 2).then_some(())).await;
        assert!(proxy.stop().await);
    }
}

#[tokio::test]
async fn a_few_interim_answers_are_no_answer_and_are_not_passed_on() {
    let interim = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n".repeat(10);
    let (answer, state) = after(Says::staying(format!("{interim}{OK}"))).await;
    assert_eq!((answer.status, answer.outcome(), state.as_str()), (200, "forwarded", "done"));
    assert!(!answer.headers.contains_key("link"));
}

#[tokio::test]
async fn a_good_head_completes_whatever_comes_behind_it() {
    for behind in [
        // Less than its length says.
        "content-length: 100\r\n\r\nshort",
        // Chunks that are none.
        "transfer-encoding: chunked\r\n\r\nzz\r\nevil\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n-5\r\nevil!\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nevil",
        "transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        // A body up to the end of the connection.
        "\r\nwithout a length",
    ] {
        let recorder = Recorder::saying(move |_| Says::closing(format!("HTTP/1.1 200 OK\r\n{behind}"))).await;
        let proxy = recorder.setup().await.both(TIMES).start();
        // The sender may see its own connection break off, or an answer: never a second request.
        let mut wire = github("e1").begin(proxy.listen).await;
        wire.heard_or_closed("\r\n\r\n").await;
        proxy.in_state("github", "e1", "done").await;
        assert_eq!(proxy.send(&github("e1")).await.outcome(), "duplicate", "{behind:?}");
        assert!(proxy.stop().await);
        assert_eq!(recorder.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_older_answer_is_passed_on_in_our_own_framing() {
    let (answer, state) = after(Says::closing("HTTP/1.0 200 OK\r\n\r\nup to the end")).await;
    assert_eq!((answer.status, &answer.body[..], state.as_str()), (200, &b"up to the end"[..], "done"));
    for (status, outcome) in [(600, "failed"), (999, "failed"), (418, "failed")] {
        let (answer, state) = after(Says::staying(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n"))).await;
        assert_eq!((answer.status, answer.outcome(), state.as_str()), (status, outcome, "failed"));
    }
}

/// Bytes behind an answer are nobody's, whatever kind of answer they are behind.
#[tokio::test]
async fn what_comes_behind_an_answer_is_never_the_next_ones() {
    for behind in [
        format!("HTTP/1.1 204 No Content\r\ncontent-length: {}\r\n\r\n{OK}", OK.len()),
        format!("{OK}HTTP/1.1 103 Early Hints\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n{OK}"),
        format!("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok{OK}"),
    ] {
        let said = behind.clone();
        let recorder = Recorder::saying(move |request| match request.all("hookonce-event-id")[..] {
            ["e1"] => Says::staying(said.clone()),
            _ => Says::staying("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"),
        })
        .await;
        let proxy = recorder.setup().await.top("workers = 1").start();
        assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded", "{behind:?}");
        assert_eq!(proxy.send(&stripe("e2")).await.status, 500, "{behind:?}");
        assert!(proxy.stop().await);
        assert_eq!(recorder.connections(), 2, "{behind:?}");
    }
}

/// An answer that comes when its time is over must not be there for the next event.
#[tokio::test]
async fn an_answer_that_comes_too_late_is_nobodys() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let consumer = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        // Till its sender has given up.
        let mut request = Vec::new();
        first.read_to_end(&mut request).await.unwrap();
        let (mut second, _) = listener.accept().await.unwrap();
        let _ = first.write_all(OK.as_bytes()).await;
        while !second.read_buf(&mut request).await.is_ok_and(|_| request.ends_with(b"}")) {}
        second.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        request
    });
    let proxy = in_front_of(&Consumer::answering(200).await).upstream(&url).both(TIMES).top("workers = 1").start();
    assert_eq!(proxy.send(&github("e1")).await.status, 504);
    assert_eq!(proxy.send(&github("e2")).await.status, 500);
    assert!(String::from_utf8_lossy(&consumer.await.unwrap()).contains("e2"));
    assert!(proxy.stop().await);
}

/// Chunks are made anew, and what follows them on the connection is another request.
#[tokio::test]
async fn what_is_passed_on_in_chunks_ends_where_it_ends() {
    let recorder = Recorder::saying(|_| Says::staying(OK)).await;
    let proxy = recorder.setup().await.top("workers = 1\npassthrough = [\"/app\"]").start();
    let chunked =
        b"POST /app HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n5;x\r\nGET /\r\n0\r\nx: y\r\n\r\n";
    let mut wire = Wire::with(proxy.listen, chunked).await;
    wire.heard_or_closed("ok").await;
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    assert!(proxy.stop().await);
    let text = recorder.text();
    assert!(text.contains("transfer-encoding: chunked\r\n") && !text.contains("x: y"), "{text}");
    assert_eq!(recorder.connections(), 1);
    assert!(text.split("POST /").count() == 3, "{text}");
}

/// A second answer, said in advance, would be taken for the answer to the next event.
#[tokio::test]
async fn an_answer_that_nobody_asked_for_is_nobodys() {
    let (accepted, refused) = (OK, "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n");
    let recorder = Recorder::saying(move |request| {
        let says = if request.all("hookonce-event-id") == ["e1"] { format!("{accepted}{accepted}") } else { refused.into() };
        Says::staying(says)
    })
    .await;
    let proxy = recorder.setup().await.top("workers = 1").start();
    assert_eq!(proxy.send(&stripe("e1")).await.outcome(), "forwarded");
    let second = proxy.send(&stripe("e2")).await;
    assert_eq!((second.status, second.outcome()), (500, "failed"));
    assert_eq!(proxy.event("stripe", "e2").await.unwrap()["state"], "failed");
    assert!(proxy.stop().await);
    assert_eq!(recorder.connections(), 2);
}

#[tokio::test]
async fn an_answer_is_not_split_into_two() {
    let head = "HTTP/1.1 200 OK\r\nx-one: a\nx-two: evil\r\nlocation: /a%0d%0aset-cookie:%20evil\r\nx-obs: \u{e9}\r\n\
                connection: close, set-cookie\r\nkeep-alive: 5\r\nupgrade: h2c\r\nhttp2-settings: AA\r\nproxy-authenticate: Basic\r\n\
                trailer: x\r\nhookonce-outcome: duplicate\r\nhookonce-event-id: evil\r\ncontent-length: 2\r\n\r\nok";
    let recorder = Recorder::saying(move |_| Says::closing(head)).await;
    let proxy = recorder.setup().await.start();
    let mut wire = github("e1").begin(proxy.listen).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.outcome()), (200, "forwarded"));
    for name in ["keep-alive", "upgrade", "http2-settings", "proxy-authenticate", "trailer", "connection", "hookonce-event-id"] {
        assert!(!answer.headers.contains_key(name), "{name}");
    }
    assert_eq!(answer.header("location"), Some("/a%0d%0aset-cookie:%20evil"));
    assert_eq!(wire.said(), "", "nothing behind it");
    drop(wire);
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn an_answer_before_the_request_was_read_is_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.read_u8().await.unwrap();
            stream.write_all(b"HTTP/1.1 413 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await.unwrap();
            // It reads nothing more, and does not hang up either.
            open.push(stream);
        }
    });
    let proxy = in_front_of(&Consumer::answering(200).await).upstream(&url).both(TIMES).start();
    let answer = proxy.send(&github_with("e1", vec![b'x'; 8 << 20])).await;
    assert_eq!((answer.status, answer.outcome(), &answer.body[..]), (413, "failed", &b"no"[..]));
    assert_eq!(proxy.event("github", "e1").await.unwrap()["state"], "failed");
    assert!(proxy.stop().await);
}

/// In kilobytes, as the kernel counts them.
fn memory(instance: &Instance) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", instance.program.process())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn bodies_and_heads_without_an_end_take_no_memory() {
    let recorder = Recorder::saying(|request| match request.all("hookonce-event-id")[..] {
        ["warm"] => Says::staying(OK),
        ["head"] => Says::repeating("HTTP/1.1 200 OK\r\n", "x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(1000)),
        ["chunks"] => {
            Says::repeating("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", format!("1000\r\n{}\r\n", "x".repeat(4096)))
        }
        _ => Says::repeating("HTTP/1.1 500 No\r\n\r\n", "x".repeat(65536)),
    })
    .await;
    let setup = recorder
        .setup()
        .await
        .top("workers = 1")
        .both("upstream_timeout = \"2s\"\nanswer_deadline = \"none\"")
        .table("[limits]\nanswer = \"64KiB\"");
    let instance = Instance::start(&setup).await;
    assert_eq!(instance.send(&github("warm")).await.status, 200);
    let before = memory(&instance);
    assert_eq!(instance.send(&github("head")).await.status, 504);
    for event in ["chunks", "body", "body2"] {
        let mut wire = Wire::with(instance.listen, &github(event).bytes()).await;
        // As much as the sender takes comes through, up to a piece less than is passed on at all, and none of it stays.
        assert!(wire.skip(63 << 20).await >= 63 << 20, "{event}");
    }
    assert_eq!(instance.send(&github("warm")).await.outcome(), "duplicate", "it serves on");
    let grown = memory(&instance) - before;
    assert!(grown < 24 * 1024, "{grown} KiB more");
}
