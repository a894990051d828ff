//! The shard whose future is being polled.
//!
//! The functions of openraft's runtime take no handle of the runtime, so the only way to tell them
//! which shard they run on is a variable of the thread. A thread has one shard, but in the simulator
//! one thread has all shards of all nodes, and so the variable is set for exactly as long as a
//! future of the adapter is polled or dropped, and set back to what it was before (polls nest when a
//! future of one shard is polled inside that of another). Nothing else in the house is passed on like
//! this, and nothing but this adapter may read it: all other code is given its [`Env`].

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use io::Env;

thread_local! {
    /// The shard whose future is being polled on this thread, if it is one of the adapter's.
    static CURRENT: RefCell<Option<Env>> = const { RefCell::new(None) };
}

/// The shard whose future is being polled.
///
/// # Panics
/// If none is: then some code of ours called openraft without [`within`].
#[track_caller]
pub(super) fn current() -> Env {
    CURRENT
        .with_borrow(Clone::clone)
        .expect("openraft is called through raft::within, or it does not know its shard")
}

/// Makes openraft run on the shard `env` while `future` is polled, and while it is dropped. Whoever
/// calls openraft and is not called by it does so in here. So does who only writes its metrics as
/// text: the points in time in them are told relative to now.
pub fn within<F: Future>(env: &Env, future: F) -> Within<F> {
    Within {
        env: env.clone(),
        future: Some(Box::pin(future)),
    }
}

/// What [`within`] gives: a future with the shard that it belongs to.
#[must_use = "nothing happens until this is awaited"]
pub struct Within<F> {
    env: Env,
    /// There until `self` is dropped. Boxed, so that it is pinned without unsafe code.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = Entered::new(&self.env);
        match &mut self.future {
            Some(future) => future.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Within<F> {
    fn drop(&mut self) {
        let _entered = Entered::new(&self.env);
        self.future = None;
    }
}

/// A shard is the current one for as long as this lives.
struct Entered {
    /// The one that was it before.
    outer: Option<Env>,
}

impl Entered {
    fn new(env: &Env) -> Entered {
        Entered {
            outer: CURRENT.replace(Some(env.clone())),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let left = CURRENT.replace(self.outer.take());
        // Only now: it may be the last handle of the shard, and dropping that drops its tasks.
        drop(left);
    }
}
