//! `backup` and `restore`, in the format of RocksDB's BackupEngine.

use std::path::PathBuf;
use std::sync::Arc;

use super::data::no_words;
use super::open::text as failure;
use super::{Failure, Invocation};
use crate::output::Output;
use crate::progress::bytes_of;
use pumice::Db;
use pumice::backup::BackupEngine;

/// The backup directory. Files are copied one after the other, whatever `--num_threads` says.
fn backup_dir(it: &Invocation) -> Result<PathBuf, Failure> {
    it.arguments.number::<u32>("num_threads")?;
    let given = it.arguments.path("backup_dir");
    Ok(given.ok_or("--backup_dir: missing backup directory")?.to_path_buf())
}

/// `backup --backup_dir=PATH`
pub fn backup(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "backup")?;
    let dir = backup_dir(it)?;
    let opened = it.open::<Db>()?;
    out.text("open db OK\n");
    let engine = BackupEngine::open(Arc::clone(&it.fs), &dir).map_err(failure)?;
    out.text("open backup engine OK\n");
    it.progress.meter().expect(bytes_of(&it.db, &[".sst", ".log"]));
    engine.create_backup(&opened.db, false, b"").map_err(failure)?;
    out.text("create new backup OK\n");
    opened.db.close().map_err(failure)
}

/// `restore --backup_dir=PATH`: the newest intact backup becomes the database.
pub fn restore(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "restore")?;
    let dir = backup_dir(it)?;
    let engine = BackupEngine::open_read_only(Arc::clone(&it.fs), &dir).map_err(failure)?;
    out.text("open restore engine OK\n");
    let newest = engine.backups().map_err(failure)?.pop();
    it.progress.meter().expect(newest.map_or(0, |backup| backup.size));
    engine.restore_latest_backup(&it.db, &it.db).map_err(failure)?;
    out.text("restore from backup OK\n");
    Ok(())
}
