//! What a SELECT gives for each row: names, types and values of the columns of its result
//! (`Selection`, `Selectable`, `Selector`).

use std::sync::Arc;

use bytes::Bytes;
use model::{Column, ColumnId, CqlType, Table, json_name, json_string};
use smallvec::SmallVec;

use crate::CqlError;
use crate::ast::{SelectClause, SelectItem, Selector};
use crate::functions::Aggregate;
use crate::term::{Analysis, ColumnSpec, Request};

use super::fetch::{Fetch, Part, Slots, Source};
use super::node::{Node, element_key, slice_edges};
use super::run::RowSink;
use super::selector::Compiler;

/// A column of the result.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) node: Node,
    pub(crate) name: String,
    pub(crate) ty: CqlType,
}

/// The call of an aggregate in a selection.
#[derive(Clone, Debug)]
pub(crate) struct AggregateCall {
    pub(crate) aggregate: Arc<Aggregate>,
    pub(crate) arguments: Vec<Node>,
}

/// A select clause, resolved.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// The columns clients see.
    pub(crate) columns: Vec<ColumnSpec>,
    /// How to get at the values.
    pub(crate) fetch: Fetch,
    /// The aggregates, in the order of the text.
    pub(crate) aggregates: Vec<AggregateCall>,
    /// What the columns are made of.
    outputs: Vec<Output>,
    /// The parts of collections that are asked for, and what these are called.
    parts: Vec<(Part, String)>,
    /// The slots of the outputs, where these are all that is needed.
    plain: Option<Vec<usize>>,
    /// Are these the first slots, in their order?
    in_order: bool,
    /// One column of text, with all outputs as JSON.
    json: bool,
}

impl Selection {
    /// Resolves a select clause.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        table: &Arc<Table>,
        clause: &SelectClause,
        json: bool,
    ) -> Result<Selection, CqlError> {
        let wildcard;
        let items = match clause {
            SelectClause::Items(items) => items,
            SelectClause::Wildcard => {
                wildcard = all_columns(table);
                &wildcard
            }
        };
        let mut compiler = Compiler::new(analysis, table, Fetch::new(table.clone()));
        let mut outputs = Vec::with_capacity(items.len());
        for item in items {
            let typed = compiler.compile(&item.selector, None).map_err(|error| {
                let selectors = items.iter().map(|item| &item.selector);
                compiler.first_mistake(selectors).unwrap_or(error)
            })?;
            outputs.push(Output {
                name: item.alias.clone().unwrap_or(typed.name),
                node: typed.node,
                ty: typed.ty,
            });
        }
        let parts = compiler.take_parts();
        let (fetch, aggregates) = compiler.finish();
        let plain = outputs
            .iter()
            .map(|output| match output.node {
                Node::Slot(slot) => Some(slot),
                _ => None,
            })
            .collect::<Option<Vec<usize>>>()
            .filter(|_| !json);
        let in_order = plain
            .as_ref()
            .is_some_and(|plain| plain.iter().copied().eq(0..plain.len()));
        let spec = |name: &str, ty: CqlType| ColumnSpec {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            name: name.into(),
            ty,
        };
        let columns = if json {
            vec![spec("[json]", CqlType::Text)]
        } else {
            outputs
                .iter()
                .map(|output| spec(&output.name, output.ty.clone()))
                .collect()
        };
        Ok(Selection {
            columns,
            fetch,
            aggregates,
            outputs,
            parts,
            plain,
            in_order,
            json,
        })
    }

    /// Refuses keys and edges of parts that are null, whether a row is read or not.
    pub(crate) fn check_parts(&self, request: &Request<'_>) -> Result<(), CqlError> {
        for (part, of) in &self.parts {
            match part {
                Part::Element(key) => drop(element_key(key, of, request)?),
                Part::Slice(from, to) => {
                    slice_edges(from.as_ref(), to.as_ref(), of, request)?;
                }
                Part::Whole | Part::Field(_) => {}
            }
        }
        Ok(())
    }

    /// Are the columns of the result columns of the table, as they are?
    pub(crate) fn is_plain(&self) -> bool {
        self.plain.is_some() && self.parts.is_empty() && self.aggregates.is_empty()
    }

    /// As [`Selection::emit`], where all is plain.
    pub(crate) fn emit_plain(&self, slots: &[Option<&[u8]>], sink: &mut RowSink<'_>) {
        let plain = self.plain.as_deref().unwrap_or_default();
        if self.in_order {
            return sink(&slots[..plain.len()]);
        }
        let cells: SmallVec<[Option<&[u8]>; 16]> = plain.iter().map(|slot| slots[*slot]).collect();
        sink(&cells);
    }

    /// Gives the values of a row, or of a group, to `sink`.
    pub(crate) fn emit(
        &self,
        slots: &Slots<'_>,
        aggregates: &[Option<Bytes>],
        request: &Request<'_>,
        sink: &mut RowSink<'_>,
    ) -> Result<(), CqlError> {
        if let Some(plain) = &self.plain {
            let cells: SmallVec<[Option<&[u8]>; 16]> =
                plain.iter().map(|slot| slots[*slot].as_deref()).collect();
            sink(&cells);
            return Ok(());
        }
        let mut values = Vec::with_capacity(self.outputs.len());
        for output in &self.outputs {
            values.push(output.node.evaluate(slots, aggregates, request)?);
        }
        if self.json {
            let text = self.json_row(&values)?;
            sink(&[Some(text.as_bytes())]);
            return Ok(());
        }
        let cells: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
        sink(&cells);
        Ok(())
    }

    /// `{"a": 1, "\"B\"": null}`
    fn json_row(&self, values: &[Option<Bytes>]) -> Result<String, CqlError> {
        let mut text = String::from("{");
        for (i, (output, value)) in self.outputs.iter().zip(values).enumerate() {
            if i > 0 {
                text.push_str(", ");
            }
            text.push_str(&json_string(&json_name(&output.name)));
            text.push_str(": ");
            match value {
                Some(value) => {
                    let json = output.ty.try_json(value);
                    let json = json
                        .map_err(|error| CqlError::Invalid(format!("{}: {error}", output.name)))?;
                    text.push_str(&json);
                }
                None => text.push_str("null"),
            }
        }
        text.push('}');
        Ok(text)
    }

    /// The regular and static columns that are read.
    pub(crate) fn read_columns(&self) -> Vec<ColumnId> {
        self.fetch.columns()
    }

    /// An expression that is needed besides: to group by. It may not be an aggregate.
    pub(crate) fn compile(
        &mut self,
        analysis: &Analysis<'_>,
        table: &Arc<Table>,
        selector: &Selector,
    ) -> Result<Node, CqlError> {
        let mut compiler = Compiler::new(analysis, table, self.fetch.clone());
        let typed = compiler.compile(selector, None).map_err(|error| {
            let mistake = compiler.first_mistake(std::iter::once(selector));
            mistake.unwrap_or(error)
        })?;
        let (fetch, aggregates) = compiler.finish();
        if let Some(call) = aggregates.first() {
            return crate::error::invalid!(
                "Aggregate functions are not supported within the GROUP BY clause, got: {}.{}",
                call.aggregate.keyspace(),
                call.aggregate.name()
            );
        }
        self.fetch = fetch;
        Ok(typed.node)
    }

    /// A slot for a column that is needed besides: to sort or to group by.
    pub(crate) fn slot_of(&mut self, column: &Column) -> Result<usize, CqlError> {
        self.fetch.slot(source_of(column))
    }
}

/// Where the value of a column comes from.
pub(crate) fn source_of(column: &Column) -> Source {
    match column.kind {
        model::ColumnKind::PartitionKey => Source::Key(column.position),
        model::ColumnKind::Clustering => Source::Clustering(column.position),
        _ => Source::Value(column.id),
    }
}

/// The columns that `*` stands for, in its order.
fn all_columns(table: &Table) -> Vec<SelectItem> {
    table
        .partition_key()
        .chain(table.clustering_key())
        .chain(table.statics())
        .chain(table.regulars())
        .filter(|column| !table.hides(column))
        .map(|column| SelectItem {
            selector: Selector::Column(column.name.to_string()),
            alias: None,
        })
        .collect()
}
