//! Parts of an sstable read on their own, for tools that look at one without opening it.

use io::Env;

use super::compression::{CompressionInfo, CompressionParameters};
use super::descriptor::{Component, Descriptor};
use super::error::SSTableError;
use super::input::Input;
use super::open::read_component;
use super::statistics::Statistics;

/// What `Statistics.db` says, whatever the partitioner is.
pub async fn read_statistics(
    env: &Env,
    descriptor: &Descriptor,
) -> Result<Statistics, SSTableError> {
    let path = descriptor.path(Component::Statistics);
    let Some(bytes) = read_component(env, &path).await? else {
        return Err(SSTableError::Missing { path });
    };
    Statistics::decode(&bytes, descriptor.version)
        .map_err(|(offset, error)| SSTableError::corrupt(&path, offset, error.to_string()))
}

/// How the data is compressed, by `CompressionInfo.db`; `None` if there is none.
pub async fn read_compression(
    env: &Env,
    descriptor: &Descriptor,
) -> Result<Option<CompressionParameters>, SSTableError> {
    let path = descriptor.path(Component::CompressionInfo);
    let Some(bytes) = read_component(env, &path).await? else {
        return Ok(None);
    };
    let mut input = Input::new(&bytes);
    match CompressionInfo::decode(&mut input, descriptor.version) {
        Ok(Ok(info)) => Ok(Some(info.parameters)),
        Ok(Err(what)) => Err(SSTableError::Unsupported { path, what }),
        Err(error) => {
            let offset = input.position() as u64;
            Err(SSTableError::corrupt(&path, offset, error.to_string()))
        }
    }
}
