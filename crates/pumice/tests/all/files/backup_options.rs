//! Options of backups and restores: logs left out, tables kept, progress, an end from outside.

use std::cell::Cell;
use std::path::Path;

use crate::common::{DIR, contents, fill, flush, memory, options};
use pumice::backup::{
    BackupEngine, BackupEngineOptions, CreateBackupOptions, RestoreMode, RestoreOptions,
};
use pumice::{Db, ErrorKind};
use pumice_env::mem::FaultOp;

const BACKUPS: &str = "/backups";

/// A backup without logs and the logs that are still there make the database as it was.
#[pumice_test_macros::test]
fn logs_that_are_kept_are_read_again() {
    for archived in [false, true] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.db.WAL_ttl_seconds = 10_000 * u64::from(archived);
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..10, "table");
        flush(&db);
        fill(&db, 10..20, "log");
        let without_logs =
            BackupEngineOptions { backup_log_files: false, ..BackupEngineOptions::default() };
        let engine = BackupEngine::open(fs.clone(), BACKUPS).unwrap().with_options(without_logs);
        engine.create_backup(&db, false, b"").unwrap();
        fill(&db, 20..30, "later");
        let wanted = contents(&db);
        if archived {
            flush(&db); // The log goes to the archive.
        }
        db.close().unwrap();
        let keep = RestoreOptions { keep_log_files: true, ..RestoreOptions::default() };
        engine.restore_latest_backup_opt(&keep, DIR, DIR).unwrap();
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(contents(&db), wanted, "archived {archived}");
        db.close().unwrap();
        engine.restore_latest_backup(DIR, DIR).unwrap();
        assert_eq!(contents(&Db::open(&options, DIR).unwrap()).len(), 10);
    }
}

/// Tables that are there stay if they are the ones of the backup.
#[pumice_test_macros::test]
fn tables_that_are_the_same_are_not_copied() {
    for (mode, damaged, copied) in [
        (RestoreMode::PurgeAllFiles, false, 2),
        (RestoreMode::KeepLatestDbSessionIdFiles, false, 0),
        (RestoreMode::VerifyChecksum, false, 0),
        (RestoreMode::VerifyChecksum, true, 1),
    ] {
        let (mem, fs) = memory();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        for keys in [0..10, 10..20] {
            fill(&db, keys, "value");
            flush(&db);
        }
        let wanted = contents(&db);
        let engine = BackupEngine::open(fs.clone(), BACKUPS).unwrap();
        engine.create_backup(&db, true, b"").unwrap();
        fill(&db, 20..30, "later");
        flush(&db);
        let name = db.live_files_metadata().pop().unwrap().name;
        db.close().unwrap();
        if damaged {
            let path = Path::new(DIR).join(name.trim_start_matches('/'));
            let mut bytes = fs.read_file(&path).unwrap();
            bytes[10] ^= 1;
            pumice_env::write_file(&*fs, &path, &bytes, true).unwrap();
        }
        mem.note_changes();
        let how = RestoreOptions { mode, ..RestoreOptions::default() };
        engine.restore_latest_backup_opt(&how, DIR, DIR).unwrap();
        let made = mem.noted_changes().into_iter().filter(|(op, path)| {
            *op == FaultOp::Create && path.extension().is_some_and(|end| end == "sst")
        });
        assert_eq!(made.count(), copied, "{mode:?} {damaged}");
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(contents(&db), wanted);
        db.verify_checksum().unwrap();
    }
}

#[pumice_test_macros::test]
fn a_backup_tells_how_far_it_is_and_ends_when_it_is_stopped() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..1000, "value");
    flush(&db);
    let every = BackupEngineOptions { callback_trigger_interval_size: 1000, ..Default::default() };
    let engine = BackupEngine::open(fs.clone(), BACKUPS).unwrap().with_options(every);
    let bytes = db.live_files_metadata()[0].size;
    let calls = Cell::new(0);
    let count = || calls.set(calls.get() + 1);
    let how = CreateBackupOptions { progress_callback: Some(&count), ..Default::default() };
    engine.create_backup_opt(&db, &how).unwrap();
    assert!(calls.get() >= bytes / 1000, "{} {bytes}", calls.get());
    fill(&db, 1000..2000, "value");
    flush(&db);
    // Stopped at its first report, it leaves nothing.
    let stop = || engine.stop_backup();
    let how = CreateBackupOptions { progress_callback: Some(&stop), ..Default::default() };
    let error = engine.create_backup_opt(&db, &how).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Incomplete, "Backup stopped"));
    assert_eq!(engine.create_backup(&db, true, b"").unwrap_err().kind(), ErrorKind::Incomplete);
    assert_eq!(engine.backups().unwrap().len(), 1);
    let engine = BackupEngine::open(fs, BACKUPS).unwrap();
    assert_eq!(engine.create_backup(&db, true, b"").unwrap(), 2);
    engine.delete_all_backups().unwrap();
    assert_eq!(engine.backups().unwrap(), []);
}
