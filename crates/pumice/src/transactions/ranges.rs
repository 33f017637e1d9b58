//! Transactions that lock ranges of keys.
//!
//! Thread safety: as the transaction's.

use std::cmp::Ordering;

use pumice_base::key::UserKey;
use pumice_base::{Error, Result};

use crate::db::api::Db;
use crate::transactions::content::{Content, Control};
use crate::transactions::pessimistic::Pessimistic;
use crate::transactions::transaction::Transaction;
use crate::version::family::ColumnFamily;

impl Transaction {
    /// Locks the keys of `cf` from `start` to before `end` for this transaction alone, those too
    /// that are not there: until it ends nobody else locks or writes one, by a transaction or by
    /// the handle of the database with transactions. What it reads in the range afterwards has no
    /// phantoms. Other keys are locked as ever, and keys in the range that are used are too.
    ///
    /// The range may have changed since the transaction's snapshot. It stays locked at a rollback
    /// to a save point, and is not locked by a prepared transaction that an open has found. Ranges
    /// that meet become one, which takes some 40 bytes and its two ends; the look for keys of
    /// others in it takes a time in proportion to the locks of the column family.
    ///
    /// It is RocksDB's `GetRangeLock`, for which a database there has another lock manager. Of an
    /// endpoint that is included the end here is the key and a zero byte, and of one with
    /// `inf_suffix` the next text of that length, with bytewise order.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice::Error> {
    /// # let dir = std::env::temp_dir().join(format!("pumice-range-{}", std::process::id()));
    /// let db = pumice::TransactionDb::builder(&dir).create(true).open()?;
    /// let transaction = db.transaction();
    /// transaction.lock_range("seat:", "seat;")?; // Nobody else takes a seat now.
    /// if transaction.iter()?.count() == 0 {
    ///     transaction.put("seat:1", "mine")?;
    /// }
    /// transaction.commit()?;
    /// # drop(transaction);
    /// # db.db().close()?;
    /// # pumice::Db::destroy(&Default::default(), &dir)
    /// # }
    /// ```
    ///
    /// # Errors
    /// TimedOut if others hold keys or ranges in it too long; Busy, with `deadlock_detect`, if
    /// waiting would never end; Aborted with subcode LockLimit; InvalidArgument if the end comes
    /// before the start, for a family of another database, ColumnFamilyDropped; NotSupported in an
    /// optimistic database.
    pub fn lock_range_cf(
        &self,
        cf: &ColumnFamily,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let Control::Locks(locks) = &self.inner.control else {
            return Err(Error::not_supported("Optimistic transactions lock no ranges."));
        };
        self.inner.db.live(cf)?;
        let content = &mut self.inner.content.lock();
        locks.acquire_range(&self.inner.db, content, cf, (start.as_ref(), end.as_ref()))
    }
    /// [`Transaction::lock_range_cf`] in the default family.
    ///
    /// # Errors
    /// As there.
    pub fn lock_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.lock_range_cf(self.inner.db.default_column_family(), start, end)
    }
}

impl Pessimistic {
    /// Locks the keys from `start` to before `end` for a transaction.
    fn acquire_range(
        &self,
        db: &Db,
        content: &mut Content,
        cf: &ColumnFamily,
        (start, end): (&[u8], &[u8]),
    ) -> Result<()> {
        let order = cf.data.comparator();
        match order.compare_without_timestamp(UserKey::new(start), UserKey::new(end)) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(()),
            Ordering::Greater => {
                return Err(Error::invalid_argument("end key comes before start key"));
            }
        }
        if content.options.skip_concurrency_control || self.options.skip_concurrency_control {
            return Ok(());
        }
        let wanted = self.wanted(content, cf.id(), start);
        self.tables.lock_range(&content.holder, order, &wanted, end)?;
        content.used.ranges.insert(cf.id());
        content.take_wanted_snapshot(db);
        Ok(())
    }
}
