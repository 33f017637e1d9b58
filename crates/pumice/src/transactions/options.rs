//! Options of databases with transactions, and of transactions.
//!
//! Names, defaults and units are RocksDB's. Thread safety: plain data.

/// When and how a transaction's writes reach the memtables.
///
/// Example: that of [`TransactionOptions`](crate::TransactionOptions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TxnDbWritePolicy {
    /// At the commit.
    #[default]
    WriteCommitted = 0,
    /// RocksDB: at the prepare. Here as [`TxnDbWritePolicy::WriteCommitted`], whose logs RocksDB
    /// reads too as long as they hold no prepared transaction.
    WritePrepared = 1,
    /// RocksDB: before the prepare. Here as [`TxnDbWritePolicy::WriteCommitted`].
    WriteUnprepared = 2,
}

/// Options of a [`TransactionDb`](crate::TransactionDb).
///
/// Example: that of [`TransactionOptions`](crate::TransactionOptions).
#[derive(Clone, Debug)]
pub struct TransactionDbOptions {
    /// Most keys locked at a time in a column family; 0 or less: no limit. Default: -1.
    pub max_num_locks: i64,
    /// Deadlocks that are remembered. Default: 5.
    pub max_num_deadlocks: u32,
    /// Parts of a column family's lock table that are used at the same time; 0 is 1. Default: 16.
    pub num_stripes: usize,
    /// Milliseconds that a transaction waits for a lock; 0: it does not; less: for ever. Default:
    /// 1000.
    pub transaction_lock_timeout: i64,
    /// The same for writes outside of transactions. Default: 1000.
    pub default_lock_timeout: i64,
    /// See [`TxnDbWritePolicy`].
    pub write_policy: TxnDbWritePolicy,
    /// Neither writes outside of transactions nor transactions lock keys: whoever writes sees to it
    /// that no two write the same. Default: false.
    pub skip_concurrency_control: bool,
    /// Keys with timestamps are also checked by time, see
    /// [`Transaction::set_read_timestamp_for_validation`]. Default: true.
    ///
    /// [`Transaction::set_read_timestamp_for_validation`]:
    ///     crate::Transaction::set_read_timestamp_for_validation
    pub enable_udt_validation: bool,
}

impl Default for TransactionDbOptions {
    fn default() -> Self {
        TransactionDbOptions {
            max_num_locks: -1,
            max_num_deadlocks: 5,
            num_stripes: 16,
            transaction_lock_timeout: 1000,
            default_lock_timeout: 1000,
            write_policy: TxnDbWritePolicy::default(),
            skip_concurrency_control: false,
            enable_udt_validation: true,
        }
    }
}

/// Options of a transaction of a [`TransactionDb`](crate::TransactionDb).
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-txnoptions-{}", std::process::id()));
/// use pumice::{
///     Transaction, TransactionDb, TransactionDbBuilder, TransactionDbOptions, TransactionOptions,
///     TxnDbWritePolicy, WriteOptions,
/// };
/// let settings = TransactionDbOptions {
///     transaction_lock_timeout: 50, // Milliseconds.
///     write_policy: TxnDbWritePolicy::WriteCommitted,
///     ..Default::default()
/// };
/// let builder: TransactionDbBuilder = TransactionDb::builder(&dir).create(true);
/// let db = builder.transactions(settings).open()?;
/// let options = TransactionOptions { set_snapshot: true, ..Default::default() };
/// let transaction: Transaction = db.transaction_opt(&WriteOptions::default(), &options);
/// db.put("a", "1")?;
/// // It has changed since the snapshot.
/// assert!(transaction.put("a", "2").is_err());
/// transaction.rollback()?;
/// # drop(transaction);
/// # db.db().close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// Take a snapshot at the begin: keys that have changed since cannot be locked. Default: false.
    pub set_snapshot: bool,
    /// Search for deadlocks before waiting for a lock. Default: false, and then the timeout ends
    /// them.
    pub deadlock_detect: bool,
    /// Milliseconds that it waits for a lock; less than 0: the database's
    /// `transaction_lock_timeout`. Default: -1.
    pub lock_timeout: i64,
    /// Milliseconds after the begin from which on it cannot commit and others may take its locks;
    /// less than 0: never. Default: -1.
    pub expiration: i64,
    /// Transactions that a search for deadlocks visits at most. Default: 50.
    pub deadlock_detect_depth: i64,
    /// Most bytes of its writes; 0: no limit but that of batches. Default: 0.
    pub max_write_batch_size: usize,
    /// It takes no locks. Default: false.
    pub skip_concurrency_control: bool,
    /// It may commit without having been prepared. Default: true.
    pub skip_prepare: bool,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions {
            set_snapshot: false,
            deadlock_detect: false,
            lock_timeout: -1,
            expiration: -1,
            deadlock_detect_depth: 50,
            max_write_batch_size: 0,
            skip_concurrency_control: false,
            skip_prepare: true,
        }
    }
}

/// How the commits of an [`OptimisticTransactionDb`](crate::OptimisticTransactionDb) exclude each
/// other.
///
/// Example: that of [`OptimisticTransactionOptions`](crate::OptimisticTransactionOptions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OccValidationPolicy {
    /// One commit at a time.
    ValidateSerial = 0,
    /// Commits that have no key in common run at the same time.
    #[default]
    ValidateParallel = 1,
}

/// Options of an [`OptimisticTransactionDb`](crate::OptimisticTransactionDb).
///
/// Example: that of [`OptimisticTransactionOptions`](crate::OptimisticTransactionOptions).
#[derive(Clone, Debug)]
pub struct OptimisticTransactionDbOptions {
    /// See [`OccValidationPolicy`].
    pub validate_policy: OccValidationPolicy,
    /// RocksDB: mutexes that commits lock. Here commits lock their keys in a lock table, which
    /// takes memory only while they run; the number is the limit of its parts. Default: 2^20.
    pub occ_lock_buckets: u32,
}

impl Default for OptimisticTransactionDbOptions {
    fn default() -> Self {
        let validate_policy = OccValidationPolicy::default();
        OptimisticTransactionDbOptions { validate_policy, occ_lock_buckets: 1 << 20 }
    }
}

/// Options of a transaction of an [`OptimisticTransactionDb`](crate::OptimisticTransactionDb).
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-occ-{}", std::process::id()));
/// use pumice::{
///     OccValidationPolicy, OptimisticTransactionDb, OptimisticTransactionDbBuilder,
///     OptimisticTransactionDbOptions, OptimisticTransactionOptions, WriteOptions,
/// };
/// let settings = OptimisticTransactionDbOptions {
///     validate_policy: OccValidationPolicy::ValidateSerial,
///     ..Default::default()
/// };
/// let builder: OptimisticTransactionDbBuilder =
///     OptimisticTransactionDb::builder(&dir).create(true);
/// let db = builder.transactions(settings).open()?;
/// let options = OptimisticTransactionOptions { set_snapshot: true };
/// let transaction = db.transaction_opt(&WriteOptions::default(), &options);
/// transaction.put("a", "1")?;
/// db.put("a", "2")?;
/// // Somebody was faster.
/// assert!(transaction.commit().is_err());
/// # drop(transaction);
/// # db.db().close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OptimisticTransactionOptions {
    /// Take a snapshot at the begin: the commit fails if a key of the transaction has changed
    /// since, instead of since it was first used. Default: false.
    pub set_snapshot: bool,
}

/// How often and how fast a transaction is repeated, see
/// [`TransactionDb::run`](crate::TransactionDb::run).
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-retry-{}", std::process::id()));
/// use pumice::{RetryOptions, TransactionDb, TransactionOptions, WriteOptions};
/// let db = TransactionDb::builder(&dir).create(true).open()?;
/// let retry = RetryOptions { attempts_max: 3, ..Default::default() };
/// let mut attempts = 0;
/// let (write, options) = (WriteOptions::default(), TransactionOptions::default());
/// db.run_opt(&write, &options, &retry, |transaction| {
///     attempts += 1;
///     transaction.put("a", "1")
/// })?;
/// assert_eq!(attempts, 1);
/// # db.db().close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RetryOptions {
    /// Attempts in all; 0 is 1. Default: 16.
    pub attempts_max: u32,
    /// Microseconds before the second attempt, at most; doubled before each further one. Default:
    /// 200.
    pub first_delay_micros: u64,
    /// Most microseconds before an attempt. Default: 100,000.
    pub delay_micros_max: u64,
}

impl Default for RetryOptions {
    fn default() -> Self {
        RetryOptions { attempts_max: 16, first_delay_micros: 200, delay_micros_max: 100_000 }
    }
}
