//! The space that the table files of one or more databases take, and its limit: RocksDB's
//! `SstFileManager`.
//!
//! Databases that have the same manager in their options share its limits. They report every table
//! file that is added or removed, consult it before a compaction, and delete through it, at a rate
//! ([`crate::delete_scheduler`]).
//!
//! | limit | of what | reached |
//! |---|---|---|
//! | `max_allowed_space_usage` | tracked bytes | the file's database gets a background error |
//! | the same | those, the buffer, inputs of compactions | the next compaction does not start |
//! | free space, once it was 0 | the buffer, inputs of compactions | the same |
//!
//! Tracked bytes include those of trash, and exclude logs. A running compaction is counted with its
//! inputs on top of what it has written.
//!
//! Thread safety: all methods may be called from anywhere; those that delete or wait suspend. Its
//! locks are leaves.

use pumice_base::{Error, Result};
use pumice_port::sync::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::delete_scheduler::{DeleteScheduler, Deletion, TrashBucket};
use crate::filename::TRASH_EXTENSION;
use crate::tracked_files::TrackedFiles;

/// Settings of a [`SstFileManager`]; the fields are arguments of RocksDB's `NewSstFileManager`.
///
/// Example: that of [`SstFileManager`].
#[derive(Clone, Debug, PartialEq)]
pub struct SstFileManagerOptions {
    /// Bytes of files deleted per second; 0 deletes at once.
    pub rate_bytes_per_sec: u64,
    /// The share of trash in all tracked bytes above which files are deleted at once; at least 0.
    pub max_trash_db_ratio: f64,
    /// Larger files are cut by this many bytes at a time; 0 never cuts.
    pub bytes_max_delete_chunk: u64,
}

impl Default for SstFileManagerOptions {
    /// RocksDB's defaults: nothing is paced.
    fn default() -> Self {
        SstFileManagerOptions {
            rate_bytes_per_sec: 0,
            max_trash_db_ratio: 0.25,
            bytes_max_delete_chunk: 64 << 20,
        }
    }
}

#[derive(Default)]
struct Limits {
    max_allowed_space: u64,
    compaction_buffer_size: u64,
    /// Inputs of running compactions.
    reserved_by_compactions: u64,
    /// The free space that databases require before they continue after a full disk.
    disk_buffer: u64,
}

/// The space that the table files of one or more databases take, its limit, and the rate at which
/// files are deleted: RocksDB's `SstFileManager`.
///
/// ```
/// # fn main() -> Result<(), pumice_base::Error> {
/// # use pumice_env::{SstFileManager, SstFileManagerOptions};
/// // Files are deleted at 10 MB a second, and all tables together may take 1 GB.
/// let options = SstFileManagerOptions { rate_bytes_per_sec: 10 << 20, ..Default::default() };
/// let manager = SstFileManager::new(&options)?;
/// manager.set_max_allowed_space_usage(1 << 30);
/// assert!(!manager.is_max_allowed_space_reached() && manager.total_size() == 0);
/// # Ok(())
/// # }
/// ```
pub struct SstFileManager {
    tracked: Arc<TrackedFiles>,
    limits: Mutex<Limits>,
    scheduler: DeleteScheduler,
}

impl fmt::Debug for SstFileManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstFileManager")
            .field("total_size", &self.total_size())
            .field("delete_rate_bytes_per_second", &self.delete_rate_bytes_per_second())
            .finish_non_exhaustive()
    }
}

fn check_ratio(ratio: f64) -> Result<()> {
    if ratio >= 0.0 {
        return Ok(());
    }
    Err(Error::invalid_argument("max_trash_db_ratio must not be below 0"))
}

impl SstFileManager {
    /// A manager with these settings and no limit of space.
    ///
    /// # Errors
    /// InvalidArgument if `max_trash_db_ratio` is below 0 or not a number.
    pub fn new(options: &SstFileManagerOptions) -> Result<Self> {
        check_ratio(options.max_trash_db_ratio)?;
        let tracked = Arc::new(TrackedFiles::default());
        let scheduler = DeleteScheduler::new(
            Arc::clone(&tracked),
            options.rate_bytes_per_sec,
            options.max_trash_db_ratio,
            options.bytes_max_delete_chunk,
        );
        Ok(SstFileManager { tracked, limits: Mutex::new(Limits::default()), scheduler })
    }

    /// Limit of the total bytes of the tracked files; 0, the initial value, for no limit.
    pub fn set_max_allowed_space_usage(&self, bytes: u64) {
        self.limits.lock().max_allowed_space = bytes;
    }
    /// Bytes that a compaction has to leave free for logs and flushes; initially 0.
    pub fn set_compaction_buffer_size(&self, bytes: u64) {
        self.limits.lock().compaction_buffer_size = bytes;
    }
    /// The tracked files have reached the limit.
    pub fn is_max_allowed_space_reached(&self) -> bool {
        let max = self.limits.lock().max_allowed_space;
        max > 0 && self.total_size() >= max
    }
    /// The same, if the running compactions write as much as they read.
    pub fn is_max_allowed_space_reached_including_compactions(&self) -> bool {
        let limits = self.limits.lock();
        let max = limits.max_allowed_space;
        max > 0 && self.total_size().saturating_add(limits.reserved_by_compactions) >= max
    }
    /// Bytes of all tracked files.
    pub fn total_size(&self) -> u64 {
        self.tracked.total_bytes()
    }
    /// All tracked files and their bytes.
    pub fn tracked_files(&self) -> BTreeMap<PathBuf, u64> {
        self.tracked.snapshot()
    }
    /// Bytes of files that wait for their deletion, logs among them.
    pub fn total_trash_size(&self) -> u64 {
        self.scheduler.total_trash_size()
    }
    /// Bytes of files deleted per second; 0 deletes at once.
    pub fn delete_rate_bytes_per_second(&self) -> u64 {
        self.scheduler.rate_bytes_per_sec()
    }
    /// Changes the rate, at once.
    pub fn set_delete_rate_bytes_per_second(&self, rate: u64) {
        self.scheduler.set_rate_bytes_per_sec(rate);
    }
    /// The share of trash in all tracked bytes above which files are deleted at once.
    pub fn max_trash_db_ratio(&self) -> f64 {
        self.scheduler.max_trash_db_ratio()
    }
    /// Changes it for files that are deleted later.
    ///
    /// # Errors
    /// InvalidArgument if it is below 0 or not a number.
    pub fn set_max_trash_db_ratio(&self, ratio: f64) -> Result<()> {
        check_ratio(ratio)?;
        self.scheduler.set_max_trash_db_ratio(ratio);
        Ok(())
    }
    /// Larger files are cut by this many bytes at a time; 0 never cuts.
    pub fn bytes_max_delete_chunk(&self) -> u64 {
        self.scheduler.bytes_max_delete_chunk()
    }
    /// Trash that could not be deleted, and the errors.
    pub fn background_errors(&self) -> BTreeMap<PathBuf, Error> {
        self.scheduler.background_errors()
    }
    /// Waits until all trash is deleted, at the rate. Suspends.
    pub fn wait_for_empty_trash(&self) {
        self.scheduler.wait_for_empty_trash();
    }

    /// A database has a table file of this many bytes.
    pub fn on_add_file(&self, path: &Path, bytes: u64) {
        self.tracked.insert(path, bytes);
    }
    /// The database in `dir` is closed: forgets its files, but not its trash.
    pub fn untrack_files_in(&self, dir: &Path) {
        let trash = TRASH_EXTENSION.as_bytes();
        let is_trash = |path: &Path| path.as_os_str().as_encoded_bytes().ends_with(trash);
        self.tracked.forget(dir, |path| !is_trash(path));
    }

    /// Deletes a file, [`DeleteScheduler::delete_file`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn delete_file(&self, file: Deletion<'_>) -> Result<()> {
        self.scheduler.delete_file(file)
    }
    /// Deletes a file that was found as trash, [`DeleteScheduler::delete_existing`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn delete_existing_trash(&self, file: Deletion<'_>) -> Result<()> {
        self.scheduler.delete_existing(file)
    }
    /// Deletes a file of a database that is destroyed as a whole,
    /// [`DeleteScheduler::delete_uncounted`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn delete_uncounted(&self, file: Deletion<'_>, bucket: &Arc<TrashBucket>) -> Result<()> {
        self.scheduler.delete_uncounted(file, bucket)
    }
    /// Waits until the files of `bucket` have been processed. Suspends.
    pub fn wait_for_trash_bucket(&self, bucket: &TrashBucket) {
        self.scheduler.wait_for_bucket(bucket);
    }

    /// Whether a compaction of inputs with this many bytes may start. If so they are reserved until
    /// [`SstFileManager::on_compaction_completion`]. `free_bytes` is the free space of the device,
    /// if the database ran out of it recently.
    pub fn enough_room_for_compaction(&self, inputs: u64, free_bytes: Option<u64>) -> bool {
        let mut limits = self.limits.lock();
        let buffer = limits.compaction_buffer_size;
        let running = limits.reserved_by_compactions;
        let headroom = running.saturating_add(inputs).saturating_add(buffer);
        let max = limits.max_allowed_space;
        if max > 0 && headroom.saturating_add(self.total_size()) > max {
            return false;
        }
        // Without a buffer of the user's, what flushes need next has to stay free.
        let reserve = if buffer == 0 { limits.disk_buffer } else { 0 };
        if free_bytes.is_some_and(|free| free < headroom.saturating_add(reserve)) {
            return false;
        }
        limits.reserved_by_compactions = running.saturating_add(inputs);
        true
    }
    /// A compaction that was allowed to start has ended.
    pub fn on_compaction_completion(&self, inputs: u64) {
        let mut limits = self.limits.lock();
        limits.reserved_by_compactions = limits.reserved_by_compactions.saturating_sub(inputs);
    }

    /// After a full disk a database requires this many free bytes before it continues.
    pub fn reserve_disk_buffer(&self, bytes: u64) {
        let mut limits = self.limits.lock();
        limits.disk_buffer = limits.disk_buffer.saturating_add(bytes);
    }
    /// The database is closed.
    pub fn release_disk_buffer(&self, bytes: u64) {
        let mut limits = self.limits.lock();
        limits.disk_buffer = limits.disk_buffer.saturating_sub(bytes);
    }
    /// With this many bytes free on the device, databases may continue after a full disk.
    pub fn enough_room_to_resume(&self, free_bytes: u64) -> bool {
        let limits = self.limits.lock();
        let allowed = match limits.max_allowed_space {
            0 => free_bytes,
            max => free_bytes.min(max),
        };
        allowed >= limits.disk_buffer
    }
}
