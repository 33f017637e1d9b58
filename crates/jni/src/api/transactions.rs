//! Transactions. A handle is used by one thread at a time.

use pumice::{BatchView, Error, PinnedSlice, WriteBatchWithIndex};
use pumice_binding::batch::Batch;
use pumice_binding::cursor::Iterator;
use pumice_binding::database::{Begin, Database};
use pumice_binding::status::of_write;
use pumice_binding::store::Fields;
use pumice_binding::transactions;

use crate::api::cursors::scan;
use crate::api::reads::NOT_FOUND;
use crate::callbacks::notifier::Told;
use crate::ffi::call::Result;
use crate::ffi::env::Env;
use crate::ffi::from::{Bytes, Direct, DirectMut, Handle, List, Place};
use crate::ffi::handle;
use crate::ffi::into::{New, NewList};
use crate::objects::{
    Family, OpenTransaction, Order, ReadOptions, SharedBatch, Values, WriteOptions,
};

/// The transaction of a call.
pub type It<'a> = &'a OpenTransaction;

fn begun(db: &Database, write: &WriteOptions, options: &Begin) -> Result<OpenTransaction> {
    let none = || Error::not_supported("the database has no such transactions");
    let transaction = db.begin(write.engine(), options).ok_or_else(none)?;
    let mut made = OpenTransaction::new(transaction, db.clone());
    made.write_options = write.clone();
    made.deadlock_detect = matches!(options, Begin::Locking(options) if options.deadlock_detect);
    Ok(made)
}

fn locking(options: Option<&Values>) -> Begin {
    Begin::Locking(options.map(|it| transactions::locking(it.store())).unwrap_or_default())
}

fn optimistic(options: Option<&Values>) -> Begin {
    Begin::Optimistic(options.map(|it| transactions::optimistic(it.store())).unwrap_or_default())
}

/// Begins a transaction in the handle of an old one.
fn again(db: &Database, write: &WriteOptions, options: &Begin, old: i64) -> Result<i64> {
    *handle::write::<OpenTransaction>(old)? = begun(db, write, options)?;
    Ok(old)
}

/// Java: TransactionDB.beginTransaction (JJ) 0 1 -
/// Java: TransactionDB.beginTransaction (JJJ)
pub fn begin_locking(
    _env: Env<'_>,
    db: &Database,
    write: &WriteOptions,
    options: Option<&Values>,
) -> Result<New<OpenTransaction>> {
    begun(db, write, &locking(options)).map(New)
}

/// Java: TransactionDB.beginTransaction_withOld (JJJ) 0 1 - 2
/// Java: TransactionDB.beginTransaction_withOld (JJJJ)
pub fn begin_locking_again(
    _env: Env<'_>,
    db: &Database,
    write: &WriteOptions,
    options: Option<&Values>,
    old: i64,
) -> Result<i64> {
    again(db, write, &locking(options), old)
}

/// Java: OptimisticTransactionDB.beginTransaction (JJ) 0 1 -
/// Java: OptimisticTransactionDB.beginTransaction (JJJ)
pub fn begin_optimistic(
    _env: Env<'_>,
    db: &Database,
    write: &WriteOptions,
    options: Option<&Values>,
) -> Result<New<OpenTransaction>> {
    begun(db, write, &optimistic(options)).map(New)
}

/// Java: OptimisticTransactionDB.beginTransaction_withOld (JJJ) 0 1 - 2
/// Java: OptimisticTransactionDB.beginTransaction_withOld (JJJJ)
pub fn begin_optimistic_again(
    _env: Env<'_>,
    db: &Database,
    write: &WriteOptions,
    options: Option<&Values>,
    old: i64,
) -> Result<i64> {
    again(db, write, &optimistic(options), old)
}

/// Java: TransactionDB.getAllPreparedTransactions
pub fn prepared(_env: Env<'_>, db: &Database) -> Result<NewList<OpenTransaction>> {
    let found = db.prepared_transactions().into_iter();
    let made = found.map(|transaction| OpenTransaction::new(transaction, db.clone()));
    Ok(NewList(made.collect()))
}

/// Java: TransactionDB.getTransactionByName
pub fn by_name(_env: Env<'_>, db: &Database, name: String) -> Result<Option<New<OpenTransaction>>> {
    let found = db.prepared_transactions().into_iter();
    let mut found = found.filter(|transaction| transaction.name() == name.as_bytes());
    let made = |transaction| New(OpenTransaction::new(transaction, db.clone()));
    Ok(found.next().map(made))
}

/// The column family, or the default one.
pub fn family<'a>(it: It<'a>, cf: Option<&'a Family>) -> &'a pumice::ColumnFamily {
    cf.map_or_else(|| it.database.default_family(), |cf| &cf.0)
}

/// An operation is over, and a notifier is to hear of the snapshot that it took.
pub fn operated<T>(it: It<'_>, result: Result<T>) -> Result<Told<T>> {
    Ok(Told { result, news: it.news() })
}

/// As [`operated`], of an update.
pub fn updated(it: It<'_>, result: pumice::Result<()>) -> Result<Told<()>> {
    operated(it, result.map_err(|error| of_write(error).into()))
}

/// Java: Transaction.commit
pub fn commit(_env: Env<'_>, it: It<'_>) -> Result<Told<()>> {
    it.take_write_options()?;
    it.take_beside()?;
    let committed = it.transaction.commit();
    if committed.is_ok() {
        it.clear_beside();
    }
    updated(it, committed)
}

/// Java: Transaction.prepare
pub fn prepare(_env: Env<'_>, it: It<'_>) -> Result<()> {
    it.take_write_options()?;
    Ok(it.transaction.prepare()?)
}

/// Java: Transaction.rollback
pub fn rollback(_env: Env<'_>, it: It<'_>) -> Result<()> {
    it.transaction.rollback()?;
    it.clear_beside();
    Ok(())
}

/// Java: Transaction.getWriteOptions
pub fn write_options(_env: Env<'_>, it: &mut OpenTransaction) -> Result<i64> {
    Ok(it.write_options())
}

/// Java: Transaction.setWriteOptions
pub fn set_write_options(
    _env: Env<'_>,
    it: &mut OpenTransaction,
    options: &WriteOptions,
) -> Result<()> {
    it.set_write_options(options)
}

/// Java: OptimisticTransactionOptions.setComparator
pub fn set_order(env: Env<'_>, _options: &Values, order: Handle) -> Result<()> {
    // Writes of a transaction have the order of their families anyway.
    order.get::<Order>(env).map(drop)
}

/// Java: Transaction.setSavePoint
pub fn set_save_point(_env: Env<'_>, it: It<'_>) -> Result<()> {
    it.transaction.set_save_point();
    Ok(())
}

/// Java: Transaction.rollbackToSavePoint
pub fn rollback_to_save_point(_env: Env<'_>, it: It<'_>) -> Result<()> {
    Ok(it.transaction.rollback_to_save_point()?)
}

/// Java: Transaction.setName
pub fn set_name(_env: Env<'_>, it: It<'_>, name: String) -> Result<()> {
    Ok(it.transaction.set_name(name)?)
}

/// Java: Transaction.getName
pub fn name(_env: Env<'_>, it: It<'_>) -> Result<String> {
    Ok(String::from_utf8_lossy(&it.transaction.name()).into_owned())
}

/// Java: Transaction.getID|getId
pub fn id(_env: Env<'_>, it: It<'_>) -> Result<u64> {
    Ok(it.transaction.id())
}

/// Java: Transaction.setLockTimeout
pub fn set_lock_timeout(_env: Env<'_>, it: It<'_>, millis: i64) -> Result<()> {
    it.transaction.set_lock_timeout(millis);
    Ok(())
}

/// Java: Transaction.getNumKeys
pub fn num_keys(_env: Env<'_>, it: It<'_>) -> Result<usize> {
    Ok(it.transaction.num_keys())
}

/// Java: Transaction.getNumPuts
pub fn num_puts(_env: Env<'_>, it: It<'_>) -> Result<u64> {
    Ok(it.transaction.counts().0)
}

/// Java: Transaction.getNumDeletes
pub fn num_deletes(_env: Env<'_>, it: It<'_>) -> Result<u64> {
    Ok(it.transaction.counts().1)
}

/// Java: Transaction.getNumMerges
pub fn num_merges(_env: Env<'_>, it: It<'_>) -> Result<u64> {
    Ok(it.transaction.counts().2)
}

/// Java: Transaction.getElapsedTime
pub fn elapsed(_env: Env<'_>, it: It<'_>) -> Result<u64> {
    Ok(it.transaction.elapsed_micros() / 1000)
}

/// Java: Transaction.disableIndexing
pub fn disable_indexing(_env: Env<'_>, it: It<'_>) -> Result<()> {
    it.transaction.disable_indexing();
    Ok(())
}

/// Java: Transaction.enableIndexing
pub fn enable_indexing(_env: Env<'_>, it: It<'_>) -> Result<()> {
    it.transaction.enable_indexing();
    Ok(())
}

fn found(
    it: It<'_>,
    options: &ReadOptions,
    cf: Option<&Family>,
    key: &[u8],
) -> Result<Option<PinnedSlice>> {
    Ok(it.transaction.get_cf_opt(options.point()?, family(it, cf), key)?)
}

/// Java: Transaction.get (JJ[BIIJ)
pub fn get(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    key: Bytes,
    cf: Option<&Family>,
) -> Result<Option<PinnedSlice>> {
    found(it, options, cf, &key)
}

/// Java: Transaction.get (JJ[BII[BIIJ)
pub fn get_into(
    env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    key: Bytes,
    place: Place<'_>,
    cf: Option<&Family>,
) -> Result<i32> {
    found(it, options, cf, &key)?.map_or(Ok(NOT_FOUND), |value| place.fill(env, &value))
}

/// Java: Transaction.getDirect
pub fn get_direct(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    key: Direct<'_>,
    mut place: DirectMut<'_>,
    cf: Option<&Family>,
) -> Result<i32> {
    found(it, options, cf, key.0)?.map_or(Ok(NOT_FOUND), |value| place.fill(&value))
}

/// Reads a key that the transaction is to write.
///
/// # Errors
/// As the engine's.
pub fn for_update(
    it: It<'_>,
    options: &ReadOptions,
    cf: Option<&Family>,
    key: &[u8],
    (exclusive, validate): (bool, bool),
) -> Result<Option<PinnedSlice>> {
    let cf = family(it, cf);
    let options = options.point()?;
    Ok(match validate {
        true => it.transaction.get_for_update_cf_opt(options, cf, key, exclusive)?,
        false => it.transaction.get_for_update_unvalidated(options, cf, key, exclusive)?,
    })
}

/// Java: Transaction.getForUpdate (JJ[BIIJZZ)
pub fn get_for_update(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    key: Bytes,
    cf: Option<&Family>,
    exclusive: bool,
    validate: bool,
) -> Result<Told<Option<PinnedSlice>>> {
    operated(it, for_update(it, options, cf, &key, (exclusive, validate)))
}

/// Java: Transaction.getForUpdate (JJ[BII[BIIJZZ)
#[allow(clippy::too_many_arguments)] // Java's.
pub fn get_for_update_into(
    env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    key: Bytes,
    place: Place<'_>,
    cf: Option<&Family>,
    exclusive: bool,
    validate: bool,
) -> Result<Told<i32>> {
    let found = for_update(it, options, cf, &key, (exclusive, validate));
    let filled =
        |found: Option<PinnedSlice>| found.map_or(Ok(NOT_FOUND), |value| place.fill(env, &value));
    operated(it, found.and_then(filled))
}

/// Java: Transaction.multiGet (JJ[[B)
pub fn multi_get(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    keys: Vec<Vec<u8>>,
) -> Result<Vec<Option<Vec<u8>>>> {
    read_many(it, options, &keys, &[], false)
}

/// Java: Transaction.multiGet (JJ[[B[J)
pub fn multi_get_families(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    keys: Vec<Vec<u8>>,
    families: List<'_, Family>,
) -> Result<Vec<Option<Vec<u8>>>> {
    read_many(it, options, &keys, &families.0, false)
}

/// Java: Transaction.multiGet (JJJ[[B)
pub fn multi_get_family(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    cf: &Family,
    keys: Vec<Vec<u8>>,
) -> Result<Vec<Option<Vec<u8>>>> {
    read_many(it, options, &keys, &vec![cf; keys.len()], false)
}

/// Java: Transaction.multiGetForUpdate (JJ[[B)
pub fn multi_get_for_update(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    keys: Vec<Vec<u8>>,
) -> Result<Told<Vec<Option<Vec<u8>>>>> {
    operated(it, read_many(it, options, &keys, &[], true))
}

/// Java: Transaction.multiGetForUpdate (JJ[[B[J)
pub fn multi_get_for_update_families(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    keys: Vec<Vec<u8>>,
    families: List<'_, Family>,
) -> Result<Told<Vec<Option<Vec<u8>>>>> {
    operated(it, read_many(it, options, &keys, &families.0, true))
}

fn read_many(
    it: It<'_>,
    options: &ReadOptions,
    keys: &[Vec<u8>],
    families: &[&Family],
    update: bool,
) -> Result<Vec<Option<Vec<u8>>>> {
    let options = options.point()?;
    let of = |at: usize| family(it, families.get(at).copied());
    let keys: Vec<_> = keys.iter().enumerate().map(|(at, key)| (of(at), key.as_slice())).collect();
    let results = match update {
        true => it.transaction.multi_get_for_update(options, &keys),
        false => it.transaction.multi_get_cf_opt(options, &keys),
    };
    let value = |result: pumice::Result<Option<PinnedSlice>>| {
        result.map(|found| found.map(PinnedSlice::into_vec))
    };
    Ok(results.into_iter().map(value).collect::<pumice::Result<_>>()?)
}

/// Java: Transaction.getIterator
pub fn iterator(
    _env: Env<'_>,
    it: It<'_>,
    options: &ReadOptions,
    cf: Option<&Family>,
) -> Result<New<Iterator>> {
    let cursor = scan(Some(options))
        .and_then(|options| it.transaction.cursor_cf_opt(&options, family(it, cf)));
    Ok(New(match cursor {
        Ok(cursor) => Iterator::over(cursor),
        Err(error) => Iterator::refused(error),
    }))
}

/// Java: Transaction.put (J[BII[BII) 0 1 2 -
pub fn put(
    _env: Env<'_>,
    it: It<'_>,
    key: Bytes,
    value: Bytes,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.put_cf(family(it, cf), &*key, &*value))
}

/// Java: Transaction.put (J[BII[BIIJZ)
pub fn put_tracked(
    env: Env<'_>,
    it: It<'_>,
    key: Bytes,
    value: Bytes,
    cf: Option<&Family>,
    _assume_tracked: bool,
) -> Result<Told<()>> {
    put(env, it, key, value, cf)
}

/// Java: Transaction.putDirect (JUIIUII) 0 1 2 -
pub fn put_direct(
    _env: Env<'_>,
    it: It<'_>,
    key: Direct<'_>,
    value: Direct<'_>,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.put_cf(family(it, cf), key.0, value.0))
}

/// Java: Transaction.putDirect (JUIIUIIJZ)
pub fn put_direct_tracked(
    env: Env<'_>,
    it: It<'_>,
    key: Direct<'_>,
    value: Direct<'_>,
    cf: Option<&Family>,
    _assume_tracked: bool,
) -> Result<Told<()>> {
    put_direct(env, it, key, value, cf)
}

/// Java: Transaction.merge (J[BII[BII) 0 1 2 -
/// Java: Transaction.merge (J[BII[BIIJZ) 0 1 2 3
pub fn merge(
    _env: Env<'_>,
    it: It<'_>,
    key: Bytes,
    value: Bytes,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.merge_cf(family(it, cf), &*key, &*value))
}

/// Java: Transaction.mergeDirect (JUIIUII) 0 1 2 -
/// Java: Transaction.mergeDirect (JUIIUIIJZ) 0 1 2 3
pub fn merge_direct(
    _env: Env<'_>,
    it: It<'_>,
    key: Direct<'_>,
    value: Direct<'_>,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.merge_cf(family(it, cf), key.0, value.0))
}

/// Java: Transaction.delete (J[BI) 0 1 -
/// Java: Transaction.delete (J[BIJZ) 0 1 2
pub fn delete(_env: Env<'_>, it: It<'_>, key: Bytes, cf: Option<&Family>) -> Result<Told<()>> {
    updated(it, it.transaction.delete_cf(family(it, cf), &*key))
}

/// Java: Transaction.singleDelete (J[BI) 0 1 -
/// Java: Transaction.singleDelete (J[BIJZ) 0 1 2
pub fn single_delete(
    _env: Env<'_>,
    it: It<'_>,
    key: Bytes,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.single_delete_cf(family(it, cf), &*key))
}

/// Java: Transaction.putUntracked (J[BI[BI) 0 1 2 -
/// Java: Transaction.putUntracked (J[BI[BIJ)
pub fn put_untracked(
    _env: Env<'_>,
    it: It<'_>,
    key: Bytes,
    value: Bytes,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.put_untracked(family(it, cf), &*key, &*value))
}

/// Java: Transaction.mergeUntracked
pub fn merge_untracked(
    _env: Env<'_>,
    it: It<'_>,
    key: Bytes,
    value: Bytes,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.merge_untracked(family(it, cf), &*key, &*value))
}

/// Java: Transaction.deleteUntracked (J[BI) 0 1 -
/// Java: Transaction.deleteUntracked (J[BIJ)
pub fn delete_untracked(
    _env: Env<'_>,
    it: It<'_>,
    key: Bytes,
    cf: Option<&Family>,
) -> Result<Told<()>> {
    updated(it, it.transaction.delete_untracked(family(it, cf), &*key))
}

/// Java: Transaction.getState
pub fn state(_env: Env<'_>, it: It<'_>) -> Result<i8> {
    Ok(it.transaction.state() as i8)
}

/// Java: Transaction.putLogData
pub fn put_log_data(_env: Env<'_>, it: It<'_>, blob: Bytes) -> Result<()> {
    Ok(it.transaction.put_log_data(&blob)?)
}

/// Java: Transaction.undoGetForUpdate (J[BI) 0 1 -
/// Java: Transaction.undoGetForUpdate (J[BIJ)
pub fn undo_get_for_update(
    _env: Env<'_>,
    it: It<'_>,
    key: Bytes,
    cf: Option<&Family>,
) -> Result<()> {
    it.transaction.undo_get_for_update(family(it, cf), &*key);
    Ok(())
}

/// Java: Transaction.rebuildFromWriteBatch
pub fn rebuild(_env: Env<'_>, it: It<'_>, batch: &Batch) -> Result<Told<()>> {
    updated(it, it.transaction.rebuild_from_write_batch(&batch.updates))
}

/// Java: Transaction.getWriteBatch
pub fn batch(_env: Env<'_>, it: &mut OpenTransaction) -> Result<i64> {
    Ok(it.batch())
}

/// Java: WriteBatchWithIndex.getWriteBatch
pub fn updates_of<'a>(env: Env<'a>, batch: &SharedBatch) -> Result<crate::ffi::env::Object<'a>> {
    let mut copy = Batch::default();
    copy.updates = batch.with(|batch: &WriteBatchWithIndex| batch.write_batch().clone());
    let arguments = [jni_sys::jvalue { j: handle::give(copy) }, jni_sys::jvalue { z: true }];
    env.construct("org/rocksdb/WriteBatch", "(JZ)V", &arguments)
}
