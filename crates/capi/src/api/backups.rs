//! Backups.

use pumice::backup::{BackupEngine, CreateBackupOptions};
use pumice::{Db, Result};
use pumice_binding::database::Database;
use pumice_binding::env::Env;
use pumice_binding::requests::{self, BackupOptions};
use pumice_binding::status;
use pumice_binding::store::Fields;

use crate::ffi::from::{Out, State, Taken, Text};
use crate::ffi::generated::rocksdb_restore_options_t;
use crate::ffi::into::{Lent, New};
use crate::ffi::macros::c_api;
use crate::ffi::progress::{LeftOut, LeftOutFn, Progress, ProgressFn};
use crate::ffi::types::{BackupCreation, BackupList, Backups, Limiter, Options};

fn open(options: &BackupOptions, env: &Env) -> Result<New<Backups>> {
    options.check()?;
    let limits = options.limits()?;
    let engine = BackupEngine::open(env.file_system().clone(), options.dir())?;
    let engine = engine.limited(limits).with_options(options.engine());
    if options.store().flag("destroy_old_data") {
        engine.delete_all_backups()?;
    }
    Ok(New(Backups(engine)))
}

fn create(backups: &Backups, db: &Db, options: &BackupCreation, note: &[u8]) -> Result<u32> {
    let (progress, left_out) =
        (|| options.progress.tell(), |path: &str| options.left_out.asks(path));
    let options = CreateBackupOptions {
        flush_before_backup: options.store().flag("flush_before_backup"),
        app_metadata: note,
        progress_callback: options.progress.call.map(|_| &progress as &dyn Fn()),
        exclude_files_callback: options.left_out.call.map(|_| &left_out as &dyn Fn(&str) -> bool),
    };
    backups.0.create_backup_opt(db, &options)
}

fn create_plainly(backups: &Backups, db: &Db, flush: bool) -> Result<()> {
    backups.0.create_backup(db, flush, b"").map(drop)
}

/// RocksDB does not explain that a backup is not there.
fn unknown(error: pumice::Error) -> pumice::Error {
    match error.message() {
        "Backup not found" => status::without_message(error),
        _ => error,
    }
}

fn of(list: &BackupList, index: i32) -> Option<&pumice::backup::BackupInfo> {
    list.0.get(usize::try_from(index).ok()?)
}

c_api! {
    fn rocksdb_backup_engine_open(
        options: &Options, path: Text<'_>, errptr: Fail
    ) -> New<Backups> {
        let fs = options.values.engine.db.file_system.clone();
        BackupEngine::open(fs, path.path()).map(|engine| New(Backups(engine)))
    }

    fn rocksdb_backup_engine_open_opts(
        options: &BackupOptions, env: Option<&Env>, errptr: Fail
    ) -> New<Backups> {
        let own = options.env.clone().or_else(|| env.cloned());
        open(options, &own.unwrap_or_default())
    }

    fn rocksdb_backup_engine_options_create(dir: Text<'_>) -> New<BackupOptions> {
        New(BackupOptions::new(dir.bytes()))
    }

    fn rocksdb_backup_engine_options_set_env(options: &mut BackupOptions, env: Option<&Env>) {
        options.env = env.cloned();
    }

    fn rocksdb_backup_engine_options_set_backup_dir(options: &mut BackupOptions, dir: Text<'_>) {
        options.store_mut().put_text("backup_dir", dir.bytes());
    }

    fn rocksdb_backup_engine_options_set_backup_rate_limiter(
        options: &mut BackupOptions, limiter: Option<&Limiter>
    ) {
        options.limits.backup = limiter.and_then(|limiter| limiter.0.clone().ok());
    }

    fn rocksdb_backup_engine_options_set_restore_rate_limiter(
        options: &mut BackupOptions, limiter: Option<&Limiter>
    ) {
        options.limits.restore = limiter.and_then(|limiter| limiter.0.clone().ok());
    }

    fn rocksdb_create_backup_options_set_progress_callback(
        options: &mut BackupCreation, state: State, progress: ProgressFn
    ) {
        options.progress = Progress { state, call: progress };
    }

    fn rocksdb_create_backup_options_set_exclude_files_callback(
        options: &mut BackupCreation, state: State, call: LeftOutFn
    ) {
        options.left_out = LeftOut { state, call };
    }

    fn rocksdb_backup_engine_create_new_backup(backups: &Backups, db: &Database, errptr: Fail) {
        create_plainly(backups, db.db(), false)
    }

    fn rocksdb_backup_engine_create_new_backup_flush(
        backups: &Backups, db: &Database, flush_before_backup: bool, errptr: Fail
    ) {
        create_plainly(backups, db.db(), flush_before_backup)
    }

    fn rocksdb_backup_engine_create_new_backup_with_options(
        backups: &Backups, db: &Database, options: &BackupCreation,
        new_backup_id: Out<'_, u32>, errptr: Fail
    ) {
        let mut new_backup_id = new_backup_id;
        new_backup_id.set(create(backups, db.db(), options, b"")?);
        Ok(())
    }

    fn rocksdb_backup_engine_create_new_backup_with_metadata(
        backups: &Backups, db: &Database, options: &BackupCreation,
        metadata: Bytes, new_backup_id: Out<'_, u32>, errptr: Fail
    ) {
        let mut new_backup_id = new_backup_id;
        new_backup_id.set(create(backups, db.db(), options, metadata)?);
        Ok(())
    }

    fn rocksdb_backup_engine_stop_backup(backups: &Backups) {
        backups.0.stop_backup();
    }

    fn rocksdb_backup_engine_purge_old_backups(
        backups: &Backups, num_backups_to_keep: u32, errptr: Fail
    ) {
        backups.0.purge_old_backups(num_backups_to_keep as usize)
    }

    fn rocksdb_backup_engine_verify_backup(backups: &Backups, backup_id: u32, errptr: Fail) {
        backups.0.verify_backup(backup_id, false).map_err(unknown)
    }

    fn rocksdb_backup_engine_restore_db_from_latest_backup(
        backups: &Backups, db_dir: Text<'_>, wal_dir: Text<'_>,
        options: &rocksdb_restore_options_t, errptr: Fail
    ) {
        let options = requests::restore(options.store())?;
        backups.0.restore_latest_backup_opt(&options, db_dir.path(), wal_dir.path())
    }

    fn rocksdb_backup_engine_restore_db_from_backup(
        backups: &Backups, db_dir: Text<'_>, wal_dir: Text<'_>,
        options: &rocksdb_restore_options_t, backup_id: u32, errptr: Fail
    ) {
        let options = requests::restore(options.store())?;
        backups.0.restore_backup_opt(&options, backup_id, db_dir.path(), wal_dir.path())
    }

    fn rocksdb_backup_engine_get_backup_info(backups: &Backups) -> New<BackupList> {
        New(BackupList(backups.0.backups().unwrap_or_default()))
    }

    fn rocksdb_backup_engine_info_count(list: &BackupList) -> i32 {
        i32::try_from(list.0.len()).unwrap_or(i32::MAX)
    }

    fn rocksdb_backup_engine_info_timestamp(list: &BackupList, index: i32) -> i64 {
        let timestamp = of(list, index).map_or(0, |info| info.timestamp);
        i64::try_from(timestamp).unwrap_or(i64::MAX)
    }

    fn rocksdb_backup_engine_info_backup_id(list: &BackupList, index: i32) -> u32 {
        of(list, index).map_or(0, |info| info.id)
    }

    fn rocksdb_backup_engine_info_size(list: &BackupList, index: i32) -> u64 {
        of(list, index).map_or(0, |info| info.size)
    }

    fn rocksdb_backup_engine_info_number_files(list: &BackupList, index: i32) -> u32 {
        let files = of(list, index).map_or(0, |info| info.number_files);
        u32::try_from(files).unwrap_or(u32::MAX)
    }

    fn rocksdb_backup_engine_info_app_metadata(
        list: &BackupList, index: i32, length: Out<'_, usize>
    ) -> Lent {
        let text = of(list, index).map_or(&[][..], |info| &info.app_metadata);
        let mut length = length;
        length.set(text.len());
        Lent::of(text)
    }

    fn rocksdb_backup_engine_close(backups: Taken<Backups>) {
        drop(backups);
    }
}
