//! Channels for one value between openraft's tasks: those of the shard ([`mod@io::oneshot`]).

use openraft::async_runtime::{Oneshot, OneshotSender};

/// Names the kind of channel.
pub struct ShardOneshot;

/// Gives the value.
pub struct Sender<T>(io::oneshot::Sender<T>);

impl Oneshot for ShardOneshot {
    type Sender<T> = Sender<T>;
    type Receiver<T> = io::oneshot::Receiver<T>;
    type ReceiverError = io::oneshot::Cancelled;

    fn channel<T>() -> (Sender<T>, io::oneshot::Receiver<T>) {
        let (sender, receiver) = io::oneshot();
        (Sender(sender), receiver)
    }
}

impl<T> OneshotSender<T> for Sender<T> {
    fn send(self, value: T) -> Result<(), T> {
        self.0.send(value)
    }
}
