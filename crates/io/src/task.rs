//! Handles of tasks.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A task of a shard. Awaiting it gives the task's result; dropping it lets the task go on alone.
///
/// If the task panics, so does who awaits it. If nobody does, the panic ends the task and nothing
/// else.
pub struct Task<T> {
    inner: Option<async_task::Task<T>>,
    /// Results belong to the shard, so the handle does as well.
    not_send: PhantomData<Rc<T>>,
}

impl<T: 'static> Task<T> {
    pub(crate) fn new(task: async_task::Task<T>) -> Task<T> {
        Task {
            inner: Some(task),
            not_send: PhantomData,
        }
    }

    /// Lets the task go on alone, as dropping the handle does.
    pub fn detach(self) {}

    /// Has the task ended?
    pub fn is_finished(&self) -> bool {
        self.inner
            .as_ref()
            .is_none_or(async_task::Task::is_finished)
    }

    /// Cancels the task at once: it does not run again, and its future is dropped on the next turn.
    /// Awaiting what this returns waits for that, and gives the result if there was one already.
    pub fn cancel(mut self) -> Cancelled<T> {
        let mut inner: Option<Pin<Box<dyn Future<Output = Option<T>>>>> = None;
        if let Some(task) = self.inner.take() {
            let mut cancelling: Pin<Box<dyn Future<Output = Option<T>>>> = Box::pin(task.cancel());
            // The first poll is what cancels.
            match cancelling
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                Poll::Ready(result) => inner = Some(Box::pin(std::future::ready(result))),
                Poll::Pending => inner = Some(cancelling),
            }
        }
        Cancelled { inner }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(task) = self.inner.take() {
            task.detach();
        }
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let task = self
            .inner
            .as_mut()
            .expect("a task is not awaited after it was cancelled");
        Pin::new(task).poll(context)
    }
}

impl<T> Unpin for Task<T> {}

/// A task that was cancelled: gives the result if the task had ended before.
pub struct Cancelled<T> {
    inner: Option<Pin<Box<dyn Future<Output = Option<T>>>>>,
}

impl<T> Future for Cancelled<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        match &mut self.inner {
            Some(inner) => inner.as_mut().poll(context),
            None => Poll::Ready(None),
        }
    }
}
