//! Each planted bug shows in a small case made for it, and the case passes without it.
//!
//! Checks that a planted bug is in its place and breaks what it should break. Whether the random
//! suites find it is a separate test (`cargo xtask sim --planted`). Bugs that need two tasks at a
//! certain moment, a clock that jumps or a ring are left to them: `LEFT_TO_THE_SUITES`. Needs
//! `--cfg pumice_planted`. One test in a program of its own: there is one switch for the process.
//! Size: one case for each bug, and the one test that runs them.
#![cfg(pumice_planted)]
#![allow(clippy::unwrap_used)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{DIR, SYNC, contents, fill, flush, get, key, memory, options};
use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, FlushOptions,
    IngestExternalFileOptions, MemFs, OptimisticTransactionDb, OptimisticTransactionDbOptions,
    Options, ReadOptions, SstFileWriter, TransactionDb, TransactionDbOptions, TransactionOptions,
    WriteBatch, WriteOptions,
};
use pumice_base::planted::{Bug, activate};
use pumice_env::FileSystem;
use pumice_env::filename::{self, FileType};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FileLoss, FsyncFailure, NameLoss};

const LEFT_TO_THE_SUITES: &[Bug] = &[
    Bug::SyncFollowerNotSynced,
    Bug::FlushReleasesLiveLog,
    Bug::StallIgnoresError,
    Bug::ClockJumpStopsResume,
    Bug::HandoffForgotten,
    Bug::FsyncBesideWrite,
    Bug::CondvarLosesWakeup,
    Bug::IngestSkipsFlush,
    Bug::IngestSequenceUnread,
    Bug::IngestLevelTooDeep,
    Bug::IngestIgnoresSnapshots,
    Bug::IngestIgnoresCompactions,
    Bug::IngestDirNotSynced,
    Bug::IngestLinkNotSynced,
    Bug::IngestNotAtomic,
    Bug::IngestLogNotSynced,
    Bug::StaleMove,
    Bug::FailedMoveHolds,
    Bug::LockReleasedBeforePublish,
];

/// Panics if something is wrong.
type Case = fn();

const CASES: &[(Bug, Case)] = &[
    (Bug::FsyncRetried, fsync_retried),
    (Bug::CurrentDirNotSynced, current_is_durable_when_the_old_manifest_goes),
    (Bug::CurrentNotSynced, current_is_durable_when_the_old_manifest_goes),
    (Bug::FlushDirNotSynced, a_flushed_table_survives),
    (Bug::CompactionDirNotSynced, a_compacted_table_survives),
    (Bug::BlobFileNotSynced, blobs_survive_a_power_cut),
    (Bug::BlobGarbageOvercounted, blobs_survive_compactions),
    (Bug::LogDirNotSynced, a_sync_write_in_a_new_log_survives),
    (Bug::ManifestErrorDeletes, a_failed_manifest_keeps_files),
    (Bug::TornManifestRefused, a_torn_manifest_opens),
    (Bug::DamagedManifestCut, a_damaged_manifest_is_refused),
    (Bug::FlushNotAtomic, a_crash_in_an_atomic_flush_keeps_families_equal),
    (Bug::RecoveryNotAtomic, a_crash_in_recovery_keeps_families_equal),
    (Bug::NoSpaceForGood, space_returns),
    (Bug::CloseErrorIgnored, a_failed_close_is_told),
    (Bug::AckBeforeSync, a_sync_write_survives),
    (Bug::LastRecordSkipped, the_last_write_survives_the_process),
    (Bug::TornBatchAccepted, a_torn_batch_is_absent),
    (Bug::IndexSeekOffByOne, every_key_is_found),
    (Bug::BlockSeekOffByOne, every_version_is_found),
    (Bug::TombstoneDropped, a_deleted_key_stays_deleted),
    (Bug::ReservedLevelForgotten, a_deleted_key_hides_what_comes_behind),
    (Bug::SnapshotIgnored, a_snapshot_survives_compaction),
    (Bug::RangeTombstoneIgnoresSnapshot, a_snapshot_survives_a_range_deletion),
    (Bug::PublishedBeforeInsert, a_failed_write_publishes_nothing),
    (Bug::LogNotSyncedAtSwitch, a_second_log_has_no_hole_before_it),
    (Bug::LogWithoutPredecessor, a_later_log_is_not_believed_without_the_end_of_the_one_before),
    (Bug::LogReusedWithoutNumber, an_older_logs_writes_do_not_come_back),
    (Bug::CompleteLogNotSynced, a_sync_write_covers_the_logs_before_its_own),
    (Bug::DeletedWhileRead, an_iterator_keeps_its_files),
    (Bug::GroupPartlyInserted, a_failed_batch_is_absent),
    (Bug::SequencesReused, a_failed_log_is_not_replayed),
    (Bug::ReadOnlyCloseDeletes, a_reader_deletes_nothing),
    (Bug::ScanIgnoresReadError, a_scan_reports_a_read_error),
    (Bug::ChecksumIgnored, damage_is_found),
    (Bug::ErrorKeepsLeadership, a_failed_write_gives_leadership_away),
    (Bug::HistoryNotChecked, a_flushed_write_is_a_conflict),
    (Bug::PreparedLogReleased, a_prepared_transaction_survives_flushes),
    (Bug::CommitWithoutUpdates, the_commit_of_a_prepared_one_survives),
    (Bug::StolenLockUsed, an_expired_transaction_does_not_commit),
    (Bug::StaleCompletion, the_ring_keeps_its_book),
    (Bug::BufferFreedEarly, the_ring_keeps_its_book),
    (Bug::FullRingDropsRequest, the_ring_keeps_its_book),
];

#[pumice_test_macros::test]
fn each_bug_shows_in_its_case() {
    let mut wrong = Vec::new();
    for (bug, case) in CASES {
        activate(None);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(case)) {
            wrong.push(format!("{}: fails without the bug: {}", bug.name(), text(&*panic)));
            continue;
        }
        activate(Some(*bug));
        match catch_unwind(AssertUnwindSafe(case)) {
            Ok(()) => wrong.push(format!("{}: is not seen", bug.name())),
            Err(panic) => println!("{}: {}", bug.name(), text(&*panic)),
        }
        activate(None);
    }
    for bug in Bug::ALL {
        let elsewhere = [LEFT_TO_THE_SUITES, Bug::IN_TABLES].concat();
        let known = CASES.iter().any(|(b, _)| b == bug) || elsewhere.contains(bug);
        if !known {
            wrong.push(format!("{}: no case", bug.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
}

fn small(fs: &MemFs) -> Options {
    let mut options = options(&fs.shared());
    options.db.bgerror_resume_retry_interval = 20_000;
    options.cf.disable_auto_compactions = true;
    options
}

fn fresh() -> (MemFs, Db) {
    let (fs, _) = memory();
    let db = Db::open(&small(&fs), DIR).unwrap();
    (fs, db)
}

/// The database after the power was cut now, without touching the running one.
fn after_power_cut(fs: &MemFs, mode: CrashMode) -> (MemFs, Db) {
    let copy = fs.crashed_copy(3, mode);
    let db = Db::open(&small(&copy), DIR).unwrap();
    (copy, db)
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

fn with_transactions(fs: &MemFs) -> TransactionDb {
    TransactionDb::open(&small(fs), &TransactionDbOptions::default(), DIR).unwrap()
}

fn a_flushed_write_is_a_conflict() {
    let (fs, _) = memory();
    let options = OptimisticTransactionDbOptions::default();
    let db = OptimisticTransactionDb::open(&small(&fs), &options, DIR).unwrap();
    let transaction = db.transaction();
    transaction.put("a", "1").unwrap();
    db.put("a", "2").unwrap();
    flush(db.db());
    assert!(transaction.commit().unwrap_err().is_busy());
}

fn a_prepared_transaction_survives_flushes() {
    let (fs, _) = memory();
    let db = with_transactions(&fs);
    let transaction = db.transaction_opt(&SYNC, &TransactionOptions::default());
    transaction.set_name("n").unwrap();
    transaction.put("a", "1").unwrap();
    transaction.prepare().unwrap();
    for round in ["1", "2"] {
        db.put("b", round).unwrap();
        flush(db.db());
    }
    let copy = with_transactions(&fs.crashed_copy(3, CrashMode::UNSYNCED));
    assert_eq!(copy.prepared_transactions().len(), 1);
}

fn the_commit_of_a_prepared_one_survives() {
    let (fs, _) = memory();
    let db = with_transactions(&fs);
    let transaction = db.transaction_opt(&SYNC, &TransactionOptions::default());
    transaction.set_name("n").unwrap();
    transaction.put("a", "1").unwrap();
    transaction.prepare().unwrap();
    transaction.commit().unwrap();
    let copy = with_transactions(&fs.crashed_copy(3, CrashMode::UNSYNCED));
    assert!(copy.get("a").unwrap().is_some());
}

fn an_expired_transaction_does_not_commit() {
    let (fs, _) = memory();
    let db = with_transactions(&fs);
    let at_once = TransactionOptions { expiration: 0, ..TransactionOptions::default() };
    let transaction = db.transaction_opt(&WriteOptions::default(), &at_once);
    transaction.put("a", "1").unwrap();
    db.put("a", "2").unwrap();
    assert!(transaction.commit().unwrap_err().is_expired());
}

fn fsync_retried() {
    let (fs, db) = fresh();
    let fault = Fault::Fsync(FsyncFailure::ReadableThenLost);
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, fault));
    let acknowledged = db.put_opt(&SYNC, b"a", b"1").is_ok();
    let (_, db) = after_power_cut(&fs, CrashMode::UNSYNCED);
    assert!(!acknowledged || get(&db, b"a").is_some(), "an acknowledged write is lost");
}

fn current_is_durable_when_the_old_manifest_goes() {
    let (fs, _) = memory();
    let mut options = small(&fs);
    options.db.max_manifest_file_size = 1;
    let db = Db::open(&options, DIR).unwrap();
    db.put_opt(&SYNC, b"a", b"1").unwrap();
    flush(&db);
    db.disable_file_deletions();
    db.enable_file_deletions();
    for seed in 0..40 {
        let copy = fs.crashed_copy(seed, CrashMode::MIXED);
        let db = Db::open(&small(&copy), DIR).unwrap();
        assert!(get(&db, b"a").is_some(), "a flushed write is lost");
    }
}

fn a_flushed_table_survives() {
    let (fs, db) = fresh();
    db.put_opt(&SYNC, b"a", b"1").unwrap();
    flush(&db);
    let (_, db) = after_power_cut(&fs, CrashMode::UNSYNCED);
    assert!(get(&db, b"a").is_some());
}

fn a_compacted_table_survives() {
    let (fs, db) = fresh();
    for round in ["1", "2"] {
        fill(&db, 0..20, round);
        flush(&db);
    }
    compact(&db);
    let (_, db) = after_power_cut(&fs, CrashMode::UNSYNCED);
    assert_eq!(contents(&db).len(), 20);
}

fn with_blobs() -> (MemFs, Db) {
    let (fs, _) = memory();
    let mut options = small(&fs);
    options.cf.enable_blob_files = true;
    options.cf.blob_file_size = 500;
    let db = Db::open(&options, DIR).unwrap();
    (fs, db)
}

fn blobs_survive_a_power_cut() {
    let (fs, db) = with_blobs();
    fill(&db, 0..20, "1");
    flush(&db);
    let (_, db) = after_power_cut(&fs, CrashMode::UNSYNCED);
    assert_eq!(contents(&db).len(), 20);
}

fn blobs_survive_compactions() {
    let (_fs, db) = with_blobs();
    for round in ["1", "2"] {
        fill(&db, 0..20, round);
        flush(&db);
        let files = db.live_files_metadata();
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        db.compact_files(&Default::default(), &names, 6).unwrap();
    }
    assert_eq!(contents(&db).len(), 20);
}

fn a_sync_write_survives() {
    let (fs, db) = fresh();
    db.put_opt(&SYNC, b"a", b"1").unwrap();
    let (_, db) = after_power_cut(&fs, CrashMode::UNSYNCED);
    assert!(get(&db, b"a").is_some());
}

fn a_sync_write_in_a_new_log_survives() {
    let (fs, db) = fresh();
    db.put_opt(&SYNC, b"a", b"1").unwrap();
    db.pause_background_work();
    db.flush_opt(&FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() })
        .unwrap();
    db.put_opt(&SYNC, b"b", b"1").unwrap();
    let (_, copy) = after_power_cut(&fs, CrashMode::UNSYNCED);
    db.continue_background_work().unwrap();
    assert!(get(&copy, b"b").is_some());
}

fn a_failed_manifest_keeps_files() {
    let (fs, _) = memory();
    let mut options = small(&fs);
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..20, "1");
    let fault = Fault::Fsync(FsyncFailure::Durable);
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*MANIFEST*", 0, fault));
    db.flush_opt(&FlushOptions::default()).unwrap_err();
    // The deletion, if there is one, comes after the flush has reported its error.
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db).len(), 20);
}

/// A database, and the MANIFEST's path and length before and after its last change, which is longer
/// than two sectors.
fn with_long_change() -> (MemFs, std::path::PathBuf, usize) {
    let (fs, db) = fresh();
    let name = fs.read_file(&std::path::Path::new(DIR).join("CURRENT")).unwrap();
    let manifest = std::path::Path::new(DIR).join(String::from_utf8(name).unwrap().trim_end());
    let before = fs.file_size(&manifest).unwrap() as usize;
    db.create_column_family(&ColumnFamilyOptions::default(), &"n".repeat(1500)).unwrap();
    let copy = fs.crashed_copy(0, CrashMode::PROCESS);
    db.close().unwrap();
    (copy, manifest, before)
}

fn a_torn_manifest_opens() {
    let (fs, manifest, before) = with_long_change();
    let sector = before.next_multiple_of(512);
    fs.damage(&manifest, |bytes| bytes[sector..sector + 512].fill(0)).unwrap();
    Db::open(&small(&fs), DIR).unwrap().close().unwrap();
}

fn a_damaged_manifest_is_refused() {
    let (fs, manifest, before) = with_long_change();
    fs.damage(&manifest, |bytes| bytes[before + 700] ^= 1).unwrap();
    assert!(Db::open(&small(&fs), DIR).is_err(), "an acknowledged column family is gone");
}

/// Two families with the same keys; the process dies, then the power fails at each change that
/// recovery makes.
fn a_crash_in_recovery_keeps_families_equal() {
    let (fs, _) = memory();
    let open = |fs: &MemFs| {
        let options = small(fs);
        let mut db_options = options.db.clone();
        db_options.create_missing_column_families = true;
        let families = ["default", "other"]
            .map(|name| ColumnFamilyDescriptor::new(name, ColumnFamilyOptions::default()));
        Db::open_cf(&db_options, DIR, &families)
    };
    let (db, cfs) = open(&fs).unwrap();
    // Something in tables, so that damage at the head of the next log is met with files.
    for cf in &cfs {
        db.put_cf_opt(&SYNC, cf, b"old", b"0").unwrap();
    }
    db.flush_all_opt(&FlushOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    for cf in &cfs {
        batch.put_cf(cf.id(), b"a", b"1");
    }
    db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
    let torn = CrashMode { files: FileLoss::Torn, names: NameLoss::Nothing };
    for seed in 0..6 {
        for changes in 0.. {
            let copy = fs.crashed_copy(seed, torn);
            copy.halt_after(changes);
            let finished = open(&copy).is_ok();
            copy.crash(seed, CrashMode::UNSYNCED);
            let (db, cfs) = open(&copy).unwrap();
            let held = |cf| db.get_cf_opt(&ReadOptions::default(), cf, b"a").unwrap().is_some();
            assert_eq!(held(&cfs[0]), held(&cfs[1]), "half a batch");
            if finished {
                break;
            }
        }
    }
}

fn a_crash_in_an_atomic_flush_keeps_families_equal() {
    for changes in 0.. {
        let (fs, _) = memory();
        let open = |fs: &MemFs| {
            let mut options = small(fs);
            options.db.create_missing_column_families = true;
            options.db.atomic_flush = true;
            let families = ["default", "other"]
                .map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
            Db::open_cf(&options.db, DIR, &families).unwrap()
        };
        let (db, cfs) = open(&fs);
        let mut batch = WriteBatch::new();
        cfs.iter().for_each(|cf| batch.put_cf(cf.id(), b"a", b"1"));
        let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
        db.write_opt(&unlogged, &mut batch).unwrap();
        fs.halt_after(changes);
        let finished = db.flush_all_opt(&FlushOptions::default()).is_ok();
        let copy = fs.crashed_copy(changes, CrashMode::UNSYNCED);
        drop((db, cfs));
        let (db, cfs) = open(&copy);
        let held = |cf| db.get_cf_opt(&ReadOptions::default(), cf, b"a").unwrap().is_some();
        assert_eq!(held(&cfs[0]), held(&cfs[1]), "half a batch");
        if finished {
            break;
        }
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..200 {
        if holds() {
            return;
        }
        pumice_port::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("never: {what}");
}

fn space_returns() {
    let (fs, db) = fresh();
    fs.set_quota(Some(fs.used_bytes()));
    assert!(db.put_opt(&SYNC, b"a", b"1").unwrap_err().is_no_space());
    fs.set_quota(None);
    eventually("writable", || db.put_opt(&SYNC, b"a", b"1").is_ok());
}

fn a_failed_close_is_told() {
    let (fs, db) = fresh();
    db.put_opt(&WriteOptions::default(), b"a", b"1").unwrap();
    fs.add_fault(FaultRule::once(FaultOp::Close, "*.log", 0, Fault::Eio));
    db.close().unwrap_err();
}

fn the_last_write_survives_the_process() {
    let (fs, db) = fresh();
    fill(&db, 0..5, "1");
    let (_, db) = after_power_cut(&fs, CrashMode::PROCESS);
    assert_eq!(contents(&db).len(), 5);
}

fn a_torn_batch_is_absent() {
    let (fs, db) = fresh();
    let mut batch = WriteBatch::new();
    for n in 0..20 {
        batch.put(&key(n), b"value");
    }
    db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
    for seed in 0..10 {
        let torn = CrashMode { files: FileLoss::Torn, names: NameLoss::Nothing };
        let copy = fs.crashed_copy(seed, torn);
        let db = Db::open(&small(&copy), DIR).unwrap();
        let found = contents(&db).len();
        assert!(found == 0 || found == 20, "{found} of 20 entries of a batch");
    }
}

fn every_key_is_found() {
    let (_, db) = fresh();
    fill(&db, 0..3000, "a value of some length, so that there are many blocks");
    flush(&db);
    for n in 0..3000 {
        assert!(get(&db, &key(n)).is_some(), "key {n}");
    }
}

fn every_version_is_found() {
    let (_, db) = fresh();
    let mut snapshots = Vec::new();
    for round in ["1", "2", "3"] {
        fill(&db, 0..200, round);
        snapshots.push(db.snapshot());
    }
    flush(&db);
    for (snapshot, value) in snapshots.iter().zip(["1", "2", "3"]) {
        let read = ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() };
        for n in 0..200 {
            let found = db.get_opt(&read, &key(n)).unwrap();
            assert_eq!(found.as_deref(), Some(value.as_bytes()), "key {n}");
        }
    }
}

fn a_deleted_key_stays_deleted() {
    let (_, db) = fresh();
    fill(&db, 0..5, "1");
    flush(&db);
    db.delete_opt(&WriteOptions::default(), &key(2)).unwrap();
    flush(&db);
    assert_eq!(get(&db, &key(2)), None);
}

fn a_deleted_key_hides_what_comes_behind() {
    let (fs, shared) = memory();
    let mut options = options(&shared);
    options.cf.cf_allow_ingest_behind = true;
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..3, "old");
    flush(&db);
    db.delete_opt(&SYNC, &key(1)).unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/behind.sst").unwrap();
    writer.put(&key(1), b"older").unwrap();
    writer.put(&key(7), b"older").unwrap();
    writer.finish().unwrap();
    let behind = IngestExternalFileOptions { ingest_behind: true, ..Default::default() };
    db.ingest_external_file(&behind, &["/behind.sst"]).unwrap();
    assert_eq!((get(&db, &key(1)), get(&db, &key(7))), (None, Some(b"older".to_vec())));
    drop((db, fs));
}

fn a_snapshot_survives_compaction() {
    let (_, db) = fresh();
    fill(&db, 0..5, "1");
    flush(&db);
    let snapshot = db.snapshot();
    fill(&db, 0..5, "2");
    flush(&db);
    compact(&db);
    let read = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    assert_eq!(db.get_opt(&read, &key(1)).unwrap().as_deref(), Some(&b"1"[..]));
}

fn a_snapshot_survives_a_range_deletion() {
    let (_, db) = fresh();
    fill(&db, 0..5, "1");
    flush(&db);
    let snapshot = db.snapshot();
    db.delete_range_opt(&WriteOptions::default(), &key(0), &key(9)).unwrap();
    flush(&db);
    compact(&db);
    let read = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    assert_eq!(db.get_opt(&read, &key(1)).unwrap().as_deref(), Some(&b"1"[..]));
}

fn a_failed_write_publishes_nothing() {
    let (fs, db) = fresh();
    fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
    let before = db.latest_sequence_number();
    db.put_opt(&SYNC, b"a", b"1").unwrap_err();
    assert_eq!(db.latest_sequence_number(), before, "readers may see what is not there");
}

fn a_second_log_has_no_hole_before_it() {
    let (_, fs) = memory();
    let mem = MemFs::new(5);
    drop(fs);
    let mut options = small(&mem);
    options.db.create_missing_column_families = true;
    let families = ["default", "other"]
        .map(|n| ColumnFamilyDescriptor::new(n, ColumnFamilyOptions::default()));
    let (db, cfs) = Db::open_cf(&options.db, DIR, &families).unwrap();
    db.put_cf_opt(&WriteOptions::default(), &cfs[1], b"first", b"1").unwrap();
    // Flushing the other family starts a new log; this write stays in the old one only.
    db.put_opt(&WriteOptions::default(), b"second", b"1").unwrap();
    flush(&db);
    let copy = mem.crashed_copy(1, CrashMode::UNSYNCED);
    let mut options = small(&copy);
    options.db.create_missing_column_families = true;
    let (db, cfs) = Db::open_cf(&options.db, DIR, &families).unwrap();
    let held = |k: &[u8]| db.get_cf_opt(&ReadOptions::default(), &cfs[1], k).unwrap().is_some();
    assert!(get(&db, b"second").is_some(), "a flushed write is lost");
    assert!(held(b"first"), "a hole before a flushed write");
}

/// Two logs of one column family, the first unsynced; `second` writes into the later one.
fn two_logs(second: &WriteOptions) -> (MemFs, Db) {
    let (fs, db) = fresh();
    db.put_opt(&WriteOptions::default(), b"first", b"1").unwrap();
    db.pause_background_work();
    db.flush_opt(&FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() })
        .unwrap();
    db.put_opt(second, b"second", b"1").unwrap();
    (fs, db)
}

fn a_later_log_is_not_believed_without_the_end_of_the_one_before() {
    let (fs, db) = two_logs(&WriteOptions::default());
    let mut found = [0; 3];
    for seed in 0..60 {
        let copy = fs.crashed_copy(seed, CrashMode::MIXED);
        let db = Db::open(&small(&copy), DIR).unwrap();
        let held = [&b"first"[..], b"second"].map(|k| get(&db, k).is_some());
        assert!(held[0] || !held[1], "seed {seed}: a hole between two logs");
        found[held.iter().filter(|held| **held).count()] += 1;
    }
    assert!(found.iter().all(|n| *n > 0), "not every prefix was seen: {found:?}");
    db.continue_background_work().unwrap();
}

/// A log has the file of another, whose records are durable, while what cleared them is not.
fn an_older_logs_writes_do_not_come_back() {
    let (fs, _) = memory();
    let mut options = small(&fs);
    options.db.recycle_log_file_num = 1;
    let db = Db::open(&options, DIR).unwrap();
    db.put_opt(&SYNC, b"key", b"value").unwrap();
    flush(&db);
    db.disable_file_deletions();
    db.enable_file_deletions();
    db.delete_opt(&SYNC, b"key").unwrap();
    flush(&db); // The new log has the file of the first one.
    compact(&db);
    let mode = CrashMode { files: FileLoss::Unsynced, names: NameLoss::Nothing };
    let (_, copy) = after_power_cut(&fs, mode);
    assert!(get(&copy, b"key").is_none(), "a write of an older log is back");
}

fn a_sync_write_covers_the_logs_before_its_own() {
    let (fs, db) = two_logs(&SYNC);
    let (_, copy) = after_power_cut(&fs, CrashMode::UNSYNCED);
    db.continue_background_work().unwrap();
    assert!(get(&copy, b"second").is_some(), "a sync write is lost");
    assert!(get(&copy, b"first").is_some(), "a hole before a sync write");
}

fn an_iterator_keeps_its_files() {
    let (fs, _) = memory();
    let mut options = small(&fs);
    options.db.max_open_files = 11;
    options.cf.target_file_size_base = 16 << 10;
    let db = Db::open(&options, DIR).unwrap();
    let mut rng = pumice_base::random::Rng::new(1);
    let mut refill = || {
        // Two overlapping tables: one alone would be moved, not split.
        for _ in 0..2 {
            for n in 0..500 {
                let value: Vec<u8> = (0..200).map(|_| rng.uniform(256) as u8).collect();
                db.put_opt(&WriteOptions::default(), &key(n), &value).unwrap();
            }
            flush(&db);
        }
        compact(&db);
    };
    refill();
    assert!(db.live_files_metadata().len() > 3, "{:?}", db.live_files_metadata().len());
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    refill();
    // The deletion runs during the compaction; gives it time.
    let tables = || fs.list(DIR.as_ref()).unwrap().iter().filter(|n| n.ends_with(".sst")).count();
    let mut tries = 0;
    while tables() > db.live_files_metadata().len() && tries < 50 {
        pumice_port::thread::sleep(std::time::Duration::from_millis(10));
        tries += 1;
    }
    let mut seen = 0;
    while iter.valid() {
        seen += 1;
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(seen, 500);
}

fn a_failed_batch_is_absent() {
    let (fs, db) = fresh();
    fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
    let mut batch = WriteBatch::new();
    batch.put(b"x1", b"lost");
    batch.put(b"x2", b"lost");
    db.write_opt(&SYNC, &mut batch).unwrap_err();
    db.resume().unwrap();
    db.put_opt(&SYNC, b"a", b"1").unwrap();
    let held = (get(&db, b"x1").is_some(), get(&db, b"x2").is_some());
    assert_eq!(held.0, held.1, "half a batch");
}

fn a_failed_log_is_not_replayed() {
    let (fs, db) = fresh();
    db.put_opt(&SYNC, b"before", b"1").unwrap();
    // The sealed memtable names the log that is going to fail as its next one.
    db.pause_background_work();
    db.flush_opt(&FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() })
        .unwrap();
    let fault = Fault::Fsync(FsyncFailure::Durable);
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, fault));
    db.put_opt(&SYNC, b"x", b"lost").unwrap_err();
    db.continue_background_work().unwrap();
    db.resume().unwrap();
    db.put_opt(&SYNC, b"a", b"1").unwrap();
    let (_, db) = after_power_cut(&fs, CrashMode::UNSYNCED);
    assert!(get(&db, b"a").is_some());
}

fn a_reader_deletes_nothing() {
    let (fs, db) = fresh();
    fill(&db, 0..5, "1");
    let families = [ColumnFamilyDescriptor::new("default", ColumnFamilyOptions::default())];
    let (reader, _) = Db::open_read_only(&small(&fs).db, DIR, &families, false).unwrap();
    flush(&db);
    reader.close().unwrap();
    assert_eq!(contents(&db).len(), 5);
    db.close().unwrap();
    let db = Db::open(&small(&fs), DIR).unwrap();
    assert_eq!(contents(&db).len(), 5);
}

/// A flushed database of several blocks, just opened: nothing is cached.
fn reopened() -> (MemFs, Db) {
    let (fs, db) = fresh();
    fill(&db, 0..1000, "a value of some length, so that there are many blocks");
    flush(&db);
    db.close().unwrap();
    let db = Db::open(&small(&fs), DIR).unwrap();
    assert!(get(&db, &key(0)).is_some());
    (fs, db)
}

fn a_scan_reports_a_read_error() {
    let (fs, db) = reopened();
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    fs.add_fault(FaultRule::once(FaultOp::Read, "*.sst", 1, Fault::Eio));
    iter.seek_to_first();
    let mut seen = 0;
    while iter.valid() {
        seen += 1;
        iter.next();
    }
    assert!(iter.status().is_err() || seen == 1000, "{seen} of 1000 and no error");
}

fn damage_is_found() {
    let (fs, db) = reopened();
    let names = fs.shared().list(DIR.as_ref()).unwrap();
    let table = names.iter().find(|n| matches!(filename::parse(n), Some((_, FileType::Table))));
    let path = std::path::Path::new(DIR).join(table.unwrap());
    fs.damage(&path, |bytes| {
        // The stored blocks are compressed or not; either way a later one is hit.
        let at = bytes.len() / 3;
        bytes[at..at + 64].iter_mut().for_each(|byte| *byte ^= 1);
    })
    .unwrap();
    let mut honest = false;
    for n in 0..1000 {
        match db.get_opt(&ReadOptions::default(), &key(n)) {
            Ok(value) => {
                let right = value.as_deref().is_some_and(|v| v.starts_with(b"a value of some"));
                assert!(right, "key {n} is wrong: {value:?}");
            }
            Err(error) => honest |= error.to_string().contains("checksum"),
        }
    }
    assert!(honest, "the damage was not noticed");
}

fn a_failed_write_gives_leadership_away() {
    let (fs, db) = fresh();
    fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
    db.put_opt(&SYNC, b"a", b"1").unwrap_err();
    let other = db.clone();
    let writer = pumice_port::thread::spawn("writer", move || {
        drop(other.put_opt(&SYNC, b"b", b"1"));
    });
    eventually("a second write ends", || writer.is_finished());
}

fn the_ring_keeps_its_book() {
    for seed in 0..200 {
        if let Err(violation) = pumice_port::io::model::run(seed) {
            panic!("{violation}");
        }
    }
}
