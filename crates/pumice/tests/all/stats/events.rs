//! Events for listeners, and the info log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, fill, flush, memory, options};
use pumice::stats::listener::{
    CompactionJobInfo, CompactionReason, FlushJobInfo, FlushReason, MemTableInfo,
    TableFileCreationInfo, TableFileCreationReason, TableFileDeletionInfo, WriteStallCondition,
    WriteStallInfo,
};
use pumice::{
    BottommostLevelCompaction, CompactRangeOptions, Db, EventListener, FileSystem, FlushOptions,
    Options, WaitForCompactOptions, WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::sim;
use pumice_port::sync::Mutex;

/// Records its events.
#[derive(Default)]
struct Recorder {
    events: Mutex<Vec<String>>,
    flushes: Mutex<Vec<FlushJobInfo>>,
    compactions: Mutex<Vec<CompactionJobInfo>>,
    stalls: Mutex<Vec<WriteStallInfo>>,
    /// Compactions wait at their beginning while the test holds it.
    hold_compactions: Mutex<()>,
}

impl Recorder {
    fn note(&self, event: impl Into<String>) {
        self.events.lock().push(event.into());
    }

    fn heard(&self, event: &str) -> usize {
        self.events.lock().iter().filter(|e| *e == event).count()
    }

    /// Waits for an event that is delivered in the background.
    fn wait_for(&self, event: &str) {
        for _ in 0..12_000 {
            if self.heard(event) > 0 {
                return;
            }
            pumice_port::thread::sleep(Duration::from_millis(10));
        }
        panic!("never heard {event}: {:?}", *self.events.lock());
    }
}

impl EventListener for Recorder {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        self.note("flush begin");
        assert_eq!(info.file_number, 0);
    }
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.note("flush end");
        self.flushes.lock().push(info.clone());
    }
    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {
        self.note("compaction begin");
        drop(self.hold_compactions.lock());
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.note("compaction end");
        self.compactions.lock().push(info.clone());
    }
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        let reason = match info.reason {
            TableFileCreationReason::Flush => "flush",
            TableFileCreationReason::Compaction => "compaction",
            TableFileCreationReason::Recovery => "recovery",
        };
        self.note(format!("created by {reason}"));
    }
    fn on_table_file_deleted(&self, info: &TableFileDeletionInfo) {
        self.note(format!("deleted {}", info.file_number));
    }
    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        self.note(format!("sealed {}", info.num_entries));
    }
    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        self.note(format!("stall {:?}", info.current));
        self.stalls.lock().push(info.clone());
    }
}

fn open(fs: &Arc<dyn FileSystem>, change: impl FnOnce(&mut Options)) -> (Db, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let mut options = options(fs);
    options.cf.disable_auto_compactions = true;
    options.db.listeners.push(Arc::clone(&recorder) as Arc<dyn EventListener>);
    change(&mut options);
    (Db::open(&options, DIR).unwrap(), recorder)
}

fn log_text(fs: &Arc<dyn FileSystem>) -> String {
    String::from_utf8(fs.read_file(&Path::new(DIR).join("LOG")).unwrap()).unwrap()
}

#[pumice_test_macros::test]
fn a_flush_is_told_from_seal_to_end() {
    let (_, fs) = memory();
    let (db, recorder) = open(&fs, |_| ());
    fill(&db, 0..100, "v");
    db.delete_opt(&WriteOptions::default(), b"gone").unwrap();
    flush(&db);
    recorder.wait_for("flush end");
    recorder.wait_for("sealed 101");
    let events = recorder.events.lock().clone();
    let reported: Vec<&str> =
        events.iter().map(String::as_str).filter(|e| !e.starts_with("sealed")).collect();
    assert_eq!(reported, ["flush begin", "created by flush", "flush end"]);
    let info = recorder.flushes.lock()[0].clone();
    let file = db.live_files_metadata().remove(0);
    assert_eq!(info.file_number, file.file_number);
    assert_eq!(info.file_path, Path::new(DIR).join(&file.name[1..]));
    assert_eq!((info.smallest_seqno, info.largest_seqno), (1, 101));
    assert_eq!(info.flush_reason, FlushReason::ManualFlush);
    assert!(!info.triggered_writes_slowdown && !info.triggered_writes_stop);
    let log = log_text(&fs);
    let job = info.job_id;
    for line in [
        format!("[default] [JOB {job}] Level-0 flush table #{}: started", file.file_number),
        format!("#{}: {} bytes OK", file.file_number, file.size),
        "Level summary: base level 6 files[1 0 0 0 0 0 0] max score 0.".to_string(),
        format!(
            "\"job\": {job}, \"event\": \"flush_started\", \"num_memtables\": 1, \
                 \"total_num_input_entries\": 101, \"num_deletes\": 1"
        ),
        format!("\"job\": {job}, \"event\": \"table_file_creation\""),
        "\"flush_reason\": \"Manual Flush\"".to_string(),
        "\"lsm_state\": [1, 0, 0, 0, 0, 0, 0], \"immutable_memtables\": 0".to_string(),
    ] {
        assert!(log.contains(&line), "{line}\n{log}");
    }
}

/// By the number of files alone, as in RocksDB.
#[pumice_test_macros::test]
fn the_log_tells_which_logs_a_recovery_read_and_how_it_ended() {
    let (_, fs) = memory();
    let (db, _) = open(&fs, |_| ());
    assert!(!log_text(&fs).contains("recovery_started"));
    db.put("a", "1").unwrap();
    db.close().unwrap();
    let names = fs.list(Path::new(DIR)).unwrap();
    let wal = names.iter().find_map(|name| name.strip_suffix(".log")).unwrap();
    let wal: u64 = wal.parse().unwrap();
    let (db, _) = open(&fs, |_| ());
    let log = log_text(&fs);
    let started = format!("\"job\": 1, \"event\": \"recovery_started\", \"wal_files\": [{wal}]}}");
    let started = log.find(&started).unwrap();
    let finished = "\"job\": 1, \"event\": \"recovery_finished\", \"status\": \"OK\"}";
    assert!(log.find(finished).unwrap() > started);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_flush_tells_of_a_full_level() {
    let (_, fs) = memory();
    let (db, recorder) = open(&fs, |o| {
        o.cf.level0_file_num_compaction_trigger = 1;
        o.cf.level0_slowdown_writes_trigger = 2;
        o.cf.level0_stop_writes_trigger = 3;
    });
    for n in 0..3 {
        fill(&db, 0..10, "v");
        flush(&db);
        while recorder.flushes.lock().len() <= n {
            recorder.wait_for("flush end");
            pumice::fiber::sleep(std::time::Duration::from_millis(1));
        }
    }
    let reported = recorder.flushes.lock().clone();
    let reported: Vec<_> =
        reported.iter().map(|i| (i.triggered_writes_slowdown, i.triggered_writes_stop)).collect();
    assert_eq!(reported, [(false, false), (true, false), (true, true)]);
}

#[pumice_test_macros::test]
fn files_that_move_are_told_as_a_compaction_without_entries() {
    let (_, fs) = memory();
    let (db, recorder) = open(&fs, |_| ());
    fill(&db, 0..100, "v");
    flush(&db);
    let file = db.live_files_metadata().remove(0).file_number;
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    recorder.wait_for("compaction end");
    assert_eq!(db.live_files_metadata()[0].file_number, file);
    assert_eq!(recorder.heard("compaction begin"), recorder.heard("compaction end"));
    assert_eq!(recorder.heard("created by compaction"), 0);
    let info = recorder.compactions.lock()[0].clone();
    assert_eq!(info.input_files, [(0, vec![file])]);
    assert_eq!((info.output_level, info.output_files), (6, vec![file]));
    assert_eq!((info.num_input_records, info.total_output_bytes), (0, 0));
    assert_eq!(info.tables[&file].properties.num_entries, 100);
    assert!(info.error.is_none());
}

#[pumice_test_macros::test]
fn a_compaction_is_told_with_its_files() {
    let (_, fs) = memory();
    let (db, recorder) = open(&fs, |_| ());
    for _ in 0..2 {
        fill(&db, 0..100, "v");
        flush(&db);
    }
    let inputs: Vec<u64> = db.live_files_metadata().iter().map(|f| f.file_number).collect();
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&force, None, None).unwrap();
    recorder.wait_for("compaction end");
    for number in &inputs {
        recorder.wait_for(&format!("deleted {number}"));
    }
    let info = recorder.compactions.lock()[0].clone();
    assert_eq!(info.compaction_reason, CompactionReason::ManualCompaction);
    assert_eq!(info.input_files, [(0, inputs.clone())]);
    assert_eq!((info.base_input_level, info.output_level), (0, 6));
    assert_eq!((info.num_input_records, info.num_output_records), (200, 100));
    assert!(info.total_output_bytes > 0 && info.total_input_bytes > info.total_output_bytes);
    assert!(info.error.is_none());
    assert_eq!(info.num_subcompactions, 1);
    assert_eq!(recorder.heard("created by compaction"), info.output_files.len());
    let log = log_text(&fs);
    let job = info.job_id;
    for line in [
        format!("[default] [JOB {job}] Compacting 2@0 files to L6, score "),
        format!(
            "[default] [JOB {job}] Compacted 2@0 files to L6 => {} bytes",
            info.total_output_bytes
        ),
        "[default] compacted to: base level 6 files[0 0 0 0 0 0 1] max score 0.00".to_string(),
        "files in(2, 0) out(1) MB in(0.0, 0.0) out(0.0)".to_string(),
        "OK, records in: 200, records dropped: 100 output_compression: ".to_string(),
        format!("\"job\": {job}, \"event\": \"compaction_started\", \"cf_name\": \"default\""),
        format!("\"files_L0\": [{}, {}]", inputs[0], inputs[1]),
        format!("\"event\": \"table_file_deletion\", \"file_number\": {}", inputs[0]),
    ] {
        assert!(log.contains(&line), "{line}\n{log}");
    }
}

#[pumice_test_macros::test]
fn a_failed_compaction_is_told_and_counted() {
    let (mem, fs) = memory();
    let (db, recorder) = open(&fs, |_| ());
    for _ in 0..2 {
        fill(&db, 0..100, "v");
        flush(&db);
    }
    mem.add_fault(FaultRule::once(FaultOp::Create, "/db/*.sst", 0, Fault::Eio));
    // A manual compaction reports the failure; whether it tries again is up to it.
    drop(db.compact_range(&CompactRangeOptions::default(), None, None));
    recorder.wait_for("compaction end");
    assert!(recorder.compactions.lock()[0].error.is_some());
    for _ in 0..12_000 {
        if db.property_int("rocksdb.background-errors") == Some(1) {
            break;
        }
        pumice_port::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(db.property_int("rocksdb.background-errors"), Some(1));
    assert!(log_text(&fs).contains("Compaction failed: IO error"));
}

#[pumice_test_macros::test]
fn stalls_are_logged_counted_and_reported() {
    let (_, fs) = memory();
    let (db, recorder) = open(&fs, |o| {
        o.cf.disable_auto_compactions = false;
        o.cf.level0_file_num_compaction_trigger = 2;
        o.cf.level0_slowdown_writes_trigger = 2;
        o.cf.level0_stop_writes_trigger = 4;
        o.db.background_policy = pumice::options::BackgroundPolicy::Static;
    });
    let gate = recorder.hold_compactions.lock();
    for round in 0..4 {
        fill(&db, 0..round + 1, "v");
        flush(&db);
        if round == 1 {
            // The stop below is counted as one during a running compaction.
            recorder.wait_for("compaction begin");
        }
    }
    recorder.wait_for("stall Delayed");
    recorder.wait_for("stall Stopped");
    let stalls = recorder.stalls.lock().clone();
    assert_eq!(stalls[0].previous, WriteStallCondition::Normal);
    assert_eq!(stalls[0].current, WriteStallCondition::Delayed);
    assert_eq!(db.property_int("rocksdb.is-write-stopped"), Some(1));
    let counts = db.property("rocksdb.cf-write-stall-stats").unwrap();
    assert!(counts.contains(" l0-file-count-limit-stops: 1,"), "{counts}");
    assert!(counts.contains("-stops-with-ongoing-compaction: 1,"), "{counts}");
    let log = log_text(&fs);
    assert!(log.contains("[WARN] [default] Stalling writes because we have 2 level-0 files rate "));
    assert!(log.contains("[WARN] [default] Stopping writes because we have 4 level-0 files\n"));
    drop(gate);
    recorder.wait_for("stall Normal");
    // A write waits until it may continue.
    fill(&db, 0..1, "v");
    assert_eq!(db.property_int("rocksdb.is-write-stopped"), Some(0));
}

#[pumice_test_macros::test]
fn the_log_begins_with_who_and_how() {
    let (_, fs) = memory();
    let (db, _) = open(&fs, |o| o.db.db_host_id = "my-host".to_string());
    let log = log_text(&fs);
    for line in [
        "Pumice version: ",
        "DB SUMMARY",
        "Host name (Env):  my-host",
        "DB Session ID:  ",
        "Options.max_background_jobs: 2\n",
        "Options for column family [default]:",
        "Options.write_buffer_size: 1048576\n",
        " block_size: 4096\n",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    assert!(!log.contains("without effect"), "{log}");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn the_log_names_options_without_effect() {
    let (_, fs) = memory();
    let (db, _) = open(&fs, |o| {
        o.set("allow_mmap_reads", "true").unwrap();
        o.set("unordered_write", "1").unwrap();
        o.set("max_mem_compaction_level", "3").unwrap();
    });
    let log = log_text(&fs);
    for line in [
        "Options without effect: allow_mmap_reads=true, unordered_write=true\n",
        "Options of [default] without effect: max_mem_compaction_level=3\n",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    db.close().unwrap();
}

/// A plain #[test]: a simulation is a runtime of its own. Its clock stands still while any task can
/// run, so the test decides when the second is over.
#[test]
fn reports_are_dumped_when_due() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let (_, fs) = memory();
        let (db, _) = open(&fs, |o| o.db.stats_dump_period_sec = 1);
        fill(&db, 0..10, "v");
        flush(&db);
        assert!(!log_text(&fs).contains("DUMPING STATS"));
        pumice_port::thread::sleep(Duration::from_millis(1100));
        fill(&db, 0..10, "v");
        flush(&db);
        // Whatever that has set in motion comes to rest.
        pumice_port::thread::sleep(Duration::from_millis(100));
        let log = log_text(&fs);
        assert!(log.contains("** Compaction Stats [default] **"), "{log}");
        assert!(log.contains("------- DUMPING STATS -------"));
        assert!(log.contains("** DB Stats **"));
        // The dump ended the interval.
        let stats = db.property("rocksdb.cfstats").unwrap();
        assert!(stats.contains("\n Int      0/0      0.00 KB"), "{stats}");
        db.close().unwrap();
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

/// A plain #[test] for the same reason.
#[test]
fn reports_are_dumped_at_rest() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let (_, fs) = memory();
        let dumps = || log_text(&fs).matches("------- DUMPING STATS -------").count();
        let seconds = |n| pumice_port::thread::sleep(Duration::from_secs(n));
        let (db, _) = open(&fs, |o| o.db.stats_dump_period_sec = 60);
        fill(&db, 0..10, "v");
        seconds(59);
        assert_eq!(dumps(), 0);
        seconds(2);
        assert_eq!(dumps(), 1, "nothing was flushed since the open");
        seconds(60 * 15);
        assert_eq!(dumps(), 16);
        // A table without news is reported only now and then. A report has two such tables.
        let reports = log_text(&fs).matches("** Compaction Stats [default] **").count();
        assert_eq!(reports, 2 * 2);
        // A new period applies at once, and 0 means none.
        db.set_db_options(&[("stats_dump_period_sec", "5")]).unwrap();
        seconds(6);
        assert_eq!(dumps(), 17);
        db.set_db_options(&[("stats_dump_period_sec", "0")]).unwrap();
        seconds(3600);
        assert_eq!(dumps(), 17);
        db.set_db_options(&[("stats_dump_period_sec", "1")]).unwrap();
        seconds(1);
        assert!(dumps() >= 18, "{}", dumps());
        db.close().unwrap();
        let at_close = dumps();
        seconds(3600);
        assert_eq!(dumps(), at_close);
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

/// No task waits to dump reports of a database that could not be opened: its lock is free. A plain
/// #[test] for the same reason.
#[test]
fn an_open_that_fails_leaves_no_task_that_dumps() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let (mem, fs) = memory();
        let (db, _) = open(&fs, |_| {});
        db.close().unwrap();
        for file in ["/db/MANIFEST-*", "/db/*.log", "/db/OPTIONS-*"] {
            mem.add_fault(FaultRule::always(FaultOp::Create, file, Fault::Eio));
            let opened = Db::open(&options(&fs), DIR);
            assert!(opened.is_err() || file.contains("OPTIONS"), "{file}");
            drop(opened);
            mem.clear_faults();
            // The lock is free at once.
            Db::open(&options(&fs), DIR).unwrap().close().unwrap();
        }
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

/// Files in key order are moved down, never rewritten, as long as no snapshot was released.
#[pumice_test_macros::test]
fn sequential_files_are_not_rewritten() {
    let (_, fs) = memory();
    let (db, recorder) = open(&fs, |o| {
        o.cf.disable_auto_compactions = false;
        o.cf.level0_file_num_compaction_trigger = 2;
    });
    for round in 0..8 {
        fill(&db, round * 100..round * 100 + 100, "v");
        flush(&db);
    }
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!(recorder.heard("flush end"), 8);
    assert_eq!(recorder.heard("created by compaction"), 0);
    assert!(db.property_int("rocksdb.num-files-at-level6").unwrap() > 0);
}

/// Takes its time over a flush.
#[derive(Default)]
struct Slow {
    told: std::sync::atomic::AtomicUsize,
}

impl EventListener for Slow {
    fn on_flush_completed(&self, _: &FlushJobInfo) {
        pumice_port::thread::sleep(Duration::from_millis(50));
        self.told.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[pumice_test_macros::test]
fn a_flush_waits_for_its_listeners_if_asked() {
    let (_, fs) = memory();
    let slow = Arc::new(Slow::default());
    let (db, _) = open(&fs, |options| options.db.listeners.push(Arc::clone(&slow) as _));
    let options = FlushOptions { listener_wait: true, ..FlushOptions::default() };
    for turn in 1..5 {
        db.put("key", "value").unwrap();
        db.flush_opt(&options).unwrap();
        assert_eq!(slow.told.load(std::sync::atomic::Ordering::SeqCst), turn);
    }
    // There is nothing to flush, and nobody to tell.
    db.flush_opt(&options).unwrap();
    db.close().unwrap();
}
