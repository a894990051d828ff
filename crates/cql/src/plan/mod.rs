//! Plans: statements whose names and types are resolved, ready to be executed with values.
//!
//! A plan belongs to the versions of the tables it was made with ([`Plan::is_valid_in`]); it never
//! looks anything up when it is executed.

mod attributes;
mod batch;
mod batch_limits;
mod bound_condition;
mod cas;
mod cas_batch;
mod cas_result;
mod collected;
mod condition;
mod fetch;
mod filter;
mod group;
mod index_values;
mod indexing;
mod json;
mod keys;
mod list_paths;
mod modify;
mod nearest;
mod node;
mod operation;
mod parts;
mod point;
mod point_write;
mod position;
mod restriction;
mod restrictions;
mod row_builder;
mod run;
mod select;
mod selection;
mod selector;
mod selector_type;
mod slices;
mod truncate;
mod view;
mod virtual_tables;
mod write;

use std::sync::Arc;

use model::{Schema, Table};

use crate::describe::DescribePlan;
use crate::schema::SchemaPlan;

pub(crate) use attributes::Attributes;
pub use batch::{BatchPlan, check_batch, merge_counter_mutations, merge_mutations};
pub use batch_limits::{BatchLimits, warn_of_no_grace};
pub use cas::CasRequest;
pub use cas_batch::cas_of_batch;
pub use cas_result::CasResult;
pub use modify::ModifyPlan;
pub use nearest::refused_vector;
pub(crate) use operation::Action;
pub use point::{PartitionPlan, PointPlan, RowsShown};
pub use point_write::PointUpdate;
pub use position::Position;
pub(crate) use restriction::column_of;
pub use run::{Paging, RowSink, SelectRun};
pub use select::SelectPlan;
pub use truncate::TruncatePlan;
pub use view::view_rows;
pub(crate) use view::{ViewRelations, parse_where};
pub use virtual_tables::can_forget;

/// What a statement does.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Reads rows.
    Select(Box<SelectPlan>),
    /// Writes rows.
    Modify(Box<ModifyPlan>),
    /// Writes the rows of several statements.
    Batch(Box<BatchPlan>),
    /// Empties a table.
    Truncate(Box<TruncatePlan>),
    /// Makes a keyspace the one of unqualified names.
    Use(String),
    /// Changes the schema.
    Schema(Box<SchemaPlan>),
    /// Shows the schema.
    Describe(Box<DescribePlan>),
}

impl Plan {
    /// Does it still mean the same in this schema? Tables must be the very ones it was made with.
    pub fn is_valid_in(&self, schema: &Schema) -> bool {
        let same = |table: &Arc<Table>| {
            schema
                .table(&table.keyspace, &table.name)
                .is_some_and(|known| Arc::ptr_eq(known, table))
        };
        match self {
            Plan::Select(select) => same(select.table()),
            Plan::Modify(modify) => same(modify.table()),
            Plan::Batch(batch) => batch.statements().iter().all(|s| same(s.table())),
            Plan::Truncate(truncate) => same(truncate.table()),
            Plan::Use(_) | Plan::Schema(_) | Plan::Describe(_) => true,
        }
    }
}
