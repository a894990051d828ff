//! Pages of a DESCRIBE: how many rows were given, and of which schema.

use uuid::Uuid;

use crate::CqlError;

/// What a client is told whose next page would be of another schema.
pub const SCHEMA_CHANGED: &str = "The schema has changed since the previous page of the DESCRIBE \
                                  statement result. Please retry the DESCRIBE statement.";

const FORMAT: u8 = 1;
const LENGTH: usize = 1 + 16 + 8;

/// Where the next page starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescribePosition {
    /// The version of the schema that the pages before were of.
    pub schema_version: Uuid,
    /// How many rows were given.
    pub offset: u64,
}

impl DescribePosition {
    /// As a paging state.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LENGTH);
        out.push(FORMAT);
        out.extend_from_slice(self.schema_version.as_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        out
    }

    /// From the paging state a client sent back; refuses one of another schema.
    pub fn decode(state: &[u8], schema_version: Uuid) -> Result<DescribePosition, CqlError> {
        let state = <&[u8; LENGTH]>::try_from(state).ok();
        let state = state.filter(|state| state[0] == FORMAT);
        let state = state.ok_or_else(CqlError::malformed_paging_state)?;
        let (version, offset) = state[1..].split_at(16);
        let version = Uuid::from_slice(version).unwrap_or_default();
        if version != schema_version {
            return Err(CqlError::Invalid(SCHEMA_CHANGED.to_owned()));
        }
        let offset = offset.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        Ok(DescribePosition {
            schema_version,
            offset,
        })
    }

    /// The page of `rows` that starts here, and where the next one starts: behind every page that is full there
    /// is another, be it an empty one (`DescribeStatement.executeLocally`).
    pub fn page<T: Clone>(
        &self,
        rows: &[T],
        page_size: Option<u32>,
    ) -> (Vec<T>, Option<DescribePosition>) {
        let start = usize::try_from(self.offset)
            .unwrap_or(usize::MAX)
            .min(rows.len());
        let left = rows.len() - start;
        let size = page_size.filter(|size| *size > 0).map(|size| size as usize);
        let taken = size.map_or(left, |size| left.min(size));
        let next = (size == Some(taken)).then_some(DescribePosition {
            offset: (start + taken) as u64,
            ..*self
        });
        (rows[start..start + taken].to_vec(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_join_to_the_whole() {
        let version = Uuid::from_u128(7);
        let rows: Vec<u32> = (0..10).collect();
        let mut position = DescribePosition {
            schema_version: version,
            offset: 0,
        };
        let mut seen = Vec::new();
        loop {
            let (page, next) = position.page(&rows, Some(3));
            seen.extend(page);
            let Some(next) = next else { break };
            position = DescribePosition::decode(&next.encode(), version).unwrap();
            assert_eq!(position, next);
        }
        assert_eq!(seen, rows);
    }

    #[test]
    fn positions_of_another_schema_are_refused() {
        let state = DescribePosition {
            schema_version: Uuid::from_u128(7),
            offset: 3,
        }
        .encode();
        let refused = DescribePosition::decode(&state, Uuid::from_u128(8));
        assert_eq!(refused, Err(CqlError::Invalid(SCHEMA_CHANGED.to_owned())));
        assert!(DescribePosition::decode(&state[1..], Uuid::from_u128(7)).is_err());
        assert!(DescribePosition::decode(&[], Uuid::from_u128(7)).is_err());
    }
}
