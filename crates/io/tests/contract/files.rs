//! Files and folders.

use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use io::{AlignedBuf, DIRECT_ALIGNMENT, Env, OpenOptions, TaskGroup};

use crate::harness::{Driver, Folder, is_open, pattern, run_one};

const READ_WRITE: OpenOptions = OpenOptions {
    read: true,
    write: true,
    create: true,
    create_new: false,
    truncate: false,
    direct: false,
};

const READ: OpenOptions = OpenOptions {
    write: false,
    create: false,
    ..READ_WRITE
};

pub(crate) fn what_is_written_is_read(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        let path = folder.path.join("file");
        let bytes = pattern(1_000_003, 1);
        let file = env.open(&path, READ_WRITE).await.unwrap();
        let (result, back) = file.write_all_at(bytes.clone(), 5).await;
        result.unwrap();
        assert_eq!(back, bytes);
        file.sync_data().await.unwrap();
        file.sync_all().await.unwrap();
        env.sync_dir(&folder.path).await.unwrap();
        assert_eq!(file.len().await.unwrap(), 1_000_008);
        file.close().await;

        let file = env.open(&path, READ).await.unwrap();
        let read = file.read_exact_at(0, 1_000_008).await.unwrap();
        assert_eq!(read[..5], [0; 5]);
        assert!(read[5..] == bytes);
        let (count, piece) = file.read_at(Vec::with_capacity(100), 1005).await;
        assert_eq!(piece.len(), count.unwrap());
        assert_eq!(piece, bytes[1000..1000 + piece.len()]);
        assert!(file.write_all_at(vec![1], 0).await.0.is_err());
    });
}

pub(crate) fn what_is_written_and_synced_is_read(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        for direct in [false, true] {
            let options = OpenOptions {
                read: true,
                write: true,
                create: true,
                direct,
                ..OpenOptions::default()
            };
            let path = folder.path.join(format!("synced {direct}"));
            let file = env.open(&path, options).await.unwrap();
            let bytes = pattern(3 * DIRECT_ALIGNMENT, 5);
            let (result, back) = file.write_all_synced_at(bytes, 0).await;
            result.unwrap();
            let (result, _) = file.write_all_synced_at(back.clone(), 8192).await;
            result.unwrap();
            let read = file.read_exact_at(8192, back.len()).await.unwrap();
            assert!(read == back);
        }
    });
}

pub(crate) fn reading_beyond_the_end_is_short(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        let file = env
            .open(&folder.path.join("file"), READ_WRITE)
            .await
            .unwrap();
        file.write_all_at(vec![7; 10], 0).await.0.unwrap();
        let (count, bytes) = file.read_at(Vec::with_capacity(64), 4).await;
        assert_eq!((count.unwrap(), bytes), (6, vec![7; 6]));
        let (count, bytes) = file.read_at(Vec::with_capacity(64), 10).await;
        assert_eq!((count.unwrap(), bytes.len()), (0, 0));
        let (count, _) = file.read_at(Vec::with_capacity(64), 1 << 40).await;
        assert_eq!(count.unwrap(), 0);
        let error = file.read_exact_at(8, 3).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(*file.read_exact_at(8, 2).await.unwrap(), [7, 7]);
        assert_eq!(*file.read_exact_at(100, 0).await.unwrap(), []);
    });
}

pub(crate) fn files_are_cut_and_filled(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        let file = env
            .open(&folder.path.join("file"), READ_WRITE)
            .await
            .unwrap();
        file.write_all_at(vec![7; 1000], 0).await.0.unwrap();
        file.set_len(10).await.unwrap();
        file.set_len(20).await.unwrap();
        let bytes = file.read_exact_at(0, 20).await.unwrap();
        assert_eq!(bytes[..10], [7; 10]);
        assert_eq!(bytes[10..], [0; 10]);
        file.allocate(100_000).await.unwrap();
        assert_eq!(file.len().await.unwrap(), 100_000);
        file.allocate(50).await.unwrap();
        assert_eq!(file.len().await.unwrap(), 100_000);
        assert_eq!(*file.read_exact_at(99_999, 1).await.unwrap(), [0]);
        assert!(env.available_space(&folder.path).await.unwrap() > 0);
    });
}

pub(crate) fn options_are_respected(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        let path = folder.path.join("file");
        let kind = async |options| match env.open(&path, options).await {
            Ok(_) => None,
            Err(error) => Some(error.kind()),
        };
        assert_eq!(kind(READ).await, Some(ErrorKind::NotFound));
        let new = OpenOptions {
            create_new: true,
            ..READ_WRITE
        };
        assert_eq!(kind(new).await, None);
        assert_eq!(kind(new).await, Some(ErrorKind::AlreadyExists));
        let file = env.open(&path, READ_WRITE).await.unwrap();
        file.write_all_at(vec![1; 5], 0).await.0.unwrap();
        assert_eq!(kind(READ).await, None);
        assert_eq!(file.len().await.unwrap(), 5);
        let truncate = OpenOptions {
            truncate: true,
            ..READ_WRITE
        };
        assert_eq!(kind(truncate).await, None);
        assert_eq!(file.len().await.unwrap(), 0);
    });
}

async fn put(env: &Env, path: &std::path::Path, bytes: &[u8]) {
    let file = env.open(path, READ_WRITE).await.unwrap();
    file.write_all_at(bytes.to_vec(), 0).await.0.unwrap();
}

async fn get(env: &Env, path: &std::path::Path) -> Vec<u8> {
    let file = env.open(path, READ).await.unwrap();
    let len = file.len().await.unwrap();
    file.read_exact_at(0, len as usize).await.unwrap().to_vec()
}

pub(crate) fn names_change_and_go(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        let (a, b) = (folder.path.join("a"), folder.path.join("b"));
        put(&env, &a, b"first").await;
        put(&env, &b, b"second").await;
        let open = env.open(&b, READ).await.unwrap();
        env.rename(&a, &b).await.unwrap();
        assert!(!env.exists(&a).await.unwrap());
        assert_eq!(get(&env, &b).await, b"first");
        // Whoever has the file open keeps it.
        assert_eq!(*open.read_exact_at(0, 6).await.unwrap(), *b"second");
        env.hard_link(&b, &a).await.unwrap();
        let error = env.hard_link(&b, &a).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        env.remove_file(&b).await.unwrap();
        assert_eq!(get(&env, &a).await, b"first");
        let error = env.remove_file(&b).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = env.rename(&b, &a).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        env.remove_file_if_there(&b).await.unwrap();
        env.write_new_file(&b, b"third".to_vec()).await.unwrap();
        let error = env.write_new_file(&b, b"fourth".to_vec()).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(get(&env, &b).await, b"third");
        env.remove_file_if_there(&b).await.unwrap();
        assert!(!env.exists(&b).await.unwrap());
    });
}

pub(crate) fn folders_are_listed_in_order(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        let deep = folder.path.join("z/y/x");
        env.create_dir_all(&deep).await.unwrap();
        env.create_dir_all(&deep).await.unwrap();
        for name in ["b", "a", "c"] {
            put(&env, &folder.path.join(name), name.as_bytes()).await;
        }
        let entries = env.read_dir(&folder.path).await.unwrap();
        let names: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.is_dir, entry.len))
            .collect();
        let expected = [
            ("a", false, 1),
            ("b", false, 1),
            ("c", false, 1),
            ("z", true, 0),
        ];
        assert_eq!(names, expected);
        put(&env, &deep.join("file"), b"1").await;
        env.remove_dir_all(&folder.path.join("z")).await.unwrap();
        assert!(!env.exists(&deep).await.unwrap());
        let error = env.read_dir(&deep).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = env
            .open(&deep.join("file"), READ_WRITE)
            .await
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

pub(crate) fn files_know_when_they_were_changed(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        for name in ["first", "second"] {
            put(&env, &folder.path.join(name), b"1").await;
            // The clocks of file systems tick slowly.
            env.sleep(Duration::from_millis(30)).await;
        }
        let moved = folder.path.join("a");
        env.rename(&folder.path.join("second"), &moved)
            .await
            .unwrap();
        let entries = env.read_dir(&folder.path).await.unwrap();
        let times: Vec<i64> = entries.iter().map(|entry| entry.modified_micros).collect();
        assert!(times[0] > times[1], "{entries:?}");
        assert!((times[0] - env.wall_micros()).abs() < 10_000_000);
        let roundabout = folder.path.join("./x/..").join("a");
        env.create_dir_all(&folder.path.join("x")).await.unwrap();
        let canonical = env.canonical(&roundabout).await.unwrap();
        assert!(canonical.is_absolute() && canonical.ends_with("a"));
        assert_eq!(env.canonical(&moved).await.unwrap(), canonical);
    });
}

pub(crate) fn a_lock_is_for_one(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        let path = folder.path.join("lock");
        let lock = env.lock_file(&path).await.unwrap();
        let error = env.lock_file(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        drop(lock);
        env.lock_file(&path).await.unwrap();
    });
}

/// So many zeros, at an address that direct I/O takes or does not take.
fn zeros_at(aligned: bool, len: usize) -> Vec<u8> {
    let mut others = Vec::new();
    // An allocator has a few bytes between two of them, so their addresses are of all kinds.
    for _ in 0..4096 {
        let buffer = vec![0; len];
        if buffer.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT) == aligned {
            return buffer;
        }
        others.push(buffer);
    }
    panic!("an allocator has addresses of both kinds");
}

pub(crate) fn direct_files_take_aligned_buffers(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        let options = OpenOptions {
            direct: true,
            ..READ_WRITE
        };
        let file = env.open(&folder.path.join("file"), options).await.unwrap();
        file.allocate(1 << 20).await.unwrap();
        let bytes = pattern(16 * DIRECT_ALIGNMENT, 3);
        let mut buffer = AlignedBuf::new(bytes.len());
        buffer.copy_from_slice(&bytes);
        let (result, buffer) = file.write_aligned_at(buffer, 4096).await;
        result.unwrap();
        file.sync_data().await.unwrap();
        drop(buffer);
        let (count, read) = file
            .read_aligned_at(AlignedBuf::with_capacity(bytes.len()).unwrap(), 4096)
            .await;
        assert_eq!(count.unwrap(), bytes.len());
        assert!(*read == *bytes);
        // Buffers of any kind work as well.
        assert_eq!(
            file.read_exact_at(5000, 700).await.unwrap(),
            bytes[904..1604]
        );
        file.write_all_at(vec![9; 8192], 8192).await.0.unwrap();
        assert_eq!(*file.read_exact_at(8192, 8192).await.unwrap(), [9; 8192]);
        for aligned in [false, true] {
            let mut buffer = zeros_at(aligned, 8192);
            buffer.copy_from_slice(&bytes[usize::from(aligned)..][..8192]);
            let (begun, at) = (buffer.as_ptr(), 20480);
            let (result, buffer) = file.write_all_synced_at(buffer, at).await;
            result.unwrap();
            assert_eq!(buffer.as_ptr(), begun);
            assert_eq!(file.read_exact_at(at, 8192).await.unwrap(), buffer);
        }
        let (result, _) = file.read_aligned_at(AlignedBuf::new(1), 1).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        // The end of the file is where it is, whatever the alignment.
        file.set_len((1 << 20) + 100).await.unwrap();
        let (count, read) = file.read_aligned_at(AlignedBuf::new(8192), 1 << 20).await;
        assert_eq!((count.unwrap(), read.len()), (100, 100));
        assert_eq!(
            *file.read_exact_at((1 << 20) + 90, 10).await.unwrap(),
            [0; 10]
        );
        let error = file.read_exact_at((1 << 20) + 90, 11).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let (count, _) = file.read_at(Vec::with_capacity(64), (1 << 20) + 50).await;
        assert_eq!(count.unwrap(), 50);
        let error = file.read_exact_at(0, usize::MAX / 2).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    });
}

pub(crate) fn many_operations_at_once(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        for direct in [false, true] {
            let options = OpenOptions {
                direct,
                ..READ_WRITE
            };
            let name = if direct { "direct" } else { "cached" };
            let file = Rc::new(env.open(&folder.path.join(name), options).await.unwrap());
            let tasks: Vec<_> = (0..600u64)
                .map(|number| {
                    let file = file.clone();
                    env.spawn(TaskGroup::Foreground, async move {
                        let bytes = pattern(4096, number);
                        file.write_all_at(bytes.clone(), number * 4096)
                            .await
                            .0
                            .unwrap();
                        file.read_exact_at(number * 4096, 4096).await.unwrap() == bytes
                    })
                })
                .collect();
            for task in tasks {
                assert!(task.await);
            }
        }
    });
}

pub(crate) fn an_abandoned_read_harms_nobody(driver: Driver) {
    run_one(driver, |env| async move {
        let folder = Folder::new(&env).await;
        for direct in [false, true] {
            let options = OpenOptions {
                direct,
                ..READ_WRITE
            };
            let name = if direct { "direct" } else { "cached" };
            let file = env.open(&folder.path.join(name), options).await.unwrap();
            file.write_all_at(pattern(1 << 20, 1), 0).await.0.unwrap();
            for _ in 0..50 {
                let file2 = file.clone();
                let reading = env.spawn(TaskGroup::Foreground, async move {
                    file2
                        .read_exact_at(0, 1 << 20)
                        .await
                        .map(|bytes| bytes.len())
                });
                env.yield_now().await;
                drop(reading.cancel());
                // If the kernel still wrote into the freed buffer, it would be here.
                let canary = vec![0xaa_u8; 1 << 20];
                env.yield_now().await;
                assert!(canary.iter().all(|byte| *byte == 0xaa));
            }
            assert_eq!(
                file.read_exact_at(0, 1 << 20).await.unwrap(),
                pattern(1 << 20, 1)
            );
        }
    });
}

pub(crate) fn a_file_is_closed_after_its_last_use(driver: Driver) {
    run_one(driver, move |env| async move {
        let folder = Folder::new(&env).await;
        let path = folder.path.join("file");
        put(&env, &path, b"content").await;
        let file = env.open(&path, READ).await.unwrap();
        let other = file.clone();
        env.remove_file(&path).await.unwrap();
        drop(file);
        assert_eq!(other.read_exact_at(0, 7).await.unwrap(), &b"content"[..]);
        drop(other);
        if driver == Driver::Simulated {
            return;
        }
        let deleted = format!("{} (deleted)", path.display());
        for _ in 0..500 {
            if !is_open(deleted.as_ref()) {
                return;
            }
            env.sleep(Duration::from_millis(10)).await;
        }
        panic!("{deleted} is still open");
    });
}
