//! `DESCRIBE`: the schema as CQL statements.
