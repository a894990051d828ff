//! Taking primitives from the front of bytes, never beyond their end.

use model::{DeletionTime, NO_DELETION_TIME, NO_TIMESTAMP};

use super::error::DecodeError;

/// A cursor over bytes. Everything that reads a component goes through it, so no length that a
/// damaged file claims is believed before the bytes are there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, position: 0 }
    }

    /// How many bytes have been taken.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let end = self
            .position
            .checked_add(len)
            .ok_or(DecodeError::Incomplete)?;
        let taken = self
            .bytes
            .get(self.position..end)
            .ok_or(DecodeError::Incomplete)?;
        self.position = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("as many bytes as were asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.u8()? != 0)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_bits(self.u64()?))
    }

    pub(crate) fn u32_le(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64_le(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A `VIntCoding` unsigned number.
    #[inline]
    pub(crate) fn vint(&mut self) -> Result<u64, DecodeError> {
        let rest = &self.bytes[self.position..];
        match rest.first() {
            Some(first) if *first < 0x80 => {
                self.position += 1;
                Ok(u64::from(*first))
            }
            _ => self.long_vint(),
        }
    }

    fn long_vint(&mut self) -> Result<u64, DecodeError> {
        let mut rest = &self.bytes[self.position..];
        let before = rest.len();
        let value = model::vint::read_unsigned(&mut rest).ok_or(DecodeError::Incomplete)?;
        self.position += before - rest.len();
        Ok(value)
    }

    /// A zigzag-encoded number.
    pub(crate) fn signed_vint(&mut self) -> Result<i64, DecodeError> {
        self.vint().map(model::vint::unzigzag)
    }

    /// A vint that counts or measures something that is in memory.
    #[inline]
    pub(crate) fn vint_len(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(self.vint()?).map_err(|_| DecodeError::Invalid("a length is too large"))
    }

    /// Bytes after a vint with their number.
    pub(crate) fn vint_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.vint_len()?;
        self.take(len)
    }

    /// Bytes after a 16-bit number of them.
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    /// Bytes after a 32-bit number of them.
    pub(crate) fn int_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    /// Text as `DataOutput.writeUTF` writes it (what is written there is ASCII in practice).
    pub(crate) fn utf(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.short_bytes()?)
            .map_err(|_| DecodeError::Invalid("text is not UTF-8"))
    }

    /// A count of things that take at least `least` bytes each, which cannot be more than the
    /// bytes that are left.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if count > self.remaining() / least.max(1) {
            return Err(DecodeError::Invalid("a count exceeds the file"));
        }
        Ok(count)
    }

    /// A `DeletionTime` that stands alone, 12 bytes (`DeletionTime.LegacySerializer`, before
    /// version `oa`) or 1 or 12 (`DeletionTime.Serializer`, since).
    pub(crate) fn deletion_time(
        &mut self,
        unsigned_deletion_time: bool,
    ) -> Result<DeletionTime, DecodeError> {
        if !unsigned_deletion_time {
            let local = self.i32()?;
            let timestamp = self.i64()?;
            return deletion_time(timestamp, legacy_deletion_time(local));
        }
        const LIVE: u8 = 0x80;
        let first = self.u8()?;
        if first & LIVE != 0 {
            return if first == LIVE {
                Ok(DeletionTime::LIVE)
            } else {
                Err(DecodeError::Invalid("a deletion has unknown flags"))
            };
        }
        let mut timestamp = [0; 8];
        timestamp[0] = first;
        timestamp[1..].copy_from_slice(self.take(7)?);
        let local = self.u32()?;
        deletion_time(i64::from_be_bytes(timestamp), local)
    }
}

/// A deletion of these times, if they are possible. Without a timestamp it is none.
pub(crate) fn deletion_time(timestamp: i64, local: u32) -> Result<DeletionTime, DecodeError> {
    if timestamp == NO_TIMESTAMP {
        return Ok(DeletionTime::LIVE);
    }
    Ok(DeletionTime {
        timestamp,
        local_deletion_time: local,
    })
}

/// Before version `oa`, times are signed and the highest one means "never".
pub(crate) fn legacy_deletion_time(local: i32) -> u32 {
    if local == i32::MAX {
        NO_DELETION_TIME
    } else {
        local as u32
    }
}

/// The inverse of [`legacy_deletion_time`]; times after 2038 become the last one that fits
/// (`Cell.MAX_DELETION_TIME_2038_LEGACY_CAP`).
pub(crate) fn to_legacy_deletion_time(local: u32) -> i32 {
    if local == NO_DELETION_TIME {
        i32::MAX
    } else {
        local.min(i32::MAX as u32 - 1) as i32
    }
}

/// Appends a `DeletionTime` as [`Input::deletion_time`] reads it.
pub(crate) fn write_deletion_time(
    out: &mut Vec<u8>,
    deletion: &DeletionTime,
    unsigned_deletion_time: bool,
) {
    if !unsigned_deletion_time {
        out.extend(to_legacy_deletion_time(deletion.local_deletion_time).to_be_bytes());
        out.extend(deletion.timestamp.to_be_bytes());
    } else if deletion.is_live() {
        out.push(0x80);
    } else {
        out.extend(deletion.timestamp.to_be_bytes());
        out.extend(deletion.local_deletion_time.to_be_bytes());
    }
}

/// Appends bytes after a 16-bit number of them.
pub(crate) fn write_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u16::MAX));
    out.extend((bytes.len() as u16).to_be_bytes());
    out.extend(bytes);
}

/// Appends bytes after a vint with their number.
pub(crate) fn write_vint_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    model::vint::write_unsigned(out, bytes.len() as u64);
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_read_as_written() {
        for unsigned in [false, true] {
            for deletion in [
                DeletionTime::LIVE,
                DeletionTime {
                    timestamp: 1_700_000_000_000_000,
                    local_deletion_time: 1_700_000_000,
                },
            ] {
                let mut out = Vec::new();
                write_deletion_time(&mut out, &deletion, unsigned);
                assert_eq!(Input::new(&out).deletion_time(unsigned), Ok(deletion));
            }
        }
    }

    #[test]
    fn a_count_beyond_the_end_is_refused() {
        let bytes = u32::MAX.to_be_bytes();
        assert!(Input::new(&bytes).count(8).is_err());
    }
}
