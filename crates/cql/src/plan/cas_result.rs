//! What a client is told of a conditional write: whether it was applied, and if not what is there
//! instead (`ModificationStatement.buildCasResultSet`).

use bytes::Bytes;
use model::{CompactForm, CqlType, Partition};

use crate::CqlError;
use crate::ast::{SelectClause, SelectItem, Selector};
use crate::term::{Analysis, ColumnSpec};

use super::cas::CasRequest;
use super::fetch::Slots;
use super::selection::Selection;

/// A result, whole: clients are never told of its columns before.
#[derive(Clone, Debug, PartialEq)]
pub struct CasResult {
    /// `[applied]`, and the columns that are shown.
    pub columns: Vec<ColumnSpec>,
    /// One row, or one of each row that conditions were on and that is there; `None` is null.
    pub rows: Vec<Vec<Option<Bytes>>>,
}

impl CasRequest<'_> {
    /// The result of a write that was applied.
    pub fn applied(&self) -> CasResult {
        self.answer(true)
    }

    /// The result of a write whose conditions did not hold. `current`: the partition that was looked
    /// at. Columns that were not read show as null, as Cassandra shows them.
    pub fn not_applied(&self, current: Option<&Partition>) -> Result<CasResult, CqlError> {
        let mut result = self.answer(false);
        let Some(partition) = current else {
            return Ok(result);
        };
        let selection = self.selection()?;
        let mut rows = Vec::new();
        let mut show = |slots: &Slots<'_>| {
            selection.emit(slots, &[], self.request, &mut |cells| {
                let cells = cells.iter().map(|cell| cell.map(Bytes::copy_from_slice));
                let applied = Some(Bytes::from_static(&[0]));
                rows.push(std::iter::once(applied).chain(cells).collect());
            })
        };
        let now = self.request.now_seconds;
        let mut slots = Slots::new();
        selection
            .fetch
            .partition(&mut slots, partition, self.request)?;
        // What lies behind the static columns of a compact table is no row to clients.
        let has_rows = self.table.compact != Some(CompactForm::Static);
        let live = partition
            .rows
            .iter()
            .filter(|row| has_rows && row.is_live(now));
        let mut is_empty = true;
        for row in live {
            is_empty = false;
            selection.fetch.row(&mut slots, row, self.request)?;
            show(&slots)?;
            selection.fetch.forget_row(&mut slots);
        }
        let static_row = partition.static_row.as_ref();
        if is_empty && static_row.is_some_and(|row| row.is_live(now)) {
            show(&slots)?;
        }
        if !rows.is_empty() {
            result.columns.extend(selection.columns);
            result.rows = rows;
        }
        Ok(result)
    }

    fn answer(&self, applied: bool) -> CasResult {
        CasResult {
            columns: vec![ColumnSpec {
                keyspace: self.table.keyspace.clone(),
                table: self.table.name.clone(),
                name: "[applied]".into(),
                ty: CqlType::Boolean,
            }],
            rows: vec![vec![Some(Bytes::copy_from_slice(&[u8::from(applied)]))]],
        }
    }

    /// The columns that are shown besides, each once.
    fn selection(&self) -> Result<Selection, CqlError> {
        let clause = match &self.shown {
            None => SelectClause::Wildcard,
            Some(columns) => {
                let mut items: Vec<SelectItem> = Vec::with_capacity(columns.len());
                for column in columns.iter().filter_map(|id| self.table.column(*id)) {
                    let item = SelectItem {
                        selector: Selector::Column(column.name.to_string()),
                        alias: None,
                    };
                    if !items.contains(&item) {
                        items.push(item);
                    }
                }
                SelectClause::Items(items)
            }
        };
        let analysis = Analysis::new(&self.table, None);
        Selection::new(&analysis, &self.table, &clause, false)
    }
}
