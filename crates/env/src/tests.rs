//! The conformance suite: what the traits promise, checked on every backend.
//!
//! Each test runs on the one in memory, on the operating system's file system, and on that with
//! files that bypass the page cache.
#![allow(clippy::unwrap_used)]

use crate::filename::{current_file, set_current_file};
use crate::mem::{CrashMode, Fault, FaultOp, FaultRule, FsyncFailure};
use crate::rate_limiter::reads::LimitedFile;
use crate::{
    BufferedWriter, FileOptions, FileSystem, FileSystemWrapper, MemFs, ObservedFile, PosixFs,
    RandomAccessFile, RateLimiter, RateLimiterMode, RateLimiterOptions, ReadFileOptions,
    ReadRequest, WritableFile, WriterOptions, write_file,
};
use pumice_base::Result;
use pumice_base::checksum::crc32c;
use pumice_base::file_checksum::FileChecksumCrc32c;
use pumice_base::random::Rng;
use pumice_port::os::{File, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs `test` on each backend, in an empty directory that is removed afterwards.
fn on_each_backend(test: impl Fn(&dyn FileSystem, &Path)) {
    let mem = MemFs::new(1);
    mem.create_dir_all(Path::new("/t")).unwrap();
    test(&mem, Path::new("/t"));

    for fs in [&PosixFs as &dyn FileSystem, &DirectFs] {
        let dir = fresh_dir();
        test(fs, &dir);
        remove_tree(&dir);
    }
}

/// An empty directory of the operating system.
fn fresh_dir() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("pumice-env-{}-{number}", pumice_port::os::pid());
    let dir = std::env::temp_dir().join(name);
    PosixFs.create_dir_all(&dir).unwrap();
    dir
}

/// `PosixFs` whose new files and random reads bypass the page cache.
struct DirectFs;

impl FileSystemWrapper for DirectFs {
    fn wrapped(&self) -> &dyn FileSystem {
        &PosixFs
    }
    fn is_own(&self) -> bool {
        true
    }
    fn open_random_with(
        &self,
        path: &Path,
        _options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        PosixFs
            .open_random_with(path, &ReadFileOptions { direct: true, ..ReadFileOptions::default() })
    }
    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        PosixFs.create(path, &FileOptions { direct: true, ..*options })
    }
}

fn remove_tree(dir: &Path) {
    for name in PosixFs.list(dir).unwrap() {
        let path = dir.join(name);
        if PosixFs.list(&path).is_ok() {
            remove_tree(&path);
        } else {
            PosixFs.remove(&path).unwrap();
        }
    }
    PosixFs.remove_dir(dir).unwrap();
}

fn create(fs: &dyn FileSystem, path: &Path) -> Box<dyn WritableFile> {
    fs.create(path, &FileOptions::default()).unwrap()
}

/// The texts of an error without the directory, which differs between backends.
fn text<T>(result: Result<T>, dir: &Path) -> String {
    result.err().unwrap().to_string().replace(&format!("{}/", dir.display()), "D/")
}

#[pumice_test_macros::test]
fn what_is_written_is_read() {
    on_each_backend(|fs, dir| {
        let path = dir.join("f");
        let data = Rng::new(3).bytes(100_000);
        let mut file = create(fs, &path);
        for chunk in data.chunks(777) {
            file.append(chunk).unwrap();
        }
        file.flush().unwrap();
        assert_eq!(file.len(), 100_000);
        file.range_sync(0, 4096, false).unwrap();
        file.range_sync(0, 4096, true).unwrap();
        file.sync().unwrap();
        file.fsync().unwrap();
        file.close().unwrap();
        assert_eq!(fs.read_file(&path).unwrap(), data);
        assert_eq!(fs.file_size(&path).unwrap(), 100_000);

        let random = fs.open_random(&path).unwrap();
        assert_eq!((random.len(), random.path()), (100_000, path.as_path()));
        let mut buf = [0; 1000];
        for (offset, bytes) in [(0, 1000), (99_999, 1), (99_500, 500), (100_000, 0), (1 << 40, 0)] {
            assert_eq!(random.read_at(offset, &mut buf).unwrap(), bytes, "{offset}");
            let start = offset.min(100_000) as usize;
            assert_eq!(buf[..bytes], data[start..start + bytes]);
        }
        let (mut a, mut b) = ([0; 10], [0; 10]);
        let mut batch = [
            ReadRequest { offset: 5, buf: &mut a, result: Ok(0) },
            ReadRequest { offset: 99_995, buf: &mut b, result: Ok(0) },
        ];
        random.read_batch(&mut batch);
        let counts = batch.map(|r| r.result.unwrap());
        assert_eq!((counts, &a[..], &b[..5]), ([10, 5], &data[5..15], &data[99_995..]));

        let mut sequential = fs.open_sequential(&path).unwrap();
        assert_eq!(sequential.read(&mut buf).unwrap(), 1000);
        sequential.skip(98_500).unwrap();
        assert_eq!(sequential.read(&mut buf).unwrap(), 500);
        assert_eq!(buf[..500], data[99_500..]);
        assert_eq!(sequential.read(&mut buf).unwrap(), 0);
        sequential.skip(1 << 40).unwrap();
        assert_eq!(sequential.read(&mut buf).unwrap(), 0);
    });
}

#[pumice_test_macros::test]
fn writes_syncs_and_truncations_in_any_order_keep_the_bytes() {
    on_each_backend(|fs, dir| {
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let path = dir.join("f");
            let mut file = create(fs, &path);
            let mut expected = Vec::new();
            for _ in 0..60 {
                match rng.uniform(10) {
                    0 => file.sync().unwrap(),
                    1 => {
                        file.flush().unwrap();
                        assert_eq!(fs.file_size(&path).unwrap(), expected.len() as u64);
                        assert!(fs.read_file(&path).unwrap() == expected, "seed {seed}");
                    }
                    2 => {
                        let bytes = rng.uniform(expected.len() as u64 + 5000) as usize;
                        file.truncate(bytes as u64).unwrap();
                        expected.resize(bytes, 0);
                    }
                    3 => file.preallocate(expected.len() as u64 + 100_000).unwrap(),
                    4 => {
                        let bytes = rng.uniform(100) as usize * 4096;
                        let data = rng.bytes(bytes);
                        file.append(&data).unwrap();
                        expected.extend(data);
                    }
                    _ => {
                        let bytes = rng.uniform(10_000) as usize;
                        let data = rng.bytes(bytes);
                        file.append(&data).unwrap();
                        expected.extend(data);
                    }
                }
                assert_eq!(file.len(), expected.len() as u64);
            }
            file.close().unwrap();
            assert!(fs.read_file(&path).unwrap() == expected, "seed {seed}");
            reads_agree(fs, &path, &expected, &mut rng);
        }
    });
}

/// Single and batched reads of `path` at any alignment give `expected`.
fn reads_agree(fs: &dyn FileSystem, path: &Path, expected: &[u8], rng: &mut Rng) {
    let file = fs.open_random(path).unwrap();
    for _ in 0..20 {
        let mut bufs: Vec<Vec<u8>> =
            (0..rng.uniform(100)).map(|_| vec![0; rng.uniform(9000) as usize]).collect();
        let range = |offset: u64, bytes: usize| {
            let start = (offset as usize).min(expected.len());
            &expected[start..(start + bytes).min(expected.len())]
        };
        let mut requests: Vec<ReadRequest<'_>> = bufs
            .iter_mut()
            .map(|buf| {
                let offset = rng.uniform(expected.len() as u64 + 2000);
                ReadRequest { offset, buf, result: Ok(0) }
            })
            .collect();
        if let Some(first) = requests.first_mut() {
            let n = file.read_at(first.offset, first.buf).unwrap();
            assert!(&first.buf[..n] == range(first.offset, first.buf.len()));
            first.buf.fill(0);
        }
        file.read_batch(&mut requests);
        for request in &requests {
            let n = *request.result.as_ref().unwrap();
            assert!(&request.buf[..n] == range(request.offset, request.buf.len()));
        }
    }
}

#[pumice_test_macros::test]
fn creating_empties_and_reopening_appends() {
    on_each_backend(|fs, dir| {
        let path = dir.join("f");
        write_file(fs, &path, b"first", true).unwrap();
        write_file(fs, &path, b"2nd", true).unwrap();
        let mut file = fs.reopen_append(&path).unwrap();
        assert_eq!(file.len(), 3);
        file.append(b"+more").unwrap();
        file.truncate(5).unwrap();
        file.append(b"!").unwrap();
        file.close().unwrap();
        assert_eq!(fs.read_file(&path).unwrap(), b"2nd+m!");
        fs.truncate(&path, 2).unwrap();
        assert_eq!(fs.read_file(&path).unwrap(), b"2n");
        let mut file = fs.reopen_append(&dir.join("new")).unwrap();
        file.append(b"n").unwrap();
        assert_eq!(fs.read_file(&dir.join("new")).unwrap(), b"n");
    });
}

/// Preallocation takes no memory where files are in memory.
#[pumice_test_macros::test]
fn nothing_is_reserved_in_tmpfs() {
    let path = Path::new("/dev/shm").join(format!("pumice-reserved-{}", pumice_port::os::pid()));
    let fs = PosixFs;
    let mut file = create(&fs, &path);
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    if !File::open(&path, flags).unwrap().is_in_memory() {
        eprintln!("SKIPPED: /dev/shm is not tmpfs");
        return fs.remove(&path).unwrap();
    }
    for end in [1 << 20, 2 << 20] {
        file.preallocate(end).unwrap();
        file.append(b"data").unwrap();
        file.flush().unwrap();
        assert!(pumice_port::os::stat(&path).unwrap().allocated_bytes < 1 << 20);
    }
    file.close().unwrap();
    assert_eq!(fs.read_file(&path).unwrap(), b"datadata");
    fs.remove(&path).unwrap();
}

#[pumice_test_macros::test]
fn preallocated_space_is_not_length() {
    on_each_backend(|fs, dir| {
        let path = dir.join("f");
        let mut file = create(fs, &path);
        file.preallocate(1 << 20).unwrap();
        file.append(b"data").unwrap();
        file.flush().unwrap();
        assert_eq!(fs.file_size(&path).unwrap(), 4);
        file.preallocate(2 << 20).unwrap();
        file.close().unwrap();
        assert_eq!(fs.read_file(&path).unwrap(), b"data");
        if dir.starts_with(std::env::temp_dir()) {
            assert!(pumice_port::os::stat(&path).unwrap().allocated_bytes < 1 << 20);
        }
    });
}

#[pumice_test_macros::test]
fn reuse_overwrites_from_the_start() {
    on_each_backend(|fs, dir| {
        let (old, new) = (dir.join("000001.log"), dir.join("000002.log"));
        write_file(fs, &old, b"old content", true).unwrap();
        let mut file = fs.reuse(&old, &new).unwrap();
        assert_eq!(file.len(), 0);
        file.append(b"new").unwrap();
        assert_eq!(fs.read_file(&new).unwrap(), b"new content");
        file.overwrite(1, b"CON", 2).unwrap();
        assert_eq!(file.len(), 5);
        file.overwrite(0, b"", 1).unwrap();
        file.append(b"!").unwrap();
        assert_eq!(fs.read_file(&new).unwrap(), b"new CO!tent");
        let bytes = file.len();
        file.truncate(bytes).unwrap();
        file.close().unwrap();
        assert!(!fs.exists(&old).unwrap());
        assert_eq!(fs.read_file(&new).unwrap(), b"new CO!");
    });
}

#[pumice_test_macros::test]
fn names_come_and_go() {
    on_each_backend(|fs, dir| {
        let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
        write_file(fs, &a, b"A", false).unwrap();
        write_file(fs, &b, b"B", false).unwrap();
        assert_eq!(fs.num_file_links(&a).unwrap(), 1);
        fs.link(&a, &c).unwrap();
        assert_eq!((fs.num_file_links(&a).unwrap(), fs.num_file_links(&c).unwrap()), (2, 2));
        fs.rename(&a, &b).unwrap();
        let mut names = fs.list(dir).unwrap();
        names.sort();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(fs.read_file(&b).unwrap(), b"A");
        assert!(text(fs.link(&b, &c), dir).ends_with("D/b: File exists"));
        let open = fs.open_random(&c).unwrap();
        fs.remove(&b).unwrap();
        fs.remove(&c).unwrap();
        assert!(!fs.exists(&c).unwrap());
        let mut buf = [0; 1];
        assert_eq!((open.read_at(0, &mut buf).unwrap(), &buf), (1, b"A"));
        fs.sync_dir(dir).unwrap();
        assert!(fs.free_space(dir).unwrap() > 0);
    });
}

#[pumice_test_macros::test]
fn directories_are_made_listed_moved_and_removed() {
    on_each_backend(|fs, dir| {
        let deep = dir.join("x/y/z");
        fs.create_dir_all(&deep).unwrap();
        fs.create_dir_all(&deep).unwrap();
        write_file(fs, &deep.join("f"), b"1", false).unwrap();
        assert!(fs.exists(&dir.join("x/y")).unwrap());
        assert_eq!(fs.list(&dir.join("x")).unwrap(), ["y"]);
        fs.rename(&dir.join("x"), &dir.join("w")).unwrap();
        assert_eq!(fs.read_file(&dir.join("w/y/z/f")).unwrap(), b"1");
        assert!(text(fs.remove_dir(&dir.join("w")), dir).contains("Directory not empty"));
        fs.remove(&dir.join("w/y/z/f")).unwrap();
        fs.remove_dir(&dir.join("w/y/z")).unwrap();
        fs.remove_dir(&dir.join("w/y")).unwrap();
        fs.remove_dir(&dir.join("w")).unwrap();
        assert!(!fs.exists(&deep).unwrap());
        assert!(fs.list(dir).unwrap().is_empty());
    });
}

#[pumice_test_macros::test]
fn errors_have_the_texts_of_rocksdb() {
    on_each_backend(|fs, dir| {
        let path = dir.join("none");
        let start = "IO error: No such file or directory: ";
        let expected = [
            (text(fs.open_random(&path), dir), "While open a file for random read: D/none"),
            (
                text(fs.open_sequential(&path), dir),
                "While opening a file for sequentially reading: D/none",
            ),
            (
                text(fs.create(&path.join("f"), &FileOptions::default()), dir),
                "While open a file for appending: D/none/f",
            ),
            (text(fs.file_size(&path), dir), "while stat a file for size: D/none"),
            (text(fs.modified_time(&path), dir), "while stat a file for modification time: D/none"),
            (text(fs.rename(&path, &dir.join("to")), dir), "While renaming a file to D/to: D/none"),
            (text(fs.remove(&path), dir), "while unlink() file: D/none"),
            (text(fs.list(&path), dir), "While opendir: D/none"),
            (text(fs.truncate(&path, 3), dir), "While ftruncate file to size 3: D/none"),
        ];
        for (actual, expected) in expected {
            assert_eq!(actual, format!("{start}{expected}: No such file or directory"));
        }
        assert!(fs.remove(&path).unwrap_err().is_not_found());
        assert!(!fs.exists(&path).unwrap());
    });
}

#[pumice_test_macros::test]
fn a_lock_is_given_once() {
    on_each_backend(|fs, dir| {
        let path = dir.join("LOCK");
        let lock = fs.lock(&path).unwrap();
        let refused = text(fs.lock(&path), dir);
        // Another path to the same file must not open (and then close) it either.
        let detour = dir.join(".").join("LOCK");
        assert!(fs.lock(&detour).is_err());
        if dir.starts_with(std::env::temp_dir()) {
            let start = "IO error: lock hold by current process, acquire time ";
            assert!(refused.starts_with(start), "{refused}");
            assert!(refused.ends_with(": D/LOCK: No locks available"), "{refused}");
        }
        drop(lock);
        drop(fs.lock(&path).unwrap());
    });
}

#[pumice_test_macros::test]
fn current_is_replaced_in_one_step() {
    on_each_backend(|fs, dir| {
        for number in [5, 123_456_789] {
            set_current_file(fs, dir, number, true).unwrap();
            let content = fs.read_file(&current_file(dir)).unwrap();
            assert_eq!(content, format!("MANIFEST-{number:06}\n").into_bytes());
            assert_eq!(fs.list(dir).unwrap(), ["CURRENT"]);
        }
    });
}

fn buffered(fs: &dyn FileSystem, path: &Path, options: WriterOptions) -> BufferedWriter {
    BufferedWriter::new(create(fs, path), options)
}

#[pumice_test_macros::test]
fn buffered_writes_arrive_in_order() {
    on_each_backend(|fs, dir| {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let path = dir.join("f");
            let options = WriterOptions {
                bytes_per_sync: rng.uniform(2) << 18,
                preallocation_block_bytes: rng.uniform(2) << 16,
                ..WriterOptions::new(1 << (10 + rng.uniform(8)))
            };
            let generator = Box::new(FileChecksumCrc32c::default());
            let mut writer = buffered(fs, &path, options).with_checksum(Some(generator));
            let mut expected = Vec::new();
            while expected.len() < 3 << 20 {
                let bytes = match rng.uniform(10) {
                    0 => rng.uniform(300_000),
                    _ => rng.uniform(5000),
                };
                let data = rng.bytes(bytes as usize);
                match rng.uniform(3) {
                    0 => writer.append_run(&data).unwrap(),
                    _ => writer.append(&data).unwrap(),
                }
                expected.extend(data);
                if rng.one_in(50) {
                    writer.pad(100).unwrap();
                    expected.extend([0; 100]);
                    writer.sync(rng.one_in(2)).unwrap();
                    assert_eq!(fs.file_size(&path).unwrap(), writer.len());
                }
                assert_eq!(writer.len(), expected.len() as u64);
            }
            writer.close().unwrap();
            let checksum = writer.end_checksum().unwrap().value;
            assert_eq!(checksum, crc32c(&expected).to_be_bytes(), "seed {seed}");
            assert!(fs.read_file(&path).unwrap() == expected, "seed {seed}");
            assert!(writer.append(b"x").is_err(), "closed");
        }
    });
}

#[pumice_test_macros::test]
fn a_failed_sync_ends_the_writer_for_good() {
    let kinds = [FsyncFailure::ReadableThenLost, FsyncFailure::Durable, FsyncFailure::OldData];
    for failure in kinds {
        let fs = MemFs::new(0);
        let path = PathBuf::from("/f");
        let mut writer = buffered(&fs, &path, WriterOptions::new(1 << 20));
        writer.append(b"one").unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Sync, "/f", 0, Fault::Fsync(failure)));
        let e = writer.sync(false).unwrap_err().to_string();
        assert_eq!(e, "IO error: While fdatasync: /f: Input/output error");
        let before = fs.change_count();
        assert_eq!(writer.sync(false).unwrap_err().to_string(), e);
        assert_eq!(writer.append(b"two").unwrap_err().to_string(), e);
        assert_eq!(writer.flush().unwrap_err().to_string(), e);
        assert_eq!(writer.close().unwrap_err().to_string(), e);
        assert_eq!(fs.change_count(), before, "nothing reached the file system");
    }
}

#[pumice_test_macros::test]
fn a_syncer_works_beside_its_writer() {
    on_each_backend(|fs, dir| {
        let mut writer = buffered(fs, &dir.join("f"), WriterOptions::new(1 << 20));
        writer.append(b"one").unwrap();
        writer.flush().unwrap();
        let syncer = writer.syncer().unwrap();
        writer.append(b"two").unwrap();
        syncer.sync().unwrap();
        writer.close().unwrap();
        syncer.sync().unwrap();
        assert!(writer.syncer().is_err());
        assert_eq!(fs.read_file(&dir.join("f")).unwrap(), b"onetwo");
    });
    let fs = MemFs::new(0);
    let mut writer = buffered(&fs, Path::new("/f"), WriterOptions::new(1 << 20));
    writer.append(b"one").unwrap();
    writer.flush().unwrap();
    let syncer = writer.syncer().unwrap();
    writer.append(b"two").unwrap();
    writer.flush().unwrap();
    syncer.sync().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs.add_fault(FaultRule::always(FaultOp::Sync, "*", Fault::Eio));
    let e = syncer.sync().unwrap_err();
    writer.poison(&e);
    assert_eq!(writer.flush().unwrap_err().to_string(), e.to_string());
    fs.crash(0, CrashMode::UNSYNCED);
    assert_eq!(fs.read_file(Path::new("/f")).unwrap(), b"onetwo");
    assert!(syncer.sync().is_err());
}

#[pumice_test_macros::test]
fn syncing_twice_asks_the_device_once() {
    let fs = MemFs::new(0);
    let mut writer = buffered(&fs, Path::new("/f"), WriterOptions::new(1 << 20));
    writer.append(b"one").unwrap();
    writer.sync(false).unwrap();
    let before = fs.change_count();
    writer.sync(true).unwrap();
    assert_eq!(fs.change_count(), before);
}

/// What is asked of a file before it is read, apart from its name.
fn said_of(file: &dyn RandomAccessFile) -> (u64, usize, bool, bool) {
    (file.len(), file.read_unit(), file.prefetches(), file.needs_little_stack())
}

#[pumice_test_macros::test]
fn limited_and_observed_files_are_read_as_what_they_wrap() {
    on_each_backend(|fs, dir| {
        let path = dir.join("wrapped");
        write_file(fs, &path, b"bytes", false).unwrap();
        let file = fs.open_random(&path).unwrap();
        let mut options = RateLimiterOptions::new(1 << 20);
        options.mode = RateLimiterMode::AllIo;
        let limiter = Arc::new(RateLimiter::new(&options).unwrap());
        let limited = LimitedFile::wrap(Arc::clone(&file), Some(&limiter), None);
        assert!(!Arc::ptr_eq(&limited, &file));
        assert_eq!(said_of(&*limited), said_of(&*file));
        assert_eq!(said_of(&*ObservedFile::wrap(Arc::clone(&file), None)), said_of(&*file));
    });
}
