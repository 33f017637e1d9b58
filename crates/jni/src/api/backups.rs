//! Backup engines. What their calls do is noted in the log of their options.

use std::fmt::Arguments;
use std::path::PathBuf;

use jni_sys::jvalue;
use pumice::backup::BackupEngine;
use pumice::options::InfoLogLevel;
use pumice_binding::database::Database;
use pumice_binding::env::Env as Files;
use pumice_binding::requests;
use pumice_binding::store::Fields;

use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::into::New;
use crate::objects::{BackupOptions, Backups, Values};

impl Backups {
    fn say(&self, line: Arguments<'_>) {
        if let Some(log) = &self.log {
            log.log(InfoLogLevel::Info, line);
        }
    }

    /// Notes what is done and how it ends.
    fn noted<T>(
        &self,
        what: Arguments<'_>,
        call: impl FnOnce(&BackupEngine) -> pumice::Result<T>,
    ) -> Result<T> {
        self.say(what);
        let result = call(&self.engine);
        match &result {
            Ok(_) => self.say(format_args!("{what}: done")),
            Err(error) => self.say(format_args!("{what}: {error}")),
        }
        Ok(result?)
    }
}

/// Java: BackupEngine.open
pub fn open_backups(_env: Env<'_>, files: &Files, options: &BackupOptions) -> Result<New<Backups>> {
    options.check()?;
    let limits = options.limits()?;
    let files = options.env.as_ref().unwrap_or(files);
    let engine = BackupEngine::open(files.file_system().clone(), options.dir())?;
    let engine = engine.limited(limits).with_options(options.engine());
    if options.store().flag("destroy_old_data") {
        engine.delete_all_backups()?;
    }
    let made = Backups { engine, log: options.info_log.0.clone() };
    made.say(format_args!("Backup engine of {}", options.dir().display()));
    Ok(New(made))
}

/// Java: BackupEngine.createNewBackup 0 1 2
pub fn create_backup(_env: Env<'_>, it: &Backups, db: &Database, flush: bool) -> Result<()> {
    it.noted(format_args!("New backup"), |it| it.create_backup(db.db(), flush, b"")).map(drop)
}

/// Java: BackupEngine.createNewBackupWithMetadata 0 1 2 3
pub fn create_backup_with(
    _env: Env<'_>,
    it: &Backups,
    db: &Database,
    note: String,
    flush: bool,
) -> Result<()> {
    let note = note.as_bytes();
    it.noted(format_args!("New backup"), |it| it.create_backup(db.db(), flush, note)).map(drop)
}

/// Java: BackupEngine.getBackupInfo
pub fn backups<'a>(env: Env<'a>, it: &Backups) -> Result<Object<'a>> {
    let list = env.construct("java/util/ArrayList", "()V", &[])?;
    let class = env.class_of(list);
    let add = env.method(class, "add", "(Ljava/lang/Object;)Z")?;
    for backup in it.engine.backups()? {
        env.frame(|| {
            let note = env.new_text(&String::from_utf8_lossy(&backup.app_metadata))?;
            let arguments = [
                jvalue { i: backup.id.cast_signed() },
                jvalue { j: i64::try_from(backup.timestamp).unwrap_or(i64::MAX) },
                jvalue { j: i64::try_from(backup.size).unwrap_or(i64::MAX) },
                jvalue { i: i32::try_from(backup.number_files).unwrap_or(i32::MAX) },
                jvalue { l: note.raw() },
            ];
            let signature = "(IJJILjava/lang/String;)V";
            let made = env.construct("org/rocksdb/BackupInfo", signature, &arguments)?;
            env.call_flag(list, add, &[jvalue { l: made.raw() }]).map(drop)
        })?;
    }
    Ok(list)
}

/// Java: BackupEngine.getCorruptedBackups
pub fn corrupted_backups(_env: Env<'_>, it: &Backups) -> Result<Vec<i32>> {
    Ok(it.engine.corrupted_backups()?.into_iter().map(|(id, _)| id.cast_signed()).collect())
}

/// Java: BackupEngine.purgeOldBackups
pub fn purge_backups(_env: Env<'_>, it: &Backups, keep: i32) -> Result<()> {
    let kept = usize::try_from(keep).unwrap_or(0);
    it.noted(format_args!("All but {kept} backups go"), |it| it.purge_old_backups(kept))
}

/// Java: BackupEngine.garbageCollect
pub fn collect_garbage(_env: Env<'_>, it: &Backups) -> Result<()> {
    it.noted(format_args!("Collect garbage"), BackupEngine::garbage_collect)
}

/// Java: BackupEngine.deleteBackup
pub fn delete_backup(_env: Env<'_>, it: &Backups, id: i32) -> Result<()> {
    it.noted(format_args!("Delete backup {id}"), |it| it.delete_backup(id.cast_unsigned()))
}

/// Java: BackupEngine.restoreDbFromBackup
pub fn restore(
    _env: Env<'_>,
    it: &Backups,
    id: i32,
    dir: String,
    wal_dir: String,
    options: &Values,
) -> Result<()> {
    let options = requests::restore(options.store())?;
    let (dir, wal_dir) = (PathBuf::from(dir), PathBuf::from(wal_dir));
    let id = id.cast_unsigned();
    let what = format_args!("Restore backup {id}");
    it.noted(what, |it| it.restore_backup_opt(&options, id, dir, wal_dir))
}

/// Java: BackupEngine.restoreDbFromLatestBackup
pub fn restore_latest(
    _env: Env<'_>,
    it: &Backups,
    dir: String,
    wal_dir: String,
    options: &Values,
) -> Result<()> {
    let options = requests::restore(options.store())?;
    let (dir, wal_dir) = (PathBuf::from(dir), PathBuf::from(wal_dir));
    let what = format_args!("Restore the latest backup");
    it.noted(what, |it| it.restore_latest_backup_opt(&options, dir, wal_dir))
}
