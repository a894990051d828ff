//! `system.paxos`: what a replica has promised, accepted and committed, by partition and table
//! (`SystemKeyspace.savePaxosWritePromise` and those below it).

use std::sync::Arc;

use bytes::Bytes;
use cluster::paxos::{Ballot, Columns, Proposal, Write};
use model::{
    Clustering, ClusteringSelection, DataLimits, DecoratedKey, PartitionSelection, PartitionUpdate,
    ReadCommand, ReadPage, Row, Slice, Table, TableId,
};

use super::rows::{RowReader, RowWriter, WriteTime, int, uuid};

/// A row as it is kept: proposals are not decoded.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PaxosRow {
    pub(crate) in_progress_ballot: Option<Ballot>,
    pub(crate) in_progress_read_ballot: Option<Ballot>,
    pub(crate) proposal: Option<SavedProposal>,
    pub(crate) most_recent_commit: Option<SavedProposal>,
}

/// A proposal as it is kept.
#[derive(Debug, PartialEq)]
pub(crate) struct SavedProposal {
    pub(crate) ballot: Ballot,
    /// Of the encoding.
    pub(crate) version: i32,
    pub(crate) bytes: Bytes,
    /// When it is forgotten, in seconds since 1970; `None`: never.
    pub(crate) expires: Option<i64>,
}

/// Reads the row of a partition of another table. Of all times: what has expired is in it.
pub(crate) fn paxos_read(table: &Arc<Table>, key: &DecoratedKey, of: TableId) -> ReadCommand {
    ReadCommand {
        table: table.clone(),
        partitions: PartitionSelection::Key(key.clone()),
        clustering: ClusteringSelection {
            slices: vec![Slice::of_prefix(clustering(of))],
            reversed: false,
        },
        columns: table.regular_ids(),
        filters: Vec::new(),
        limits: DataLimits {
            rows: u32::MAX,
            rows_per_partition: u32::MAX,
            bytes: u32::MAX,
        },
        now_seconds: 0,
        resume: None,
        bypass_cache: false,
        packed: false,
    }
}

fn clustering(of: TableId) -> Clustering {
    Clustering(
        [Bytes::copy_from_slice(of.as_bytes())]
            .into_iter()
            .collect(),
    )
}

/// The row that [`paxos_read`] found.
pub(crate) fn saved_paxos(table: &Table, page: &ReadPage) -> PaxosRow {
    let row = page.partitions.first().and_then(|found| found.rows.first());
    row.map_or_else(PaxosRow::default, |row| saved(table, row))
}

fn saved(table: &Table, row: &Row) -> PaxosRow {
    let reader = RowReader::new(table, row);
    let ballot = |column: &str| reader.uuid(column).and_then(Ballot::from_uuid);
    let proposal = |at: &str, bytes: &str, version: &str| {
        Some(SavedProposal {
            ballot: ballot(at)?,
            version: reader.int(version)?,
            bytes: Bytes::copy_from_slice(reader.get(bytes)?),
            expires: reader.expires(at),
        })
    };
    PaxosRow {
        in_progress_ballot: ballot("in_progress_ballot"),
        in_progress_read_ballot: ballot("in_progress_read_ballot"),
        proposal: proposal("proposal_ballot", "proposal", "proposal_version"),
        most_recent_commit: proposal(
            "most_recent_commit_at",
            "most_recent_commit",
            "most_recent_commit_version",
        ),
    }
}

/// What a write is to the row of a partition of another table; `encode` gives the version and the bytes of
/// a proposal's update.
pub(crate) fn paxos_update(
    table: &Arc<Table>,
    (key, of): (&DecoratedKey, TableId),
    write: &Write,
    encode: impl Fn(&Proposal) -> (i32, Bytes),
) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.clone(), key.clone());
    let row = update.row_mut(&clustering(of));
    let expires = u32::try_from(write.expires).unwrap_or(u32::MAX - 1);
    let time = WriteTime {
        micros: write.timestamp,
        seconds: expires.saturating_sub(write.ttl),
    };
    let mut row = RowWriter::update(table, row, time);
    row.cells_for_seconds(write.ttl);
    let ballot = |ballot: &Ballot| uuid(ballot.to_uuid());
    match &write.columns {
        Columns::WritePromise(promised) => {
            row.set("in_progress_ballot", ballot(promised));
        }
        Columns::ReadPromise(promised) => {
            row.set("in_progress_read_ballot", ballot(promised));
        }
        Columns::Accepted(proposal) => {
            let (version, bytes) = encode(proposal);
            row.set("proposal_ballot", ballot(&proposal.ballot))
                .set("proposal", bytes)
                .set("proposal_version", int(version));
        }
        Columns::Committed(proposal) => {
            let (version, bytes) = encode(proposal);
            row.set("most_recent_commit_at", ballot(&proposal.ballot))
                .set("most_recent_commit", bytes)
                .set("most_recent_commit_version", int(version))
                .clear("proposal_ballot")
                .clear("proposal")
                .clear("proposal_version");
        }
    }
    update
}

#[cfg(test)]
mod tests {
    use cluster::paxos::{Scope, Update};
    use model::Partition;

    use super::*;
    use crate::system::system_keyspaces;

    fn ballot(micros: i64) -> Ballot {
        Ballot::at(micros, Scope::Global, 7)
    }

    fn proposal(micros: i64, bytes: &'static [u8]) -> Proposal {
        Proposal {
            ballot: ballot(micros),
            update: Some(Update {
                timestamp: micros,
                version: 12,
                bytes: Bytes::from_static(bytes),
            }),
        }
    }

    /// The row after these writes.
    fn after(writes: impl IntoIterator<Item = Columns>) -> PaxosRow {
        let schema = system_keyspaces();
        let table = schema.table("system", "paxos").expect("it is ours");
        let key = DecoratedKey::new(Bytes::from_static(b"key"));
        let mut all = PartitionUpdate::new(table.clone(), key.clone());
        for columns in writes {
            let (Columns::WritePromise(ballot) | Columns::ReadPromise(ballot)) = columns else {
                let (Columns::Accepted(of) | Columns::Committed(of)) = &columns else {
                    continue;
                };
                let ballot = of.ballot;
                all.merge(update(table, &key, ballot, columns));
                continue;
            };
            all.merge(update(table, &key, ballot, columns));
        }
        all.drop_shadowed();
        let mut partition = Partition::from(all);
        let live = |cell: &model::Cell| !cell.is_tombstone();
        partition
            .rows
            .iter_mut()
            .for_each(|row| row.cells.retain(live));
        let page = ReadPage {
            partitions: vec![partition],
            ..ReadPage::default()
        };
        saved_paxos(table, &page)
    }

    fn update(
        table: &Arc<Table>,
        key: &DecoratedKey,
        ballot: Ballot,
        columns: Columns,
    ) -> PartitionUpdate {
        let write = Write {
            timestamp: ballot.micros(),
            ttl: 100,
            expires: ballot.seconds() + 100,
            columns,
        };
        paxos_update(table, (key, TableId::from_u128(1)), &write, |proposal| {
            let update = proposal.update.as_ref().expect("there is one");
            (update.version, update.bytes.clone())
        })
    }

    fn saved(micros: i64, bytes: &'static [u8]) -> Option<SavedProposal> {
        Some(SavedProposal {
            ballot: ballot(micros),
            version: 12,
            bytes: Bytes::from_static(bytes),
            expires: Some(micros / 1_000_000 + 100),
        })
    }

    #[test]
    fn a_row_is_what_was_written_last() {
        let day = 86_400_000_000;
        let row = after([
            Columns::WritePromise(ballot(day)),
            Columns::ReadPromise(ballot(2 * day)),
            Columns::Accepted(proposal(day, b"one")),
        ]);
        let promised = PaxosRow {
            in_progress_ballot: Some(ballot(day)),
            in_progress_read_ballot: Some(ballot(2 * day)),
            proposal: saved(day, b"one"),
            most_recent_commit: None,
        };
        assert_eq!(row, promised);
        // A commit takes the place of what was accepted, in whichever order they come.
        let committed = [
            Columns::Committed(proposal(day, b"one")),
            Columns::Accepted(proposal(day, b"one")),
            Columns::Accepted(proposal(day / 2, b"older")),
        ];
        let row = after(committed);
        assert_eq!(row.proposal, None);
        assert_eq!(row.most_recent_commit, saved(day, b"one"));
        let row = after([
            Columns::Accepted(proposal(2 * day, b"newer")),
            Columns::Committed(proposal(day, b"one")),
        ]);
        assert_eq!(row.proposal, saved(2 * day, b"newer"));
        assert_eq!(after([]), PaxosRow::default());
    }
}
