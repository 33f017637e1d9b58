//! Write batches.

use pumice::{Error, WriteBatch};
use pumice_binding::batch::{Batch, Family as In};

use crate::ffi::from::{Out, State};
use crate::ffi::into::{Lent, New};
use crate::ffi::macros::c_api;
use crate::ffi::types::Family;
use crate::ffi::walk::{FamilyKeyFn, FamilyPutFn, KeyFn, PutFn, seen_families, seen_plain};

fn add(batch: &mut Batch, cf: Option<&Family>, add: impl FnOnce(&mut WriteBatch, In<'_>)) {
    batch.add_to(cf.map(|cf| &cf.0), add);
}

/// One key and one value of many parts.
fn add_parts(
    batch: &mut Batch,
    cf: Option<&Family>,
    (keys, values): (Vec<&[u8]>, Vec<&[u8]>),
    put: impl FnOnce(&mut WriteBatch, In<'_>, Vec<u8>, Vec<u8>),
) {
    add(batch, cf, |updates, cf| put(updates, cf, keys.concat(), values.concat()));
}

fn ends(ranges: Vec<(&[u8], &[u8])>) -> (Vec<u8>, Vec<u8>) {
    let (starts, ends): (Vec<_>, Vec<_>) = ranges.into_iter().unzip();
    (starts.concat(), ends.concat())
}

c_api! {
    fn rocksdb_writebatch_create_from(data: Bytes) -> New<Batch> {
        New(Batch::from_data(data))
    }

    fn rocksdb_writebatch_create_with_params(
        reserved: usize, max_bytes: usize, protection: usize, timestamp_size: usize
    ) -> New<Batch> {
        let batch = Batch::with_limit(reserved, max_bytes).with_protection(protection);
        New(batch.with_default_timestamps(timestamp_size))
    }

    fn rocksdb_writebatch_clear(batch: &mut Batch) {
        batch.updates.clear();
    }

    fn rocksdb_writebatch_count(batch: &Batch) -> i32 {
        i32::try_from(batch.updates.count()).unwrap_or(i32::MAX)
    }

    fn rocksdb_writebatch_data(batch: &Batch, length: Out<'_, usize>) -> Lent {
        let mut length = length;
        length.set(batch.updates.data().len());
        Lent::of(batch.updates.data())
    }

    fn rocksdb_writebatch_put(batch: &mut Batch, key: Bytes, value: Bytes) {
        add(batch, None, |updates, cf| updates.put_cf(cf, key, value));
    }

    fn rocksdb_writebatch_put_cf(batch: &mut Batch, cf: &Family, key: Bytes, value: Bytes) {
        add(batch, Some(cf), |updates, cf| updates.put_cf(cf, key, value));
    }

    fn rocksdb_writebatch_putv(batch: &mut Batch, keys: IntKeys, values: IntKeys) {
        add_parts(batch, None, (keys, values), |updates, cf, k, v| updates.put_cf(cf, k, v));
    }

    fn rocksdb_writebatch_putv_cf(batch: &mut Batch, cf: &Family, keys: IntKeys, values: IntKeys) {
        add_parts(batch, Some(cf), (keys, values), |updates, cf, k, v| updates.put_cf(cf, k, v));
    }

    fn rocksdb_writebatch_merge(batch: &mut Batch, key: Bytes, operand: Bytes) {
        add(batch, None, |updates, cf| updates.merge_cf(cf, key, operand));
    }

    fn rocksdb_writebatch_merge_cf(batch: &mut Batch, cf: &Family, key: Bytes, operand: Bytes) {
        add(batch, Some(cf), |updates, cf| updates.merge_cf(cf, key, operand));
    }

    fn rocksdb_writebatch_mergev(batch: &mut Batch, keys: IntKeys, values: IntKeys) {
        add_parts(batch, None, (keys, values), |updates, cf, k, v| updates.merge_cf(cf, k, v));
    }

    fn rocksdb_writebatch_mergev_cf(
        batch: &mut Batch, cf: &Family, keys: IntKeys, values: IntKeys
    ) {
        add_parts(batch, Some(cf), (keys, values), |updates, cf, k, v| updates.merge_cf(cf, k, v));
    }

    fn rocksdb_writebatch_delete(batch: &mut Batch, key: Bytes) {
        add(batch, None, |updates, cf| updates.delete_cf(cf, key));
    }

    fn rocksdb_writebatch_delete_cf(batch: &mut Batch, cf: &Family, key: Bytes) {
        add(batch, Some(cf), |updates, cf| updates.delete_cf(cf, key));
    }

    fn rocksdb_writebatch_singledelete(batch: &mut Batch, key: Bytes) {
        add(batch, None, |updates, cf| updates.single_delete_cf(cf, key));
    }

    fn rocksdb_writebatch_singledelete_cf(batch: &mut Batch, cf: &Family, key: Bytes) {
        add(batch, Some(cf), |updates, cf| updates.single_delete_cf(cf, key));
    }

    fn rocksdb_writebatch_deletev(batch: &mut Batch, keys: IntKeys) {
        add(batch, None, |updates, cf| updates.delete_cf(cf, keys.concat()));
    }

    fn rocksdb_writebatch_deletev_cf(batch: &mut Batch, cf: &Family, keys: IntKeys) {
        add(batch, Some(cf), |updates, cf| updates.delete_cf(cf, keys.concat()));
    }

    fn rocksdb_writebatch_delete_range(batch: &mut Batch, start: Bytes, end: Bytes) {
        add(batch, None, |updates, cf| updates.delete_range_cf(cf, start, end));
    }

    fn rocksdb_writebatch_delete_range_cf(
        batch: &mut Batch, cf: &Family, start: Bytes, end: Bytes
    ) {
        add(batch, Some(cf), |updates, cf| updates.delete_range_cf(cf, start, end));
    }

    fn rocksdb_writebatch_delete_rangev(batch: &mut Batch, parts: Ranges) {
        let (start, end) = ends(parts);
        add(batch, None, |updates, cf| updates.delete_range_cf(cf, start, end));
    }

    fn rocksdb_writebatch_delete_rangev_cf(batch: &mut Batch, cf: &Family, parts: Ranges) {
        let (start, end) = ends(parts);
        add(batch, Some(cf), |updates, cf| updates.delete_range_cf(cf, start, end));
    }

    fn rocksdb_writebatch_put_log_data(batch: &mut Batch, blob: Bytes) {
        batch.add(|updates| updates.put_log_data(blob));
    }

    fn rocksdb_writebatch_set_save_point(batch: &mut Batch) {
        batch.updates.set_save_point();
    }

    fn rocksdb_writebatch_rollback_to_save_point(batch: &mut Batch, errptr: Fail) {
        batch.updates.rollback_to_save_point().map_err(|_| Error::not_found(""))
    }

    fn rocksdb_writebatch_pop_save_point(batch: &mut Batch, errptr: Fail) {
        batch.updates.pop_save_point().map_err(|_| Error::not_found(""))
    }

    fn rocksdb_writebatch_verify_checksum(batch: &Batch, errptr: Fail) {
        batch.updates.iter().try_for_each(|record| record.map(drop))
    }

    fn rocksdb_writebatch_iterate(batch: &Batch, state: State, put: PutFn, deleted: KeyFn) {
        batch.walk(false, |_, update| seen_plain(state, put, deleted, None, update));
    }

    fn rocksdb_writebatch_iterate_ld(
        batch: &Batch, state: State, put: PutFn, deleted: KeyFn, log_data: KeyFn
    ) {
        batch.walk(false, |_, update| seen_plain(state, put, deleted, log_data, update));
    }

    fn rocksdb_writebatch_iterate_cf(
        batch: &Batch, state: State, put: FamilyPutFn, deleted: FamilyKeyFn, merge: FamilyPutFn
    ) {
        batch.walk(true, |cf, update| {
            seen_families(state, (put, deleted, merge, None), cf, update);
        });
    }

    fn rocksdb_writebatch_iterate_cf_ld(
        batch: &Batch, state: State, put: FamilyPutFn, deleted: FamilyKeyFn, merge: FamilyPutFn,
        log_data: KeyFn
    ) {
        batch.walk(true, |cf, update| {
            seen_families(state, (put, deleted, merge, log_data), cf, update);
        });
    }
}
