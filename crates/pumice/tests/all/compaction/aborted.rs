//! Calls that abort all compactions, and limits on how many run at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{self, DIR, contents, fill, flush};
use pumice::{
    CompactFilesOptions, CompactRangeOptions, CompactionFilter, ConcurrentTaskLimiter, Db,
    FilterDecision, MemFs, Options, SubCode, WaitForCompactOptions,
};
use pumice_port::sync::Semaphore;
use pumice_port::thread;

fn options() -> Options {
    let mut options = common::options(&MemFs::new(1).shared());
    options.cf.level0_file_num_compaction_trigger = 2;
    // A compaction that is held keeps a thread of the pool that all databases share.
    options.db.max_background_jobs = 8;
    options
}

fn compact(db: &Db) -> pumice::Result<()> {
    db.compact_range(&CompactRangeOptions::default(), None, None)
}

fn is_aborted<T: std::fmt::Debug>(result: pumice::Result<T>) {
    let error = result.unwrap_err();
    assert_eq!(error.subcode(), SubCode::CompactionAborted);
    assert_eq!(error.to_string(), "Result incomplete: All compactions aborted");
}

fn tables(db: &Db, level: usize) -> usize {
    db.live_files_metadata().iter().filter(|file| file.level == level).count()
}

fn make_due(db: &Db) {
    for round in 0..2 {
        fill(db, 0..100, &format!("v{round}"));
        flush(db);
    }
}

/// What the shared pools were given before has had its turn: a compaction of a database without
/// limits, which is queued behind it, is over.
fn pools_had_a_turn() {
    let db = Db::open(&options(), DIR).unwrap();
    make_due(&db);
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!(tables(&db, 0), 0);
}

/// Holds each compaction at its first key until it gets a permit.
struct Gate {
    entered: Semaphore,
    open: Semaphore,
    /// Compactions that have begun.
    begun: AtomicUsize,
}

impl Gate {
    fn new() -> Arc<Gate> {
        Arc::new(Gate {
            entered: Semaphore::new(0),
            open: Semaphore::new(0),
            begun: AtomicUsize::new(0),
        })
    }
}

struct Held(Arc<Gate>);

impl CompactionFilter for Held {
    fn name(&self) -> &str {
        "held"
    }
    fn filter(&self, _level: i32, key: &[u8], _value: &[u8]) -> FilterDecision {
        if key == common::key(0) {
            self.0.begun.fetch_add(1, Ordering::SeqCst);
            self.0.entered.release(1);
            self.0.open.acquire(1);
        }
        FilterDecision::Keep
    }
}

/// Flushes go on, compactions of both kinds do not, and what is due runs when all calls resumed.
// Plain #[test]: the pools are those of operating-system threads.
#[test]
fn nothing_is_compacted_until_as_many_calls_resume() {
    let db = Db::open(&options(), DIR).unwrap();
    db.abort_all_compactions();
    db.abort_all_compactions();
    for round in 0..3 {
        fill(&db, 0..100, &format!("v{round}"));
        flush(&db);
    }
    pools_had_a_turn();
    assert_eq!(tables(&db, 0), 3);
    is_aborted(compact(&db));
    let name = db.live_files_metadata()[0].name.clone();
    is_aborted(db.compact_files(&CompactFilesOptions::default(), &[&name], 1));
    db.resume_all_compactions();
    is_aborted(compact(&db));
    pools_had_a_turn();
    assert_eq!(tables(&db, 0), 3);
    db.resume_all_compactions();
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert!(tables(&db, 0) < 2, "what was due has run");
    compact(&db).unwrap();
    db.resume_all_compactions();
    compact(&db).unwrap();
    assert_eq!(contents(&db).len(), 100);
}

/// A compaction that runs ends early, and is no error of the database.
// Plain #[test]: the pools are those of operating-system threads.
#[test]
fn a_running_compaction_ends_early() {
    let gate = Gate::new();
    let mut options = options();
    options.cf.disable_auto_compactions = true;
    options.cf.compaction_filter = Some(Arc::new(Held(Arc::clone(&gate))));
    let db = Arc::new(Db::open(&options, DIR).unwrap());
    for round in 0..2 {
        fill(&db, 0..20_000, &format!("v{round}"));
        flush(&db);
    }
    let before = tables(&db, 0);
    let caller = Arc::clone(&db);
    let compaction = thread::spawn("compact", move || compact(&caller));
    gate.entered.acquire(1);
    let aborter = Arc::clone(&db);
    let aborted = thread::spawn("abort", move || aborter.abort_all_compactions());
    // Opened only once the switch is set: a new request is refused by it.
    while compact(&db).is_ok() {}
    gate.open.release(1);
    is_aborted(compaction.join().unwrap());
    aborted.join().unwrap();
    assert_eq!(tables(&db, 0), before);
    db.put("a", "1").unwrap();
    db.resume_all_compactions();
    gate.open.release(10);
    compact(&db).unwrap();
    assert_eq!(tables(&db, 0), 0);
}

/// Two databases share a limit of one: the second waits, and runs without a nudge. Calls that
/// compact do not wait.
// Plain #[test]: the pools are those of operating-system threads.
#[test]
fn compactions_under_one_limit_wait_for_each_other() {
    let gate = Gate::new();
    let limiter = Arc::new(ConcurrentTaskLimiter::new("one", 1));
    let mut options = options();
    options.cf.compaction_thread_limiter = Some(Arc::clone(&limiter));
    options.cf.compaction_filter = Some(Arc::new(Held(Arc::clone(&gate))));
    let first = Db::open(&options, DIR).unwrap();
    let other = Gate::new();
    other.open.release(10);
    options.cf.compaction_filter = Some(Arc::new(Held(Arc::clone(&other))));
    options.db.file_system = MemFs::new(2).shared();
    let second = Db::open(&options, DIR).unwrap();
    make_due(&first);
    gate.entered.acquire(1);
    assert_eq!(limiter.outstanding_tasks(), 1);
    make_due(&second);
    pools_had_a_turn();
    let begun = || other.begun.load(Ordering::SeqCst);
    assert_eq!((begun(), tables(&second, 0)), (0, 2), "it waits");
    second.put("a", "1").unwrap();
    compact(&second).unwrap();
    assert_eq!(tables(&second, 0), 0, "who asks does not wait");
    make_due(&second);
    pools_had_a_turn();
    assert_eq!((begun(), tables(&second, 0)), (1, 2), "it waits again");
    gate.open.release(10);
    first.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    second.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!((tables(&first, 0), tables(&second, 0)), (0, 0));
    assert_eq!(limiter.outstanding_tasks(), 0);
}

/// A raised limit wakes who waits, and a close does not wait for it.
// Plain #[test]: the pools are those of operating-system threads.
#[test]
fn a_limit_of_none_holds_all_until_it_is_raised() {
    let limiter = Arc::new(ConcurrentTaskLimiter::new("none", 0));
    let mut options = options();
    options.cf.compaction_thread_limiter = Some(Arc::clone(&limiter));
    let db = Db::open(&options, DIR).unwrap();
    make_due(&db);
    pools_had_a_turn();
    assert_eq!(tables(&db, 0), 2);
    limiter.set_max_outstanding_tasks(1);
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!(tables(&db, 0), 0);
    limiter.set_max_outstanding_tasks(0);
    make_due(&db);
    db.close().unwrap();
}
