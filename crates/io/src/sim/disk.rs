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

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use crate::folder::DirEntry;
use crate::random::Random;

/// The unit of the page cache, in bytes.
const PAGE: u64 = 4096;

/// What a drive writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// Names a file or folder whatever it is called.
pub(crate) type InodeId = u64;

const ROOT: InodeId = 0;

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

#[derive(Clone, Default)]
struct Image {
    len: u64,
    /// Pages that are not there hold zeros.
    pages: BTreeMap<u64, Rc<[u8; PAGE as usize]>>,
}

impl Image {
    fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = offset.saturating_add(len).min(self.len);
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        let mut at = offset;
        while at < end {
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            let count = (PAGE - at % PAGE).min(end - at) as usize;
            if let Some(page) = self.pages.get(&page) {
                let to = (at - offset) as usize;
                bytes[to..to + count].copy_from_slice(&page[within..within + count]);
            }
            at += count as u64;
        }
        bytes
    }

    fn write(&mut self, offset: u64, bytes: &[u8], mut touched: impl FnMut(u64)) {
        let mut written = 0;
        while written < bytes.len() {
            let at = offset + written as u64;
            let within = (at % PAGE) as usize;
            let count = (PAGE as usize - within).min(bytes.len() - written);
            let page = self
                .pages
                .entry(at / PAGE)
                .or_insert_with(|| Rc::new([0; PAGE as usize]));
            Rc::make_mut(page)[within..within + count]
                .copy_from_slice(&bytes[written..written + count]);
            touched(at / PAGE);
            written += count;
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    /// Changes the length; what a longer file gains is zeros.
    fn set_len(&mut self, len: u64, mut touched: impl FnMut(u64)) {
        if len < self.len {
            self.pages.split_off(&len.div_ceil(PAGE));
            let within = (len % PAGE) as usize;
            if within > 0
                && let Some(page) = self.pages.get_mut(&(len / PAGE))
            {
                Rc::make_mut(page)[within..].fill(0);
                touched(len / PAGE);
            }
        }
        self.len = len;
    }
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
    /// Operations on names that no `sync_dir` has made certain.
    log: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    /// How many bytes files may take.
    pub(crate) capacity: u64,
    pub(crate) faults: DiskFaults,
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
            log: Vec::new(),
            locks: BTreeSet::new(),
            capacity,
            faults: DiskFaults::NONE,
        }
    }

    // ---- names ----

    fn folder(&self, inode: InodeId) -> io::Result<&Folder> {
        match self.nodes.get(&inode) {
            Some(Node::Folder(folder)) => Ok(folder),
            Some(Node::File(_)) => Err(kind(ErrorKind::NotADirectory)),
            None => Err(kind(ErrorKind::NotFound)),
        }
    }

    fn file(&self, inode: InodeId) -> io::Result<&Content> {
        match self.nodes.get(&inode) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder(_)) => Err(kind(ErrorKind::IsADirectory)),
            None => Err(kind(ErrorKind::NotFound)),
        }
    }

    fn file_mut(&mut self, inode: InodeId) -> io::Result<&mut Content> {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder(_)) => Err(kind(ErrorKind::IsADirectory)),
            None => Err(kind(ErrorKind::NotFound)),
        }
    }

    fn find(&self, path: &Path) -> io::Result<InodeId> {
        let mut inode = ROOT;
        for name in names(path)? {
            let entry = self.folder(inode)?.seen.get(name);
            inode = *entry.ok_or(kind(ErrorKind::NotFound))?;
        }
        Ok(inode)
    }

    /// The folder that holds `path`, and the last name of it.
    fn parent(&self, path: &Path) -> io::Result<(InodeId, String)> {
        let names = names(path)?;
        let (last, above) = names.split_last().ok_or(kind(ErrorKind::InvalidInput))?;
        let folder = self.find(&above.iter().collect::<PathBuf>())?;
        self.folder(folder)?;
        Ok((folder, (*last).to_owned()))
    }

    fn make(&mut self, node: Node) -> InodeId {
        let inode = self.next;
        self.next += 1;
        self.nodes.insert(inode, node);
        inode
    }

    /// Carries out an operation on names, for programs to see.
    fn change(&mut self, change: NameChange) {
        for (folder, name, target) in &change {
            let Some(Node::Folder(folder)) = self.nodes.get_mut(folder) else {
                continue;
            };
            let before = match target {
                Some(target) => folder.seen.insert(name.clone(), *target),
                None => folder.seen.remove(name),
            };
            for (inode, more) in [(before, false), (*target, true)] {
                if let Some(Node::File(file)) = inode.and_then(|inode| self.nodes.get_mut(&inode)) {
                    let names = file.names;
                    file.names = if more { names + 1 } else { names - 1 };
                }
            }
        }
        self.log.push(change);
    }

    pub(crate) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut folder = ROOT;
        for name in names(path)? {
            folder = match self.folder(folder)?.seen.get(name) {
                Some(inode) => *inode,
                None => {
                    let inode = self.make(Node::Folder(Folder::default()));
                    self.change(vec![(folder, name.to_owned(), Some(inode))]);
                    inode
                }
            };
        }
        self.folder(folder).map(|_| ())
    }

    pub(crate) fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let folder = self.folder(self.find(path)?)?;
        let entries = folder.seen.iter().map(|(name, inode)| {
            let file = self.file(*inode).ok();
            DirEntry {
                name: name.clone(),
                is_dir: file.is_none(),
                len: file.map_or(0, |file| file.seen.len),
            }
        });
        Ok(entries.collect())
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.find(path).is_ok()
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_folder, from_name) = self.parent(from)?;
        let inode = self.find(from)?;
        let (to_folder, to_name) = self.parent(to)?;
        if (from_folder, &from_name) == (to_folder, &to_name) {
            return Ok(());
        }
        if let Some(replaced) = self.folder(to_folder)?.seen.get(&to_name) {
            match (&self.nodes[&inode], &self.nodes[replaced]) {
                (Node::File(_), Node::File(_)) => {}
                (Node::Folder(_), Node::Folder(folder)) if folder.seen.is_empty() => {}
                (_, Node::Folder(_)) => return Err(kind(ErrorKind::DirectoryNotEmpty)),
                (_, Node::File(_)) => return Err(kind(ErrorKind::NotADirectory)),
            }
        }
        self.change(vec![
            (from_folder, from_name, None),
            (to_folder, to_name, Some(inode)),
        ]);
        self.sweep();
        Ok(())
    }

    pub(crate) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.find(from)?;
        self.file(inode)?;
        let (folder, name) = self.parent(to)?;
        if self.folder(folder)?.seen.contains_key(&name) {
            return Err(kind(ErrorKind::AlreadyExists));
        }
        self.change(vec![(folder, name, Some(inode))]);
        Ok(())
    }

    pub(crate) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.file(self.find(path)?)?;
        let (folder, name) = self.parent(path)?;
        self.change(vec![(folder, name, None)]);
        self.sweep();
        Ok(())
    }

    pub(crate) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let root = self.find(path)?;
        self.folder(root)?;
        let (parent, name) = self.parent(path)?;
        let mut folders = vec![root];
        let mut removals = Vec::new();
        while let Some(inode) = folders.pop() {
            for (name, entry) in &self.folder(inode)?.seen {
                removals.push((inode, name.clone(), None));
                if self.file(*entry).is_err() {
                    folders.push(*entry);
                }
            }
        }
        // Each is an operation of its own, the deepest first.
        for removal in removals.into_iter().rev() {
            self.change(vec![removal]);
        }
        self.change(vec![(parent, name, None)]);
        self.sweep();
        Ok(())
    }

    pub(crate) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.find(path)?;
        self.folder(inode)?;
        let log = std::mem::take(&mut self.log);
        let mut kept: Vec<NameChange> = Vec::new();
        for change in log {
            if change.iter().any(|(folder, _, _)| *folder == inode) {
                // What was before under the same names must not come back later.
                for earlier in &mut kept {
                    earlier.retain(|(folder, name, _)| {
                        !change.iter().any(|(f, n, _)| (f, n) == (folder, name))
                    });
                }
                self.make_durable(&change);
            } else {
                kept.push(change);
            }
        }
        kept.retain(|change| !change.is_empty());
        self.log = kept;
        self.sweep();
        Ok(())
    }

    fn make_durable(&mut self, change: &NameChange) {
        for (folder, name, target) in change {
            if let Some(Node::Folder(folder)) = self.nodes.get_mut(folder) {
                match target {
                    Some(target) => folder.durable.insert(name.clone(), *target),
                    None => folder.durable.remove(name),
                };
            }
        }
    }

    /// Forgets what no name, handle or logged operation leads to.
    fn sweep(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut folders = vec![ROOT];
        let logged = self
            .log
            .iter()
            .flatten()
            .filter_map(|(_, _, target)| *target);
        let open = self.nodes.iter().filter_map(|(inode, node)| match node {
            Node::File(file) if file.handles > 0 => Some(*inode),
            _ => None,
        });
        for inode in logged.chain(open).collect::<Vec<_>>() {
            if reached.insert(inode) {
                folders.push(inode);
            }
        }
        while let Some(inode) = folders.pop() {
            if let Some(Node::Folder(folder)) = self.nodes.get(&inode) {
                for entry in folder.seen.values().chain(folder.durable.values()) {
                    if reached.insert(*entry) {
                        folders.push(*entry);
                    }
                }
            }
        }
        self.nodes.retain(|inode, _| reached.contains(inode));
    }

    pub(crate) fn lock(&mut self, path: &Path) -> io::Result<()> {
        if !self.locks.insert(path.to_owned()) {
            return Err(kind(ErrorKind::WouldBlock));
        }
        if self.find(path).is_err() {
            let made = self.create_file(path);
            if made.is_err() {
                self.locks.remove(path);
            }
            made?;
        }
        Ok(())
    }

    pub(crate) fn unlock(&mut self, path: &Path) {
        self.locks.remove(path);
    }

    fn create_file(&mut self, path: &Path) -> io::Result<InodeId> {
        let (folder, name) = self.parent(path)?;
        let inode = self.make(Node::File(Content::default()));
        self.change(vec![(folder, name, Some(inode))]);
        Ok(inode)
    }

    // ---- contents ----

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
            self.sweep();
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
        let file = self.file_mut(inode)?;
        file.writes += 1;
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
        let file = self.file_mut(inode)?;
        file.writes += 1;
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

    // ---- crashes ----

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
        // What lies behind the end reads as zeros if the file grows again.
        self.durable.len = self.durable.len.max(new);
        self.durable.set_len(len, |_| {});
        self.seen = self.durable.clone();
    }
}
