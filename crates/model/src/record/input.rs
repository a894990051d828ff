//! The bytes of a record while it is read.

use bytes::Bytes;
use smallvec::SmallVec;

use super::RecordError;
use crate::{Bound, BoundKind, Clustering, DeletionTime, vint};

/// Bytes being read; what is taken shares their memory. No length is believed before the bytes are
/// there.
pub struct Input {
    bytes: Bytes,
    at: usize,
}

impl Input {
    /// From the first byte on.
    pub fn new(bytes: Bytes) -> Input {
        Input { bytes, at: 0 }
    }

    /// What has not been taken.
    pub fn rest(self) -> Bytes {
        self.bytes.slice(self.at..)
    }

    /// How many bytes have been taken.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Has all been taken?
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, RecordError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// So many bytes as they are.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let array = self.bytes[self.at..]
            .first_chunk::<N>()
            .ok_or(RecordError::Short)?;
        self.at += N;
        Ok(*array)
    }

    /// A number without a fixed width.
    pub fn vint(&mut self) -> Result<u64, RecordError> {
        let mut rest = &self.bytes[self.at..];
        let value = vint::read_unsigned(&mut rest).ok_or(RecordError::Short)?;
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }

    /// A length and so many bytes.
    pub fn bytes(&mut self) -> Result<Bytes, RecordError> {
        let len = self.vint()?;
        self.take(len)
    }

    /// So many bytes.
    pub fn take(&mut self, len: u64) -> Result<Bytes, RecordError> {
        let len = usize::try_from(len).map_err(|_| RecordError::Short)?;
        let end = self
            .at
            .checked_add(len)
            .filter(|end| *end <= self.bytes.len())
            .ok_or(RecordError::Short)?;
        let bytes = self.bytes.slice(self.at..end);
        self.at = end;
        Ok(bytes)
    }

    /// A deletion.
    pub fn deletion(&mut self) -> Result<DeletionTime, RecordError> {
        Ok(DeletionTime {
            timestamp: i64::from_le_bytes(self.array()?),
            local_deletion_time: u32::from_le_bytes(self.array()?),
        })
    }

    /// A clustering, or a prefix of one.
    pub fn clustering(&mut self) -> Result<Clustering, RecordError> {
        let mut values = SmallVec::new();
        for _ in 0..self.vint()? {
            values.push(self.bytes()?);
        }
        Ok(Clustering(values))
    }

    /// One end of a range of rows.
    pub fn bound(&mut self) -> Result<Bound, RecordError> {
        let kind = match self.u8()? {
            0 => BoundKind::InclusiveStart,
            1 => BoundKind::ExclusiveStart,
            2 => BoundKind::InclusiveEnd,
            3 => BoundKind::ExclusiveEnd,
            _ => return Err(RecordError::Unknown("kind of bound")),
        };
        Ok(Bound {
            prefix: self.clustering()?,
            kind,
        })
    }
}
