//! `OptimisticTransactionDb`: transactions that lock nothing and are checked at their commit.
//!
//! A commit locks the keys of the transaction, for as long as it takes, checks that none has
//! changed since the transaction first used it (or since its snapshot), and writes. The check looks
//! only at memtables, flushed ones that are kept for it included
//! (`max_write_buffer_size_to_maintain`): where these do not reach back far enough the commit fails
//! with TryAgain.
//!
//! With `ValidateSerial` nothing is locked: the leader of the write queue checks, and then writes
//! the transaction alone.
//!
//! Thread safety: from any task. Writes outside of transactions go straight to the database and
//! lock nothing: a parallel commit that checks a key at the same moment may miss them, a serial one
//! does not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pumice_base::{Error, ValueType};

use crate::commit::batch::BatchRecord;
use crate::db::api::Db;
use crate::db::forms::*;
use crate::engine::open::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME};
use crate::locks::{Holder, LockOptions, LockTables, Wanted};
use crate::options::{ColumnFamilyOptions, DbOptions, Options};
use crate::snapshot::Snapshot;
use crate::transactions::builders::{OptimisticTransactionDbBuilder, with_history};
use crate::transactions::calls::calls_of_db;
use crate::transactions::content::{Content, Control, Inner, Use, new_holder};
use crate::transactions::options::{
    OccValidationPolicy, OptimisticTransactionDbOptions, OptimisticTransactionOptions,
    RetryOptions, TransactionOptions,
};
use crate::transactions::retry;
use crate::transactions::transaction::Transaction;
use crate::transactions::validate::check_unchanged;

/// Most parts of the lock table of commits.
const STRIPES_MAX: u32 = 64;

/// What the handles of a database share besides the database.
pub(super) struct Optimistic {
    /// The keys of the commits that are under way.
    committing: LockTables,
    policy: OccValidationPolicy,
    runs: AtomicU64,
}

/// A database whose transactions are checked at their commit. See the module head.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::OptimisticTransactionDb;
/// # let dir = std::env::temp_dir().join(format!("pumice-occ-{}", std::process::id()));
/// let db = OptimisticTransactionDb::builder(&dir).create(true).open()?;
/// let (first, second) = (db.transaction(), db.transaction());
/// first.put("seat", "Ada")?; // Neither waits for the other.
/// second.put("seat", "Grace")?;
/// first.commit()?;
/// assert!(second.commit().is_err_and(|error| error.is_busy()));
/// # drop((first, second));
/// # db.db().close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OptimisticTransactionDb {
    db: Db,
    commits: Arc<Optimistic>,
}

store_forms!(OptimisticTransactionDb);

impl std::fmt::Debug for OptimisticTransactionDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OptimisticTransactionDb").field("db", &self.db).finish_non_exhaustive()
    }
}

impl OptimisticTransactionDb {
    /// Begins to describe a database to be opened. Nothing is read or written yet.
    pub fn builder(path: impl Into<PathBuf>) -> OptimisticTransactionDbBuilder {
        OptimisticTransactionDbBuilder::new(path.into())
    }

    /// Opens or creates a database with only the default column family.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open(
        options: &Options,
        transactions: &OptimisticTransactionDbOptions,
        path: impl AsRef<Path>,
    ) -> Result<OptimisticTransactionDb> {
        let only = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.cf.clone());
        Ok(Self::open_cf(&options.db, transactions, path, &[only])?.0)
    }

    /// As [`Db::open_cf`].
    ///
    /// # Errors
    /// As there.
    pub fn open_cf(
        options: &DbOptions,
        transactions: &OptimisticTransactionDbOptions,
        path: impl AsRef<Path>,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<(OptimisticTransactionDb, Vec<ColumnFamily>)> {
        let mut families = families.to_vec();
        families.iter_mut().for_each(|family| with_history(&mut family.options));
        let (db, handles) = Db::open_cf(options, path, &families)?;
        Ok((Self::over(db, transactions), handles))
    }

    pub(super) fn over(db: Db, options: &OptimisticTransactionDbOptions) -> Self {
        let stripes = options.occ_lock_buckets.clamp(1, STRIPES_MAX) as usize;
        let committing =
            LockTables::new(LockOptions { locks_max: None, stripes, deadlocks_max: 0 });
        let (policy, runs) = (options.validate_policy, AtomicU64::new(1));
        let commits = Arc::new(Optimistic { committing, policy, runs });
        OptimisticTransactionDb { db, commits }
    }

    /// The plain database.
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
        self.transaction_opt(&WRITE_DEFAULT, &OptimisticTransactionOptions::default())
    }

    /// Begins a transaction whose commit writes with the options `write`.
    #[must_use = "dropped, it is rolled back"]
    pub fn transaction_opt(
        &self,
        write: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> Transaction {
        let set_snapshot = options.set_snapshot;
        let options = TransactionOptions { set_snapshot, ..TransactionOptions::default() };
        let content = Content::new(&self.db, write, &options);
        let control = Control::Validation(Arc::clone(&self.commits));
        Transaction::new(Inner::new(self.db.clone(), control, content))
    }

    /// Runs `body` in a transaction and commits it. If it was in conflict with others all of it is
    /// repeated, with pauses that grow. See [`TransactionDb::run`](crate::TransactionDb::run).
    ///
    /// # Errors
    /// Those of `body` and of the commit; the last one, after as many attempts as
    /// [`RetryOptions`] say.
    pub fn run<T>(&self, body: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        let options = OptimisticTransactionOptions::default();
        self.run_opt(&WRITE_DEFAULT, &options, &RetryOptions::default(), body)
    }

    /// [`OptimisticTransactionDb::run`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn run_opt<T>(
        &self,
        write: &WriteOptions,
        options: &OptimisticTransactionOptions,
        retry: &RetryOptions,
        body: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        let begin = || self.transaction_opt(write, options);
        retry::run(retry, &self.commits.runs, begin, body)
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
        self.db.create_column_family(&options, name)
    }

    /// A write outside of transactions, which nothing holds up.
    fn as_it_is(
        &self,
        _: &ColumnFamily,
        _: &[u8],
        write: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        write()
    }
}

impl Optimistic {
    /// Notes a use of a key, which the commit checks.
    pub fn acquire(db: &Db, content: &mut Content, cf: &ColumnFamily, key: &[u8], how: Use) {
        if !how.validate {
            return;
        }
        content.take_wanted_snapshot(db);
        let snapshot = content.snapshot.as_ref().map(Snapshot::sequence_number);
        let sequence = snapshot.unwrap_or_else(|| db.latest_sequence_number());
        content.track(cf.id(), key, sequence, how);
    }

    pub fn commit(&self, inner: &Inner, content: &mut Content) -> Result<()> {
        match self.policy {
            OccValidationPolicy::ValidateParallel => self.commit_beside_others(inner, content)?,
            OccValidationPolicy::ValidateSerial => {
                let options = content.write_options;
                // As leader of the write queue: nobody writes between check and write.
                inner.batch.with_mut(|batch| {
                    let check = || check_all(&inner.db, content);
                    inner.db.inner().write_checked(&options, batch.write_batch_mut(), &check)
                })?;
            }
        }
        content.committed_at = Some(inner.db.latest_sequence_number());
        inner.clear(content);
        Ok(())
    }

    /// Checks and writes while the keys are locked.
    fn commit_beside_others(&self, inner: &Inner, content: &Content) -> Result<()> {
        let held = Committing { tables: &self.committing, content, holder: new_holder(-1) };
        // In the order of families and keys: no two commits wait for each other.
        for (column_family, key, _) in content.used.iter() {
            let wanted =
                Wanted { column_family, key, exclusive: true, timeout: None, deadlock_depth: None };
            self.committing.lock(&held.holder, &wanted)?;
        }
        check_all(&inner.db, content)?;
        inner.batch.with_mut(|batch| {
            Store::write(&inner.db, &content.write_options, batch.write_batch_mut())
        })
    }
}

/// Checks that no key of a transaction has changed since it was first used.
fn check_all(db: &Db, content: &Content) -> Result<()> {
    let families = db.inner().cfs.load();
    for (family, key, used) in content.used.iter() {
        let Some(cf) = families.by_id(family) else {
            return Err(Error::column_family_dropped(format!("column family {family}")));
        };
        check_unchanged(cf, key, used.sequence, None, false)?;
    }
    Ok(())
}

/// The locks of a commit under way, which are released in any case.
struct Committing<'a> {
    tables: &'a LockTables,
    content: &'a Content,
    holder: Arc<Holder>,
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        for (family, keys) in self.content.used.keys() {
            self.tables.unlock(&self.holder, family, keys);
        }
    }
}

impl Store for OptimisticTransactionDb {
    calls_of_db!(Self::as_it_is);

    /// Range deletions are refused, as in RocksDB.
    fn write(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
        for record in updates.iter() {
            if let BatchRecord::Entry { value_type: ValueType::RangeDeletion, .. } = record? {
                return Err(Error::not_supported(""));
            }
        }
        Store::write(&self.db, options, updates)
    }
}
