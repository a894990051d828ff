//! Snapshots of the metadata: as a file, and as members send them to each other.
//!
//! ```text
//! snapshot = magic [8], crc u32 of what follows, last option (log id), membership's option (log id),
//!            membership, length u64, ClusterMetadata::encode, length u64, the schema
//! ```
//! See [`super::encoding`] for the parts. The schema is whatever the node makes of it
//! ([`super::machine::Subscriber`]).

use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use cluster::{ClusterMetadata, MetadataError};
use io::Env;
use openraft::Raft;
use openraft::errors::Fatal;
use openraft::raft::SnapshotResponse;

use super::encoding::{EncodingError, Input, put_optional_log_id, put_stored_membership};
use super::journal::{JournalError, replace_file};
use super::machine::{Machine, Subscriber};
use super::types::{LogId, Metadata, Snapshot, SnapshotMeta, StoredMembership, Vote};

/// The last byte is the version.
const MAGIC: [u8; 8] = *b"HelenuS1";
/// Bytes in front of what the checksum is of.
const HEAD: usize = 12;

/// What is in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The metadata.
    pub metadata: Rc<ClusterMetadata>,
    /// The schema as of this metadata, as the node wrote it.
    pub schema: Bytes,
}

/// Bytes that are no snapshot, or one that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// They do not begin like one of this version.
    #[error("it is no snapshot that this version knows")]
    Foreign,
    /// They changed since they were written.
    #[error("its checksum says that it is damaged")]
    Damaged,
    /// They cannot be read.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// The metadata in them cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// They contradict themselves.
    #[error("it contradicts itself: {0}")]
    Unsound(&'static str),
}

/// Why a snapshot of the drive is of no use.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFileError {
    /// The drive, or the file system, does not do what it should.
    #[error(transparent)]
    Io(#[from] JournalError),
    /// What is in the file is wrong.
    #[error(
        "the snapshot {path} of the cluster's metadata: {source}; if a newer version wrote it, start \
         that one; otherwise check the drive, then remove the node from the cluster and let it join \
         anew"
    )]
    Content {
        /// Its path.
        path: String,
        /// What is wrong with it.
        source: SnapshotError,
    },
}

/// Why a snapshot from another member was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// It cannot be one that a leader of this cluster sends.
    #[error("a snapshot from another member was refused: {0}")]
    Refused(&'static str),
    /// Raft has stopped.
    #[error(transparent)]
    Stopped(#[from] Fatal<Metadata>),
}

/// A snapshot as bytes.
pub fn encode(snapshot: &Snapshot) -> Vec<u8> {
    let Contents { metadata, schema } = &snapshot.snapshot;
    encode_parts(&snapshot.meta, metadata, schema)
}

fn encode_parts(meta: &SnapshotMeta, metadata: &ClusterMetadata, schema: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    put_optional_log_id(&mut content, meta.last_log_id);
    put_stored_membership(&mut content, &meta.last_membership);
    for part in [&*metadata.encode(), schema] {
        content.extend_from_slice(&(part.len() as u64).to_le_bytes());
        content.extend_from_slice(part);
    }
    let mut out = Vec::with_capacity(HEAD + content.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&crc32fast::hash(&content).to_le_bytes());
    out.extend_from_slice(&content);
    out
}

/// Of [`encode`].
///
/// # Errors
/// The bytes are no snapshot, or one that no member makes.
pub fn decode(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
    let bytes = bytes.strip_prefix(&MAGIC).ok_or(SnapshotError::Foreign)?;
    let split = bytes.split_first_chunk::<4>();
    let (crc, content) = split.ok_or(SnapshotError::Damaged)?;
    if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
        return Err(SnapshotError::Damaged);
    }
    let mut input = Input(content);
    let last_log_id = input.optional_log_id()?;
    let last_membership = input.stored_membership()?;
    let length = input.number("a length")?;
    let metadata = ClusterMetadata::decode(input.take(length, "the metadata")?)?;
    let length = input.number("a length")?;
    let schema = Bytes::copy_from_slice(input.take(length, "the schema")?);
    input.end()?;
    check(last_log_id, &last_membership, &metadata).map_err(SnapshotError::Unsound)?;
    let meta = SnapshotMeta {
        last_log_id,
        last_membership,
    };
    let metadata = Rc::new(metadata);
    let snapshot = Contents { metadata, schema };
    Ok(Snapshot { meta, snapshot })
}

/// Do the parts of a snapshot go together?
fn check(
    last: Option<LogId>,
    membership: &StoredMembership,
    metadata: &ClusterMetadata,
) -> Result<(), &'static str> {
    if *membership.log_id() > last {
        return Err("its membership is younger than it");
    }
    if metadata.epoch() > last.map_or(0, |last| last.index) {
        return Err("its metadata are younger than it");
    }
    if metadata.schema_epoch() > metadata.epoch() {
        return Err("its schema is younger than its metadata");
    }
    Ok(())
}

/// The snapshot in a file, if it is there.
///
/// # Errors
/// It is damaged, or the drive fails.
pub(super) async fn read(env: &Env, path: &Path) -> Result<Option<Snapshot>, SnapshotFileError> {
    let bytes = match env.read_file(path).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(JournalError::io("read", path)(error).into()),
    };
    let decoded = decode(&bytes).map_err(|source| {
        let path = path.display().to_string();
        SnapshotFileError::Content { path, source }
    });
    decoded.map(Some)
}

/// Puts a snapshot into a file, instead of what is in it; on the drive when this returns.
///
/// # Errors
/// The drive fails.
pub(super) async fn write(env: &Env, path: &Path, snapshot: &Snapshot) -> Result<(), JournalError> {
    replace_file(env, path, encode(snapshot)).await
}

/// Gives Raft a snapshot that another member sent with this vote. To be called within the shard
/// ([`super::within`]).
///
/// Raft takes it for granted that a snapshot is one of a leader that follows the protocol, and
/// panics if it is not; so what it takes for granted is looked at first
/// (`FollowingHandler::install_full_snapshot` of openraft).
///
/// # Errors
/// It is refused, or Raft has stopped.
pub async fn receive<S: Subscriber>(
    raft: &Raft<Metadata, Machine<S>>,
    vote: Vote,
    snapshot: Snapshot,
) -> Result<SnapshotResponse<Metadata>, ReceiveError> {
    let known = raft.with_raft_state(|state| state.local_committed().copied());
    let known = known.await?;
    check_received(&vote, &snapshot.meta, known).map_err(ReceiveError::Refused)?;
    Ok(raft.install_full_snapshot(vote, snapshot).await?)
}

/// Can a leader with this vote have sent this to a member who knows that all up to `known` is
/// decided?
fn check_received(
    vote: &Vote,
    meta: &SnapshotMeta,
    known: Option<LogId>,
) -> Result<(), &'static str> {
    if !vote.committed {
        return Err("who sent it does not lead");
    }
    let Some(last) = meta.last_log_id else {
        return Err("there is nothing in it");
    };
    let membership = meta.last_membership.membership();
    if meta.last_membership.log_id().is_none() || membership.get_joint_config().is_empty() {
        return Err("it has no members");
    }
    if last.leader_id.term > vote.leader_id.term {
        return Err("it is from a later term than its leader's");
    }
    match known {
        Some(known) if last > known && last.index <= known.index => {
            Err("it contradicts what is decided")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use cluster::{ClusterIdentity, MetadataEntry};
    use openraft::impls::leader_id_std::LeaderId;
    use uuid::Uuid;

    use super::super::types::{Member, Membership, log_id};
    use super::*;

    fn example() -> Snapshot {
        let address = "10.0.0.1:7000".parse().unwrap();
        let members = BTreeMap::from([(1, Member { address })]);
        let membership = Membership::new(vec![BTreeSet::from([1])], members).unwrap();
        let create = MetadataEntry::Create(ClusterIdentity {
            id: Uuid::from_u128(1),
            name: "Test".to_owned(),
        });
        let (metadata, _) = ClusterMetadata::default().apply(3, &create);
        Snapshot {
            meta: SnapshotMeta {
                last_log_id: Some(log_id(2, 4)),
                last_membership: StoredMembership::new(Some(log_id(1, 0)), membership),
            },
            snapshot: Contents {
                metadata: Rc::new(metadata),
                schema: Bytes::from_static(b"tables"),
            },
        }
    }

    #[test]
    fn what_is_written_is_read_and_every_changed_bit_is_seen() {
        let snapshot = example();
        let mut bytes = encode(&snapshot);
        let read = decode(&bytes).expect("it was written here");
        assert_eq!(
            (read.meta, read.snapshot),
            (snapshot.meta, snapshot.snapshot)
        );
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let Contents { metadata, schema } = example().snapshot;
        for (last, membership) in [(log_id(2, 2), log_id(1, 0)), (log_id(2, 4), log_id(2, 5))] {
            let mut meta = example().meta;
            meta.last_log_id = Some(last);
            let members = meta.last_membership.membership().clone();
            meta.last_membership = StoredMembership::new(Some(membership), members);
            let read = decode(&encode_parts(&meta, &metadata, &schema));
            assert!(matches!(read, Err(SnapshotError::Unsound(_))), "{read:?}");
        }
    }

    #[test]
    fn what_would_make_raft_panic_is_refused() {
        let vote = |term, committed| Vote {
            leader_id: LeaderId { term, voted_for: 1 },
            committed,
        };
        let meta = example().meta;
        let check = |vote, known| check_received(&vote, &meta, known);
        assert_eq!(check(vote(2, true), None), Ok(()));
        assert_eq!(check(vote(5, true), Some(log_id(1, 3))), Ok(()));
        assert_eq!(
            check(vote(5, true), Some(log_id(2, 9))),
            Ok(()),
            "an old one"
        );
        assert!(check(vote(2, false), None).is_err());
        assert!(check(vote(1, true), None).is_err());
        assert!(check(vote(5, true), Some(log_id(1, 4))).is_err());
        assert!(check_received(&vote(2, true), &SnapshotMeta::default(), None).is_err());
    }
}
