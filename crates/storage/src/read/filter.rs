//! What rows must fulfil besides their place: ALLOW FILTERING.

use std::borrow::Cow;
use std::cmp::Ordering;

use model::{
    Analyzer, Column, ColumnId, ColumnKind, CqlType, DecoratedKey, FilterOperator, Index, Order,
    PartitionSelection, ReadCommand, Row, RowFilter, Table, collection, counter, decode_key,
};

/// The filters of a command, sorted by what they are about.
#[derive(Default)]
pub(crate) struct Filters<'c> {
    /// On key columns and static ones: they hold for a partition or not.
    partition: Vec<Check<'c>>,
    /// On clustering and regular columns.
    row: Vec<Check<'c>>,
    /// On a column that the table does not have: nothing fulfils it.
    impossible: bool,
}

impl<'c> Filters<'c> {
    /// Filters of a command on `table`.
    pub(crate) fn new(
        filters: &'c [RowFilter],
        command: &ReadCommand,
        table: &'c Table,
    ) -> Filters<'c> {
        let deciding = Deciding::of(command, table);
        Filters::sorted(filters, table, |column, filter| {
            Check::new(&deciding, column, filter, command)
        })
    }

    /// The filters of a view on `table`: no index has a say.
    pub(crate) fn of_view(filters: &'c [RowFilter], table: &'c Table) -> Filters<'c> {
        Filters::sorted(filters, table, Check::without_index)
    }

    fn sorted(
        filters: &'c [RowFilter],
        table: &'c Table,
        check: impl Fn(&'c Column, &'c RowFilter) -> Check<'c>,
    ) -> Filters<'c> {
        let mut sorted = Filters::default();
        for filter in filters {
            match table.column(filter.column) {
                None => sorted.impossible = true,
                Some(column) => {
                    let check = check(column, filter);
                    match column.kind {
                        ColumnKind::PartitionKey | ColumnKind::Static => {
                            sorted.partition.push(check);
                        }
                        ColumnKind::Clustering | ColumnKind::Regular => sorted.row.push(check),
                    }
                }
            }
        }
        sorted
    }

    /// Must rows fulfil anything, so that static data alone is no answer?
    pub(crate) fn want_rows(&self) -> bool {
        !self.row.is_empty()
    }

    /// May the partition of this key and this (live) static row hold what is asked for?
    pub(crate) fn partition_passes(
        &self,
        key: &DecoratedKey,
        static_row: Option<&Row>,
        table: &Table,
    ) -> bool {
        if self.impossible {
            return false;
        }
        self.partition.iter().all(|check| {
            let column = check.column;
            if column.kind == ColumnKind::Static {
                return static_row.is_some_and(|row| cells_pass(row, check));
            }
            let components = decode_key(key.key(), table.partition_key().len());
            components.is_ok_and(|components| {
                components
                    .get(column.position)
                    .is_some_and(|value| value_passes(value, &column.ty, check))
            })
        })
    }

    /// Does a (live) row fulfil all?
    pub(crate) fn row_passes(&self, row: &Row) -> bool {
        self.row.iter().all(|check| match check.column.kind {
            ColumnKind::Clustering => row
                .clustering
                .0
                .get(check.column.position)
                .is_some_and(|value| value_passes(value, &check.column.ty, check)),
            _ => cells_pass(row, check),
        })
    }

    /// The regular and static columns whose values the filters need.
    pub(crate) fn columns(&self) -> impl Iterator<Item = ColumnId> {
        let all = self.partition.iter().chain(&self.row);
        all.map(|check| check.column)
            .filter(|column| !column.kind.is_key())
            .map(|column| column.id)
    }
}

/// In which orders ranges of addresses are compared.
///
/// To a storage-attached index all addresses are of IPv6 (`IndexTermType.encodeInetAddress`), and where one
/// decides anything of a read, that order holds for all of it. What a range of the ring gives is filtered in
/// the order of the type once more (`DataResolver.resolve`), unless only keys are filtered
/// (`StorageAttachedIndexQueryPlan.supportsReplicaFilteringProtection`).
#[derive(Clone, Copy)]
struct Addresses {
    mapped: bool,
    plain: bool,
}

impl Addresses {
    fn of(command: &ReadCommand, deciding: &Deciding<'_>) -> Addresses {
        let columns = || filtered(command, deciding.table);
        let mapped = columns().any(|(column, filter)| {
            let mut indexes = deciding.indexes(column, filter);
            indexes.any(Index::is_storage_attached)
        });
        let is_range = matches!(command.partitions, PartitionSelection::Range { .. });
        let twice = is_range && columns().any(|(column, _)| !column.kind.is_key());
        Addresses {
            mapped,
            plain: !mapped || twice,
        }
    }
}

/// Is a filter about a range of addresses? What it finds is known only beside all other filters.
pub(crate) fn is_range_of_addresses(column: &Column, filter: &RowFilter) -> bool {
    filter.operator.is_range() && column.ty == CqlType::Inet
}

/// The filters of a command, with their columns.
fn filtered<'t>(
    command: &'t ReadCommand,
    table: &'t Table,
) -> impl Iterator<Item = (&'t Column, &'t RowFilter)> {
    let filters = command.filters.iter();
    filters.filter_map(|filter| Some((table.column(filter.column)?, filter)))
}

/// The indexes of a table that may decide filters of a command.
struct Deciding<'t> {
    table: &'t Table,
    /// Storage-attached ones have no say where another can be asked for any of the filters, as in Cassandra
    /// (`StorageAttachedIndexQueryPlan.getEstimatedResultRows`).
    attached: bool,
}

impl<'t> Deciding<'t> {
    fn of(command: &ReadCommand, table: &'t Table) -> Deciding<'t> {
        let all = Deciding {
            table,
            attached: true,
        };
        let is_other = |index: &Index| !index.is_storage_attached();
        let mut filters = filtered(command, table);
        let attached = !filters.any(|(column, filter)| all.indexes(column, filter).any(is_other));
        Deciding { table, attached }
    }

    /// Those that may decide a filter.
    fn indexes<'i>(
        &self,
        column: &'i Column,
        filter: &'i RowFilter,
    ) -> impl Iterator<Item = &'i Index> + use<'i, 't>
    where
        't: 'i,
    {
        let Deciding { table, attached } = *self;
        let indexes = table.indexes.iter();
        // None decides IN.
        indexes.filter(move |index| {
            let has_say = attached || !index.is_storage_attached();
            has_say && filter.values.len() == 1 && index.supports(table, column, filter.operator)
        })
    }
}

/// A filter, and how it looks at its column.
struct Check<'c> {
    column: &'c Column,
    filter: &'c RowFilter,
    /// What an index that the filter may be decided by makes of texts.
    analyzer: Analyzer,
    /// How it compares a range of addresses; `None`: it is about none.
    addresses: Option<Addresses>,
    /// Is it decided by an index that knows no value without bytes (`IndexTermType.skipsEmptyValue`)?
    skips_empty: bool,
}

impl<'c> Check<'c> {
    fn new(
        deciding: &Deciding<'_>,
        column: &'c Column,
        filter: &'c RowFilter,
        command: &ReadCommand,
    ) -> Check<'c> {
        let indexes = || deciding.indexes(column, filter);
        let mut analyzers = indexes().map(Index::analyzer);
        let is_attached = indexes().any(Index::is_storage_attached);
        let is_sasi = indexes().any(Index::is_sasi);
        Check {
            analyzer: analyzers
                .find(|a| *a != Analyzer::NONE)
                .unwrap_or(Analyzer::NONE),
            addresses: is_range_of_addresses(column, filter)
                .then(|| Addresses::of(command, deciding)),
            // Downwards no value is kept empty, not even a text (`ReversedType.allowsEmpty`); a SASI finds
            // nothing that is empty.
            skips_empty: is_sasi
                || is_attached
                    && (column.ty.is_empty_meaningless() || column.order == Order::Descending),
            ..Check::without_index(column, filter)
        }
    }

    fn without_index(column: &'c Column, filter: &'c RowFilter) -> Check<'c> {
        Check {
            column,
            filter,
            analyzer: Analyzer::NONE,
            addresses: None,
            skips_empty: false,
        }
    }

    fn is_like(&self, value: &[u8], wanted: &[u8]) -> bool {
        let (terms, wanted) = (self.analyzer.terms(value), self.analyzer.terms(wanted));
        let has = |wanted: &Cow<'_, [u8]>| {
            let mut terms = terms.iter();
            terms.any(|term| self.filter.operator.is_like(term, wanted))
        };
        // Of a pattern without words nothing is.
        !wanted.is_empty() && wanted.iter().all(has)
    }

    fn equals(&self, ty: &CqlType, value: &[u8], wanted: &[u8]) -> bool {
        if self.analyzer == Analyzer::NONE {
            return ty.compare(value, wanted) == Ordering::Equal;
        }
        self.analyzer.analyze(value) == self.analyzer.analyze(wanted)
    }
}

fn cells_pass(row: &Row, check: &Check<'_>) -> bool {
    let (column, filter) = (check.column, check.filter);
    let cells = row.cells_of(column.id);
    if column.ty.is_counter() {
        // What it has counted, not what its replicas have.
        return cells.first().is_some_and(|cell| {
            let total = counter::total(&cell.value).to_be_bytes();
            value_passes(&total, &CqlType::Bigint, check)
        });
    }
    if !column.ty.is_multi_cell() {
        return cells
            .first()
            .is_some_and(|cell| value_passes(&cell.value, &column.ty, check));
    }
    let one_of = |ty: &CqlType, value: &[u8]| {
        let mut wanted = filter.values.iter();
        wanted.any(|wanted| check.equals(ty, value, wanted))
    };
    match (filter.operator, &column.ty) {
        (FilterOperator::Contains, CqlType::Set { element, .. }) => cells
            .iter()
            .any(|cell| cell.path.as_ref().is_some_and(|path| one_of(element, path))),
        (FilterOperator::Contains, CqlType::List { element: value, .. })
        | (FilterOperator::Contains, CqlType::Map { value, .. }) => {
            cells.iter().any(|cell| one_of(value, &cell.value))
        }
        (FilterOperator::ContainsKey, CqlType::Map { key, .. }) => cells
            .iter()
            .any(|cell| cell.path.as_ref().is_some_and(|path| one_of(key, path))),
        (FilterOperator::ContainsEntry, CqlType::Map { key, value, .. }) => {
            filter.values.iter().any(|wanted| {
                cells.iter().any(|cell| {
                    let path = cell.path.as_ref();
                    path.is_some_and(|path| is_entry(wanted, (key, path), (value, &cell.value)))
                })
            })
        }
        // CQL does not compare collections that are not frozen as a whole.
        _ => false,
    }
}

fn value_passes(value: &[u8], ty: &CqlType, check: &Check<'_>) -> bool {
    let filter = check.filter;
    if check.skips_empty && value.is_empty() {
        return false;
    }
    if let Some(addresses) = check.addresses {
        let mut values = filter.values.iter();
        if addresses.mapped && !values.all(|wanted| mapped_passes(value, wanted, filter)) {
            return false;
        }
        if !addresses.plain {
            return true;
        }
    }
    filter.values.iter().any(|wanted| {
        let order = || ty.compare(value, wanted);
        match filter.operator {
            FilterOperator::Equal => check.equals(ty, value, wanted),
            FilterOperator::Less => order() == Ordering::Less,
            FilterOperator::LessOrEqual => order() != Ordering::Greater,
            FilterOperator::Greater => order() == Ordering::Greater,
            FilterOperator::GreaterOrEqual => order() != Ordering::Less,
            FilterOperator::Contains => contains(value, ty, wanted),
            FilterOperator::ContainsKey => contains_key(value, ty, wanted),
            FilterOperator::ContainsEntry => contains_entry(value, ty, wanted),
            FilterOperator::LikePrefix
            | FilterOperator::LikeSuffix
            | FilterOperator::LikeContains
            | FilterOperator::LikeMatches => check.is_like(value, wanted),
        }
    })
}

/// Does an address lie in a range among those that are all of IPv6?
fn mapped_passes(value: &[u8], wanted: &[u8], filter: &RowFilter) -> bool {
    let order = mapped(value).cmp(&mapped(wanted));
    match filter.operator {
        FilterOperator::Less => order.is_lt(),
        FilterOperator::LessOrEqual => order.is_le(),
        FilterOperator::Greater => order.is_gt(),
        _ => order.is_ge(),
    }
}

fn mapped(address: &[u8]) -> Vec<u8> {
    let mut mapped = match address.len() {
        4 => [&[0; 10][..], &[0xff; 2]].concat(),
        _ => Vec::new(),
    };
    mapped.extend_from_slice(address);
    mapped
}

/// Are elements of a frozen collection the same? Cassandra asks Java's `equals` there: `1.0` is not `1.00`,
/// and what is made of several values has to have the same bytes.
fn same(ty: &CqlType, a: &[u8], b: &[u8]) -> bool {
    match ty {
        CqlType::Decimal => a.get(..4) == b.get(..4) && ty.compare(a, b).is_eq(),
        CqlType::Tuple(_) | CqlType::Udt { .. } | CqlType::Composite(_) => a == b,
        _ => ty.compare(a, b).is_eq(),
    }
}

fn contains(value: &[u8], ty: &CqlType, wanted: &[u8]) -> bool {
    let equal = |ty: &CqlType, value: &[u8]| same(ty, value, wanted);
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => collection::elements(value)
            .is_ok_and(|elements| elements.iter().any(|value| equal(element, value))),
        CqlType::Map { value: of, .. } => collection::entries(value)
            .is_ok_and(|entries| entries.iter().any(|(_, value)| equal(of, value))),
        _ => false,
    }
}

/// Is this the only entry of the map `wanted`? Types come before the key and the value.
fn is_entry(wanted: &[u8], key: (&CqlType, &[u8]), value: (&CqlType, &[u8])) -> bool {
    let same = |(ty, found): (&CqlType, &[u8]), wanted| ty.compare(found, wanted).is_eq();
    collection::entries(wanted).is_ok_and(|entries| match entries.as_slice() {
        [(k, v)] => same(key, k) && same(value, v),
        _ => false,
    })
}

fn contains_entry(map: &[u8], ty: &CqlType, wanted: &[u8]) -> bool {
    let CqlType::Map { key, value, .. } = ty else {
        return false;
    };
    collection::entries(map).is_ok_and(|entries| {
        let mut entries = entries.iter();
        entries.any(|(k, v)| is_entry(wanted, (key, k), (value, v)))
    })
}

fn contains_key(value: &[u8], ty: &CqlType, wanted: &[u8]) -> bool {
    match ty {
        CqlType::Map { key, .. } => collection::entries(value).is_ok_and(|entries| {
            let mut keys = entries.iter();
            keys.any(|(found, _)| key.compare(found, wanted) == Ordering::Equal)
        }),
        _ => false,
    }
}
