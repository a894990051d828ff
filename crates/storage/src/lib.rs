//! Commit log, memtable, sstables, compaction and the table that merges them.
