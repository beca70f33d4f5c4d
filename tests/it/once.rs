//! One event, many deliveries, one effect.

use crate::support::consumer::{Act, Consumer};
use crate::support::proxy::in_front_of;
use crate::support::sender::{github, stripe};

#[tokio::test]
async fn a_duplicate_is_answered_without_reaching_the_consumer() {
    let consumer = Consumer::answering(200).await;
    let proxy = in_front_of(&consumer).start();
    for delivery in [github("e1"), stripe("e1")] {
        let (first, second) = (proxy.send(&delivery).await, proxy.send(&delivery).await);
        assert_eq!((first.status, first.outcome()), (200, "forwarded"));
        assert_eq!((second.status, second.outcome()), (200, "duplicate"));
        assert_eq!(second.json()["status"], "duplicate");
    }
    assert_eq!(consumer.count("e1"), 2);
    let metrics = proxy.metrics().await;
    assert_eq!((metrics.outcome("github", "forwarded"), metrics.outcome("github", "duplicate")), (1.0, 1.0));
    assert!(proxy.stop().await);
}

#[tokio::test]
async fn a_failure_is_passed_on_and_the_next_delivery_is_forwarded() {
    let consumer = Consumer::deciding(|_, nth| Act::Answer(if nth == 1 { 501 } else { 200 })).await;
    let proxy = in_front_of(&consumer).start();
    let answers = [proxy.send(&stripe("e1")).await, proxy.send(&stripe("e1")).await, proxy.send(&stripe("e1")).await];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [501, 200, 200]);
    assert_eq!(answers.each_ref().map(|answer| answer.outcome()), ["failed", "forwarded", "duplicate"]);
    let seen = consumer.seen();
    assert_eq!(seen.iter().map(|seen| seen.header("hookonce-attempt").unwrap()).collect::<Vec<_>>(), ["1", "2"]);
    assert!(seen.iter().all(|seen| seen.mark().is_none()));
    assert!(proxy.stop().await);
}
