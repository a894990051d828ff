//! What nodes ask each other to form a cluster and to change what it agrees on
//! ([`wire::internode::Verb::Membership`]), as JSON: it is rare, and small.

use std::net::SocketAddr;

use cluster::{ClusterIdentity, EntryRefused, MetadataEntry, Node, NodeId, Standing};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::report::NodeReport;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Do you know of a cluster? This is how the one who asks stands, and where it is.
    Standing(SocketAddr, Standing),
    /// Have this node registered, and say who it is.
    Introduce(Node),
    /// Have this decided, if you lead.
    Propose(MetadataEntry),
    /// Which epoch must I know to know all that is decided by now? For who leads.
    Decided,
    /// Forget all rows of the table of this id.
    Truncate(Uuid),
    /// Answer when you know this epoch.
    Reach(u64),
    /// How are you? For those who operate the node that asks.
    Report,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// How I stand.
    Standing(Standing),
    /// Your id, and the cluster that it is of.
    Introduced(NodeId, ClusterIdentity),
    /// It was decided, as this epoch; and was it taken?
    Decided(u64, Result<(), EntryRefused>),
    /// I do not lead; this one does, if any.
    NotLeader(Option<NodeId>),
    /// It is so.
    Done,
    /// So I am.
    Report(NodeReport),
    /// No, and why.
    Refused(String),
}

/// As it is sent.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Nothing in them has keys that are no texts, and nothing else can fail.
    serde_json::to_vec(message).expect("a message that JSON can say")
}

/// What was sent.
///
/// # Errors
/// It is none that this version knows; in words.
pub(crate) fn decode<'m, M: Deserialize<'m>>(bytes: &'m [u8]) -> Result<M, String> {
    let message = serde_json::from_slice(bytes);
    message.map_err(|error| format!("a message between nodes that is unknown here: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_asked_is_understood() {
        let address: SocketAddr = "127.0.0.2:7000".parse().expect("an address");
        let creator = address;
        for question in [
            Question::Standing(address, Standing::Looking { creator }),
            Question::Standing(address, Standing::Member),
            Question::Decided,
            Question::Reach(7),
            Question::Report,
        ] {
            assert_eq!(decode(&encode(&question)), Ok(question));
        }
        for reply in [
            Reply::Decided(3, Err(EntryRefused::NoCluster)),
            Reply::NotLeader(Some(NodeId(2))),
            Reply::Report(NodeReport {
                load: 1 << 40,
                schema_version: uuid::Uuid::from_u128(7),
                generation: -1,
                serves_clients: true,
            }),
            Reply::Refused("no".to_owned()),
        ] {
            assert_eq!(decode(&encode(&reply)), Ok(reply));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode::<Question>(&bytes);
            let _ = decode::<Reply>(&bytes);
        }
    }
}
