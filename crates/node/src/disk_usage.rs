//! How full the drives of nodes are: each looks at its own from time to time and tells the others by gossip, and
//! who coordinates a write looks at what its replicas have told (`DiskUsageMonitor`, `DiskUsageBroadcaster`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{ApplicationState, NodeId};
use cql::CqlError;
use cql::guardrails::{DiskUsage, DiskUsageNotices, Guardrails, LocalDiskUsage, check_replica};
use io::{DirEntry, Env};

use crate::config::NodeConfig;
use crate::membership::ClusterService;
use crate::report;
use crate::shard::Shard;
use crate::start::StartError;

/// How often a node looks at its drive (`cassandra.disk_usage.monitor_interval_ms`).
const LOOK: Duration = Duration::from_secs(30);

/// What a shard knows of how full the drives of nodes are, its own included.
#[derive(Default)]
pub(crate) struct DiskUsages {
    /// Those where there is not much room.
    known: RefCell<Arc<BTreeMap<NodeId, DiskUsage>>>,
    notices: Cell<DiskUsageNotices>,
}

impl DiskUsages {
    /// Is there room everywhere?
    pub(crate) fn are_spacious(&self) -> bool {
        self.known.borrow().is_empty()
    }

    /// These have not much room, all others have.
    pub(crate) fn set(&self, known: Arc<BTreeMap<NodeId, DiskUsage>>) {
        *self.known.borrow_mut() = known;
    }

    /// Warns of a write to a replica, or refuses it, by how full its drive is. `now` in microseconds since 1970.
    pub(crate) fn check(
        &self,
        replica: NodeId,
        now: i64,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let known = self.known.borrow();
        let usage = known.get(&replica).copied().unwrap_or(DiskUsage::Spacious);
        let mut notices = self.notices.get();
        let checked = check_replica(usage, (&mut notices, now), warnings);
        self.notices.set(notices);
        checked
    }
}

/// Looks at the drive of this node for as long as it runs, if an operator has said how full it may be, tells the
/// others and, where there is not much room, the log. On shard 0.
pub(crate) async fn watch(service: Rc<ClusterService>, shard: Rc<Shard>) {
    let Some(guardrails) = shard.state.config.guardrails.clone() else {
        return;
    };
    if guardrails.local_disk_usage(0).is_none() {
        return;
    }
    let mut notices = DiskUsageNotices::default();
    while !shard.stopping.get() {
        match used_percentage(&shard, &guardrails).await {
            Ok(percentage) => {
                if let Some(local) = guardrails.local_disk_usage(percentage) {
                    let due = notices.are_due(local.usage, shard.env.wall_micros());
                    log(&local, due);
                    // Again, though it may be as before: a node that has started since learns it now.
                    service.tell(ApplicationState::DiskUsage, local.usage.name());
                }
            }
            Err(error) => tracing::warn!("looking at how full the drive is: {error}"),
        }
        shard.env.sleep(LOOK).await;
    }
}

/// Refuses a drive that is taken to be larger than it is (`GuardrailsOptions.validateDataDiskUsageMaxDiskSize`).
pub(crate) async fn check_max_size(env: &Env, config: &NodeConfig) -> Result<(), StartError> {
    let guardrails = config.guardrails.as_deref();
    let Some(specified) = guardrails.and_then(Guardrails::max_disk_size) else {
        return Ok(());
    };
    match env.total_space(&config.sstables).await {
        Ok(available) if available < specified => Err(StartError::MaxDiskSize {
            specified,
            available,
        }),
        // If the system does not tell, the drive is taken to be large enough.
        _ => Ok(()),
    }
}

fn log(local: &LocalDiskUsage, due: bool) {
    match (&local.message, local.usage) {
        (Some(message), DiskUsage::Full) if due => tracing::error!("{message}"),
        (Some(message), _) if due => tracing::warn!("{message}"),
        _ => {}
    }
}

/// How much of a hundred is used of what data and free space take together. What is in memtables is as good as
/// written (`DiskUsageMonitor.getDiskUsage`).
async fn used_percentage(shard: &Rc<Shard>, guardrails: &Guardrails) -> Result<u64, String> {
    let folder = &shard.state.config.sstables;
    let words = |error: std::io::Error| format!("{}: {error}", folder.display());
    let free = shard.env.available_space(folder).await.map_err(words)?;
    let written = size_of(&shard.env, folder).await.map_err(words)?;
    let stores = report::stores(shard).await?;
    let in_memory: u64 = stores.iter().map(|store| store.memtable_bytes).sum();
    Ok(percentage(
        (written, in_memory),
        free,
        guardrails.max_disk_size(),
    ))
}

/// Rounded up, as Cassandra has it.
fn percentage((written, in_memory): (u64, u64), free: u64, most: Option<u64>) -> u64 {
    let total = written.saturating_add(free).min(most.unwrap_or(u64::MAX));
    let used = u128::from(written) + u128::from(in_memory);
    let percentage = (used * 100).div_ceil(u128::from(total.max(1)));
    u64::try_from(percentage).unwrap_or(u64::MAX)
}

/// Bytes of all files below a folder, as far as they stay while it is looked at.
async fn size_of(env: &Env, folder: &Path) -> std::io::Result<u64> {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let mut bytes = 0_u64;
    while let Some(folder) = folders.pop() {
        let entries = match env.read_dir(&folder).await {
            Ok(entries) => entries,
            Err(error) if is_of_no_account(&error) => continue,
            Err(error) => return Err(error),
        };
        for DirEntry {
            name, is_dir, len, ..
        } in entries
        {
            match is_dir {
                true => folders.push(folder.join(name)),
                false => bytes = bytes.saturating_add(len),
            }
        }
        env.maybe_yield().await;
    }
    Ok(bytes)
}

/// Of what has gone meanwhile, or is not the node's, as the `lost+found` of a mounted drive.
fn is_of_no_account(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_counted_of_data_and_free_space() {
        assert_eq!(percentage((0, 0), 1000, None), 0);
        assert_eq!(percentage((1, 0), 999, None), 1);
        assert_eq!(percentage((500, 0), 500, None), 50);
        assert_eq!(percentage((500, 1), 500, None), 51);
        assert_eq!(percentage((500, 500), 500, None), 100);
        assert_eq!(percentage((500, 0), 500, Some(200)), 250);
        assert_eq!(percentage((500, 0), 500, Some(5000)), 50);
        assert_eq!(percentage((0, 0), 0, None), 0);
        let all = u64::MAX;
        assert_eq!(percentage((all, all), all, None), 200);
    }

    #[test]
    fn replicas_without_room_are_refused() {
        let usages = DiskUsages::default();
        assert!(usages.are_spacious());
        let known = [
            (NodeId(1), DiskUsage::Stuffed),
            (NodeId(2), DiskUsage::Full),
        ];
        usages.set(Arc::new(known.into()));
        let check = |node, now| {
            let mut warnings = Vec::new();
            let refused = usages.check(NodeId(node), now, &mut warnings).is_err();
            (refused, warnings.len())
        };
        assert!(!usages.are_spacious());
        assert_eq!(check(0, 0), (false, 0));
        assert_eq!(check(1, 0), (false, 1));
        assert_eq!(check(1, 1), (false, 0), "once in a while is enough");
        assert_eq!(check(2, 1), (true, 1));
        assert_eq!(check(2, 2), (true, 0));
    }
}
