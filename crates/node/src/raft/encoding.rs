//! How votes, entries and memberships are written. Numbers are little-endian.
//!
//! ```text
//! log id     = term u64, index u64
//! vote       = term u64, voted for u64, committed u8
//! entry      = log id, payload u8, then nothing (0), MetadataEntry::encode (1) or membership (2)
//! membership = count u32, (count u32, id u64*)*, count u32, (id u64, address)*
//! address    = 4, ip [4], port u16 | 6, ip [16], port u16, flow u32, scope u32
//! option     = 0 | 1, what is there
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use cluster::{MetadataEntry, MetadataError};
use openraft::EntryPayload;
use openraft::impls::leader_id_std::LeaderId;

use super::types::{Entry, LogId, Member, Membership, StoredMembership, Vote, log_id};

/// Bytes that say nothing of this.
#[derive(Debug, thiserror::Error)]
pub enum EncodingError {
    /// They end before they should.
    #[error("it ends in the middle of {0}")]
    Short(&'static str),
    /// A number in them is none of those that are known.
    #[error("it has {0}")]
    Unknown(&'static str),
    /// There is more than what it should be.
    #[error("there are {0} bytes too many")]
    Long(usize),
    /// What an entry brings cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}

/// Writes a log id.
pub(super) fn put_log_id(out: &mut Vec<u8>, id: LogId) {
    out.extend_from_slice(&id.leader_id.term.to_le_bytes());
    out.extend_from_slice(&id.index.to_le_bytes());
}

/// Writes a log id, if there is one.
pub(super) fn put_optional_log_id(out: &mut Vec<u8>, id: Option<LogId>) {
    out.push(u8::from(id.is_some()));
    if let Some(id) = id {
        put_log_id(out, id);
    }
}

/// A vote.
pub fn encode_vote(vote: &Vote) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&vote.leader_id.term.to_le_bytes());
    out.extend_from_slice(&vote.leader_id.voted_for.to_le_bytes());
    out.push(u8::from(vote.committed));
    out
}

/// Of [`encode_vote`].
///
/// # Errors
/// The bytes are no vote.
pub fn decode_vote(bytes: &[u8]) -> Result<Vote, EncodingError> {
    let mut input = Input(bytes);
    let (term, voted_for) = (input.number("a term")?, input.number("a voter")?);
    let committed = input.flag("a vote")?;
    input.end()?;
    let leader_id = LeaderId { term, voted_for };
    Ok(Vote {
        leader_id,
        committed,
    })
}

/// An entry of the log.
pub fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    put_log_id(&mut out, entry.log_id);
    match &entry.payload {
        EntryPayload::Blank => out.push(0),
        EntryPayload::Normal(entry) => {
            out.push(1);
            out.extend_from_slice(&entry.encode());
        }
        EntryPayload::Membership(membership) => {
            out.push(2);
            put_membership(&mut out, membership);
        }
    }
    out
}

/// Of [`encode_entry`].
///
/// # Errors
/// The bytes are no entry, or one of a version that is unknown here.
pub fn decode_entry(bytes: &[u8]) -> Result<Entry, EncodingError> {
    let mut input = Input(bytes);
    let log_id = input.log_id()?;
    let payload = match input.byte("an entry")? {
        0 => EntryPayload::Blank,
        1 => EntryPayload::Normal(MetadataEntry::decode(input.rest())?),
        2 => EntryPayload::Membership(input.membership()?),
        _ => return Err(EncodingError::Unknown("an entry of an unknown kind")),
    };
    input.end()?;
    Ok(Entry { log_id, payload })
}

fn put_membership(out: &mut Vec<u8>, membership: &Membership) {
    let configs = membership.get_joint_config();
    put_count(out, configs.len());
    for config in configs {
        put_count(out, config.len());
        for id in config {
            out.extend_from_slice(&id.to_le_bytes());
        }
    }
    let members = membership.nodes();
    put_count(out, members.count());
    for (id, member) in membership.nodes() {
        out.extend_from_slice(&id.to_le_bytes());
        put_address(out, member.address);
    }
}

/// Writes a membership and where it comes from.
pub(super) fn put_stored_membership(out: &mut Vec<u8>, stored: &StoredMembership) {
    put_optional_log_id(out, *stored.log_id());
    put_membership(out, stored.membership());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_le_bytes());
    if let SocketAddr::V6(address) = address {
        out.extend_from_slice(&address.flowinfo().to_le_bytes());
        out.extend_from_slice(&address.scope_id().to_le_bytes());
    }
}

/// Bytes that are read from the front.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    /// The next bytes of something.
    pub(super) fn bytes<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], EncodingError> {
        let (bytes, rest) = self
            .0
            .split_first_chunk()
            .ok_or(EncodingError::Short(what))?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// So many bytes.
    pub(super) fn take(
        &mut self,
        count: u64,
        what: &'static str,
    ) -> Result<&'a [u8], EncodingError> {
        let count = usize::try_from(count).map_err(|_| EncodingError::Short(what))?;
        let split = self.0.split_at_checked(count);
        let (bytes, rest) = split.ok_or(EncodingError::Short(what))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// All that is left.
    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Is all read?
    pub(super) fn end(&self) -> Result<(), EncodingError> {
        match self.0.len() {
            0 => Ok(()),
            more => Err(EncodingError::Long(more)),
        }
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, EncodingError> {
        self.bytes(what).map(|[byte]| byte)
    }

    pub(super) fn flag(&mut self, what: &'static str) -> Result<bool, EncodingError> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(EncodingError::Unknown("a flag that is neither 0 nor 1")),
        }
    }

    /// A number of 8 bytes.
    pub(super) fn number(&mut self, what: &'static str) -> Result<u64, EncodingError> {
        self.bytes(what).map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Result<u32, EncodingError> {
        self.bytes("a count").map(u32::from_le_bytes)
    }

    /// A log id.
    pub(super) fn log_id(&mut self) -> Result<LogId, EncodingError> {
        let (term, index) = (self.number("a term")?, self.number("an index")?);
        // One behind it is counted everywhere.
        if index == u64::MAX {
            return Err(EncodingError::Unknown("the last index there is"));
        }
        Ok(log_id(term, index))
    }

    /// A log id, if there is one.
    pub(super) fn optional_log_id(&mut self) -> Result<Option<LogId>, EncodingError> {
        match self.flag("a log id")? {
            true => self.log_id().map(Some),
            false => Ok(None),
        }
    }

    fn membership(&mut self) -> Result<Membership, EncodingError> {
        let mut configs = Vec::new();
        for _ in 0..self.count()? {
            let mut config = BTreeSet::new();
            for _ in 0..self.count()? {
                config.insert(self.number("a voter")?);
            }
            configs.push(config);
        }
        let mut members = BTreeMap::new();
        for _ in 0..self.count()? {
            let id = self.number("a member")?;
            let address = self.address()?;
            members.insert(id, Member { address });
        }
        let checked = Membership::new(configs, members);
        checked
            .map_err(|_| EncodingError::Unknown("a membership without voters or their addresses"))
    }

    /// A membership and where it comes from.
    pub(super) fn stored_membership(&mut self) -> Result<StoredMembership, EncodingError> {
        let log_id = self.optional_log_id()?;
        Ok(StoredMembership::new(log_id, self.membership()?))
    }

    fn address(&mut self) -> Result<SocketAddr, EncodingError> {
        match self.byte("an address")? {
            4 => {
                let ip = Ipv4Addr::from(self.bytes::<4>("an address")?);
                let port = u16::from_le_bytes(self.bytes("a port")?);
                Ok(SocketAddr::from((ip, port)))
            }
            6 => {
                let ip = Ipv6Addr::from(self.bytes::<16>("an address")?);
                let port = u16::from_le_bytes(self.bytes("a port")?);
                let flow = u32::from_le_bytes(self.bytes("an address")?);
                let scope = u32::from_le_bytes(self.bytes("an address")?);
                Ok(SocketAddrV6::new(ip, port, flow, scope).into())
            }
            _ => Err(EncodingError::Unknown("an address of an unknown family")),
        }
    }
}

#[cfg(test)]
mod tests {
    use cluster::{ClusterIdentity, SchemaEntry};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn membership() -> Membership {
        let members = BTreeMap::from([
            (1, "10.0.0.1:7000".parse().unwrap()),
            (2, "[fe80::1%3]:7000".parse().unwrap()),
            (7, "[::1]:1".parse().unwrap()),
        ]);
        let members = members.into_iter();
        let members: BTreeMap<u64, Member> = members
            .map(|(id, address)| (id, Member { address }))
            .collect();
        let configs = vec![BTreeSet::from([1]), BTreeSet::from([1, 2])];
        Membership::new(configs, members).expect("its voters are members")
    }

    fn entries() -> Vec<Entry> {
        let identity = ClusterIdentity {
            id: Uuid::from_u128(7),
            name: "Test".to_owned(),
        };
        let schema = SchemaEntry {
            id: Uuid::from_u128(9),
            base: 0,
            mutations: vec![vec![1, 2], vec![]],
            timestamp: Some(5),
            event: vec![3],
            keyspaces: 1,
        };
        let payloads = [
            EntryPayload::Blank,
            EntryPayload::Normal(MetadataEntry::Create(identity)),
            EntryPayload::Normal(MetadataEntry::Schema(schema)),
            EntryPayload::Membership(membership()),
            EntryPayload::Membership(Membership::default()),
        ];
        let payloads = payloads.into_iter().zip(3..);
        let entries = payloads.map(|(payload, index)| Entry {
            log_id: log_id(2, index),
            payload,
        });
        entries.collect()
    }

    #[test]
    fn what_is_written_is_read_and_nothing_shorter() {
        for entry in entries() {
            let bytes = encode_entry(&entry);
            assert_eq!(decode_entry(&bytes).expect("it was written here"), entry);
            for len in 0..bytes.len() {
                assert!(decode_entry(&bytes[..len]).is_err(), "{entry:?}: {len}");
            }
        }
        for committed in [true, false] {
            let vote = Vote {
                leader_id: LeaderId {
                    term: 3,
                    voted_for: 9,
                },
                committed,
            };
            let bytes = encode_vote(&vote);
            assert_eq!(decode_vote(&bytes).expect("it was written here"), vote);
            assert!(decode_vote(&bytes[1..]).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes: Vec<u8>, kind in 0..3u8) {
            if let Some(byte) = bytes.get_mut(16) {
                *byte = kind;
            }
            let _ = decode_vote(&bytes);
            if let Ok(entry) = decode_entry(&bytes) {
                let again = decode_entry(&encode_entry(&entry)).expect("it was written here");
                prop_assert_eq!(again, entry);
            }
        }
    }
}
