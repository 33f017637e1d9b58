//! `Transaction`: the handle of a transaction, of both kinds of database.
//!
//! It is a [`Store`]: every form of every read and write of a database is one of a transaction
//! too, futures included, and code over any store runs inside one. Reads see the transaction's own
//! writes; writes are in the transaction until its commit.
//!
//! Thread safety: clones share one transaction, whose calls take turns; it may move between tasks.
//! When the last clone is dropped before the commit, the transaction is rolled back; a prepared one
//! stays in the log, and is there again at the next open. Any call may
//! wait for a lock, and so suspend.

use std::sync::Arc;

use pumice_base::{Error, ValueType};

use crate::batch_index::{BaseDeltaIterator, BatchView, SharedBatch};
use crate::batch_index::{WriteBatchWithIndex, lookup::Answer};
use crate::commit::batch::BatchRecord;
use crate::db::forms::*;
use crate::locks::TransactionState;
use crate::options::DbOptions;
use crate::read::iterator::DbIterator;
use crate::snapshot::Snapshot;
use crate::state::batch_check::check_batch;
use crate::transactions::content::{
    Control, Inner, SnapshotNotice, SnapshotWish, Use, conflict_snapshot,
};

/// A transaction of a [`TransactionDb`](crate::TransactionDb) or an
/// [`OptimisticTransactionDb`](crate::OptimisticTransactionDb): a [`Store`] whose reads see its own
/// writes, which take effect together at the commit.
///
/// Clones share one transaction, whose calls take turns. When the last clone is dropped before the
/// commit, the transaction is rolled back; a prepared one stays in the log, and is there again at
/// the next open. Any call may wait for a lock.
///
/// Options of writes that are given to its calls are not used: those of the transaction are, at its
/// commit.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-transaction-{}", std::process::id()));
/// use pumice::TransactionDb;
/// let db = TransactionDb::builder(&dir).create(true).open()?;
/// let transaction = db.transaction();
/// transaction.put("a", "1")?;
/// assert_eq!(transaction.get("a")?.as_deref(), Some(&b"1"[..])); // It reads what it wrote,
/// assert_eq!(db.get("a")?, None); // nobody else does
/// transaction.commit()?; // before this.
/// assert_eq!(db.get("a")?.as_deref(), Some(&b"1"[..]));
/// # drop(transaction);
/// # db.db().close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Transaction {
    pub(super) inner: Arc<Inner>,
}

store_forms!(Transaction);

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl Transaction {
    pub(super) fn new(inner: Inner) -> Self {
        Transaction { inner: Arc::new(inner) }
    }
    pub(super) fn of(inner: Arc<Inner>) -> Self {
        Transaction { inner }
    }

    /// Makes the writes part of the database, all of them or, on error, none. Afterwards the
    /// transaction is empty; one of an optimistic database can be used again.
    ///
    /// # Errors
    /// Expired; InvalidArgument for one that has ended; Busy and TryAgain if an optimistic one is
    /// in conflict with others; as [`Db::write`](crate::Db::write). The transaction then keeps its
    /// writes and locks: it can be rolled back, or committed again.
    pub fn commit(&self) -> Result<()> {
        let mut content = self.inner.content.lock();
        match &self.inner.control {
            Control::Locks(locks) => locks.commit(&self.inner, &mut content),
            Control::Validation(optimistic) => optimistic.commit(&self.inner, &mut content),
        }
    }

    /// Forgets the writes and releases the locks. The transaction can be used again.
    ///
    /// # Errors
    /// InvalidArgument for one that has been committed or whose locks were taken away.
    pub fn rollback(&self) -> Result<()> {
        let mut content = self.inner.content.lock();
        if let Control::Locks(locks) = &self.inner.control {
            return locks.rollback(&self.inner, &mut content);
        }
        self.inner.clear(&mut content);
        Ok(())
    }

    /// Gives the transaction a name of 1 to 512 bytes, which no other one has: then it can be
    /// prepared.
    ///
    /// # Errors
    /// InvalidArgument if it has a name, the name is not possible or taken, the transaction has
    /// ended, or it is an optimistic one.
    pub fn set_name(&self, name: impl AsRef<[u8]>) -> Result<()> {
        let Control::Locks(locks) = &self.inner.control else {
            return Err(Error::invalid_argument("Optimistic transactions cannot be named."));
        };
        locks.names.set(&self.inner, &mut self.inner.content.lock(), name.as_ref())
    }
    /// The name; empty without one.
    pub fn name(&self) -> Vec<u8> {
        self.inner.content.lock().name.clone()
    }
    /// Writes the transaction to the log, and nothing else: from now on it can be committed or
    /// rolled back, after a crash too, and does not expire. No more can be written in it. It is as
    /// durable as the write options of the transaction say.
    ///
    /// # Errors
    /// InvalidArgument without a name, for one that has ended or is prepared, and for an optimistic
    /// one; Expired; as [`Db::write`](crate::Db::write), and it is then not prepared.
    pub fn prepare(&self) -> Result<()> {
        let Control::Locks(locks) = &self.inner.control else {
            return Err(Error::invalid_argument(
                "Two phase commit not supported for optimistic transactions.",
            ));
        };
        locks.prepare(&self.inner, &mut self.inner.content.lock())
    }
    /// Sets the updates that the commit of a prepared transaction writes before its own: their keys
    /// are not locked, and they are not in the log before (RocksDB's commit-time batch). One that
    /// locks and was not prepared cannot be committed with them; an optimistic one drops them.
    ///
    /// A commit that fails for them, for a column family that was dropped since, fails again until
    /// they are replaced, by an empty batch for example.
    ///
    /// # Errors
    /// That of an update which `updates` refused; those of [`Db::write`](crate::Db::write) for
    /// updates that cannot be applied, of a column family that is not there or without a timestamp
    /// that it needs. What was set before stays.
    pub fn set_commit_time_batch(&self, updates: &WriteBatch) -> Result<()> {
        updates.status()?;
        updates.check_owner(&**self.inner.db.inner())?;
        check_batch(&self.inner.db.inner().cfs.load(), updates, false)?;
        self.inner.content.lock().prepared.beside = Some(updates.clone());
        Ok(())
    }
    /// The number of the log that has the prepared transaction; 0 before its prepare.
    pub fn log_number(&self) -> u64 {
        self.inner.content.lock().prepared.log
    }
    /// [`Transaction::prepare`] as a future.
    pub fn prepare_async(&self) -> DbFuture<Result<()>> {
        self.call_async(Transaction::prepare)
    }

    /// Remembers the present state, for [`Transaction::rollback_to_save_point`].
    pub fn set_save_point(&self) {
        self.inner.set_save_point(&mut self.inner.content.lock());
    }
    /// Takes back what was done since the newest save point, and the save point: writes, and the
    /// locks of keys that were not used before it.
    ///
    /// # Errors
    /// NotFound if there is none; InvalidArgument for a transaction that has ended or is prepared.
    pub fn rollback_to_save_point(&self) -> Result<()> {
        self.inner.rollback_to_save_point(&mut self.inner.content.lock())
    }
    /// Forgets the newest save point; what was done since stays.
    ///
    /// # Errors
    /// NotFound if there is none.
    pub fn pop_save_point(&self) -> Result<()> {
        self.inner.pop_save_point(&mut self.inner.content.lock())
    }

    /// How it is prepared and committed.
    pub fn write_options(&self) -> WriteOptions {
        self.inner.content.lock().write_options
    }
    /// Prepares and commits as `options` say, from now on.
    pub fn set_write_options(&self, options: &WriteOptions) {
        self.inner.content.lock().write_options = *options;
    }

    /// Takes a snapshot: from now on keys that have changed since cannot be written or read for
    /// update. Reads do not use it unless it is in their options.
    pub fn set_snapshot(&self) {
        let mut content = self.inner.content.lock();
        content.snapshot = Some(conflict_snapshot(&self.inner.db));
        content.wish = SnapshotWish::default();
    }
    /// As [`Transaction::set_snapshot`], by the next write or read for update, after that has got
    /// its lock.
    pub fn set_snapshot_on_next_operation(&self) {
        self.inner.content.lock().wish = SnapshotWish { wanted: true, ..SnapshotWish::default() };
    }
    /// As [`Transaction::set_snapshot_on_next_operation`]; once the snapshot is taken,
    /// [`Transaction::take_snapshot_notice`] gives `notice` back. A rollback to a save point brings
    /// both back, the wish and its notice.
    pub fn set_snapshot_on_next_operation_with(&self, notice: SnapshotNotice) {
        self.inner.content.lock().wish =
            SnapshotWish { wanted: true, notice: Some(notice), taken: None };
    }
    /// The notice of the snapshot that an operation has taken, once.
    pub fn take_snapshot_notice(&self) -> Option<SnapshotNotice> {
        self.inner.content.lock().wish.taken.take()
    }
    /// Gives the snapshot up.
    pub fn clear_snapshot(&self) {
        let mut content = self.inner.content.lock();
        content.snapshot = None;
        content.wish = SnapshotWish::default();
    }
    /// The snapshot, if it has one.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.inner.content.lock().snapshot.clone()
    }

    /// The value of `key` in `cf`, which no other transaction changes until this one has ended: it
    /// is locked, for this one alone or together with others that read it; in an optimistic
    /// database it is checked at the commit.
    ///
    /// # Errors
    /// As [`Transaction::lock_key`], and as [`Db::get`](crate::Db::get).
    pub fn get_for_update_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<PinnedSlice>> {
        self.get_locked(options, cf, key.as_ref(), (exclusive, true))
    }
    /// [`Transaction::get_for_update_cf_opt`] in the default family, for this one alone.
    ///
    /// # Errors
    /// As there.
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.get_for_update_cf(self.inner.db.default_column_family(), key)
    }
    /// [`Transaction::get_for_update_cf_opt`], for this one alone.
    ///
    /// # Errors
    /// As there.
    pub fn get_for_update_cf(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        self.get_for_update_cf_opt(&READ_DEFAULT, cf, key, true)
    }
    /// As [`Transaction::get_for_update_cf_opt`], but the key may have changed since the
    /// transaction's snapshot.
    ///
    /// # Errors
    /// As there; InvalidArgument with a snapshot in `options`.
    pub fn get_for_update_unvalidated(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<PinnedSlice>> {
        if options.snapshot.is_some() {
            return Err(Error::invalid_argument(
                "If do_validate is false then GetForUpdate with snapshot is not defined.",
            ));
        }
        self.get_locked(options, cf, key.as_ref(), (exclusive, false))
    }
    /// [`Transaction::get_for_update`] as a future.
    pub fn get_for_update_async(
        &self,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<Option<PinnedSlice>>> {
        let key = key.into();
        self.call_async(move |transaction| transaction.get_for_update(&key))
    }
    /// The values of `keys`, all of which are locked first. If one cannot be locked, that error is
    /// the answer for each; those that were locked stay so.
    pub fn multi_get_for_update(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        match keys.iter().try_for_each(|(cf, key)| self.lock(cf, key, true, true)) {
            Ok(()) => Store::multi_get(self, options, keys),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }
    /// [`Transaction::commit`] as a future.
    pub fn commit_async(&self) -> DbFuture<Result<()>> {
        self.call_async(Transaction::commit)
    }

    /// Locks `key` as [`Transaction::get_for_update_cf_opt`] does, without reading it. With
    /// `validate` it must not have changed since the transaction's snapshot, if there is one.
    ///
    /// # Errors
    /// TimedOut if another transaction holds it too long; Busy if it has changed, and, with
    /// `deadlock_detect`, if waiting would never end; Aborted with subcode LockLimit;
    /// InvalidArgument for a family of another database, ColumnFamilyDropped.
    pub fn lock_key(
        &self,
        cf: &ColumnFamily,
        key: &[u8],
        exclusive: bool,
        validate: bool,
    ) -> Result<()> {
        if cf.data.timestamp_size > 0
            && let Control::Locks(locks) = &self.inner.control
        {
            locks.check_read_time(&self.inner.content.lock(), validate)?;
        }
        self.lock(cf, key, exclusive, validate)
    }

    fn lock(&self, cf: &ColumnFamily, key: &[u8], exclusive: bool, validate: bool) -> Result<()> {
        let how = Use { read_only: true, exclusive, validate };
        self.inner.acquire(&mut self.inner.content.lock(), cf, key, how)
    }
    /// Takes one read for update of the key back; it is unlocked if that was the only use of it,
    /// since the newest save point if there is one.
    pub fn undo_get_for_update(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) {
        let mut content = self.inner.content.lock();
        self.inner.undo_get_for_update(&mut content, cf.id(), key.as_ref());
    }

    /// As [`Transaction::put_cf`], but the key may have changed since the transaction's snapshot;
    /// in an optimistic database the commit does not check it.
    ///
    /// # Errors
    /// As [`Transaction::lock_key`], without Busy for a changed key.
    pub fn put_untracked(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.update(cf, key, ValueType::Value, value, Use::UNTRACKED)
    }
    /// As [`Transaction::delete_cf`], see [`Transaction::put_untracked`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_untracked(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.update(cf, key.as_ref(), ValueType::Deletion, b"", Use::UNTRACKED)
    }
    /// As [`Transaction::single_delete_cf`], see [`Transaction::put_untracked`].
    ///
    /// # Errors
    /// As there.
    pub fn single_delete_untracked(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.update(cf, key.as_ref(), ValueType::SingleDeletion, b"", Use::UNTRACKED)
    }
    /// As [`Transaction::merge_cf`], see [`Transaction::put_untracked`].
    ///
    /// # Errors
    /// As there.
    pub fn merge_untracked(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.update(cf, key, ValueType::Merge, operand, Use::UNTRACKED)
    }
    /// Adds an annotation to the log record of the commit.
    ///
    /// # Errors
    /// As [`WriteBatchWithIndex::put_log_data`].
    pub fn put_log_data(&self, blob: &[u8]) -> Result<()> {
        self.inner.batch.with_mut(|batch| batch.put_log_data(blob))
    }

    /// Later writes cannot be read back in the transaction, and cost less.
    pub fn disable_indexing(&self) {
        self.inner.content.lock().indexing = false;
    }
    /// Later writes can be read back again.
    pub fn enable_indexing(&self) {
        self.inner.content.lock().indexing = true;
    }

    /// Its id, unique in the process; after a commit the sequence number of its last write.
    pub fn id(&self) -> u64 {
        let content = self.inner.content.lock();
        content.committed_at.unwrap_or_else(|| content.holder.id())
    }
    /// Where it is. An optimistic transaction is always Started.
    pub fn state(&self) -> TransactionState {
        self.inner.content.lock().holder.state()
    }
    /// Microseconds since its begin.
    pub fn elapsed_micros(&self) -> u64 {
        let started = self.inner.content.lock().started;
        pumice_port::time::now_micros().saturating_sub(started)
    }
    /// Milliseconds that it waits for a lock from now on; less than 0: the database's
    /// `transaction_lock_timeout`.
    pub fn set_lock_timeout(&self, millis: i64) {
        self.inner.content.lock().options.lock_timeout = millis;
    }
    /// Writes of each kind so far: puts, deletions, merges.
    pub fn counts(&self) -> (u64, u64, u64) {
        let counts = self.inner.content.lock().counts;
        (counts.puts, counts.deletes, counts.merges)
    }
    /// Keys that it has locked, or that its commit will check.
    pub fn num_keys(&self) -> usize {
        self.inner.content.lock().used.iter().count()
    }
    /// Its writes. What is added there directly is not locked.
    pub fn shared_batch(&self) -> SharedBatch {
        self.inner.batch.clone()
    }

    /// Repeats the updates of `batch` in the transaction, which locks their keys.
    ///
    /// # Errors
    /// InvalidArgument for a batch with records of transactions; as the single updates. Those
    /// before the failed one are done.
    pub fn rebuild_from_write_batch(&self, batch: &WriteBatch) -> Result<()> {
        batch.status()?;
        for record in batch.iter() {
            match record? {
                BatchRecord::LogData(blob) => self.put_log_data(blob)?,
                BatchRecord::Marker(ValueType::Noop, _) => {}
                BatchRecord::Marker(..) => return Err(Error::invalid_argument("")),
                BatchRecord::Entry { value_type: ValueType::RangeDeletion, .. } => {
                    return Err(no_range_deletions());
                }
                BatchRecord::Entry { column_family, value_type, key, value } => {
                    let cf = self.inner.db.column_family_of(column_family)?;
                    let bare = key.len().saturating_sub(cf.data.timestamp_size);
                    let key = &key[..bare];
                    self.update(&cf, key, value_type, value, Use::WRITE)?;
                }
            }
        }
        Ok(())
    }

    fn update(
        &self,
        cf: &ColumnFamily,
        key: &[u8],
        kind: ValueType,
        value: &[u8],
        how: Use,
    ) -> Result<()> {
        let mut content = self.inner.content.lock();
        if kind == ValueType::Merge && self.inner.db.live(cf)?.merge_operator().is_none() {
            return Err(Error::not_supported("Provide a merge_operator when opening DB"));
        }
        self.inner.acquire(&mut content, cf, key, how)?;
        self.inner.add(&content, |batch| batch.add_record(cf, kind, key, value))?;
        let counts = &mut content.counts;
        *match kind {
            ValueType::Merge => &mut counts.merges,
            ValueType::Deletion | ValueType::SingleDeletion => &mut counts.deletes,
            _ => &mut counts.puts,
        } += 1;
        Ok(())
    }

    fn read<W: Answer>(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<W>> {
        self.inner.batch.with(|batch| batch.answer(&self.inner.db, options, cf, key))
    }
}

fn no_range_deletions() -> Error {
    Error::not_supported("DeleteRange unsupported in WriteBatchWithIndex")
}

impl Store for Transaction {
    type Cursor = BaseDeltaIterator<DbIterator, SharedBatch>;

    fn default_column_family(&self) -> &ColumnFamily {
        self.inner.db.default_column_family()
    }
    fn options(&self) -> Arc<DbOptions> {
        self.inner.db.options()
    }
    fn get(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedSlice>> {
        self.read(options, cf, key)
    }
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.inner.batch.with(|batch| batch.answers(&self.inner.db, options, keys))
    }
    fn get_entity(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedColumns>> {
        self.read(options, cf, key)
    }
    fn multi_get_entity(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        self.inner.batch.with(|batch| batch.answers(&self.inner.db, options, keys))
    }
    /// Only of a key that the transaction has not written.
    fn get_merge_operands(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        let absent = |batch: &WriteBatchWithIndex| Ok(batch.latest(cf.id(), key)?.is_absent());
        if !self.inner.batch.with(absent)? {
            return Err(Error::not_supported("GetMergeOperands of a key that a transaction wrote"));
        }
        Store::get_merge_operands(&self.inner.db, options, cf, key, how, number_of_operands)
    }
    fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<Self::Cursor> {
        let base = Store::cursor(&self.inner.db, options, cf)?;
        let batch = self.shared_batch();
        Ok(BaseDeltaIterator::new(batch, Some(cf.clone()), base, Some(options)))
    }
    fn put(&self, _: &WriteOptions, cf: &ColumnFamily, key: &[u8], value: &[u8]) -> Result<()> {
        self.update(cf, key, ValueType::Value, value, Use::WRITE)
    }
    fn put_encoded_entity(
        &self,
        _: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        entity: &[u8],
    ) -> Result<()> {
        self.update(cf, key, ValueType::WideColumnEntity, entity, Use::WRITE)
    }
    fn delete(&self, _: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.update(cf, key, ValueType::Deletion, b"", Use::WRITE)
    }
    fn single_delete(&self, _: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.update(cf, key, ValueType::SingleDeletion, b"", Use::WRITE)
    }
    fn merge(&self, _: &WriteOptions, cf: &ColumnFamily, key: &[u8], operand: &[u8]) -> Result<()> {
        self.update(cf, key, ValueType::Merge, operand, Use::WRITE)
    }
    fn delete_range(&self, _: &WriteOptions, _: &ColumnFamily, _: &[u8], _: &[u8]) -> Result<()> {
        Err(no_range_deletions())
    }
    /// As [`Transaction::rebuild_from_write_batch`].
    fn write(&self, _: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
        updates.check_owner(&**self.inner.db.inner())?;
        self.rebuild_from_write_batch(updates)
    }
}
