//! User code that panics in a background job or in a write: the waiting caller gets an error, the
//! database takes no more writes, its contents can be read, and a reopen clears the error.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pumice::stats::listener::FlushJobInfo;
use pumice::{
    CompactRangeOptions, CompactionFilter, Comparator, CustomComparator, Db, Error, ErrorKind,
    EventListener, FileChecksumGenerator, FileSystem, FilterDecision, FlushOptions,
    IngestExternalFileOptions, MemFs, MergeOperator, Options, PoolPriority, ReadOptions, Severity,
    SstFileWriter, ThreadPools, WriteBatch, WriteOptions,
};
use pumice_port::{os, sim, thread};

const DIR: &str = "/db";
const KEYS: u32 = 3000;

/// Everything that a job calls; panics once it is armed.
#[derive(Default)]
struct Bomb(AtomicBool);

impl Bomb {
    fn step(&self) {
        assert!(!self.0.load(Ordering::Relaxed), "boom");
    }
}

impl CompactionFilter for Bomb {
    fn name(&self) -> &str {
        "bomb"
    }
    fn filter(&self, _level: i32, key: &[u8], _value: &[u8]) -> FilterDecision {
        if key > b"0001500".as_slice() {
            self.step();
        }
        FilterDecision::Keep
    }
}

impl MergeOperator for Bomb {
    fn name(&self) -> &str {
        "bomb"
    }
    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, all: &[&[u8]]) -> Option<Vec<u8>> {
        self.step();
        Some([existing.unwrap_or_default(), &all.concat()].concat())
    }
}

impl CustomComparator for Bomb {
    fn name(&self) -> &str {
        "bomb"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        self.step();
        a.cmp(b)
    }
}

impl EventListener for Bomb {
    fn on_flush_begin(&self, _info: &FlushJobInfo) {
        self.step();
    }
}

/// A database with data in level 0 and in memory, and the code that will panic in it.
struct Test {
    fs: MemFs,
    options: Options,
    bomb: Arc<Bomb>,
    db: Db,
}

impl Test {
    fn new(set: impl FnOnce(&mut Options, Arc<Bomb>)) -> Self {
        let (fs, bomb) = (MemFs::new(1), Arc::new(Bomb::default()));
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = fs.shared();
        options.cf.merge_operator = Some(Arc::clone(&bomb) as Arc<dyn MergeOperator>);
        options.cf.disable_auto_compactions = true;
        options.cf.target_file_size_base = 20_000;
        let mut opened = options.clone();
        set(&mut opened, Arc::clone(&bomb));
        let db = Db::open(&opened, DIR).unwrap();
        let test = Test { fs, options, bomb, db };
        for round in 0..3 {
            for n in 0..KEYS {
                let (key, value) = (format!("{n:07}"), format!("{round} {n:060}"));
                test.db
                    .put_opt(&WriteOptions::default(), key.as_bytes(), value.as_bytes())
                    .unwrap();
            }
            test.db.flush_opt(&FlushOptions::default()).unwrap();
        }
        let write = WriteOptions::default();
        // A flush merges operands of one memtable.
        test.db.put_opt(&write, b"0000007", format!("2 {:060}", 7).as_bytes()).unwrap();
        test.db.merge_opt(&write, b"0000007", b"+").unwrap();
        test.db.put_opt(&write, b"0000008", b"last").unwrap();
        test.bomb.0.store(true, Ordering::Relaxed);
        test
    }

    fn check(db: &Db, merged: bool) {
        let get =
            |n: u32| db.get_opt(&ReadOptions::default(), format!("{n:07}").as_bytes()).unwrap();
        assert_eq!(get(8).as_deref(), Some(&b"last"[..]));
        for n in (0..KEYS).filter(|n| ![7, 8].contains(n)) {
            assert_eq!(get(n).as_deref(), Some(format!("2 {n:060}").as_bytes()), "{n}");
        }
        if merged {
            assert_eq!(get(7).as_deref(), Some(format!("2 {:060}+", 7).as_bytes()));
        }
    }

    /// What is left after `error`.
    fn check_after(self, error: &Error) {
        let check = |error: &Error| {
            assert!(error.to_string().contains("panicked: boom"), "{error}");
            assert_eq!(
                (error.kind(), error.severity()),
                (ErrorKind::Aborted, Severity::Unrecoverable)
            );
        };
        check(error);
        check(&self.db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap_err());
        check(&self.db.flush_opt(&FlushOptions::default()).unwrap_err());
        Test::check(&self.db, false);
        let live = self.db.live_files_metadata().len();
        drop(self.db.close());
        drop(self.db);
        let names = self.fs.list(Path::new(DIR)).unwrap();
        assert_eq!(names.iter().filter(|name| name.ends_with(".sst")).count(), live, "{names:?}");
        self.bomb.0.store(false, Ordering::Relaxed);
        let db = Db::open(&self.options, DIR).unwrap();
        Test::check(&db, true);
        db.flush_opt(&FlushOptions::default()).unwrap();
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        Test::check(&db, true);
        db.close().unwrap();
    }
}

/// A compaction in one part, and in several parallel ones.
#[pumice_test_macros::test]
fn in_a_compaction() {
    for parts in [1, 4] {
        let test = Test::new(|options, bomb| {
            options.cf.compaction_filter = Some(bomb);
            options.db.max_subcompactions = parts;
        });
        // What is in memory would be merged by the flush that comes first.
        let range = (Some(&b"0001000"[..]), Some(&b"0002900"[..]));
        let request = CompactRangeOptions::default();
        let error = test.db.compact_range(&request, range.0, range.1).unwrap_err();
        test.check_after(&error);
    }
}

#[pumice_test_macros::test]
fn in_a_flush() {
    let test = Test::new(|_, _| ());
    let error = test.db.flush_opt(&FlushOptions::default()).unwrap_err();
    test.check_after(&error);
}

/// Wherever a user's checksum of files panics: when it is made, fed or finished.
#[pumice_test_macros::test]
fn in_a_checksum_of_a_file() {
    for at in 0..3 {
        let test = Test::new(|options, bomb| {
            options.cf.merge_operator = None;
            options.cf.set_merge_operator("bomb", |_, existing, all| {
                Some([existing.unwrap_or_default(), &all.concat()].concat())
            });
            options.db.set_file_checksum_gen_factory("bombs", move |_| {
                let bomb = Arc::clone(&bomb);
                (at == 0).then(|| bomb.step());
                Some(Box::new(Checksum { at, bomb }))
            });
        });
        let error = test.db.flush_opt(&FlushOptions::default()).unwrap_err();
        test.check_after(&error);
    }
}

struct Checksum {
    at: usize,
    bomb: Arc<Bomb>,
}

impl FileChecksumGenerator for Checksum {
    fn name(&self) -> &str {
        "bomb"
    }
    fn update(&mut self, _: &[u8]) {
        (self.at == 1).then(|| self.bomb.step());
    }
    fn finalize(&mut self) -> Vec<u8> {
        (self.at == 2).then(|| self.bomb.step());
        b"sum".to_vec()
    }
}

#[pumice_test_macros::test]
fn in_a_listener() {
    let test = Test::new(|options, bomb| options.db.listeners.push(bomb));
    // The flush itself may succeed or fail.
    drop(test.db.flush_opt(&FlushOptions::default()));
    let error = test.db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap_err();
    test.check_after(&error);
}

/// The order of keys panics while a writer writes for others, too.
#[pumice_test_macros::test]
fn in_a_write() {
    let (fs, bomb) = (MemFs::new(1), Arc::new(Bomb::default()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.cf.comparator = Comparator::Custom(Arc::clone(&bomb) as Arc<dyn CustomComparator>);
    let db = Arc::new(Db::open(&options, DIR).unwrap());
    let put = |db: &Db, key: &str| db.put_opt(&WriteOptions::default(), key.as_bytes(), b"v");
    put(&db, "first").unwrap();
    bomb.0.store(true, Ordering::Relaxed);
    let writers: Vec<_> = (0..4)
        .map(|n| {
            let db = Arc::clone(&db);
            thread::spawn("writer", move || put(&db, &format!("{n}")))
        })
        .collect();
    for writer in writers {
        // The first has the panic itself, the others get an error.
        let error = writer.join().and_then(|result| result).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
        assert_eq!(error.severity(), Severity::Unrecoverable);
    }
    bomb.0.store(false, Ordering::Relaxed);
    assert_eq!(put(&db, "late").unwrap_err().severity(), Severity::Unrecoverable);
    let get = |db: &Db, key: &str| db.get_opt(&ReadOptions::default(), key.as_bytes()).unwrap();
    assert!(get(&db, "first").is_some() && get(&db, "late").is_none());
    drop(db.close());
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert!(get(&db, "first").is_some() && get(&db, "late").is_none());
    put(&db, "late").unwrap();
    db.close().unwrap();
}

/// A batch whose write has panicked is an empty one.
#[pumice_test_macros::test]
fn a_batch_survives_its_write() {
    let (fs, bomb) = (MemFs::new(1), Arc::new(Bomb::default()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    let other = Db::open(&options, "/other").unwrap();
    options.cf.comparator = Comparator::Custom(Arc::clone(&bomb) as Arc<dyn CustomComparator>);
    let db = Db::open(&options, DIR).unwrap();
    db.put_opt(&WriteOptions::default(), b"first", b"v").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"lost");
    batch.set_save_point();
    bomb.0.store(true, Ordering::Relaxed);
    let write = AssertUnwindSafe(|| db.write_opt(&WriteOptions::default(), &mut batch));
    std::panic::catch_unwind(write).unwrap_err();
    bomb.0.store(false, Ordering::Relaxed);
    assert_eq!((batch.count(), batch.data().len()), (0, 12));
    other.write_opt(&WriteOptions::default(), &mut batch).unwrap();
    batch.put(b"b", b"kept");
    other.write_opt(&WriteOptions::default(), &mut batch).unwrap();
    let get = |key: &[u8]| other.get_opt(&ReadOptions::default(), key).unwrap();
    assert!(get(b"a").is_none());
    assert_eq!(get(b"b").as_deref(), Some(&b"kept"[..]));
    other.close().unwrap();
    drop(db.close());
}

/// Panics where compactions are picked: on a thread of the pool, before the job begins.
struct Picky(AtomicBool);

impl CustomComparator for Picky {
    fn name(&self) -> &str {
        "picky"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let armed = self.0.load(Ordering::Relaxed);
        let low = || ThreadPools::shared().thread_ids(PoolPriority::Low).contains(&os::thread_id());
        assert!(!(armed && low()), "boom");
        a.cmp(b)
    }
}

/// A job that dies before it runs anything still counts as ended, so no call waits for it forever.
// Plain #[test]: the pools are those of operating-system threads.
#[test]
fn a_comparator_that_panics_while_a_compaction_is_picked() {
    let picky = Arc::new(Picky(AtomicBool::new(false)));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = MemFs::new(1).shared();
    options.cf.comparator = Comparator::Custom(Arc::clone(&picky) as Arc<dyn CustomComparator>);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    for _ in 0..4 {
        for key in [b"a", b"b", b"c"] {
            db.put_opt(&WriteOptions::default(), key, b"value").unwrap();
        }
        db.flush_opt(&FlushOptions::default()).unwrap();
    }
    picky.0.store(true, Ordering::Relaxed);
    let error = db.compact_range(&CompactRangeOptions::default(), None, None).unwrap_err();
    assert!(error.to_string().contains("panicked: boom"), "{error}");
    let error = db.put_opt(&WriteOptions::default(), b"d", b"value").unwrap_err();
    assert!(error.to_string().contains("panicked: boom"), "{error}");
    let read = db.get_opt(&ReadOptions::default(), b"a").unwrap();
    assert_eq!(read.as_deref(), Some(&b"value"[..]));
    drop(db.close());
    drop(db);
    picky.0.store(false, Ordering::Relaxed);
    let db = Db::open(&options, DIR).unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    db.close().unwrap();
}

/// Panics at the comparison that it counts down to.
#[derive(Default)]
struct Fuse(AtomicU64);

impl CustomComparator for Fuse {
    fn name(&self) -> &str {
        "fuse"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let left = self.0.load(Ordering::Relaxed);
        if left > 0 {
            self.0.store(left - 1, Ordering::Relaxed);
            assert!(left > 1, "boom");
        }
        a.cmp(b)
    }
}

/// At whatever point an ingestion or a deletion of files panics, no call waits forever for the
/// ranges it reserved.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn a_comparator_that_panics_while_the_tree_is_changed_from_outside() {
    let calls: [(Call, u64); 2] = [(ingest, 10), (delete_files, 3)];
    for (at, (call, least)) in calls.into_iter().enumerate() {
        let mut boomed = 0;
        for nth in 1.. {
            let limits =
                sim::Options { max_virtual_nanos: 3600 * 1_000_000_000, ..sim::Options::new(nth) };
            let (_, outcome) = sim::run(&limits, move || with_a_panic(call, nth));
            match outcome {
                Ok(true) => boomed += 1,
                Ok(false) => break,
                Err(failure) => panic!("call {at}, comparison {nth}: {failure:?}"),
            }
        }
        assert!(boomed > least, "call {at}: {boomed} comparisons");
    }
}

/// Whether it went well.
type Call = fn(&Db) -> bool;

fn ingest(db: &Db) -> bool {
    db.ingest_external_file(&IngestExternalFileOptions::default(), &["/in.sst"]).is_ok()
}

fn delete_files(db: &Db) -> bool {
    let range = (Some(&b"x"[..]), Some(&b"y"[..]));
    db.delete_files_in_ranges(&[range], true).is_ok()
}

/// Whether there was comparison `nth`.
fn with_a_panic(call: Call, nth: u64) -> bool {
    let fuse = Arc::new(Fuse::default());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = MemFs::new(1).shared();
    options.cf.disable_auto_compactions = true;
    options.cf.level_compaction_dynamic_level_bytes = false;
    options.cf.comparator = Comparator::Custom(Arc::clone(&fuse) as Arc<dyn CustomComparator>);
    let db = Arc::new(Db::open(&options, DIR).unwrap());
    let fill = |first: &[u8], last: &[u8]| {
        db.put_opt(&WriteOptions::default(), first, b"v").unwrap();
        db.put_opt(&WriteOptions::default(), last, b"v").unwrap();
        db.flush_opt(&FlushOptions::default()).unwrap();
    };
    let to = |target_level: i32, begin: Option<&[u8]>, end: Option<&[u8]>| {
        let how = CompactRangeOptions { change_level: true, target_level, ..Default::default() };
        db.compact_range(&how, begin, end)
    };
    fill(b"x", b"y");
    to(3, None, None).unwrap();
    fill(b"d", b"e");
    to(2, Some(b"d"), Some(b"e")).unwrap();
    fill(b"a", b"c");
    fill(b"a", b"c");
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open(Path::new("/in.sst")).unwrap();
    writer.put(b"b", b"v").unwrap();
    writer.finish().unwrap();
    fuse.0.store(nth, Ordering::Relaxed);
    let calling = Arc::clone(&db);
    let called = thread::spawn("call", move || call(&calling)).join().unwrap_or(false);
    let boomed = fuse.0.swap(0, Ordering::Relaxed) == 0;
    let compacted = to(5, None, None);
    assert!(compacted.is_ok() || !called, "{compacted:?}");
    drop(db.close());
    boomed
}
