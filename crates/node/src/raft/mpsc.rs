//! Bounded channels between openraft's tasks: those of the shard ([`io::channel`]).

use openraft::async_runtime::{
    Mpsc, MpscReceiver, MpscSender, MpscWeakSender, SendError, TryRecvError,
};

/// Names the kind of channel.
pub struct ShardMpsc;

/// Puts values in.
pub struct Sender<T>(io::Sender<T>);

/// Knows a channel without keeping it open.
pub struct WeakSender<T>(io::WeakSender<T>);

/// Takes values out.
pub struct Receiver<T>(io::Receiver<T>);

impl Mpsc for ShardMpsc {
    type Sender<T> = Sender<T>;
    type Receiver<T> = Receiver<T>;
    type WeakSender<T> = WeakSender<T>;

    fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = io::channel(capacity);
        (Sender(sender), Receiver(receiver))
    }
}

impl<T> MpscSender<ShardMpsc, T> for Sender<T> {
    async fn send(&self, value: T) -> Result<(), SendError<T>> {
        let sent = self.0.send(value).await;
        sent.map_err(|io::Closed(value)| SendError(value))
    }

    fn downgrade(&self) -> WeakSender<T> {
        WeakSender(self.0.downgrade())
    }
}

impl<T> MpscReceiver<T> for Receiver<T> {
    async fn recv(&mut self) -> Option<T> {
        self.0.receive().await
    }

    fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.0.try_receive() {
            Some(value) => Ok(value),
            None if self.0.is_closed() => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }
}

impl<T> MpscWeakSender<ShardMpsc, T> for WeakSender<T> {
    fn upgrade(&self) -> Option<Sender<T>> {
        self.0.upgrade().map(Sender)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender(self.0.clone())
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> WeakSender<T> {
        WeakSender(self.0.clone())
    }
}
