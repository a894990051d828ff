//! What nodes say to each other: a head that is the same for all, and a body.
//!
//! ```text
//! message = body length u32, kind u8, number u64, time left u32, epoch u64, body
//! ```
//!
//! All numbers are big-endian.

use std::time::Duration;

use bytes::Bytes;

use super::MAX_BODY;

/// Bytes of a head.
pub(super) const HEAD: usize = 25;

const REPLY: u8 = 0;
const FAILURE: u8 = 1;

/// What is asked of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// Say that you are there.
    Ping = 16,
    /// News of who is up.
    Gossip = 17,
    /// What members of the metadata log's group say to each other.
    Metadata = 18,
    /// Apply a write.
    Mutation = 19,
    /// Read.
    Read = 20,
    /// What nodes ask that form a cluster or change what it agrees on.
    Membership = 21,
    /// Lead an addition to counters.
    Counter = 22,
    /// Keep a logged batch, and complete it if nobody says that it is done.
    BatchStore = 23,
    /// Forget one: it is done.
    BatchRemove = 24,
    /// Apply a write of before, but for what was truncated since: a hint, or part of a batch.
    Hint = 25,
    /// A step of Paxos.
    Paxos = 26,
    /// Apply a write, and pass it on to other replicas (since version 2).
    Relay = 40,
    /// Apply a write that another replica passes on (since version 2).
    RelayedMutation = 41,
    /// Hear what became of a write that was passed on (since version 2).
    Relayed = 42,
    /// What another verb asks, and keep what is done for it with a trace (since version 3).
    Traced = 43,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 15] = [
        Verb::Ping,
        Verb::Gossip,
        Verb::Metadata,
        Verb::Mutation,
        Verb::Read,
        Verb::Membership,
        Verb::Counter,
        Verb::BatchStore,
        Verb::BatchRemove,
        Verb::Hint,
        Verb::Paxos,
        Verb::Relay,
        Verb::RelayedMutation,
        Verb::Relayed,
        Verb::Traced,
    ];

    pub(super) fn from_byte(byte: u8) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| *verb as u8 == byte)
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// It asks for something.
    Request(Verb),
    /// It answers the request of its number.
    Reply,
    /// The request of its number failed; the body says why.
    Failure,
    /// It asks for what only newer nodes know: the answer is a failure.
    Unknown(u8),
}

impl MessageKind {
    fn byte(self) -> u8 {
        match self {
            MessageKind::Request(verb) => verb as u8,
            MessageKind::Reply => REPLY,
            MessageKind::Failure => FAILURE,
            MessageKind::Unknown(byte) => byte,
        }
    }

    fn from_byte(byte: u8) -> MessageKind {
        match byte {
            REPLY => MessageKind::Reply,
            FAILURE => MessageKind::Failure,
            _ => Verb::from_byte(byte).map_or(MessageKind::Unknown(byte), MessageKind::Request),
        }
    }
}

/// What is said of each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// What it is.
    pub kind: MessageKind,
    /// A request and its reply have the same; those of a connection differ.
    pub number: u64,
    /// How long whoever asked still waits, as of when it was sent (clocks of nodes differ): work that
    /// comes later is for nobody. `None`: as long as it takes. In whole milliseconds, 49 days at most.
    pub time_left: Option<Duration>,
    /// The epoch of the metadata that the sender knows.
    pub epoch: u64,
}

/// What is to be said does not fit into a message: a row of more than its bytes, say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {0} bytes between nodes, more than the {MAX_BODY} that one may have")]
pub struct MessageTooLong(pub usize);

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What is said of each.
    pub head: MessageHead,
    /// The rest.
    pub body: Bytes,
}

impl MessageHead {
    /// Appends a message; `body` appends the rest of it.
    ///
    /// # Errors
    /// The body is longer than [`MAX_BODY`]; nothing is appended.
    pub(super) fn encode(
        &self,
        into: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), MessageTooLong> {
        let start = into.len();
        into.extend_from_slice(&[0; 4]);
        into.push(self.kind.byte());
        into.extend_from_slice(&self.number.to_be_bytes());
        // Zero is for those who wait for ever; who has no time left at all gets a millisecond.
        let left = self.time_left.map_or(0, |left| left.as_millis().max(1));
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        into.extend_from_slice(&left.to_be_bytes());
        into.extend_from_slice(&self.epoch.to_be_bytes());
        body(into);
        let length = into.len() - start - HEAD;
        if length > MAX_BODY {
            into.truncate(start);
            return Err(MessageTooLong(length));
        }
        into[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
        Ok(())
    }

    /// The head and the length of its body.
    pub(super) fn decode(head: &[u8; HEAD]) -> (MessageHead, usize) {
        let number = |at: usize, len: usize| {
            let bytes = head[at..at + len].iter();
            bytes.fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let left = number(13, 4);
        let decoded = MessageHead {
            kind: MessageKind::from_byte(head[4]),
            number: number(5, 8),
            time_left: (left != 0).then(|| Duration::from_millis(left)),
            epoch: number(17, 8),
        };
        (decoded, number(0, 4) as usize)
    }
}
