//! `helenus nodetool`: operates a node over its REST API, with the verbs, options and output of
//! Cassandra's nodetool (`org.apache.cassandra.tools.NodeTool`).

mod absent;
mod activity;
pub(crate) mod api;
mod arguments;
mod cluster;
mod cluster_verbs;
mod compaction;
mod complaint;
mod hint_verbs;
mod hints;
mod histograms;
mod import;
mod node;
mod setting_verbs;
mod settings;
mod snapshots;
mod sorting;
mod statistics;
mod structured;
mod text;

use std::io::Write;
use std::process::ExitCode;

use api::{Api, NodetoolError};
use arguments::Verb;
pub(crate) use arguments::{NodetoolOptions, spell_out};
use cluster::Naming;
use cluster_verbs::ClusterVerb;
pub(crate) use complaint::complaint;
use hint_verbs::HintVerb;

/// Carries out a verb.
pub(crate) fn run(options: NodetoolOptions) -> ExitCode {
    let api = Api {
        host: options.host,
        port: options.port,
    };
    let naming = Naming {
        names: false,
        ports: options.print_port,
    };
    let mut out = std::io::stdout().lock();
    let done = carry_out(&api, options.verb, naming, &mut out);
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

/// What is about the cluster, and the node's part in it.
fn of_cluster(api: &Api, verb: ClusterVerb, naming: Naming, out: &mut impl Write) -> Done {
    let resolved = |names| Naming { names, ..naming };
    let [binary, gossip] = ["native_transport", "gossiping"].map(|name| ["storage_service", name]);
    match verb {
        ClusterVerb::Describecluster => cluster::describe_cluster(api, naming, out),
        ClusterVerb::Describering { keyspace } => {
            cluster::describe_ring(api, &keyspace, naming, out)
        }
        ClusterVerb::Disablebinary => api.delete(binary, &[]).map(drop),
        ClusterVerb::Disablegossip => api.delete(gossip, &[]).map(drop),
        ClusterVerb::Enablebinary => api.post(binary, &[]).map(drop),
        ClusterVerb::Enablegossip => api.post(gossip, &[]).map(drop),
        ClusterVerb::Failuredetector => cluster::failure_detector(api, naming, out),
        ClusterVerb::Getendpoints { arguments } => {
            let [keyspace, table, key] = &arguments[..] else {
                let message = "getendpoints requires keyspace, table and partition key arguments";
                return Err(NodetoolError::Usage(message.to_owned()));
            };
            cluster::get_endpoints(api, [keyspace, table, key], naming, out)
        }
        ClusterVerb::Gossipinfo { resolve_ip } => {
            cluster::gossip_info(api, resolved(resolve_ip), out)
        }
        ClusterVerb::Netstats { .. } => activity::net_stats(api, out),
        ClusterVerb::Proxyhistograms => activity::proxy_histograms(api, out),
        ClusterVerb::Ring {
            keyspace,
            resolve_ip,
        } => cluster::ring(api, keyspace.as_deref(), resolved(resolve_ip), out),
        ClusterVerb::Status {
            keyspace,
            resolve_ip,
        } => cluster::status(api, keyspace.as_deref(), resolved(resolve_ip), out),
        ClusterVerb::Statusbinary => node::status_of(api, "native_transport", out),
        ClusterVerb::Statusgossip => node::status_of(api, "gossiping", out),
        ClusterVerb::Tpstats { format } => activity::tp_stats(api, format, out),
    }
}

/// What is about hints.
fn of_hints(api: &Api, verb: HintVerb, out: &mut impl Write) -> Done {
    match verb {
        HintVerb::Disablehandoff => hints::enable(api, false),
        HintVerb::Enablehandoff => hints::enable(api, true),
        HintVerb::Getmaxhintwindow => hints::get_window(api, out),
        HintVerb::Listpendinghints => hints::list_pending(api, out),
        HintVerb::Pausehandoff => hints::pause(api, true),
        HintVerb::Resumehandoff => hints::pause(api, false),
        HintVerb::Setmaxhintwindow { value } => hints::set_window(api, value),
        HintVerb::Statushandoff => hints::status(api, out),
        HintVerb::Truncatehints { endpoint } => hints::truncate(api, endpoint.as_deref()),
    }
}

/// Verbs that Cassandra has begun when it learns that there is no such table.
fn looks_late(verb: &Verb) -> bool {
    matches!(
        verb,
        Verb::Cleanup { .. }
            | Verb::Compact(_)
            | Verb::Flush(_)
            | Verb::Garbagecollect { .. }
            | Verb::Scrub { .. }
            | Verb::Upgradesstables { .. }
            | Verb::Verify { .. }
    )
}

fn carry_out(api: &Api, verb: Verb, naming: Naming, out: &mut impl Write) -> Done {
    let looks_late = looks_late(&verb);
    do_it(api, verb, naming, out).map_err(|error| match error {
        NodetoolError::Refused(reason)
            if looks_late && reason.starts_with("Unknown keyspace/cf pair") =>
        {
            NodetoolError::Failed(reason)
        }
        error => error,
    })
}

fn do_it(api: &Api, verb: Verb, naming: Naming, out: &mut impl Write) -> Done {
    match verb {
        Verb::Cluster(verb) => of_cluster(api, verb, naming, out),
        Verb::Hints(verb) => of_hints(api, verb, out),
        Verb::Settings(verb) => settings::carry_out(api, verb, out),
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
        Verb::Info { tokens } => node::info(api, tokens, out),
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
        Verb::Statusautocompaction { all, tables } => {
            compaction::status_auto(api, tables.named(), all, out)
        }
        Verb::Statusbackup => snapshots::status_backups(api, out),
        Verb::Stop {
            compaction_id,
            kind,
        } => compaction::stop(api, kind.as_deref(), compaction_id.as_deref()),
        Verb::Tablehistograms { names } => histograms::table_histograms(api, &names, out),
        Verb::Tablestats(options) => statistics::table_stats(api, &options, out),
        Verb::Upgradesstables {
            include_all_sstables,
            max_timestamp,
            tables,
            ..
        } => compaction::upgrade(api, tables.named(), include_all_sstables, max_timestamp),
        Verb::Verify { tables, how } => compaction::verify(api, tables.named(), how),
        Verb::Version { verbose } => node::version(api, verbose, out),
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
