//! The bytes of a record while it is read.

use bytes::Bytes;
use model::{Bound, BoundKind, Clustering, DeletionTime, vint};
use smallvec::SmallVec;

use super::RecordError;

/// Bytes being read; what is taken shares their memory.
pub(super) struct Input {
    bytes: Bytes,
    at: usize,
}

impl Input {
    pub(super) fn new(bytes: Bytes) -> Input {
        Input { bytes, at: 0 }
    }

    pub(super) fn rest(self) -> Bytes {
        self.bytes.slice(self.at..)
    }

    pub(super) fn u8(&mut self) -> Result<u8, RecordError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let array = self.bytes[self.at..]
            .first_chunk::<N>()
            .ok_or(RecordError::Short)?;
        self.at += N;
        Ok(*array)
    }

    pub(super) fn vint(&mut self) -> Result<u64, RecordError> {
        let mut rest = &self.bytes[self.at..];
        let value = vint::read_unsigned(&mut rest).ok_or(RecordError::Short)?;
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, RecordError> {
        let len = self.vint()?;
        self.take(len)
    }

    pub(super) fn take(&mut self, len: u64) -> Result<Bytes, RecordError> {
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

    pub(super) fn deletion(&mut self) -> Result<DeletionTime, RecordError> {
        Ok(DeletionTime {
            timestamp: i64::from_le_bytes(self.array()?),
            local_deletion_time: u32::from_le_bytes(self.array()?),
        })
    }

    pub(super) fn clustering(&mut self) -> Result<Clustering, RecordError> {
        let mut values = SmallVec::new();
        for _ in 0..self.vint()? {
            values.push(self.bytes()?);
        }
        Ok(Clustering(values))
    }

    pub(super) fn bound(&mut self) -> Result<Bound, RecordError> {
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
