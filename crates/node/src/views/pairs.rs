//! Which replica of a view gets what a replica of its table derives.

use cluster::{NodeId, Placement, Replicas};
use model::Token;
use smallvec::SmallVec;

/// The nodes that one replica of a table tells.
pub(super) type Told = SmallVec<[NodeId; 1]>;

/// Whom the node `own`, which has the partition of the table at `base`, tells of what the view has at `view`
/// (`ViewUtils.getViewNaturalEndpoint`): itself, if it has that too, else the one at its own place among those that
/// have only the one and those that have only the other, in its data centre where each has its own. So each
/// replica of the view hears of one of the table, all that this one derives and nothing else: it follows that
/// one's history, and is right as soon as that one is. Where replicas move it may tell more of them; where no
/// place fits, it tells all.
pub(super) fn told_by(
    own: NodeId,
    placement: &Placement,
    (base, view): (Token, Token),
    data_center_of: impl Fn(NodeId) -> Option<String>,
) -> Told {
    let (of_base, of_view) = (placement.replicas(base), placement.replicas(view));
    if !of_base.natural.contains(&own) && !of_base.pending.contains(&own) {
        return Told::new();
    }
    let mut told = Told::new();
    if of_view.natural.contains(&own) {
        told.push(own);
    } else {
        let here = data_center_of(own);
        let only = |those: &Replicas, others: &Replicas| -> Vec<NodeId> {
            let only = those.natural.iter().copied();
            let only = only.filter(|node| !others.natural.contains(node));
            only.filter(|node| data_center_of(*node) == here).collect()
        };
        let (of_base_only, of_view_only) = (only(of_base, of_view), only(of_view, of_base));
        let place = of_base_only.iter().position(|node| *node == own);
        match place.and_then(|place| of_view_only.get(place)) {
            Some(paired) => told.push(*paired),
            None => told.extend_from_slice(&of_view.natural),
        }
    }
    for node in &of_view.pending {
        if !told.contains(node) {
            told.push(*node);
        }
    }
    told
}
