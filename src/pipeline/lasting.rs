//! Work that comes to its end whoever waits for it.
//!
//! It is done by the task that waits, which costs no task of its own and no word from one to the other. When that task goes
//! (the HTTP server drops a request's future when its sender hangs up) or has heard enough, the rest is done in a task of
//! its own.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct Lasting {
    /// Nothing, once it has ended.
    work: Option<Work>,
    /// Those that stopping waits for; this one is among them from its beginning on.
    tasks: TaskTracker,
    _counted: TaskTrackerToken,
}

impl Lasting {
    pub fn new(tasks: &TaskTracker, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), tasks: tasks.clone(), _counted: tasks.token() }
    }

    /// Does the work until it has something to tell, or for as long as that is waited for. An error is work that ended without a
    /// word.
    pub async fn until<T>(mut self, mut told: oneshot::Receiver<T>) -> Result<T, TryRecvError> {
        std::future::poll_fn(|cx| {
            self.go_on(cx);
            // Nobody but the work tells, so that there is nothing to be woken for when it does.
            match told.try_recv() {
                Err(TryRecvError::Empty) => Poll::Pending,
                told => Poll::Ready(told),
            }
        })
        .await
    }

    /// A panic ends the work and nothing else, as it would in a task of its own.
    fn go_on(&mut self, cx: &mut Context<'_>) {
        let Some(work) = &mut self.work else { return };
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        if !matches!(polled, Ok(Poll::Pending)) {
            self.work = None;
        }
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        // Without a runtime the process is at its end.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            self.tasks.spawn_on(work, &runtime);
        }
    }
}

impl fmt::Debug for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lasting").field("has_ended", &self.work.is_none()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that waits for a word, says one, waits for another and says one more.
    fn two_steps() -> (oneshot::Sender<()>, oneshot::Sender<()>, oneshot::Receiver<u8>, oneshot::Receiver<u8>, Work) {
        let ((go, may_go), (end, may_end)) = (oneshot::channel(), oneshot::channel());
        let ((say_first, first), (say_second, second)) = (oneshot::channel(), oneshot::channel());
        let work = async {
            let _ = may_go.await;
            let _ = say_first.send(1);
            let _ = may_end.await;
            let _ = say_second.send(2);
        };
        (go, end, first, second, Box::pin(work))
    }

    #[tokio::test]
    async fn what_is_left_after_its_word_is_done_in_a_task() {
        let tasks = TaskTracker::new();
        let (go, end, first, second, work) = two_steps();
        go.send(()).unwrap();
        assert_eq!(Lasting::new(&tasks, work).until(first).await, Ok(1));
        tasks.close();
        assert!(!tasks.is_empty());
        end.send(()).unwrap();
        assert_eq!(second.await, Ok(2));
        tasks.wait().await;
    }

    #[tokio::test]
    async fn whoever_waits_may_go_before_anything_is_done() {
        let tasks = TaskTracker::new();
        let (go, end, first, second, work) = two_steps();
        let mut waiting = Box::pin(Lasting::new(&tasks, work).until(first));
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        drop(waiting);
        go.send(()).unwrap();
        end.send(()).unwrap();
        assert_eq!(second.await, Ok(2));
    }

    #[tokio::test]
    async fn stopping_waits_for_it_while_it_has_no_task_yet() {
        let tasks = TaskTracker::new();
        let (_go, _end, _first, _second, work) = two_steps();
        let lasting = Lasting::new(&tasks, work);
        assert_eq!(tasks.len(), 1);
        drop(lasting);
        assert_eq!(tasks.len(), 1);
    }

    #[tokio::test]
    async fn a_panic_ends_the_work_alone() {
        let tasks = TaskTracker::new();
        let (say, told) = oneshot::channel::<u8>();
        let work = async move {
            let _unsaid = say;
            panic!("on purpose");
        };
        assert!(Lasting::new(&tasks, work).until(told).await.is_err());
        assert!(tasks.is_empty());
    }
}
