//! `helenus nodetool`: operates a node over its REST API, with the verbs, options and output of
//! Cassandra's nodetool (`org.apache.cassandra.tools.NodeTool`).

pub(crate) mod api;
mod arguments;
mod cluster;
mod compaction;
mod import;
mod snapshots;
mod statistics;
mod structured;
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
            eprintln!("{}", error.told());
            ExitCode::from(error.exit_code())
        }
    }
}

type Done = Result<(), NodetoolError>;

fn carry_out(api: &Api, verb: Verb, out: &mut impl Write) -> Done {
    match verb {
        Verb::Cleanup { tables, .. } => {
            compaction::operate(api, "cleanup_all", tables.named(), &[]).map(drop)
        }
        Verb::Clearsnapshot(which) => snapshots::clear(api, &which, out),
        Verb::Compact(options) => compaction::compact(api, &options),
        Verb::Compactionhistory { format } => compaction::history(api, format, out),
        Verb::Compactionstats {
            human_readable,
            vtable,
        } => compaction::stats(api, human_readable, vtable, out),
        Verb::Disableautocompaction(tables) => compaction::set_auto(api, tables.named(), false),
        Verb::Disablebackup => snapshots::set_backups(api, false),
        Verb::Drain => api.post(["storage_service", "drain"], &[]).map(drop),
        Verb::Enableautocompaction(tables) => compaction::set_auto(api, tables.named(), true),
        Verb::Enablebackup => snapshots::set_backups(api, true),
        Verb::Flush(tables) => flush(api, &tables),
        Verb::Garbagecollect {
            granularity,
            tables,
            ..
        } => {
            let granularity = granularity.to_ascii_lowercase();
            let more = [("granularity", granularity.as_str())];
            compaction::operate(api, "garbage_collect", tables.named(), &more).map(drop)
        }
        Verb::Getcompactionthroughput { precise_mib } => {
            compaction::get_throughput(precise_mib, out)
        }
        Verb::Getsstables(options) => statistics::get_sstables(api, &options, out),
        Verb::Import(options) => import::import(api, &options, out),
        Verb::Info { tokens } => cluster::info(api, tokens, out),
        Verb::Invalidaterowcache => {
            let path = ["cache_service", "invalidate_row_cache"];
            api.post(path, &[]).map(drop)
        }
        Verb::Listsnapshots { no_ttl, ephemeral } => snapshots::list(api, no_ttl, ephemeral, out),
        Verb::Refresh { keyspace, table } => import::refresh(api, &keyspace, &table),
        Verb::Scrub {
            no_snapshot,
            how,
            tables,
            ..
        } => compaction::scrub(api, tables.named(), (no_snapshot, how), out),
        Verb::Setcompactionthroughput { value } => compaction::set_throughput(value, out),
        Verb::Snapshot(options) => snapshots::take(api, &options, out),
        Verb::Status { keyspace, .. } => cluster::status(api, keyspace.as_deref(), out),
        Verb::Statusautocompaction { all, tables } => {
            compaction::status_auto(api, tables.named(), all, out)
        }
        Verb::Statusbackup => snapshots::status_backups(api, out),
        Verb::Statusbinary => cluster::status_binary(api, out),
        Verb::Stop {
            compaction_id,
            kind,
        } => compaction::stop(api, kind.as_deref(), compaction_id.as_deref()),
        Verb::Tablehistograms { names } => statistics::table_histograms(api, &names, out),
        Verb::Tablestats(options) => statistics::table_stats(api, &options, out),
        Verb::Upgradesstables {
            include_all_sstables,
            max_timestamp,
            tables,
            ..
        } => compaction::upgrade(api, tables.named(), include_all_sstables, max_timestamp),
        Verb::Verify { tables, how } => compaction::verify(api, tables.named(), how),
        Verb::Version { verbose } => cluster::version(api, verbose, out),
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
