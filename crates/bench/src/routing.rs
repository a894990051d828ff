//! To which connection of which node a request goes. The driver's own policy knows each key's replicas
//! and the shard of each that has it; here it is made to know less.
//!
//! The policy does not change which connections there are.

use std::sync::Arc;

use scylla::cluster::{ClusterState, NodeRef};
use scylla::policies::load_balancing::{
    DefaultPolicy, FallbackPlan, LoadBalancingPolicy, RoutingInfo,
};
use scylla::routing::Shard;

use crate::options::Routing;

/// The driver's policy for this routing.
pub(crate) fn policy(routing: Routing) -> Arc<dyn LoadBalancingPolicy> {
    let token_aware = routing != Routing::RandomNode;
    let nodes = DefaultPolicy::builder().token_aware(token_aware).build();
    match routing {
        Routing::Shard => nodes,
        Routing::AnyShard | Routing::RandomNode => Arc::new(AnyShard { nodes }),
    }
}

/// The nodes of another policy, each with a random shard.
#[derive(Debug)]
struct AnyShard {
    nodes: Arc<dyn LoadBalancingPolicy>,
}

impl LoadBalancingPolicy for AnyShard {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        self.nodes.pick(request, cluster).map(forget_shard)
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        Box::new(self.nodes.fallback(request, cluster).map(forget_shard))
    }

    fn name(&self) -> String {
        format!("AnyShard of {}", self.nodes.name())
    }
}

/// Where a policy names no shard, the driver draws one of the node's, all alike.
fn forget_shard<Node>((node, _): (Node, Option<Shard>)) -> (Node, Option<Shard>) {
    (node, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A ClusterState cannot be made outside the driver, so what the policies do with one is not tested here.

    #[test]
    fn the_node_stays_and_its_shard_is_forgotten() {
        let plan = [("a", Some(3)), ("b", None), ("c", Some(0))];
        let forgotten = plan.map(forget_shard);
        assert_eq!(forgotten, [("a", None), ("b", None), ("c", None)]);
    }

    #[test]
    fn only_the_drivers_own_policy_knows_shards() {
        let names = [Routing::Shard, Routing::AnyShard, Routing::RandomNode]
            .map(|routing| policy(routing).name());
        assert_eq!(names[0], DefaultPolicy::default().name());
        assert!(names[1..].iter().all(|name| name.starts_with("AnyShard")));
    }
}
