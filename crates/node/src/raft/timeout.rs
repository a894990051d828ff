//! Futures that have only so much time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use io::{Elapsed, Sleep};

/// Awaits a future, but not beyond a point in time. Unlike [`io::Timeout`] it borrows nothing, as
/// openraft wants it.
#[must_use = "nothing happens until this is awaited"]
pub struct Timeout<F> {
    /// Boxed, so that it is pinned without unsafe code.
    future: Pin<Box<F>>,
    sleep: Sleep,
}

impl<F: Future> Timeout<F> {
    pub(super) fn new(future: F, sleep: Sleep) -> Timeout<F> {
        Timeout {
            future: Box::pin(future),
            sleep,
        }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(value) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        ready!(Pin::new(&mut self.sleep).poll(context));
        Poll::Ready(Err(Elapsed))
    }
}
