//! Everything at once on one small database: writers, readers, iterators, snapshots, flushes,
//! compactions, column families, option changes, checkpoints. Then closing under load.
//!
//! Each writer owns a counter and writes its next number to one key in two column families, in one
//! batch. From that follow the invariants that every thread checks:
//! - a counter never goes backwards for one reader;
//! - both column families show the same number under one snapshot;
//! - a snapshot shows the same numbers in every read;
//! - an iterator is sorted, complete and of one moment.
//!
//! A watchdog aborts the process when the test makes no progress to its end.

use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions, Db, ErrorKind, FlushOptions,
    Options, ReadOptions, Result, WriteBatch, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_env::filename::{self, FileType};
use pumice_env::{FileSystem, PosixFs};
use pumice_port::{fiber, thread, time};

const WRITERS: u64 = 3;
const RUN_MICROS: u64 = 8_000_000;
const CLOSE_AFTER: Duration = Duration::from_millis(300);
const DEADLINE: Duration = Duration::from_secs(120);

/// Aborts the process unless dropped in time.
struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    fn new(what: &'static str) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        // Not a fiber: it must run when a fiber does not give up its loop.
        drop(thread::spawn_os("watchdog", move || {
            let until = time::now_micros() + DEADLINE.as_micros() as u64;
            while time::now_micros() < until {
                thread::sleep(Duration::from_millis(100));
                if seen.load(Ordering::Acquire) {
                    return;
                }
            }
            eprintln!("{what}: not over after {DEADLINE:?}; something waits for ever");
            process::abort();
        }));
        Watchdog(over)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("pumice-{name}-{}", process::id()))
}

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.max_background_jobs = 4;
    options.db.max_subcompactions = 2;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 32 << 10;
    options.cf.max_bytes_for_level_base = 128 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    options
}

/// Number in the name of the next temporary column family.
static NEXT_FAMILY: AtomicU64 = AtomicU64::new(0);

/// Descriptors of all column families in `dir`, and of the two that the test needs first.
fn families(dir: &Path, options: &Options) -> Vec<ColumnFamilyDescriptor> {
    let mut names = vec!["default".to_string(), "mirror".to_string()];
    if let Ok(existing) = Db::list_column_families(&options.db, dir) {
        names.extend(existing.into_iter().filter(|n| n != "default" && n != "mirror"));
    }
    names.into_iter().map(|n| ColumnFamilyDescriptor::new(n, options.cf.clone())).collect()
}

fn key(writer: u64, n: u64) -> Vec<u8> {
    format!("writer{writer}-{:04}", n % 500).into_bytes()
}

fn counter(writer: u64) -> Vec<u8> {
    format!("counter{writer}").into_bytes()
}

/// The database with what all threads share.
struct World {
    db: Db,
    mirror: ColumnFamily,
    stop: AtomicBool,
    /// What each writer has had acknowledged.
    acknowledged: [AtomicU64; WRITERS as usize],
}

impl World {
    fn open(dir: &Path) -> Arc<Self> {
        let options = options();
        let (db, handles) = Db::open_cf(&options.db, dir, &families(dir, &options)).unwrap();
        Arc::new(World {
            db,
            mirror: handles[1].clone(),
            stop: AtomicBool::new(false),
            acknowledged: Default::default(),
        })
    }

    /// Called once a round by every task: on fibers a round that read everything from memory has
    /// not waited, so it yields here.
    fn running(&self) -> bool {
        fiber::maybe_yield();
        !self.stop.load(Ordering::Acquire)
    }

    fn number(&self, options: &ReadOptions, writer: u64) -> Result<(u64, u64)> {
        let here = self.db.get_opt(options, &counter(writer))?;
        let there = self.db.get_cf_opt(options, &self.mirror, &counter(writer))?;
        Ok((parse(here.as_deref()), parse(there.as_deref())))
    }

    fn write(&self, writer: u64) -> Result<()> {
        let mut rng = Rng::new(writer);
        let mut n = self.number(&ReadOptions::default(), writer)?.0;
        while self.running() {
            n += 1;
            let value = n.to_string().repeat(1 + rng.uniform(20) as usize);
            let mut batch = WriteBatch::new();
            batch.put(&counter(writer), n.to_string().as_bytes());
            batch.put_cf(self.mirror.id(), &counter(writer), n.to_string().as_bytes());
            if rng.one_in(50) {
                batch.delete_range(&key(writer, 100), &key(writer, 110));
            } else if rng.one_in(10) {
                batch.delete(&key(writer, rng.uniform(500)));
            } else {
                batch.put(&key(writer, n), value.as_bytes());
            }
            let options = WriteOptions { sync: rng.one_in(100), ..WriteOptions::default() };
            self.db.write_opt(&options, &mut batch)?;
            self.acknowledged[writer as usize].store(n, Ordering::Release);
        }
        Ok(())
    }

    fn read(&self) -> Result<()> {
        let mut seen = [0; WRITERS as usize];
        while self.running() {
            for writer in 0..WRITERS {
                let at = writer as usize;
                let acknowledged = self.acknowledged[at].load(Ordering::Acquire);
                let (here, there) = self.number(&ReadOptions::default(), writer)?;
                assert!(here >= seen[at], "writer {writer}: {here} after {}", seen[at]);
                assert!(here >= acknowledged, "writer {writer}: {here} of {acknowledged}");
                assert!(there >= here, "writer {writer}: mirror {there} behind {here}");
                seen[at] = here;
            }
        }
        Ok(())
    }

    fn snapshots(&self) -> Result<()> {
        let mut kept = Vec::new();
        while self.running() {
            let options =
                ReadOptions { snapshot: Some(self.db.snapshot()), ..ReadOptions::default() };
            let mut numbers = Vec::new();
            for writer in 0..WRITERS {
                let (here, there) = self.number(&options, writer)?;
                assert_eq!(here, there, "writer {writer}: half of a batch is visible");
                numbers.push(here);
            }
            kept.push((options, numbers));
            let turn = kept.len() % 7;
            for (options, numbers) in kept.iter().skip(turn).step_by(3) {
                for (writer, expected) in numbers.iter().enumerate() {
                    let (here, there) = self.number(options, writer as u64)?;
                    assert_eq!((here, there), (*expected, *expected), "a snapshot changed");
                }
            }
            if kept.len() > 20 {
                kept.drain(..15);
            }
        }
        Ok(())
    }

    fn iterate(&self) -> Result<()> {
        while self.running() {
            let before: Vec<u64> =
                self.acknowledged.iter().map(|n| n.load(Ordering::Acquire)).collect();
            let mut iter = self.db.cursor_opt(&ReadOptions::default())?;
            let (mut last, mut counters) = (Vec::new(), Vec::new());
            iter.seek_to_first();
            while iter.valid() {
                assert!(last.as_slice() < iter.key().unwrap(), "keys out of order");
                last = iter.key().unwrap().to_vec();
                if last.starts_with(b"counter") {
                    counters.push(parse(Some(iter.value().unwrap())));
                }
                iter.next();
            }
            iter.status()?;
            let expected = before.iter().filter(|n| **n > 0).count();
            assert!(counters.len() >= expected, "{counters:?} of {before:?}");
            if counters.len() == before.len() {
                for (now, then) in counters.iter().zip(&before) {
                    assert!(now >= then, "{counters:?} of {before:?}");
                }
            }
            let mut count = 0;
            iter.seek_to_last();
            while iter.valid() {
                count += 1;
                iter.prev();
            }
            iter.status()?;
            assert!(count >= counters.len());
        }
        Ok(())
    }

    fn maintain(&self) -> Result<()> {
        let mut rng = Rng::new(11);
        while self.running() {
            match rng.uniform(6) {
                0 => self.db.flush_opt(&FlushOptions::default())?,
                1 => self.db.flush_all_opt(&FlushOptions::default())?,
                2 => {
                    let range = (key(1, 0), key(1, 300));
                    let options = CompactRangeOptions::default();
                    self.db.compact_range(&options, Some(&range.0), Some(&range.1))?;
                }
                3 => {
                    let options = CompactRangeOptions {
                        exclusive_manual_compaction: true,
                        ..CompactRangeOptions::default()
                    };
                    self.db.compact_range_cf(&options, &self.mirror, None, None)?;
                }
                4 => {
                    let size = ["65536", "131072"][rng.uniform(2) as usize];
                    self.db.set_options_cf(&self.mirror, &[("write_buffer_size", size)])?;
                    self.db.set_db_options(&[("max_background_jobs", "3")])?;
                }
                _ => self.db.flush_wal(true)?,
            }
            thread::sleep(Duration::from_millis(rng.uniform(30)));
        }
        Ok(())
    }

    fn create_and_drop(&self) -> Result<()> {
        let mut round = 0;
        while self.running() {
            round += 1;
            // Never the name of one that outlived an earlier database handle.
            let name = format!("passing{}", NEXT_FAMILY.fetch_add(1, Ordering::Relaxed));
            let cf = self.db.create_column_family(&options().cf, &name)?;
            for n in 0..200 {
                let value = vec![b'v'; 500];
                self.db.put_cf_opt(&WriteOptions::default(), &cf, &key(9, n), &value)?;
            }
            if round % 2 == 0 {
                self.db.flush_cfs_opt(&FlushOptions::default(), &[&cf])?;
            }
            let mut iter = self.db.cursor_cf_opt(&ReadOptions::default(), &cf)?;
            self.db.drop_column_family(&cf)?;
            // What was opened before the drop still reads everything.
            iter.seek_to_first();
            let mut count = 0;
            while iter.valid() {
                count += 1;
                iter.next();
            }
            iter.status()?;
            assert_eq!(count, 200);
            let refused = self.db.put_cf_opt(&WriteOptions::default(), &cf, b"k", b"v");
            assert!(refused.is_err(), "a write into a dropped column family");
        }
        Ok(())
    }

    fn checkpoints(&self, dir: &Path) -> Result<()> {
        let options = options();
        while self.running() {
            let before: Vec<u64> =
                self.acknowledged.iter().map(|n| n.load(Ordering::Acquire)).collect();
            self.db.checkpoint(dir)?;
            let (copy, handles) = Db::open_cf(&options.db, dir, &families(dir, &options))?;
            let mirror = &handles[1];
            for writer in 0..WRITERS {
                let here = copy.get_opt(&ReadOptions::default(), &counter(writer))?;
                let there = copy.get_cf_opt(&ReadOptions::default(), mirror, &counter(writer))?;
                let (here, there) = (parse(here.as_deref()), parse(there.as_deref()));
                assert_eq!(here, there, "half of a batch in a checkpoint");
                assert!(here >= before[writer as usize], "a checkpoint lost {writer}'s writes");
            }
            copy.close()?;
            Db::destroy(&options, dir)?;
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

fn parse(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |v| std::str::from_utf8(v).unwrap().parse().unwrap())
}

type Task = Box<dyn FnOnce(&World) -> Result<()> + Send>;

fn tasks(checkpoint: PathBuf) -> Vec<(&'static str, Task)> {
    let mut tasks: Vec<(&'static str, Task)> = vec![
        ("read", Box::new(World::read)),
        ("snapshots", Box::new(World::snapshots)),
        ("iterate", Box::new(World::iterate)),
        ("maintain", Box::new(World::maintain)),
        ("create", Box::new(World::create_and_drop)),
        ("checkpoints", Box::new(move |w| w.checkpoints(&checkpoint))),
    ];
    for writer in 0..WRITERS {
        tasks.push(("write", Box::new(move |w| w.write(writer))));
    }
    tasks
}

/// Removes a directory of files, if it is there.
fn remove_tree(dir: &Path) {
    for name in PosixFs.list(dir).unwrap_or_default() {
        PosixFs.remove(&dir.join(name)).unwrap();
    }
    drop(PosixFs.remove_dir(dir));
}

/// Checks that the table files on disk are those that the database knows, with one MANIFEST and one
/// OPTIONS file.
fn assert_no_stray_files(dir: &Path, db: &Db) {
    let mut live: Vec<u64> = db.live_files_metadata().iter().map(|f| f.file_number).collect();
    live.sort_unstable();
    let mut tables = Vec::new();
    let (mut manifests, mut options) = (0, 0);
    for name in PosixFs.list(dir).unwrap() {
        match filename::parse(&name) {
            Some((number, FileType::Table)) => tables.push(number),
            Some((_, FileType::Descriptor)) => manifests += 1,
            Some((_, FileType::Options)) => options += 1,
            Some((_, FileType::Temp)) => panic!("{name} was left behind"),
            _ => {}
        }
    }
    tables.sort_unstable();
    assert_eq!(tables, live);
    assert_eq!((manifests, options), (1, 1));
}

#[pumice_test_macros::test]
fn everything_at_once() {
    let _watchdog = Watchdog::new("everything_at_once");
    let dir = directory("concurrent");
    let checkpoint = directory("concurrent-checkpoint");
    let world = World::open(&dir);
    let threads: Vec<_> = tasks(checkpoint)
        .into_iter()
        .map(|(name, task)| {
            let world = Arc::clone(&world);
            let run = move || {
                let result = task(&world);
                // One failure ends the test.
                world.stop.store(true, Ordering::Release);
                result
            };
            (name, thread::spawn(name, run))
        })
        .collect();
    let until = time::now_micros() + RUN_MICROS;
    // On a slow machine, too, every writer makes progress; the watchdog decides when to give up.
    let got_somewhere = || world.acknowledged.iter().all(|n| n.load(Ordering::Acquire) > 100);
    while world.running() && (time::now_micros() < until || !got_somewhere()) {
        thread::sleep(Duration::from_millis(20));
    }
    world.stop.store(true, Ordering::Release);
    let results: Vec<_> = threads.into_iter().map(|(name, t)| (name, t.join())).collect();
    for (name, result) in results {
        result.and_then(|r| r).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let numbers: Vec<u64> = world.acknowledged.iter().map(|n| n.load(Ordering::Acquire)).collect();
    assert!(numbers.iter().all(|n| *n > 100), "hardly anything was written: {numbers:?}");
    world.db.close().unwrap();
    drop(world);

    let mut options = options();
    options.cf.disable_auto_compactions = true;
    let (db, handles) = Db::open_cf(&options.db, &dir, &families(&dir, &options)).unwrap();
    for (writer, expected) in numbers.iter().enumerate() {
        let key = counter(writer as u64);
        let here = db.get_opt(&ReadOptions::default(), &key).unwrap();
        let there = db.get_cf_opt(&ReadOptions::default(), &handles[1], &key).unwrap();
        assert_eq!(parse(here.as_deref()), *expected);
        assert_eq!(parse(there.as_deref()), *expected);
    }
    assert_no_stray_files(&dir, &db);
    db.verify_checksum().unwrap();
    db.close().unwrap();
    Db::destroy(&options, &dir).unwrap();
}

#[pumice_test_macros::test]
fn closing_while_everything_runs() {
    let _watchdog = Watchdog::new("closing_while_everything_runs");
    let dir = directory("closing");
    let checkpoint = directory("closing-checkpoint");
    let mut least = [0; WRITERS as usize];
    for round in 0..4 {
        let world = World::open(&dir);
        for writer in 0..WRITERS {
            let (here, there) = world.number(&ReadOptions::default(), writer).unwrap();
            assert_eq!(here, there, "round {round}: half of a batch survived");
            assert!(here >= least[writer as usize], "round {round}: lost writes of {writer}");
        }
        let threads: Vec<_> = tasks(checkpoint.clone())
            .into_iter()
            .map(|(name, task)| {
                let world = Arc::clone(&world);
                (name, thread::spawn(name, move || task(&world)))
            })
            .collect();
        thread::sleep(CLOSE_AFTER);
        world.db.close().unwrap();
        // The lock is free: the next opener may come at once, while old handles are still in use.
        let next = World::open(&dir);
        thread::sleep(CLOSE_AFTER / 3);
        world.stop.store(true, Ordering::Release);
        for (name, thread) in threads {
            let Err(error) = thread.join().unwrap_or_else(|e| panic!("{name}: {e}")) else {
                continue;
            };
            let closing = matches!(
                error.kind(),
                ErrorKind::ShutdownInProgress | ErrorKind::Aborted | ErrorKind::Incomplete
            );
            // A reader of the closed database may miss files that the next opener compacted away.
            let outdated = error.is_not_found() || error.os_error() == Some(2);
            assert!(closing || outdated, "{name} in round {round}: {error}");
        }
        for (least, n) in least.iter_mut().zip(&world.acknowledged) {
            *least = n.load(Ordering::Acquire).max(*least);
        }
        next.db.close().unwrap();
        let staging = format!("{}.tmp", checkpoint.display());
        for temp in [checkpoint.as_path(), Path::new(&staging)] {
            remove_tree(temp);
        }
    }
    Db::destroy(&options(), &dir).unwrap();
}
