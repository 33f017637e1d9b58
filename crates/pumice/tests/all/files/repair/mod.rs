//! Repair: damaged, lost or truncated data is recovered as far as it exists, nothing deleted
//! reappears while a MANIFEST knows of it, and no step makes anything worse.
//!
//! Databases are drawn from seeds and compared with what they held before they were damaged. Merge
//! operands are appended, so that one that is applied twice shows.

mod made;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, SYNC, contents, flush, key, memory, options};
use made::{
    Contents, FAMILIES, Made, damaged, descriptors, fates, make, plain, small_options,
    with_obsolete_tables,
};
use pumice::{ColumnFamilyOptions, Db, FileFate, RepairOutcome};
use pumice_base::ValueType;
use pumice_base::key::{MAX_SEQUENCE, internal_key};
use pumice_base::random::Rng;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FileLoss, NameLoss};
use pumice_env::{BufferedWriter, FileOptions, WriterOptions};
use pumice_table::{TableBuildContext, TableBuilder};
use pumice_testkit::seed;

#[pumice_test_macros::test]
fn a_healthy_database_is_left_alone() {
    for seed in 0..6 {
        let made = make(seed);
        let before = made.files(DIR);
        let report = made.repair().unwrap();
        assert_eq!(report.outcome, RepairOutcome::Healthy, "{report}");
        assert!(report.is_complete(), "{report}");
        assert_eq!(report.column_families, FAMILIES);
        assert_eq!(made.files(DIR), before);
        made.holds_all();
    }
}

#[pumice_test_macros::test]
fn a_lost_current_is_written_again() {
    let made = make(1);
    let before = made.files(DIR);
    for content in [None, Some(&b""[..]), Some(b"MANIFEST-000099\n"), Some(b"garbage")] {
        let made = made.copy();
        made.shared.remove(&made.path("CURRENT")).unwrap();
        if let Some(content) = content {
            pumice_env::write_file(&*made.shared, &made.path("CURRENT"), content, true).unwrap();
        }
        let report = made.repair().unwrap();
        if content.is_some_and(|content| content.ends_with(b"99\n")) {
            // It names a MANIFEST that is gone: an older one may not be believed.
            assert_eq!(report.outcome, RepairOutcome::Rebuilt);
        } else {
            assert_eq!(report.outcome, RepairOutcome::CurrentRestored);
            assert!(report.is_complete(), "{report}");
            assert_eq!(made.files(DIR), before);
        }
        made.holds_all();
    }
}

#[pumice_test_macros::test]
fn a_lost_manifest_is_made_of_tables_and_logs() {
    for seed in 0..6 {
        let made = make(seed);
        let before = made.files(DIR);
        made.shared.remove(&made.manifest()).unwrap();
        let report = made.repair().unwrap();
        assert_eq!(report.outcome, RepairOutcome::Rebuilt);
        assert!(report.old_data_may_return && !report.is_complete());
        let mut before = before;
        before.retain(|name, _| !name.starts_with("MANIFEST"));
        made.has_all_of(&before);
        made.holds_all();
        assert_eq!(made.repair().unwrap().outcome, RepairOutcome::Healthy);
    }
}

/// Checksums of memtables are no part of what logs are made into.
#[pumice_test_macros::test]
fn logs_are_read_through_memtables_with_checksums() {
    for (seed, bytes) in [(2, 1), (3, 8)] {
        let mut made = make(seed);
        made.options.cf.memtable_protection_bytes_per_key = bytes;
        made.shared.remove(&made.manifest()).unwrap();
        assert_eq!(made.repair().unwrap().outcome, RepairOutcome::Rebuilt);
        made.holds_all();
    }
}

/// No database could assign numbers after them, so the rebuilt one would not open.
#[pumice_test_macros::test]
fn a_table_with_sequence_numbers_out_of_range_is_not_used() {
    let made = plain();
    let before = made.files(DIR);
    let file = made.shared.create(Path::new("/db/000900.sst"), &FileOptions::default()).unwrap();
    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let context = TableBuildContext { original_file_number: 900, ..Default::default() };
    let mut builder = TableBuilder::new(context, writer).unwrap();
    builder.add(&internal_key(b"strange", MAX_SEQUENCE - 1, ValueType::Value), b"value").unwrap();
    builder.finish().unwrap();
    made.shared.remove(&made.manifest()).unwrap();
    let report = made.repair().unwrap();
    assert_eq!(fates(&report, FileFate::NotUsed), ["000900.sst"]);
    let mut before = before;
    before.retain(|name, _| !name.starts_with("MANIFEST"));
    made.has_all_of(&before);
    made.holds_all();
}

/// Truncated anywhere: files show what the torn end had.
#[pumice_test_macros::test]
fn a_manifest_that_is_cut_off_loses_nothing() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..3 {
        let made = make(seed);
        let whole = made.shared.file_size(&made.manifest()).unwrap() as usize;
        let mut rng = Rng::new(seed);
        for _ in 0..25 {
            let cut = rng.uniform(whole as u64) as usize;
            let made = made.copy();
            made.fs.damage(&made.manifest(), |bytes| bytes.truncate(cut)).unwrap();
            let report = made.repair().unwrap_or_else(|e| panic!("{e}: seed {seed}, cut {cut}"));
            outcomes.insert(format!("{:?}", report.outcome));
            made.holds_all();
        }
    }
    assert!(outcomes.contains("Rebuilt"), "{outcomes:?}");
}

#[pumice_test_macros::test]
fn a_flipped_byte_in_the_manifest_loses_nothing() {
    for seed in 0..3 {
        let made = make(seed);
        let whole = made.shared.file_size(&made.manifest()).unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..20 {
            let at = rng.uniform(whole) as usize;
            let made = made.copy();
            made.fs.damage(&made.manifest(), |bytes| bytes[at] ^= 0x10).unwrap();
            made.repair().unwrap_or_else(|e| panic!("{e}: seed {seed}, byte {at}"));
            made.holds_all();
        }
    }
}

#[pumice_test_macros::test]
fn the_readable_rest_of_a_table_is_kept_and_counted() {
    let made = plain();
    let table = made.names(".sst").remove(0);
    let whole = made.shared.file_size(&made.path(&table)).unwrap();
    let (mut rng, mut partial) = (Rng::new(7), 0);
    for _ in 0..60 {
        let at = rng.uniform(whole) as usize;
        let made = made.copy();
        made.fs.damage(&made.path(&table), |bytes| bytes[at] ^= 0x80).unwrap();
        let damaged = made.files(DIR);
        let report = match made.repair() {
            Ok(report) => report,
            Err(error) => {
                // The footer has another format now, which might be a future one.
                assert_eq!(error.kind(), pumice::ErrorKind::NotSupported, "{error}, byte {at}");
                assert!(error.to_string().contains(&table), "{error}");
                assert_eq!(made.files(DIR), damaged);
                continue;
            }
        };
        if report.outcome == RepairOutcome::Healthy {
            made.holds_all(); // A byte that nothing reads.
            continue;
        }
        assert_eq!(report.outcome, RepairOutcome::Repaired, "{report}");
        made.has_all_of(&damaged);
        let found = made.contents().remove("default").unwrap();
        assert!(found.iter().all(|(key, value)| made.held[0].get(key) == Some(value)));
        assert!(found.contains_key(&b"unflushed"[..]));
        let missing = (made.held[0].len() - found.len()) as u64;
        let reported = report.files.iter().find(|file| file.name == table).unwrap();
        assert!(!reported.reason.is_empty());
        match reported.fate {
            FileFate::Lost => assert_eq!((missing, reported.entries), (400, 0), "{report}"),
            _ => {
                partial += 1;
                assert_eq!(reported.entries_lost, Some(missing), "byte {at}: {report}");
                assert_eq!(reported.entries, 400 - missing);
                assert!(missing < 40);
                assert_eq!(report.is_complete(), missing == 0);
            }
        }
        assert_eq!(made.repair().unwrap().outcome, RepairOutcome::Healthy);
    }
    assert!(partial > 20, "{partial}");
}

#[pumice_test_macros::test]
fn a_missing_table_is_told_and_the_others_stay() {
    let made = make(3);
    for table in made.names(".sst") {
        let made = made.copy();
        let others: Vec<String> =
            made.names(".sst").into_iter().filter(|name| *name != table).collect();
        made.shared.remove(&made.path(&table)).unwrap();
        let report = made.repair().unwrap();
        assert_eq!(report.outcome, RepairOutcome::Repaired);
        assert!(report.old_data_may_return && !report.is_complete());
        assert_eq!(fates(&report, FileFate::Lost), [table.as_str()]);
        assert_eq!(made.names(".sst"), others);
        assert_eq!(report.column_families, FAMILIES);
        made.contents();
    }
}

#[pumice_test_macros::test]
fn a_damaged_log_gives_what_is_sound_before_and_behind() {
    let (fs, shared) = memory();
    let options = small_options(&shared);
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..50 {
        db.put_opt(&SYNC, &key(n), &vec![b'v'; 100]).unwrap();
    }
    db.merge_opt(&SYNC, "merged", "once").unwrap();
    let held = vec![contents(&db).into_iter().collect::<Contents>()];
    drop(db);
    let made = Made { fs, shared, options, held };
    let log = made.names(".log").pop().unwrap();
    let whole = made.shared.file_size(&made.path(&log)).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..30 {
        let at = rng.uniform(whole - 200) as usize;
        let made = made.crashed(0, CrashMode::PROCESS);
        made.fs.damage(&made.path(&log), |bytes| bytes[at] ^= 1).unwrap();
        let damaged = made.files(DIR);
        let report = made.repair().unwrap();
        assert_eq!(report.outcome, RepairOutcome::Repaired, "{report}");
        assert_eq!(fates(&report, FileFate::Rewritten), [log.as_str()]);
        assert!(!report.is_complete());
        made.has_all_of(&damaged);
        let found = made.contents().remove("default").unwrap();
        assert!(found.iter().all(|(key, value)| made.held[0].get(key) == Some(value)));
        // A length that is wrong hides the rest of its block of 32 KiB.
        let missing = made.held[0].len() - found.len();
        assert!(missing >= 1, "byte {at}");
        let reported = report.files.iter().find(|file| file.name == log).unwrap();
        assert_eq!(reported.entries, found.len() as u64);
        assert_eq!(reported.entries_lost, None);
    }
}

#[pumice_test_macros::test]
fn a_torn_or_missing_log_is_no_reason_to_change_anything() {
    let made = make(2);
    let log = made.names(".log").pop().unwrap();
    let torn = made.copy();
    torn.fs.damage(&torn.path(&log), |bytes| bytes.truncate(bytes.len() - 3)).unwrap();
    let before = torn.files(DIR);
    let report = torn.repair().unwrap();
    assert_eq!(report.outcome, RepairOutcome::Healthy, "{report}");
    assert_eq!(torn.files(DIR), before);
    torn.contents();
    let missing = made.copy();
    missing.shared.remove(&missing.path(&log)).unwrap();
    let report = missing.repair().unwrap();
    assert_eq!(report.outcome, RepairOutcome::Healthy);
    assert!(report.to_string().contains("there is no log"), "{report}");
    missing.contents();
}

#[pumice_test_macros::test]
fn deleted_keys_do_not_come_back_from_obsolete_tables() {
    let made = with_obsolete_tables();
    assert_eq!(made.held[0].len(), 34);
    let live = made.names(".sst").pop().unwrap();
    // The MANIFEST is whole, and another file is damaged.
    let kept = made.copy();
    kept.fs.damage(&kept.path(&live), |bytes| bytes[100] ^= 1).unwrap();
    let report = kept.repair().unwrap();
    assert_eq!(report.outcome, RepairOutcome::Repaired);
    assert!(fates(&report, FileFate::NotUsed).len() >= 2, "{report}");
    let found = kept.contents().remove("default").unwrap();
    assert!(found.iter().all(|(key, value)| kept.held[0].get(key) == Some(value)));
    // The log's end is damaged after the change that made the files obsolete.
    let cut = made.copy();
    cut.fs.damage(&cut.manifest(), |bytes| bytes.extend([7; 40])).unwrap();
    let report = cut.repair().unwrap();
    assert_eq!(report.outcome, RepairOutcome::Rebuilt);
    cut.holds_all();
    // Without it they reappear, and the report says so.
    let lost = made.copy();
    lost.shared.remove(&lost.manifest()).unwrap();
    let report = lost.repair().unwrap();
    assert!(report.old_data_may_return, "{report}");
    assert!(report.to_string().contains("may reappear"));
    assert!(lost.contents()["default"].len() >= 34);
}

#[pumice_test_macros::test]
fn a_repair_that_is_cut_short_can_be_run_again() {
    let mut cuts = 0;
    for kind in 0..4 {
        let made = damaged(kind);
        let before = made.files(DIR);
        let whole = made.copy();
        let outcome = whole.repair().unwrap().outcome;
        let expected = whole.contents();
        let modes = [
            CrashMode::PROCESS,
            CrashMode::UNSYNCED,
            CrashMode { files: FileLoss::Sectors, names: NameLoss::Strict },
        ];
        for changes in (0..).step_by(seed::one_in() as usize) {
            let cut = made.copy();
            cut.fs.halt_after(changes);
            let done = cut.repair().is_ok();
            for mode in modes {
                let again = cut.crashed(changes, mode);
                let at = format!("kind {kind}, change {changes}, {mode:?}");
                let report = again.repair().unwrap_or_else(|e| panic!("{e}: {at}"));
                let finished = [RepairOutcome::CurrentRestored, RepairOutcome::Healthy];
                assert!(report.outcome == outcome || finished.contains(&report.outcome), "{at}");
                again.has_all_of(&before);
                assert_eq!(again.contents(), expected, "{at}");
                cuts += 1;
            }
            if done {
                break;
            }
        }
    }
    assert!(cuts > 150 / seed::one_in(), "{cuts}");
}

#[pumice_test_macros::test]
fn without_hard_links_files_are_renamed() {
    for kind in 0..3 {
        let made = damaged(kind);
        let before = made.files(DIR);
        let linked = made.copy();
        linked.repair().unwrap();
        let expected = linked.contents();
        made.fs.add_fault(FaultRule::always(FaultOp::Link, "*", Fault::Unsupported));
        made.repair().unwrap();
        made.has_all_of(&before);
        assert_eq!(made.contents(), expected);
    }
}

#[pumice_test_macros::test]
fn what_cannot_be_kept_is_refused_and_nothing_changes() {
    let made = make(0);
    // A blob file that nothing names is no reason to change anything.
    let blobs = made.copy();
    pumice_env::write_file(&*blobs.shared, &blobs.path("000999.blob"), b"", true).unwrap();
    let before = blobs.files(DIR);
    assert_eq!(blobs.repair().unwrap().outcome, RepairOutcome::Healthy);
    assert_eq!(blobs.files(DIR), before);
    // Column families without options.
    let error = pumice::repair_column_families(&made.options.db, DIR, &[], None).unwrap_err();
    assert!(error.to_string().contains("no options are given for column family"), "{error}");
    // A database that is open.
    let (db, cfs) = Db::open_cf(&made.options.db, DIR, &descriptors(&made.options)).unwrap();
    assert_eq!(made.repair().unwrap_err().kind(), pumice::ErrorKind::IoError);
    db.close().unwrap();
    drop((db, cfs));
    // No database.
    let (_, shared) = memory();
    shared.create_dir_all(Path::new(DIR)).unwrap();
    let error = pumice::repair(&options(&shared), DIR).unwrap_err();
    assert!(error.to_string().contains("repair found no files"), "{error}");
    assert!(shared.list(Path::new(DIR)).unwrap().is_empty());
}

#[pumice_test_macros::test]
fn another_order_is_kept_if_it_is_built_in_and_refused_if_not() {
    let (fs, shared) = memory();
    let mut options = small_options(&shared);
    options.cf.comparator = pumice::Comparator::ReverseBytewise;
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..20 {
        db.put_opt(&SYNC, &key(n), b"value").unwrap();
    }
    flush(&db);
    db.put_opt(&SYNC, b"zz", b"value").unwrap();
    let held = vec![contents(&db).into_iter().collect()];
    drop(db);
    let made = Made { fs, shared, options, held }.crashed(0, CrashMode::PROCESS);
    made.shared.remove(&made.manifest()).unwrap();
    let mut given = made.options.clone();
    given.cf = ColumnFamilyOptions::default();
    given.db.file_system = Arc::clone(&made.shared);
    assert_eq!(pumice::repair(&given, DIR).unwrap().outcome, RepairOutcome::Rebuilt);
    made.holds_all();
}
