//! CQL: lexer, AST, parser, analysis and plans. No I/O.
//!
//! A statement's way: the parser makes an [`ast::Statement`] of its text, analysis resolves all
//! names and types of it against a schema once and gives a plan that turns bound values into
//! reads and writes of `model`, as often as it is executed. A plan is immutable and may be shared
//! between threads; it holds good for the schema it was made with.

pub mod ast;
pub mod describe;
mod error;
pub mod functions;
pub mod guardrails;
mod json;
mod lexer;
mod parser;
mod plan;
mod prepare;
mod read_text;
pub mod schema;
mod term;

pub use error::CqlError;
pub use lexer::MAX_TOKENS;
pub use parser::{parse, parse_term, parse_type, parse_within};
pub use plan::{
    BatchLimits, BatchPlan, CasRequest, CasResult, ModifyPlan, Paging, PartitionPlan, Plan,
    PointPlan, PointUpdate, Position, RowSink, RowsShown, SelectPlan, SelectRun, TruncatePlan,
    can_forget, cas_of_batch, check_batch, merge_counter_mutations, merge_mutations,
    refused_vector, view_rows, warn_of_no_grace,
};
pub use prepare::{Context, Prepared, prepare, prepare_statement, prepare_within};
pub use read_text::read_text;
pub use term::{ColumnSpec, Request, Value, Values};
