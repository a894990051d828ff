//! Values of types all of whose values have one length, and what is made of them: points in time, which come by the
//! thousand, are tuples of numbers in maps. To be a value is then to have the right lengths at the right places.

use smallvec::SmallVec;

use crate::CqlType;

/// Collections of fewer bytes are gone along part by part: their shape costs more to tell.
const LONG: usize = 256;
/// A shape of more lengths is not worth it.
const MOST: usize = 32;

/// Are all bytes of this length a value of the type?
pub(super) fn plain_length(ty: &CqlType) -> Option<usize> {
    match ty {
        CqlType::Boolean | CqlType::Int | CqlType::Float | CqlType::Uuid => ty.fixed_length(),
        CqlType::Bigint | CqlType::Double | CqlType::Timestamp => ty.fixed_length(),
        // Which are not fixed by Cassandra's word.
        CqlType::Tinyint => Some(1),
        CqlType::Smallint => Some(2),
        CqlType::Date => Some(4),
        CqlType::Time => Some(8),
        _ => None,
    }
}

/// Is it of as many components as there are types, each of which has the one length that its type has?
pub(super) fn is_plain_tuple<'t>(
    value: &[u8],
    types: impl IntoIterator<Item = &'t CqlType>,
) -> bool {
    let mut rest = value;
    for ty in types {
        let Some((len, behind)) = rest.split_first_chunk::<4>() else {
            return false;
        };
        let len = u32::from_be_bytes(*len) as usize;
        match behind.get(len..) {
            Some(behind) if plain_length(ty) == Some(len) => rest = behind,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// Is it a collection of parts of these types in turn, all of which have the one shape that they have without nulls? Not
/// to be is not to be wrong.
pub(super) fn is_plain_collection(value: &[u8], parts: &[&CqlType]) -> bool {
    if value.len() < LONG {
        return false;
    }
    let Some((count, rest)) = value.split_first_chunk::<4>() else {
        return false;
    };
    let (Ok(count), Some(shape)) = (
        usize::try_from(i32::from_be_bytes(*count)),
        Shape::of(parts),
    ) else {
        return false;
    };
    let mut entries = rest.chunks_exact(shape.bytes);
    count.checked_mul(shape.bytes) == Some(rest.len()) && entries.all(|entry| shape.is_of(entry))
}

/// Where the lengths stand in the parts that come in turn, each with its length before it.
#[derive(Default)]
struct Shape {
    /// Of all of them together: never none.
    bytes: usize,
    /// A place, and the length that stands there.
    lengths: SmallVec<[(usize, [u8; 4]); 8]>,
}

impl Shape {
    /// `None`: they have several.
    fn of(parts: &[&CqlType]) -> Option<Shape> {
        let mut shape = Shape::default();
        parts.iter().try_for_each(|ty| shape.add(ty))?;
        (shape.bytes > 0).then_some(shape)
    }

    fn add(&mut self, ty: &CqlType) -> Option<()> {
        let at = self.bytes;
        let begin = at + 4;
        self.bytes = begin;
        match ty {
            CqlType::Tuple(types) => types.iter().try_for_each(|ty| self.add(ty))?,
            _ => self.bytes += plain_length(ty)?,
        }
        let len = u32::try_from(self.bytes - begin).ok()?;
        self.lengths.push((at, len.to_be_bytes()));
        (self.lengths.len() <= MOST).then_some(())
    }

    fn is_of(&self, entry: &[u8]) -> bool {
        let mut lengths = self.lengths.iter();
        lengths.all(|(at, len)| entry.get(*at..at + 4) == Some(&len[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_plain() {
        let types = [CqlType::Double, CqlType::Bigint];
        let point = [&[0, 0, 0, 8], &[1; 8][..], &[0, 0, 0, 8], &[2; 8]].concat();
        assert!(is_plain_tuple(&point, &types));
        assert!(
            !is_plain_tuple(&point[..12], &types),
            "Cassandra takes it, but it is shorter"
        );
        assert!(!is_plain_tuple(&point, &types[..1]), "something follows");
        assert!(!is_plain_tuple(&point, &[CqlType::Double, CqlType::Text]));
        let entry = [&[0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0, 24][..], &point].concat();
        let map = [&20u32.to_be_bytes()[..], &entry.repeat(20)].concat();
        let (int, tuple) = (CqlType::Int, CqlType::Tuple(types.to_vec()));
        assert!(is_plain_collection(&map, &[&int, &tuple]));
        for (at, wrong) in [
            (0, 1),
            (3, 19),
            (7, 5),
            (15, 8),
            (19, 4),
            (map.len() - 9, 4),
        ] {
            let mut map = map.clone();
            map[at] = wrong;
            assert!(!is_plain_collection(&map, &[&int, &tuple]), "{at}");
        }
        assert!(!is_plain_collection(&map[..map.len() - 1], &[&int, &tuple]));
        assert!(!is_plain_collection(&map, &[&int, &CqlType::Text]));
        assert!(!is_plain_collection(&map, &[]));
    }
}
