//! What may be a storage-attached index (`StorageAttachedIndex.validateOptions`, `IndexTermType`,
//! `NonTokenizingOptions`, `IndexWriterConfig`).

use model::{Column, ColumnKind, CqlType, Index, IndexPart};

use crate::CqlError;
use crate::error::invalid;

/// The options of its own that it has (`StorageAttachedIndex.VALID_OPTIONS`).
const OPTIONS: [&str; 10] = [
    "ascii",
    "case_sensitive",
    "class_name",
    "construction_beam_width",
    "maximum_node_connections",
    "normalize",
    "optimize_for",
    "similarity_function",
    "target",
    "index_name",
];

/// How vectors are compared.
const SIMILARITIES: [&str; 3] = ["EUCLIDEAN", "DOT_PRODUCT", "COSINE"];
/// What the graph of vectors is made for.
const PURPOSES: [&str; 2] = ["LATENCY", "RECALL"];

/// What clients are warned of who make an index of a table that has one of vectors
/// (`StorageAttachedIndex.VECTOR_USAGE_WARNING`).
pub(super) const USAGE_WARNING: &str = "SAI ANN indexes on vector columns are experimental and are not recommended for production use.\n\
     They don't yet support SELECT queries with:\n \
     * Consistency level higher than ONE/LOCAL_ONE.\n \
     * Paging.\n \
     * No LIMIT clauses.\n \
     * PER PARTITION LIMIT clauses.\n \
     * GROUP BY clauses.\n \
     * Aggregation functions.\n \
     * Filters on columns without a SAI index.";

/// Refuses what no such index is. `others` are those of the table.
pub(super) fn check(index: &Index, columns: &[&Column], others: &[Index]) -> Result<(), CqlError> {
    let mut others = others.iter().filter(|other| other.is_storage_attached());
    if let [column] = columns
        && others.any(|other| other.options.get("target") == index.options.get("target"))
    {
        return invalid!(
            "Cannot create more than one storage-attached index on the same column: {}",
            column.name
        );
    }
    let unknown: Vec<&str> = index.options.keys().map(String::as_str).collect();
    let unknown: Vec<&str> = unknown
        .into_iter()
        .filter(|name| !OPTIONS.contains(name))
        .collect();
    if !unknown.is_empty() {
        return Err(CqlError::Config(format!(
            "Properties specified [{}] are not understood by StorageAttachedIndex",
            unknown.join(", ")
        )));
    }
    let target = index.options.get("target").map_or("", String::as_str);
    let column = match columns {
        [column] => *column,
        [] => return invalid!("Failed to retrieve target column for: {target}"),
        _ => {
            return invalid!(
                "A storage-attached index cannot be created over multiple columns: {target}"
            );
        }
    };
    check_type(index, column)?;
    check_analyzer(index, column)?;
    check_vector(index, column)
}

fn check_type(index: &Index, column: &Column) -> Result<(), CqlError> {
    use CqlType::{Blob, Composite, Counter, Custom, Duration, Empty};
    if let CqlType::Vector { element, .. } = &column.ty
        && **element != CqlType::Float
    {
        return invalid!("SAI ANN indexes are only allowed on vector columns with float elements");
    }
    let types: Vec<CqlType> = match index.part() {
        IndexPart::Entries => column.ty.parts().cloned().collect(),
        _ => index.value_type(column).into_iter().collect(),
    };
    let is_unknown = |ty: &&CqlType| match ty {
        Blob | Counter | Custom(_) | Duration | Empty => true,
        // What is made of others is taken for frozen.
        Composite(_) => ty.parts().next().is_none(),
        _ => false,
    };
    match types.iter().find(is_unknown) {
        Some(ty) => invalid!("Unsupported type: {ty}"),
        None => Ok(()),
    }
}

fn check_analyzer(index: &Index, column: &Column) -> Result<(), CqlError> {
    let given = ["case_sensitive", "normalize", "ascii"].into_iter();
    let given: Vec<(&str, &String)> = given
        .filter_map(|name| Some((name, index.options.get(name)?)))
        .collect();
    if given.is_empty() {
        return Ok(());
    }
    if matches!(
        column.kind,
        ColumnKind::PartitionKey | ColumnKind::Clustering
    ) {
        let given: Vec<String> = index
            .options
            .iter()
            .filter(|(name, _)| given.iter().any(|(of_analyzer, _)| of_analyzer == name))
            .map(|(name, value)| format!("'{name}': '{value}'"))
            .collect();
        return invalid!(
            "Analysis options are not supported on primary key columns, but found {{{}}}",
            given.join(", ")
        );
    }
    let is_text = index
        .value_type(column)
        .is_some_and(|ty| matches!(ty, CqlType::Text | CqlType::Ascii));
    if !is_text {
        return match &column.ty {
            CqlType::Map { key, value, .. } if index.part() == IndexPart::Entries => invalid!(
                "CQL type 'org.apache.cassandra.db.marshal.CompositeType({},{})' cannot be analyzed.",
                key.to_marshal(),
                value.to_marshal()
            ),
            ty => invalid!("CQL type {ty} cannot be analyzed."),
        };
    }
    for (name, value) in given {
        if value.is_empty() {
            return invalid!("Empty value for boolean option '{name}'");
        }
        let is_boolean = ["true", "false"]
            .iter()
            .any(|b| value.eq_ignore_ascii_case(b));
        if !is_boolean {
            return invalid!("Illegal value for boolean option '{name}': {value}");
        }
    }
    Ok(())
}

fn check_vector(index: &Index, column: &Column) -> Result<(), CqlError> {
    let options = [
        "maximum_node_connections",
        "construction_beam_width",
        "similarity_function",
        "optimize_for",
    ];
    let CqlType::Vector { dimension, .. } = &column.ty else {
        if options.iter().any(|name| index.options.contains_key(*name)) {
            return invalid!("CQL type {} cannot have vector options", column.ty);
        }
        return Ok(());
    };
    check_number(
        index,
        "maximum_node_connections",
        ("Maximum number of connections", 512),
    )?;
    check_number(
        index,
        "construction_beam_width",
        ("Construction beam width", 3200),
    )?;
    let similarity = index.options.get("similarity_function");
    let similarity = similarity.map_or_else(|| "COSINE".to_owned(), |name| name.to_uppercase());
    if !SIMILARITIES.contains(&similarity.as_str()) {
        return invalid!(
            "Similarity function {similarity} was not recognized for index null. Valid values are: \
             {}",
            SIMILARITIES.join(", ")
        );
    }
    let purpose = index.options.get("optimize_for");
    if let Some(purpose) = purpose.map(|name| name.to_uppercase())
        && !PURPOSES.contains(&purpose.as_str())
    {
        return invalid!(
            "optimize_for '{purpose}' was not recognized for index null. Valid values are: {}",
            PURPOSES.join(", ")
        );
    }
    if *dimension == 1 && similarity == "COSINE" {
        return invalid!("Cosine similarity is not supported for single-dimension vectors");
    }
    Ok(())
}

/// Refuses an option that is no number between 1 and the most that it may be; it has a name of its own in messages.
fn check_number(index: &Index, option: &str, (name, most): (&str, i32)) -> Result<(), CqlError> {
    let Some(text) = index.options.get(option) else {
        return Ok(());
    };
    let Ok(number) = text.parse::<i32>() else {
        return invalid!("{name} {text} is not a valid integer for index null");
    };
    if !(1..=most).contains(&number) {
        return invalid!("{name} for index null cannot be <= 0 or > {most}, was {number}");
    }
    Ok(())
}
