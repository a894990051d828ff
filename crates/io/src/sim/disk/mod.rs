//! A simulated drive: what programs see of it, and what of that is left after the power fails.
//!
//! Every file has two images, pages of 4 KiB each: the one that programs read and write, and the
//! one that the drive has for certain. Writing makes pages of the first dirty; a sync copies what
//! was dirty into the second. When the power fails, every 512-byte sector of a dirty page is on the
//! drive or not, at random, so writes are lost, torn or whole; so is a length that changed.
//!
//! Names behave alike, one folder at a time: making, renaming and removing are logged, and
//! `sync_dir` makes what touched that folder certain. Of the rest a crash keeps either the first
//! few operations, as a journal would, or any of them, as POSIX allows.

mod image;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use crate::random::Random;
use image::Image;

/// The unit of the page cache, in bytes.
const PAGE: u64 = 4096;

/// What a drive writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// Names a file or folder whatever it is called.
pub(crate) type InodeId = u64;

const ROOT: InodeId = 0;

/// Fewer files and folders than this are not swept.
const SWEPT_AT_LEAST: usize = 64;

/// What is wrong with a drive. Probabilities are per operation and from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskFaults {
    /// A read fails.
    pub read_error: f64,
    /// A write fails after some of it was done.
    pub write_error: f64,
    /// A sync fails. As on Linux, what it should have written counts as clean afterwards and is
    /// lost in a crash.
    pub sync_error: f64,
    /// A bit of what is read has changed, for good.
    pub bit_rot: f64,
    /// An operation takes [`DiskFaults::SLOW`] times as long as usual.
    pub slow: f64,
}

impl DiskFaults {
    /// A drive without faults.
    pub const NONE: DiskFaults = DiskFaults {
        read_error: 0.0,
        write_error: 0.0,
        sync_error: 0.0,
        bit_rot: 0.0,
        slow: 0.0,
    };

    /// How many times longer a slow operation takes.
    pub const SLOW: u32 = 100;
}

enum Node {
    File(Content),
    Folder(Folder),
}

#[derive(Default)]
struct Content {
    seen: Image,
    durable: Image,
    /// Dirty pages, with the number of the write that made them so last.
    dirty: BTreeMap<u64, u64>,
    writes: u64,
    /// No read of it succeeds.
    unreadable: bool,
    /// Names of it, as programs see them, and open handles.
    names: u32,
    handles: u32,
}

#[derive(Default)]
struct Folder {
    seen: BTreeMap<String, InodeId>,
    durable: BTreeMap<String, InodeId>,
}

/// What an operation on names changed: which name in which folder stands for what since.
type NameChange = Vec<(InodeId, String, Option<InodeId>)>;

/// What a sync will make certain when it is done.
pub(crate) struct SyncUnderWay {
    inode: InodeId,
    write: u64,
}

/// The drive of one node.
pub(crate) struct Disk {
    nodes: BTreeMap<InodeId, Node>,
    next: InodeId,
    /// How many of them were left when it was swept last.
    swept: usize,
    /// Operations on names that no `sync_dir` has made certain.
    log: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    /// How many bytes files may take.
    pub(crate) capacity: u64,
    pub(crate) faults: DiskFaults,
    /// What the wall clock shows, in microseconds since 1970.
    pub(crate) now_micros: i64,
}

fn kind(kind: ErrorKind) -> io::Error {
    kind.into()
}

/// The names on the way to `path`, from the root.
fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                names.push(name.to_str().ok_or(kind(ErrorKind::InvalidInput))?);
            }
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(names)
}

impl Disk {
    pub(crate) fn new(capacity: u64) -> Disk {
        Disk {
            nodes: BTreeMap::from([(ROOT, Node::Folder(Folder::default()))]),
            next: ROOT + 1,
            swept: 0,
            log: Vec::new(),
            locks: BTreeSet::new(),
            capacity,
            faults: DiskFaults::NONE,
            now_micros: 0,
        }
    }

    /// Opens a file, which has a handle more then.
    pub(crate) fn open(
        &mut self,
        path: &Path,
        options: crate::file::OpenOptions,
    ) -> io::Result<InodeId> {
        if !(options.read || options.write) {
            return Err(kind(ErrorKind::InvalidInput));
        }
        let inode = match self.find(path) {
            Ok(_) if options.create_new => return Err(kind(ErrorKind::AlreadyExists)),
            Ok(inode) => inode,
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) if options.create || options.create_new => self.create_file(path)?,
            Err(error) => return Err(error),
        };
        self.file_mut(inode)?.handles += 1;
        if options.truncate {
            self.set_len(inode, 0)?;
        }
        Ok(inode)
    }

    pub(crate) fn close(&mut self, inode: InodeId) {
        let Ok(file) = self.file_mut(inode) else {
            return;
        };
        file.handles = file.handles.saturating_sub(1);
        if file.handles == 0 && file.names == 0 {
            self.sweep_in_time();
        }
    }

    pub(crate) fn len(&self, inode: InodeId) -> io::Result<u64> {
        Ok(self.file(inode)?.seen.len)
    }

    /// Bytes that are still free.
    pub(crate) fn available(&self) -> u64 {
        let used = self.nodes.values().map(|node| match node {
            // What has no name any more and is not open takes no room.
            Node::File(file) if file.names > 0 || file.handles > 0 => {
                file.seen.len.next_multiple_of(PAGE)
            }
            _ => 0,
        });
        self.capacity.saturating_sub(used.sum())
    }

    /// May the file grow to `len`?
    fn check_room(&self, inode: InodeId, len: u64) -> io::Result<()> {
        let before = self.file(inode)?.seen.len.next_multiple_of(PAGE);
        let after = len.next_multiple_of(PAGE);
        if after > before && after - before > self.available() {
            return Err(kind(ErrorKind::StorageFull));
        }
        Ok(())
    }

    pub(crate) fn read(
        &mut self,
        inode: InodeId,
        offset: u64,
        len: u64,
        random: &mut Random,
    ) -> io::Result<Vec<u8>> {
        if random.chance(self.faults.read_error) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let rot = random.chance(self.faults.bit_rot);
        let file = self.file_mut(inode)?;
        if file.unreadable {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let end = offset.saturating_add(len).min(file.seen.len);
        if rot && end > offset {
            let at = offset + random.below(end - offset);
            file.flip_bit(at, random.below(8) as u32);
        }
        Ok(file.seen.read(offset, len))
    }

    pub(crate) fn write(
        &mut self,
        inode: InodeId,
        offset: u64,
        bytes: &[u8],
        random: &mut Random,
    ) -> io::Result<()> {
        let fails = random.chance(self.faults.write_error);
        let end = offset
            .checked_add(bytes.len() as u64)
            .ok_or(kind(ErrorKind::InvalidInput))?;
        if !fails {
            self.check_room(inode, end)?;
        }
        let now = self.now_micros;
        let file = self.file_mut(inode)?;
        file.writes += 1;
        file.seen.modified_micros = now;
        let (dirty, number) = (&mut file.dirty, file.writes);
        let count = if fails {
            random.below(bytes.len() as u64 + 1) as usize
        } else {
            bytes.len()
        };
        file.seen.write(offset, &bytes[..count], |page| {
            dirty.insert(page, number);
        });
        if fails {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }

    pub(crate) fn set_len(&mut self, inode: InodeId, len: u64) -> io::Result<()> {
        self.check_room(inode, len)?;
        let now = self.now_micros;
        let file = self.file_mut(inode)?;
        file.writes += 1;
        file.seen.modified_micros = now;
        let (dirty, number) = (&mut file.dirty, file.writes);
        file.seen.set_len(len, |page| {
            dirty.insert(page, number);
        });
        dirty.split_off(&len.div_ceil(PAGE));
        Ok(())
    }

    pub(crate) fn allocate(&mut self, inode: InodeId, len: u64) -> io::Result<()> {
        if len > self.file(inode)?.seen.len {
            self.set_len(inode, len)?;
        }
        Ok(())
    }

    /// Begins to sync a file: what was written until now will be certain once it is done.
    pub(crate) fn begin_sync(&self, inode: InodeId) -> io::Result<SyncUnderWay> {
        let write = self.file(inode)?.writes;
        Ok(SyncUnderWay { inode, write })
    }

    pub(crate) fn end_sync(&mut self, sync: SyncUnderWay, random: &mut Random) -> io::Result<()> {
        let fails = random.chance(self.faults.sync_error);
        let file = self.file_mut(sync.inode)?;
        let due: Vec<u64> = file
            .dirty
            .iter()
            .filter(|(_, write)| **write <= sync.write)
            .map(|(page, _)| *page)
            .collect();
        for page in &due {
            file.dirty.remove(page);
        }
        if fails {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        file.durable.set_len(file.seen.len, |_| {});
        file.durable.modified_micros = file.seen.modified_micros;
        for page in due {
            match file.seen.pages.get(&page) {
                Some(bytes) => file.durable.pages.insert(page, bytes.clone()),
                None => file.durable.pages.remove(&page),
            };
        }
        Ok(())
    }

    /// Flips a bit of a file, for programs to see and for good.
    pub(crate) fn flip_bit(&mut self, path: &Path, offset: u64, bit: u32) -> io::Result<()> {
        let inode = self.find(path)?;
        let file = self.file_mut(inode)?;
        if offset >= file.seen.len {
            return Err(kind(ErrorKind::InvalidInput));
        }
        file.flip_bit(offset, bit);
        Ok(())
    }

    /// Says whether reads of a file fail.
    pub(crate) fn set_unreadable(&mut self, path: &Path, unreadable: bool) -> io::Result<()> {
        let inode = self.find(path)?;
        self.file_mut(inode)?.unreadable = unreadable;
        Ok(())
    }

    /// The process ends; the kernel and the drive go on.
    pub(crate) fn process_ends(&mut self) {
        self.locks.clear();
        for node in self.nodes.values_mut() {
            if let Node::File(file) = node {
                file.handles = 0;
            }
        }
        self.sweep();
    }

    /// The power fails: only what the drive has is left.
    pub(crate) fn power_fails(&mut self, random: &mut Random) {
        let log = std::mem::take(&mut self.log);
        let as_journal = random.chance(0.5);
        let first = random.below(log.len() as u64 + 1) as usize;
        for (number, change) in log.iter().enumerate() {
            let survives = if as_journal {
                number < first
            } else {
                random.chance(0.5)
            };
            if survives {
                self.make_durable(change);
            }
        }
        self.process_ends();
        for node in self.nodes.values_mut() {
            match node {
                Node::File(file) => file.power_fails(random),
                Node::Folder(folder) => folder.seen = folder.durable.clone(),
            }
        }
        self.count_names();
        self.sweep();
    }

    fn count_names(&mut self) {
        let mut counts: BTreeMap<InodeId, u32> = BTreeMap::new();
        for node in self.nodes.values() {
            if let Node::Folder(folder) = node {
                for inode in folder.seen.values() {
                    *counts.entry(*inode).or_default() += 1;
                }
            }
        }
        for (inode, node) in &mut self.nodes {
            if let Node::File(file) = node {
                file.names = counts.get(inode).copied().unwrap_or(0);
            }
        }
    }
}

impl Content {
    fn flip_bit(&mut self, offset: u64, bit: u32) {
        for image in [&mut self.seen, &mut self.durable] {
            if offset < image.len {
                let page = image
                    .pages
                    .entry(offset / PAGE)
                    .or_insert_with(|| Rc::new([0; PAGE as usize]));
                Rc::make_mut(page)[(offset % PAGE) as usize] ^= 1 << (bit % 8);
            }
        }
    }

    fn power_fails(&mut self, random: &mut Random) {
        let (old, new) = (self.durable.len, self.seen.len);
        let len = match random.below(3) {
            0 => old,
            1 => new,
            _ => old.min(new) + random.below(old.abs_diff(new) + 1),
        };
        for page in std::mem::take(&mut self.dirty).into_keys() {
            let Some(seen) = self.seen.pages.get(&page) else {
                continue;
            };
            let durable = self
                .durable
                .pages
                .entry(page)
                .or_insert_with(|| Rc::new([0; PAGE as usize]));
            // Mostly a page goes as a whole; sometimes it is torn.
            let (torn, whole) = (random.chance(0.3), random.chance(0.5));
            let durable = Rc::make_mut(durable);
            for sector in (0..PAGE as usize).step_by(SECTOR) {
                if if torn { random.chance(0.5) } else { whole } {
                    let sector = sector..sector + SECTOR;
                    durable[sector.clone()].copy_from_slice(&seen[sector]);
                }
            }
        }
        if random.chance(0.5) {
            self.durable.modified_micros = self.seen.modified_micros;
        }
        // What lies behind the end reads as zeros if the file grows again.
        self.durable.len = self.durable.len.max(new);
        self.durable.set_len(len, |_| {});
        self.seen = self.durable.clone();
    }
}
