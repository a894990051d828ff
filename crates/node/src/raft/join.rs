//! Handles of the tasks that openraft spawns.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use io::Task;

/// Awaits a task of openraft. Dropping it lets the task go on alone, as [`Task`] does.
pub struct JoinHandle<T> {
    task: Task<T>,
}

/// The task panicked.
#[derive(Debug, thiserror::Error)]
#[error("a task of openraft panicked: {message}")]
pub struct JoinError {
    /// What the panic said.
    message: String,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(task: Task<T>) -> JoinHandle<T> {
        JoinHandle { task }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// A shard passes the panic of a task on to who awaits it; openraft wants to be told.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The task has ended if it panicked: nobody sees again what it left half done.
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut self.task).poll(context)));
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(JoinError {
                message: panic_message(&*panic),
            })),
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "something that is no text".to_owned(),
    }
}
