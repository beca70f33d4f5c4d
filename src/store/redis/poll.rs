//! Asking several servers the same thing, any of which may be dead or behind the others.

use std::cmp::Reverse;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{ErrorKind, RedisError};
use tokio::time::timeout;

/// For one answer. Nobody waits for it but the scout.
const WAIT: Duration = Duration::from_millis(300);

/// The answers, the one that most give first. Does not wait for the rest once more than half agree. An error only where
/// nobody answers.
pub(super) async fn poll<T: PartialEq>(
    asked: impl ExactSizeIterator<Item = impl Future<Output = Result<T, RedisError>>>,
) -> Result<Vec<T>, RedisError> {
    let count = asked.len();
    let mut answers: FuturesUnordered<_> = asked.map(in_time).collect();
    let (mut votes, mut cause) = (Vec::<(usize, T)>::new(), None);
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(said) => match votes.iter_mut().find(|(_, other)| *other == said) {
                Some((votes, _)) => *votes += 1,
                None => votes.push((1, said)),
            },
            Err(error) => cause = Some(error),
        }
        if votes.iter().any(|(votes, _)| votes * 2 > count) {
            break;
        }
    }
    match cause {
        Some(error) if votes.is_empty() => Err(error),
        _ => {
            votes.sort_by_key(|(votes, _)| Reverse(*votes));
            Ok(votes.into_iter().map(|(_, said)| said).collect())
        }
    }
}

pub(super) async fn in_time<T>(answer: impl Future<Output = Result<T, RedisError>>) -> Result<T, RedisError> {
    let silence = |_| Err(RedisError::from((ErrorKind::Io, "no answer", format!("in {WAIT:?}"))));
    timeout(WAIT, answer).await.unwrap_or_else(silence)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::Pin;

    use super::*;

    type Answer = Pin<Box<dyn Future<Output = Result<u8, RedisError>>>>;

    fn says(what: u8) -> Answer {
        Box::pin(ready(Ok(what)))
    }

    fn fails() -> Answer {
        Box::pin(ready(Err(RedisError::from((ErrorKind::Io, "broken")))))
    }

    #[tokio::test]
    async fn what_most_say_comes_first() {
        assert_eq!(poll([says(1), says(2), says(2)].into_iter()).await.unwrap()[0], 2);
        assert_eq!(poll([fails(), says(3)].into_iter()).await.unwrap(), [3]);
        assert!(poll([fails(), fails()].into_iter()).await.is_err());
    }

    #[tokio::test]
    async fn the_silent_are_not_waited_for_once_most_agree() {
        let began = tokio::time::Instant::now();
        assert_eq!(poll([Box::pin(pending()), says(1), says(1)].into_iter()).await.unwrap(), [1]);
        assert!(began.elapsed() < WAIT);
        assert_eq!(poll([Box::pin(pending()), says(1), fails()].into_iter()).await.unwrap(), [1]);
        assert!(began.elapsed() >= WAIT);
    }
}
