//! Transactions.
//!
//! A handle is used by one task at a time. What `get_writebatch_wi` and `get_snapshot` give are
//! blocks with the bits of objects that the transaction keeps until it is destroyed.

use pumice::{PinnedSlice, Result, SharedBatch, Transaction, WriteBatchWithIndex};
use pumice_binding::batch::Batch;
use pumice_binding::cursor::Iterator;
use pumice_binding::database::{Begin, Database};
use pumice_binding::requests::WriteOptions;
use pumice_binding::status::of_write;
use pumice_binding::store::Fields;
use pumice_binding::transactions;

use crate::api::reads::copied;
use crate::ffi::from::Out;
use crate::ffi::generated::{
    rocksdb_optimistictransaction_options_t, rocksdb_transaction_options_t,
};
use crate::ffi::into::{Alias, Begun, Copied, New, NewList, Part};
use crate::ffi::lists::MultiGet;
use crate::ffi::macros::c_api;
use crate::ffi::spare::Held;
use crate::ffi::types::{Family, GivenSnapshot, OpenTransaction, Pinned, ReadOptions};

type Found = Result<Option<PinnedSlice>>;

/// Begins a transaction, in the handle of an old one if there is one.
fn begun(
    db: &Database,
    write: &WriteOptions,
    options: &Begin,
    old: Option<&mut OpenTransaction>,
) -> Option<Begun<OpenTransaction>> {
    let transaction = db.begin(write.engine(), options)?;
    Some(match old {
        None => Begun::New(OpenTransaction::new(transaction)),
        Some(old) => {
            old.transaction = transaction;
            Begun::Old(Part::of(Some(old)))
        }
    })
}

fn get(
    transaction: &OpenTransaction,
    options: &ReadOptions,
    cf: Option<&Family>,
    key: &[u8],
) -> Found {
    let (options, transaction) = (&*options.point()?, &transaction.transaction);
    match cf {
        Some(cf) => transaction.get_cf_opt(options, &cf.0, key),
        None => transaction.get_opt(options, key),
    }
}

fn get_for_update(
    transaction: &OpenTransaction,
    options: &ReadOptions,
    cf: Option<&Family>,
    key: &[u8],
    exclusive: bool,
) -> Found {
    let (options, transaction) = (&*options.point()?, &transaction.transaction);
    let cf = cf.map_or_else(|| pumice::Store::default_column_family(transaction), |cf| &cf.0);
    transaction.get_for_update_cf_opt(options, cf, key, exclusive)
}

fn pinned(found: Found) -> Result<Option<Held<Pinned>>> {
    Ok(found?.map(Held::new))
}

fn read_many(
    transaction: &OpenTransaction,
    options: &ReadOptions,
    read: MultiGet<'_>,
    update: bool,
) {
    let transaction = &transaction.transaction;
    let results = match options.point() {
        Err(error) => read.keys.iter().map(|_| Err(error.clone())).collect(),
        Ok(options) => {
            let default = pumice::Store::default_column_family(transaction);
            let family = |at: usize| read.families.get(at).map_or(default, |family| &family.0);
            let keys: Vec<_> =
                read.keys.iter().enumerate().map(|(at, key)| (family(at), *key)).collect();
            match update {
                true => transaction.multi_get_for_update(&options, &keys),
                false => transaction.multi_get_cf_opt(&options, &keys),
            }
        }
    };
    read.fill(results);
}

fn iterator(transaction: &OpenTransaction, options: &ReadOptions, cf: Option<&Family>) -> Iterator {
    let transaction = &transaction.transaction;
    let cf = cf.map_or_else(|| pumice::Store::default_column_family(transaction), |cf| &cf.0);
    match options.scan().and_then(|options| transaction.cursor_cf_opt(&options, cf)) {
        Ok(cursor) => Iterator::over(cursor),
        Err(error) => Iterator::refused(error),
    }
}

/// Repeats the updates of a batch with index, of which one may be the transaction's own.
fn rebuild(transaction: &Transaction, batch: &SharedBatch) -> Result<()> {
    use pumice::BatchView;
    let updates = batch.with(|batch: &WriteBatchWithIndex| batch.write_batch().clone());
    transaction.rebuild_from_write_batch(&updates)
}

c_api! {
    fn rocksdb_transaction_begin(
        db: &Database, write: &WriteOptions, options: &rocksdb_transaction_options_t,
        old: Option<&mut OpenTransaction>
    ) -> Option<Begun<OpenTransaction>> {
        begun(db, write, &Begin::Locking(transactions::locking(options.store())), old)
    }

    fn rocksdb_optimistictransaction_begin(
        db: &Database, write: &WriteOptions,
        options: Option<&rocksdb_optimistictransaction_options_t>,
        old: Option<&mut OpenTransaction>
    ) -> Option<Begun<OpenTransaction>> {
        let options =
            options.map(|options| transactions::optimistic(options.store())).unwrap_or_default();
        begun(db, write, &Begin::Optimistic(options), old)
    }

    fn rocksdb_transaction_set_name(transaction: &OpenTransaction, name: Bytes, errptr: Fail) {
        transaction.transaction.set_name(name)
    }

    fn rocksdb_transaction_get_name(
        transaction: &OpenTransaction, length: Out<'_, usize>
    ) -> Copied {
        let (mut length, name) = (length, transaction.transaction.name());
        length.set(name.len());
        Copied::of(&name)
    }

    fn rocksdb_transaction_prepare(transaction: &OpenTransaction, errptr: Fail) {
        transaction.transaction.prepare()
    }

    fn rocksdb_transactiondb_get_prepared_transactions(
        db: &Database, count: Out<'_, usize>
    ) -> Option<NewList<OpenTransaction>> {
        let (mut count, found) = (count, db.prepared_transactions());
        count.set(found.len());
        if found.is_empty() {
            return None;
        }
        Some(NewList(found.into_iter().map(OpenTransaction::new).collect()))
    }

    fn rocksdb_transaction_commit(transaction: &OpenTransaction, errptr: Fail) {
        transaction.transaction.commit().map_err(of_write)
    }

    fn rocksdb_transaction_rollback(transaction: &OpenTransaction, errptr: Fail) {
        transaction.transaction.rollback()
    }

    // These two have no way to tell an error; a commit without a timestamp that it needs has one.
    fn rocksdb_transaction_set_commit_timestamp(transaction: &OpenTransaction, timestamp: u64) {
        transaction.transaction.set_commit_timestamp(timestamp).ok();
    }

    fn rocksdb_transaction_set_read_timestamp_for_validation(
        transaction: &OpenTransaction, timestamp: u64
    ) {
        transaction.transaction.set_read_timestamp_for_validation(timestamp).ok();
    }

    fn rocksdb_transaction_set_savepoint(transaction: &OpenTransaction) {
        transaction.transaction.set_save_point();
    }

    fn rocksdb_transaction_rollback_to_savepoint(transaction: &OpenTransaction, errptr: Fail) {
        transaction.transaction.rollback_to_save_point()
    }

    fn rocksdb_transaction_put(
        transaction: &OpenTransaction, key: Bytes, value: Bytes, errptr: Fail
    ) {
        transaction.transaction.put(key, value).map_err(of_write)
    }

    fn rocksdb_transaction_put_cf(
        transaction: &OpenTransaction, cf: &Family, key: Bytes, value: Bytes, errptr: Fail
    ) {
        transaction.transaction.put_cf(&cf.0, key, value).map_err(of_write)
    }

    fn rocksdb_transaction_merge(
        transaction: &OpenTransaction, key: Bytes, operand: Bytes, errptr: Fail
    ) {
        transaction.transaction.merge(key, operand).map_err(of_write)
    }

    fn rocksdb_transaction_merge_cf(
        transaction: &OpenTransaction, cf: &Family, key: Bytes, operand: Bytes, errptr: Fail
    ) {
        transaction.transaction.merge_cf(&cf.0, key, operand).map_err(of_write)
    }

    fn rocksdb_transaction_delete(transaction: &OpenTransaction, key: Bytes, errptr: Fail) {
        transaction.transaction.delete(key).map_err(of_write)
    }

    fn rocksdb_transaction_delete_cf(
        transaction: &OpenTransaction, cf: &Family, key: Bytes, errptr: Fail
    ) {
        transaction.transaction.delete_cf(&cf.0, key).map_err(of_write)
    }

    fn rocksdb_transaction_put_log_data(transaction: &OpenTransaction, blob: Bytes) {
        transaction.transaction.put_log_data(blob).ok();
    }

    fn rocksdb_transaction_get(
        transaction: &OpenTransaction, options: &ReadOptions, key: Bytes, length: Out<'_, usize>,
        errptr: Fail
    ) -> Option<Copied> {
        copied(get(transaction, options, None, key), length)
    }

    fn rocksdb_transaction_get_cf(
        transaction: &OpenTransaction, options: &ReadOptions, cf: &Family, key: Bytes,
        length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        copied(get(transaction, options, Some(cf), key), length)
    }

    fn rocksdb_transaction_get_pinned(
        transaction: &OpenTransaction, options: &ReadOptions, key: Bytes, errptr: Fail
    ) -> Option<Held<Pinned>> {
        pinned(get(transaction, options, None, key))
    }

    fn rocksdb_transaction_get_pinned_cf(
        transaction: &OpenTransaction, options: &ReadOptions, cf: &Family, key: Bytes,
        errptr: Fail
    ) -> Option<Held<Pinned>> {
        pinned(get(transaction, options, Some(cf), key))
    }

    fn rocksdb_transaction_get_for_update(
        transaction: &OpenTransaction, options: &ReadOptions, key: Bytes, length: Out<'_, usize>,
        exclusive: bool, errptr: Fail
    ) -> Option<Copied> {
        copied(get_for_update(transaction, options, None, key, exclusive), length)
    }

    fn rocksdb_transaction_get_for_update_cf(
        transaction: &OpenTransaction, options: &ReadOptions, cf: &Family, key: Bytes,
        length: Out<'_, usize>, exclusive: bool, errptr: Fail
    ) -> Option<Copied> {
        copied(get_for_update(transaction, options, Some(cf), key, exclusive), length)
    }

    fn rocksdb_transaction_get_pinned_for_update(
        transaction: &OpenTransaction, options: &ReadOptions, key: Bytes, exclusive: bool,
        errptr: Fail
    ) -> Option<Held<Pinned>> {
        pinned(get_for_update(transaction, options, None, key, exclusive))
    }

    fn rocksdb_transaction_get_pinned_for_update_cf(
        transaction: &OpenTransaction, options: &ReadOptions, cf: &Family, key: Bytes,
        exclusive: bool, errptr: Fail
    ) -> Option<Held<Pinned>> {
        pinned(get_for_update(transaction, options, Some(cf), key, exclusive))
    }

    fn rocksdb_transaction_multi_get(
        transaction: &OpenTransaction, options: &ReadOptions, read: MultiGet
    ) {
        read_many(transaction, options, read, false);
    }

    fn rocksdb_transaction_multi_get_cf(
        transaction: &OpenTransaction, options: &ReadOptions, read: MultiGetCf
    ) {
        read_many(transaction, options, read, false);
    }

    fn rocksdb_transaction_multi_get_for_update(
        transaction: &OpenTransaction, options: &ReadOptions, read: MultiGet
    ) {
        read_many(transaction, options, read, true);
    }

    fn rocksdb_transaction_multi_get_for_update_cf(
        transaction: &OpenTransaction, options: &ReadOptions, read: MultiGetCf
    ) {
        read_many(transaction, options, read, true);
    }

    fn rocksdb_transaction_create_iterator(
        transaction: &OpenTransaction, options: &ReadOptions
    ) -> New<Iterator> {
        New(iterator(transaction, options, None))
    }

    fn rocksdb_transaction_create_iterator_cf(
        transaction: &OpenTransaction, options: &ReadOptions, cf: &Family
    ) -> New<Iterator> {
        New(iterator(transaction, options, Some(cf)))
    }

    fn rocksdb_transaction_get_snapshot(
        transaction: &mut OpenTransaction
    ) -> Option<Alias<GivenSnapshot>> {
        Some(Alias::of(transaction.keep_snapshot()?))
    }

    fn rocksdb_transaction_get_writebatch_wi(
        transaction: &mut OpenTransaction
    ) -> Alias<SharedBatch> {
        Alias::of(transaction.keep_batch())
    }

    fn rocksdb_transaction_rebuild_from_writebatch(
        transaction: &OpenTransaction, batch: &Batch, errptr: Fail
    ) {
        transaction.transaction.rebuild_from_write_batch(&batch.updates).map_err(of_write)
    }

    fn rocksdb_transaction_rebuild_from_writebatch_wi(
        transaction: &OpenTransaction, batch: &SharedBatch, errptr: Fail
    ) {
        rebuild(&transaction.transaction, batch).map_err(of_write)
    }
}
