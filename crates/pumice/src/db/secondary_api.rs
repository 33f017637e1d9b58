//! Secondary instances: databases that follow what another process writes.
//!
//! Thread safety: from any thread. Every call may suspend.

use std::path::Path;

use pumice_base::Result;

use crate::db::api::Db;
use crate::engine::open::ColumnFamilyDescriptor;
use crate::engine::secondary;
use crate::options::DbOptions;
use crate::recovery::lock::Mode;
use crate::version::family::ColumnFamily;

impl Db {
    /// Opens a database for reading while another process, the primary, writes to it. It sees what
    /// the primary has written so far, and each [`Db::try_catch_up_with_primary`] adds what the
    /// primary has written since. Nothing is written at `path`, and no lock is taken; the info log
    /// goes to the directory `secondary_path`, which is made if need be.
    ///
    /// Not all column families need to be named. Those that the primary creates later are seen by
    /// the next open. Data that the primary has not written to the operating system
    /// (`manual_wal_flush`) is not seen, nor are writes that skip the log before they are flushed.
    ///
    /// Tables are opened by each catch-up and stay open while they are needed, so that they can be
    /// read after the primary has deleted them. With `max_open_files` other than -1 they do not
    /// stay open: then a read may fail with IoError until the next catch-up. Logs are expected in
    /// `wal_dir` of the options, as on the primary.
    ///
    /// Writes, flushes and changes of options are refused, and so are reads with a snapshot and
    /// tailing iterators. Iterators keep the state with which they were created.
    ///
    /// # Errors
    /// As [`Db::open_read_only`].
    pub fn open_as_secondary(
        options: &DbOptions,
        path: impl AsRef<Path>,
        secondary_path: impl AsRef<Path>,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<(Db, Vec<ColumnFamily>)> {
        let mode = Mode::Secondary { path: secondary_path.as_ref() };
        Self::open_with(options, path.as_ref(), families, mode)
    }

    /// Reads what the primary has written since the last call, on a database that was opened by
    /// [`Db::open_as_secondary`], or what the leader has flushed since, on one that was opened by
    /// [`Db::open_as_follower`]. When the call returns, readers see all of it at once, and never
    /// less than before. The cost depends on what was written, not on the size of the database.
    ///
    /// A write that the primary has not finished is no error: a later call sees it.
    ///
    /// # Errors
    /// NotSupported on other databases; TryAgain if the primary keeps changing its files;
    /// ShutdownInProgress; I/O; Corruption. After an error readers see what they saw before.
    pub fn try_catch_up_with_primary(&self) -> Result<()> {
        secondary::catch_up(self.inner())
    }
}
