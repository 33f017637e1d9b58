//! Transactions over keys with timestamps: the time of their commit, and that of their reads, by
//! which keys are checked.
//!
//! Thread safety: as `Transaction`.

use pumice_base::{Error, Result};

use crate::db::store::Store;
use crate::options::requests::ReadOptions;
use crate::read::pinned::PinnedSlice;
use crate::read::timed::check_length;
use crate::transactions::content::Control;
use crate::transactions::transaction::Transaction;
use crate::version::family::ColumnFamily;

impl Transaction {
    /// Reads for update. Of a family with timestamps the read is at the time that the check is by.
    pub(super) fn get_locked(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
        (exclusive, validate): (bool, bool),
    ) -> Result<Option<PinnedSlice>> {
        let Control::Locks(_) = &self.inner.control else {
            self.lock_key(cf, key, exclusive, validate)?;
            return Store::get(self, options, cf, key);
        };
        let reads = self.inner.content.lock().read_timestamp.unwrap_or(u64::MAX).to_le_bytes();
        if let Some(time) = &options.timestamp {
            check_length(&cf.data, time.len())?;
        }
        self.lock_key(cf, key, exclusive, validate)?;
        match &options.timestamp {
            None if cf.data.timestamp_size > 0 => {
                let at = ReadOptions { timestamp: Some(reads.to_vec()), ..options.clone() };
                Store::get(self, &at, cf, key)
            }
            Some(time) if time[..] != reads => {
                Err(Error::invalid_argument("Must read from the same read_timestamp"))
            }
            _ => Store::get(self, options, cf, key),
        }
    }

    /// From now on keys of families with timestamps cannot be written or read for update once they
    /// have a version after `timestamp`, at which reads for update then are.
    ///
    /// # Errors
    /// InvalidArgument if it is before an earlier one; NotSupported in an optimistic database.
    pub fn set_read_timestamp_for_validation(&self, timestamp: u64) -> Result<()> {
        let Control::Locks(_) = &self.inner.control else { return Err(no_timestamps()) };
        let mut content = self.inner.content.lock();
        if content.read_timestamp.is_some_and(|earlier| timestamp < earlier) {
            let text = "Cannot decrease read timestamp for validation";
            return Err(Error::invalid_argument(text));
        }
        content.read_timestamp = Some(timestamp).filter(|time| *time < u64::MAX);
        Ok(())
    }

    /// The writes in families with timestamps, which cannot be committed without one, happen at
    /// `timestamp`. It should not be before that of any version of their keys: reads at a time
    /// expect a key's times to grow.
    ///
    /// # Errors
    /// InvalidArgument if it is not after that of
    /// [`Transaction::set_read_timestamp_for_validation`]; NotSupported in an optimistic database.
    pub fn set_commit_timestamp(&self, timestamp: u64) -> Result<()> {
        let Control::Locks(locks) = &self.inner.control else { return Err(no_timestamps()) };
        locks.set_commit_timestamp(&mut self.inner.content.lock(), timestamp)
    }

    /// The timestamp of the commit, if one was set.
    pub fn commit_timestamp(&self) -> Option<u64> {
        self.inner.content.lock().commit_timestamp
    }
}

#[cold]
fn no_timestamps() -> Error {
    Error::not_supported("timestamp not supported")
}
