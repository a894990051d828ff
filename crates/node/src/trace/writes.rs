//! What a trace says of writes (`StorageProxy.mutate`, `Keyspace.apply`, `CounterMutation`,
//! `TruncateVerbHandler`).

use cluster::NodeId;
use model::{Mutation, Table};

use super::Trace;

impl Trace {
    /// Another node has this one write.
    pub(crate) fn asked_to_write(&self, mutation: &Mutation) {
        self.asked("MUTATION_REQ");
        self.applying(mutation);
    }

    /// This node begins to apply a write as a replica.
    pub(crate) fn applying(&self, mutation: &Mutation) {
        self.event("Appending to commitlog");
        let metadata = self.shard.metadata();
        for update in &mutation.updates {
            let table = &update.table;
            if metadata.views_of(table.id).is_some() {
                self.event("Creating materialized view mutations from base table replica");
            }
            self.event(format!("Adding to {} memtable", table.name));
        }
    }

    /// This node begins to add to counters as the replica that leads.
    pub(crate) fn leading(&self, addition: &Mutation) {
        self.event("Acquiring counter locks");
        self.applying(addition);
    }

    /// All nodes truncate a table, this one too.
    pub(crate) fn truncating(&self, table: &Table) {
        let metadata = self.shard.metadata();
        for node in metadata.others() {
            self.sending("TRUNCATE_REQ", node);
        }
        self.event(format!(
            "Applying truncation of {}.{}",
            table.keyspace, table.name
        ));
    }

    /// A logged batch is kept by these.
    pub(crate) fn keeping(&self, holders: &[NodeId]) {
        let own = self.shard.metadata().own();
        for holder in holders {
            if *holder == own {
                self.event("Appending to commitlog");
                self.event("Adding to batches memtable");
            } else {
                self.sending("BATCH_STORE_REQ", *holder);
            }
        }
    }
}
