//! Asking one replica, this node or another.

use std::cell::OnceCell;
use std::rc::Rc;

use bytes::Bytes;
use cluster::{FailureReason, NodeId};
use io::Instant;
use model::record::message::{
    Numbering, ReadKind, decode_page, decode_versions, digest, digest_versions, encode_late,
    encode_mutation, encode_read,
};
use model::{
    Mutation, PartitionBound, PartitionSelection, ReadCommand, ReadPage, Scanned, Token,
    VersionPage,
};
use storage::WriteError;
use uuid::Uuid;
use wire::internode::{TracedRequest, Verb};

use super::{read_failure, write_failure};
use crate::error::RequestError;
use crate::internode::PeerError;
use crate::remote::Refusal;
use crate::replica;
use crate::shard::Shard;
use crate::trace::Traced;

/// The first version of the protocol between nodes that knows of traced requests.
const TRACED_SINCE: u16 = 3;

/// What other nodes are asked.
enum Content {
    Write(Rc<Mutation>),
    /// A write of before, at that time in microseconds since 1970.
    Late(Rc<Mutation>, i64),
    Read(ReadKind, Rc<ReadCommand>),
}

/// A request as other nodes are sent it: once made, for all of them.
struct Message {
    content: Content,
    /// The session of the trace that it is part of.
    session: Option<Uuid>,
    unnamed: OnceCell<Bytes>,
    named: OnceCell<Bytes>,
}

impl Message {
    fn new(content: Content) -> Message {
        Message {
            content,
            session: None,
            unnamed: OnceCell::new(),
            named: OnceCell::new(),
        }
    }

    /// With the names of columns, or without.
    fn bytes(&self, named: bool) -> Bytes {
        let encode = || match &self.content {
            Content::Write(mutation) => encode_mutation(mutation, named),
            Content::Late(mutation, written_at) => encode_late(mutation, *written_at, named),
            Content::Read(kind, command) => encode_read(*kind, command, named),
        };
        let cell = match named {
            true => &self.named,
            false => &self.unnamed,
        };
        cell.get_or_init(|| Bytes::from(encode())).clone()
    }

    fn verb(&self) -> Verb {
        match &self.content {
            Content::Write(_) => Verb::Mutation,
            Content::Late(..) => Verb::Hint,
            Content::Read(..) => Verb::Read,
        }
    }

    /// Asks the shard of another node that owns a token, until a deadline.
    async fn ask(
        &self,
        shard: &Shard,
        (node, token): (NodeId, Token),
        deadline: Instant,
    ) -> Result<Bytes, Refusal> {
        let session = self.session.filter(|_| knows_of_traces(shard, node));
        let bytes = |named| match session {
            None => self.bytes(named),
            Some(session) => Bytes::from(
                TracedRequest {
                    session,
                    verb: self.verb(),
                    body: self.bytes(named),
                }
                .encode(),
            ),
        };
        let verb = session.map_or(self.verb(), |_| Verb::Traced);
        ask_naming(shard, (node, token), verb, bytes, deadline).await
    }
}

fn knows_of_traces(shard: &Shard, node: NodeId) -> bool {
    let metadata = shard.metadata();
    metadata
        .node(node)
        .is_some_and(|node| node.protocol >= TRACED_SINCE)
}

/// Asks the shard of another node that owns a token, until a deadline: with the names of columns if it knows
/// others, and has not looked at what was asked without.
pub(crate) async fn ask_naming(
    shard: &Shard,
    place: (NodeId, Token),
    verb: Verb,
    bytes: impl Fn(bool) -> Bytes,
    deadline: Instant,
) -> Result<Bytes, Refusal> {
    match ask_once(shard, place, verb, bytes(false), deadline).await {
        Err(Refusal::OtherColumns) => {}
        answer => return answer,
    }
    let answer = ask_once(shard, place, verb, bytes(true), deadline).await;
    answer.map_err(|refusal| match refusal {
        Refusal::OtherColumns => Refusal::Failed(FailureReason::IncompatibleSchema),
        other => other,
    })
}

/// Asks the shard of another node that owns a token, until a deadline.
pub(super) async fn ask_once(
    shard: &Shard,
    (node, token): (NodeId, Token),
    verb: Verb,
    body: Bytes,
    deadline: Instant,
) -> Result<Bytes, Refusal> {
    let late = Refusal::Failed(FailureReason::Timeout);
    let peer = shard.peer(node, token).ok_or(late)?;
    let epoch = shard.metadata().epoch();
    let left = deadline.saturating_duration_since(shard.env.now());
    let answer = peer.ask(verb, epoch, left, body).await;
    answer.map_err(|error| match error {
        PeerError::Failed(body) => Refusal::decode(&body),
        error @ PeerError::TooLong(_) => {
            tracing::error!("asking node {node}: {error}");
            Refusal::Failed(FailureReason::Unknown)
        }
        // Nobody knows what has become of it, as where an answer is late.
        _ => late,
    })
}

/// Why a replica has not written.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// It failed.
    Refused(Refusal),
    /// It is this node, and the write is one that no node could do.
    Impossible(RequestError),
}

/// A write on its way to some replicas.
pub(super) struct Write {
    /// What is written.
    pub(super) mutation: Rc<Mutation>,
    message: Message,
}

impl Write {
    pub(super) fn new(mutation: Mutation) -> Write {
        let mutation = Rc::new(mutation);
        Write {
            message: Message::new(Content::Write(mutation.clone())),
            mutation,
        }
    }

    /// What other nodes do for it is part of a trace.
    pub(super) fn traced(mut self, trace: Traced<'_>) -> Write {
        self.message.session = trace.map(|trace| trace.id());
        self
    }

    /// Of what was written before, at that time in microseconds since 1970: replicas leave out what was
    /// truncated since.
    pub(super) fn late(mutation: Mutation, written_at: i64) -> Write {
        let mutation = Rc::new(mutation);
        Write {
            message: Message::new(Content::Late(mutation.clone(), written_at)),
            mutation,
        }
    }

    /// As other nodes are sent it first.
    pub(super) fn bytes(&self) -> Bytes {
        self.message.bytes(false)
    }

    /// Has a replica apply it.
    pub(super) async fn apply_at(
        &self,
        shard: &Rc<Shard>,
        node: NodeId,
        deadline: Instant,
    ) -> Result<(), Unwritten> {
        if node == shard.metadata().own() {
            let mutation = Mutation::clone(&self.mutation);
            let applied = match self.message.content {
                Content::Late(_, since) => replica::apply_late(shard, mutation, since).await,
                _ => replica::apply(shard, mutation).await,
            };
            return applied.map_err(unwritten);
        }
        let place = (node, self.mutation.key().token());
        let asking = self.message.ask(shard, place, deadline);
        let answer = asking.await.map_err(Unwritten::Refused);
        answer.map(drop)
    }
}

/// Why this node has not written.
pub(super) fn unwritten(error: WriteError) -> Unwritten {
    match write_failure(error) {
        Ok(reason) => Unwritten::Refused(Refusal::Failed(reason)),
        Err(RequestError::Overloaded(_)) => Unwritten::Refused(Refusal::Overloaded),
        Err(impossible) => Unwritten::Impossible(impossible),
    }
}

/// What a replica answers to a read.
#[derive(Debug)]
pub(super) enum Answer {
    /// The live rows.
    Live(ReadPage),
    /// All that it knows.
    Versions(VersionPage),
    /// The same, with its digest.
    Digested(VersionPage, [u8; 16]),
    /// The digest alone.
    Digest([u8; 16]),
}

impl Answer {
    /// What was gone through for it, if it has data of this node's.
    pub(super) fn scanned(&self) -> Option<Scanned> {
        match self {
            Answer::Live(page) => Some(page.scanned),
            Answer::Versions(page) | Answer::Digested(page, _) => Some(page.scanned),
            Answer::Digest(_) => None,
        }
    }
}

/// What a replica is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The live rows.
    Live,
    /// All that it knows.
    Versions,
    /// The same, with its digest.
    Digested,
    /// The digest alone.
    Digest,
}

impl Asked {
    fn kind(self) -> ReadKind {
        match self {
            Asked::Live => ReadKind::Live,
            Asked::Versions | Asked::Digested => ReadKind::Versions,
            Asked::Digest => ReadKind::Digest,
        }
    }

    /// Is there data in the answer?
    pub(super) fn is_data(self) -> bool {
        self != Asked::Digest
    }
}

/// A read on its way to some replicas.
pub(super) struct Read {
    /// What is read.
    pub(super) command: Rc<ReadCommand>,
    live: Message,
    versions: Message,
    digest: Message,
}

impl Read {
    pub(super) fn new(command: Rc<ReadCommand>) -> Read {
        let message = |kind| Message::new(Content::Read(kind, command.clone()));
        Read {
            live: message(ReadKind::Live),
            versions: message(ReadKind::Versions),
            digest: message(ReadKind::Digest),
            command,
        }
    }

    /// What other nodes do for it is part of a trace.
    pub(super) fn traced(mut self, trace: Traced<'_>) -> Read {
        for message in [&mut self.live, &mut self.versions, &mut self.digest] {
            message.session = trace.map(|trace| trace.id());
        }
        self
    }

    /// The token whose shard is asked: of a range, any has to ask the others.
    fn token(&self) -> Token {
        match &self.command.partitions {
            PartitionSelection::Key(key) => key.token(),
            PartitionSelection::Range { start, .. } => match start {
                PartitionBound::Unbounded => Token::MIN,
                PartitionBound::TokenInclusive(token) | PartitionBound::TokenExclusive(token) => {
                    *token
                }
                PartitionBound::KeyInclusive(key) | PartitionBound::KeyExclusive(key) => {
                    key.token()
                }
            },
        }
    }

    /// Asks a replica.
    pub(super) async fn ask(
        &self,
        shard: &Rc<Shard>,
        node: NodeId,
        asked: Asked,
        deadline: Instant,
    ) -> Result<Answer, FailureReason> {
        if node == shard.metadata().own() {
            return self.ask_here(shard, asked).await;
        }
        let message = match asked.kind() {
            ReadKind::Live => &self.live,
            ReadKind::Versions => &self.versions,
            ReadKind::Digest => &self.digest,
        };
        let place = (node, self.token());
        match message.ask(shard, place, deadline).await {
            Ok(body) => self.decode(node, asked, body),
            Err(refusal) => Err(refusal.reason()),
        }
    }

    async fn ask_here(&self, shard: &Rc<Shard>, asked: Asked) -> Result<Answer, FailureReason> {
        let command = &self.command;
        if asked == Asked::Live {
            let page = replica::read(shard, command).await;
            let page = page.map_err(|error| read_failure(command, &error))?;
            return Ok(Answer::Live(page));
        }
        let page = replica::read_versions(shard, command).await;
        let page = page.map_err(|error| read_failure(command, &error))?;
        if asked == Asked::Versions {
            return Ok(Answer::Versions(page));
        }
        let columns = Numbering::own(command.table.clone());
        let digest = digest_versions(&page, &columns);
        Ok(match asked {
            Asked::Digest => Answer::Digest(digest),
            _ => Answer::Digested(page, digest),
        })
    }

    fn decode(&self, node: NodeId, asked: Asked, body: Bytes) -> Result<Answer, FailureReason> {
        let columns = Numbering::own(self.command.table.clone());
        let reversed = self.command.clustering.reversed;
        let decoded = match asked {
            Asked::Live => decode_page(body, &columns, reversed).map(Answer::Live),
            Asked::Versions => decode_versions(body, &columns, reversed).map(Answer::Versions),
            Asked::Digested => {
                let digest = digest(&body);
                let page = decode_versions(body, &columns, reversed);
                page.map(|page| Answer::Digested(page, digest))
            }
            Asked::Digest => match body.as_array() {
                Some(digest) => Ok(Answer::Digest(*digest)),
                None => Err(model::record::RecordError::Short),
            },
        };
        decoded.map_err(|error| {
            tracing::error!("an answer of node {node} cannot be read: {error}");
            FailureReason::Unknown
        })
    }
}
