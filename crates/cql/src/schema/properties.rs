//! The properties of `WITH name = value AND …`, as text or as a map of texts, and the checks that
//! all statements with properties share (`PropertyDefinitions`).

use std::collections::BTreeMap;

use crate::CqlError;
use crate::ast::{Property, PropertyValue};

/// The properties of one statement, each at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Properties(BTreeMap<String, PropertyValue>);

impl Properties {
    /// Collects the properties as they were written; names in lower case. A property given twice
    /// is a syntax error.
    pub(super) fn collect(given: &[Property]) -> Result<Properties, CqlError> {
        let mut map = BTreeMap::new();
        for Property { name, value } in given {
            if map.insert(name.clone(), value.clone()).is_some() {
                return Err(CqlError::Syntax(format!(
                    "Multiple definitions for property '{name}'"
                )));
            }
        }
        Ok(Properties(map))
    }

    /// Refuses properties that are not among `known`.
    pub(super) fn check_names(&self, known: &[&str]) -> Result<(), CqlError> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(CqlError::Syntax(format!("Unknown property '{name}'"))),
            None => Ok(()),
        }
    }

    /// Is the property given?
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The text of a property.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, CqlError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(PropertyValue::Text(text)) => Ok(Some(text)),
            Some(PropertyValue::Map(_)) => Err(CqlError::Syntax(format!(
                "Invalid value for property '{name}'. It should be a string"
            ))),
        }
    }

    /// The map of a property.
    pub(super) fn map(&self, name: &str) -> Result<Option<&BTreeMap<String, String>>, CqlError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(PropertyValue::Map(map)) => Ok(Some(map)),
            Some(PropertyValue::Text(_)) => Err(CqlError::Syntax(format!(
                "Invalid value for property '{name}'. It should be a map."
            ))),
        }
    }

    /// A yes or no.
    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>, CqlError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" => Ok(Some(true)),
            "0" | "false" | "no" => Ok(Some(false)),
            _ => Err(CqlError::Syntax(format!(
                "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or \
                 'yes'. Negative values can be '0', 'false' or 'no'."
            ))),
        }
    }

    /// A whole number of 32 bits.
    pub(super) fn int(&self, name: &str) -> Result<Option<i32>, CqlError> {
        self.text(name)?
            .map(|text| {
                text.parse().map_err(|_| {
                    CqlError::Syntax(format!("Invalid integer value {text} for '{name}'"))
                })
            })
            .transpose()
    }

    /// A number.
    pub(super) fn double(&self, name: &str) -> Result<Option<f64>, CqlError> {
        self.text(name)?
            .map(|text| {
                text.trim().parse().map_err(|_| {
                    CqlError::Syntax(format!("Invalid double value {text} for '{name}'"))
                })
            })
            .transpose()
    }
}
