//! Snapshots of transactions, who hears of them, and what is kept for their commit. A handle is
//! used by one thread at a time.

use std::sync::Arc;

use super::transactions::It;
use crate::callbacks::notifier::JavaNotifier;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::from::Taken;
use crate::ffi::into::New;
use crate::objects::{Notifier, OpenTransaction};

/// Java: Transaction.setSnapshot
pub fn set_snapshot(_env: Env<'_>, it: It<'_>) -> Result<()> {
    it.transaction.set_snapshot();
    Ok(())
}

/// Java: Transaction.setSnapshotOnNextOperation (J)
pub fn set_snapshot_later(_env: Env<'_>, it: It<'_>) -> Result<()> {
    it.transaction.set_snapshot_on_next_operation();
    Ok(())
}

/// Java: Transaction.setSnapshotOnNextOperation (JJ)
pub fn set_snapshot_later_and_tell(
    _env: Env<'_>,
    it: It<'_>,
    notifier: Option<&Notifier>,
) -> Result<()> {
    match notifier {
        Some(notifier) => {
            it.transaction.set_snapshot_on_next_operation_with(notifier.0.clone());
        }
        None => it.transaction.set_snapshot_on_next_operation(),
    }
    Ok(())
}

/// Java: AbstractTransactionNotifier.createNewTransactionNotifier this
pub fn new_notifier(env: Env<'_>, notifier: Object<'_>) -> Result<New<Notifier>> {
    Ok(New(Notifier(Arc::new(JavaNotifier::new(env, notifier)?))))
}

/// Java: AbstractTransactionNotifier.disposeInternal
pub fn end_notifier(_env: Env<'_>, _notifier: Taken<Notifier>) -> Result<()> {
    Ok(())
}

/// Java: Transaction.clearSnapshot
pub fn clear_snapshot(_env: Env<'_>, it: It<'_>) -> Result<()> {
    it.transaction.clear_snapshot();
    Ok(())
}

/// Java: Transaction.getSnapshot
pub fn snapshot(_env: Env<'_>, it: It<'_>) -> Result<i64> {
    Ok(it.snapshot())
}

/// Java: Transaction.getCommitTimeWriteBatch
pub fn commit_time_batch(_env: Env<'_>, it: &mut OpenTransaction) -> Result<i64> {
    Ok(it.beside())
}

/// Java: Transaction.getLogNumber
pub fn log_number(_env: Env<'_>, it: It<'_>) -> Result<u64> {
    Ok(it.log_number.unwrap_or_else(|| it.transaction.log_number()))
}

/// Java: Transaction.setLogNumber
pub fn set_log_number(_env: Env<'_>, it: &mut OpenTransaction, number: u64) -> Result<()> {
    // It is read back; which log is kept for the transaction stays as it is.
    it.log_number = Some(number);
    Ok(())
}
