//! `persist_user_defined_timestamps=false`: checkpoints, backups, exports and imports.
#![allow(clippy::unwrap_used)]

use pumice::backup::BackupEngine;
use pumice::{ColumnFamily, Db, ImportColumnFamilyOptions, Options};

use super::{message, timed, unkept};
use crate::common::{DIR, flush, memory};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(db: &Db, cf: &ColumnFamily, time: u64) -> Rows {
    db.at(time).in_cf(cf).range(..).unwrap().map(|row| row.unwrap()).collect()
}

fn low(db: &Db, cf: &ColumnFamily) -> u64 {
    let low = db.full_history_ts_low(cf).unwrap().unwrap();
    u64::from_le_bytes(low.try_into().unwrap())
}

/// Tables up to time 10, and more in memtable and log.
fn filled(options: &Options, dir: &str) -> Db {
    let db = Db::open(options, dir).unwrap();
    for time in 1..=14 {
        db.at(time).put(format!("k{}", time % 5), time.to_string()).unwrap();
        if time % 4 == 0 {
            db.at(time).delete(format!("k{}", time % 3)).unwrap();
            db.at(time).delete_range("k3", "k4").unwrap();
        }
        if time % 5 == 0 {
            flush(&db);
        }
    }
    db
}

#[pumice_test_macros::test]
fn checkpoints_and_backups_have_tables_and_log() {
    let files = memory().1;
    let mut options = unkept(&files);
    options.db.avoid_flush_during_recovery = true;
    let db = filled(&options, DIR);
    let cf = db.default_column_family();
    assert_eq!(low(&db, cf), 11);
    let expected: Vec<Rows> = (11..16).map(|time| rows(&db, cf, time)).collect();
    // A backup with the log has its times, a checkpoint flushes.
    let backups = BackupEngine::open(files.clone(), "/backups").unwrap();
    backups.create_backup(&db, false, b"").unwrap();
    backups.restore_latest_backup("/restored", "/restored").unwrap();
    let early = message(db.at(10).get("k1"));
    db.checkpoint("/checkpoint").unwrap();
    for (dir, from) in [("/restored", 11), ("/checkpoint", 15)] {
        let copy = Db::open(&options, dir).unwrap();
        let cf = copy.default_column_family();
        assert_eq!(low(&copy, cf), from, "{dir}");
        for time in from..16 {
            assert_eq!(rows(&copy, cf, time), expected[time as usize - 11], "{dir} at {time}");
        }
        if from == 11 {
            assert_eq!(message(copy.at(10).get("k1")), early);
        }
        copy.verify_checksum().unwrap();
        copy.close().unwrap();
    }
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn families_are_exported_and_imported() {
    let files = memory().1;
    let options = unkept(&files);
    let db = filled(&options, DIR);
    let cf = db.default_column_family();
    let exported = db.export_column_family(cf, "/export").unwrap();
    // The export has flushed.
    assert_eq!(low(&db, cf), 15);
    let expected = rows(&db, cf, 15);
    assert!(expected.len() > 2);
    let how = ImportColumnFamilyOptions::default();
    let import = |options: &Options, name: &str| {
        db.create_column_family_with_import(&options.cf, name, &how, &[&exported])
    };
    let copy = import(&options, "copy").unwrap();
    assert_eq!(rows(&db, &copy, 15), expected);
    // Writes go on over what has lost its times.
    db.at(20).in_cf(&copy).put("k1", "20").unwrap();
    db.at(21).in_cf(&copy).delete("k2").unwrap();
    db.flush_all().unwrap();
    let mut after = expected.clone();
    after.retain(|(key, _)| key != b"k2" && key != b"k1");
    after.push((b"k1".to_vec(), b"20".to_vec()));
    after.sort();
    assert_eq!(rows(&db, &copy, 22), after);
    assert_eq!(rows(&db, cf, 22), expected);
    // A family that keeps timestamps has other tables.
    let kept = message(import(&timed(&files), "kept"));
    assert!(kept.contains("Cannot toggle the persist_user_defined_timestamps"), "{kept}");
    db.close().unwrap();
}
