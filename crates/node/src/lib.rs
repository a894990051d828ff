//! A node: sessions, coordinator, replica, metadata, shards, system tables.
