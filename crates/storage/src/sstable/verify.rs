//! Verifying: everything is read, and all that can tell of damage is compared
//! (`org.apache.cassandra.io.sstable.format.SortedTableVerifier`).

use model::{DecoratedKey, murmur3_x64_128};

use super::big::summary::Summary;
use super::chunked_file;
use super::descriptor::Component;
use super::error::SSTableError;
use super::filter::BloomFilter;
use super::index::Index;
use super::open::{read_component, read_filter, read_seal, read_summary};
use super::reader::SSTable;
use super::scan::ScanOptions;

impl SSTable {
    /// Reads all of the data past the cache and checks all checksums, that of the whole file
    /// (`Digest.crc32`) included.
    pub async fn verify(&self) -> Result<(), SSTableError> {
        self.verify_data(|_| {}).await
    }

    /// The same, and that the filter knows all keys: what it does not know is never read.
    pub async fn verify_with_filter(&self) -> Result<(), SSTableError> {
        let mut unknown = None;
        let filter = self.filter();
        self.verify_data(|key| {
            if unknown.is_none() && !filter.may_contain(murmur3_x64_128(key.key())) {
                unknown = Some(key.token());
            }
        })
        .await?;
        let Some(token) = unknown else {
            return Ok(());
        };
        let path = self.descriptor().path(Component::Filter);
        let what = format!(
            "it does not know a partition of the data, of token {}",
            token.0
        );
        Err(SSTableError::corrupt(&path, 0, what))
    }

    /// Reads what is made anew if it is damaged when an sstable is opened, its filter and its
    /// summary, and takes damage for what it is. `false`: it should have a summary and has none. A
    /// filter may be missing, as with Cassandra (`FilterComponent.load`).
    pub async fn verify_derived(&self) -> Result<bool, SSTableError> {
        let (env, descriptor) = (self.env(), self.descriptor());
        let seal = read_seal(env, descriptor).await?;
        let seal = seal.as_ref();
        let filter = read_filter(env, descriptor, self.statistics(), seal).await;
        let _: Option<BloomFilter> = filter?;
        let Index::Big(index) = self.index() else {
            return Ok(true);
        };
        let length = index.file().length();
        let summary: Option<Summary> = read_summary(env, descriptor, length, seal).await?;
        Ok(summary.is_some())
    }

    /// `see` sees all keys.
    async fn verify_data(&self, mut see: impl FnMut(&DecoratedKey)) -> Result<(), SSTableError> {
        let mut scanner = self.scan(ScanOptions::default());
        while let Some(head) = scanner.next_partition().await? {
            see(&head.key);
            while scanner.next().await?.is_some() {}
            self.env().maybe_yield().await;
        }
        self.verify_digest().await
    }

    async fn verify_digest(&self) -> Result<(), SSTableError> {
        let (env, data) = (self.env(), self.data());
        let digest_path = self.descriptor().path(Component::Digest);
        let Some(digest) = read_component(env, &digest_path).await? else {
            return Ok(());
        };
        let said: Option<u32> = std::str::from_utf8(&digest)
            .ok()
            .and_then(|text| text.trim().parse().ok());
        let (file, length) = chunked_file::open(env, data.path()).await?;
        let mut hasher = crc32fast::Hasher::new();
        let mut position = 0;
        while position < length {
            let piece = (length - position).min(1 << 20) as usize;
            let bytes = file
                .read_exact_at(position, piece)
                .await
                .map_err(|e| SSTableError::io(data.path(), e))?;
            hasher.update(&bytes);
            position += piece as u64;
            env.maybe_yield().await;
        }
        if said != Some(hasher.finalize()) {
            let data = data.path().display();
            let what = format!("it is not the checksum of the data file {data}");
            return Err(SSTableError::corrupt(&digest_path, 0, what));
        }
        Ok(())
    }
}
