//! Every callback of user code, with deep stack use and with a panic, in calls of every kind, on a
//! thread and on a fiber: the stack suffices wherever it is called, and a panic ends the call or
//! becomes an error, so that no call waits forever and a reopen finds everything acknowledged.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use crate::code::{Act, Code, KINDS, Kind};
use pumice::options::IndexType;
use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, FlushOptions,
    IngestExternalFileOptions, Options, ReadOptions, Result, Runtime, SstFileWriter, WriteOptions,
};
use pumice_port::testing::block_on;

const DIR: &str = "/db";
const KEYS: usize = 300;
/// What the callers have, and less than what threads of the background have.
const STACK: usize = 16 << 20;
const DEEP: usize = 3 << 20;
/// A test that takes this many seconds hangs.
const SECONDS: u64 = 240;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn value(n: usize) -> Vec<u8> {
    format!("value {n:050}+").into_bytes()
}

/// Where the calls are made.
#[derive(Clone, Copy, Debug)]
enum Caller {
    Thread,
    Fiber,
}

impl Caller {
    fn run(self, f: impl FnOnce() + Send) {
        match self {
            Caller::Thread => std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(STACK);
                thread.spawn_scoped(scope, f).unwrap().join().unwrap();
            }),
            Caller::Fiber => runtime().run("caller", f),
        }
    }
}

fn runtime() -> Runtime {
    Runtime::builder().loops(1).stack_bytes(STACK).build().unwrap()
}

/// Ends the process when the test does not.
fn watch() -> impl Drop {
    struct Watched(Option<Arc<()>>);
    impl Drop for Watched {
        fn drop(&mut self) {
            self.0 = None;
        }
    }
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    std::thread::spawn(move || {
        for _ in 0..SECONDS * 10 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            if weak.upgrade().is_none() {
                return;
            }
        }
        eprintln!("a test hangs");
        std::process::abort();
    });
    Watched(Some(alive))
}

fn options(code: &Arc<Code>, cached: bool) -> Options {
    let mut options = code.options();
    options.db.runtime = Some(Arc::new(runtime()));
    options.cf.disable_auto_compactions = true;
    options.cf.memtable_prefix_bloom_size_ratio = 0.1;
    let table = &mut options.cf.table_factory;
    table.block_size = 512;
    table.index_type = IndexType::TwoLevel;
    table.partition_filters = cached;
    table.no_block_cache = !cached;
    table.cache_index_and_filter_blocks = cached;
    options
}

/// Values in tables of two levels, an operand of each in another one, some in memory.
fn fill(db: &Db) {
    let write = WriteOptions::default();
    for n in 0..KEYS {
        let value = value(n);
        db.put_opt(&write, &key(n), &value[..value.len() - 1]).unwrap();
    }
    db.flush_opt(&FlushOptions::default()).unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    for n in 0..KEYS {
        db.merge_opt(&write, &key(n), b"+").unwrap();
        if n == KEYS - 50 {
            db.flush_opt(&FlushOptions::default()).unwrap();
        }
    }
}

fn check_all(db: &Db) {
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let found = db.multi_get_opt(&ReadOptions::default(), &keys);
    for (n, found) in found.into_iter().enumerate() {
        assert_eq!(found.unwrap().as_deref(), Some(&value(n)[..]), "key {n}");
    }
}

/// A call, or a few of one kind.
type Call = fn(&Db, &Options) -> Result<()>;

const CALLS: [(&str, Call); 9] = [
    ("write", |db, _| {
        let write = WriteOptions::default();
        (0..20).try_for_each(|n| db.put_opt(&write, &key(KEYS + n), b"new"))?;
        db.delete_opt(&write, &key(KEYS))
    }),
    ("get", |db, _| {
        (0..KEYS).step_by(40).try_for_each(|n| {
            let found = db.get_opt(&ReadOptions::default(), &key(n))?;
            assert_eq!(found.as_deref(), Some(&value(n)[..]));
            Ok(())
        })
    }),
    ("multi_get", |db, _| {
        let keys: Vec<_> = (0..KEYS).step_by(5).map(key).collect();
        for fill_cache in [false, true] {
            let read = ReadOptions { fill_cache, ..ReadOptions::default() };
            for (n, found) in db.multi_get_opt(&read, &keys).into_iter().enumerate() {
                assert_eq!(found?.as_deref(), Some(&value(n * 5)[..]));
            }
        }
        Ok(())
    }),
    ("futures", |db, _| {
        let read = ReadOptions::default();
        let keys: Vec<_> = (0..KEYS).step_by(9).map(key).collect();
        for found in block_on(db.multi_get_opt_async(&read, keys)) {
            assert!(found?.is_some());
        }
        assert_eq!(block_on(db.get_opt_async(&read, key(3)))?.as_deref(), Some(&value(3)[..]));
        Ok(())
    }),
    ("iterate", |db, _| {
        for prefix_same_as_start in [false, true] {
            let read = ReadOptions { prefix_same_as_start, ..ReadOptions::default() };
            let mut iter = db.cursor_opt(&read)?;
            iter.seek(&key(10));
            for n in 10..60 {
                iter.status()?;
                assert_eq!(
                    (iter.key().unwrap(), iter.value().unwrap()),
                    (&key(n)[..], &value(n)[..])
                );
                iter.next();
            }
            for _ in 0..30 {
                iter.prev();
            }
            iter.status()?;
            assert_eq!(iter.key().unwrap(), key(30));
        }
        Ok(())
    }),
    ("flush", |db, _| db.flush_opt(&FlushOptions::default())),
    ("compact", |db, _| db.compact_range(&CompactRangeOptions::default(), None, None)),
    ("ingest", |db, options| {
        let path = Path::new("/made.sst");
        let mut writer = SstFileWriter::new(options)?;
        writer.open(path)?;
        (0..20).try_for_each(|n| writer.put(&key(2 * KEYS + n), b"from outside"))?;
        writer.finish()?;
        db.ingest_external_file(&IngestExternalFileOptions::default(), &[path])
    }),
    ("family", |db, options| {
        let family: &ColumnFamilyOptions = &options.cf;
        let cf = db.create_column_family(family, "other")?;
        db.put_cf_opt(&WriteOptions::default(), &cf, b"key", b"value")?;
        db.drop_column_family(&cf)
    }),
];

/// Opens, makes all calls and closes while calls of `kind` go deep; how many did.
fn all_deep(kind: Kind, cached: bool) -> u64 {
    let code = Code::new();
    let options = options(&code, cached);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db);
    db.close().unwrap();
    drop(db);
    code.tell(kind, Act::Dig(DEEP));
    // With a log to replay.
    let db = Db::open(&options, DIR).unwrap();
    for (name, call) in CALLS {
        call(&db, &options).unwrap_or_else(|e| panic!("{kind:?}, {name}: {e}"));
    }
    check_all(&db);
    db.close().unwrap();
    code.calm()
}

// Plain #[test]: it says itself what it runs on.
#[test]
fn deep_in_the_stack() {
    let _watched = watch();
    for caller in [Caller::Thread, Caller::Fiber] {
        for kind in KINDS {
            for cached in [true, false] {
                caller.run(|| {
                    let deep_calls = all_deep(kind, cached);
                    println!("{caller:?}, {kind:?}, cached {cached}: {deep_calls} calls");
                    assert!(deep_calls > 0, "{kind:?} was not called");
                });
            }
        }
    }
}

/// Makes one kind of call while calls of `kind` panic; whether one did.
fn one_panics(kind: Kind, (name, call): (&str, Call)) -> bool {
    let code = Code::new();
    let options = options(&code, name.len().is_multiple_of(2));
    let db = Db::open(&options, DIR).unwrap();
    fill(&db);
    code.tell(kind, Act::Panic);
    let outcome = catch_unwind(AssertUnwindSafe(|| call(&db, &options)));
    let fired = code.calm() > 0;
    let text = match &outcome {
        Ok(Ok(())) => String::new(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => pumice_port::thread::panic_message(panic.as_ref()).to_string(),
    };
    println!("{kind:?} in {name}: {text}");
    assert!(fired || text.is_empty(), "{kind:?} in {name}: {text}");
    // What was there can be read, and whatever is left of the call ends.
    check_all(&db);
    drop(db.close());
    drop(db);
    // Where a call ended in between there may be a family more.
    let names = Db::list_column_families(&options.db, DIR).unwrap().into_iter();
    let families: Vec<_> =
        names.map(|name| ColumnFamilyDescriptor::new(&name, options.cf.clone())).collect();
    let (db, _) = Db::open_cf(&options.db, DIR, &families).unwrap();
    check_all(&db);
    db.put_opt(&WriteOptions::default(), b"after", b"all").unwrap();
    db.flush_opt(&FlushOptions::default()).unwrap();
    check_all(&db);
    db.close().unwrap();
    fired
}

// Plain #[test]: it says itself what it runs on.
#[test]
fn with_a_panic() {
    let _watched = watch();
    for caller in [Caller::Thread, Caller::Fiber] {
        for kind in KINDS {
            caller.run(|| {
                let fired = CALLS.iter().filter(|call| one_panics(kind, **call)).count();
                assert!(fired > 0, "{kind:?} was not called");
            });
        }
    }
}

/// A file system that panics when files are deleted: the close does not wait forever.
// Plain #[test]: it says itself what it runs on.
#[test]
fn deletions_that_panic_are_over() {
    let _watched = watch();
    for caller in [Caller::Thread, Caller::Fiber] {
        caller.run(|| {
            let code = Code::new();
            let options = options(&code, true);
            let db = Db::open(&options, DIR).unwrap();
            db.disable_file_deletions();
            fill(&db);
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
            code.tell(Kind::Files, Act::Panic);
            let enabled = catch_unwind(AssertUnwindSafe(|| db.enable_file_deletions()));
            assert!(code.calm() > 0, "nothing was deleted: {enabled:?}");
            check_all(&db);
            db.close().unwrap();
        });
    }
}
