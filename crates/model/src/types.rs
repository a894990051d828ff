//! CQL types.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::UserType;

/// A CQL type. `frozen` marks values that are written whole, as one cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CqlType {
    /// `ascii`
    Ascii,
    /// `bigint`
    Bigint,
    /// `blob`
    Blob,
    /// `boolean`
    Boolean,
    /// `counter`
    Counter,
    /// `date`: days since -5877641-06-23, unsigned
    Date,
    /// `decimal`
    Decimal,
    /// `double`
    Double,
    /// `duration`
    Duration,
    /// `empty`: the value column of COMPACT STORAGE tables without one
    Empty,
    /// `float`
    Float,
    /// `inet`
    Inet,
    /// `int`
    Int,
    /// `smallint`
    Smallint,
    /// `text`, also called `varchar`
    Text,
    /// `time`: nanoseconds since midnight
    Time,
    /// `timestamp`: milliseconds since 1970
    Timestamp,
    /// `timeuuid`
    Timeuuid,
    /// `tinyint`
    Tinyint,
    /// `uuid`
    Uuid,
    /// `varint`
    Varint,
    /// `list<element>`
    List {
        /// What it holds.
        element: Box<CqlType>,
        /// Written whole?
        frozen: bool,
    },
    /// `set<element>`
    Set {
        /// What it holds.
        element: Box<CqlType>,
        /// Written whole?
        frozen: bool,
    },
    /// `map<key, value>`
    Map {
        /// Its keys.
        key: Box<CqlType>,
        /// Its values.
        value: Box<CqlType>,
        /// Written whole?
        frozen: bool,
    },
    /// `tuple<…>`: always written whole
    Tuple(Vec<CqlType>),
    /// A user-defined type.
    Udt {
        /// Its definition.
        definition: Arc<UserType>,
        /// Written whole?
        frozen: bool,
    },
    /// `vector<element, dimension>`: always written whole
    Vector {
        /// What it holds.
        element: Box<CqlType>,
        /// How many.
        dimension: u32,
    },
    /// A Java class that is none of the above; values are opaque and ordered by their bytes.
    Custom(Arc<str>),
}

impl CqlType {
    /// Is a value spread over several cells: a non-frozen collection or user type?
    pub fn is_multi_cell(&self) -> bool {
        matches!(
            self,
            CqlType::List { frozen: false, .. }
                | CqlType::Set { frozen: false, .. }
                | CqlType::Map { frozen: false, .. }
                | CqlType::Udt { frozen: false, .. }
        )
    }

    /// The order of two serialized values of this type, as Cassandra sorts them
    /// (`AbstractType.compare`). Never fails: what does not deserialize is ordered by its bytes.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}
