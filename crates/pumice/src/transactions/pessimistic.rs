//! `TransactionDb`: transactions that lock keys as they use them.
//!
//! Writes outside of transactions lock their keys too, for as long as they take; a batch locks its
//! keys in their order, so two batches never wait for each other. What goes through
//! [`TransactionDb::db`] locks nothing.
//!
//! Thread safety: from any task. Calls that lock may suspend. Differences from RocksDB: single
//! deletions in a batch lock their keys, in all column families; a commit that fails leaves the
//! transaction as it was.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use pumice_base::key::U64_TS_LEN;
use pumice_base::planted::{self, Bug};
use pumice_base::{Comparator, Error, ErrorKind, SubCode, ValueType};
use pumice_port::sync::Mutex;
use pumice_port::time::now_micros;

use crate::commit::batch::BatchRecord;
use crate::db::api::Db;
use crate::db::forms::*;
use crate::engine::open::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME};
use crate::engine::two_phase::take_recovered;
use crate::lock_order;
use crate::locks::{
    DeadlockPath, HeldLock, Holder, LockOptions, LockTables, TransactionState, Wait, Wanted,
};
use crate::options::{ColumnFamilyOptions, DbOptions, Options};
use crate::recovery::lock::Mode;
use crate::snapshot::Snapshot;
use crate::transactions::builders::{TransactionDbBuilder, with_history};
use crate::transactions::calls::calls_of_db;
use crate::transactions::content::{Content, Control, Inner, Use, new_holder};
use crate::transactions::options::{
    RetryOptions, TransactionDbOptions, TransactionOptions, TxnDbWritePolicy,
};
use crate::transactions::retry;
use crate::transactions::transaction::Transaction;
use crate::transactions::two_phase::{self, Names};
use crate::transactions::validate::check_unchanged;

/// What the handles of a database share besides the database.
pub(super) struct Pessimistic {
    pub tables: LockTables,
    pub names: Names,
    pub options: TransactionDbOptions,
    runs: AtomicU64,
}

/// A database whose transactions lock keys. See the module head.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::TransactionDb;
/// # let dir = std::env::temp_dir().join(format!("pumice-txn-{}", std::process::id()));
/// let db = TransactionDb::builder(&dir).create(true).open()?;
/// db.put("account:1", "100")?;
/// let transaction = db.transaction();
/// let balance = transaction.get_for_update("account:1")?; // Nobody else changes it now.
/// assert_eq!(balance.as_deref(), Some(&b"100"[..]));
/// transaction.put("account:1", "70")?;
/// transaction.put("account:2", "30")?;
/// transaction.commit()?; // Both, or, without it, neither.
/// assert_eq!(db.get("account:2")?.as_deref(), Some(&b"30"[..]));
/// # drop(transaction);
/// # db.db().close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TransactionDb {
    db: Db,
    locks: Arc<Pessimistic>,
    /// Prepared transactions that the open found. Held by the handles alone, as they hold the
    /// database.
    recovered: Arc<Mutex<Vec<Transaction>>>,
}

store_forms!(TransactionDb);

impl std::fmt::Debug for TransactionDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionDb").field("db", &self.db).finish_non_exhaustive()
    }
}

impl TransactionDb {
    /// Begins to describe a database to be opened. Nothing is read or written yet.
    pub fn builder(path: impl Into<PathBuf>) -> TransactionDbBuilder {
        TransactionDbBuilder::new(path.into())
    }

    /// Opens or creates a database with only the default column family.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open(
        options: &Options,
        transactions: &TransactionDbOptions,
        path: impl AsRef<Path>,
    ) -> Result<TransactionDb> {
        let only = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.cf.clone());
        Ok(Self::open_cf(&options.db, transactions, path, &[only])?.0)
    }

    /// As [`Db::open_cf`].
    ///
    /// # Errors
    /// As there.
    pub fn open_cf(
        options: &DbOptions,
        transactions: &TransactionDbOptions,
        path: impl AsRef<Path>,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<(TransactionDb, Vec<ColumnFamily>)> {
        let mut families = families.to_vec();
        families.iter_mut().for_each(|family| with_history(&mut family.options));
        let (db, handles) = Db::open_with(options, path.as_ref(), &families, Mode::TwoPhase)?;
        Ok((Self::over(db, transactions.clone())?, handles))
    }

    pub(super) fn over(db: Db, options: TransactionDbOptions) -> Result<Self> {
        for cf in db.inner().cfs.load().all() {
            check_timestamps(cf.comparator(), &options)?;
        }
        if options.write_policy != TxnDbWritePolicy::default() {
            db.inner().reports.warn(format_args!(
                "write_policy {:?} runs as {:?}",
                options.write_policy,
                TxnDbWritePolicy::default()
            ));
        }
        let tables = LockTables::new(LockOptions {
            locks_max: usize::try_from(options.max_num_locks).ok().filter(|most| *most > 0),
            stripes: options.num_stripes,
            deadlocks_max: options.max_num_deadlocks as usize,
        });
        let names = Names::default();
        let locks = Arc::new(Pessimistic { tables, names, options, runs: AtomicU64::new(1) });
        let found = take_recovered(db.inner());
        let transactions: Result<Vec<_>> = found
            .iter()
            .map(|section| Ok(Transaction::of(two_phase::recovered(&db, &locks, section)?)))
            .collect();
        let recovered = Arc::new(Mutex::ranked(&lock_order::RECOVERED_TRANSACTIONS, transactions?));
        Ok(TransactionDb { db, locks, recovered })
    }

    /// The transactions that are prepared and neither committed nor rolled back, by name: those of
    /// this open and those that it found in the logs.
    pub fn prepared_transactions(&self) -> Vec<Transaction> {
        let is_prepared = |found: &Transaction| found.state() == TransactionState::Prepared;
        self.recovered.lock().retain(is_prepared);
        self.locks.names.prepared().into_iter().map(Transaction::of).collect()
    }

    /// The transaction with that name, if it has not ended.
    pub fn transaction_by_name(&self, name: impl AsRef<[u8]>) -> Option<Transaction> {
        self.locks.names.get(name.as_ref()).map(Transaction::of)
    }

    /// The plain database, for calls that read and write no values. Writes there lock nothing.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The column family that calls without one use.
    pub fn default_column_family(&self) -> &ColumnFamily {
        self.db.default_column_family()
    }

    /// Begins a transaction with the default options.
    #[must_use = "dropped, it is rolled back"]
    pub fn transaction(&self) -> Transaction {
        self.transaction_opt(&WRITE_DEFAULT, &TransactionOptions::default())
    }

    /// Begins a transaction whose commit writes with the options `write`.
    #[must_use = "dropped, it is rolled back"]
    pub fn transaction_opt(
        &self,
        write: &WriteOptions,
        options: &TransactionOptions,
    ) -> Transaction {
        let content = Content::new(&self.db, write, options);
        let control = Control::Locks(Arc::clone(&self.locks));
        Transaction::new(Inner::new(self.db.clone(), control, content))
    }

    /// Runs `body` in a transaction and commits it. If others were in its way (Busy, TryAgain, a
    /// deadlock) all of it is repeated, with pauses that grow. Deadlocks are searched for. A lock
    /// that others hold too long, TimedOut, is not a reason to repeat.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice::Error> {
    /// # let dir = std::env::temp_dir().join(format!("pumice-run-{}", std::process::id()));
    /// # let db = pumice::TransactionDb::builder(&dir).create(true).open()?;
    /// let visits = db.run(|transaction| {
    ///     let visits = transaction.get_for_update("visits")?.map_or(0, |n| n[0]) + 1;
    ///     transaction.put("visits", [visits])?;
    ///     Ok(visits)
    /// })?;
    /// assert_eq!(visits, 1);
    /// # db.db().close()?;
    /// # pumice::Db::destroy(&Default::default(), &dir)
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `body` and of the commit; the last one, after as many attempts as
    /// [`RetryOptions`] say.
    pub fn run<T>(&self, body: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        let options = TransactionOptions { deadlock_detect: true, ..TransactionOptions::default() };
        self.run_opt(&WRITE_DEFAULT, &options, &RetryOptions::default(), body)
    }

    /// [`TransactionDb::run`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn run_opt<T>(
        &self,
        write: &WriteOptions,
        options: &TransactionOptions,
        retry: &RetryOptions,
        body: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        let begin = || self.transaction_opt(write, options);
        retry::run(retry, &self.locks.runs, begin, body)
    }

    /// Creates a column family.
    ///
    /// # Errors
    /// As [`Db::create_column_family`].
    pub fn create_column_family(
        &self,
        options: &ColumnFamilyOptions,
        name: &str,
    ) -> Result<ColumnFamily> {
        let mut options = options.clone();
        with_history(&mut options);
        check_timestamps(&options.comparator, &self.locks.options)?;
        self.db.create_column_family(&options, name)
    }

    /// Drops a column family. Transactions that use it cannot commit.
    ///
    /// # Errors
    /// As [`Db::drop_column_family`].
    pub fn drop_column_family(&self, cf: &ColumnFamily) -> Result<()> {
        self.db.drop_column_family(cf)
    }

    /// The locks that are held, by column family and key. Each takes, besides its key, some 150
    /// bytes.
    pub fn held_locks(&self) -> Vec<HeldLock> {
        self.locks.tables.held()
    }
    /// The transactions that wait for locks, of those that search for deadlocks.
    pub fn waiting(&self) -> Vec<Wait> {
        self.locks.tables.waiting()
    }
    /// The last deadlocks, the oldest first.
    pub fn deadlocks(&self) -> Vec<DeadlockPath> {
        self.locks.tables.deadlocks()
    }
    /// Remembers so many deadlocks from now on.
    pub fn set_max_num_deadlocks(&self, most: usize) {
        self.locks.tables.remember_deadlocks(most);
    }

    /// Writes while the keys are locked.
    fn locked<'k>(
        &self,
        keys: impl Iterator<Item = (u32, &'k [u8])> + Clone,
        write: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self.locks.options.skip_concurrency_control {
            return write();
        }
        let held = Held { tables: &self.locks.tables, holder: new_holder(-1), keys: keys.clone() };
        let timeout = timeout_of(self.locks.options.default_lock_timeout);
        for (column_family, key) in keys {
            let wanted =
                Wanted { column_family, key, exclusive: true, timeout, deadlock_depth: None };
            self.locks.tables.lock(&held.holder, &wanted)?;
        }
        write()
    }

    fn locked_key(
        &self,
        cf: &ColumnFamily,
        key: &[u8],
        write: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.db.live(cf)?;
        self.locked(std::iter::once((cf.id(), key)), write)
    }
}

/// The locks of a write outside of transactions, which are released in any case.
struct Held<'t, 'k, K: Iterator<Item = (u32, &'k [u8])> + Clone> {
    tables: &'t LockTables,
    holder: Arc<Holder>,
    keys: K,
}

impl<'k, K: Iterator<Item = (u32, &'k [u8])> + Clone> Drop for Held<'_, 'k, K> {
    fn drop(&mut self) {
        for (family, key) in self.keys.clone() {
            self.tables.unlock(&self.holder, family, [key]);
        }
    }
}

/// Refuses keys with timestamps that a transaction does not set.
///
/// # Errors
/// InvalidArgument, NotSupported.
fn check_timestamps(order: &Comparator, options: &TransactionDbOptions) -> Result<()> {
    match order.timestamp_size() {
        0 => Ok(()),
        U64_TS_LEN if options.write_policy != TxnDbWritePolicy::WriteCommitted => {
            Err(Error::not_supported("Only WriteCommittedTxn supports timestamp"))
        }
        U64_TS_LEN => Ok(()),
        size => Err(Error::invalid_argument(format!(
            "Timestamp of transaction must have {U64_TS_LEN} bytes. CF comparator {} timestamp \
             size is {size} bytes",
            order.name()
        ))),
    }
}

/// A time limit from an option in milliseconds.
fn timeout_of(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

impl Pessimistic {
    /// Refuses a read for update of a key with a timestamp whose check would not be by that.
    ///
    /// # Errors
    /// InvalidArgument.
    pub fn check_read_time(&self, content: &Content, validate: bool) -> Result<()> {
        let text = match (self.options.enable_udt_validation, content.read_timestamp) {
            (false, Some(_)) => {
                "read_timestamp is set but timestamp validation is disabled for the DB"
            }
            (true, Some(_)) if !validate => {
                "If do_validate is false then GetForUpdate with read_timestamp is not defined."
            }
            (true, None) if validate => "read_timestamp must be set for validation",
            _ => return Ok(()),
        };
        Err(Error::invalid_argument(text))
    }

    /// Sets the time of the updates.
    ///
    /// # Errors
    /// InvalidArgument if it is not after that of the reads.
    pub fn set_commit_timestamp(&self, content: &mut Content, time: u64) -> Result<()> {
        let reads = content.read_timestamp.filter(|_| self.options.enable_udt_validation);
        if reads.is_some_and(|reads| time <= reads) {
            return Err(Error::invalid_argument(
                "Cannot commit at timestamp smaller than or equal to read timestamp",
            ));
        }
        content.commit_timestamp = Some(time).filter(|time| *time < u64::MAX);
        Ok(())
    }

    /// Locks `key` for a transaction, checks it if that is wanted, and notes its use.
    pub fn acquire(
        &self,
        db: &Db,
        content: &mut Content,
        cf: &ColumnFamily,
        key: &[u8],
        how: Use,
    ) -> Result<()> {
        if content.options.skip_concurrency_control || self.options.skip_concurrency_control {
            return Ok(());
        }
        let known = content.used.get(cf.id(), key);
        let upgrade = known.is_some_and(|known| !known.exclusive && how.exclusive);
        let mut wanted = Wanted { exclusive: how.exclusive, ..self.wanted(content, cf.id(), key) };
        if known.is_none() || upgrade {
            self.tables.lock(&content.holder, &wanted)?;
        }
        content.take_wanted_snapshot(db);
        let by_time = self.options.enable_udt_validation && cf.data.timestamp_size > 0;
        let read_time = content.read_timestamp.filter(|_| by_time);
        let snapshot = content.snapshot.as_ref().map(Snapshot::sequence_number);
        let since = snapshot.or_else(|| read_time.map(|_| db.latest_sequence_number()));
        let sequence = match (since.filter(|_| how.validate), known) {
            (None, Some(known)) => known.sequence,
            (None, None) => db.latest_sequence_number(),
            (Some(since), Some(known)) if snapshot.is_some() && known.sequence <= since => {
                known.sequence
            }
            (Some(since), _) => {
                if let Err(error) = check_unchanged(&cf.data, key, since, read_time, true) {
                    if known.is_none() {
                        self.tables.unlock(&content.holder, cf.id(), [key]);
                    } else if upgrade {
                        // Back to what it was: it is the only holder, so nobody is in the way.
                        wanted.exclusive = false;
                        self.tables.lock(&content.holder, &wanted)?;
                    }
                    return Err(error);
                }
                since
            }
        };
        content.track(cf.id(), key, sequence, how);
        Ok(())
    }

    /// How a transaction asks for a lock.
    pub fn wanted<'k>(&self, content: &Content, column_family: u32, key: &'k [u8]) -> Wanted<'k> {
        let TransactionOptions { lock_timeout, deadlock_detect, deadlock_detect_depth, .. } =
            content.options;
        Wanted {
            column_family,
            key,
            exclusive: true,
            timeout: timeout_of(match lock_timeout {
                own @ 0.. => own,
                _ => self.options.transaction_lock_timeout,
            }),
            deadlock_depth: deadlock_detect
                .then(|| usize::try_from(deadlock_detect_depth).unwrap_or(0)),
        }
    }

    /// Releases all that a transaction has locked.
    pub fn release(&self, content: &Content) {
        for (family, keys) in content.used.keys() {
            self.tables.unlock(&content.holder, family, keys);
        }
        for family in &content.used.ranges {
            self.tables.unlock_ranges(&content.holder, *family);
        }
    }

    pub fn commit(&self, inner: &Inner, content: &mut Content) -> Result<()> {
        let holder = Arc::clone(&content.holder);
        if planted::is(Bug::StolenLockUsed) {
            holder.change(TransactionState::LocksStolen, TransactionState::Started);
        } else if holder.is_expired(now_micros()) {
            return Err(expired());
        }
        match holder.state() {
            TransactionState::Started if !content.options.skip_prepare => {
                let error = Error::new(ErrorKind::InvalidArgument, "");
                return Err(error.with_subcode(SubCode::TxnNotPrepared));
            }
            TransactionState::Started => {}
            TransactionState::Prepared => return self.commit_prepared(inner, content),
            state => return Err(cannot_commit(state)),
        }
        if content.prepared.beside.as_ref().is_some_and(|beside| !beside.is_empty()) {
            let text = "Commit-time batch contains values that will not be committed.";
            return Err(Error::invalid_argument(text));
        }
        inner.stamp(content)?;
        if content.wish.wanted && content.commit_timestamp.is_none() {
            return Err(Error::invalid_argument("Must set transaction commit timestamp"));
        }
        if !holder.change(TransactionState::Started, TransactionState::AwaitingCommit) {
            return Err(expired());
        }
        if planted::is(Bug::LockReleasedBeforePublish) {
            inner.release_all(content);
        }
        let written = inner.batch.with_mut(|batch| {
            Store::write(&inner.db, &content.write_options, batch.write_batch_mut())
        });
        if let Err(error) = written {
            holder.change(TransactionState::AwaitingCommit, TransactionState::Started);
            return Err(error);
        }
        content.committed_at = Some(inner.db.latest_sequence_number());
        content.take_wanted_snapshot(&inner.db);
        if !content.name.is_empty() {
            self.names.forget(&content.name);
        }
        inner.clear(content);
        holder.change(TransactionState::AwaitingCommit, TransactionState::Committed);
        Ok(())
    }

    pub fn rollback(&self, inner: &Inner, content: &mut Content) -> Result<()> {
        match content.holder.state() {
            TransactionState::Started => {
                inner.clear(content);
                Ok(())
            }
            TransactionState::Prepared => self.rollback_prepared(inner, content),
            TransactionState::Committed => {
                Err(Error::invalid_argument("This transaction has already been committed."))
            }
            _ => {
                Err(Error::invalid_argument("Two phase transaction is not in state for rollback."))
            }
        }
    }
}

pub(super) fn expired() -> Error {
    Error::new(ErrorKind::Expired, "")
}

pub(super) fn cannot_commit(state: TransactionState) -> Error {
    Error::invalid_argument(match state {
        TransactionState::Committed => "Transaction has already been committed.",
        TransactionState::RolledBack => "Transaction has already been rolledback.",
        TransactionState::LocksStolen => return expired(),
        _ => "Transaction is not in state for commit.",
    })
}

/// The keys of a batch, in the order in which they are locked.
fn keys_of(updates: &WriteBatch) -> Result<BTreeSet<(u32, &[u8])>> {
    let mut keys = BTreeSet::new();
    for record in updates.iter() {
        match record? {
            BatchRecord::Entry { value_type: ValueType::RangeDeletion, .. } => {
                return Err(Error::invalid_argument("DeleteRangeCF not implemented"));
            }
            BatchRecord::Entry { column_family, key, .. } => {
                keys.insert((column_family, key));
            }
            BatchRecord::LogData(_) | BatchRecord::Marker(..) => {}
        }
    }
    Ok(keys)
}

impl Store for TransactionDb {
    // A range cannot be locked.
    calls_of_db!(Self::locked_key);

    /// Range deletions are refused, unless the database has `skip_concurrency_control`.
    fn write(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
        updates.status()?;
        updates.check_owner(&**self.db.inner())?;
        if self.locks.options.skip_concurrency_control {
            return Store::write(&self.db, options, updates);
        }
        // The batch's bytes are taken from it while it is written.
        let keys: Vec<(u32, Vec<u8>)> =
            keys_of(updates)?.into_iter().map(|(family, key)| (family, key.to_vec())).collect();
        let families = self.db.inner().cfs.load();
        let timed = |id| families.by_id(id).is_some_and(|cf| cf.timestamp_size > 0);
        if updates.has_timestamps() || keys.iter().any(|(family, _)| timed(*family)) {
            return Err(Error::not_supported(
                "Writes with timestamp must go through transaction API instead of TransactionDB.",
            ));
        }
        drop(families);
        let keys = keys.iter().map(|(family, key)| (*family, key.as_slice()));
        self.locked(keys, || Store::write(&self.db, options, updates))
    }
}
