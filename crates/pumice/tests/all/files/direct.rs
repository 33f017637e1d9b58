//! Direct I/O: a database written and read past the page cache is the same database.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice::options::{DbOptions, OptionSet};
use pumice::{Db, FileSystem, FlushOptions, Options, PosixFs, ReadOptions, WriteOptions};
use pumice_env::{FileSystemWrapper, RandomAccessFile, ReadFileOptions};
use pumice_port::sync::Mutex;

/// Notes which files are opened past the page cache.
struct Opens {
    inner: Arc<dyn FileSystem>,
    direct: Mutex<Vec<PathBuf>>,
}

impl FileSystemWrapper for Opens {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.inner
    }
    fn is_own(&self) -> bool {
        self.inner.is_own()
    }
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> pumice::Result<Arc<dyn RandomAccessFile>> {
        if options.direct {
            self.direct.lock().push(path.to_path_buf());
        }
        self.inner.open_random_with(path, options)
    }
}

/// A folder on a disk: the build directory, since `/tmp` may be in memory.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pumice-{name}-{}", std::process::id()))
}

fn options(direct: bool) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.use_direct_reads = direct;
    options.db.use_direct_io_for_flush_and_compaction = direct;
    options.cf.write_buffer_size = 256 << 10;
    options.cf.target_file_size_base = 128 << 10;
    options.cf.table_factory.no_block_cache = true;
    options
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn value(n: usize, round: usize) -> Vec<u8> {
    let mut value = vec![(n * 7 + round) as u8; 20 + (n * 31) % 700];
    value[..8].copy_from_slice(&((n * 1000 + round) as u64).to_le_bytes());
    value
}

fn check(db: &Db, keys: usize, round: usize) {
    let read = ReadOptions::default();
    let found = db.multi_get_opt(&read, &(0..keys).step_by(7).map(key).collect::<Vec<_>>());
    for (found, n) in found.into_iter().zip((0..keys).step_by(7)) {
        assert_eq!(found.unwrap().unwrap().to_vec(), value(n, round), "key {n}");
    }
    let mut iter = db.cursor_opt(&ReadOptions { readahead_size: 64 << 10, ..read }).unwrap();
    iter.seek_to_first();
    for n in 0..keys {
        assert!(iter.valid(), "key {n}");
        assert_eq!(
            (iter.key().unwrap(), iter.value().unwrap()),
            (&key(n)[..], &value(n, round)[..])
        );
        iter.next();
    }
    assert!(!iter.valid());
    iter.status().unwrap();
}

/// The proof would be the bytes of table files in the page cache, but the kernel reports them for
/// mapped files only. So both modes write the same entries, and each mode reads both.
#[pumice_test_macros::test]
fn direct_and_buffered_databases_read_each_other() {
    const KEYS: usize = 4000;
    let dir = folder("direct");
    for (round, direct) in [true, false, true].into_iter().enumerate() {
        let options = options(direct);
        let db = match Db::open(&options, &dir) {
            Err(error) if direct && error.to_string().contains("Direct I/O is not supported") => {
                panic!("{} is on a file system without direct I/O: {error}", dir.display());
            }
            opened => opened.unwrap(),
        };
        if round > 0 {
            check(&db, KEYS, round - 1);
        }
        for n in 0..KEYS {
            db.put_opt(&WriteOptions::default(), &key(n), &value(n, round)).unwrap();
        }
        db.flush_opt(&FlushOptions::default()).unwrap();
        db.compact_range(&Default::default(), None, None).unwrap();
        check(&db, KEYS, round);
        db.verify_checksum().unwrap();
        db.close().unwrap();
    }
    Db::destroy(&options(true), &dir).unwrap();
}

/// The files that are opened past the page cache: those that compactions read, and no others.
#[pumice_test_macros::test]
fn compactions_alone_read_past_the_page_cache() {
    let dir = folder("direct-compactions");
    let opens = Arc::new(Opens { inner: PosixFs::shared(), direct: Mutex::default() });
    let mut options = options(false);
    options.db.file_system = Arc::clone(&opens) as _;
    options.db.use_direct_io_for_compaction_reads = true;
    options.cf.disable_auto_compactions = true;
    options.cf.compression = pumice::CompressionType::None;
    let db = Db::open(&options, &dir).unwrap();
    assert_eq!(db.options().compaction_readahead_size, 2 << 20);
    let tables = |opens: &Opens| {
        let mut opened = std::mem::take(&mut *opens.direct.lock());
        opened.retain(|path| path.extension().is_some_and(|extension| extension == "sst"));
        opened.sort();
        opened
    };
    for round in 0..2 {
        for n in 0..2000 {
            db.put(key(n), value(n, round)).unwrap();
        }
        db.flush().unwrap();
    }
    check(&db, 2000, 1);
    assert_eq!(tables(&opens), Vec::<PathBuf>::new());
    let mut inputs: Vec<PathBuf> =
        db.live_files_metadata().iter().map(|file| dir.join(&file.name[1..])).collect();
    inputs.sort();
    assert!(inputs.len() > 1);
    db.compact_range(&Default::default(), None, None).unwrap();
    assert_eq!(tables(&opens), inputs);
    // From levels with several files as well.
    let force = pumice::CompactRangeOptions {
        bottommost_level_compaction: pumice::BottommostLevelCompaction::Force,
        ..Default::default()
    };
    let inputs = db.live_files_metadata().len();
    assert!(inputs > 1);
    db.compact_range(&force, None, None).unwrap();
    assert_eq!(tables(&opens).len(), inputs);
    check(&db, 2000, 1);
    assert_eq!(tables(&opens), Vec::<PathBuf>::new());
    db.close().unwrap();
    Db::destroy(&options, &dir).unwrap();
}

#[pumice_test_macros::test]
fn the_options_are_kept_and_checked() {
    let dir = folder("direct-options");
    let mut options = options(true);
    options.db.compaction_readahead_size = 0;
    let db = Db::open(&options, &dir).unwrap();
    assert_eq!(db.options().compaction_readahead_size, 2 << 20, "direct compactions read ahead");
    db.close().unwrap();
    drop(db);
    let saved = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let saved = saved.filter(|path| is_options_file(path)).max().unwrap();
    let text = std::fs::read_to_string(saved).unwrap();
    for name in ["use_direct_reads", "use_direct_io_for_flush_and_compaction"] {
        assert!(text.contains(&format!("\n  {name}=true\n")), "{name} in {text}");
        assert!(DbOptions::row(name).unwrap().is_supported());
    }
    Db::destroy(&options, &dir).unwrap();
}

fn is_options_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("OPTIONS-"))
}

#[pumice_test_macros::test]
fn a_file_system_without_direct_io_is_refused() {
    use pumice::MemFs;
    use pumice_env::mem::{Fault, FaultOp, FaultRule};
    let fs = MemFs::new(5);
    let mut options = options(false);
    options.db.file_system = fs.shared();
    Db::open(&options, "/db").unwrap().close().unwrap();
    options.db.use_direct_reads = true;
    // Opening CURRENT past the page cache fails, opening it as usual does not.
    fs.add_fault(FaultRule::once(FaultOp::Open, "*CURRENT", 0, Fault::Eio));
    let refused = Db::open(&options, "/db").err().unwrap();
    assert_eq!(
        refused.to_string(),
        "Invalid argument: Direct I/O is not supported by the specified DB."
    );
    // A file that cannot be opened at all gives its own error.
    fs.add_fault(FaultRule::always(FaultOp::Open, "*CURRENT", Fault::Eio));
    assert!(!Db::open(&options, "/db").err().unwrap().to_string().contains("Direct I/O"));
    fs.clear_faults();
    Db::open(&options, "/db").unwrap().close().unwrap();
}
