//! `helenus nodetool`: operates a node over its REST API, with the verbs, options and output of
//! Cassandra's nodetool (`org.apache.cassandra.tools.NodeTool`).

pub(crate) mod api;
mod arguments;
mod cluster;
mod import;
mod snapshots;
mod text;

use std::io::Write;
use std::process::ExitCode;

use api::{Api, NodetoolError};
use arguments::Verb;
pub(crate) use arguments::{NodetoolOptions, spell_out};

/// Carries out a verb.
pub(crate) fn run(options: NodetoolOptions) -> ExitCode {
    let api = Api {
        host: options.host,
        port: options.port,
    };
    let mut out = std::io::stdout().lock();
    let done = carry_out(&api, options.verb, &mut out);
    // A reader that has gone, such as `head`, has seen enough.
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(NodetoolError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("nodetool: {}", error.to_string().replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

type Done = Result<(), NodetoolError>;

fn carry_out(api: &Api, verb: Verb, out: &mut impl Write) -> Done {
    match verb {
        Verb::Version { verbose } => cluster::version(api, verbose, out),
        Verb::Info { tokens } => cluster::info(api, tokens, out),
        Verb::Status { keyspace, .. } => cluster::status(api, keyspace.as_deref(), out),
        Verb::Statusbinary => cluster::status_binary(api, out),
        Verb::Drain => api.post(["storage_service", "drain"], &[]).map(drop),
        Verb::Flush(tables) => flush(api, &tables),
        Verb::Import {
            keep_level,
            keep_repaired,
            no_verify,
            quick,
            copy_data,
            keyspace,
            table,
            directories,
            ..
        } => {
            let options = import::Options {
                keep_level,
                keep_repaired,
                verify: !no_verify && !quick,
                quick,
                copy_data,
            };
            import::import(api, (&keyspace, &table), &directories, &options, out)
        }
        Verb::Refresh { keyspace, table } => import::refresh(api, &keyspace, &table),
        Verb::Clearsnapshot {
            tag,
            all,
            keyspaces,
        } => snapshots::clear(api, (tag.as_deref(), all), &keyspaces, out),
        Verb::Listsnapshots { no_ttl, .. } => snapshots::list(api, no_ttl, out),
        Verb::Snapshot {
            tag,
            column_family,
            kt_list,
            skip_flush,
            ttl,
            keyspaces,
        } => {
            let what = snapshots::What {
                table: column_family.as_deref(),
                list: kt_list.as_deref(),
                keyspaces: &keyspaces,
            };
            snapshots::take(api, tag, &what, (skip_flush, ttl.as_deref()), out)
        }
        Verb::Enablebackup => snapshots::set_backups(api, true),
        Verb::Disablebackup => snapshots::set_backups(api, false),
        Verb::Statusbackup => snapshots::status_backups(api, out),
    }
}

fn flush(api: &Api, tables: &arguments::Tables) -> Done {
    let Some(keyspace) = &tables.keyspace else {
        return api.post(["storage_service", "flush"], &[]).map(drop);
    };
    let cf = tables.tables.join(",");
    let parts = ["storage_service", "keyspace_flush", keyspace];
    api.post(parts, &[("cf", &cf)]).map(drop)
}
