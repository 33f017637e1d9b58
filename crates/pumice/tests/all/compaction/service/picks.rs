//! Which compactions a service is asked to do, and with which families it can; closing meanwhile.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use pumice::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceScheduleResponse, CompactionStyle, DbPath,
};
use pumice::{
    ColumnFamilyDescriptor, CompactRangeOptions, Comparator, CustomComparator, Db, ErrorKind,
};
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread;

use super::{Service, compact, contents, fill, served};
use crate::common::{DIR, eventually, memory, options};

/// Runs that are merged while older ones stay where they are: a worker would take those, too.
#[pumice_test_macros::test]
fn newest_runs_are_merged_here() {
    let (db, service, _) = served(|options| {
        options.cf.disable_auto_compactions = false;
        options.cf.compaction_style = CompactionStyle::Universal;
        options.cf.level0_file_num_compaction_trigger = 4;
    });
    // Large runs first, then small ones of one size: the ratio ends each pick before the old.
    for keys in [20_000, 2000, 100, 100, 100, 100, 100] {
        (0..keys).for_each(|n| db.put(format!("key{n:06}"), n.to_string()).unwrap());
        db.flush().unwrap();
    }
    let level0 = || db.live_files_metadata().iter().filter(|file| file.level == 0).count();
    eventually("runs are merged", || level0() < 7);
    db.wait_for_compact(&Default::default()).unwrap();
    assert_eq!(service.failures(), Vec::<String>::new());
    // What leaves older runs where they are is not asked of the service.
    assert!(service.seen.lock().iter().all(|info| info.is_full_compaction));
    assert_eq!(contents(&db).len(), 20_000);
    db.close().unwrap();
}

/// Bytes in descending order.
struct Descending;

impl CustomComparator for Descending {
    fn name(&self) -> &str {
        "test.Descending"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
}

/// A family with an order of its own, beside one whose tables lie elsewhere.
#[pumice_test_macros::test]
fn families_have_their_own_objects() {
    for default_too in [false, true] {
        let mut options = options(&memory().1);
        options.db.create_missing_column_families = true;
        let own = Comparator::Custom(Arc::new(Descending));
        let mut ordered = options.clone();
        ordered.cf.comparator = own.clone();
        let service = Service::new(&ordered);
        options.db.compaction_service = Some(Arc::clone(&service) as _);
        let mut default = options.cf.clone();
        if default_too {
            default.comparator = own;
        }
        let mut elsewhere = options.cf.clone();
        elsewhere.cf_paths = vec![DbPath::new("/elsewhere", 1 << 40)];
        let families = [
            ColumnFamilyDescriptor::new("default", default),
            ColumnFamilyDescriptor::new("ordered", ordered.cf.clone()),
            ColumnFamilyDescriptor::new("elsewhere", elsewhere),
        ];
        let (db, handles) = Db::open_cf(&options.db, DIR, &families).unwrap();
        for turn in 0..2 {
            for cf in &handles {
                (0..100).for_each(|n| db.put_cf(cf, format!("{n:03}"), [turn]).unwrap());
                db.flush_cf(cf).unwrap();
            }
        }
        db.compact_range_cf(&CompactRangeOptions::default(), &handles[1], None, None).unwrap();
        assert_eq!((service.successes(), service.failures()), (1, Vec::new()));
        let first = db.iter_cf(&handles[1]).unwrap().next().unwrap().unwrap();
        assert_eq!(first, (b"099".to_vec(), vec![1]));
        db.close().unwrap();
    }
}

/// A service whose jobs end when they are cancelled while they are waited for.
#[derive(Default)]
struct Slow {
    canceled: AtomicUsize,
    scheduled: AtomicUsize,
    waiting: Mutex<bool>,
    changed: Condvar,
    /// Calls of `cancel_awaiting_jobs` that `schedule` waits for.
    holds: usize,
}

impl CompactionService for Slow {
    fn name(&self) -> &str {
        "Slow"
    }
    fn schedule(
        &self,
        _: &CompactionServiceJobInfo,
        _: &[u8],
    ) -> CompactionServiceScheduleResponse {
        self.scheduled.fetch_add(1, SeqCst);
        while self.canceled.load(SeqCst) < self.holds {
            thread::yield_now();
        }
        CompactionServiceScheduleResponse {
            scheduled_job_id: String::new(),
            status: Status::Success,
        }
    }
    fn wait(&self, _: &str) -> (Status, Vec<u8>) {
        let mut waiting = self.waiting.lock();
        *waiting = true;
        while *waiting {
            waiting = self.changed.wait(waiting);
        }
        (Status::Aborted, Vec::new())
    }
    fn cancel_awaiting_jobs(&self) {
        self.canceled.fetch_add(1, SeqCst);
        *self.waiting.lock() = false;
        self.changed.notify_all();
    }
}

/// The job is between its two questions, or in the second one, when the database is closed.
#[pumice_test_macros::test]
fn a_close_ends_jobs_wherever_they_are() {
    for holds in [0, 1] {
        let mut options = options(&memory().1);
        options.cf.disable_auto_compactions = true;
        let service = Arc::new(Slow { holds, ..Slow::default() });
        options.db.compaction_service = Some(Arc::clone(&service) as _);
        let db = Arc::new(Db::open(&options, DIR).unwrap());
        fill(&db, 100);
        let compacting = Arc::clone(&db);
        let job = thread::spawn("compacts", move || super::compact(&compacting));
        let reached = || match holds {
            0 => *service.waiting.lock(),
            _ => service.scheduled.load(SeqCst) > 0,
        };
        eventually("the job is there", reached);
        // Another handle of the directory does not cancel the owner's jobs.
        let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
        let reader = Db::open_read_only(&options.db, DIR, &families, false).unwrap();
        reader.0.close().unwrap();
        assert_eq!(service.canceled.load(SeqCst), 0);
        db.close().unwrap();
        let kind = job.join().unwrap().unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Aborted | ErrorKind::ShutdownInProgress), "{kind:?}");
    }
}

/// The service, too, leaves young entries their sequence numbers and times.
#[pumice_test_macros::test]
fn young_entries_keep_their_times() {
    for kept in [0, 100_000] {
        let (db, service, _) = served(|options| {
            options.cf.preserve_internal_time_seconds = kept;
        });
        fill(&db, 500);
        compact(&db).unwrap();
        assert_eq!(service.successes(), 1, "{:?}", service.failures());
        let zeroed = db.live_files_metadata().iter().any(|file| file.smallest_seq == 0);
        let mut cursor = db.cursor().unwrap();
        cursor.seek_to_first();
        let is_known = cursor.write_time().unwrap().unwrap() > 0;
        assert_eq!((zeroed, is_known), (kept == 0, kept > 0));
        drop(cursor);
        db.close().unwrap();
    }
}

/// A result of a service has one level, so what leaves young entries above the last is done here.
#[pumice_test_macros::test]
fn young_entries_are_left_above_the_last_level_here() {
    let (db, service, _) = served(|options| {
        options.cf.preclude_last_level_data_seconds = 100_000;
    });
    fill(&db, 500);
    compact(&db).unwrap();
    assert_eq!(service.successes(), 0);
    assert!(service.jobs.lock().is_empty());
    assert!(db.live_files_metadata().iter().all(|file| file.level == 5));
    db.set_options(&[("preclude_last_level_data_seconds", "0")]).unwrap();
    fill(&db, 500);
    compact(&db).unwrap();
    assert!(service.successes() > 0, "{:?}", service.failures());
    db.close().unwrap();
}
