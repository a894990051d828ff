//! What a segment of Cassandra's begins with.

use crate::sstable::Algorithm;

/// Bytes of a section before its content.
pub(super) const MARKER: usize = 8;
/// The versions that are read: those of Cassandra 3.0 to 5.0.
const VERSIONS: std::ops::RangeInclusive<u32> = 6..=8;
/// From this version on, times of deletion are unsigned.
const UNSIGNED_DELETION_TIME: u32 = 8;
/// A file's beginning up to behind the head of its first section, at most.
pub(super) const HEAD: usize = 14 + u16::MAX as usize + 4 + MARKER;

/// What stands at the beginning of a file (`CommitLogDescriptor`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    version: u32,
    /// The number of the segment.
    pub(super) id: i64,
    /// How its sections are compressed.
    pub(super) compression: Option<Algorithm>,
    /// How long it is.
    pub(super) len: usize,
}

/// Why the beginning of a file is not one that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DescriptorError {
    /// Nothing was written there.
    Empty,
    /// It does not check out.
    Invalid,
    /// It checks out, but says something that is not supported.
    Unsupported(String),
}

impl Descriptor {
    /// Reads the beginning of a file, [`HEAD`] bytes if it has so many.
    pub(super) fn decode(file: &[u8]) -> Result<Descriptor, DescriptorError> {
        let head: &[u8; 14] = match file.first_chunk() {
            Some(head) if head.iter().any(|byte| *byte != 0) => head,
            _ => return Err(DescriptorError::Empty),
        };
        let version = be32(head);
        let id = i64::from_be_bytes(chunk(&head[4..]));
        let parameters_len = usize::from(u16::from_be_bytes(chunk(&head[12..])));
        let rest = &file[14..];
        let (Some(parameters), Some(crc)) = (
            rest.get(..parameters_len),
            rest.get(parameters_len..parameters_len + 4),
        ) else {
            return Err(DescriptorError::Invalid);
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[..4]);
        hash_id(&mut hasher, id);
        hasher.update(&(parameters_len as u32).to_be_bytes());
        hasher.update(parameters);
        if hasher.finalize() != be32(crc) {
            return Err(DescriptorError::Invalid);
        }
        if !VERSIONS.contains(&version) {
            let what = format!("is of version {version} of Cassandra's commit log, not 6, 7 or 8");
            return Err(DescriptorError::Unsupported(what));
        }
        Ok(Descriptor {
            version,
            id,
            compression: compression(parameters)?,
            len: 14 + parameters_len + 4,
        })
    }

    /// Are deletion times unsigned?
    pub(super) fn unsigned_deletion_time(&self) -> bool {
        self.version >= UNSIGNED_DELETION_TIME
    }
}

/// What the parameters say of compression. They are the compact JSON of one library
/// (`CommitLogDescriptor.constructParametersString`), so that finding the keys is enough.
fn compression(parameters: &[u8]) -> Result<Option<Algorithm>, DescriptorError> {
    const CLASS: &str = "\"compressionClass\":\"";
    const CIPHER: &str = "\"encCipher\"";
    let text = String::from_utf8_lossy(parameters);
    if text.contains(CIPHER) {
        let what = "is encrypted; start Cassandra on the folder once more, run `nodetool drain` \
                    and stop it"
            .to_owned();
        return Err(DescriptorError::Unsupported(what));
    }
    let Some(at) = text.find(CLASS) else {
        return Ok(None);
    };
    let class = text[at + CLASS.len()..].split('"').next().unwrap_or("");
    match Algorithm::of_class(class) {
        Ok(algorithm) => Ok(Some(algorithm)),
        Err(what) => Err(DescriptorError::Unsupported(format!(
            "is compressed: {what}"
        ))),
    }
}

/// As `FBUtilities.updateChecksumInt` of the low and the high half.
pub(super) fn hash_id(hasher: &mut crc32fast::Hasher, id: i64) {
    hasher.update(&(id as u32).to_be_bytes());
    hasher.update(&((id >> 32) as u32).to_be_bytes());
}

/// The first bytes, of which the caller knows that they are there.
pub(super) fn chunk<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("the caller has so many bytes")
}

/// The number that the first four bytes are.
pub(super) fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(chunk(bytes))
}

/// The beginning of a segment of this number, without compression.
#[cfg(test)]
pub(super) fn head(id: i64) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(7u32.to_be_bytes());
    file.extend(id.to_be_bytes());
    file.extend(2u16.to_be_bytes());
    file.extend(b"{}");
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&7u32.to_be_bytes());
    hash_id(&mut hasher, id);
    hasher.update(&2u32.to_be_bytes());
    hasher.update(b"{}");
    file.extend(hasher.finalize().to_be_bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(file: &[u8]) -> Result<(), DescriptorError> {
        Descriptor::decode(file).map(|_| ())
    }

    #[test]
    fn heads_that_cannot_be_read_say_why() {
        let whole = [head(0x1_2345_6789), vec![0; 100]].concat();
        for bit in 0..20 * 8 {
            let mut file = whole.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(begin(&file), Err(DescriptorError::Invalid), "bit {bit}");
        }
        assert_eq!(begin(&[0; 50]), Err(DescriptorError::Empty));
        let encrypted = compression(br#"{"encCipher":"AES\/CBC\/PKCS5Padding"}"#);
        assert!(
            matches!(encrypted, Err(DescriptorError::Unsupported(what)) if what.contains("encrypted"))
        );
        let lz4 = br#"{"compressionParameters":{},"compressionClass":"LZ4Compressor"}"#;
        assert_eq!(compression(lz4), Ok(Some(Algorithm::Lz4)));
    }
}
