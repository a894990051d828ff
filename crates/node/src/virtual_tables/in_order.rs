//! Reading partitions in the order of their keys and not of the ring: so Cassandra keeps virtual tables
//! (`LocalPartitioner`).

use std::cmp::Ordering;

use io::Env;
use model::{
    DecoratedKey, Partition, PartitionBound, PartitionSelection, ReadCommand, ReadPage, Table,
    decode_key,
};
use storage::ReadError;

/// Answers a command from these partitions. Those of a range come in the order of their keys, and the next
/// page goes on there; which of them are meant is a matter of their tokens.
pub(super) async fn read(
    env: &Env,
    command: &ReadCommand,
    mut partitions: Vec<Partition>,
) -> Result<ReadPage, ReadError> {
    let PartitionSelection::Range { start, end } = &command.partitions else {
        return storage::read_partitions(env, command, partitions).await;
    };
    let table = &command.table;
    partitions.retain(|partition| begins(start, &partition.key) && ends(end, &partition.key));
    partitions.sort_by(|a, b| compare(table, &a.key, &b.key));
    let mut resume = command.resume.clone();
    if let Some(resume) = &resume {
        // A partition that is finished, or gone since.
        let is_done = |key: &DecoratedKey| match compare(table, key, &resume.key) {
            Ordering::Less => true,
            Ordering::Equal => resume.clustering.is_none(),
            Ordering::Greater => false,
        };
        partitions.retain(|partition| !is_done(&partition.key));
    }
    let mut page = ReadPage::default();
    let mut limits = command.limits;
    for partition in partitions {
        if limits.rows == 0 || limits.bytes == 0 {
            page.more = true;
            break;
        }
        let resume = resume.take().filter(|resume| resume.key == partition.key);
        let one = ReadCommand {
            partitions: PartitionSelection::Key(partition.key.clone()),
            limits,
            resume,
            ..command.clone()
        };
        let read = storage::read_partitions(env, &one, vec![partition]).await?;
        page.scanned += read.scanned;
        for partition in read.partitions {
            let rows = u32::try_from(partition.counted_rows()).unwrap_or(u32::MAX);
            let bytes = u32::try_from(partition.answer_bytes()).unwrap_or(u32::MAX);
            limits.rows = limits.rows.saturating_sub(rows);
            limits.bytes = limits.bytes.saturating_sub(bytes);
            page.partitions.push(partition);
        }
        if read.more {
            page.more = true;
            break;
        }
        env.maybe_yield().await;
    }
    Ok(page)
}

/// By the values of the key's columns, one after the other.
fn compare(table: &Table, a: &DecoratedKey, b: &DecoratedKey) -> Ordering {
    let columns = table.partition_key();
    let values = |key: &DecoratedKey| decode_key(key.key(), columns.len());
    let (Ok(a_values), Ok(b_values)) = (values(a), values(b)) else {
        return a.key().cmp(b.key());
    };
    let each = columns.zip(a_values.iter().zip(&b_values));
    let mut orders = each.map(|(column, (a, b))| column.ty.compare(a, b));
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn begins(start: &PartitionBound, key: &DecoratedKey) -> bool {
    match start {
        PartitionBound::Unbounded => true,
        PartitionBound::TokenInclusive(token) => key.token() >= *token,
        PartitionBound::TokenExclusive(token) => key.token() > *token,
        PartitionBound::KeyInclusive(from) => key >= from,
        PartitionBound::KeyExclusive(from) => key > from,
    }
}

fn ends(end: &PartitionBound, key: &DecoratedKey) -> bool {
    match end {
        PartitionBound::Unbounded => true,
        PartitionBound::TokenInclusive(token) => key.token() <= *token,
        PartitionBound::TokenExclusive(token) => key.token() < *token,
        PartitionBound::KeyInclusive(to) => key <= to,
        PartitionBound::KeyExclusive(to) => key < to,
    }
}
