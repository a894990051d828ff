//! Secondary indexes: hidden tables whose entries name the rows, or partitions, that have a value.
//!
//! An entry is a row without cells. Its clustering is the indexed value, the token and the key of the
//! partition, the clustering of the row, and for collections the path of the cell: so all entries of a
//! value lie in the order of the ring, and a range of the ring is one slice of them. It has the
//! timestamp and the TTL of the cell that it stands for; one of a key column has no TTL, as a row lives
//! by whichever of its cells lives longest.
//!
//! Entries say where to look, not what is true: who finds a row by one looks whether it still has the
//! value.

mod derive;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Analyzer, Bound, BoundKind, Clustering, Column, ColumnId, ColumnKind, CqlType, DecoratedKey,
    FilterOperator, Index, Order, PartitionBound, RowFilter, Slice, Table, TableOptions, Token,
    murmur3_x64_128,
};
use smallvec::SmallVec;

/// The longest value of which there is an entry (`SecondaryIndexManager` refuses longer ones, too).
const LONGEST_VALUE: usize = u16::MAX as usize;

/// The key of the only partition of a hidden table.
const PARTITION: &[u8] = &[0];

/// An index of a table, and the table of its entries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexDefinition {
    /// The index.
    pub(crate) index: Index,
    /// Its column.
    pub(crate) column: Column,
    /// What it makes of texts.
    analyzer: Analyzer,
    /// The hidden table.
    pub(crate) entries: Arc<Table>,
}

/// Of which values the entries are wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lookup {
    /// Of one, in the form that entries have.
    Value(Bytes),
    /// Of those between two.
    Range(Slice),
    /// Of those texts that fulfil it, which has the form that entries have.
    Like(FilterOperator, Bytes),
}

impl Lookup {
    /// Between which values the entries lie.
    pub(crate) fn slice(&self) -> Slice {
        match self {
            Lookup::Value(value) => {
                Slice::of_prefix(Clustering(SmallVec::from_elem(value.clone(), 1)))
            }
            Lookup::Range(slice) => slice.clone(),
            Lookup::Like(FilterOperator::LikePrefix, prefix) => Slice {
                start: first(prefix.clone(), BoundKind::InclusiveStart),
                end: match successor(prefix) {
                    Some(behind) => first(behind, BoundKind::ExclusiveEnd),
                    None => Slice::ALL.end,
                },
            },
            Lookup::Like(..) => Slice::ALL,
        }
    }

    /// May an entry of this value lead to what is wanted?
    pub(crate) fn wants(&self, value: &[u8]) -> bool {
        match self {
            Lookup::Value(_) | Lookup::Range(_) => true,
            Lookup::Like(operator, wanted) => operator.is_like(value, wanted),
        }
    }
}

fn first(value: Bytes, kind: BoundKind) -> Bound {
    Bound {
        prefix: Clustering(SmallVec::from_elem(value, 1)),
        kind,
    }
}

/// What comes behind all that begins so; `None` where nothing does.
fn successor(prefix: &Bytes) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind.into())
}

/// What an entry leads to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// The partition.
    pub(crate) key: DecoratedKey,
    /// The row; `None`: all that the partition has.
    pub(crate) row: Option<Clustering>,
}

/// An entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Where it lies in its partition.
    pub(crate) clustering: Clustering,
    /// When it was written, in microseconds since 1970: the timestamp of what it stands for.
    pub(crate) timestamp: i64,
    /// What it leads to.
    pub(crate) candidate: Candidate,
}

impl IndexDefinition {
    /// Of an index of `table`; `None` if the table lacks what it is on.
    pub(crate) fn new(table: &Table, index: &Index) -> Option<IndexDefinition> {
        let column = index.column_of(table)?.clone();
        if !index.has_entries(&column) {
            return None;
        }
        let value = index.value_type(&column)?;
        let value_is_text = matches!(value, CqlType::Text | CqlType::Ascii);
        let entries = Arc::new(entries_table(table, index, &column, value));
        Some(IndexDefinition {
            index: index.clone(),
            // Values that are no texts are no UTF-8 either, or not meant as such.
            analyzer: match value_is_text {
                true => index.analyzer(),
                false => Analyzer::NONE,
            },
            column,
            entries,
        })
    }

    /// The key of the partition that all entries are in.
    pub(crate) fn partition() -> DecoratedKey {
        DecoratedKey::new(Bytes::from_static(PARTITION))
    }

    /// Of which values the entries lead to all that fulfils the filters; `None`: the index decides none
    /// of them.
    pub(crate) fn lookup(&self, table: &Table, filters: &[RowFilter]) -> Option<Lookup> {
        let mut range = None;
        let is_key_of_addresses = self.column.ty == CqlType::Inet && self.column.kind.is_key();
        for filter in filters {
            let is_on = filter.column == self.column.id
                && self.index.supports(table, &self.column, filter.operator);
            let [value] = &filter.values[..] else {
                continue;
            };
            // Of a value that is too long there are no entries.
            if !is_on || value.len() > LONGEST_VALUE {
                continue;
            }
            let bound = |kind| first(value.clone(), kind);
            let slice: &mut Slice = match filter.operator {
                operator if operator.is_range() => range.get_or_insert(Slice::ALL),
                operator @ (FilterOperator::LikePrefix
                | FilterOperator::LikeSuffix
                | FilterOperator::LikeContains) => {
                    return Some(Lookup::Like(operator, self.term(value)));
                }
                _ => return Some(Lookup::Value(self.term(value))),
            };
            match filter.operator {
                // Ranges of addresses have another order there, and the filter decides.
                _ if is_key_of_addresses => {}
                FilterOperator::Greater => slice.start = bound(BoundKind::ExclusiveStart),
                FilterOperator::GreaterOrEqual => slice.start = bound(BoundKind::InclusiveStart),
                FilterOperator::Less => slice.end = bound(BoundKind::ExclusiveEnd),
                _ => slice.end = bound(BoundKind::InclusiveEnd),
            }
        }
        range.map(Lookup::Range)
    }

    /// The values of the entries of a value: it, or the terms of a text.
    pub(crate) fn terms(&self, value: &Bytes) -> Vec<Bytes> {
        let terms = self.analyzer.terms(value).into_iter();
        let owned = terms.map(|term| match term {
            Cow::Borrowed(term) => value.slice_ref(term),
            Cow::Owned(term) => term.into(),
        });
        owned.collect()
    }

    /// The one of which the entries lead to all that may be wanted.
    fn term(&self, wanted: &Bytes) -> Bytes {
        // Where there is none, nothing is wanted, and of what is empty there are no terms.
        self.terms(wanted).into_iter().next().unwrap_or_default()
    }

    /// The entries of a value that lead to a range of the ring, or behind a row of its first
    /// partition.
    pub(crate) fn slice(
        value: &Bytes,
        (start, end): (&PartitionBound, &PartitionBound),
        behind: Option<&Candidate>,
    ) -> Slice {
        let edge = |bound: &PartitionBound, kinds: (BoundKind, BoundKind)| {
            let mut prefix: SmallVec<[Bytes; 1]> = SmallVec::from_elem(value.clone(), 1);
            let kind = match bound {
                PartitionBound::Unbounded => kinds.0,
                PartitionBound::TokenInclusive(token) => {
                    prefix.push(token_bytes(*token));
                    kinds.0
                }
                PartitionBound::TokenExclusive(token) => {
                    prefix.push(token_bytes(*token));
                    kinds.1
                }
                PartitionBound::KeyInclusive(key) | PartitionBound::KeyExclusive(key) => {
                    prefix.push(token_bytes(key.token()));
                    prefix.push(key.key().clone());
                    match bound {
                        PartitionBound::KeyInclusive(_) => kinds.0,
                        _ => kinds.1,
                    }
                }
            };
            Bound {
                prefix: Clustering(prefix),
                kind,
            }
        };
        let start = match behind {
            None => edge(
                start,
                (BoundKind::InclusiveStart, BoundKind::ExclusiveStart),
            ),
            Some(Candidate { key, row }) => {
                let mut prefix = prefix_of(value, key);
                prefix.extend(row.iter().flat_map(|row| row.0.iter().cloned()));
                Bound {
                    prefix: Clustering(prefix),
                    kind: BoundKind::ExclusiveStart,
                }
            }
        };
        Slice {
            start,
            end: edge(end, (BoundKind::InclusiveEnd, BoundKind::ExclusiveEnd)),
        }
    }

    /// What an entry leads to; `None` if it is none.
    pub(crate) fn candidate(&self, entry: &Clustering) -> Option<Candidate> {
        let key = DecoratedKey::new(entry.0.get(2)?.clone());
        if Index::is_of_partitions(&self.column) {
            return Some(Candidate { key, row: None });
        }
        let row = entry.0.get(3..entry.0.len().checked_sub(1)?)?;
        Some(Candidate {
            key,
            row: Some(Clustering(row.iter().cloned().collect())),
        })
    }
}

/// The beginning of all entries of a value that lead to a partition.
fn prefix_of(value: &Bytes, key: &DecoratedKey) -> SmallVec<[Bytes; 1]> {
    let parts = [value.clone(), token_bytes(key.token()), key.key().clone()];
    parts.into_iter().collect()
}

fn token_bytes(token: Token) -> Bytes {
    Bytes::copy_from_slice(&token.0.to_be_bytes())
}

/// The table of an index's entries. Its name is as Cassandra's is for its own; its id depends on
/// nothing but what the index is.
fn entries_table(table: &Table, index: &Index, column: &Column, value: CqlType) -> Table {
    let mut columns: Vec<Column> = Vec::new();
    let mut add = |name: String, ty: CqlType, kind, position, order| {
        columns.push(Column {
            id: ColumnId(columns.len() as u32),
            name: Arc::from(name),
            ty,
            kind,
            position,
            order,
        });
    };
    let (up, clustering) = (Order::Ascending, ColumnKind::Clustering);
    add(
        "all".to_owned(),
        CqlType::Blob,
        ColumnKind::PartitionKey,
        0,
        up,
    );
    add("value".to_owned(), value.freeze(), clustering, 0, up);
    add("token".to_owned(), CqlType::Bigint, clustering, 1, up);
    add("key".to_owned(), CqlType::Blob, clustering, 2, up);
    let mut position = 3;
    if !Index::is_of_partitions(column) {
        for of_row in table.clustering_key() {
            let name = format!("c{}", of_row.position);
            add(name, of_row.ty.clone(), clustering, position, of_row.order);
            position += 1;
        }
    }
    add("path".to_owned(), CqlType::Blob, clustering, position, up);
    let options = TableOptions {
        // What is deleted of it comes back at most as something stale.
        gc_grace_seconds: 0,
        incremental_backups: false,
        ..TableOptions::default()
    };
    let name = format!("{}.{}", table.name, index.name);
    let identity = format!("{} {} {:?}", table.id, index.name, index.options);
    let [high, low] = murmur3_x64_128(identity.as_bytes());
    let id = (u128::from(high.cast_unsigned()) << 64) | u128::from(low.cast_unsigned());
    let id = uuid::Builder::from_md5_bytes(id.to_be_bytes()).into_uuid();
    Table::new(id, table.keyspace.clone(), name, columns, options)
}
