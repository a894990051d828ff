//! The log of a compaction as Helenus wrote it before it took Cassandra's: a file
//! `helenus-compaction-<generation>.log` that names the inputs to remove once the output existed.
//! They are still obeyed, not written any more.
//!
//! ```text
//! file = magic line, name of an input's data file a line, "crc <number>" line
//! ```

use std::path::{Path, PathBuf};

use io::Env;

use crate::sstable::Descriptor;

const MAGIC: &str = "helenus compaction 1";
const PREFIX: &str = "helenus-compaction-";
const SUFFIX: &str = ".log";

fn path(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{generation}{SUFFIX}"))
}

fn decode(dir: &Path, bytes: &[u8]) -> Option<Vec<Descriptor>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (content, crc) = text.split_at(text.rfind("crc ")?);
    let crc: u32 = crc.strip_prefix("crc ")?.strip_suffix('\n')?.parse().ok()?;
    if crc32fast::hash(content.as_bytes()) != crc {
        return None;
    }
    let mut lines = content.lines();
    if lines.next()? != MAGIC {
        return None;
    }
    lines
        .map(|line| Descriptor::parse(dir, line).map(|(descriptor, _)| descriptor))
        .collect()
}

/// The inputs are gone: so is the file that named them.
pub(crate) async fn finish(env: &Env, dir: &Path, generation: u64) -> std::io::Result<()> {
    env.remove_file(&path(dir, generation)).await?;
    env.sync_dir(dir).await
}

/// The compactions in a folder that were interrupted after they had happened, with the inputs that
/// do not count any more. A file that is not whole did not happen: if it is ours, it is removed.
pub(crate) async fn interrupted(
    env: &Env,
    dir: &Path,
    names: &[String],
    mine: impl Fn(u64) -> bool,
) -> std::io::Result<Vec<(u64, Vec<Descriptor>)>> {
    let mut found = Vec::new();
    for name in names {
        let number = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_suffix(SUFFIX));
        let Some(generation) = number.and_then(|n| n.parse().ok()) else {
            continue;
        };
        let bytes = env.read_file(&path(dir, generation)).await?;
        match decode(dir, &bytes) {
            Some(inputs) => found.push((generation, inputs)),
            None if mine(generation) => finish(env, dir, generation).await?,
            None => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::Format;

    #[test]
    fn a_file_names_its_inputs_only_when_whole() {
        let dir = Path::new("/t");
        let content = "helenus compaction 1\nnb-3-big-Data.db\nnb-12-big-Data.db\n";
        let crc = crc32fast::hash(content.as_bytes());
        let bytes = format!("{content}crc {crc}\n").into_bytes();
        let inputs = [3, 12]
            .map(|n| Descriptor::new(dir, Format::Big, n))
            .to_vec();
        assert_eq!(decode(dir, &bytes), Some(inputs));
        for len in 0..bytes.len() {
            assert_eq!(decode(dir, &bytes[..len]), None, "cut at {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(dir, &bytes), None, "bit {bit}");
        }
    }
}
