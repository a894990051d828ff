//! `import` and `refresh`.

use std::io::Write;

use super::Done;
use super::api::{Api, NodetoolError};
use super::arguments::Import;

/// Imports (Cassandra's `Import`).
pub(super) fn import(api: &Api, options: &Import, out: &mut impl Write) -> Done {
    let (keyspace, table, directories) = (&options.keyspace, &options.table, &options.directories);
    if options.quick {
        writeln!(
            out,
            "Doing a quick import - skipping sstable verification and row cache invalidation"
        )?;
    }
    if let Some(relative) = directories.iter().find(|dir| !dir.starts_with('/')) {
        return Err(NodetoolError::Usage(format!(
            "{relative} is no absolute path: the node may run in another folder than this command"
        )));
    }
    let mut failed = Vec::new();
    let flag = |on: bool| if on { "true" } else { "false" };
    for directory in directories {
        let query = [
            ("cf", table.as_str()),
            ("path", directory),
            ("verify", flag(!options.no_verify && !options.quick)),
            ("keep_level", flag(options.keep_level)),
            ("keep_repaired", flag(options.keep_repaired)),
            ("copy", flag(options.copy_data)),
        ];
        let parts = ["storage_service", "import", keyspace];
        match api.post(parts, &query) {
            Ok(_) => {}
            // The others may be all right.
            Err(NodetoolError::Refused(reason)) => failed.push(reason),
            Err(error) => return Err(error),
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(NodetoolError::Refused(failed.join("; "))),
    }
}

/// Takes what is in the table's own folder (Cassandra's `Refresh`).
pub(super) fn refresh(api: &Api, keyspace: &str, table: &str) -> Done {
    let parts = ["storage_service", "sstables", keyspace];
    api.post(parts, &[("cf", table)]).map(drop)
}
