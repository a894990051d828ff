//! Names on the drive: what is found under them, and how they change.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{Content, Disk, Folder, InodeId, NameChange, Node, ROOT, kind, names};
use crate::folder::DirEntry;

impl Disk {
    pub(super) fn folder(&self, inode: InodeId) -> io::Result<&Folder> {
        match self.nodes.get(&inode) {
            Some(Node::Folder(folder)) => Ok(folder),
            Some(Node::File(_)) => Err(kind(ErrorKind::NotADirectory)),
            None => Err(kind(ErrorKind::NotFound)),
        }
    }

    pub(super) fn file(&self, inode: InodeId) -> io::Result<&Content> {
        match self.nodes.get(&inode) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder(_)) => Err(kind(ErrorKind::IsADirectory)),
            None => Err(kind(ErrorKind::NotFound)),
        }
    }

    pub(super) fn file_mut(&mut self, inode: InodeId) -> io::Result<&mut Content> {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder(_)) => Err(kind(ErrorKind::IsADirectory)),
            None => Err(kind(ErrorKind::NotFound)),
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<InodeId> {
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
                modified_micros: file.map_or(0, |file| file.seen.modified_micros),
            }
        });
        Ok(entries.collect())
    }

    /// All files, as programs see them.
    pub(crate) fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        let mut folders = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, inode)) = folders.pop() {
            let Ok(folder) = self.folder(inode) else {
                continue;
            };
            for (name, entry) in &folder.seen {
                match self.file(*entry) {
                    Ok(file) => files.push((path.join(name), file.seen.len)),
                    Err(_) => folders.push((path.join(name), *entry)),
                }
            }
        }
        files.sort();
        files
    }

    /// All names of the file that this is one of.
    pub(crate) fn links(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let inode = self.find(path)?;
        let mut all: Vec<PathBuf> = self.files().into_iter().map(|(path, _)| path).collect();
        all.retain(|path| self.find(path).is_ok_and(|found| found == inode));
        Ok(all)
    }

    /// There are no links: only what leads to the root is added, and `.` and `..` go.
    pub(crate) fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.find(path)?;
        let root = PathBuf::from("/");
        Ok(names(path)?
            .into_iter()
            .fold(root, |path, name| path.join(name)))
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
        self.sweep_in_time();
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
        self.sweep_in_time();
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
        self.sweep_in_time();
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
        self.sweep_in_time();
        Ok(())
    }

    pub(super) fn make_durable(&mut self, change: &NameChange) {
        for (folder, name, target) in change {
            if let Some(Node::Folder(folder)) = self.nodes.get_mut(folder) {
                match target {
                    Some(target) => folder.durable.insert(name.clone(), *target),
                    None => folder.durable.remove(name),
                };
            }
        }
    }

    /// Sweeps when there may be as much to forget as to keep: looking at all there is after every
    /// name that goes took almost half of the time of a simulation.
    pub(super) fn sweep_in_time(&mut self) {
        if self.nodes.len() > 2 * self.swept + super::SWEPT_AT_LEAST {
            self.sweep();
        }
    }

    /// Forgets what no name, handle or logged operation leads to.
    pub(super) fn sweep(&mut self) {
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
        self.swept = self.nodes.len();
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

    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<InodeId> {
        let (folder, name) = self.parent(path)?;
        let mut content = Content::default();
        content.seen.modified_micros = self.now_micros;
        content.durable.modified_micros = self.now_micros;
        let inode = self.make(Node::File(content));
        self.change(vec![(folder, name, Some(inode))]);
        Ok(inode)
    }
}
