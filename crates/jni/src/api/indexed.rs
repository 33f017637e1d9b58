//! Write batches with an index.

use pumice::{
    BatchView, Comparator, Error, PinnedSlice, SharedBatch, WriteBatchWithIndex,
    WriteBatchWithIndexOptions,
};
use pumice_binding::batch::Family as In;
use pumice_binding::cursor::Iterator;
use pumice_binding::database::Database;

use crate::api::cursors::scan;
use crate::ffi::call::Result;
use crate::ffi::env::Env;
use crate::ffi::from::{Bytes, Direct, Handle, Taken};
use crate::ffi::into::New;
use crate::objects::{Family, Options, ReadOptions};

use super::callbacks::order_of;

fn made(order: Option<Comparator>, reserved: usize, overwrite_key: bool) -> SharedBatch {
    let mut options = WriteBatchWithIndexOptions {
        // A caller's mistake must not become an allocation that fails.
        reserved_bytes: reserved.min(64 << 20),
        overwrite_key,
        ..WriteBatchWithIndexOptions::default()
    };
    if let Some(order) = order {
        options.backup_comparator = order;
    }
    WriteBatchWithIndex::with_options(&options).into()
}

/// Java: WriteBatchWithIndex.newWriteBatchWithIndex ()
pub fn new(_env: Env<'_>) -> Result<New<SharedBatch>> {
    Ok(New(made(None, 0, false)))
}

/// Java: WriteBatchWithIndex.newWriteBatchWithIndex (Z)
pub fn new_overwriting(_env: Env<'_>, overwrite_key: bool) -> Result<New<SharedBatch>> {
    Ok(New(made(None, 0, overwrite_key)))
}

/// Java: WriteBatchWithIndex.newWriteBatchWithIndex (JBIZ)
pub fn new_ordered(
    env: Env<'_>,
    order: Handle,
    kind: i8,
    reserved: i32,
    overwrite_key: bool,
) -> Result<New<SharedBatch>> {
    let reserved = usize::try_from(reserved).unwrap_or(0);
    Ok(New(made(Some(order_of(env, order, kind)?), reserved, overwrite_key)))
}

fn add(
    batch: &SharedBatch,
    cf: Option<&Family>,
    add: impl FnOnce(&mut WriteBatchWithIndex, In<'_>) -> pumice::Result<()>,
) -> Result<()> {
    let cf = cf.map_or(In::Default(None), |cf| In::Handle(&cf.0));
    Ok(batch.with_mut(|batch| add(batch, cf))?)
}

/// Java: WriteBatchWithIndex.put (J[BI[BI) 0 1 2 -
/// Java: WriteBatchWithIndex.put (J[BI[BIJ)
pub fn put(
    _env: Env<'_>,
    batch: &SharedBatch,
    key: Bytes,
    value: Bytes,
    cf: Option<&Family>,
) -> Result<()> {
    add(batch, cf, |batch, cf| batch.put_cf(cf, &*key, &*value))
}

/// Java: WriteBatchWithIndex.putDirect
pub fn put_direct(
    _env: Env<'_>,
    batch: &SharedBatch,
    key: Direct<'_>,
    value: Direct<'_>,
    cf: Option<&Family>,
) -> Result<()> {
    add(batch, cf, |batch, cf| batch.put_cf(cf, key.0, value.0))
}

/// Java: WriteBatchWithIndex.merge (J[BI[BI) 0 1 2 -
/// Java: WriteBatchWithIndex.merge (J[BI[BIJ)
pub fn merge(
    _env: Env<'_>,
    batch: &SharedBatch,
    key: Bytes,
    value: Bytes,
    cf: Option<&Family>,
) -> Result<()> {
    add(batch, cf, |batch, cf| batch.merge_cf(cf, &*key, &*value))
}

/// Java: WriteBatchWithIndex.delete (J[BI) 0 1 -
/// Java: WriteBatchWithIndex.delete (J[BIJ)
pub fn delete(_env: Env<'_>, batch: &SharedBatch, key: Bytes, cf: Option<&Family>) -> Result<()> {
    add(batch, cf, |batch, cf| batch.delete_cf(cf, &*key))
}

/// Java: WriteBatchWithIndex.deleteDirect
pub fn delete_direct(
    _env: Env<'_>,
    batch: &SharedBatch,
    key: Direct<'_>,
    cf: Option<&Family>,
) -> Result<()> {
    add(batch, cf, |batch, cf| batch.delete_cf(cf, key.0))
}

/// Java: WriteBatchWithIndex.singleDelete (J[BI) 0 1 -
/// Java: WriteBatchWithIndex.singleDelete (J[BIJ)
pub fn single_delete(
    _env: Env<'_>,
    batch: &SharedBatch,
    key: Bytes,
    cf: Option<&Family>,
) -> Result<()> {
    add(batch, cf, |batch, cf| batch.single_delete_cf(cf, &*key))
}

/// Java: WriteBatchWithIndex.deleteRange (J[BI[BI) 0 1 2 -
/// Java: WriteBatchWithIndex.deleteRange (J[BI[BIJ)
pub fn delete_range(
    _env: Env<'_>,
    batch: &SharedBatch,
    start: Bytes,
    end: Bytes,
    cf: Option<&Family>,
) -> Result<()> {
    add(batch, cf, |batch, cf| batch.delete_range_cf(cf, &*start, &*end))
}

/// Java: WriteBatchWithIndex.putLogData
pub fn put_log_data(_env: Env<'_>, batch: &SharedBatch, blob: Bytes) -> Result<()> {
    Ok(batch.with_mut(|batch| batch.put_log_data(&blob))?)
}

/// Java: WriteBatchWithIndex.clear0
pub fn clear(_env: Env<'_>, batch: &SharedBatch) -> Result<()> {
    batch.with_mut(WriteBatchWithIndex::clear);
    Ok(())
}

/// Java: WriteBatchWithIndex.count0
pub fn count(_env: Env<'_>, batch: &SharedBatch) -> Result<i32> {
    Ok(i32::try_from(batch.with(WriteBatchWithIndex::count)).unwrap_or(i32::MAX))
}

/// Java: WriteBatchWithIndex.setMaxBytes
pub fn set_max_bytes(_env: Env<'_>, batch: &SharedBatch, bytes: usize) -> Result<()> {
    batch.with_mut(|batch| batch.set_max_bytes(bytes));
    Ok(())
}

/// Java: WriteBatchWithIndex.setSavePoint0
pub fn set_save_point(_env: Env<'_>, batch: &SharedBatch) -> Result<()> {
    batch.with_mut(WriteBatchWithIndex::set_save_point);
    Ok(())
}

/// Java: WriteBatchWithIndex.rollbackToSavePoint0
pub fn rollback_to_save_point(_env: Env<'_>, batch: &SharedBatch) -> Result<()> {
    let undone = batch.with_mut(WriteBatchWithIndex::rollback_to_save_point);
    Ok(undone.map_err(|_| Error::not_found(""))?)
}

/// Java: WriteBatchWithIndex.popSavePoint
pub fn pop_save_point(_env: Env<'_>, batch: &SharedBatch) -> Result<()> {
    let popped = batch.with_mut(WriteBatchWithIndex::pop_save_point);
    Ok(popped.map_err(|_| Error::not_found(""))?)
}

/// Java: WriteBatchWithIndex.iteratorWithBase
pub fn iterator_with_base(
    _env: Env<'_>,
    batch: &SharedBatch,
    cf: Option<&Family>,
    base: Taken<Iterator>,
    options: Option<&ReadOptions>,
) -> Result<New<Iterator>> {
    let options = scan(options)?;
    let family = cf.map(|cf| cf.0.clone());
    let over = pumice::BaseDeltaIterator::new(batch.clone(), family, *base.0, Some(&options));
    Ok(New(Iterator::over(over)))
}

/// Java: WriteBatchWithIndex.getFromBatch (JJ[BI) 0 1 2 -
/// Java: WriteBatchWithIndex.getFromBatch (JJ[BIJ)
pub fn get(
    _env: Env<'_>,
    batch: &SharedBatch,
    _options: &Options,
    key: Bytes,
    cf: Option<&Family>,
) -> Result<Option<PinnedSlice>> {
    Ok(batch.with(|batch| match cf {
        Some(cf) => batch.get_from_batch_cf(&cf.0, &*key),
        None => batch.get_from_batch(&*key),
    })?)
}

/// Java: WriteBatchWithIndex.getFromBatchAndDB (JJJ[BI) 0 1 2 3 -
/// Java: WriteBatchWithIndex.getFromBatchAndDB (JJJ[BIJ)
pub fn get_through(
    _env: Env<'_>,
    batch: &SharedBatch,
    db: &Database,
    options: &ReadOptions,
    key: Bytes,
    cf: Option<&Family>,
) -> Result<Option<PinnedSlice>> {
    let options = options.point()?;
    let cf = super::family(db, cf);
    Ok(batch.with(|batch| db.get_through(batch, options, cf, &key))?)
}
