//! `import` and `refresh`.

use std::io::Write;

use super::Done;
use super::api::{Api, NodetoolError};
use super::arguments::Import;

/// Imports (Cassandra's `Import`).
pub(super) fn import(api: &Api, options: &Import, out: &mut impl Write) -> Done {
    let directories = &options.directories;
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
    // None is imported before all are known to be there.
    for directory in directories {
        ask(api, options, directory, true)?;
    }
    let (mut reasons, mut failed) = (String::new(), Vec::new());
    for directory in directories {
        match ask(api, options, directory, false) {
            Ok(()) => {}
            // The others may be all right.
            Err(error @ (NodetoolError::Refused(_) | NodetoolError::Failed(_))) => {
                reasons.push_str(&error.told());
                reasons.push('\n');
                failed.push(directory.as_str());
            }
            Err(error) => return Err(error),
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(NodetoolError::NotImported {
            reasons,
            directories: failed.join("\n"),
        }),
    }
}

/// Has the node import a folder, or only look whether it could.
fn ask(api: &Api, options: &Import, directory: &str, only_check: bool) -> Done {
    let flag = |on: bool| if on { "true" } else { "false" };
    let query = [
        ("cf", options.table.as_str()),
        ("path", directory),
        ("verify", flag(!options.no_verify && !options.quick)),
        ("keep_level", flag(options.keep_level)),
        ("keep_repaired", flag(options.keep_repaired)),
        ("copy", flag(options.copy_data)),
        ("check", flag(only_check)),
    ];
    let parts = ["storage_service", "import", &options.keyspace];
    api.post(parts, &query).map(drop)
}

/// Takes what is in the table's own folder (Cassandra's `Refresh`).
pub(super) fn refresh(api: &Api, keyspace: &str, table: &str) -> Done {
    let parts = ["storage_service", "sstables", keyspace];
    api.post(parts, &[("cf", table)]).map(drop)
}
