//! Requests and answers as nodes send them to each other.
//!
//! ```text
//! request   = 0 ballot flags [proposal]       prepare; 1: for a write, 2: reads, 4: a commit goes ahead
//!           | 1 ballot proposal               refresh
//!           | 2 proposal                      propose
//!           | 3 proposal                      commit
//!           | 4 proposal                      apply
//! answer    = 0 ballot                        rejected
//!           | 1 flags [ballot] [proposal] [proposal]
//!                                             permitted; 1: superseded by the ballot, 2: accepted,
//!                                             4: committed, 8: stable, 16: what was read follows
//!           | 2 maybe                         refreshed, overtaken by the ballot
//!           | 3 maybe                         voted, refused because of the ballot
//!           | 4                               committed
//! proposal  = ballot, 0 u8 | 1 u8, timestamp i64, version i32, bytes
//! maybe     = 0 u8 | 1 u8, ballot
//! ballot    = uuid [16]
//! ```
//!
//! Fixed numbers are little-endian; lengths are [`model::vint`]s. What is read, and with which command,
//! is behind the request or the answer, in the form that whoever sends it has for that.

use bytes::Bytes;
use model::record::{Input, RecordError, write_bytes};
use uuid::Uuid;

use super::{Answer, Ballot, Permitted, Proposal, Request, Update};

const PREPARE: u8 = 0;
const REFRESH: u8 = 1;
const PROPOSE: u8 = 2;
const COMMIT: u8 = 3;
const APPLY: u8 = 4;

const FOR_WRITE: u8 = 1;
const READS: u8 = 2;
const COMMITS: u8 = 4;

const REJECTED: u8 = 0;
const PERMITTED: u8 = 1;
const REFRESHED: u8 = 2;
const VOTED: u8 = 3;
const COMMITTED: u8 = 4;

const SUPERSEDED: u8 = 1;
const HAS_ACCEPTED: u8 = 2;
const HAS_COMMITTED: u8 = 4;
const STABLE: u8 = 8;
const HAS_READ: u8 = 16;

impl Request {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Request::Prepare {
                ballot,
                for_write,
                read,
                commit,
            } => {
                out.push(PREPARE);
                put_ballot(out, *ballot);
                out.push(
                    flag(*for_write, FOR_WRITE)
                        | flag(*read, READS)
                        | flag(commit.is_some(), COMMITS),
                );
                commit.iter().for_each(|commit| put_proposal(out, commit));
            }
            Request::Refresh { ballot, commit } => {
                out.push(REFRESH);
                put_ballot(out, *ballot);
                put_proposal(out, commit);
            }
            Request::Propose(proposal) => {
                out.push(PROPOSE);
                put_proposal(out, proposal);
            }
            Request::Commit(proposal) => {
                out.push(COMMIT);
                put_proposal(out, proposal);
            }
            Request::Apply(proposal) => {
                out.push(APPLY);
                put_proposal(out, proposal);
            }
        }
    }

    /// Takes one off `input`.
    ///
    /// # Errors
    /// The bytes are something else.
    pub fn decode(input: &mut Input) -> Result<Request, RecordError> {
        Ok(match input.u8()? {
            PREPARE => {
                let ballot = ballot(input)?;
                let flags = flags(input, FOR_WRITE | READS | COMMITS)?;
                Request::Prepare {
                    ballot,
                    for_write: flags & FOR_WRITE != 0,
                    read: flags & READS != 0,
                    commit: match flags & COMMITS {
                        0 => None,
                        _ => Some(proposal(input)?),
                    },
                }
            }
            REFRESH => Request::Refresh {
                ballot: ballot(input)?,
                commit: proposal(input)?,
            },
            PROPOSE => Request::Propose(proposal(input)?),
            COMMIT => Request::Commit(proposal(input)?),
            APPLY => Request::Apply(proposal(input)?),
            _ => return Err(RecordError::Unknown("request of Paxos")),
        })
    }
}

impl<R> Answer<R> {
    /// Appends it, and what was read, if anything was, as `put` writes it.
    pub fn encode(&self, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>, &R)) {
        match self {
            Answer::Rejected(by) => {
                out.push(REJECTED);
                put_ballot(out, *by);
            }
            Answer::Permitted(permitted) => {
                out.push(PERMITTED);
                out.push(
                    flag(permitted.superseded_by.is_some(), SUPERSEDED)
                        | flag(permitted.accepted.is_some(), HAS_ACCEPTED)
                        | flag(permitted.committed.is_some(), HAS_COMMITTED)
                        | flag(permitted.stable, STABLE)
                        | flag(permitted.read.is_some(), HAS_READ),
                );
                if let Some(by) = permitted.superseded_by {
                    put_ballot(out, by);
                }
                let proposals = permitted.accepted.iter().chain(&permitted.committed);
                proposals.for_each(|proposal| put_proposal(out, proposal));
                if let Some(read) = &permitted.read {
                    put(out, read);
                }
            }
            Answer::Refreshed(by) => {
                out.push(REFRESHED);
                put_maybe(out, *by);
            }
            Answer::Voted(by) => {
                out.push(VOTED);
                put_maybe(out, *by);
            }
            Answer::Committed => out.push(COMMITTED),
        }
    }

    /// Reads one; `take` reads what was read, which is all that is left.
    ///
    /// # Errors
    /// The bytes are something else.
    pub fn decode<E: From<RecordError>>(
        bytes: Bytes,
        take: impl FnOnce(Bytes) -> Result<R, E>,
    ) -> Result<Answer<R>, E> {
        let mut input = Input::new(bytes);
        let answer = match input.u8()? {
            REJECTED => Answer::Rejected(ballot(&mut input)?),
            PERMITTED => return permitted(input, take).map(Answer::Permitted),
            REFRESHED => Answer::Refreshed(maybe(&mut input)?),
            VOTED => Answer::Voted(maybe(&mut input)?),
            COMMITTED => Answer::Committed,
            _ => return Err(RecordError::Unknown("answer of Paxos").into()),
        };
        match input.is_empty() {
            true => Ok(answer),
            false => Err(RecordError::Unsound("more than an answer").into()),
        }
    }
}

fn permitted<R, E: From<RecordError>>(
    mut input: Input,
    take: impl FnOnce(Bytes) -> Result<R, E>,
) -> Result<Permitted<R>, E> {
    let all = SUPERSEDED | HAS_ACCEPTED | HAS_COMMITTED | STABLE | HAS_READ;
    let flags = flags(&mut input, all)?;
    let has = |flag| flags & flag != 0;
    let superseded_by = has(SUPERSEDED).then(|| ballot(&mut input)).transpose()?;
    let accepted = has(HAS_ACCEPTED).then(|| proposal(&mut input));
    let accepted = accepted.transpose()?;
    let committed = has(HAS_COMMITTED).then(|| proposal(&mut input));
    let committed = committed.transpose()?;
    let rest = input.rest();
    if !has(HAS_READ) && !rest.is_empty() {
        return Err(RecordError::Unsound("more than an answer").into());
    }
    Ok(Permitted {
        superseded_by,
        accepted,
        committed,
        stable: has(STABLE),
        read: has(HAS_READ).then(|| take(rest)).transpose()?,
    })
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

fn flags(input: &mut Input, known: u8) -> Result<u8, RecordError> {
    let flags = input.u8()?;
    match flags & !known {
        0 => Ok(flags),
        _ => Err(RecordError::Unknown("flag of Paxos")),
    }
}

fn put_ballot(out: &mut Vec<u8>, ballot: Ballot) {
    out.extend_from_slice(ballot.to_uuid().as_bytes());
}

fn ballot(input: &mut Input) -> Result<Ballot, RecordError> {
    let ballot = Ballot::from_uuid(Uuid::from_bytes(input.array()?));
    ballot.ok_or(RecordError::Unsound("a ballot that is no time UUID"))
}

fn put_maybe(out: &mut Vec<u8>, by: Option<Ballot>) {
    out.push(u8::from(by.is_some()));
    if let Some(by) = by {
        put_ballot(out, by);
    }
}

fn maybe(input: &mut Input) -> Result<Option<Ballot>, RecordError> {
    match flags(input, 1)? {
        0 => Ok(None),
        _ => ballot(input).map(Some),
    }
}

fn put_proposal(out: &mut Vec<u8>, proposal: &Proposal) {
    put_ballot(out, proposal.ballot);
    out.push(u8::from(proposal.update.is_some()));
    if let Some(update) = &proposal.update {
        out.extend_from_slice(&update.timestamp.to_le_bytes());
        out.extend_from_slice(&update.version.to_le_bytes());
        write_bytes(out, &update.bytes);
    }
}

fn proposal(input: &mut Input) -> Result<Proposal, RecordError> {
    let ballot = ballot(input)?;
    let update = match flags(input, 1)? {
        0 => None,
        _ => Some(Update {
            timestamp: i64::from_le_bytes(input.array()?),
            version: i32::from_le_bytes(input.array()?),
            bytes: input.bytes()?,
        }),
    };
    Ok(Proposal { ballot, update })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::paxos::Scope;

    fn a_ballot() -> impl Strategy<Value = Ballot> {
        let ballot = |(micros, unique)| Ballot::at(micros, Scope::Global, unique);
        // The variant of a UUID is part of its random half.
        (0..i64::MAX / 20, any::<u64>()).prop_map(ballot)
    }

    fn a_proposal() -> impl Strategy<Value = Proposal> {
        let update = (any::<i64>(), any::<i32>(), vec(any::<u8>(), 0..200));
        let update = update.prop_map(|(timestamp, version, bytes)| Update {
            timestamp,
            version,
            bytes: bytes.into(),
        });
        let proposal = |(ballot, update)| Proposal { ballot, update };
        (a_ballot(), option::of(update)).prop_map(proposal)
    }

    fn a_request() -> impl Strategy<Value = Request> {
        let commit = option::of(a_proposal());
        let prepare = (a_ballot(), any::<bool>(), any::<bool>(), commit);
        let prepare = prepare.prop_map(|(ballot, for_write, read, commit)| Request::Prepare {
            ballot,
            for_write,
            read,
            commit,
        });
        let refresh = (a_ballot(), a_proposal());
        prop_oneof![
            prepare,
            refresh.prop_map(|(ballot, commit)| Request::Refresh { ballot, commit }),
            a_proposal().prop_map(Request::Propose),
            a_proposal().prop_map(Request::Commit),
            a_proposal().prop_map(Request::Apply),
        ]
    }

    fn an_answer() -> impl Strategy<Value = Answer<Bytes>> {
        let permitted = (
            option::of(a_ballot()),
            option::of(a_proposal()),
            option::of(a_proposal()),
            any::<bool>(),
            option::of(vec(any::<u8>(), 0..100).prop_map(Bytes::from)),
        );
        let permitted =
            permitted.prop_map(
                |(superseded_by, accepted, committed, stable, read)| Permitted {
                    superseded_by,
                    accepted,
                    committed,
                    stable,
                    read,
                },
            );
        prop_oneof![
            a_ballot().prop_map(Answer::Rejected),
            permitted.prop_map(Answer::Permitted),
            option::of(a_ballot()).prop_map(Answer::Refreshed),
            option::of(a_ballot()).prop_map(Answer::Voted),
            Just(Answer::Committed),
        ]
    }

    fn decoded(bytes: Bytes) -> Result<Answer<Bytes>, RecordError> {
        Answer::decode(bytes, Ok::<Bytes, RecordError>)
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(request in a_request(), rest in vec(any::<u8>(), 0..9)) {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            bytes.extend_from_slice(&rest);
            let mut input = Input::new(bytes.into());
            prop_assert_eq!(Request::decode(&mut input), Ok(request));
            prop_assert_eq!(input.rest(), rest);
        }

        #[test]
        fn answers_are_read_as_written(answer in an_answer()) {
            let mut bytes = Vec::new();
            answer.encode(&mut bytes, |out, read| out.extend_from_slice(read));
            prop_assert_eq!(decoded(bytes.into()), Ok(answer));
        }

        #[test]
        fn a_part_of_one_is_none(request in a_request(), answer in an_answer(), at in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            let cut = at.index(bytes.len());
            let decoded = Request::decode(&mut Input::new(bytes[..cut].to_vec().into()));
            prop_assert!(decoded.is_err());
            bytes.clear();
            answer.encode(&mut bytes, |_, _| ());
            bytes.truncate(at.index(bytes.len()));
            prop_assert!(self::decoded(bytes.into()).is_err());
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(bytes);
            let _ = Request::decode(&mut Input::new(bytes.clone()));
            let _ = decoded(bytes);
        }
    }
}
