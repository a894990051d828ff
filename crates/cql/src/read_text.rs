//! A read as the statement that it came from, for warnings (`ReadQuery.toCQLString`).

use model::{
    Bound, BoundKind, Column, FilterOperator, Order, PartitionBound, PartitionSelection,
    ReadCommand, RowFilter, Slice, Table, decode_key, quote_identifier,
};

/// The text of a read, about as it would have to be written to be asked again. Where several slices are read
/// that is less than what was asked for.
pub fn read_text(command: &ReadCommand) -> String {
    let table = &command.table;
    let mut demands = key_demands(command);
    if let [slice] = &command.clustering.slices[..] {
        demands.extend(slice_demands(table, slice));
    }
    let filters = command.filters.iter();
    demands.extend(filters.filter_map(|filter| filter_demand(table, filter)));
    let mut text = format!(
        "SELECT {} FROM {}.{}",
        columns_text(command),
        quote_identifier(&table.keyspace),
        quote_identifier(&table.name)
    );
    if !demands.is_empty() {
        text = text + " WHERE " + &demands.join(" AND ");
    }
    if command.clustering.reversed {
        text = text + " ORDER BY " + &reversed_order(table);
    }
    if command.limits.rows != u32::MAX {
        text += &format!(" LIMIT {}", command.limits.rows);
    }
    text + " ALLOW FILTERING"
}

fn columns_text(command: &ReadCommand) -> String {
    let table = &command.table;
    let all: Vec<&Column> = table.statics().chain(table.regulars()).collect();
    let is_asked = |column: &&&Column| command.columns.contains(&column.id);
    let asked: Vec<&&Column> = all.iter().filter(is_asked).collect();
    if asked.is_empty() || asked.len() == all.len() {
        return "*".to_owned();
    }
    let names = asked.iter().map(|column| quote_identifier(&column.name));
    names.collect::<Vec<_>>().join(", ")
}

fn demand(column: &Column, operator: &str, value: &[u8]) -> String {
    let value = column.ty.format_literal(value);
    format!("{} {operator} {value}", quote_identifier(&column.name))
}

fn key_demands(command: &ReadCommand) -> Vec<String> {
    let key = match &command.partitions {
        PartitionSelection::Key(key) => key,
        PartitionSelection::Range { start, end } => {
            return token_demands(&command.table, start, end);
        }
    };
    let columns = command.table.partition_key();
    let values = decode_key(key.key(), columns.len()).unwrap_or_default();
    let equal = |(column, value): (&Column, &bytes::Bytes)| demand(column, "=", value);
    columns.zip(&values).map(equal).collect()
}

/// A range of the ring (`DataRange.toCQLString`).
fn token_demands(table: &Table, start: &PartitionBound, end: &PartitionBound) -> Vec<String> {
    let names: Vec<String> = table
        .partition_key()
        .map(|column| quote_identifier(&column.name))
        .collect();
    let demand = |bound: &PartitionBound, [inclusive, exclusive]: [&str; 2]| {
        let (operator, token) = match bound {
            PartitionBound::TokenInclusive(token) => (inclusive, token),
            PartitionBound::TokenExclusive(token) => (exclusive, token),
            // Where a page goes on is nothing that was asked for.
            _ => return None,
        };
        Some(format!(
            "token({}) {operator} {}",
            names.join(", "),
            token.0
        ))
    };
    let bounds = [demand(start, [">=", ">"]), demand(end, ["<=", "<"])];
    bounds.into_iter().flatten().collect()
}

/// What both bounds have in common, and then each by itself.
fn slice_demands(table: &Table, slice: &Slice) -> Vec<String> {
    let (start, end) = (&slice.start, &slice.end);
    let values = start.prefix.values().zip(end.prefix.values());
    let is_inclusive = |bound: &Bound| {
        matches!(
            bound.kind,
            BoundKind::InclusiveStart | BoundKind::InclusiveEnd
        )
    };
    let both = is_inclusive(start) && is_inclusive(end);
    let longest = start.prefix.values().len().max(end.prefix.values().len());
    let mut common = values.take_while(|(start, end)| start == end).count();
    if common == longest && !both {
        common = common.saturating_sub(1);
    }
    let columns = || table.clustering_key().enumerate();
    let mut demands: Vec<String> = columns()
        .take(common)
        .zip(start.prefix.values())
        .map(|((_, column), value)| demand(column, "=", value))
        .collect();
    for bound in [start, end] {
        let rest = columns().zip(bound.prefix.values()).skip(common);
        demands.extend(
            rest.map(|((_, column), value)| {
                demand(column, operator(bound.kind, column.order), value)
            }),
        );
    }
    demands
}

/// How a bound compares, where the order of the column turns it round.
fn operator(kind: BoundKind, order: Order) -> &'static str {
    let descending = order == Order::Descending;
    match (kind, descending) {
        (BoundKind::InclusiveStart, false) | (BoundKind::InclusiveEnd, true) => ">=",
        (BoundKind::ExclusiveStart, false) | (BoundKind::ExclusiveEnd, true) => ">",
        (BoundKind::InclusiveEnd, false) | (BoundKind::InclusiveStart, true) => "<=",
        (BoundKind::ExclusiveEnd, false) | (BoundKind::ExclusiveStart, true) => "<",
    }
}

fn filter_demand(table: &Table, filter: &RowFilter) -> Option<String> {
    let column = table.column(filter.column)?;
    let operator = match filter.operator {
        FilterOperator::Equal => "=",
        FilterOperator::Less => "<",
        FilterOperator::LessOrEqual => "<=",
        FilterOperator::Greater => ">",
        FilterOperator::GreaterOrEqual => ">=",
        // What is looked for is not of the type of the column.
        FilterOperator::Contains => return Some(format!("{} CONTAINS …", column.name)),
        FilterOperator::ContainsEntry => return Some(format!("{}[…] = …", column.name)),
        FilterOperator::ContainsKey => return Some(format!("{} CONTAINS KEY …", column.name)),
        FilterOperator::LikePrefix
        | FilterOperator::LikeSuffix
        | FilterOperator::LikeContains
        | FilterOperator::LikeMatches => "LIKE",
    };
    match &filter.values[..] {
        [value] => Some(demand(column, operator, value)),
        values => {
            let values = values.iter().map(|value| column.ty.format_literal(value));
            let values: Vec<String> = values.collect();
            let name = quote_identifier(&column.name);
            Some(format!("{name} IN ({})", values.join(", ")))
        }
    }
}

/// From the last row to the first.
fn reversed_order(table: &Table) -> String {
    let columns = table.clustering_key().map(|column| {
        let direction = match column.order {
            Order::Ascending => "DESC",
            Order::Descending => "ASC",
        };
        format!("{} {direction}", quote_identifier(&column.name))
    });
    columns.collect::<Vec<_>>().join(", ")
}
