//! Paxos between nodes.
//!
//! ```text
//! body   = table id [16], key, request, [read]
//! answer = as `cluster::paxos::Answer` is encoded, with all that was read
//! ```

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::paxos::{Answer, Request};
use cluster::{FailureReason, NodeId};
use io::Instant;
use model::record::message::{
    MessageError, Numbering, ReadKind, decode_read, decode_versions, encode_read, encode_versions,
};
use model::record::{Input, RecordError, write_bytes};
use model::{DecoratedKey, TableId, VersionPage};
use wire::internode::{MessageHead, Verb};

use super::{Ask, answer_here};
use crate::coordinator::ask_naming;
use crate::remote::Refusal;
use crate::shard::Shard;

fn encode(ask: &Ask, named: bool) -> Vec<u8> {
    let mut body = ask.table.id.as_bytes().to_vec();
    write_bytes(&mut body, ask.key.key());
    ask.request.encode(&mut body);
    if let Some(read) = &ask.read {
        body.extend(encode_read(ReadKind::Versions, read, named));
    }
    body
}

/// Asks the shard of another node that owns the partition, once, until a deadline.
pub(crate) async fn ask_other(
    shard: &Rc<Shard>,
    node: NodeId,
    ask: &Ask,
    deadline: Instant,
) -> Result<Answer<VersionPage>, Refusal> {
    let place = (node, ask.key.token());
    let bytes = |named| Bytes::from(encode(ask, named));
    let body = ask_naming(shard, place, Verb::Paxos, bytes, deadline).await?;
    decode_answer(node, ask, body)
}

fn decode_answer(node: NodeId, ask: &Ask, body: Bytes) -> Result<Answer<VersionPage>, Refusal> {
    let columns = Numbering::own(ask.table.clone());
    let reversed = ask
        .read
        .as_ref()
        .is_some_and(|read| read.clustering.reversed);
    let decoded = Answer::decode(body, |read| decode_versions(read, &columns, reversed));
    decoded.map_err(|error| {
        tracing::error!("an answer of node {node} cannot be read: {error}");
        Refusal::Failed(FailureReason::Unknown)
    })
}

/// Answers another node: the body of the answer, or of the failure.
pub(crate) async fn answer_for(
    shard: &Rc<Shard>,
    head: MessageHead,
    body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    let time = head.time_left.unwrap_or(shard.timeouts.write());
    let answering = answer_within(shard, head.epoch, time, body);
    answering.await.map_err(Refusal::encode)
}

async fn answer_within(
    shard: &Rc<Shard>,
    epoch: u64,
    time: Duration,
    body: Bytes,
) -> Result<Vec<u8>, Refusal> {
    let known = shard.env.timeout(time, shard.metadata_reached(epoch)).await;
    known.map_err(|_| Refusal::Failed(FailureReason::Timeout))?;
    let (ask, columns) = decode(shard, body)?;
    // From here on it is not given up: see the module above.
    let answer = answer_here(shard, ask).await?;
    let mut out = Vec::new();
    answer.encode(&mut out, |out, page| {
        if let Some(columns) = &columns {
            out.extend(encode_versions(page, columns));
        }
    });
    Ok(out)
}

fn decode(shard: &Shard, body: Bytes) -> Result<(Ask, Option<Numbering>), Refusal> {
    let malformed = |error: RecordError| Refusal::from(MessageError::from(error));
    let mut input = Input::new(body);
    let id = TableId::from_bytes(input.array().map_err(malformed)?);
    let key = DecoratedKey::new(input.bytes().map_err(malformed)?);
    let request = Request::decode(&mut input).map_err(malformed)?;
    let table = shard.store.table(id);
    let table = table.ok_or(Refusal::Failed(FailureReason::IncompatibleSchema))?;
    let mut ask = Ask {
        table,
        key,
        request,
        read: None,
    };
    let reads = matches!(ask.request, Request::Prepare { read: true, .. });
    let rest = input.rest();
    if !reads {
        return match rest.is_empty() {
            true => Ok((ask, None)),
            false => Err(malformed(RecordError::Unsound("more than a request"))),
        };
    }
    let (kind, command, columns) = decode_read(rest, |id| shard.store.table(id))?;
    let of_it = command.partitions == model::PartitionSelection::Key(ask.key.clone())
        && command.table.id == id;
    if kind != ReadKind::Versions || !of_it {
        return Err(malformed(RecordError::Unsound("a read of something else")));
    }
    ask.read = Some(command);
    Ok((ask, Some(columns)))
}
