//! What clients are warned of that replicas have found while they read (`ReadCommand.withMetricsRecording`,
//! `CoordinatorWarnings`).

use model::{PartitionBound, PartitionSelection, ReadCommand, ReadPage, Scanned, Token};

use crate::shard::Shard;

/// So many characters of a statement are shown where it was behind many tombstones.
const SHOWN: usize = 512;

/// What the client is to be warned of, if a page was behind many tombstones.
pub(crate) fn of_tombstones(
    shard: &Shard,
    command: &ReadCommand,
    page: &ReadPage,
) -> Option<String> {
    let Scanned {
        live_rows,
        tombstones,
        last,
        ..
    } = page.scanned;
    if tombstones <= shard.state.config.tombstones.warn {
        return None;
    }
    let text: String = cql::read_text(command).chars().take(SHOWN).collect();
    let token = last.map_or(0, |token| token.0);
    Some(format!(
        "Read {live_rows} live rows and {tombstones} tombstone cells for query {text}; token {token} \
         (see tombstone_warn_threshold)"
    ))
}

/// What the client is to be warned of, if replicas have looked into many sstables of a storage-attached index for
/// a page (`WarningsSnapshot.tooManyIndexesReadWarnMessage`).
pub(crate) fn of_indexes(command: &ReadCommand, page: &ReadPage) -> Option<String> {
    let Scanned {
        index_sstables,
        index_nodes,
        ..
    } = page.scanned;
    if index_nodes == 0 {
        return None;
    }
    let (text, tokens) = (cql::read_text(command), tokens(command));
    Some(format!(
        "{index_nodes} nodes referenced more than allowed number of indexes without restrictions on \
         partition key, maximum on a node being {index_sstables} indexes, and issued warnings for query \
         {text} (see sai_sstable_indexes_per_query_warn_threshold) with {tokens}"
    ))
}

/// Which tokens a command reads (`ReadCommand.loggableTokens`).
fn tokens(command: &ReadCommand) -> String {
    let (start, end) = match &command.partitions {
        PartitionSelection::Key(key) => return format!("token={}", key.token().0),
        PartitionSelection::Range { start, end } => (start, end),
    };
    let (opens, from) = match &command.resume {
        Some(resume) => ('[', resume.key.token()),
        None => {
            let inclusive = matches!(start, PartitionBound::KeyInclusive(_));
            (if inclusive { '[' } else { '(' }, token_of(start))
        }
    };
    let exclusive = matches!(end, PartitionBound::KeyExclusive(_));
    let closes = if exclusive { ')' } else { ']' };
    format!(
        "token range: {opens}{}, {}{closes}",
        from.0,
        token_of(end).0
    )
}

/// The lowest token stands for both ends of the ring.
fn token_of(bound: &PartitionBound) -> Token {
    match bound {
        PartitionBound::Unbounded => Token::MIN,
        PartitionBound::TokenInclusive(token) | PartitionBound::TokenExclusive(token) => *token,
        PartitionBound::KeyInclusive(key) | PartitionBound::KeyExclusive(key) => key.token(),
    }
}
