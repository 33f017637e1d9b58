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
    /// Opens a database for reading while another process, the primary, writes to it. What the
    /// primary has written by now is seen, and each [`Db::try_catch_up_with_primary`] brings what
    /// it has written since. Nothing is written at `path`, and no lock is taken; the info log goes
    /// to the directory `secondary_path`, which is made if need be.
    ///
    /// Not all column families need to be named. Those that the primary creates later are seen by
    /// the next open. What the primary has not handed to the operating system (`manual_wal_flush`)
    /// is not seen, nor is what skips the log before it is flushed.
    ///
    /// Tables are opened by each catch-up and stay open while they are needed, so that they can be
    /// read after the primary has deleted them. With `max_open_files` other than -1 they do not:
    /// then a read may be an IoError, which the next catch-up heals. Logs are looked for in
    /// `wal_dir` of the options, as the primary has it.
    ///
    /// Writes, flushes and changes of options are refused, and so are snapshots and tailing
    /// iterators where they are read through. Iterators stay at what they began with.
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
    /// [`Db::open_as_secondary`]. Readers have all of it at once when the call is over; it never
    /// shows less than before. Costs what was written, not what there is.
    ///
    /// A write that the primary has begun and not finished is no error: it comes with a later call.
    ///
    /// # Errors
    /// NotSupported on other databases; TryAgain if the primary changes its files all the time;
    /// ShutdownInProgress; I/O; Corruption. Then readers have what they had before.
    pub fn try_catch_up_with_primary(&self) -> Result<()> {
        secondary::catch_up(self.inner())
    }
}
