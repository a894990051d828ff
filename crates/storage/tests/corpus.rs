//! The kept inputs of the fuzz targets of files, once more.

use std::path::Path;

#[path = "../../../fuzz/exercises/commit_log.rs"]
mod commit_log;
#[path = "../../../fuzz/exercises/partition_updates.rs"]
mod partition_updates;
#[path = "../../../fuzz/exercises/sstable_checksums.rs"]
mod sstable_checksums;
#[path = "../../../fuzz/exercises/sstable_components.rs"]
mod sstable_components;
#[path = "../../../fuzz/exercises/sstable_open.rs"]
mod sstable_open;

/// Has a target take every input that is kept of it.
fn take_all(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = folder.join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the corpus is kept") {
        let path = entry.expect("the corpus can be listed").path();
        let data = std::fs::read(&path).expect("its files can be read");
        run(&data);
        count += 1;
    }
    assert!(count > 10, "{count} inputs in {}", folder.display());
}

#[test]
fn every_kept_input_of_the_commit_log_is_taken() {
    take_all("commit_log", commit_log::run);
}

#[test]
fn every_kept_update_is_taken() {
    take_all("partition_updates", partition_updates::run);
}

#[test]
fn every_kept_component_of_sstables_is_taken() {
    take_all("sstable_components", sstable_components::run);
}

#[test]
fn every_kept_sstable_is_taken() {
    take_all("sstable_open", sstable_open::run);
}
