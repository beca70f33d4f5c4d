//! A provider's patience: one that delivers an event until it is told success.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::support::PATIENCE;
use crate::support::sender::{Answer, Delivery};

/// How an event was got through.
#[derive(Debug)]
pub struct Accepted {
    /// Statuses before the success; nought where nobody answered.
    pub refused: Vec<u16>,
    pub answer: Answer,
    pub took: Duration,
}

/// Delivers again and again, until the answer is a success.
pub async fn until_accepted(delivery: &Delivery, to: SocketAddr) -> Accepted {
    let (began, mut refused) = (Instant::now(), Vec::new());
    loop {
        let answer = delivery.try_send(to).await;
        assert!(began.elapsed() < PATIENCE, "never accepted: {answer:?}");
        match answer {
            Ok(answer) if answer.is_success() => return Accepted { refused, answer, took: began.elapsed() },
            Ok(answer) => refused.push(answer.status),
            Err(_) => refused.push(0),
        }
        sleep(Duration::from_millis(25)).await;
    }
}
