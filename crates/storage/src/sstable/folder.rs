//! The sstables of a table's folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use io::Env;

use super::descriptor::{Component, Descriptor, Generation, TEMPORARY_SUFFIX};

/// The file system failed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FolderError {
    /// Which file or folder.
    pub path: PathBuf,
    /// How.
    pub source: std::io::Error,
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError { path, source }
}

/// What is in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The sstables that exist.
    pub sstables: Vec<Descriptor>,
    /// Data files of formats that cannot be read: rows that nobody would see.
    pub unknown: Vec<PathBuf>,
}

/// Finds the sstables in a folder, and removes what is left of those that a crash kept from
/// coming into existence or from being removed wholly: components without data, and data under a
/// temporary name, where `may_remove` agrees (others may be at work in the folder). Files of other
/// kinds are left alone.
pub async fn recover(
    env: &Env,
    dir: &Path,
    may_remove: impl Fn(&Descriptor) -> bool,
) -> Result<Found, FolderError> {
    let mut files: BTreeMap<Descriptor, Vec<String>> = BTreeMap::new();
    let mut found = Found::default();
    // A process that was killed may have left here names that only the kernel has yet.
    env.sync_dir(dir).await.map_err(at(dir))?;
    for entry in env.read_dir(dir).await.map_err(at(dir))? {
        if entry.is_dir {
            continue;
        }
        match Descriptor::parse(dir, &entry.name) {
            Some((descriptor, component)) => {
                let components = files.entry(descriptor).or_default();
                components.push(component.to_owned());
            }
            None if entry.name.ends_with("-Data.db") => {
                found.unknown.push(dir.join(&entry.name));
            }
            None => {}
        }
    }
    let mut removed = false;
    for (descriptor, components) in files {
        let exists = components.iter().any(|c| c == Component::Data.name());
        for component in &components {
            let left = !exists || component.ends_with(TEMPORARY_SUFFIX);
            if left && may_remove(&descriptor) {
                let path = descriptor.path_named(component);
                tracing::info!(path = %path.display(), "removing what an unfinished sstable left");
                env.remove_file(&path).await.map_err(at(&path))?;
                removed = true;
            }
        }
        if exists {
            found.sstables.push(descriptor);
        }
    }
    if removed {
        env.sync_dir(dir).await.map_err(at(dir))?;
    }
    Ok(found)
}

/// The numbers that files of sstables in a folder bear, be there all of an sstable or a part.
pub(crate) async fn numbers(env: &Env, dir: &Path) -> Result<BTreeSet<u64>, FolderError> {
    let entries = env.read_dir(dir).await.map_err(at(dir))?;
    let number = |name: &str| match Descriptor::parse(dir, name)?.0.generation {
        Generation::Number(number) => Some(number),
        Generation::Time(_) => None,
    };
    let numbers = entries.iter().filter_map(|entry| number(&entry.name));
    Ok(numbers.collect())
}

/// Removes an sstable. The data goes first, so that after a crash the rest is known to be
/// garbage. What somebody else has removed before is gone all the same.
pub async fn remove(env: &Env, descriptor: &Descriptor) -> Result<(), FolderError> {
    let data = descriptor.path(Component::Data);
    env.remove_file_if_there(&data).await.map_err(at(&data))?;
    let dir = &descriptor.dir;
    env.sync_dir(dir).await.map_err(at(dir))?;
    for entry in env.read_dir(dir).await.map_err(at(dir))? {
        let of_this = Descriptor::parse(dir, &entry.name).is_some_and(|(d, _)| d == *descriptor);
        if of_this && !entry.is_dir {
            let path = dir.join(&entry.name);
            env.remove_file_if_there(&path).await.map_err(at(&path))?;
        }
    }
    Ok(())
}

/// Removes whatever there is of an sstable that could not be finished, or not be opened once it
/// was. What cannot be removed now is found again at the next start.
pub(crate) async fn discard(env: &Env, descriptor: &Descriptor) {
    if let Err(error) = try_discard(env, descriptor).await {
        tracing::warn!("removing what is left of an unfinished sstable: {error}");
    }
}

async fn try_discard(env: &Env, descriptor: &Descriptor) -> Result<(), FolderError> {
    let dir = &descriptor.dir;
    let mut left = Vec::new();
    for entry in env.read_dir(dir).await.map_err(at(dir))? {
        let of_this = Descriptor::parse(dir, &entry.name).filter(|(d, _)| d == descriptor);
        if let Some((_, component)) = of_this {
            // The data goes first: without it the rest is known to be garbage.
            let order = component != Component::Data.name();
            left.push((order, dir.join(&entry.name)));
        }
    }
    left.sort();
    for (order, path) in left {
        env.remove_file(&path).await.map_err(at(&path))?;
        if !order {
            env.sync_dir(dir).await.map_err(at(dir))?;
        }
    }
    Ok(())
}
