//! What all nodes of a cluster agree on, and how it changes.
//!
//! The metadata is a value that the entries of one log change, one after the other: whoever has
//! applied the same entries has the same metadata. The number of the last of them is its epoch. An entry that
//! does not fit what it meets is refused, everywhere alike, and changes nothing but the epoch; who
//! proposed it is told why.
//!
//! The schema is not in it but lies in the tables of `system_schema`: an entry brings the mutations of
//! those tables, made by the node that was asked for the change from the schema as of an epoch. If
//! another change came in between, it is refused and made anew. So no node has to make of a statement
//! what another one made of it, and nodes of two versions have the same schema.
//!
//! Entries and metadata are written as JSON. What an older version does not know of is left out
//! where it is a field; an entry of a kind that it does not know is an error, so new kinds are proposed only
//! when every member knows them ([`crate::Node::protocol`]).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Rejected, Topology, Transformation};

/// What all nodes agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMetadata {
    epoch: u64,
    identity: Option<ClusterIdentity>,
    topology: Topology,
    schema_epoch: u64,
    /// Of the latest of those changes of the schema that said theirs.
    #[serde(default)]
    schema_timestamp: Option<i64>,
    keyspaces: u32,
    /// The last changes of the schema that were taken: who was not told proposes them again.
    #[serde(default)]
    recent: VecDeque<Uuid>,
}

/// How many changes of the schema are remembered: more than are under way at any time.
const RECENT: usize = 64;

/// Which cluster it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterIdentity {
    /// Chosen when it began: two clusters of one name do not talk to each other.
    pub id: Uuid,
    /// Its name.
    pub name: String,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetadataEntry {
    /// The cluster begins.
    Create(ClusterIdentity),
    /// Who its nodes are, and what they own, changes.
    Topology(Transformation),
    /// The schema changes.
    Schema(SchemaEntry),
}

/// A change of the schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaEntry {
    /// Chosen by who proposes it, to be taken once however often it comes.
    pub id: Uuid,
    /// The epoch of the schema that it was made from ([`ClusterMetadata::schema_epoch`]).
    pub base: u64,
    /// What changes in the tables of `system_schema`, each as a mutation on its own is encoded.
    pub mutations: Vec<Vec<u8>>,
    /// The latest timestamp in the mutations, of what is written or deleted, in microseconds since 1970:
    /// later than that of any change that was taken before. `None`: there are none, or an older version
    /// made it.
    #[serde(default)]
    pub timestamp: Option<i64>,
    /// What clients are told, as an EVENT of the native protocol.
    pub event: Vec<u8>,
    /// How many keyspaces of users there are with it.
    pub keyspaces: u32,
}

/// Why an entry changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum EntryRefused {
    /// It does not fit the topology.
    #[error(transparent)]
    Topology(#[from] Rejected),
    /// Another change of the schema came first.
    #[error("the schema has changed since epoch {base}")]
    SchemaChanged {
        /// The epoch of the schema that the change was made from.
        base: u64,
    },
    /// A node without data would own some of what others have.
    #[error(
        "the cluster holds {keyspaces} keyspaces: this version lets nodes join only before there \
         are any"
    )]
    HoldsData {
        /// How many.
        keyspaces: u32,
    },
    /// The cluster is there already.
    #[error("the cluster `{0}` is there already")]
    Exists(String),
    /// There is no cluster yet.
    #[error("there is no cluster yet")]
    NoCluster,
}

/// The bytes are no entry and no metadata, or those of a version that is unknown here.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// They cannot be read.
    #[error("cluster metadata that this version cannot read ({0}): upgrade this node")]
    Unreadable(#[from] serde_json::Error),
    /// They say what cannot be.
    #[error("damaged cluster metadata: it has {0}")]
    Unsound(&'static str),
}

impl ClusterMetadata {
    /// How many entries it comes from.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Which cluster it is; `None` before there is one.
    pub fn identity(&self) -> Option<&ClusterIdentity> {
        self.identity.as_ref()
    }

    /// Who its nodes are.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The epoch in which the schema changed last.
    pub fn schema_epoch(&self) -> u64 {
        self.schema_epoch
    }

    /// The latest timestamp of any change of the schema, deletions too, in microseconds since 1970: what
    /// the schema of this epoch does not have was deleted then or before. `None`: not known, as of
    /// changes that an older version made.
    pub fn schema_timestamp(&self) -> Option<i64> {
        self.schema_timestamp
    }

    /// How many keyspaces of users there are, of which the nodes may hold data.
    pub fn keyspaces(&self) -> u32 {
        self.keyspaces
    }

    /// The metadata after the entry of this number, and whether that was refused.
    ///
    /// # Panics
    /// If entries are left out or come twice: their numbers rise.
    pub fn apply(
        &self,
        epoch: u64,
        entry: &MetadataEntry,
    ) -> (ClusterMetadata, Result<(), EntryRefused>) {
        assert!(epoch > self.epoch, "entry {epoch} after {}", self.epoch);
        let mut next = self.clone();
        let applied = next.change(epoch, entry);
        next.epoch = epoch;
        (next, applied)
    }

    /// Nothing changes if it is refused.
    fn change(&mut self, epoch: u64, entry: &MetadataEntry) -> Result<(), EntryRefused> {
        match (entry, &self.identity) {
            (MetadataEntry::Create(_), Some(own)) => {
                return Err(EntryRefused::Exists(own.name.clone()));
            }
            (MetadataEntry::Create(identity), None) => self.identity = Some(identity.clone()),
            (_, None) => return Err(EntryRefused::NoCluster),
            (MetadataEntry::Topology(transformation), Some(_)) => self.transform(transformation)?,
            (MetadataEntry::Schema(change), Some(_)) if self.recent.contains(&change.id) => {}
            (MetadataEntry::Schema(change), Some(_)) => {
                if change.base != self.schema_epoch {
                    let base = change.base;
                    return Err(EntryRefused::SchemaChanged { base });
                }
                self.schema_epoch = epoch;
                self.schema_timestamp = self.schema_timestamp.max(change.timestamp);
                self.keyspaces = change.keyspaces;
                self.recent.push_back(change.id);
                if self.recent.len() > RECENT {
                    self.recent.pop_front();
                }
            }
        }
        Ok(())
    }

    fn transform(&mut self, transformation: &Transformation) -> Result<(), EntryRefused> {
        let first = self.topology.joined().next().is_none();
        if matches!(transformation, Transformation::JoinEmpty(..)) && !first && self.keyspaces > 0 {
            let keyspaces = self.keyspaces;
            return Err(EntryRefused::HoldsData { keyspaces });
        }
        self.topology = self.topology.apply(transformation)?;
        Ok(())
    }

    /// For a snapshot.
    pub fn encode(&self) -> Vec<u8> {
        json(self)
    }

    /// Of a snapshot.
    ///
    /// # Errors
    /// It was made by a newer version, or is damaged.
    pub fn decode(bytes: &[u8]) -> Result<ClusterMetadata, MetadataError> {
        let metadata: ClusterMetadata = serde_json::from_slice(bytes)?;
        let checked = metadata.topology.check();
        checked.map_err(MetadataError::Unsound)?;
        Ok(metadata)
    }
}

impl MetadataEntry {
    /// For the log.
    pub fn encode(&self) -> Vec<u8> {
        json(self)
    }

    /// Of the log.
    ///
    /// # Errors
    /// It was made by a newer version, or is damaged.
    pub fn decode(bytes: &[u8]) -> Result<MetadataEntry, MetadataError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

impl std::fmt::Display for MetadataEntry {
    /// What kind of entry it is: all of it is too long for a log file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MetadataEntry::Create(identity) => write!(f, "the cluster `{}` begins", identity.name),
            MetadataEntry::Topology(_) => f.write_str("the topology changes"),
            MetadataEntry::Schema(change) => {
                write!(f, "the schema of epoch {} changes", change.base)
            }
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value)
        .expect("its maps have keys that are numbers, and nothing else can fail")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::net::SocketAddr;

    use model::Token;

    use super::*;
    use crate::{Change, Node, NodeId, Phase, Place};

    fn node(number: u8) -> Node {
        let address = |port| SocketAddr::from(([127, 0, 0, number], port));
        Node {
            host_id: Uuid::from_u128(number.into()),
            address: address(7000),
            native_address: address(9042),
            place: Place {
                datacenter: "dc".to_owned(),
                rack: "r1".to_owned(),
            },
            shards: 2,
            release: "5.0.6".to_owned(),
            protocol: 1,
        }
    }

    fn tokens(of: u8) -> BTreeSet<Token> {
        (0..3).map(|n| Token(i64::from(of) * 100 + n)).collect()
    }

    fn create(name: &str) -> MetadataEntry {
        MetadataEntry::Create(ClusterIdentity {
            id: Uuid::from_u128(7),
            name: name.to_owned(),
        })
    }

    fn schema(base: u64, keyspaces: u32) -> MetadataEntry {
        MetadataEntry::Schema(SchemaEntry {
            id: Uuid::from_u128(u128::from(base) << 32 | u128::from(keyspaces)),
            base,
            mutations: vec![vec![1, 2, 3], vec![0, 255]],
            timestamp: Some(1000 + base as i64),
            event: vec![9],
            keyspaces,
        })
    }

    fn topology(transformation: Transformation) -> MetadataEntry {
        MetadataEntry::Topology(transformation)
    }

    /// Applies entries, each of which has to be taken.
    fn after(entries: &[MetadataEntry]) -> ClusterMetadata {
        let mut metadata = ClusterMetadata::default();
        for (entry, epoch) in entries.iter().zip(1..) {
            let (next, taken) = metadata.apply(epoch, entry);
            assert_eq!(taken, Ok(()), "{entry:?}");
            metadata = next;
        }
        metadata
    }

    fn refused(metadata: &ClusterMetadata, entry: &MetadataEntry) -> EntryRefused {
        let epoch = metadata.epoch() + 1;
        let (next, refused) = metadata.apply(epoch, entry);
        let unchanged = ClusterMetadata {
            epoch,
            ..metadata.clone()
        };
        assert_eq!(next, unchanged);
        refused.expect_err("it does not fit")
    }

    #[test]
    fn nothing_happens_before_the_cluster_is_there() {
        let entry = topology(Transformation::Register(node(1)));
        let none = ClusterMetadata::default();
        assert_eq!(refused(&none, &entry), EntryRefused::NoCluster);
        let metadata = after(&[create("Test")]);
        let again = refused(&metadata, &create("Prod"));
        assert_eq!(again, EntryRefused::Exists("Test".to_owned()));
    }

    #[test]
    fn of_two_changes_of_one_schema_the_first_is_made() {
        let metadata = after(&[create("Test"), schema(0, 1)]);
        assert_eq!(metadata.schema_epoch(), 2);
        let base = 0;
        let second = refused(&metadata, &schema(base, 2));
        assert_eq!(second, EntryRefused::SchemaChanged { base });
        let (anew, taken) = metadata.apply(5, &schema(2, 2));
        assert_eq!((anew.schema_epoch(), taken), (5, Ok(())));
    }

    #[test]
    fn a_change_that_comes_again_is_made_once() {
        let metadata = after(&[create("Test"), schema(0, 1), schema(2, 2)]);
        let (again, taken) = metadata.apply(4, &schema(0, 1));
        assert_eq!((again.schema_epoch(), taken), (3, Ok(())));
        let mut metadata = again;
        for epoch in 5..5 + RECENT as u64 {
            metadata = metadata.apply(epoch, &schema(metadata.schema_epoch(), 3)).0;
        }
        assert_eq!(metadata.recent.len(), RECENT);
        let base = 0;
        let late = refused(&metadata, &schema(base, 1));
        assert_eq!(late, EntryRefused::SchemaChanged { base });
    }

    #[test]
    fn the_latest_timestamp_of_the_schema_is_that_of_what_was_taken() {
        let metadata = after(&[create("Test"), schema(0, 1), schema(2, 2)]);
        assert_eq!(metadata.schema_timestamp(), Some(1002));
        for (base, timestamp, latest) in [
            (0, Some(5000), Some(1002)),
            (3, None, Some(1002)),
            (3, Some(7), Some(1002)),
            (3, Some(5000), Some(5000)),
        ] {
            let MetadataEntry::Schema(change) = schema(base, 9) else {
                panic!("it is a change of the schema");
            };
            let change = SchemaEntry {
                timestamp,
                ..change
            };
            let next = metadata.apply(4, &MetadataEntry::Schema(change)).0;
            assert_eq!(next.schema_timestamp(), latest);
        }
    }

    /// What nodes have on their drives, and send in an upgrade.
    #[test]
    fn what_older_versions_wrote_has_no_timestamp() {
        let written = String::from_utf8(schema(0, 1).encode()).expect("JSON is text");
        let older = written.replace("\"timestamp\":1000,", "");
        assert_ne!(older, written);
        let entry = MetadataEntry::decode(older.as_bytes()).expect("it was valid then");
        let metadata = after(&[create("Test"), entry]);
        assert_eq!(metadata.schema_timestamp(), None);
        let written = String::from_utf8(metadata.encode()).expect("JSON is text");
        let older = written.replace("\"schema_timestamp\":null,", "");
        assert_ne!(older, written);
        let read = ClusterMetadata::decode(older.as_bytes()).expect("it was valid then");
        assert_eq!(read, metadata);
    }

    #[test]
    fn who_has_no_data_joins_only_before_there_is_any() {
        let metadata = after(&[
            create("Test"),
            schema(0, 4),
            topology(Transformation::Register(node(1))),
            // The one that brings the data.
            topology(Transformation::JoinEmpty(NodeId(0), tokens(1))),
            topology(Transformation::Register(node(2))),
        ]);
        let join = topology(Transformation::JoinEmpty(NodeId(1), tokens(2)));
        let keyspaces = 4;
        assert_eq!(
            refused(&metadata, &join),
            EntryRefused::HoldsData { keyspaces }
        );
        let entries = [schema(2, 0), join];
        let (metadata, dropped) = metadata.apply(6, &entries[0]);
        assert_eq!(
            (dropped, metadata.apply(7, &entries[1]).1),
            (Ok(()), Ok(()))
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let changes = BTreeMap::from([
            (NodeId(2), Change::Join(tokens(3))),
            (NodeId(0), Change::Move(tokens(9))),
            (NodeId(1), Change::Leave),
        ]);
        let entries = [
            create("Test"),
            topology(Transformation::Register(node(1))),
            topology(Transformation::JoinEmpty(NodeId(0), tokens(1))),
            topology(Transformation::Register(node(2))),
            topology(Transformation::JoinEmpty(NodeId(1), tokens(2))),
            topology(Transformation::Register(node(3))),
            topology(Transformation::Update(NodeId(2), node(3))),
            topology(Transformation::Prepare(changes)),
            topology(Transformation::Advance {
                from: Phase::Prepared,
            }),
            topology(Transformation::Cancel {
                from: Phase::Writing,
            }),
            topology(Transformation::Prepare(BTreeMap::from([(
                NodeId(2),
                Change::Replace(NodeId(1)),
            )]))),
            schema(0, 1),
        ];
        for entry in &entries {
            let read = MetadataEntry::decode(&entry.encode()).expect("it was written here");
            assert_eq!(read, *entry);
        }
        let metadata = after(&entries);
        let read = ClusterMetadata::decode(&metadata.encode()).expect("it was written here");
        assert_eq!(read, metadata);
    }

    #[test]
    fn a_field_of_a_newer_version_is_left_out_and_a_kind_is_an_error() {
        let written = String::from_utf8(create("Test").encode()).expect("JSON is text");
        let newer = written.replace("\"name\"", "\"since\":2031,\"name\"");
        assert_ne!(newer, written);
        let read = MetadataEntry::decode(newer.as_bytes()).expect("it has what is needed");
        assert_eq!(read, create("Test"));
        let unknown = MetadataEntry::decode(br#"{"Roles":{"name":"cassandra"}}"#);
        let error = unknown.expect_err("an unknown kind").to_string();
        assert!(error.ends_with("upgrade this node"), "{error}");
    }

    #[test]
    fn a_snapshot_that_cannot_be_is_refused() {
        let metadata = after(&[
            create("Test"),
            topology(Transformation::Register(node(1))),
            topology(Transformation::JoinEmpty(NodeId(0), tokens(1))),
        ]);
        let written = String::from_utf8(metadata.encode()).expect("JSON is text");
        for (what, instead) in [
            ("[100,101,102]", "[]"),
            ("\"next_id\":1", "\"next_id\":0"),
            ("\"Joined\"", "\"Registered\""),
        ] {
            let damaged = written.replace(what, instead);
            assert_ne!(damaged, written, "{what}");
            let read = ClusterMetadata::decode(damaged.as_bytes());
            assert!(
                matches!(read, Err(MetadataError::Unsound(_))),
                "{instead}: {read:?}"
            );
        }
    }
}
