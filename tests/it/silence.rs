//! A connection is for a request: whoever does not get one out in time is not waited for.

use crate::support::consumer::Consumer;
use crate::support::proxy::in_front_of;
use crate::support::sender::stripe;
use crate::support::wire::Wire;

#[tokio::test]
async fn a_connection_without_a_request_is_closed_after_the_time_for_a_head() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[limits]\nheader_timeout = \"1s\"").start();
    // Nothing, what may become HTTP/2, a part of its preface, the whole of it, a part of a line, a part of a head.
    let beginnings =
        ["", "P", "PRI * HTTP/2.0\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "POST /str", "POST /stripe HTTP/1.1\r\nhost: a\r\n"];
    let mut wires = Vec::new();
    for beginning in beginnings {
        wires.push(Wire::with(proxy.listen, beginning.as_bytes()).await);
    }
    for wire in &mut wires {
        wire.closed().await;
    }
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_connection_that_has_had_a_request_may_wait_for_the_next() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).table("[limits]\nheader_timeout = \"5s\"").start();
    let mut wire = stripe("e1").begin(proxy.listen).await;
    assert_eq!(wire.answer().await.status, 200);
    wire.say(&stripe("e2").bytes()).await;
    assert_eq!(wire.answer().await.status, 200);
    assert!(proxy.stop().await);
}
