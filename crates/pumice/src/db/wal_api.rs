//! The handle's calls about logs: everything written since a sequence number, and the list of logs.
//!
//! Thread safety: from any thread. Every call may suspend.

use pumice_base::{Result, SequenceNumber};

use crate::db::api::Db;
use crate::log_tail::log_files::WalFile;
use crate::log_tail::wal_iterator::WalIterator;

impl Db {
    /// The batches in the logs, starting with the one that contains `sequence`, which may begin
    /// before it, and those written later. The next write gets [`Db::latest_sequence_number`] plus
    /// 1.
    ///
    /// Logs are deleted once their writes are in table files, unless `WAL_ttl_seconds` or
    /// `WAL_size_limit_MB` keep them in the archive: then the first batch begins after `sequence`,
    /// and a caller that needs all of them has to check. Writes that skip the log, and ingested
    /// files, are missing; with `manual_wal_flush` a write appears when it is flushed. The writes
    /// of one group are one batch, with the updates of all column families, dropped ones included.
    ///
    /// # Errors
    /// NotFound "Requested sequence not yet written in the db"; TryAgain if logs were switched
    /// meanwhile: a new call then finds more; I/O; Corruption.
    pub fn get_updates_since(&self, sequence: SequenceNumber) -> Result<WalIterator> {
        self.inner().updates_since(sequence)
    }

    /// The logs that have a record, archived and live (RocksDB's `GetSortedWalFiles`), by number.
    ///
    /// # Errors
    /// I/O.
    pub fn wal_files(&self) -> Result<Vec<WalFile>> {
        self.inner().wal_files()
    }

    /// The log that writes go to (RocksDB's `GetCurrentWalFile`). Its `start_sequence` is 0.
    ///
    /// # Errors
    /// NotFound on a database that is opened read-only; I/O.
    pub fn current_wal_file(&self) -> Result<WalFile> {
        self.inner().current_wal_file()
    }
}
