//! The memory limit of the control groups this process is in.
//!
//! Version 2: `memory.max` of the group and of each group above it, all of which hold. Version 1:
//! `memory.limit_in_bytes` likewise, below the mount of the memory controller. In a container the
//! path in `/proc/self/cgroup` may be that of the host and not exist below the mount: then the
//! mount itself is the group. (Kernel documentation: `admin-guide/cgroup-v2.rst`,
//! `cgroup-v1/memory.rst`.)

use std::path::{Component, Path, PathBuf};

/// Limits from here on mean "none": version 1 writes the highest multiple of a page.
const NO_LIMIT: u64 = 1 << 60;

/// The tightest limit in bytes; `root` is `/` but in tests.
pub(super) fn memory_limit(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().filter_map(|line| group_limit(root, line));
    limits.min()
}

/// The limit of the group in a line of `/proc/self/cgroup`: `ID:CONTROLLERS:PATH`.
fn group_limit(root: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    if id == "0" && controllers.is_empty() {
        return tightest(&root.join("sys/fs/cgroup"), path, "memory.max");
    }
    if controllers.split(',').any(|name| name == "memory") {
        let mount = root.join("sys/fs/cgroup/memory");
        return tightest(&mount, path, "memory.limit_in_bytes");
    }
    None
}

/// The least of what `file` says in the group at `path` and in those above it.
fn tightest(mount: &Path, path: &str, file: &str) -> Option<u64> {
    let mut group = PathBuf::new();
    let names = Path::new(path).components();
    // A path with `..` leads out of what this namespace shows: only the mount is left.
    let visible = !names.clone().any(|name| name == Component::ParentDir);
    let mut limits = vec![read_limit(&mount.join(file))];
    for name in names.filter(|name| visible && matches!(name, Component::Normal(_))) {
        group.push(name);
        limits.push(read_limit(&mount.join(&group).join(file)));
    }
    limits.into_iter().flatten().min()
}

fn read_limit(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let limit: u64 = text.trim().parse().ok()?;
    (limit < NO_LIMIT).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files below it, gone after the test.
    struct Root(PathBuf);

    impl Root {
        fn with(name: &str, files: &[(&str, &str)]) -> Root {
            let root =
                std::env::temp_dir().join(format!("helenus-cgroup-{name}-{}", std::process::id()));
            for (path, content) in files {
                let path = root.join(path);
                let folder = path.parent().expect("files are in folders");
                std::fs::create_dir_all(folder).expect("the folder can be made");
                std::fs::write(&path, content).expect("the file can be written");
            }
            Root(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            // What cannot be removed is left in the folder of temporary files.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn version_2_counts_all_groups_above() {
        let root = Root::with(
            "v2",
            &[
                ("proc/self/cgroup", "0::/a.slice/b.service\n"),
                ("sys/fs/cgroup/a.slice/memory.max", "1073741824\n"),
                ("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), Some(1 << 30));
    }

    #[test]
    fn version_2_in_a_container() {
        let root = Root::with(
            "v2-container",
            &[
                ("proc/self/cgroup", "0::/\n"),
                ("sys/fs/cgroup/memory.max", "536870912\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), Some(512 << 20));
    }

    #[test]
    fn version_1_in_a_container_that_shows_the_path_of_the_host() {
        let root = Root::with(
            "v1",
            &[
                (
                    "proc/self/cgroup",
                    "12:cpu,cpuacct:/docker/abc\n7:memory:/docker/abc\n1:name=systemd:/docker/abc\n",
                ),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), Some(2 << 30));
    }

    #[test]
    fn no_limit_is_none() {
        let root = Root::with(
            "none",
            &[
                ("proc/self/cgroup", "7:memory:/user\n0::/user\n"),
                (
                    "sys/fs/cgroup/memory/user/memory.limit_in_bytes",
                    "9223372036854771712\n",
                ),
                ("sys/fs/cgroup/user/memory.max", "max\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), None);
        assert_eq!(memory_limit(Path::new("/nowhere")), None);
    }

    #[test]
    fn garbage_and_paths_that_lead_out_are_none() {
        let root = Root::with(
            "garbage",
            &[
                ("proc/self/cgroup", "0::/../../x\nnonsense\n::\n"),
                ("sys/fs/cgroup/memory.max", "many\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), None);
    }
}
