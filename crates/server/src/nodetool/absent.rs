//! The verbs of Cassandra's nodetool that are not here, and why: a script that uses one is told so, and people
//! do not take it for a slip of their fingers.

/// A verb that is not here.
struct Absent {
    names: &'static [&'static str],
    reason: &'static str,
}

const MOVING: &str = "Helenus does not move data between nodes yet";
const USERS: &str = "Helenus has no users and permissions yet";
const AUDIT: &str = "Helenus does not log queries and logins yet";
const INDEXES: &str = "Helenus has no indexes yet";
const VIEWS: &str = "not yet; system_distributed.view_build_status and system_views.sstable_tasks say how far views are";
const HINTS: &str = "hints are not limited by data centre or by rate yet";
const WATCHING: &str = "Helenus does not sample what clients do yet; /metrics counts it";
const JVM: &str = "there is no JVM; /metrics has what the process does";
const THREADS: &str = "it has no meaning here: a shard has a core, and tasks share its time";
const CACHES: &str =
    "it has no meaning here: caches share a shard's memory by themselves and are not saved";

/// By what they would need.
const ABSENT: &[Absent] = &[
    Absent {
        names: &[
            "assassinate",
            "bootstrap",
            "checktokenmetadata",
            "decommission",
            "getinterdcstreamthroughput",
            "getstreamthroughput",
            "join",
            "move",
            "rebuild",
            "removenode",
            "repair",
            "repair_admin",
            "setinterdcstreamthroughput",
            "setstreamthroughput",
        ],
        reason: MOVING,
    },
    Absent {
        names: &[
            "cidrfilteringstats",
            "dropcidrgroup",
            "getauthcacheconfig",
            "getcidrgroupsofip",
            "invalidatecidrpermissionscache",
            "invalidatecredentialscache",
            "invalidatejmxpermissionscache",
            "invalidatenetworkpermissionscache",
            "invalidatepermissionscache",
            "invalidaterolescache",
            "listcidrgroups",
            "reloadcidrgroupscache",
            "setauthcacheconfig",
            "updatecidrgroup",
        ],
        reason: USERS,
    },
    Absent {
        names: &[
            "disableauditlog",
            "disablefullquerylog",
            "enableauditlog",
            "enablefullquerylog",
            "getauditlog",
            "getfullquerylog",
            "resetfullquerylog",
        ],
        reason: AUDIT,
    },
    Absent {
        names: &["rebuild_index"],
        reason: INDEXES,
    },
    Absent {
        names: &[
            "getconcurrentviewbuilders",
            "setconcurrentviewbuilders",
            "viewbuildstatus",
        ],
        reason: VIEWS,
    },
    Absent {
        names: &[
            "disablehintsfordc",
            "enablehintsfordc",
            "sethintedhandoffthrottlekb",
        ],
        reason: HINTS,
    },
    Absent {
        names: &["clientstats"],
        reason: "not yet; the table system_views.clients has every client",
    },
    Absent {
        names: &["profileload", "toppartitions"],
        reason: WATCHING,
    },
    Absent {
        names: &["getguardrailsconfig", "setguardrailsconfig"],
        reason: "guardrails are not configurable yet",
    },
    Absent {
        names: &["forcecompact", "recompress_sstables"],
        reason: "not yet; `compact` rewrites all sstables of a table",
    },
    Absent {
        names: &["gcstats", "sjk"],
        reason: JVM,
    },
    Absent {
        names: &[
            "getconcurrency",
            "getconcurrentcompactors",
            "setconcurrency",
            "setconcurrentcompactors",
        ],
        reason: THREADS,
    },
    Absent {
        names: &[
            "invalidatecountercache",
            "invalidatekeycache",
            "setcachecapacity",
            "setcachekeystosave",
        ],
        reason: CACHES,
    },
    Absent {
        names: &["getsnapshotthrottle", "setsnapshotthrottle"],
        reason: "it has no meaning here: links are made as fast as clients let them be",
    },
    Absent {
        names: &["getcolumnindexsize", "setcolumnindexsize"],
        reason: "it has no meaning here: blocks of large partitions have the size that readers expect",
    },
    Absent {
        names: &["relocatesstables"],
        reason: "it has no meaning here: there is one data folder",
    },
    Absent {
        names: &["rangekeysample"],
        reason: "it has no meaning here: system.size_estimates says what ranges hold",
    },
    Absent {
        names: &["reloadlocalschema", "resetlocalschema"],
        reason: "it has no meaning here: all nodes have the schema that the cluster decided on",
    },
    Absent {
        names: &["disableoldprotocolversions", "enableoldprotocolversions"],
        reason: "it has no meaning here: versions 3 to 5 of the protocol are always served",
    },
    Absent {
        names: &["getdefaultrf", "setdefaultrf"],
        reason: "it has no meaning here: CREATE KEYSPACE names the replication factor",
    },
    Absent {
        names: &["setcompactionthreshold"],
        reason: "use ALTER TABLE … WITH compaction, which holds for all nodes and after a restart",
    },
    Absent {
        names: &["reloadtriggers"],
        reason: "triggers do not run here",
    },
    Absent {
        names: &["stopdaemon"],
        reason: "send the process a SIGTERM, which drains and ends it",
    },
];

/// Why there is no verb of this name, if Cassandra has it.
pub(super) fn reason(verb: &str) -> Option<&'static str> {
    let absent = ABSENT.iter().find(|absent| absent.names.contains(&verb));
    absent.map(|absent| absent.reason)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Subcommand;

    use super::*;
    use crate::nodetool::arguments::Verb;

    /// What a real 5.0.6 lists.
    const CASSANDRA: &str = include_str!("../../../../tests/data/nodetool/verbs.txt");

    #[test]
    fn every_verb_of_cassandra_is_here_or_said_not_to_be() {
        let command = Verb::augment_subcommands(clap::Command::new("nodetool"));
        let names = command.get_subcommands().map(clap::Command::get_name);
        let here: BTreeSet<&str> = names.chain(["help"]).collect();
        let absent: BTreeSet<&str> = ABSENT.iter().flat_map(|a| a.names).copied().collect();
        let all: BTreeSet<&str> = CASSANDRA.lines().collect();
        let twice: Vec<_> = here.intersection(&absent).collect();
        assert!(twice.is_empty(), "both: {twice:?}");
        let known: BTreeSet<&str> = here.union(&absent).copied().collect();
        let missing: Vec<_> = all.difference(&known).collect();
        assert!(missing.is_empty(), "neither: {missing:?}");
        let invented: Vec<_> = known.difference(&all).collect();
        assert!(invented.is_empty(), "not Cassandra's: {invented:?}");
    }
}
