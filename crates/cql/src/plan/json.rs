//! INSERT JSON (`Json`): the text brings the values of all columns, the key too.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Clustering, Column, ColumnKind, CqlType, DecoratedKey, PartitionUpdate, Table, encode_key,
};
use serde_json::Value;

use crate::CqlError;
use crate::ast::InsertJson;
use crate::error::invalid;
use crate::json::{self, columns_of, value_of};
use crate::term::{Analysis, Bound, Expression, Receiver, Request};

use super::keys::required;
use super::restriction::column_of;
use super::row_builder::WriteTime;
use super::write::{JsonRow, update_of_values};

/// The source of the values of INSERT JSON.
#[derive(Clone, Debug)]
pub(crate) struct JsonInsert {
    text: Expression,
    /// Do columns that the text does not name stay as they are?
    default_unset: bool,
}

impl JsonInsert {
    /// Analyses the clause; a constant text is checked at once.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        table: &Table,
        insert: &InsertJson,
    ) -> Result<JsonInsert, CqlError> {
        let text = match &insert.json {
            Ok(text) => {
                parse(table, text)?;
                Expression::Constant(Some(text.clone().into()))
            }
            Err(marker) => analysis.marker(marker, &Receiver::new("[json]", CqlType::Text)),
        };
        // A text brings all of a key, with a column that clients may not name: refused, as there.
        for column in table.clustering_key() {
            column_of(table, &column.name)?;
        }
        Ok(JsonInsert {
            text,
            default_unset: insert.default_unset,
        })
    }

    /// What an execution writes.
    pub(crate) fn updates(
        &self,
        table: &Arc<Table>,
        request: &Request<'_>,
        time: WriteTime,
    ) -> Result<Vec<PartitionUpdate>, CqlError> {
        let values = self.values(table, request)?;
        let (key, clustering) = values.place(table)?;
        let mut columns = Vec::new();
        for column in table.columns() {
            if matches!(column.kind, ColumnKind::Static | ColumnKind::Regular) {
                columns.push((column.clone(), values.value(column)?));
            }
        }
        let row = JsonRow {
            key,
            clustering: Some(clustering),
            values: columns,
        };
        Ok(vec![update_of_values(table, request, time, row)?])
    }

    /// The row that an execution writes.
    pub(crate) fn place(
        &self,
        table: &Table,
        request: &Request<'_>,
    ) -> Result<(DecoratedKey, Clustering), CqlError> {
        self.values(table, request)?.place(table)
    }

    fn values(&self, table: &Table, request: &Request<'_>) -> Result<JsonValues, CqlError> {
        let text = match self.text.evaluate(request)? {
            Bound::Value(text) => text,
            Bound::Null | Bound::Unset => return invalid!("Got null for INSERT JSON values"),
        };
        Ok(JsonValues {
            values: parse(table, &String::from_utf8_lossy(&text))?,
            default_unset: self.default_unset,
        })
    }
}

/// The values of one execution.
struct JsonValues {
    values: BTreeMap<String, Value>,
    default_unset: bool,
}

impl JsonValues {
    fn value(&self, column: &Column) -> Result<Bound, CqlError> {
        match self.values.get(&*column.name) {
            Some(json) => match value_of(json, &column.ty) {
                Ok(Some(value)) => Ok(Bound::Value(value)),
                Ok(None) => Ok(Bound::Null),
                Err(error) => invalid!("Error decoding JSON value for {}: {error}", column.name),
            },
            None if self.default_unset => Ok(Bound::Unset),
            None => Ok(Bound::Null),
        }
    }

    fn place(&self, table: &Table) -> Result<(DecoratedKey, Clustering), CqlError> {
        let mut key = Vec::new();
        for column in table.partition_key() {
            key.push(required(self.value(column)?, &column.name)?);
        }
        let mut clustering = Clustering::default();
        for column in table.clustering_key() {
            let value = required(self.value(column)?, &column.name)?;
            clustering.0.push(value);
        }
        let key = encode_key(&key).map_err(|error| CqlError::Invalid(error.to_string()))?;
        if key.is_empty() {
            return invalid!("Key may not be empty");
        }
        Ok((DecoratedKey::new(key), clustering))
    }
}

/// The values of a text, by column.
fn parse(table: &Table, text: &str) -> Result<BTreeMap<String, Value>, CqlError> {
    let object = match json::parse(text) {
        Ok(Value::Object(object)) => object,
        Ok(Value::Null) => return invalid!("Got null for INSERT JSON values"),
        Ok(_) => {
            return invalid!(
                "Could not decode JSON string as a map: it is no object. (String was: {text})"
            );
        }
        Err(error) => {
            return invalid!(
                "Could not decode JSON string as a map: {error}. (String was: {text})"
            );
        }
    };
    let mut values = BTreeMap::new();
    for (name, value) in columns_of(object) {
        if table.column_named(&name).is_none() {
            return invalid!("JSON values map contains unrecognized column: {name}");
        }
        values.insert(name, value);
    }
    Ok(values)
}
