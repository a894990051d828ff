//! What members of the group ask each other, and answer, as bytes. Numbers are little-endian; see
//! [`super::encoding`] for the parts.
//!
//! ```text
//! call    = 0, vote, prev option (log id), commit option (log id), (length u64, entry)*    append
//!         | 1, vote, option (log id), u8                                                    vote
//!         | 2, as 1                                                                         pre-vote
//!         | 3, vote, snapshot                                                               snapshot
//! appended = 0 | 1, option (log id) | 2 | 3, vote           success, some, conflict, higher vote
//! voted    = vote, u8, option (log id)
//! taken    = vote
//! ```
//!
//! Openraft trusts what it is given: it asserts what a member would never send. What came over the
//! network is checked first, here and in [`receive`].

use openraft::Raft;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};

use super::encoding::{
    EncodingError, Input, decode_entry, decode_vote, encode_entry, encode_vote, put_optional_log_id,
};
use super::machine::{Machine, Subscriber};
use super::snapshot::{self, ReceiveError, SnapshotError, receive};
use super::types::{Metadata, Snapshot, Vote};

const APPEND: u8 = 0;
const VOTE: u8 = 1;
const PRE_VOTE: u8 = 2;
const SNAPSHOT: u8 = 3;

/// Bytes of a vote.
const VOTE_BYTES: u64 = 17;

/// A question of one member to another.
pub enum Call {
    /// Append entries, or know that the leader is there.
    Append(AppendEntriesRequest<Metadata>),
    /// Vote.
    Vote(VoteRequest<Metadata>),
    /// Would you vote?
    PreVote(VoteRequest<Metadata>),
    /// Take a snapshot, as the entries before it are gone.
    Snapshot(Vote, Snapshot),
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It cannot be read.
    #[error("a message of the metadata group: {0}")]
    Encoding(#[from] EncodingError),
    /// The snapshot in it cannot be read.
    #[error("a message of the metadata group: {0}")]
    Snapshot(#[from] SnapshotError),
    /// No member would say that.
    #[error("a message of the metadata group that no member sends: {0}")]
    Unsound(&'static str),
    /// The snapshot was not taken.
    #[error(transparent)]
    Received(#[from] ReceiveError),
    /// This member does not take part any more.
    #[error("this member of the metadata group has stopped: {0}")]
    Stopped(String),
}

impl Call {
    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Call::Append(request) => {
                out.push(APPEND);
                out.extend(encode_vote(&request.vote));
                put_optional_log_id(&mut out, request.prev_log_id);
                put_optional_log_id(&mut out, request.leader_commit);
                for entry in &request.entries {
                    let entry = encode_entry(entry);
                    out.extend_from_slice(&(entry.len() as u64).to_le_bytes());
                    out.extend(entry);
                }
            }
            Call::Vote(request) => put_vote_request(&mut out, VOTE, request),
            Call::PreVote(request) => put_vote_request(&mut out, PRE_VOTE, request),
            Call::Snapshot(vote, snapshot) => {
                out.push(SNAPSHOT);
                out.extend(encode_vote(vote));
                out.extend(snapshot::encode(snapshot));
            }
        }
        out
    }

    /// What was sent, if a member may say that.
    ///
    /// # Errors
    /// It cannot be read, or no member would say it.
    pub fn decode(bytes: &[u8]) -> Result<Call, CallError> {
        let mut input = Input(bytes);
        let [kind] = input.bytes("a message")?;
        let vote = read_vote(&mut input)?;
        Ok(match kind {
            APPEND => Call::Append(read_append(vote, input)?),
            VOTE => Call::Vote(read_vote_request(vote, input)?),
            PRE_VOTE => Call::PreVote(read_vote_request(vote, input)?),
            SNAPSHOT => Call::Snapshot(vote, snapshot::decode(input.0)?),
            _ => return Err(CallError::Unsound("one of an unknown kind")),
        })
    }

    /// Has this member answer. To be called within the shard ([`super::within`]).
    ///
    /// # Errors
    /// It has stopped, or refuses.
    pub async fn answer<S: Subscriber>(
        self,
        raft: &Raft<Metadata, Machine<S>>,
    ) -> Result<Vec<u8>, CallError> {
        let stopped = |error: &dyn ToString| CallError::Stopped(error.to_string());
        let mut out = Vec::new();
        match self {
            Call::Append(request) => {
                let appended = raft.append_entries(request).await;
                appended.map_err(|error| stopped(&error))?.put(&mut out);
            }
            Call::Vote(request) => {
                let voted = raft.vote(request).await;
                voted.map_err(|error| stopped(&error))?.put(&mut out);
            }
            Call::PreVote(request) => {
                let voted = raft.pre_vote(request).await;
                voted.map_err(|error| stopped(&error))?.put(&mut out);
            }
            Call::Snapshot(vote, snapshot) => receive(raft, vote, snapshot).await?.put(&mut out),
        }
        Ok(out)
    }
}

/// What is answered to a call.
pub(super) trait Answered: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it.
    ///
    /// # Errors
    /// It is none.
    fn read(input: &mut Input<'_>) -> Result<Self, EncodingError>;

    /// Reads it of all bytes that came.
    ///
    /// # Errors
    /// They are none, or more.
    fn decode(bytes: &[u8]) -> Result<Self, EncodingError> {
        let mut input = Input(bytes);
        let answer = Self::read(&mut input)?;
        input.end()?;
        Ok(answer)
    }
}

impl Answered for AppendEntriesResponse<Metadata> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            AppendEntriesResponse::Success => out.push(0),
            AppendEntriesResponse::PartialSuccess(last) => {
                out.push(1);
                put_optional_log_id(out, *last);
            }
            AppendEntriesResponse::Conflict => out.push(2),
            AppendEntriesResponse::HigherVote(vote) => {
                out.push(3);
                out.extend(encode_vote(vote));
            }
        }
    }

    fn read(input: &mut Input<'_>) -> Result<Self, EncodingError> {
        let [kind] = input.bytes("an answer")?;
        Ok(match kind {
            0 => AppendEntriesResponse::Success,
            1 => AppendEntriesResponse::PartialSuccess(input.optional_log_id()?),
            2 => AppendEntriesResponse::Conflict,
            3 => AppendEntriesResponse::HigherVote(read_vote(input)?),
            _ => return Err(EncodingError::Unknown("an answer of an unknown kind")),
        })
    }
}

impl Answered for VoteResponse<Metadata> {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(encode_vote(&self.vote));
        out.push(u8::from(self.vote_granted));
        put_optional_log_id(out, self.last_log_id);
    }

    fn read(input: &mut Input<'_>) -> Result<Self, EncodingError> {
        let vote = read_vote(input)?;
        let vote_granted = input.flag("an answer")?;
        let last_log_id = input.optional_log_id()?;
        Ok(VoteResponse::new(vote, last_log_id, vote_granted))
    }
}

impl Answered for SnapshotResponse<Metadata> {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(encode_vote(&self.vote));
    }

    fn read(input: &mut Input<'_>) -> Result<Self, EncodingError> {
        read_vote(input).map(SnapshotResponse::new)
    }
}

fn put_vote_request(out: &mut Vec<u8>, kind: u8, request: &VoteRequest<Metadata>) {
    out.push(kind);
    out.extend(encode_vote(&request.vote));
    put_optional_log_id(out, request.last_log_id);
    out.push(u8::from(request.leadership_transfer));
}

fn read_vote(input: &mut Input<'_>) -> Result<Vote, EncodingError> {
    decode_vote(input.take(VOTE_BYTES, "a vote")?)
}

fn read_vote_request(vote: Vote, mut input: Input<'_>) -> Result<VoteRequest<Metadata>, CallError> {
    let mut request = VoteRequest::new(vote, input.optional_log_id()?);
    request.leadership_transfer = input.flag("a vote")?;
    input.end()?;
    Ok(request)
}

/// The entries follow each other and what they are to follow, as openraft asserts.
fn read_append(
    vote: Vote,
    mut input: Input<'_>,
) -> Result<AppendEntriesRequest<Metadata>, CallError> {
    let prev_log_id = input.optional_log_id()?;
    let leader_commit = input.optional_log_id()?;
    let mut entries = Vec::new();
    let mut previous = prev_log_id;
    while !input.0.is_empty() {
        let length = input.number("a length")?;
        let entry = decode_entry(input.take(length, "an entry")?)?;
        let next = previous.map_or(0, |previous| previous.index + 1);
        if entry.log_id.index != next {
            return Err(CallError::Unsound("entries that do not follow each other"));
        }
        if previous > Some(entry.log_id) {
            return Err(CallError::Unsound("entries of terms that fall"));
        }
        previous = Some(entry.log_id);
        entries.push(entry);
    }
    Ok(AppendEntriesRequest {
        vote,
        prev_log_id,
        entries,
        leader_commit,
    })
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;
    use openraft::impls::leader_id_std::LeaderId;
    use proptest::prelude::*;

    use super::super::types::{Entry, LogId, log_id};
    use super::*;

    fn vote() -> Vote {
        Vote {
            leader_id: LeaderId {
                term: 3,
                voted_for: 1,
            },
            committed: true,
        }
    }

    fn append(previous: Option<LogId>, ids: &[(u64, u64)]) -> AppendEntriesRequest<Metadata> {
        let entries = ids.iter().map(|(term, index)| Entry {
            log_id: log_id(*term, *index),
            payload: EntryPayload::Blank,
        });
        AppendEntriesRequest {
            vote: vote(),
            prev_log_id: previous,
            entries: entries.collect(),
            leader_commit: Some(log_id(1, 1)),
        }
    }

    fn sent(request: AppendEntriesRequest<Metadata>) -> Result<(), CallError> {
        let bytes = Call::Append(request).encode();
        let read = Call::decode(&bytes)?;
        assert_eq!(read.encode(), bytes);
        Ok(())
    }

    #[test]
    fn what_is_sent_is_read() {
        let heartbeat = append(None, &[]);
        assert!(sent(heartbeat).is_ok());
        assert!(sent(append(Some(log_id(2, 7)), &[(2, 8), (3, 9)])).is_ok());
        assert!(sent(append(None, &[(1, 0), (1, 1)])).is_ok());
        let request = VoteRequest::new(vote(), Some(log_id(2, 9)));
        for call in [Call::Vote(request.clone()), Call::PreVote(request)] {
            let bytes = call.encode();
            assert_eq!(Call::decode(&bytes).expect("it was sent").encode(), bytes);
        }
    }

    #[test]
    fn what_would_make_raft_panic_is_refused() {
        for (previous, ids) in [
            (None, vec![(1, 1)]),
            (Some(log_id(1, 4)), vec![(1, 6)]),
            (Some(log_id(1, 4)), vec![(1, 5), (1, 7)]),
            (Some(log_id(3, 4)), vec![(2, 5)]),
        ] {
            let sent = sent(append(previous, &ids));
            assert!(
                matches!(sent, Err(CallError::Unsound(_))),
                "{ids:?}: {sent:?}"
            );
        }
    }

    #[test]
    fn answers_are_read_as_they_were_given() {
        type Appended = AppendEntriesResponse<Metadata>;
        let appended = [
            Appended::Success,
            Appended::PartialSuccess(Some(log_id(1, 2))),
            Appended::PartialSuccess(None),
            Appended::Conflict,
            Appended::HigherVote(vote()),
        ];
        for answer in appended {
            let mut bytes = Vec::new();
            answer.put(&mut bytes);
            assert_eq!(Appended::decode(&bytes).expect("it was given"), answer);
        }
        let voted = VoteResponse::<Metadata>::new(vote(), Some(log_id(1, 2)), true);
        let mut bytes = Vec::new();
        voted.put(&mut bytes);
        let read = VoteResponse::<Metadata>::decode(&bytes).expect("it was given");
        assert_eq!((read.vote, read.vote_granted), (voted.vote, true));
        assert_eq!(read.last_log_id, voted.last_log_id);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            kind in 0u8..5,
            mut bytes in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            let _ = AppendEntriesResponse::<Metadata>::decode(&bytes);
            let _ = VoteResponse::<Metadata>::decode(&bytes);
            bytes.insert(0, kind);
            let _ = Call::decode(&bytes);
        }
    }
}
