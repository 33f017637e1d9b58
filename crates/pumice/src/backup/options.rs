//! What calls of a backup engine take and give.
//!
//! Thread safety: plain data.

use std::sync::Arc;

use pumice_base::{Error, Result};
use pumice_env::RateLimiter;

/// A backup, as [`BackupEngine::backups`] lists it.
///
/// [`BackupEngine::backups`]: super::BackupEngine::backups
///
/// Example: that of [`BackupEngine`](super::BackupEngine).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupInfo {
    /// The backup's number.
    pub id: u32,
    /// Unix time of its creation in seconds.
    pub timestamp: u64,
    /// Bytes of its files, including those that it shares.
    pub size: u64,
    /// The number of its files.
    pub number_files: usize,
    /// What the caller noted.
    pub app_metadata: Vec<u8>,
    /// The files that were left out of it, by their paths in the directory of the backups.
    pub excluded_files: Vec<String>,
}

/// How a table is named that backups share.
///
/// Example: that of [`BackupEngine`](super::BackupEngine).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareFilesNaming {
    /// By its checksum and size: each table is read twice.
    LegacyCrc32cAndFileSize,
    /// By the session that wrote it.
    UseDbSessionId,
    /// By the session that wrote it and its size.
    #[default]
    UseDbSessionIdAndFileSize,
}

/// The limits of a [`BackupEngine`], in bytes per second of its copies; the default has none. A
/// limiter is charged with [`IoPriority::Low`] for bytes read and written; its mode decides which
/// of these count. Other engines and databases may share it.
///
/// [`BackupEngine`]: super::BackupEngine
/// [`IoPriority::Low`]: pumice_env::IoPriority::Low
///
/// Example: that of [`BackupEngine`](super::BackupEngine).
#[derive(Clone, Debug, Default)]
pub struct BackupLimits {
    /// Limits backups, and the reads of `BackupEngine::verify_backup`.
    pub backup: Option<Arc<RateLimiter>>,
    /// Limits restores.
    pub restore: Option<Arc<RateLimiter>>,
}

/// How a [`BackupEngine`] makes backups.
///
/// [`BackupEngine`]: super::BackupEngine
///
/// Example: that of [`BackupEngine`](super::BackupEngine).
#[derive(Clone, Debug)]
pub struct BackupEngineOptions {
    /// Logs are backed up. Without them a backup has what is in table files, and is only whole if
    /// memtables are flushed first.
    pub backup_log_files: bool,
    /// A progress call-back is called once for so many bytes of a file that were copied.
    pub callback_trigger_interval_size: u64,
    /// Backups share their tables; without it each has its own copies.
    pub share_table_files: bool,
    /// The names of shared tables tell those of several databases apart. Without it a name is the
    /// table's number alone: the directory may then be of one database only, which was never
    /// restored to an older state.
    pub share_files_with_checksum: bool,
    /// How shared tables are named; those that have no session of their own, and those that were
    /// ingested with another contents, by checksum and size.
    pub share_files_with_checksum_naming: ShareFilesNaming,
    /// The format of the meta files: 1, which all versions of RocksDB read, or 2.
    pub schema_version: u32,
}

impl BackupEngineOptions {
    /// Checks what a backup could not be made with.
    ///
    /// # Errors
    /// InvalidArgument for another `schema_version` than 1 and 2.
    pub fn check(&self) -> Result<()> {
        match self.schema_version {
            1 | 2 => Ok(()),
            other => Err(Error::invalid_argument(format!(
                "Only BackupEngineOptions::schema_version 1 and 2 are supported, not {other}"
            ))),
        }
    }
}

impl Default for BackupEngineOptions {
    fn default() -> Self {
        BackupEngineOptions {
            backup_log_files: true,
            callback_trigger_interval_size: 4 << 20,
            share_table_files: true,
            share_files_with_checksum: true,
            share_files_with_checksum_naming: ShareFilesNaming::default(),
            schema_version: 1,
        }
    }
}

/// Options of a backup.
///
/// Example: that of [`BackupEngine`](super::BackupEngine).
#[derive(Clone, Copy, Default)]
pub struct CreateBackupOptions<'a> {
    /// Save memtables first; without it their logs are backed up, and writes that were not logged
    /// are missing.
    pub flush_before_backup: bool,
    /// What the caller notes, at most 1 MiB.
    pub app_metadata: &'a [u8],
    /// Called while files are copied, by the task that makes the backup.
    pub progress_callback: Option<&'a dyn Fn()>,
    /// Asked of each table that would be copied into `shared_checksum`, by its path in the
    /// directory of the backups; true leaves it out. A restore then needs another backup in the
    /// directory that has it, or the table itself in its place. Needs `schema_version` 2.
    pub exclude_files_callback: Option<&'a dyn Fn(&str) -> bool>,
}

impl std::fmt::Debug for CreateBackupOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateBackupOptions")
            .field("flush_before_backup", &self.flush_before_backup)
            .field("app_metadata", &self.app_metadata)
            .field("progress_callback", &self.progress_callback.is_some())
            .field("exclude_files_callback", &self.exclude_files_callback.is_some())
            .finish()
    }
}

/// What a restore does with the files that are in its way. RocksDB's numbers.
///
/// Example: that of [`BackupEngine`](super::BackupEngine).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestoreMode {
    /// Tables stay whose session and size are those in the backup.
    KeepLatestDbSessionIdFiles = 1,
    /// Tables stay whose checksum is that in the backup: they are read.
    VerifyChecksum = 2,
    /// All files of the database are removed first.
    #[default]
    PurgeAllFiles = 0xffff,
}

/// Options of a restore.
///
/// Example: that of [`BackupEngine`](super::BackupEngine).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Logs that are there stay, and those of the archive return to the directory of the logs: with
    /// a backup without logs the database then has what was written since.
    pub keep_log_files: bool,
    /// What happens to tables that are there.
    pub mode: RestoreMode,
}
