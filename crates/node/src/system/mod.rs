//! The system keyspaces: what is in them, and how schema is kept in them.
