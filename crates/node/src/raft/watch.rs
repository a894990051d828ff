//! Values whose changes openraft's tasks wait for.
//!
//! Tokio's would fit but for one thing: where its runtime is compiled in, it spreads those who wait
//! over eight lists by chance that no seed repeats, and with it the order in which they wake.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use io::Notify;
use openraft::async_runtime::watch::{RecvError, SendError, WatchReceiver, WatchSender};

/// Names the kind of channel.
pub struct ShardWatch;

/// What both ends share.
struct Shared<T> {
    value: RefCell<T>,
    /// How often the value has changed.
    version: Cell<u64>,
    /// Wakes the receivers when the value has changed or the last sender has gone.
    news: Notify,
    senders: Cell<usize>,
    receivers: Cell<usize>,
}

/// Changes the value.
pub struct Sender<T> {
    shared: Rc<Shared<T>>,
}

/// Sees the value and waits for changes.
pub struct Receiver<T> {
    shared: Rc<Shared<T>>,
    /// The version that this receiver has seen.
    seen: u64,
}

impl openraft::async_runtime::Watch for ShardWatch {
    type Sender<T> = Sender<T>;
    type Receiver<T> = Receiver<T>;
    type Ref<'a, T: 'a> = Ref<'a, T>;

    fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
        let shared = Rc::new(Shared {
            value: RefCell::new(value),
            version: Cell::new(0),
            news: Notify::new(),
            senders: Cell::new(1),
            receivers: Cell::new(1),
        });
        let sender = Sender {
            shared: shared.clone(),
        };
        (sender, Receiver { shared, seen: 0 })
    }
}

impl<T> Shared<T> {
    fn has_changed(&self) {
        self.version.set(self.version.get() + 1);
        self.news.notify_all();
    }
}

impl<T> WatchSender<ShardWatch, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.shared.receivers.get() == 0 {
            return Err(SendError(value));
        }
        let old = self.shared.value.replace(value);
        self.shared.has_changed();
        // Only now, as it may be anything and look at the value while it is dropped.
        drop(old);
        Ok(())
    }

    fn send_if_modified<F: FnOnce(&mut T) -> bool>(&self, modify: F) -> bool {
        let modified = modify(&mut self.shared.value.borrow_mut());
        if modified {
            self.shared.has_changed();
        }
        modified
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.shared.value.borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        self.shared.receivers.set(self.shared.receivers.get() + 1);
        Receiver {
            shared: self.shared.clone(),
            seen: self.shared.version.get(),
        }
    }
}

impl<T> WatchReceiver<ShardWatch, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        loop {
            let version = self.shared.version.get();
            if self.seen != version {
                self.seen = version;
                return Ok(());
            }
            if self.shared.senders.get() == 0 {
                return Err(RecvError(()));
            }
            self.shared.news.notified().await;
        }
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.shared.value.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.seen = self.shared.version.get();
        self.shared.value.borrow()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.shared.senders.set(self.shared.senders.get() + 1);
        Sender {
            shared: self.shared.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let left = self.shared.senders.get() - 1;
        self.shared.senders.set(left);
        if left == 0 {
            self.shared.news.notify_all();
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.shared.receivers.set(self.shared.receivers.get() + 1);
        Receiver {
            shared: self.shared.clone(),
            seen: self.seen,
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.set(self.shared.receivers.get() - 1);
    }
}
