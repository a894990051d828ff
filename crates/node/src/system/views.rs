//! What `system` and `system_distributed` say of the building of views (`SystemKeyspace.setViewBuilt`,
//! `updateViewBuildStatus`, `SystemDistributedKeyspace.startViewBuild`).

use model::{
    Clustering, DecoratedKey, Mutation, Partition, PartitionUpdate, RangeTombstone, Row, Schema,
    Slice, Table, Token, encode_key,
};
use uuid::Uuid;

use super::rows::{RowReader, RowWriter, WriteTime, bigint, boolean, clustering, text, uuid};

/// The name of a view, and its keyspace.
pub(crate) type ViewName<'n> = (&'n str, &'n str);

/// How far the building of a view is on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BuildProgress {
    /// The last token of which all is built, if there is one.
    pub(crate) last: Option<Token>,
    /// Partitions that were built.
    pub(crate) keys: i64,
}

/// This node has one range: the whole ring, of which it builds what it has.
fn range() -> [String; 2] {
    [Token::MIN.0.to_string(), Token::MAX.0.to_string()]
}

fn update(schema: &Schema, table: &str, keyspace: &str) -> Option<PartitionUpdate> {
    let table = schema.table("system", table)?;
    let key = DecoratedKey::new(text(keyspace));
    Some(PartitionUpdate::new(table.clone(), key))
}

fn mutation(updates: impl IntoIterator<Item = PartitionUpdate>) -> Option<Mutation> {
    let updates: Vec<_> = updates.into_iter().collect();
    (!updates.is_empty()).then_some(Mutation { updates })
}

/// How far a build is, at `now` in microseconds since 1970. `None` if the schema has no such table.
pub(crate) fn progress_mutation(
    schema: &Schema,
    (keyspace, view): ViewName<'_>,
    progress: BuildProgress,
    now: i64,
) -> Option<Mutation> {
    let mut update = update(schema, "view_builds_in_progress", keyspace)?;
    let table = update.table.clone();
    let [start, end] = range();
    let row = update.row_mut(&clustering([view, &start, &end]));
    let mut row = RowWriter::insert(&table, row, WriteTime::at(now));
    row.set("keys_built", bigint(progress.keys));
    if let Some(last) = progress.last {
        row.set("last_token", text(&last.0.to_string()));
    }
    mutation([update])
}

/// A view is built: notes that, and that it is no more in progress.
pub(crate) fn built_mutation(
    schema: &Schema,
    (keyspace, view): ViewName<'_>,
    now: i64,
) -> Option<Mutation> {
    let mut built = update(schema, "built_views", keyspace)?;
    let table = built.table.clone();
    let row = built.row_mut(&clustering([view]));
    RowWriter::insert(&table, row, WriteTime::at(now)).set("status_replicated", boolean(true));
    let progress = no_progress(schema, (keyspace, view), now)?;
    mutation([built, progress])
}

fn no_progress(
    schema: &Schema,
    (keyspace, view): ViewName<'_>,
    now: i64,
) -> Option<PartitionUpdate> {
    let mut update = update(schema, "view_builds_in_progress", keyspace)?;
    update.add_range_tombstone(RangeTombstone {
        slice: Slice::of_prefix(clustering([view])),
        deletion: WriteTime::at(now).deletion(),
    });
    Some(update)
}

/// Takes back that a view is built, also in part: it is gone, or is to be built anew.
pub(crate) fn forget_view_mutation(
    schema: &Schema,
    (keyspace, view): ViewName<'_>,
    now: i64,
) -> Option<Mutation> {
    let mut built = update(schema, "built_views", keyspace)?;
    built.row_mut(&clustering([view])).deletion = WriteTime::at(now).deletion();
    let progress = no_progress(schema, (keyspace, view), now)?;
    mutation([built, progress])
}

/// What the cluster is told of the build on this node; `status` is none where the view is gone.
pub(crate) fn build_status_mutation(
    schema: &Schema,
    (keyspace, view): ViewName<'_>,
    host_id: Uuid,
    status: Option<&str>,
    now: i64,
) -> Option<Mutation> {
    let table = schema.table("system_distributed", "view_build_status")?;
    let key = encode_key(&[text(keyspace), text(view)]).ok()?;
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(key));
    match status {
        Some(status) => {
            let place = Clustering([uuid(host_id)].into_iter().collect());
            let row = update.row_mut(&place);
            RowWriter::insert(table, row, WriteTime::at(now)).set("status", text(status));
        }
        None => update.deletion = WriteTime::at(now).deletion(),
    }
    mutation([update])
}

/// The views that partitions of `system.built_views` say are built.
pub(crate) fn built_views(partitions: &[Partition]) -> Vec<(String, String)> {
    rows(partitions).map(|(names, _)| names).collect()
}

/// How far the builds are that partitions of `system.view_builds_in_progress` speak of, as far as they are
/// of this node's making.
pub(crate) fn builds_in_progress(
    table: &Table,
    partitions: &[Partition],
) -> Vec<((String, String), BuildProgress)> {
    let found = rows(partitions).filter_map(|(names, row)| {
        let [start, end] = range();
        let values: Vec<&[u8]> = row.clustering.values().collect();
        if values.get(1..) != Some(&[start.as_bytes(), end.as_bytes()]) {
            return None;
        }
        let row = RowReader::new(table, row);
        let last = row.text("last_token").and_then(|last| last.parse().ok());
        let progress = BuildProgress {
            last: last.map(Token),
            keys: row.bigint("keys_built").unwrap_or(0),
        };
        Some((names, progress))
    });
    found.collect()
}

/// All rows, each with the names of the view that it speaks of.
fn rows(partitions: &[Partition]) -> impl Iterator<Item = ((String, String), &Row)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    partitions.iter().flat_map(move |partition| {
        let keyspace = text(partition.key.key());
        let rows = partition.rows.iter();
        rows.filter_map(move |row| {
            let view = row.clustering.values().next()?;
            Some(((keyspace.clone(), text(view)), row))
        })
    })
}
