//! What other nodes ask of this one as a replica, and how it refuses.
//!
//! A request comes in at the shard that owns its token. It waits until this node knows the cluster as
//! of the epoch that the other one knew, no longer than the other one waits.

use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use cluster::FailureReason;
use model::record::RecordError;
use model::record::message::{
    MessageError, ReadKind, decode_batch, decode_late, decode_mutation, decode_read,
    digest_versions, encode_page, encode_versions,
};
use storage::{ReadError, WriteError};
use uuid::Uuid;
use wire::internode::{MessageHead, TracedRequest, Verb};

use crate::batch_log;
use crate::coordinator::{read_failure, write_failure};
use crate::error::RequestError;
use crate::replica;
use crate::shard::Shard;
use crate::timeouts::TimeoutKind;
use crate::trace::{Trace, Traced};

/// How a replica refuses: the body of a failure, a code (u16, big-endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It failed. The codes are those of the native protocol.
    Failed(FailureReason),
    /// It has too much to do; nothing was done.
    Overloaded,
    /// It knows other columns: the request has to name its own.
    OtherColumns,
}

const OVERLOADED: u16 = 0x8000;
const OTHER_COLUMNS: u16 = 0x8001;

impl Refusal {
    /// The reason that a client is told.
    pub(crate) fn reason(self) -> FailureReason {
        match self {
            Refusal::Failed(reason) => reason,
            Refusal::Overloaded | Refusal::OtherColumns => FailureReason::Unknown,
        }
    }

    /// As the body of a failure.
    pub(crate) fn encode(self) -> Vec<u8> {
        let code = match self {
            Refusal::Failed(reason) => reason as u16,
            Refusal::Overloaded => OVERLOADED,
            Refusal::OtherColumns => OTHER_COLUMNS,
        };
        code.to_be_bytes().to_vec()
    }

    /// Of the body of a failure; one that is not known is a failure of unknown reason.
    pub(crate) fn decode(body: &[u8]) -> Refusal {
        let code = body.first_chunk().map(|code| u16::from_be_bytes(*code));
        match code {
            Some(OVERLOADED) => Refusal::Overloaded,
            Some(OTHER_COLUMNS) => Refusal::OtherColumns,
            Some(code) => Refusal::Failed(FailureReason::from_code(code)),
            None => Refusal::Failed(FailureReason::Unknown),
        }
    }
}

impl From<WriteError> for Refusal {
    fn from(error: WriteError) -> Refusal {
        match write_failure(error) {
            Ok(reason) => Refusal::Failed(reason),
            Err(RequestError::Overloaded(_)) => Refusal::Overloaded,
            Err(error) => {
                tracing::error!("a write of another node: {error}");
                Refusal::Failed(FailureReason::Unknown)
            }
        }
    }
}

impl From<MessageError> for Refusal {
    fn from(error: MessageError) -> Refusal {
        match error {
            MessageError::OtherColumns(_) => Refusal::OtherColumns,
            MessageError::UnknownTable(_) => Refusal::Failed(FailureReason::IncompatibleSchema),
            MessageError::Record(model::record::RecordError::UnknownColumn) => {
                Refusal::Failed(FailureReason::IncompatibleSchema)
            }
            MessageError::Record(error) => {
                tracing::error!("a request of another node cannot be read: {error}");
                Refusal::Failed(FailureReason::Unknown)
            }
        }
    }
}

/// What cannot be read is refused.
pub(crate) fn unsound() -> Vec<u8> {
    Refusal::Failed(FailureReason::Unknown).encode()
}

/// Answers a request of another node that is traced, and keeps what is done for it.
pub(crate) async fn answer_traced(
    shard: &Rc<Shard>,
    by: SocketAddr,
    head: MessageHead,
    body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    let Ok(asked) = TracedRequest::decode(body) else {
        return Err(unsound());
    };
    let (trace, body) = (Trace::of_other(shard, asked.session, by), asked.body);
    let answer = match asked.verb {
        Verb::Mutation => apply(shard, head, body, Some(&trace)).await,
        Verb::Read => read(shard, head, body, Some(&trace)).await,
        _ => return Err(unsound()),
    };
    trace.save_events();
    answer
}

/// Applies a write that another node sent: the body of the answer, or of the failure.
pub(crate) async fn apply(
    shard: &Rc<Shard>,
    head: MessageHead,
    body: Bytes,
    trace: Traced<'_>,
) -> Result<Vec<u8>, Vec<u8>> {
    let applying = async {
        shard.metadata_reached(head.epoch).await;
        let mutation = decode_mutation(body, |id| shard.store.table(id))?;
        if let Some(trace) = trace {
            trace.asked_to_write(&mutation);
        }
        replica::apply(shard, mutation).await?;
        if let Some(trace) = trace {
            trace.answering("MUTATION_RSP");
        }
        Ok(Vec::new())
    };
    in_time(shard, head, TimeoutKind::Write, applying).await
}

/// Applies a write of before that another node sent (`HintVerbHandler`).
pub(crate) async fn apply_late(
    shard: &Rc<Shard>,
    head: MessageHead,
    body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    let applying = async {
        shard.metadata_reached(head.epoch).await;
        let (mutation, written_at) = decode_late(body, |id| shard.store.table(id))?;
        replica::apply_late(shard, mutation, written_at).await?;
        Ok(Vec::new())
    };
    in_time(shard, head, TimeoutKind::Write, applying).await
}

/// Keeps a logged batch of another node (`BatchStoreVerbHandler`).
pub(crate) async fn keep_batch(
    shard: &Rc<Shard>,
    head: MessageHead,
    body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    let keeping = async {
        // Its tables are known then.
        shard.metadata_reached(head.epoch).await;
        let batch = decode_batch(body).map_err(MessageError::Record)?;
        batch_log::keep(shard, batch).await?;
        Ok(Vec::new())
    };
    in_time(shard, head, TimeoutKind::Write, keeping).await
}

/// Forgets one (`BatchRemoveVerbHandler`).
pub(crate) async fn forget_batch(
    shard: &Rc<Shard>,
    head: MessageHead,
    body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    let forgetting = async {
        let id = Uuid::from_slice(&body).map_err(|_| MessageError::Record(RecordError::Short))?;
        batch_log::forget(shard, id).await?;
        Ok(Vec::new())
    };
    in_time(shard, head, TimeoutKind::Write, forgetting).await
}

/// Answers before nobody waits any more.
async fn in_time(
    shard: &Shard,
    head: MessageHead,
    usual: TimeoutKind,
    answering: impl Future<Output = Result<Vec<u8>, Refusal>>,
) -> Result<Vec<u8>, Vec<u8>> {
    let time = head.time_left.unwrap_or_else(|| shard.timeouts.get(usual));
    let answered = shard.env.timeout(time, answering).await;
    let late = |_| Err(Refusal::Failed(FailureReason::Timeout));
    answered.unwrap_or_else(late).map_err(Refusal::encode)
}

/// Reads for another node: the body of the answer, or of the failure.
pub(crate) async fn read(
    shard: &Rc<Shard>,
    head: MessageHead,
    body: Bytes,
    trace: Traced<'_>,
) -> Result<Vec<u8>, Vec<u8>> {
    let reading = async {
        shard.metadata_reached(head.epoch).await;
        let (kind, command, columns) = decode_read(body, |id| shard.store.table(id))?;
        if let Some(trace) = trace {
            trace.asked_to_read(&command);
        }
        let have_read = |scanned| {
            if let Some(trace) = trace {
                trace.have_read_for_other(&command, scanned);
            }
        };
        let failed = |error: ReadError| Refusal::Failed(read_failure(&command, &error));
        Ok(match kind {
            ReadKind::Live => {
                let page = replica::read(shard, &command).await;
                let page = page.map_err(failed)?;
                have_read(page.scanned);
                encode_page(&page, &columns)
            }
            ReadKind::Versions | ReadKind::Digest => {
                let page = replica::read_versions(shard, &command).await;
                let page = page.map_err(failed)?;
                have_read(page.scanned);
                match kind {
                    ReadKind::Digest => digest_versions(&page, &columns).to_vec(),
                    _ => encode_versions(&page, &columns),
                }
            }
        })
    };
    in_time(shard, head, TimeoutKind::Read, reading).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_as_written() {
        let failed = (0..7).map(FailureReason::from_code).map(Refusal::Failed);
        for refusal in [Refusal::Overloaded, Refusal::OtherColumns]
            .into_iter()
            .chain(failed)
        {
            assert_eq!(Refusal::decode(&refusal.encode()), refusal);
        }
        let unknown = Refusal::Failed(FailureReason::Unknown);
        for body in [&[][..], &[1], &[0x90, 0], b"it failed"] {
            assert_eq!(Refusal::decode(body), unknown);
        }
    }
}
