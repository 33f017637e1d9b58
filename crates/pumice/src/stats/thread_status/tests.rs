//! What jobs say of themselves, seen from inside them, by a filter that they call.
#![allow(clippy::unwrap_used)]

use pumice_port::thread;

use super::*;
use crate::options::CompactionFilterFactory;
use crate::stats::listener::TableFileCreationReason;
use crate::{
    CompactRangeOptions, CompactionFilter, CompactionFilterContext, Db, FilterDecision, MemFs,
    Options,
};

/// The lists that filters saw, one at each call.
#[derive(Default)]
struct Seen(Mutex<Vec<Vec<ThreadStatus>>>);

impl Seen {
    /// Those of jobs of the database at `path`.
    fn jobs(&self, path: &str) -> Vec<JobStatus> {
        let lists = self.0.lock();
        let jobs = lists.iter().flatten().filter_map(|thread| thread.job.clone());
        jobs.filter(|job| job.db_name == path).collect()
    }
}

struct Looks(Arc<Seen>);

impl CompactionFilter for Looks {
    fn name(&self) -> &str {
        "looks"
    }
    fn filter(&self, _: i32, _: &[u8], _: &[u8]) -> FilterDecision {
        self.0.0.lock().push(thread_list());
        FilterDecision::Keep
    }
}

impl CompactionFilterFactory for Looks {
    fn name(&self) -> &str {
        "looks"
    }
    fn should_filter(&self, _: TableFileCreationReason) -> bool {
        true
    }
    fn create_compaction_filter(
        &self,
        _: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>> {
        Some(Arc::new(Looks(Arc::clone(&self.0))))
    }
}

/// Waits until no job of the database is listed: a flush is over for who asked for it before its
/// thread says so.
fn wait_for_jobs(path: &str) {
    let listed = || thread_list().into_iter().filter_map(|thread| thread.job);
    while listed().any(|job| job.db_name == path) {
        thread::yield_now();
    }
}

/// What was seen while a database at `path` flushed 3000 keys, and then one of them again, and
/// compacted them.
fn seen(path: &str, tracked: bool) -> Arc<Seen> {
    let seen = Arc::<Seen>::default();
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = MemFs::new(1).shared();
    options.db.enable_thread_tracking = tracked;
    options.cf.compaction_filter_factory = Some(Arc::new(Looks(Arc::clone(&seen))));
    // So that blocks are written, and read, while entries are left.
    options.set("compression", "kNoCompression").unwrap();
    options.set("writable_file_max_buffer_size", "4096").unwrap();
    options.set("compaction_readahead_size", "4096").unwrap();
    let db = Db::open(&options, path).unwrap();
    for key in 0..3000 {
        db.put(format!("{key:08}"), [key as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    wait_for_jobs(path);
    db.put("00000000", "again").unwrap();
    db.flush().unwrap();
    wait_for_jobs(path);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    db.close().unwrap();
    seen
}

#[pumice_test_macros::test]
fn jobs_say_what_they_do() {
    let seen = seen("/tracked", true);
    let jobs = seen.jobs("/tracked");
    assert!(jobs.iter().all(|job| job.cf_name == "default"));
    let of = |operation| -> Vec<&JobStatus> {
        jobs.iter().filter(|job| job.operation == operation).collect()
    };
    let flushes = of(ThreadOperation::Flush);
    assert_eq!(flushes.len(), 3001, "one for each key");
    let [first, last] = [flushes[0], flushes[2999]];
    assert_eq!(first.stage, ThreadStage::FlushWriteL0);
    let numbers = |job: &JobStatus| job.operation.interpret(&job.properties);
    let (begin, end) = (numbers(first), numbers(last));
    assert!(begin["JobID"] > 0 && begin["BytesMemtables"] > 300_000, "{begin:?}");
    assert_eq!(begin["BytesWritten"], 0);
    assert!((100_000..400_000).contains(&end["BytesWritten"]), "{end:?}");
    assert!(last.elapsed_micros >= first.elapsed_micros);

    let compactions = of(ThreadOperation::Compaction);
    assert!(compactions.len() >= 3000);
    let [first, last] = [compactions[0], compactions[2999]];
    assert_eq!(first.stage.name(), "CompactionJob::ProcessKeyValueCompaction");
    let (begin, end) = (numbers(first), numbers(last));
    assert!(begin["JobID"] > numbers(flushes[0])["JobID"]);
    assert_eq!((begin["BaseInputLevel"], begin["OutputLevel"]), (0, 6));
    assert_eq!((begin["IsManual"], begin["IsDeletion"], begin["IsTrivialMove"]), (1, 0, 0));
    let input = begin["TotalInputBytes"];
    assert!(input > 300_000 && begin["BytesWritten"] == 0, "{begin:?}");
    assert!((input / 2..input * 2).contains(&end["BytesRead"]), "{end:?}");
    assert!((input / 2..input).contains(&end["BytesWritten"]), "{end:?}");
    // They are over.
    let listed = thread_list().into_iter().filter_map(|thread| thread.job);
    assert_eq!(listed.filter(|job| job.db_name == "/tracked").count(), 0);
}

#[pumice_test_macros::test]
fn threads_of_other_jobs_are_listed_without() {
    let seen = seen("/untracked", false);
    assert!(seen.jobs("/untracked").is_empty());
    let lists = seen.0.lock();
    let threads = lists.iter().flatten();
    assert!(threads.clone().any(|thread| thread.thread_type == PoolPriority::High));
    assert!(threads.clone().any(|thread| thread.thread_type == PoolPriority::Low));
    assert!(threads.clone().all(|thread| thread.thread_id != 0));
}

#[pumice_test_macros::test]
fn a_later_job_of_the_thread_stays() {
    let track = |name: &str| {
        let operation = ThreadOperation::Flush;
        Tracked::new(Path::new("/later"), name, operation, ThreadStage::FlushRun, [0; 6])
    };
    let listed = || {
        let running = RUNNING.get();
        let running = running.0.lock();
        running.get(&os::thread_id()).map(|job| job.cf_name.clone())
    };
    let (first, second) = (track("first"), track("second"));
    assert_eq!(listed().as_deref(), Some("second"));
    drop(first);
    assert_eq!(listed().as_deref(), Some("second"));
    drop(second);
    assert_eq!(listed(), None);
}

#[pumice_test_macros::test]
fn numbers_are_named_as_in_rocksdb() {
    let numbers = ThreadOperation::Compaction.interpret(&[7, (2 << 32) | 3, 0b1010, 50, 20, 10]);
    let text: Vec<String> =
        numbers.iter().map(|(name, number)| format!("{name} {number}")).collect();
    assert_eq!(
        text.join(", "),
        "BaseInputLevel 2, BytesRead 20, BytesWritten 10, IsDeletion 0, IsManual 1, \
         IsTrivialMove 1, JobID 7, OutputLevel 3, TotalInputBytes 50"
    );
    for (number, name) in (0..).zip(THREAD_STAGE_NAMES) {
        let stage = ThreadStage::from_number(number);
        assert!(stage == ThreadStage::Unknown || stage.name() == name, "{number}");
    }
    let texts = [
        (0, ""),
        (999, "999 us"),
        (12_345, "12.345 ms"),
        (9_999_999, "9999.999 ms"),
        (59_999_999, "60.000 sec"),
        (61_234_567, "01:1.235 M:S"),
        (3_600_000_000, "01:00:0.000 H:M:S"),
        (360_000_000_000, "100:00:0.000 H:M:S"),
    ];
    for (micros, text) in texts {
        assert_eq!(micros_to_string(micros), text);
    }
}
