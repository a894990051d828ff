//! The first words between two nodes, and who is let in.
//!
//! ```text
//! hello  = frame of: lowest version u16, newest version u16, cluster [string], cluster id [16]
//!          (nil: none yet), host id [16], expected host id [16] (nil: any), shard u16,
//!          compressed u8, address [inet]
//! answer = frame of: 0 u8, version u16, host id [16], shards u16      welcome
//!                  | code u8, what the refusal tells                  refused
//! frame  = "HELN", length u16, content, CRC32 of the content u32
//! ```
//!
//! All numbers are big-endian. The versions come first and stay there, so that nodes of any two
//! versions can tell each other that they do not fit; what is behind the content that a reader knows
//! is for newer ones.

use std::net::SocketAddr;

use bytes::{Buf, BytesMut};
use uuid::Uuid;

use super::VERSIONS;
use crate::notation::{BodyReader, BodyWriter, DecodeError};
use crate::segment::crc32;

const MAGIC: [u8; 4] = *b"HELN";
/// Bytes before the content of a frame.
const HEAD: usize = 6;
/// Bytes behind it.
const TRAILER: usize = 4;

const WELCOME: u8 = 0;
const OTHER_VERSION: u8 = 1;
const OTHER_CLUSTER: u8 = 2;
const OTHER_NODE: u8 = 3;
const SAME_HOST_ID: u8 = 4;
const NO_SUCH_SHARD: u8 = 5;
const TWIN_CLUSTER: u8 = 6;
const TLS_REQUIRED: u8 = 7;
const NO_TLS: u8 = 8;
const OTHER_CERTIFICATE: u8 = 9;

/// What the node that connects says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The oldest and the newest version that it speaks.
    pub versions: (u16, u16),
    /// The name of its cluster.
    pub cluster: String,
    /// The identity of its cluster; `None` while it looks for one.
    pub cluster_id: Option<Uuid>,
    /// Who it is.
    pub host_id: Uuid,
    /// Whom it means; `None` for a seed, of which no more than the address is known.
    pub expects: Option<Uuid>,
    /// Which shard it means.
    pub shard: u16,
    /// Shall segments be compressed?
    pub compressed: bool,
    /// Where it takes connections of other nodes itself.
    pub address: SocketAddr,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of its cluster.
    pub cluster: String,
    /// The identity of its cluster; `None` while it looks for one.
    pub cluster_id: Option<Uuid>,
    /// Who it is.
    pub host_id: Uuid,
    /// How many shards it has.
    pub shards: u16,
}

/// What the other node says to a [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Requests may come.
    Welcome(Welcome),
    /// It hangs up.
    Refused(Refusal),
}

/// The other node takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that both speak from now on.
    pub version: u16,
    /// Who it is.
    pub host_id: Uuid,
    /// How many shards it has.
    pub shards: u16,
}

/// Why a node does not talk to another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No version is spoken by both.
    #[error(
        "it speaks versions {lowest} to {newest} of the protocol between nodes and this node \
         {} to {}: upgrade one version after the other, all nodes to each",
        VERSIONS.start(), VERSIONS.end()
    )]
    OtherVersion {
        /// The oldest that the refusing node speaks.
        lowest: u16,
        /// The newest.
        newest: u16,
    },
    /// It belongs to another cluster.
    #[error("it belongs to the cluster `{name}`: check the seeds and cluster_name")]
    OtherCluster {
        /// Which.
        name: String,
    },
    /// It belongs to another cluster of the same name.
    #[error(
        "it belongs to another cluster that is called `{name}` too, and began by itself: one of the \
         two nodes is to start anew with an empty data folder and the other's cluster as its seeds"
    )]
    TwinCluster {
        /// What both are called.
        name: String,
    },
    /// At this address is a node that is not the one that was meant.
    #[error("it is the node {host_id}, and not the one that had this address before")]
    OtherNode {
        /// Who it is.
        host_id: Uuid,
    },
    /// Both have the same identity: mostly a copied data folder.
    #[error(
        "it has the host id of this node: a data folder must not be copied to another node; start \
         with an empty one"
    )]
    SameHostId,
    /// It has fewer shards, as after a start with fewer cores.
    #[error("it has {shards} shards")]
    NoSuchShard {
        /// How many.
        shards: u16,
    },
    /// Connections without TLS are not taken.
    #[error(
        "connections without TLS are not taken: set server_encryption_options on the node that connects, \
         or `optional: true` on the one that refuses until all nodes have certificates"
    )]
    TlsRequired,
    /// Connections under TLS are not taken. Said without TLS, as all first words of one side are then.
    #[error(
        "connections under TLS are not taken: set server_encryption_options on the node that refuses, or \
         `optional: true` on the one that connects until all nodes have certificates"
    )]
    NoTls,
    /// The certificate of who connects is not for the address that it says it is at.
    #[error(
        "the certificate of the node that connects is not for its address: add the address to the \
         certificate, or set require_endpoint_verification: false on the node that refuses"
    )]
    OtherCertificate,
    /// For a reason that only newer versions know.
    #[error("it refuses for a reason ({0}) that only a newer version knows")]
    Unknown(u8),
}

/// The bytes are no hello and no answer to one: something else than a node is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// It does not begin as a node's words do.
    #[error("what is there is no node of a Helenus cluster")]
    Stranger,
    /// The words were changed on their way.
    #[error("the first words were damaged on their way")]
    Damaged,
    /// They cannot be understood.
    #[error("the first words cannot be understood: {0}")]
    Malformed(#[from] DecodeError),
}

impl Hello {
    /// Appends it to what is sent.
    pub fn encode(&self, into: &mut Vec<u8>) {
        encode_frame(into, |body| {
            body.put_short(self.versions.0);
            body.put_short(self.versions.1);
            body.put_string(&self.cluster);
            body.put_uuid(self.cluster_id.unwrap_or(Uuid::nil()));
            body.put_uuid(self.host_id);
            body.put_uuid(self.expects.unwrap_or(Uuid::nil()));
            body.put_short(self.shard);
            body.push(u8::from(self.compressed));
            body.put_inet(self.address);
        });
    }

    /// Takes one off `input`; `None` if it is not all there yet. From a node of another version only
    /// the versions are sure to be understood; then the rest is empty, and [`Hello::answer`] refuses.
    ///
    /// # Errors
    /// Whoever connects is no node.
    pub fn decode(input: &mut BytesMut) -> Result<Option<Hello>, HelloError> {
        let Some(content) = take_frame(input)? else {
            return Ok(None);
        };
        let mut body = BodyReader::new(&content);
        let versions = (body.short()?, body.short()?);
        if common_version(versions).is_none() {
            return Ok(Some(Hello {
                versions,
                cluster: String::new(),
                cluster_id: None,
                host_id: Uuid::nil(),
                expects: None,
                shard: 0,
                compressed: false,
                address: SocketAddr::from(([0; 4], 0)),
            }));
        }
        Ok(Some(Hello {
            versions,
            cluster: body.string()?.to_owned(),
            cluster_id: Some(body.uuid()?).filter(|id| !id.is_nil()),
            host_id: body.uuid()?,
            expects: Some(body.uuid()?).filter(|id| !id.is_nil()),
            shard: body.short()?,
            compressed: body.byte()? != 0,
            address: body.inet()?,
        }))
    }

    /// What the node `own` says to it.
    pub fn answer(&self, own: &Identity) -> Answer {
        let Some(version) = common_version(self.versions) else {
            return Answer::Refused(Refusal::OtherVersion {
                lowest: *VERSIONS.start(),
                newest: *VERSIONS.end(),
            });
        };
        let refusal = if self.cluster != own.cluster {
            let name = own.cluster.clone();
            Refusal::OtherCluster { name }
        } else if self.is_of_twin(own) {
            let name = own.cluster.clone();
            Refusal::TwinCluster { name }
        } else if self.host_id == own.host_id {
            Refusal::SameHostId
        } else if self.expects.is_some_and(|expected| expected != own.host_id) {
            let host_id = own.host_id;
            Refusal::OtherNode { host_id }
        } else if self.shard >= own.shards {
            let shards = own.shards;
            Refusal::NoSuchShard { shards }
        } else {
            return Answer::Welcome(Welcome {
                version,
                host_id: own.host_id,
                shards: own.shards,
            });
        };
        Answer::Refused(refusal)
    }

    /// Did both clusters begin by themselves?
    fn is_of_twin(&self, own: &Identity) -> bool {
        let both = self.cluster_id.zip(own.cluster_id);
        both.is_some_and(|(theirs, ours)| theirs != ours)
    }
}

/// The newest version that is spoken here and by one who speaks those from `lowest` to `newest`.
fn common_version((lowest, newest): (u16, u16)) -> Option<u16> {
    let version = newest.min(*VERSIONS.end());
    (version >= lowest.max(*VERSIONS.start())).then_some(version)
}

impl Answer {
    /// Appends it to what is sent.
    pub fn encode(&self, into: &mut Vec<u8>) {
        encode_frame(into, |body| match self {
            Answer::Welcome(welcome) => {
                body.push(WELCOME);
                body.put_short(welcome.version);
                body.put_uuid(welcome.host_id);
                body.put_short(welcome.shards);
            }
            Answer::Refused(refusal) => refusal.encode(body),
        });
    }

    /// Takes one off `input`; `None` if it is not all there yet.
    ///
    /// # Errors
    /// What was connected to is no node.
    pub fn decode(input: &mut BytesMut) -> Result<Option<Answer>, HelloError> {
        let Some(content) = take_frame(input)? else {
            return Ok(None);
        };
        let mut body = BodyReader::new(&content);
        Ok(Some(match body.byte()? {
            WELCOME => Answer::Welcome(Welcome {
                version: body.short()?,
                host_id: body.uuid()?,
                shards: body.short()?,
            }),
            code => Answer::Refused(Refusal::decode(code, &mut body)?),
        }))
    }
}

impl Refusal {
    fn encode(&self, body: &mut Vec<u8>) {
        match self {
            Refusal::OtherVersion { lowest, newest } => {
                body.push(OTHER_VERSION);
                body.put_short(*lowest);
                body.put_short(*newest);
            }
            Refusal::OtherCluster { name } => {
                body.push(OTHER_CLUSTER);
                body.put_string(name);
            }
            Refusal::TwinCluster { name } => {
                body.push(TWIN_CLUSTER);
                body.put_string(name);
            }
            Refusal::OtherNode { host_id } => {
                body.push(OTHER_NODE);
                body.put_uuid(*host_id);
            }
            Refusal::SameHostId => body.push(SAME_HOST_ID),
            Refusal::TlsRequired => body.push(TLS_REQUIRED),
            Refusal::NoTls => body.push(NO_TLS),
            Refusal::OtherCertificate => body.push(OTHER_CERTIFICATE),
            Refusal::NoSuchShard { shards } => {
                body.push(NO_SUCH_SHARD);
                body.put_short(*shards);
            }
            Refusal::Unknown(code) => body.push(*code),
        }
    }

    fn decode(code: u8, body: &mut BodyReader<'_>) -> Result<Refusal, DecodeError> {
        Ok(match code {
            OTHER_VERSION => Refusal::OtherVersion {
                lowest: body.short()?,
                newest: body.short()?,
            },
            OTHER_CLUSTER => Refusal::OtherCluster {
                name: body.string()?.to_owned(),
            },
            TWIN_CLUSTER => Refusal::TwinCluster {
                name: body.string()?.to_owned(),
            },
            OTHER_NODE => Refusal::OtherNode {
                host_id: body.uuid()?,
            },
            SAME_HOST_ID => Refusal::SameHostId,
            TLS_REQUIRED => Refusal::TlsRequired,
            NO_TLS => Refusal::NoTls,
            OTHER_CERTIFICATE => Refusal::OtherCertificate,
            NO_SUCH_SHARD => Refusal::NoSuchShard {
                shards: body.short()?,
            },
            code => Refusal::Unknown(code),
        })
    }
}

fn encode_frame(into: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    into.extend_from_slice(&MAGIC);
    into.put_short(0);
    let start = into.len();
    content(into);
    // The longest string of the notation alone would be more than a frame holds.
    let length = u16::try_from(into.len() - start).expect("names of clusters are short");
    into[start - 2..start].copy_from_slice(&length.to_be_bytes());
    let check = crc32(&into[start..]);
    into.extend_from_slice(&check.to_be_bytes());
}

/// The content of the frame at the front of `input`; `None` if it is not all there yet.
fn take_frame(input: &mut BytesMut) -> Result<Option<BytesMut>, HelloError> {
    let begun = input.len().min(MAGIC.len());
    if input[..begun] != MAGIC[..begun] {
        return Err(HelloError::Stranger);
    }
    let Some(head) = input.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
    if input.len() < HEAD + length + TRAILER {
        return Ok(None);
    }
    input.advance(HEAD);
    let content = input.split_to(length);
    if input.get_u32() != crc32(&content) {
        return Err(HelloError::Damaged);
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            versions: (*VERSIONS.start(), *VERSIONS.end()),
            cluster: "Test".to_owned(),
            cluster_id: Some(Uuid::from_u128(7)),
            host_id: Uuid::from_u128(1),
            expects: Some(Uuid::from_u128(2)),
            shard: 1,
            compressed: true,
            address: "127.0.0.2:7000".parse().expect("an address"),
        }
    }

    fn own() -> Identity {
        Identity {
            cluster: "Test".to_owned(),
            cluster_id: Some(Uuid::from_u128(7)),
            host_id: Uuid::from_u128(2),
            shards: 2,
        }
    }

    fn refused(hello: &Hello) -> Refusal {
        match hello.answer(&own()) {
            Answer::Refused(refusal) => refusal,
            Answer::Welcome(_) => panic!("welcome"),
        }
    }

    #[test]
    fn who_fits_is_welcome() {
        let welcome = Welcome {
            version: *VERSIONS.end(),
            host_id: Uuid::from_u128(2),
            shards: 2,
        };
        assert_eq!(hello().answer(&own()), Answer::Welcome(welcome));
        let newer = Hello {
            versions: (*VERSIONS.end(), 900),
            expects: None,
            ..hello()
        };
        assert_eq!(newer.answer(&own()), Answer::Welcome(welcome));
    }

    #[test]
    fn who_does_not_fit_is_told_why() {
        let other = Hello {
            cluster: "Prod".to_owned(),
            ..hello()
        };
        assert_eq!(
            refused(&other).to_string(),
            "it belongs to the cluster `Test`: check the seeds and cluster_name"
        );
        let twin = Hello {
            cluster_id: Some(Uuid::from_u128(8)),
            ..hello()
        };
        let name = "Test".to_owned();
        assert_eq!(refused(&twin), Refusal::TwinCluster { name });
        let looking = Hello {
            cluster_id: None,
            ..hello()
        };
        assert!(matches!(looking.answer(&own()), Answer::Welcome(_)));
        let twin = Hello {
            host_id: Uuid::from_u128(2),
            ..hello()
        };
        assert_eq!(refused(&twin), Refusal::SameHostId);
        let moved = Hello {
            expects: Some(Uuid::from_u128(3)),
            ..hello()
        };
        let host_id = Uuid::from_u128(2);
        assert_eq!(refused(&moved), Refusal::OtherNode { host_id });
        let shard = Hello {
            shard: 2,
            ..hello()
        };
        assert_eq!(refused(&shard), Refusal::NoSuchShard { shards: 2 });
    }

    #[test]
    fn a_version_to_come_is_refused_whatever_it_says_besides() {
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, |body| {
            body.put_short(900);
            body.put_short(901);
            body.push(7);
        });
        let hello = Hello::decode(&mut BytesMut::from(&bytes[..]));
        let hello = hello.expect("its versions can be read").expect("whole");
        assert_eq!(hello.versions, (900, 901));
        assert!(matches!(refused(&hello), Refusal::OtherVersion { .. }));
    }

    #[test]
    fn a_client_that_took_the_wrong_port_is_a_stranger() {
        let mut startup = BytesMut::from(&b"\x05\x00\x00\x00\x01"[..]);
        assert_eq!(Hello::decode(&mut startup), Err(HelloError::Stranger));
    }

    #[test]
    fn words_arrive_as_they_were_said_in_any_pieces() {
        let refusals = [
            Refusal::OtherVersion {
                lowest: 3,
                newest: 4,
            },
            Refusal::OtherCluster {
                name: "Prod".to_owned(),
            },
            Refusal::TwinCluster {
                name: "Prod".to_owned(),
            },
            Refusal::OtherNode {
                host_id: Uuid::from_u128(9),
            },
            Refusal::SameHostId,
            Refusal::TlsRequired,
            Refusal::NoTls,
            Refusal::OtherCertificate,
            Refusal::NoSuchShard { shards: 4 },
            Refusal::Unknown(77),
        ];
        let mut answers: Vec<Answer> = refusals.into_iter().map(Answer::Refused).collect();
        answers.push(hello().answer(&own()));
        for answer in answers {
            let mut bytes = Vec::new();
            answer.encode(&mut bytes);
            let mut input = BytesMut::new();
            for (at, byte) in bytes.iter().enumerate() {
                assert_eq!(Answer::decode(&mut input), Ok(None), "after {at} bytes");
                input.extend_from_slice(&[*byte]);
            }
            assert_eq!(Answer::decode(&mut input), Ok(Some(answer)));
            assert!(input.is_empty());
        }
        let mut bytes = Vec::new();
        hello().encode(&mut bytes);
        let mut input = BytesMut::from(&bytes[..]);
        assert_eq!(Hello::decode(&mut input), Ok(Some(hello())));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            mut content in prop::collection::vec(any::<u8>(), 0..80),
            versions in any::<bool>(),
        ) {
            if versions {
                let spoken = [1u16.to_be_bytes(), 1u16.to_be_bytes()].concat();
                content.splice(0..0, spoken);
            }
            let mut bytes = Vec::new();
            encode_frame(&mut bytes, |body| body.extend_from_slice(&content));
            let _ = Hello::decode(&mut BytesMut::from(&bytes[..]));
            let _ = Answer::decode(&mut BytesMut::from(&bytes[..]));
            let _ = Hello::decode(&mut BytesMut::from(&content[..]));
        }

        #[test]
        fn a_changed_bit_is_noticed(bit in 0usize..) {
            let mut bytes = Vec::new();
            hello().encode(&mut bytes);
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = Hello::decode(&mut BytesMut::from(&bytes[..]));
            // With a greater length the rest is still to come.
            prop_assert!(read.is_err() || read == Ok(None));
        }
    }
}
