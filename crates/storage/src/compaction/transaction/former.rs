//! Replacing the inputs of a compaction by its output, atomically through a crash.
//!
//! Once the output exists, a file beside it names the inputs to remove; from then on the
//! compaction has happened. Whoever finds such a file at start removes what it names. Before it
//! exists, output and inputs may both be there, which says the same twice. But a part of the
//! inputs must never be there alone: it could hold what a deletion in the others covered.
//!
//! ```text
//! file = magic line, name of an input's data file a line, "crc <number>" line
//! ```

use std::path::{Path, PathBuf};

use io::{Env, OpenOptions};

use crate::sstable::{Component, Descriptor, Generation};

const MAGIC: &str = "helenus compaction 1";
const PREFIX: &str = "helenus-compaction-";
const SUFFIX: &str = ".log";

/// Which of the files in a folder are this shard's to recover.
pub(crate) fn is_mine(generation: u64, shard: u16, shards: u16) -> bool {
    generation % u64::from(shards) == u64::from(shard)
}

fn path(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{generation}{SUFFIX}"))
}

fn encode(inputs: &[Descriptor]) -> Vec<u8> {
    let mut text = format!("{MAGIC}\n");
    for input in inputs {
        let data = input.path(Component::Data);
        let name = data.file_name().map(|n| n.to_string_lossy().into_owned());
        text.push_str(&name.unwrap_or_default());
        text.push('\n');
    }
    let crc = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("crc {crc}\n"));
    text.into_bytes()
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

/// Says, on the drive, that `inputs` are to be removed in favour of the output of `generation`.
pub(crate) async fn commit(
    env: &Env,
    dir: &Path,
    generation: u64,
    inputs: &[Descriptor],
) -> std::io::Result<()> {
    let options = OpenOptions {
        write: true,
        create: true,
        truncate: true,
        ..OpenOptions::default()
    };
    let file = env.open(&path(dir, generation), options).await?;
    file.write_all_at(encode(inputs), 0).await.0?;
    file.sync_all().await?;
    env.sync_dir(dir).await
}

/// The inputs are gone: so is the file that named them.
pub(crate) async fn finish(env: &Env, dir: &Path, generation: u64) -> std::io::Result<()> {
    env.remove_file(&path(dir, generation)).await?;
    env.sync_dir(dir).await
}

/// The compactions of this shard in a folder that were interrupted after they had happened, with
/// the inputs still to remove. A file that is not whole did not happen: it is removed.
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
        let Some(generation) = number.and_then(|n| n.parse().ok()).filter(|g| mine(*g)) else {
            continue;
        };
        let options = OpenOptions {
            read: true,
            ..OpenOptions::default()
        };
        let file = env.open(&path(dir, generation), options).await?;
        let len = file.len().await?;
        let bytes = file.read_exact_at(0, len as usize).await?;
        match decode(dir, &bytes) {
            Some(inputs) => found.push((generation, inputs)),
            None => finish(env, dir, generation).await?,
        }
    }
    Ok(found)
}

/// The number of a generation, 0 for one of Cassandra's time-based ids.
pub(crate) fn number(generation: &Generation) -> u64 {
    match generation {
        Generation::Number(number) => *number,
        Generation::Time(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::Format;

    #[test]
    fn a_file_names_its_inputs_only_when_whole() {
        let dir = Path::new("/t");
        let inputs = [3, 12]
            .map(|generation| Descriptor::new(dir, Format::Big, generation))
            .to_vec();
        let bytes = encode(&inputs);
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
