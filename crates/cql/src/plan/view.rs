//! The `WHERE` of a materialized view: which rows of its table it shows (`View.getSelectStatement`).

use std::collections::BTreeSet;

use model::{Column, ColumnId, ColumnKind, Table, ViewRows};

use crate::CqlError;
use crate::ast::{Comparison, Relation, RelationTarget, Statement};
use crate::error::invalid;
use crate::schema::UserTypes;
use crate::term::{Analysis, Request, Values};

use super::filter::FilterPlan;
use super::keys::{KeyPlan, check_keys};
use super::restriction::column_of;
use super::restrictions::{Restrictions, StatementKind, refuse_key_in};
use super::slices::SlicePlan;

/// The relations of a view on its table, resolved and checked.
pub(crate) struct ViewRelations {
    restrictions: Restrictions,
    /// The columns that any relation names.
    named: BTreeSet<ColumnId>,
    /// Static and regular columns that are restricted otherwise than by `IS NOT NULL`.
    pub(crate) restricted_values: Vec<String>,
}

impl ViewRelations {
    /// Resolves relations, `IS NOT NULL` among them, which say nothing but that a column is thought of: that
    /// those of the key of the view are not null follows from their being there.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        base: &Table,
        relations: &[Relation],
    ) -> Result<ViewRelations, CqlError> {
        let (mut named, mut restricted_values) = (BTreeSet::new(), BTreeSet::new());
        let mut others = Vec::new();
        for relation in relations {
            let is_not_null = relation.comparison == Comparison::IsNot;
            for column in columns_of(base, relation)? {
                named.insert(column.id);
                let is_value = matches!(column.kind, ColumnKind::Static | ColumnKind::Regular);
                if is_value && !is_not_null {
                    restricted_values.insert(column.name.to_string());
                }
            }
            if !is_not_null {
                others.push(relation.clone());
            }
        }
        let kind = StatementKind::Select {
            allow_filtering: true,
            nearest: None,
        };
        let restrictions = Restrictions::new(analysis, base, &others, kind, false)?;
        if restrictions.has_gaps && restrictions.has_key_in() {
            return refuse_key_in();
        }
        Ok(ViewRelations {
            restrictions,
            named,
            restricted_values: restricted_values.into_iter().collect(),
        })
    }

    /// Does any relation speak of the column?
    pub(crate) fn names(&self, column: &Column) -> bool {
        self.named.contains(&column.id)
    }

    /// Which rows of the table these relations leave.
    pub(crate) fn rows(mut self, base: &Table) -> Result<ViewRows, CqlError> {
        let request = Request::new(Values::NONE, 0, 0);
        let keys = KeyPlan::new(base, &mut self.restrictions);
        let slices = SlicePlan::new(base, self.restrictions.slices).slices(base, &request)?;
        let filters = FilterPlan::new(base, self.restrictions.filters).filters(&request)?;
        let named = keys.named(&request)?;
        check_keys(named.as_deref().unwrap_or_default())?;
        let possible = named.is_some() || keys.range(&request)?.is_some();
        let possible = possible && filters.is_some();
        Ok(ViewRows {
            keys: named,
            slices: if possible { slices } else { Vec::new() },
            filters: filters.unwrap_or_default(),
        })
    }
}

fn columns_of<'t>(base: &'t Table, relation: &Relation) -> Result<Vec<&'t Column>, CqlError> {
    match &relation.target {
        RelationTarget::Column(name) | RelationTarget::Element(name, _) => {
            Ok(vec![column_of(base, name)?])
        }
        RelationTarget::Columns(names) | RelationTarget::Token(names) => {
            names.iter().map(|name| column_of(base, name)).collect()
        }
        RelationTarget::Expression(_) => Ok(Vec::new()),
    }
}

/// The relations of a `WHERE` that a schema keeps as text.
pub(crate) fn parse_where(text: &str) -> Result<Vec<Relation>, CqlError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    match crate::parse(&format!("SELECT * FROM t WHERE {text}"))? {
        Statement::Select(select) => Ok(select.relations),
        _ => invalid!("not the relations of a WHERE: {text}"),
    }
}

/// Which rows of its table a view shows, where its `WHERE` says this and its keyspace has these types.
///
/// # Errors
/// Its `WHERE` cannot be read, or does not fit the table.
pub fn view_rows(
    base: &Table,
    types: &UserTypes,
    where_clause: &str,
) -> Result<ViewRows, CqlError> {
    let analysis = Analysis::new(base, Some(types));
    let relations = parse_where(where_clause)?;
    ViewRelations::new(&analysis, base, &relations)?.rows(base)
}
