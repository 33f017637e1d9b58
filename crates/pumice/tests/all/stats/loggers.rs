//! A logger of the user's that panics, at each of its lines: the database does not notice.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{DIR, get, key, options};
use pumice::options::InfoLogLevel;
use pumice::{Db, FlushOptions, Logger, MemFs, Options, WriteOptions};

const KEYS: usize = 200;

/// Panics at one line, or at all from it on.
struct Fragile {
    lines: AtomicU64,
    panics_at: u64,
    for_good: bool,
}

impl Logger for Fragile {
    fn log(&self, _level: InfoLogLevel, _message: fmt::Arguments<'_>) {
        let line = self.lines.fetch_add(1, Ordering::Relaxed);
        let broken = line == self.panics_at || (self.for_good && line > self.panics_at);
        assert!(!broken, "standard output is closed");
    }
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Debug
    }
}

/// Writes with sync, flushes, compacts and closes. The lines that were logged.
fn life(fs: &MemFs, panics_at: u64, for_good: bool) -> u64 {
    let logger = Arc::new(Fragile { lines: AtomicU64::new(0), panics_at, for_good });
    let mut options: Options = options(&fs.shared());
    options.db.info_log = Some(Arc::clone(&logger) as _);
    let db = Db::open(&options, DIR).unwrap();
    let sync = WriteOptions { sync: true, ..WriteOptions::default() };
    for n in 0..KEYS {
        db.put_opt(&sync, &key(n), b"kept").unwrap();
        if n % 80 == 79 {
            db.flush_opt(&FlushOptions::default()).unwrap();
        }
    }
    db.compact_range(&pumice::CompactRangeOptions::default(), None, None).unwrap();
    db.close().unwrap();
    logger.lines.load(Ordering::Relaxed)
}

#[pumice_test_macros::test]
fn a_logger_that_panics_loses_its_line_and_nothing_else() {
    let lines = life(&MemFs::new(1), u64::MAX, false);
    assert!(lines > 20, "{lines}");
    // Neighbours are lines of one step.
    for at in (0..lines).step_by(3) {
        let fs = MemFs::new(1);
        life(&fs, at, at % 2 == 0);
        let db = Db::open(&options(&fs.shared()), DIR).unwrap();
        for n in 0..KEYS {
            assert_eq!(get(&db, &key(n)).as_deref(), Some(&b"kept"[..]), "key {n}, line {at}");
        }
        db.close().unwrap();
    }
}
