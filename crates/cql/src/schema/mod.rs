//! What statements do to the schema.
