//! `ORDER BY … ANN OF`: the rows whose vectors are the nearest to one (`SelectStatement`,
//! `VectorTopKProcessor`). They are the nearest of all: every vector is looked at.

use model::{Column, CqlType, Index, Order, PartitionUpdate, Table};

use crate::CqlError;
use crate::ast::Select;
use crate::error::invalid;
use crate::term::{Analysis, Bound, Expression, Receiver, Request, prepare};

use super::fetch::Slots;
use super::restriction::column_of;
use super::run::Kept;

/// How many rows may be asked for (`sai_vector_top_k_limit`).
const MOST_ROWS: u32 = 1000;

/// How near vectors are (`VectorSimilarityFunction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Similarity {
    Cosine,
    DotProduct,
    Euclidean,
}

impl Similarity {
    /// That of an index.
    fn of(index: &Index) -> Similarity {
        let name = index.options.get("similarity_function");
        match name.map(|name| name.to_uppercase()).as_deref() {
            Some("DOT_PRODUCT") => Similarity::DotProduct,
            Some("EUCLIDEAN") => Similarity::Euclidean,
            _ => Similarity::Cosine,
        }
    }

    /// Why a vector is neither indexed nor looked for (`VectorUtil`), if so.
    fn refuses(self, vector: &[f32]) -> Option<String> {
        let mut numbers = vector.iter().enumerate();
        if let Some((i, number)) = numbers.find(|(_, number)| !number.is_finite()) {
            return Some(format!("non-finite value at vector[{i}]={number}"));
        }
        let is_zero = vector.iter().all(|number| *number == 0.0);
        (self == Similarity::Cosine && is_zero).then(|| {
            "Zero and near-zero vectors cannot be indexed or queried with cosine similarity"
                .to_owned()
        })
    }
}

/// Why replicas would refuse an update, if so: it has a vector that an index of its table does not take.
pub fn refused_vector(update: &PartitionUpdate) -> Option<String> {
    let table = &update.table;
    let indexes = table.indexes.iter().filter(|i| i.is_storage_attached());
    let mut vectors = indexes.filter_map(|index| {
        let column = index.column_of(table)?;
        let is_vector = matches!(column.ty, CqlType::Vector { .. });
        is_vector.then(|| (column, Similarity::of(index)))
    });
    vectors.find_map(|(column, similarity)| {
        let rows = update.static_row.iter().chain(&update.rows);
        let cells = rows.flat_map(|row| row.cells_of(column.id));
        let mut alive = cells.filter(|cell| !cell.value.is_empty());
        alive.find_map(|cell| similarity.refuses(&floats(&cell.value)))
    })
}

/// What rows are ordered by.
#[derive(Clone, Debug)]
pub(crate) struct NearestPlan {
    /// The column's slot.
    pub(crate) slot: usize,
    name: std::sync::Arc<str>,
    vector: Expression,
    similarity: Similarity,
}

/// What rows of one execution are ordered by.
#[derive(Clone, Debug)]
pub(crate) struct Nearest {
    slot: usize,
    vector: Vec<f32>,
    similarity: Similarity,
}

/// The column that is ordered by, and the vector, if the statement asks for the nearest rows.
pub(crate) fn nearest<'t>(
    analysis: &Analysis<'_>,
    table: &'t Table,
    select: &Select,
) -> Result<Option<(&'t Column, Expression)>, CqlError> {
    let orderings = select.order_by.iter();
    let orderings = orderings.filter_map(|ordering| Some((ordering, ordering.ann.as_ref()?)));
    let mut columns = Vec::new();
    for (ordering, term) in orderings {
        let column = column_of(table, &ordering.column)?;
        let vector = prepare(analysis, term, &Receiver::of(column))?;
        columns.push((column, ordering.order, vector));
    }
    if columns.len() > 1 {
        return invalid!("Cannot specify more than one ANN ordering");
    }
    let Some((column, order, vector)) = columns.pop() else {
        return Ok(None);
    };
    if select.order_by.len() > 1 {
        return invalid!("ANN ordering does not support any other ordering");
    }
    if order == Order::Descending {
        return invalid!("Descending ANN ordering is not supported");
    }
    let CqlType::Vector { element, .. } = &column.ty else {
        return invalid!("ANN ordering is only supported on float vector indexes");
    };
    if **element != CqlType::Float {
        return invalid!("ANN ordering is only supported on float vector indexes");
    }
    Ok(Some((column, vector)))
}

impl NearestPlan {
    /// Of a statement that orders by this column.
    pub(crate) fn new(
        table: &Table,
        (column, vector): (&Column, Expression),
        slot: usize,
    ) -> Result<NearestPlan, CqlError> {
        let mut indexes = table.indexes.iter();
        let index = indexes
            .find(|index| index.is_storage_attached() && index.column_of(table) == Some(column));
        let Some(index) = index else {
            return invalid!("ANN ordering by vector requires the column to be indexed");
        };
        Ok(NearestPlan {
            slot,
            name: column.name.clone(),
            vector,
            similarity: Similarity::of(index),
        })
    }

    /// Of one execution, that gives so many rows.
    pub(crate) fn start(&self, request: &Request<'_>, limit: u32) -> Result<Nearest, CqlError> {
        if limit == u32::MAX {
            return invalid!(
                "Top-K queries must have a limit specified and the limit must be less than the \
                 query page size"
            );
        }
        if limit > MOST_ROWS {
            return invalid!(
                "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than \
                 {MOST_ROWS}. LIMIT was {limit}"
            );
        }
        let vector = match self.vector.evaluate(request)? {
            Bound::Value(value) => floats(&value),
            Bound::Null => return invalid!("Unsupported null value for column {}", self.name),
            Bound::Unset => return invalid!("Unsupported unset value for column {}", self.name),
        };
        if let Some(why) = self.similarity.refuses(&vector) {
            return invalid!("{why}");
        }
        Ok(Nearest {
            slot: self.slot,
            vector,
            similarity: self.similarity,
        })
    }
}

impl Nearest {
    /// Has the row a vector?
    pub(crate) fn takes(&self, slots: &Slots<'_>) -> bool {
        slots[self.slot].is_some()
    }

    /// The nearest first, and of all no more than so many.
    pub(crate) fn sort(&self, rows: &mut Vec<Kept>, limit: usize) {
        rows.sort_by_cached_key(|row| {
            let vector = row.slots[self.slot].as_deref().map(floats);
            let similarity = vector.map_or(f32::MIN, |vector| self.similarity(&vector));
            // Floats in their order as integers, from the highest on.
            let bits = similarity.to_bits().cast_signed();
            let ordered = bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed();
            std::cmp::Reverse(ordered)
        });
        rows.truncate(limit);
    }

    fn similarity(&self, vector: &[f32]) -> f32 {
        match self.similarity {
            Similarity::DotProduct => (1.0 + product(vector, &self.vector)) / 2.0,
            Similarity::Euclidean => {
                let pairs = vector.iter().zip(&self.vector);
                let square: f32 = pairs.map(|(x, y)| (x - y) * (x - y)).sum();
                1.0 / (1.0 + square)
            }
            Similarity::Cosine => {
                let lengths = product(vector, vector) * product(&self.vector, &self.vector);
                match lengths > 0.0 {
                    true => (1.0 + product(vector, &self.vector) / lengths.sqrt()) / 2.0,
                    false => 0.0,
                }
            }
        }
    }
}

fn floats(value: &(impl AsRef<[u8]> + ?Sized)) -> Vec<f32> {
    let (numbers, _) = value.as_ref().as_chunks::<4>();
    numbers.iter().map(|n| f32::from_be_bytes(*n)).collect()
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
