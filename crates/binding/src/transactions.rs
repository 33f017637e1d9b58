//! Options of databases with transactions, and of transactions, from their stored values.
//!
//! Thread safety: pure functions. Options that the engine has not are kept and do nothing: those of
//! the policies WritePrepared and WriteUnprepared, and hints of how to commit large transactions.

use pumice::{
    Error, OccValidationPolicy, OptimisticTransactionDbOptions, OptimisticTransactionOptions,
    Result, TransactionDbOptions, TransactionOptions, TxnDbWritePolicy,
};

use crate::store::Store;

/// Options of a database whose transactions lock.
///
/// # Errors
/// InvalidArgument for a policy that there is not.
pub fn locking_database(store: &Store) -> Result<TransactionDbOptions> {
    Ok(TransactionDbOptions {
        max_num_locks: store.int("max_num_locks"),
        max_num_deadlocks: u32::try_from(store.bits("max_num_deadlocks")).unwrap_or(u32::MAX),
        num_stripes: usize::try_from(store.bits("num_stripes")).unwrap_or(usize::MAX).min(1 << 20),
        transaction_lock_timeout: store.int("transaction_lock_timeout"),
        default_lock_timeout: store.int("default_lock_timeout"),
        write_policy: match store.int("write_policy") {
            0 => TxnDbWritePolicy::WriteCommitted,
            1 => TxnDbWritePolicy::WritePrepared,
            2 => TxnDbWritePolicy::WriteUnprepared,
            other => return Err(Error::invalid_argument(format!("write_policy={other}"))),
        },
        skip_concurrency_control: store.flag("skip_concurrency_control"),
        enable_udt_validation: store.flag("enable_udt_validation"),
    })
}

/// Options of a transaction that locks.
pub fn locking(store: &Store) -> TransactionOptions {
    TransactionOptions {
        set_snapshot: store.flag("set_snapshot"),
        deadlock_detect: store.flag("deadlock_detect"),
        lock_timeout: store.int("lock_timeout"),
        expiration: store.int("expiration"),
        deadlock_detect_depth: store.int("deadlock_detect_depth"),
        max_write_batch_size: usize::try_from(store.bits("max_write_batch_size"))
            .unwrap_or(usize::MAX),
        skip_concurrency_control: store.flag("skip_concurrency_control"),
        skip_prepare: store.flag("skip_prepare"),
    }
}

/// Options of a database whose transactions are checked at their commit.
///
/// # Errors
/// InvalidArgument for a policy that there is not.
pub fn optimistic_database(store: &Store) -> Result<OptimisticTransactionDbOptions> {
    Ok(OptimisticTransactionDbOptions {
        validate_policy: match store.int("validate_policy") {
            0 => OccValidationPolicy::ValidateSerial,
            1 => OccValidationPolicy::ValidateParallel,
            other => return Err(Error::invalid_argument(format!("validate_policy={other}"))),
        },
        occ_lock_buckets: u32::try_from(store.bits("occ_lock_buckets")).unwrap_or(u32::MAX),
    })
}

/// Options of a transaction that is checked at its commit.
pub fn optimistic(store: &Store) -> OptimisticTransactionOptions {
    OptimisticTransactionOptions { set_snapshot: store.flag("set_snapshot") }
}
