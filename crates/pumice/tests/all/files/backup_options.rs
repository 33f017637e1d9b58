//! Options of backups and restores: logs left out, tables kept, progress, an end from outside.

use std::cell::Cell;
use std::path::Path;

use crate::common::{DIR, contents, fill, flush, memory, options};
use pumice::backup::{
    BackupEngine, BackupEngineOptions, CreateBackupOptions, RestoreMode, RestoreOptions,
    ShareFilesNaming,
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

/// The names of the files of the backups in a directory, without what differs from run to run.
fn names(fs: &std::sync::Arc<dyn pumice::FileSystem>, part: &str) -> Vec<String> {
    let mut names = fs.list(&Path::new(BACKUPS).join(part)).unwrap();
    names.sort();
    names
}

/// Where tables go, by the options; each kind is restored, and shares what it can.
#[pumice_test_macros::test]
fn tables_are_named_as_the_options_say() {
    let by_number = BackupEngineOptions { share_files_with_checksum: false, ..Default::default() };
    let alone = BackupEngineOptions { share_table_files: false, ..Default::default() };
    let named = |share_files_with_checksum_naming| BackupEngineOptions {
        share_files_with_checksum_naming,
        ..Default::default()
    };
    for (case, how, part, copies, wanted) in [
        ("number", by_number, "shared", 2, "NNNNNN.sst"),
        ("private", alone, "private/2", 2, "NNNNNN.sst"),
        ("crc", named(ShareFilesNaming::LegacyCrc32cAndFileSize), "shared_checksum", 2, "N_N_N"),
        ("session", named(ShareFilesNaming::UseDbSessionId), "shared_checksum", 2, "N_sX"),
        ("size", BackupEngineOptions::default(), "shared_checksum", 2, "N_sX_N"),
    ] {
        let (_, fs) = memory();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        let engine = BackupEngine::open(fs.clone(), BACKUPS).unwrap().with_options(how);
        for keys in [0..10, 10..20] {
            fill(&db, keys, "value");
            engine.create_backup(&db, true, b"").unwrap();
        }
        let found = names(&fs, part);
        let found: Vec<_> = found.iter().filter(|name| name.ends_with(".sst")).collect();
        assert_eq!(found.len(), copies, "{case} {found:?}");
        for name in found {
            let stem = name.trim_end_matches(".sst");
            let is_number = |text: &str| !text.is_empty() && text.parse::<u64>().is_ok();
            let parts: Vec<&str> = stem.split('_').collect();
            let fits = match (wanted, &parts[..]) {
                ("NNNNNN.sst", [number]) => number.len() == 6 && is_number(number),
                ("N_N_N", [number, crc, bytes]) => {
                    [number, crc, bytes].iter().all(|n| is_number(n))
                }
                ("N_sX", [number, session]) => is_number(number) && session.starts_with('s'),
                ("N_sX_N", [number, session, bytes]) => {
                    is_number(number) && session.starts_with('s') && is_number(bytes)
                }
                _ => false,
            };
            assert!(fits, "{case} {name}");
        }
        let wanted = contents(&db);
        db.close().unwrap();
        engine.verify_backup(2, true).unwrap();
        engine.restore_backup(1, DIR, DIR).unwrap();
        assert_eq!(contents(&Db::open(&options, DIR).unwrap()).len(), 10, "{case}");
        engine.restore_latest_backup(DIR, DIR).unwrap();
        assert_eq!(contents(&Db::open(&options, DIR).unwrap()), wanted, "{case}");
        engine.delete_all_backups().unwrap();
        assert_eq!(names(&fs, "shared_checksum"), Vec::<String>::new());
    }
}

/// A table with the number of another one is not taken for it.
#[pumice_test_macros::test]
fn tables_named_by_number_alone_are_compared_by_size() {
    let (_, fs) = memory();
    let options = options(&fs);
    let how = BackupEngineOptions { share_files_with_checksum: false, ..Default::default() };
    let engine = BackupEngine::open(fs.clone(), BACKUPS).unwrap().with_options(how);
    for (dir, keys) in [("/one", 10), ("/two", 1000)] {
        let db = Db::open(&options, dir).unwrap();
        fill(&db, 0..keys, "value");
        let made = engine.create_backup(&db, true, b"");
        assert_eq!(made.is_ok(), dir == "/one", "{made:?}");
        if let Err(error) = made {
            assert!(error.is_corruption() && error.message().contains("Size mismatch"), "{error}");
        }
    }
}

/// A table that was left out comes from another backup, or stays where it is; else there is no
/// restore, and the database is as it was.
#[pumice_test_macros::test]
fn tables_that_are_left_out_come_from_elsewhere() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..10, "value");
    let second = BackupEngineOptions { schema_version: 2, ..Default::default() };
    let engine = BackupEngine::open(fs.clone(), BACKUPS).unwrap();
    let asked = Cell::new(0);
    let all = |path: &str| {
        assert!(path.starts_with("shared_checksum/0") && path.ends_with(".sst"), "{path}");
        asked.set(asked.get() + 1);
        true
    };
    let without = CreateBackupOptions {
        flush_before_backup: true,
        exclude_files_callback: Some(&all),
        ..Default::default()
    };
    let error = engine.create_backup_opt(&db, &without).unwrap_err();
    assert_eq!(error.message(), "exclude_files_callback requires schema_version >= 2");
    let unknown = BackupEngineOptions { schema_version: 3, ..Default::default() };
    let engine = engine.with_options(unknown);
    let error = engine.create_backup_opt(&db, &without).unwrap_err();
    assert!(error.message().contains("schema_version 1 and 2 are supported, not 3"), "{error}");
    let engine = engine.with_options(second);
    assert_eq!(engine.create_backup_opt(&db, &without).unwrap(), 1);
    assert_eq!((asked.get(), names(&fs, "shared_checksum").len()), (1, 0));
    let info = engine.backups().unwrap();
    assert_eq!(info[0].excluded_files.len(), 1);
    let wanted = contents(&db);
    db.close().unwrap();
    let error = engine.restore_latest_backup(DIR, DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let keep = RestoreOptions {
        mode: RestoreMode::KeepLatestDbSessionIdFiles,
        ..RestoreOptions::default()
    };
    engine.restore_latest_backup_opt(&keep, DIR, DIR).unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db), wanted);
    // Another backup that has it is enough, and it is copied once.
    engine.create_backup(&db, true, b"").unwrap();
    db.close().unwrap();
    engine.restore_backup(1, DIR, DIR).unwrap();
    assert_eq!(contents(&Db::open(&options, DIR).unwrap()), wanted);
    engine.delete_backup(2).unwrap();
    assert_eq!(engine.restore_backup(1, DIR, DIR).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
