//! `read_triggered_compaction_threshold`: tables in which many point reads find no value go down.

use std::sync::Arc;

use crate::common::{DIR, memory, options};
use pumice::options::CompactionStyle;
use pumice::{
    CompactRangeOptions, CompactionJobInfo, CompactionReason, Db, EventListener, MemFs, Options,
    WaitForCompactOptions,
};
use pumice_port::sync::Mutex;

#[derive(Default)]
struct Reasons(Mutex<Vec<CompactionReason>>);

impl EventListener for Reasons {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().push(info.compaction_reason);
    }
}

struct Case {
    _fs: MemFs,
    db: Db,
    reasons: Arc<Reasons>,
}

/// Keys `k0000` to `k0199` in the last level; over it a table of L0 that ends at both sides of
/// them and has what `upper` writes.
fn case(change: impl Fn(&mut Options), upper: impl Fn(&Db)) -> Case {
    let (fs, shared) = memory();
    let mut options = options(&shared);
    let reasons = Arc::new(Reasons::default());
    options.db.listeners = vec![Arc::clone(&reasons) as _];
    options.cf.level0_file_num_compaction_trigger = 100;
    options.cf.level0_slowdown_writes_trigger = 200;
    options.cf.level0_stop_writes_trigger = 300;
    options.cf.read_triggered_compaction_threshold = 0.01;
    change(&mut options);
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..200 {
        db.put(format!("k{n:04}"), "deep").unwrap();
    }
    db.flush().unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    reasons.0.lock().clear();
    db.put("a", "upper").unwrap();
    upper(&db);
    db.put("z", "upper").unwrap();
    db.flush().unwrap();
    Case { _fs: fs, db, reasons }
}

impl Case {
    fn files_above(&self) -> u64 {
        self.db.property("rocksdb.num-files-at-level0").unwrap().parse().unwrap()
    }

    /// Reads until a compaction was picked for that, at most `reads` times.
    fn read(&self, reads: usize, read: impl Fn(&Db, usize)) -> Vec<CompactionReason> {
        for n in 0..reads {
            read(&self.db, n);
            if n % 1000 == 999 {
                self.db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
                if !self.reasons.0.lock().is_empty() {
                    break;
                }
            }
        }
        self.reasons.0.lock().clone()
    }
}

/// One read in 1024 is drawn, so that far more than those are none only if there is no drawing.
const READS: usize = 60_000;

fn absent_above(db: &Db, n: usize) {
    assert_eq!(db.get(format!("k{:04}", n % 200)).unwrap().unwrap(), b"deep");
}

#[pumice_test_macros::test]
fn files_without_values_go_down() {
    let case = case(|_| (), |_| ());
    assert_eq!(case.files_above(), 1);
    assert_eq!(case.read(READS, absent_above), [CompactionReason::ReadTriggered]);
    assert_eq!(case.files_above(), 0);
    // What is in the last level has nowhere to go.
    case.reasons.0.lock().clear();
    assert_eq!(case.read(5000, |db, _| drop(db.get("no such key").unwrap())), []);
    case.db.close().unwrap();
}

#[pumice_test_macros::test]
fn deletions_and_operands_count() {
    let deleted = case(|_| (), |db| db.delete("k0007").unwrap());
    let read = |db: &Db, _| assert_eq!(db.get("k0007").unwrap(), None);
    assert_eq!(deleted.read(READS, read), [CompactionReason::ReadTriggered]);
    deleted.db.close().unwrap();
    let merge = |options: &mut Options| options.set("merge_operator", "stringappend").unwrap();
    let merged = case(merge, |db| db.merge("k0007", "more").unwrap());
    let read = |db: &Db, _| assert_eq!(db.get("k0007").unwrap().unwrap(), b"deep,more");
    assert_eq!(merged.read(READS, read), [CompactionReason::ReadTriggered]);
    merged.db.close().unwrap();
}

#[pumice_test_macros::test]
fn reads_of_many_keys_count() {
    let case = case(|_| (), |_| ());
    let read = |db: &Db, n: usize| {
        let keys = [0, 50, 99].map(|more| format!("k{:04}", (n + more) % 200));
        assert!(db.multi_get(&keys).iter().all(|answer| answer.as_ref().unwrap().is_some()));
    };
    assert_eq!(case.read(READS / 2, read), [CompactionReason::ReadTriggered]);
    case.db.close().unwrap();
}

#[pumice_test_macros::test]
fn values_do_not_count_and_zero_is_off() {
    let found = case(|_| (), |db| db.put("k0007", "upper").unwrap());
    let read = |db: &Db, _| assert_eq!(db.get("k0007").unwrap().unwrap(), b"upper");
    assert_eq!(found.read(8000, read), []);
    found.db.close().unwrap();
    let off = case(|options| options.cf.read_triggered_compaction_threshold = 0.0, |_| ());
    assert_eq!(off.read(8000, absent_above), []);
    // It can be changed while the database is open.
    off.db.set_options(&[("read_triggered_compaction_threshold", "0.01")]).unwrap();
    assert_eq!(off.read(READS, absent_above), [CompactionReason::ReadTriggered]);
    for wrong in ["-1", "nan", "inf"] {
        let wrong = off.db.set_options(&[("read_triggered_compaction_threshold", wrong)]);
        let wrong = wrong.unwrap_err().to_string();
        assert!(
            ["must be >= 0.0", "expected a number"].iter().any(|s| wrong.contains(s)),
            "{wrong}"
        );
    }
    off.db.close().unwrap();
    let high = case(|options| options.cf.read_triggered_compaction_threshold = 1e6, |_| ());
    assert_eq!(high.read(8000, absent_above), []);
    high.db.close().unwrap();
}

#[pumice_test_macros::test]
fn universal_compaction_does_it_too() {
    let case = case(|options| options.cf.compaction_style = CompactionStyle::Universal, |_| ());
    assert_eq!(case.files_above(), 1);
    assert_eq!(case.read(READS, absent_above), [CompactionReason::ReadTriggered]);
    assert_eq!(case.files_above(), 0);
    case.db.close().unwrap();
}
