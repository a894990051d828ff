//! Several futures that run together within one task.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Futures that run together; their values come as they are there. They run only while the next value
/// is waited for, and end when this is dropped. Few: each is polled whenever one of them wakes the task.
pub(super) struct Together<'f, T> {
    futures: Vec<Pin<Box<dyn Future<Output = T> + 'f>>>,
}

impl<'f, T> Together<'f, T> {
    /// None yet.
    pub(super) fn new() -> Together<'f, T> {
        Together {
            futures: Vec::new(),
        }
    }

    /// Adds one.
    pub(super) fn push(&mut self, future: impl Future<Output = T> + 'f) {
        self.futures.push(Box::pin(future));
    }

    /// The next value; `None` if there is no future left.
    pub(super) async fn next(&mut self) -> Option<T> {
        poll_fn(|context| {
            if self.futures.is_empty() {
                return Poll::Ready(None);
            }
            for at in 0..self.futures.len() {
                if let Poll::Ready(value) = self.futures[at].as_mut().poll(context) {
                    drop(self.futures.swap_remove(at));
                    return Poll::Ready(Some(value));
                }
            }
            Poll::Pending
        })
        .await
    }
}
