//! The clients of a shard: who they are, what they registered for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use io::Notify;
use wire::{EVENT_STREAM, Event, EventKind, ResponseWriter};

use crate::metrics::RequestKind;
use crate::output::Output;
use crate::system::ClientInfo;
use crate::window::Window;

/// Bytes that may wait for a client before events for it are a reason to let it go: it would miss
/// some otherwise and trust what it has not heard.
const EVENTS_LIMIT: usize = 4 << 20;

/// A connected client.
pub(crate) struct Client {
    /// Its address.
    pub(crate) peer: SocketAddr,
    /// What is to be sent to it.
    pub(crate) output: Output,
    /// The keyspace of unqualified names.
    pub(crate) keyspace: RefCell<Option<Arc<str>>>,
    /// What it said of itself at STARTUP.
    pub(crate) options: RefCell<BTreeMap<String, String>>,
    /// What it wants to hear of, by the place of the kind.
    registered: [Cell<bool>; 3],
    /// Requests that it has made.
    pub(crate) requests: Cell<u64>,
    /// Requests under way.
    pub(crate) window: Window,
    /// Whether other shards are asked for answers to reads, and to writes.
    reads_elsewhere: Backoff,
    writes_elsewhere: Backoff,
    /// Something was finished or sent, or the connection is to end.
    pub(crate) progress: Notify,
    /// The connection is to end.
    ending: Cell<bool>,
    /// It is, from now on.
    end: Notify,
}

fn place(kind: EventKind) -> usize {
    match kind {
        EventKind::Topology => 0,
        EventKind::Status => 1,
        EventKind::Schema => 2,
    }
}

/// How often something was tried in vain of late: the more often, the more rarely it is tried.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: Cell<u32>,
    /// How many times it is not tried.
    rests: Cell<u32>,
}

impl Backoff {
    /// At most every so many times, as a power of two.
    const RARELY: u32 = 6;

    /// Is it tried now?
    pub(crate) fn tries(&self) -> bool {
        let rests = self.rests.get();
        self.rests.set(rests.saturating_sub(1));
        rests == 0
    }

    /// It was tried.
    pub(crate) fn tried(&self, has_helped: bool) {
        let failures = match has_helped {
            true => 0,
            false => (self.failures.get() + 1).min(Backoff::RARELY),
        };
        self.failures.set(failures);
        self.rests.set((1 << failures) - 1);
    }
}

impl Client {
    /// Whether other shards are asked for answers to requests of a kind.
    pub(crate) fn elsewhere(&self, kind: RequestKind) -> &Backoff {
        match kind {
            RequestKind::Write => &self.writes_elsewhere,
            _ => &self.reads_elsewhere,
        }
    }

    /// Does it want to be told of an overload, instead of waiting for it to end (`THROW_ON_OVERLOAD` at STARTUP)?
    pub(crate) fn throws_on_overload(&self) -> bool {
        let options = self.options.borrow();
        let mut said = options.iter();
        said.any(|(name, value)| name.eq_ignore_ascii_case("THROW_ON_OVERLOAD") && value == "1")
    }

    /// From now on it is told of these.
    pub(crate) fn register(&self, kinds: &[EventKind]) {
        for kind in kinds {
            self.registered[place(*kind)].set(true);
        }
    }

    /// Ends the connection: nothing more is read from it, and what is under way is finished.
    pub(crate) fn end(&self) {
        self.ending.set(true);
        self.end.notify_all();
        self.progress.notify_all();
    }

    /// Is the connection to end?
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    /// Awaits a future; `None` if the connection is to end first.
    pub(crate) async fn or_end<F: Future + Unpin>(&self, mut future: F) -> Option<F::Output> {
        if self.is_ending() {
            return None;
        }
        let mut end = pin!(self.end.notified());
        poll_fn(|context| {
            if let Poll::Ready(value) = Pin::new(&mut future).poll(context) {
                return Poll::Ready(Some(value));
            }
            end.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    fn send_event(&self, event: &Event) {
        if self.output.waiting() > EVENTS_LIMIT {
            return self.end();
        }
        self.output.with(|connection| {
            // Who has registered has started up.
            if let Some(version) = connection.version() {
                ResponseWriter::new(connection.output(), version, EVENT_STREAM).event(event);
            }
        });
    }

    fn info(&self) -> ClientInfo {
        let version = self.output.with(|connection| connection.version());
        ClientInfo {
            address: self.peer,
            options: self.options.borrow().clone(),
            keyspace: self.keyspace.borrow().as_deref().map(str::to_owned),
            protocol_version: version.map_or(0, wire::Version::number),
            requests: self.requests.get(),
            username: "anonymous".to_owned(),
            ready: version.is_some(),
        }
    }
}

/// All clients of a shard.
#[derive(Default)]
pub(crate) struct Clients {
    clients: RefCell<BTreeMap<u64, Rc<Client>>>,
    next: Cell<u64>,
    /// Are those that come sent away?
    refused: Cell<bool>,
    /// A client has left.
    pub(crate) left: Notify,
}

impl Clients {
    /// A client has come. It is there until the guard is dropped.
    pub(crate) fn enter(&self, peer: SocketAddr) -> (u64, Rc<Client>) {
        let client = Rc::new(Client {
            peer,
            output: Output::new(),
            keyspace: RefCell::default(),
            options: RefCell::default(),
            registered: Default::default(),
            requests: Cell::new(0),
            window: Window::default(),
            reads_elsewhere: Backoff::default(),
            writes_elsewhere: Backoff::default(),
            progress: Notify::new(),
            ending: Cell::new(false),
            end: Notify::new(),
        });
        let number = self.next.get();
        self.next.set(number + 1);
        self.clients.borrow_mut().insert(number, client.clone());
        if self.refused.get() {
            client.end();
        }
        (number, client)
    }

    /// The client of this number has left.
    pub(crate) fn leave(&self, number: u64) {
        let client = self.clients.borrow_mut().remove(&number);
        drop(client);
        self.left.notify_all();
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.clients.borrow().len()
    }

    fn all(&self) -> Vec<Rc<Client>> {
        self.clients.borrow().values().cloned().collect()
    }

    /// Tells those who registered for it of an event.
    pub(crate) fn announce(&self, event: &Event) {
        for client in self.all() {
            if client.registered[place(event.kind())].get() {
                client.send_event(event);
            }
        }
    }

    /// Ends all connections, once what is under way is finished.
    pub(crate) fn end_all(&self) {
        for client in self.all() {
            client.end();
        }
    }

    /// Ends all connections, and those that are on their way from the ports.
    pub(crate) fn refuse(&self) {
        self.refused.set(true);
        self.end_all();
    }

    /// Those that come from now on are served.
    pub(crate) fn admit(&self) {
        self.refused.set(false);
    }

    /// What is known of each.
    pub(crate) fn infos(&self) -> Vec<ClientInfo> {
        self.all().iter().map(|client| client.info()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_more_rarely_until_it_helps() {
        let backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.push((0..).take_while(|_| !backoff.tries()).count());
            backoff.tried(false);
        }
        assert_eq!(waits, [0, 1, 3, 7, 15, 31, 63, 63]);
        while !backoff.tries() {}
        backoff.tried(true);
        assert!(backoff.tries() && backoff.tries());
    }
}
