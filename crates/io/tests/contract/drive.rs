//! The drive, for others than the foreground.

use std::rc::Rc;
use std::time::Duration;

use io::{AlignedBuf, Env, File, OpenOptions, TaskGroup};

use crate::harness::{Driver, Folder, is_open, pattern, run, run_one};

/// Of one request, in bytes: more than a piece.
const LENGTH: usize = 3 << 19;
const BACKGROUND: [TaskGroup; 3] = [
    TaskGroup::Flush,
    TaskGroup::Compaction,
    TaskGroup::Maintenance,
];

async fn direct_file(env: &Env, folder: &Folder) -> Rc<File> {
    let options = OpenOptions {
        read: true,
        write: true,
        create: true,
        direct: true,
        ..OpenOptions::default()
    };
    let file = env.open(&folder.path.join("file"), options).await;
    Rc::new(file.unwrap())
}

pub(crate) fn the_background_reads_what_it_wrote(driver: Driver) {
    run(driver, 2, |env| async move {
        let folder = Folder::new(&env).await;
        let file = direct_file(&env, &folder).await;
        let write = |at: usize| {
            let (file, offset) = (file.clone(), (at * LENGTH) as u64);
            env.spawn(BACKGROUND[at % 3], async move {
                let bytes = pattern(LENGTH, at as u64);
                let mut buffer = AlignedBuf::with_capacity(LENGTH).unwrap();
                buffer.extend_from_slice(&bytes);
                let (written, _) = match at % 2 {
                    0 => {
                        let (written, buffer) = file.write_aligned_at(buffer, offset).await;
                        (written, buffer.len())
                    }
                    _ => {
                        let (written, bytes) =
                            file.write_all_synced_at(bytes.clone(), offset).await;
                        (written, bytes.len())
                    }
                };
                written.unwrap();
                assert!(file.read_exact_at(offset, LENGTH).await.unwrap() == bytes);
            })
        };
        let tasks: Vec<_> = (0..12).map(write).collect();
        for task in tasks {
            task.await;
        }
        for at in 0..12 {
            let read = file.read_exact_at((at * LENGTH) as u64, LENGTH).await;
            assert!(read.unwrap() == pattern(LENGTH, at as u64));
        }
        let end = file.read_exact_at((12 * LENGTH) as u64 - 1, 2).await;
        assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    });
}

pub(crate) fn who_gives_up_waiting_for_the_drive_harms_nobody(driver: Driver) {
    run(driver, 2, |env| async move {
        let folder = Folder::new(&env).await;
        let file = direct_file(&env, &folder).await;
        file.write_all_at(vec![7; LENGTH], 0).await.0.unwrap();
        let read = |at: usize| {
            let (file, env2) = (file.clone(), env.clone());
            env.spawn(BACKGROUND[at % 3], async move {
                let patience = match at % 4 {
                    0 => Duration::ZERO,
                    1 => Duration::from_micros(200),
                    _ => Duration::from_secs(3600),
                };
                let reading = file.read_exact_at(0, LENGTH);
                env2.timeout(patience, reading).await.is_ok()
            })
        };
        for _ in 0..3 {
            let tasks: Vec<_> = (0..48).map(read).collect();
            for (at, task) in tasks.into_iter().enumerate() {
                match at % 16 {
                    // Cancelled where it stands in the queue, or after that.
                    15 => drop(task.cancel().await),
                    _ => assert!(task.await || at % 4 < 2),
                }
            }
        }
        assert!(env.background_window() > 0);
    });
}

pub(crate) fn a_shard_ends_after_what_its_drive_has_begun(driver: Driver) {
    // So much takes a drive longer than anything else that ends with a shard.
    const DIRTY: usize = 128 << 20;
    if driver != Driver::IoUring {
        // Others have a thread that syncs, which owns the file.
        return;
    }
    let name = format!("helenus-io-{}-{driver:?}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let of_shard = path.clone();
    run_one(driver, move |env| {
        let path = of_shard.clone();
        async move {
            let options = OpenOptions {
                write: true,
                create: true,
                ..OpenOptions::default()
            };
            let file = env.open(&path, options).await.unwrap();
            let bytes = vec![7; DIRTY];
            file.write_all_at(bytes, 0).await.0.unwrap();
            let syncing = async move { file.sync_all().await };
            env.spawn(TaskGroup::Foreground, syncing).detach();
            env.sleep(Duration::from_millis(1)).await;
        }
    });
    let left = (0..100).all(|_| {
        let left = is_open(&path);
        if left {
            // A thread closes it, which may not have had its turn. The shard is over, and its clock with it.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_millis(100));
        }
        left
    });
    let _ = std::fs::remove_file(&path);
    assert!(!left, "the file is left to the kernel");
}
