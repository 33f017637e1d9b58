//! Keys with timestamps: comparators, writes and reads at a time, how far back reads go.

use std::ffi::c_char;

use pumice::{ColumnFamily, PinnedSlice, Result, SharedBatch, WriteBatch};
use pumice_binding::batch::Batch;
use pumice_binding::cursor::Iterator;
use pumice_binding::database::Database;
use pumice_binding::requests::WriteOptions;
use pumice_binding::status::of_write;

use crate::ffi::callback::{DestroyFn, NameFn};
use crate::ffi::from::{Out, State};
use crate::ffi::into::{Copied, IntoC, Lent, New, Slice};
use crate::ffi::lists::TimedResult;
use crate::ffi::macros::c_api;
use crate::ffi::order::{BareCompareFn, CompareFn, TimedOrder, c_timed_order};
use crate::ffi::types::{Family, Order, ReadOptions, Writer};
use crate::ffi::walk::{TimestampSizeFn, timestamp_size};

/// Writes one update.
fn update(db: &Database, options: &WriteOptions, fill: impl FnOnce(&mut WriteBatch)) -> Result<()> {
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    db.write(options.engine(), &mut batch).map_err(of_write)
}

/// The value of a key with its timestamp; of a key that is not found the length of the timestamp
/// is 0.
fn get(
    db: &Database,
    options: &ReadOptions,
    cf: &ColumnFamily,
    key: &[u8],
    (mut length, mut timestamp, mut timestamp_length): (
        Out<'_, usize>,
        Out<'_, *mut c_char>,
        Out<'_, usize>,
    ),
) -> Result<Option<Copied>> {
    let options = options.point();
    let found = options.and_then(|options| db.db().get_with_timestamp(&options, cf, key));
    let found = found.inspect_err(|_| {
        length.set(0);
        timestamp_length.set(0);
    })?;
    length.set(found.as_ref().map_or(0, |(value, _)| value.len()));
    timestamp_length.set(found.as_ref().map_or(0, |(_, time)| time.len()));
    if let Some((_, time)) = &found {
        timestamp.set(IntoC::into_c(Some(Copied::of(time))));
    }
    Ok(found.map(|(value, _)| Copied::of(&value)))
}

/// The values of many keys with their timestamps, which are empty where keys have none.
pub(super) fn read_many_timed(
    db: &Database,
    options: &ReadOptions,
    keys: &[&[u8]],
    families: &[&Family],
) -> Vec<TimedResult> {
    if !options.has_timestamp() {
        let untimed = |found: Option<PinnedSlice>| found.map(|value| (value, Vec::new()));
        let results = super::reads::read_many(db, options, keys, families);
        return results.into_iter().map(|result| result.map(untimed)).collect();
    }
    let family = |at: usize| families.get(at).map_or(db.default_family(), |family| &family.0);
    let pairs: Vec<_> = keys.iter().enumerate().map(|(at, key)| (family(at), *key)).collect();
    match options.point() {
        Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        Ok(options) => db.db().multi_get_with_timestamp(&options, &pairs),
    }
}

c_api! {
    fn rocksdb_comparator_with_ts_create(
        state: State, destroy: DestroyFn, compare: CompareFn, compare_ts: CompareFn,
        compare_without_ts: BareCompareFn, name: NameFn, timestamp_size: usize
    ) -> New<Order> {
        let times = TimedOrder { compare_ts, compare_without_ts, timestamp_size };
        New(c_timed_order(state, destroy, compare, times, name))
    }

    fn rocksdb_put_with_ts(
        db: &Database, options: &WriteOptions, key: Bytes, timestamp: Bytes, value: Bytes,
        errptr: Fail
    ) {
        let cf = db.default_family();
        update(db, options, |batch| batch.put_cf_with_ts(cf, key, timestamp, value))
    }

    fn rocksdb_put_cf_with_ts(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, timestamp: Bytes,
        value: Bytes, errptr: Fail
    ) {
        update(db, options, |batch| batch.put_cf_with_ts(&cf.0, key, timestamp, value))
    }

    fn rocksdb_delete_with_ts(
        db: &Database, options: &WriteOptions, key: Bytes, timestamp: Bytes, errptr: Fail
    ) {
        let cf = db.default_family();
        update(db, options, |batch| batch.delete_cf_with_ts(cf, key, timestamp))
    }

    fn rocksdb_delete_cf_with_ts(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, timestamp: Bytes,
        errptr: Fail
    ) {
        update(db, options, |batch| batch.delete_cf_with_ts(&cf.0, key, timestamp))
    }

    fn rocksdb_singledelete_with_ts(
        db: &Database, options: &WriteOptions, key: Bytes, timestamp: Bytes, errptr: Fail
    ) {
        let cf = db.default_family();
        update(db, options, |batch| batch.single_delete_cf_with_ts(cf, key, timestamp))
    }

    fn rocksdb_singledelete_cf_with_ts(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, timestamp: Bytes,
        errptr: Fail
    ) {
        update(db, options, |batch| batch.single_delete_cf_with_ts(&cf.0, key, timestamp))
    }

    fn rocksdb_get_with_ts(
        db: &Database, options: &ReadOptions, key: Bytes, length: Out<'_, usize>,
        timestamp: Out<'_, *mut c_char>, timestamp_length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        get(db, options, db.default_family(), key, (length, timestamp, timestamp_length))
    }

    fn rocksdb_get_cf_with_ts(
        db: &Database, options: &ReadOptions, cf: &Family, key: Bytes, length: Out<'_, usize>,
        timestamp: Out<'_, *mut c_char>, timestamp_length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        get(db, options, &cf.0, key, (length, timestamp, timestamp_length))
    }

    fn rocksdb_multi_get_with_ts(db: &Database, options: &ReadOptions, read: TimedGet) {
        let keys = read.read.keys.clone();
        let results = read_many_timed(db, options, &keys, &[]);
        read.fill(results, |_| Ok(false));
    }

    fn rocksdb_multi_get_cf_with_ts(db: &Database, options: &ReadOptions, read: TimedGetCf) {
        let (keys, families) = (read.read.keys.clone(), read.read.families.clone());
        let results = read_many_timed(db, options, &keys, &families);
        read.fill(results, |_| Ok(false));
    }

    fn rocksdb_iter_timestamp(iterator: &Iterator, length: Out<'_, usize>) -> Lent {
        let mut length = length;
        let timestamp = iterator.timestamp();
        length.set(timestamp.len());
        Lent::of(timestamp)
    }

    fn rocksdb_iter_timestamp_slice(iterator: &Iterator) -> Slice {
        Slice::of(iterator.timestamp())
    }

    fn rocksdb_increase_full_history_ts_low(
        db: &Database, cf: &Family, timestamp: Bytes, errptr: Fail
    ) {
        db.db().increase_full_history_ts_low(&cf.0, timestamp)
    }

    fn rocksdb_get_full_history_ts_low(
        db: &Database, cf: &Family, length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        let mut length = length;
        length.set(0);
        let low = db.db().full_history_ts_low(&cf.0)?.unwrap_or_default();
        length.set(low.len());
        Ok(Some(Copied::of(&low)))
    }

    fn rocksdb_writebatch_put_cf_with_ts(
        batch: &mut Batch, cf: &Family, key: Bytes, timestamp: Bytes, value: Bytes
    ) {
        batch.add(|updates| updates.put_cf_with_ts(&cf.0, key, timestamp, value));
    }

    fn rocksdb_writebatch_delete_cf_with_ts(
        batch: &mut Batch, cf: &Family, key: Bytes, timestamp: Bytes
    ) {
        batch.add(|updates| updates.delete_cf_with_ts(&cf.0, key, timestamp));
    }

    fn rocksdb_writebatch_singledelete_cf_with_ts(
        batch: &mut Batch, cf: &Family, key: Bytes, timestamp: Bytes
    ) {
        batch.add(|updates| updates.single_delete_cf_with_ts(&cf.0, key, timestamp));
    }

    fn rocksdb_writebatch_update_timestamps(
        batch: &mut Batch, timestamp: Bytes, state: State, size: TimestampSizeFn, errptr: Fail
    ) {
        batch.updates.update_timestamps(timestamp, |cf| timestamp_size(size, state, cf))
    }

    fn rocksdb_writebatch_wi_update_timestamps(
        batch: &SharedBatch, timestamp: Bytes, state: State, size: TimestampSizeFn, errptr: Fail
    ) {
        batch.with_mut(|batch| {
            batch.update_timestamps(timestamp, |cf| timestamp_size(size, state, cf))
        })
    }

    fn rocksdb_sstfilewriter_put_with_ts(
        writer: &mut Writer, key: Bytes, timestamp: Bytes, value: Bytes, errptr: Fail
    ) {
        writer.get()?.put_with_ts(key, timestamp, value)
    }

    fn rocksdb_sstfilewriter_delete_with_ts(
        writer: &mut Writer, key: Bytes, timestamp: Bytes, errptr: Fail
    ) {
        writer.get()?.delete_with_ts(key, timestamp)
    }
}
