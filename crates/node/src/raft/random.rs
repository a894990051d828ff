//! The shard's random numbers, as openraft draws them.

use std::convert::Infallible;

use io::Env;
use rand_core::TryRng;

/// Draws from the random numbers of a shard, which in the simulator follow from the seed: how long a
/// node waits before it stands for election does too. Not for secrets.
#[derive(Debug)]
pub struct ShardRandom {
    env: Env,
}

impl ShardRandom {
    pub(super) fn new(env: Env) -> ShardRandom {
        ShardRandom { env }
    }
}

impl TryRng for ShardRandom {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.env.random_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.env.random_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for part in bytes.chunks_mut(8) {
            let number = self.env.random_u64().to_le_bytes();
            part.copy_from_slice(&number[..part.len()]);
        }
        Ok(())
    }
}
