//! What every floor speaks of: CQL types and values, keys and tokens, schema, cells and rows,
//! mutations and reads, and the rules by which two versions of the same thing merge.
//!
//! Nothing here touches the world or knows about time: whoever needs "now" passes it in.
//!
//! **Values are bytes.** A value travels and rests in the serialization of the native protocol,
//! which is also the one on disk; a [`CqlType`] knows how to check, compare and print such bytes.
//!
//! **Columns are numbers.** Within a process a column has a [`ColumnId`] that its table never
//! gives to another column, so that a cell of a dropped column can never be taken for one of a
//! column added later under the same name.

mod analyzer;
mod bound;
mod byte_comparable;
mod clustering;
pub mod collection;
mod column;
mod compare;
mod composite;
pub mod counter;
mod counter_mutation;
mod deletion;
pub mod duration;
mod format;
mod index;
mod inet;
mod key;
mod literal;
mod marshal;
mod mask;
mod merge;
mod mutation;
pub mod number;
mod packed;
mod purge;
mod range_tombstones;
mod rank;
mod read;
mod real;
pub mod record;
mod row;
mod row_update;
mod schema;
mod size;
pub mod temporal;
mod token;
mod type_name;
mod types;
mod user_function;
mod validate;
mod value;
mod view;
pub mod vint;
mod zone;

pub use analyzer::{Analyzer, Language, LetterCase, Tokenizer};
pub use bound::Value;
pub use clustering::{Bound, BoundKind, Clustering, ClusteringComparator, Slice};
pub use column::{Column, ColumnId, ColumnKind, DroppedColumn, Order};
pub use composite::{ComponentType, Composite};
pub use counter_mutation::CounterMutation;
pub use deletion::{DeletionTime, EXPIRED_TTL, Liveness, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL};
pub use format::{json_name, json_string};
pub use index::{Index, IndexKind, IndexPart, Indexed};
pub use key::{
    DecoratedKey, MAX_KEY_LENGTH, PartitionKey, decode_key, encode_key, key_from_text, key_to_text,
};
pub use marshal::MarshalError;
pub use mask::ColumnMask;
pub use merge::{compare_cell_refs, compare_cells, reconcile_cells};
pub use mutation::{Mutation, PartitionUpdate};
pub use packed::{PackedClustering, PackedRow, PackedValues, RowWriter, most_packed_len};
pub use purge::Purge;
pub use range_tombstones::{RangeTombstoneList, covering};
pub use read::{
    ClusteringSelection, DataLimits, FilterOperator, Page, Partition, PartitionBound,
    PartitionSelection, PartitionVersion, ReadCommand, ReadPage, Resume, RowFilter, Scanned,
    VersionPage,
};
pub use row::{Cell, CellRef, ComplexDeletion, RangeTombstone, Row};
pub use row_update::{LeastTimes, RowUpdate};
pub use schema::{
    CompactForm, Function, Keyspace, Schema, Table, TableId, TableOptions, Unserved, UnservedTable,
    UnservedType, UnservedView, UserType,
};
pub use size::{SizeError, parse_size};
pub use token::{ShardId, Sharder, Token, murmur3_x64_128};
pub use type_name::{RESERVED, TypeNameError, quote_identifier};
pub use types::{CqlType, MAX_BRACKETS, MAX_NESTING};
pub use user_function::{
    Signature, UserAggregate, UserFunction, UserFunctions, argument_list, argument_type, signature,
    told_argument_type,
};
pub use value::ValueError;
pub use view::{View, ViewRows};
