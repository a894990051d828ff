//! CQL types.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Composite, UserType};

/// How deep types may lie in each other, those within user types counted. Their values are walked
/// through by recursion, so that no type may exhaust the stack.
pub const MAX_NESTING: usize = 64;

/// How many brackets may be open where such a type is written, as CQL or as Java classes: each
/// type may stand in a `frozen<>` or a `FrozenType()`, and all of it in a `ReversedType()`.
pub const MAX_BRACKETS: usize = 2 * MAX_NESTING + 2;

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
    /// Values made of several, of types that are Java classes: always written whole
    Composite(Arc<Composite>),
    /// A Java class that is none of the above; values are opaque, and where they are not of one of
    /// the classes of [`CqlType::has_known_order`], Cassandra may order them otherwise.
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

    /// `list`, `set` or `map`, frozen or not.
    pub fn is_collection(&self) -> bool {
        matches!(
            self,
            CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. }
        )
    }

    /// Is it a type of which there is one of many cells, and a frozen one of one cell?
    pub fn is_freezable(&self) -> bool {
        self.is_collection() || matches!(self, CqlType::Udt { .. })
    }

    /// May it hold, or be, a `counter`? (Only a bare counter column may.)
    pub fn is_counter(&self) -> bool {
        matches!(self, CqlType::Counter)
    }

    /// Does the type, or one that it is made of, satisfy `test`?
    pub fn any(&self, test: &impl Fn(&CqlType) -> bool) -> bool {
        test(self) || self.parts().any(|part| part.any(test))
    }

    /// Is it `ty`, or made of it? What is in a composite nobody asks, as nobody does in Cassandra
    /// (`AbstractType.referencesDuration`, `isCounter`).
    pub fn has(&self, ty: &CqlType) -> bool {
        let is_composite = matches!(self, CqlType::Composite(_));
        self == ty || !is_composite && self.parts().any(|part| part.has(ty))
    }

    /// How deep types lie in each other here: 0 for a simple type, 2 for `list<set<int>>`.
    pub fn nesting(&self) -> usize {
        self.nesting_with(&mut BTreeMap::new())
    }

    /// `known` are the user types that were walked through: a few that each use the one before
    /// twice would otherwise take for ever.
    fn nesting_with(&self, known: &mut BTreeMap<*const UserType, usize>) -> usize {
        let definition = match self {
            CqlType::Udt { definition, .. } => Some(Arc::as_ptr(definition)),
            _ => None,
        };
        if let Some(nesting) = definition.and_then(|definition| known.get(&definition)) {
            return *nesting;
        }
        let deepest = self.parts().map(|part| part.nesting_with(known) + 1).max();
        let nesting = deepest.unwrap_or(0);
        if let Some(definition) = definition {
            known.insert(definition, nesting);
        }
        nesting
    }

    /// The types this one is made of: elements, key and value, fields, components.
    pub fn parts(&self) -> impl Iterator<Item = &CqlType> {
        let composite = match self {
            CqlType::Composite(composite) => Some(composite),
            _ => None,
        };
        let (first, second, many, fields): (_, _, &[CqlType], &[_]) = match self {
            CqlType::List { element, .. }
            | CqlType::Set { element, .. }
            | CqlType::Vector { element, .. } => (Some(&**element), None, &[], &[]),
            CqlType::Map { key, value, .. } => (Some(&**key), Some(&**value), &[], &[]),
            CqlType::Tuple(types) => (None, None, types, &[]),
            CqlType::Udt { definition, .. } => (None, None, &[], &definition.fields),
            _ => (None, None, &[], &[]),
        };
        first
            .into_iter()
            .chain(second)
            .chain(many)
            .chain(fields.iter().map(|(_, ty)| ty))
            .chain(
                composite
                    .into_iter()
                    .flat_map(|composite| composite.types()),
            )
    }

    /// This type written whole: itself and all that it is made of frozen
    /// (`AbstractType.freeze`).
    pub fn freeze(&self) -> CqlType {
        match self {
            CqlType::List { element, .. } => CqlType::List {
                element: Box::new(element.freeze()),
                frozen: true,
            },
            CqlType::Set { element, .. } => CqlType::Set {
                element: Box::new(element.freeze()),
                frozen: true,
            },
            CqlType::Map { key, value, .. } => CqlType::Map {
                key: Box::new(key.freeze()),
                value: Box::new(value.freeze()),
                frozen: true,
            },
            CqlType::Tuple(types) => CqlType::Tuple(types.iter().map(CqlType::freeze).collect()),
            // The fields of a definition are frozen, or may be: the definition is one for all.
            CqlType::Udt { definition, .. } => CqlType::Udt {
                definition: definition.clone(),
                frozen: true,
            },
            CqlType::Vector { element, dimension } => CqlType::Vector {
                element: Box::new(element.freeze()),
                dimension: *dimension,
            },
            // What is in a composite stays as its name says, and is written whole.
            simple => simple.clone(),
        }
    }

    /// By which type the paths of the cells of a multi-cell value are ordered; `None` for values
    /// of one cell (`ColumnMetadata.cellPathComparator`).
    pub fn path_type(&self) -> Option<&CqlType> {
        static TIMEUUID: CqlType = CqlType::Timeuuid;
        static SMALLINT: CqlType = CqlType::Smallint;
        match self {
            CqlType::List { frozen: false, .. } => Some(&TIMEUUID),
            CqlType::Set {
                element,
                frozen: false,
            } => Some(element),
            CqlType::Map {
                key, frozen: false, ..
            } => Some(key),
            CqlType::Udt { frozen: false, .. } => Some(&SMALLINT),
            _ => None,
        }
    }

    /// The type of the value of the cell at `path` of a multi-cell value; the type itself for
    /// values of one cell. `None` where a user type has no such field.
    pub fn cell_value_type(&self, path: Option<&[u8]>) -> Option<&CqlType> {
        static EMPTY: CqlType = CqlType::Empty;
        match self {
            CqlType::List {
                element,
                frozen: false,
            } => Some(element),
            CqlType::Set { frozen: false, .. } => Some(&EMPTY),
            CqlType::Map {
                value,
                frozen: false,
                ..
            } => Some(value),
            CqlType::Udt {
                definition,
                frozen: false,
            } => {
                let field = u16::from_be_bytes(path?.try_into().ok()?);
                definition.fields.get(usize::from(field)).map(|(_, ty)| ty)
            }
            _ => Some(self),
        }
    }

    /// The length that all values have which are not empty, where sstables and vectors then leave
    /// it out (`AbstractType.valueLengthIfFixed`). Note that `tinyint`, `smallint`, `date` and
    /// `time` do not count as fixed there.
    pub fn fixed_length(&self) -> Option<usize> {
        match self {
            CqlType::Empty => Some(0),
            CqlType::Boolean => Some(1),
            CqlType::Int | CqlType::Float => Some(4),
            CqlType::Bigint | CqlType::Double | CqlType::Timestamp => Some(8),
            CqlType::Uuid | CqlType::Timeuuid => Some(16),
            CqlType::Vector { element, dimension } => {
                element.fixed_length()?.checked_mul(*dimension as usize)
            }
            _ => self.modern().and_then(CqlType::fixed_length),
        }
    }

    /// Are values ordered as Cassandra does? Not those of a class that is not known.
    pub fn has_known_order(&self) -> bool {
        !matches!(self, CqlType::Custom(_)) || self.modern().is_some()
    }

    /// For two classes of Cassandra 1, which differ in how they order values, the type that has
    /// values of the same bytes and the same text.
    pub fn modern(&self) -> Option<&'static CqlType> {
        let CqlType::Custom(class) = self else {
            return None;
        };
        match class.rsplit('.').next() {
            Some("DateType") => Some(&CqlType::Timestamp),
            Some("LexicalUUIDType") => Some(&CqlType::Uuid),
            _ => None,
        }
    }
}
