//! `backup` and `restore`, in the format of RocksDB's BackupEngine.

use std::path::PathBuf;
use std::sync::Arc;

use super::data::no_words;
use super::open::text as failure;
use super::{Failure, Invocation};
use crate::environments;
use crate::output::Output;
use crate::progress::bytes_of;
use pumice::Db;
use pumice::backup::BackupEngine;
use pumice::stats::{InfoLogLevel, info_log_line};

/// Flags of both commands.
pub const VALUES: &[&str] =
    &["backup_dir", "num_threads", "backup_env_uri", "backup_fs_uri", "stderr_log_level"];
/// The same, as the usage shows them.
pub const USAGE: &str = "[--backup_dir] [--num_threads] [--backup_env_uri | --backup_fs_uri] \
                         [--stderr_log_level=<int (InfoLogLevel)>]";
/// RocksDB's info log levels, and the one of what is told here.
const LEVELS: u8 = 6;
const INFO: u8 = 1;

/// What both commands are given.
struct Given {
    dir: PathBuf,
    /// Tells on stderr what is done.
    tells: bool,
}

impl Given {
    /// Files are copied one after the other, whatever `--num_threads` says.
    fn of(it: &Invocation) -> Result<Given, Failure> {
        let arguments = &it.arguments;
        arguments.number::<u32>("num_threads")?;
        let (env, fs) = (arguments.text("backup_env_uri")?, arguments.text("backup_fs_uri")?);
        if env.is_some() && fs.is_some() {
            // In RocksDB's words.
            return Err("you may not specity both --backup_env_uri and --backup_fs_uri".into());
        }
        environments::check(env, fs)?;
        let level = arguments.number::<u8>("stderr_log_level")?;
        if level.is_some_and(|level| level >= LEVELS) {
            return Err(format!("stderr_log_level must be >= 0 and < {LEVELS}."));
        }
        let dir = arguments.path("backup_dir").ok_or("--backup_dir: missing backup directory")?;
        Ok(Given { dir: dir.to_path_buf(), tells: level.is_some_and(|level| level <= INFO) })
    }

    fn tell(&self, message: std::fmt::Arguments<'_>) {
        if self.tells {
            eprint!("{}", info_log_line(InfoLogLevel::Info, message));
        }
    }
}

/// `backup --backup_dir=PATH`
pub fn backup(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "backup")?;
    let given = Given::of(it)?;
    let opened = it.open::<Db>()?;
    out.text("open db OK\n");
    let engine = BackupEngine::open(Arc::clone(&it.fs), &given.dir).map_err(failure)?;
    out.text("open backup engine OK\n");
    it.progress.meter().expect(bytes_of(&it.db, &[".sst", ".log"]));
    given.tell(format_args!("Started the backup process -- creating a backup"));
    let id = engine.create_backup(&opened.db, false, b"").map_err(failure)?;
    given.tell(format_args!("Backup DONE. All is good"));
    if given.tells
        && let Some(made) = engine.backups().map_err(failure)?.iter().find(|made| made.id == id)
    {
        given.tell(format_args!("Backup {id}: number of files: {}", made.number_files));
        given.tell(format_args!("Backup {id}: size: {}", made.size));
    }
    out.text("create new backup OK\n");
    opened.db.close().map_err(failure)
}

/// `restore --backup_dir=PATH`: the newest intact backup becomes the database.
pub fn restore(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    no_words(it, "restore")?;
    let given = Given::of(it)?;
    let engine = BackupEngine::open_read_only(Arc::clone(&it.fs), &given.dir).map_err(failure)?;
    out.text("open restore engine OK\n");
    let newest = engine.backups().map_err(failure)?.pop();
    if let Some(newest) = &newest {
        let (id, files) = (newest.id, newest.number_files);
        given.tell(format_args!("Restoring backup id {id}: {files} files"));
    }
    it.progress.meter().expect(newest.map_or(0, |backup| backup.size));
    engine.restore_latest_backup(&it.db, &it.db).map_err(failure)?;
    given.tell(format_args!("Restoring done -- OK"));
    out.text("restore from backup OK\n");
    Ok(())
}
