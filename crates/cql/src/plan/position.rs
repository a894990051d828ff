//! Where a page of a result ended: what clients carry as the paging state.
//!
//! | bytes | |
//! |---|---|
//! | `0x48` | marks a state of Helenus: states of other servers are refused, not misread |
//! | `u32` | rows the statement's limit still allows |
//! | `u32` | rows the partition's limit still allows in the partition |
//! | `u32` length, bytes | the partition key |
//! | `u16` count, then each `u32` length, bytes | the clustering of the last row; `0xffff` where the partition is finished |

use bytes::Bytes;
use model::{Clustering, DecoratedKey, Resume, Table};

use crate::CqlError;

const MARK: u8 = 0x48;
const FINISHED: u16 = u16::MAX;

/// A place between two rows of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The partition of the last row.
    pub key: Bytes,
    /// The last row; `None` where the partition is finished.
    pub clustering: Option<Clustering>,
    /// How many more rows the limit of each partition allows in this one.
    pub remaining_in_partition: u32,
    /// How many more rows the limit allows in all.
    pub remaining: u32,
}

impl Position {
    /// As the paging state.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![MARK];
        out.extend(self.remaining.to_be_bytes());
        out.extend(self.remaining_in_partition.to_be_bytes());
        let put = |out: &mut Vec<u8>, bytes: &[u8]| {
            let length = u32::try_from(bytes.len()).expect("a value is at most 2 GiB long");
            out.extend(length.to_be_bytes());
            out.extend(bytes);
        };
        put(&mut out, &self.key);
        match &self.clustering {
            None => out.extend(FINISHED.to_be_bytes()),
            Some(clustering) => {
                out.extend((clustering.0.len() as u16).to_be_bytes());
                for value in &clustering.0 {
                    put(&mut out, value);
                }
            }
        }
        out
    }

    /// From a paging state that a client sent.
    pub fn decode(state: &[u8], table: &Table) -> Result<Position, CqlError> {
        Position::read(state, table).ok_or_else(CqlError::malformed_paging_state)
    }

    fn read(state: &[u8], table: &Table) -> Option<Position> {
        let (mark, mut rest) = state.split_first()?;
        if *mark != MARK {
            return None;
        }
        let remaining = take_u32(&mut rest)?;
        let remaining_in_partition = take_u32(&mut rest)?;
        let key = take_bytes(&mut rest)?;
        let (count, mut rest) = rest.split_first_chunk::<2>()?;
        let clustering = match u16::from_be_bytes(*count) {
            FINISHED => None,
            count if usize::from(count) == table.clustering_key().len() => {
                let mut clustering = Clustering::default();
                for column in table.clustering_key() {
                    let value = take_bytes(&mut rest)?;
                    column.ty.validate(&value).ok()?;
                    clustering.0.push(value);
                }
                Some(clustering)
            }
            _ => return None,
        };
        // Only what a view is of may have a key without bytes.
        let key_is_valid = (!key.is_empty() || table.view.is_some()) && rest.is_empty();
        key_is_valid.then_some(Position {
            key,
            clustering,
            remaining_in_partition,
            remaining,
        })
    }

    /// For a read that goes on from here.
    pub(crate) fn resume(&self) -> Resume {
        Resume {
            key: DecoratedKey::new(self.key.clone()),
            clustering: self.clustering.clone(),
            remaining_in_partition: self.remaining_in_partition,
        }
    }
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (number, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    Some(u32::from_be_bytes(*number))
}

fn take_bytes(rest: &mut &[u8]) -> Option<Bytes> {
    let length = take_u32(rest)? as usize;
    let (bytes, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(Bytes::copy_from_slice(bytes))
}
