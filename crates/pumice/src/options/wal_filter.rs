//! A user's filter of the logs, while a database is opened.
//!
//! Thread safety: a filter is called by one task at a time, before the database is open.

use std::collections::BTreeMap;
use std::path::Path;

/// What becomes of a record of a log.
///
/// Example: that of [`WalFilter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalProcessing {
    /// It is applied.
    ContinueProcessing,
    /// This is applied in its place: the bytes of a batch
    /// ([`WriteBatch::data`](crate::WriteBatch::data)) with at most as many updates.
    Replace(Vec<u8>),
    /// It is left out.
    IgnoreCurrentRecord,
    /// It is left out, and so is all that follows, in later logs too.
    StopReplay,
    /// It is damaged: what follows from that says `wal_recovery_mode`. Without `paranoid_checks`
    /// it is applied.
    CorruptedRecord,
}

/// Decides what of the logs is applied when a database is opened. What is left out is gone: the
/// rest is written to table files, and the logs are not read again.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use pumice::options::{WalFilter, WalProcessing};
/// use pumice::{Db, WriteBatch};
///
/// /// Leaves batches out that are too large.
/// struct Small;
///
/// impl WalFilter for Small {
///     fn name(&self) -> &str {
///         "Small"
///     }
///     fn log_record_found(&self, _number: u64, _file: &Path, record: &[u8]) -> WalProcessing {
///         match WriteBatch::from_log(record.to_vec()) {
///             Ok(batch) if batch.count() > 1 => WalProcessing::IgnoreCurrentRecord,
///             _ => WalProcessing::ContinueProcessing,
///         }
///     }
/// }
///
/// # let mut options = pumice::Options::default();
/// # options.db.create_if_missing = true;
/// # options.db.file_system = pumice::MemFs::new(1).shared();
/// # let db = Db::open(&options, "/db")?;
/// # db.put("a", "")?;
/// # let mut batch = WriteBatch::new();
/// # batch.put("b", "");
/// # batch.put("c", "");
/// # db.write(&mut batch)?;
/// # db.close()?;
/// options.db.wal_filter = Some(Arc::new(Small));
/// let db = Db::open(&options, "/db")?;
/// # assert_eq!((db.get("a")?.is_some(), db.get("b")?), (true, None));
/// # db.close()
/// # }
/// ```
pub trait WalFilter: Send + Sync {
    /// Name, for messages.
    fn name(&self) -> &str;
    /// Called once, before the first record: the number of the oldest log that each column family
    /// needs, by its id, and the ids by name.
    fn column_family_log_number_map(
        &self,
        _log_numbers: &BTreeMap<u32, u64>,
        _ids: &BTreeMap<String, u32>,
    ) {
    }
    /// Called with each record: the bytes of a batch, which
    /// [`WriteBatch::from_log`](crate::WriteBatch::from_log) reads, records of transactions too.
    fn log_record_found(&self, log_number: u64, log_file: &Path, record: &[u8]) -> WalProcessing;
}
