//! Write batches with an index.

use pumice::{
    BatchView, Error, Result, SharedBatch, WriteBatchWithIndex, WriteBatchWithIndexOptions,
};
use pumice_binding::batch::{Family as In, walk};
use pumice_binding::cursor::Iterator;
use pumice_binding::database::Database;
use pumice_binding::requests::WriteOptions;
use pumice_binding::status::of_write;

use crate::api::reads::copied;
use crate::ffi::from::{Out, State, Taken, Unused};
use crate::ffi::into::{Copied, Lent, New};
use crate::ffi::macros::c_api;
use crate::ffi::spare::Held;
use crate::ffi::types::{Family, Options, Order, Pinned, ReadOptions};
use crate::ffi::walk::{KeyFn, PutFn, seen_plain};

fn made(
    order: Option<&Order>,
    reserved: usize,
    overwrite_key: bool,
    (max_bytes, protection): (usize, usize),
) -> SharedBatch {
    let mut options = WriteBatchWithIndexOptions {
        // A caller's mistake must not become an allocation that fails.
        reserved_bytes: reserved.min(64 << 20),
        overwrite_key,
        max_bytes,
        ..WriteBatchWithIndexOptions::default()
    };
    if let Some(order) = order {
        options.backup_comparator = order.0.clone();
    }
    let mut batch = WriteBatchWithIndex::with_options(&options);
    if protection > 0 {
        batch.write_batch_mut().protect();
    }
    batch.into()
}

/// Adds an update. The functions have no place for an error: what is refused is left out.
fn add(
    batch: &SharedBatch,
    cf: Option<&Family>,
    add: impl FnOnce(&mut WriteBatchWithIndex, In<'_>) -> Result<()>,
) {
    batch
        .with_mut(|batch| {
            // The order that it was made with says whether keys of the default family have
            // timestamps.
            let order = batch.backup_comparator().clone();
            let timed = (order.timestamp_size() > 0).then_some(&order);
            add(batch, cf.map_or(In::Default(timed), |cf| In::Handle(&cf.0)))
        })
        .ok();
}

/// A cursor over the batch and `base`, which it takes over.
fn over(
    batch: &SharedBatch,
    base: Taken<Iterator>,
    cf: Option<&Family>,
    options: Option<&ReadOptions>,
) -> Iterator {
    let Some(base) = base else {
        return Iterator::refused(Error::invalid_argument("the base iterator is NULL"));
    };
    let options = match options.map(ReadOptions::scan).transpose() {
        Ok(options) => options,
        Err(error) => return Iterator::refused(error),
    };
    let family = cf.map(|cf| cf.0.clone());
    Iterator::over(pumice::BaseDeltaIterator::new(batch.clone(), family, *base, options.as_ref()))
}

fn through(
    batch: &SharedBatch,
    db: &Database,
    options: &ReadOptions,
    cf: &pumice::ColumnFamily,
    key: &[u8],
) -> Result<Option<pumice::PinnedSlice>> {
    let options = &*options.point()?;
    batch.with(|batch| db.get_through(batch, options, cf, key))
}

c_api! {
    fn rocksdb_writebatch_wi_create(reserved: usize, overwrite_key: bool) -> New<SharedBatch> {
        New(made(None, reserved, overwrite_key, (0, 0)))
    }

    fn rocksdb_writebatch_wi_create_with_params(
        order: Option<&Order>, reserved: usize, overwrite_key: bool, max_bytes: usize,
        protection: usize
    ) -> New<SharedBatch> {
        New(made(order, reserved, overwrite_key, (max_bytes, protection)))
    }

    fn rocksdb_writebatch_wi_clear(batch: &SharedBatch) {
        batch.with_mut(WriteBatchWithIndex::clear);
    }

    fn rocksdb_writebatch_wi_count(batch: &SharedBatch) -> i32 {
        i32::try_from(batch.with(WriteBatchWithIndex::count)).unwrap_or(i32::MAX)
    }

    fn rocksdb_writebatch_wi_put(batch: &SharedBatch, key: Bytes, value: Bytes) {
        add(batch, None, |updates, cf| updates.put_cf(cf, key, value));
    }

    fn rocksdb_writebatch_wi_put_cf(batch: &SharedBatch, cf: &Family, key: Bytes, value: Bytes) {
        add(batch, Some(cf), |updates, cf| updates.put_cf(cf, key, value));
    }

    fn rocksdb_writebatch_wi_putv(batch: &SharedBatch, keys: IntKeys, values: IntKeys) {
        add(batch, None, |updates, cf| updates.put_cf(cf, keys.concat(), values.concat()));
    }

    fn rocksdb_writebatch_wi_putv_cf(
        batch: &SharedBatch, cf: &Family, keys: IntKeys, values: IntKeys
    ) {
        add(batch, Some(cf), |updates, cf| updates.put_cf(cf, keys.concat(), values.concat()));
    }

    fn rocksdb_writebatch_wi_merge(batch: &SharedBatch, key: Bytes, operand: Bytes) {
        add(batch, None, |updates, cf| updates.merge_cf(cf, key, operand));
    }

    fn rocksdb_writebatch_wi_merge_cf(
        batch: &SharedBatch, cf: &Family, key: Bytes, operand: Bytes
    ) {
        add(batch, Some(cf), |updates, cf| updates.merge_cf(cf, key, operand));
    }

    fn rocksdb_writebatch_wi_mergev(batch: &SharedBatch, keys: IntKeys, values: IntKeys) {
        add(batch, None, |updates, cf| updates.merge_cf(cf, keys.concat(), values.concat()));
    }

    fn rocksdb_writebatch_wi_mergev_cf(
        batch: &SharedBatch, cf: &Family, keys: IntKeys, values: IntKeys
    ) {
        add(batch, Some(cf), |updates, cf| updates.merge_cf(cf, keys.concat(), values.concat()));
    }

    fn rocksdb_writebatch_wi_delete(batch: &SharedBatch, key: Bytes) {
        add(batch, None, |updates, cf| updates.delete_cf(cf, key));
    }

    fn rocksdb_writebatch_wi_delete_cf(batch: &SharedBatch, cf: &Family, key: Bytes) {
        add(batch, Some(cf), |updates, cf| updates.delete_cf(cf, key));
    }

    fn rocksdb_writebatch_wi_singledelete(batch: &SharedBatch, key: Bytes) {
        add(batch, None, |updates, cf| updates.single_delete_cf(cf, key));
    }

    fn rocksdb_writebatch_wi_singledelete_cf(batch: &SharedBatch, cf: &Family, key: Bytes) {
        add(batch, Some(cf), |updates, cf| updates.single_delete_cf(cf, key));
    }

    fn rocksdb_writebatch_wi_deletev(batch: &SharedBatch, keys: IntKeys) {
        add(batch, None, |updates, cf| updates.delete_cf(cf, keys.concat()));
    }

    fn rocksdb_writebatch_wi_deletev_cf(batch: &SharedBatch, cf: &Family, keys: IntKeys) {
        add(batch, Some(cf), |updates, cf| updates.delete_cf(cf, keys.concat()));
    }

    // Refused, and nothing says so, as in RocksDB.
    fn rocksdb_writebatch_wi_delete_range(batch: &SharedBatch, start: Bytes, end: Bytes) {
        add(batch, None, |updates, cf| updates.delete_range_cf(cf, start, end));
    }

    fn rocksdb_writebatch_wi_delete_range_cf(
        batch: &SharedBatch, cf: &Family, start: Bytes, end: Bytes
    ) {
        add(batch, Some(cf), |updates, cf| updates.delete_range_cf(cf, start, end));
    }

    fn rocksdb_writebatch_wi_delete_rangev(batch: &SharedBatch, _parts: Ranges) {
        add(batch, None, |updates, cf| updates.delete_range_cf(cf, b"", b""));
    }

    fn rocksdb_writebatch_wi_delete_rangev_cf(batch: &SharedBatch, cf: &Family, _parts: Ranges) {
        add(batch, Some(cf), |updates, cf| updates.delete_range_cf(cf, b"", b""));
    }

    fn rocksdb_writebatch_wi_put_log_data(batch: &SharedBatch, blob: Bytes) {
        batch.with_mut(|batch| batch.put_log_data(blob)).ok();
    }

    fn rocksdb_writebatch_wi_iterate(
        batch: &SharedBatch, state: State, put: PutFn, deleted: KeyFn
    ) {
        // A copy: the program's functions may use the batch.
        let updates = batch.with(|batch| batch.write_batch().clone());
        walk(&updates, false, |_, update| seen_plain(state, put, deleted, None, update));
    }

    fn rocksdb_writebatch_wi_data(batch: &SharedBatch, length: Out<'_, usize>) -> Lent {
        let mut length = length;
        batch.with(|batch| {
            length.set(batch.data().len());
            Lent::of(batch.data())
        })
    }

    fn rocksdb_writebatch_wi_set_save_point(batch: &SharedBatch) {
        batch.with_mut(WriteBatchWithIndex::set_save_point);
    }

    fn rocksdb_writebatch_wi_rollback_to_save_point(batch: &SharedBatch, errptr: Fail) {
        batch.with_mut(WriteBatchWithIndex::rollback_to_save_point)
            .map_err(|_| Error::not_found(""))
    }

    fn rocksdb_writebatch_wi_get_from_batch(
        batch: &SharedBatch, _options: Unused<Options>, key: Bytes, length: Out<'_, usize>,
        errptr: Fail
    ) -> Option<Copied> {
        copied(batch.with(|batch| batch.get_from_batch(key)), length)
    }

    fn rocksdb_writebatch_wi_get_from_batch_cf(
        batch: &SharedBatch, _options: Unused<Options>, cf: &Family, key: Bytes,
        length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        copied(batch.with(|batch| batch.get_from_batch_cf(&cf.0, key)), length)
    }

    fn rocksdb_writebatch_wi_get_from_batch_and_db(
        batch: &SharedBatch, db: &Database, options: &ReadOptions, key: Bytes,
        length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        copied(through(batch, db, options, db.default_family(), key), length)
    }

    fn rocksdb_writebatch_wi_get_from_batch_and_db_cf(
        batch: &SharedBatch, db: &Database, options: &ReadOptions, cf: &Family, key: Bytes,
        length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        copied(through(batch, db, options, &cf.0, key), length)
    }

    fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
        batch: &SharedBatch, db: &Database, options: &ReadOptions, key: Bytes, errptr: Fail
    ) -> Option<Held<Pinned>> {
        let found = through(batch, db, options, db.default_family(), key)?;
        Ok(found.map(Held::new))
    }

    fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
        batch: &SharedBatch, db: &Database, options: &ReadOptions, cf: &Family, key: Bytes,
        errptr: Fail
    ) -> Option<Held<Pinned>> {
        Ok(through(batch, db, options, &cf.0, key)?.map(Held::new))
    }

    fn rocksdb_write_writebatch_wi(
        db: &Database, options: &WriteOptions, batch: &SharedBatch, errptr: Fail
    ) {
        batch.with_mut(|batch| db.write(options.engine(), batch.write_batch_mut()))
            .map_err(of_write)
    }

    fn rocksdb_writebatch_wi_create_iterator_with_base(
        batch: &SharedBatch, base: Taken<Iterator>
    ) -> New<Iterator> {
        New(over(batch, base, None, None))
    }

    fn rocksdb_writebatch_wi_create_iterator_with_base_readopts(
        batch: &SharedBatch, base: Taken<Iterator>, options: Option<&ReadOptions>
    ) -> New<Iterator> {
        New(over(batch, base, None, options))
    }

    fn rocksdb_writebatch_wi_create_iterator_with_base_cf(
        batch: &SharedBatch, base: Taken<Iterator>, cf: &Family
    ) -> New<Iterator> {
        New(over(batch, base, Some(cf), None))
    }

    fn rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
        batch: &SharedBatch, base: Taken<Iterator>, cf: &Family, options: Option<&ReadOptions>
    ) -> New<Iterator> {
        New(over(batch, base, Some(cf), options))
    }
}
