//! What members of the group ask each other, as bytes.
//!
//! ```text
//! call     = kind u8, JSON                                     append, vote, pre-vote, transfer
//!          | kind u8, length of the JSON u32, JSON, snapshot   snapshot
//! answer   = JSON
//! ```
//!
//! Openraft trusts what it is given: it asserts what a member of its own version would never send
//! otherwise. What came over the network is checked here first.

use openraft::entry::RaftEntry;
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};
use openraft::storage::RaftStateMachine;
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf, VoteOf};
use openraft::vote::{RaftLeaderId, RaftVote};
use openraft::{Raft, RaftTypeConfig};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const APPEND: u8 = 0;
const VOTE: u8 = 1;
const PRE_VOTE: u8 = 2;
const TRANSFER: u8 = 3;
const SNAPSHOT: u8 = 4;

/// A question of one member to another.
pub enum Call<C: RaftTypeConfig> {
    /// Append entries, or know that the leader is there.
    Append(AppendEntriesRequest<C>),
    /// Vote.
    Vote(VoteRequest<C>),
    /// Would you vote?
    PreVote(VoteRequest<C>),
    /// Lead.
    Transfer(TransferLeaderRequest<C>),
    /// Take a snapshot, as the entries before it are gone.
    Snapshot(VoteOf<C>, SnapshotOf<C, Vec<u8>>),
}

/// What is said of a snapshot.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct SnapshotHead<C: RaftTypeConfig> {
    vote: VoteOf<C>,
    meta: SnapshotMetaOf<C>,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It cannot be read.
    #[error("a message of the metadata group that cannot be read: {0}")]
    Unreadable(String),
    /// No member would say that.
    #[error("a message of the metadata group that no member sends: {0}")]
    Unsound(&'static str),
    /// This member cannot answer.
    #[error("this member of the metadata group does not answer: {0}")]
    Stopped(String),
}

impl From<serde_json::Error> for CallError {
    fn from(error: serde_json::Error) -> CallError {
        CallError::Unreadable(error.to_string())
    }
}

impl<C: RaftTypeConfig> Call<C> {
    /// As it is sent.
    ///
    /// # Errors
    /// It has no form in JSON.
    pub fn encode(&self) -> Result<Vec<u8>, CallError> {
        let mut out = Vec::new();
        match self {
            Call::Append(request) => put(&mut out, APPEND, request)?,
            Call::Vote(request) => put(&mut out, VOTE, request)?,
            Call::PreVote(request) => put(&mut out, PRE_VOTE, request)?,
            Call::Transfer(request) => put(&mut out, TRANSFER, request)?,
            Call::Snapshot(vote, snapshot) => {
                let head = SnapshotHead::<C> {
                    vote: vote.clone(),
                    meta: snapshot.meta.clone(),
                };
                let head = serde_json::to_vec(&head)?;
                out.push(SNAPSHOT);
                out.extend_from_slice(&(head.len() as u32).to_be_bytes());
                out.extend_from_slice(&head);
                out.extend_from_slice(&snapshot.snapshot);
            }
        }
        Ok(out)
    }

    /// What was sent, if a member may say that.
    ///
    /// # Errors
    /// It cannot be read, or no member would say it.
    pub fn decode(bytes: &[u8]) -> Result<Call<C>, CallError> {
        let (kind, rest) = bytes.split_first().ok_or(CallError::Unsound("nothing"))?;
        let call = match *kind {
            APPEND => Call::Append(serde_json::from_slice(rest)?),
            VOTE => Call::Vote(serde_json::from_slice(rest)?),
            PRE_VOTE => Call::PreVote(serde_json::from_slice(rest)?),
            TRANSFER => Call::Transfer(serde_json::from_slice(rest)?),
            SNAPSHOT => {
                let short = CallError::Unsound("a snapshot that ends too early");
                let Some((length, rest)) = rest.split_first_chunk::<4>() else {
                    return Err(short);
                };
                let length = u32::from_be_bytes(*length) as usize;
                let (head, data) = rest.split_at_checked(length).ok_or(short)?;
                let head: SnapshotHead<C> = serde_json::from_slice(head)?;
                let snapshot = SnapshotOf::<C, Vec<u8>> {
                    meta: head.meta,
                    snapshot: data.to_vec(),
                };
                Call::Snapshot(head.vote, snapshot)
            }
            _ => return Err(CallError::Unsound("one of an unknown kind")),
        };
        call.check()?;
        Ok(call)
    }

    /// What openraft asserts.
    fn check(&self) -> Result<(), CallError> {
        match self {
            Call::Append(request) => check_append(request),
            Call::Snapshot(vote, snapshot) => check_snapshot::<C>(vote, &snapshot.meta),
            Call::Vote(_) | Call::PreVote(_) | Call::Transfer(_) => Ok(()),
        }
    }

    /// Has this member answer.
    ///
    /// # Errors
    /// It has stopped.
    pub async fn answer<S>(self, raft: &Raft<C, S>) -> Result<Vec<u8>, CallError>
    where
        S: RaftStateMachine<C, SnapshotData = Vec<u8>>,
    {
        match self {
            Call::Append(request) => reply(raft.append_entries(request).await),
            Call::Vote(request) => reply(raft.vote(request).await),
            Call::PreVote(request) => reply(raft.pre_vote(request).await),
            Call::Transfer(request) => reply(raft.handle_transfer_leader(request).await),
            Call::Snapshot(vote, snapshot) => {
                reply(raft.install_full_snapshot(vote, snapshot).await)
            }
        }
    }
}

fn put(out: &mut Vec<u8>, kind: u8, request: &impl Serialize) -> Result<(), CallError> {
    out.push(kind);
    Ok(serde_json::to_writer(out, request)?)
}

fn reply<R: Serialize, E: ToString>(answer: Result<R, E>) -> Result<Vec<u8>, CallError> {
    let answer = answer.map_err(|error| CallError::Stopped(error.to_string()))?;
    Ok(serde_json::to_vec(&answer)?)
}

/// What came back.
///
/// # Errors
/// It cannot be read.
pub fn decode_answer<R: DeserializeOwned>(bytes: &[u8]) -> Result<R, CallError> {
    Ok(serde_json::from_slice(bytes)?)
}

/// The entries follow each other and what they are to follow.
fn check_append<C: RaftTypeConfig>(request: &AppendEntriesRequest<C>) -> Result<(), CallError> {
    let mut previous = request.prev_log_id.clone();
    for entry in &request.entries {
        let id = entry.log_id();
        let next = previous.as_ref().map_or(0, |previous| previous.index() + 1);
        if id.index() != next {
            return Err(CallError::Unsound("entries that do not follow each other"));
        }
        if previous.is_some_and(|previous| previous > id) {
            return Err(CallError::Unsound("entries of terms that fall"));
        }
        previous = Some(id);
    }
    Ok(())
}

/// A snapshot is of something, and of nothing that its leader cannot know.
fn check_snapshot<C: RaftTypeConfig>(
    vote: &VoteOf<C>,
    meta: &SnapshotMetaOf<C>,
) -> Result<(), CallError> {
    let Some(last) = &meta.last_log_id else {
        return Err(CallError::Unsound("a snapshot of nothing"));
    };
    let leader = vote.leader_id().to_committed();
    if *last.committed_leader_id() > leader {
        return Err(CallError::Unsound(
            "a snapshot of a later term than its leader's",
        ));
    }
    match meta.last_membership.log_id() {
        Some(membership) if membership > last => {
            Err(CallError::Unsound("a snapshot of before its members"))
        }
        _ => Ok(()),
    }
}
