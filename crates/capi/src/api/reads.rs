//! Reads of single keys and of many.

use pumice::{PinnedSlice, Result};
use pumice_binding::database::Database;
use pumice_binding::status;

use crate::api::timestamps::read_many_timed;
use crate::ffi::from::{Out, Taken};
use crate::ffi::into::{Copied, Lent, New};
use crate::ffi::macros::c_api;
use crate::ffi::spare::{Held, keep};
use crate::ffi::types::{Family, Pinned, PinnedValue, PinnedValues, ReadOptions, with_zero};

type Found = Result<Option<PinnedSlice>>;

/// A value as C takes it; nothing found is null and length 0, as is an error.
pub(super) fn copied(found: Found, mut length: Out<'_, usize>) -> Result<Option<Copied>> {
    length.set(found.as_ref().ok().and_then(Option::as_ref).map_or(0, |value| value.len()));
    Ok(found?.map(|value| Copied::of(&value)))
}

/// The value in a buffer of the program's. False if the buffer is too small.
fn copied_into(
    found: Option<PinnedSlice>,
    buffer: &mut [u8],
    mut length: Out<'_, usize>,
    mut was_found: Out<'_, u8>,
) -> bool {
    was_found.set(u8::from(found.is_some()));
    length.set(found.as_ref().map_or(0, |value| value.len()));
    let Some(value) = found else { return false };
    match buffer.get_mut(..value.len()) {
        Some(place) => {
            place.copy_from_slice(&value);
            true
        }
        None => false,
    }
}

/// What is known of a key without reading a table.
fn may_exist(
    db: &Database,
    options: &ReadOptions,
    cf: &pumice::ColumnFamily,
    key: &[u8],
) -> (bool, Option<Vec<u8>>) {
    let read = options.point().and_then(|options| db.key_may_exist(&options, cf, key));
    // A failed look means that it may.
    read.unwrap_or((true, None))
}

fn give_value(
    (may, found): (bool, Option<Vec<u8>>),
    mut value: Out<'_, *mut std::ffi::c_char>,
    mut length: Out<'_, usize>,
    mut value_found: Out<'_, u8>,
) -> bool {
    if !value_found.wanted() {
        return may;
    }
    // As RocksDB: false only for a key that may exist whose value was not looked for; a key that
    // is known to be missing gives an empty value.
    let known = found.is_some() || !may;
    value_found.set(u8::from(known));
    if known {
        let found = found.unwrap_or_default();
        length.set(found.len());
        value.set(crate::ffi::into::IntoC::into_c(Copied::of(&found)));
    }
    may
}

/// The results of a read of many keys whose options are refused.
fn refused(count: usize, error: &pumice::Error) -> Vec<Found> {
    (0..count).map(|_| Err(error.clone())).collect()
}

pub(super) fn read_many(
    db: &Database,
    options: &ReadOptions,
    keys: &[&[u8]],
    families: &[&Family],
) -> Vec<Found> {
    match options.point() {
        Err(error) => refused(keys.len(), &error),
        Ok(options) if families.is_empty() => db.multi_get(&options, db.default_family(), keys),
        Ok(options) => {
            let pairs = families.iter().zip(keys);
            let pairs: Vec<_> = pairs.map(|(family, key)| (&family.0, *key)).collect();
            db.multi_get_cf(&options, &pairs)
        }
    }
}

fn read_family(db: &Database, options: &ReadOptions, cf: &Family, keys: &[&[u8]]) -> Vec<Found> {
    match options.point() {
        Err(error) => refused(keys.len(), &error),
        Ok(options) => db.multi_get(&options, &cf.0, keys),
    }
}

/// What a read with metadata gives besides the value.
struct Metadata<'a> {
    timestamp: Out<'a, *mut std::ffi::c_char>,
    timestamp_length: Out<'a, usize>,
    newer: Out<'a, u8>,
}

impl Metadata<'_> {
    /// Reads a value. The timestamp of what is found is empty where keys have none.
    fn get(
        mut self,
        db: &Database,
        options: &ReadOptions,
        cf: &pumice::ColumnFamily,
        key: &[u8],
        length: Out<'_, usize>,
    ) -> Result<Option<Copied>> {
        let found = options.point().and_then(|options| {
            if self.newer.wanted() {
                let newer = db.db().newer_version_present_cf(cf, &options, key)?;
                self.newer.set(u8::from(newer));
            }
            match options.timestamp {
                Some(_) => db.db().get_with_timestamp(&options, cf, key),
                None => Ok(db.get(&options, cf, key)?.map(|value| (value, Vec::new()))),
            }
        });
        if self.timestamp.wanted() && self.timestamp_length.wanted() {
            let time = found.as_ref().ok().and_then(|found| found.as_ref());
            self.timestamp_length.set(time.map_or(0, |(_, time)| time.len()));
            let time = time.map(|(_, time)| Copied::of(time));
            self.timestamp.set(crate::ffi::into::IntoC::into_c(time));
        }
        copied(found.map(|found| found.map(|(value, _)| value)), length)
    }
}

/// Reads many values, and what was written after the snapshot.
fn read_with_metadata(
    db: &Database,
    options: &ReadOptions,
    read: crate::ffi::lists::MetadataGet<'_>,
) {
    let (keys, families) = (read.read.keys.clone(), read.read.families.clone());
    let results = read_many_timed(db, options, &keys, &families);
    read.fill(results, |at| {
        let cf = families.get(at).map_or(db.default_family(), |family| &family.0);
        db.db().newer_version_present_cf(cf, &*options.point()?, keys[at])
    });
}

c_api! {
    fn rocksdb_get_with_metadata(
        db: &Database, options: &ReadOptions, key: Bytes, length: Out<'_, usize>,
        timestamp: Out<'_, *mut std::ffi::c_char>, timestamp_length: Out<'_, usize>,
        newer: Out<'_, u8>, errptr: Fail
    ) -> Option<Copied> {
        let metadata = Metadata { timestamp, timestamp_length, newer };
        metadata.get(db, options, db.default_family(), key, length)
    }

    fn rocksdb_get_cf_with_metadata(
        db: &Database, options: &ReadOptions, cf: &Family, key: Bytes, length: Out<'_, usize>,
        timestamp: Out<'_, *mut std::ffi::c_char>, timestamp_length: Out<'_, usize>,
        newer: Out<'_, u8>, errptr: Fail
    ) -> Option<Copied> {
        let metadata = Metadata { timestamp, timestamp_length, newer };
        metadata.get(db, options, &cf.0, key, length)
    }

    fn rocksdb_multi_get_with_metadata(db: &Database, options: &ReadOptions, read: MetadataGet) {
        read_with_metadata(db, options, read);
    }

    fn rocksdb_multi_get_cf_with_metadata(
        db: &Database, options: &ReadOptions, read: MetadataGetCf
    ) {
        read_with_metadata(db, options, read);
    }

    fn rocksdb_get(
        db: &Database, options: &ReadOptions, key: Bytes, length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        copied(options.point().and_then(|o| db.get(&o, db.default_family(), key)), length)
    }

    fn rocksdb_get_cf(
        db: &Database, options: &ReadOptions, cf: &Family, key: Bytes, length: Out<'_, usize>,
        errptr: Fail
    ) -> Option<Copied> {
        copied(options.point().and_then(|o| db.get(&o, &cf.0, key)), length)
    }

    fn rocksdb_get_pinned(
        db: &Database, options: &ReadOptions, key: Bytes, errptr: Fail
    ) -> Option<Held<Pinned>> {
        Ok(db.get(&*options.point()?, db.default_family(), key)?.map(Held::new))
    }

    fn rocksdb_get_pinned_cf(
        db: &Database, options: &ReadOptions, cf: &Family, key: Bytes, errptr: Fail
    ) -> Option<Held<Pinned>> {
        Ok(db.get(&*options.point()?, &cf.0, key)?.map(Held::new))
    }

    fn rocksdb_pinnableslice_value(
        value: Option<&Pinned>, length: Out<'_, usize>
    ) -> Lent {
        let mut length = length;
        let value = value.and_then(|value| value.0.as_ref());
        length.set(value.map_or(0, |value| value.len()));
        value.map_or(Lent::nothing(), |value| Lent::of(value))
    }

    fn rocksdb_pinnableslice_destroy(value: Taken<Pinned>) {
        value.into_iter().for_each(keep);
    }

    fn rocksdb_get_pinned_v2(
        db: &Database, options: &ReadOptions, key: Bytes, errptr: Fail
    ) -> Option<Held<PinnedValue>> {
        Ok(db.get(&*options.point()?, db.default_family(), key)?.map(Held::new))
    }

    fn rocksdb_get_pinned_cf_v2(
        db: &Database, options: &ReadOptions, cf: &Family, key: Bytes, errptr: Fail
    ) -> Option<Held<PinnedValue>> {
        Ok(db.get(&*options.point()?, &cf.0, key)?.map(Held::new))
    }

    fn rocksdb_pinnable_handle_get_value(
        value: Option<&PinnedValue>, length: Out<'_, usize>
    ) -> Lent {
        let mut length = length;
        let value = value.and_then(|value| value.0.as_ref());
        length.set(value.map_or(0, |value| value.len()));
        value.map_or(Lent::nothing(), |value| Lent::of(value))
    }

    fn rocksdb_pinnable_handle_destroy(value: Taken<PinnedValue>) {
        value.into_iter().for_each(keep);
    }

    fn rocksdb_get_into_buffer(
        db: &Database, options: &ReadOptions, key: Bytes, buffer: BytesMut,
        length: Out<'_, usize>, found: Out<'_, u8>, errptr: Fail
    ) -> bool {
        let value = db.get(&*options.point()?, db.default_family(), key)?;
        Ok(copied_into(value, buffer, length, found))
    }

    fn rocksdb_get_into_buffer_cf(
        db: &Database, options: &ReadOptions, cf: &Family, key: Bytes, buffer: BytesMut,
        length: Out<'_, usize>, found: Out<'_, u8>, errptr: Fail
    ) -> bool {
        let value = db.get(&*options.point()?, &cf.0, key)?;
        Ok(copied_into(value, buffer, length, found))
    }

    fn rocksdb_key_may_exist(
        db: &Database, options: &ReadOptions, key: Bytes, value: Out<'_, *mut std::ffi::c_char>,
        length: Out<'_, usize>, _timestamp: OptBytes, value_found: Out<'_, u8>
    ) -> bool {
        let known = may_exist(db, options, db.default_family(), key);
        give_value(known, value, length, value_found)
    }

    fn rocksdb_key_may_exist_cf(
        db: &Database, options: &ReadOptions, cf: &Family, key: Bytes,
        value: Out<'_, *mut std::ffi::c_char>, length: Out<'_, usize>, _timestamp: OptBytes,
        value_found: Out<'_, u8>
    ) -> bool {
        give_value(may_exist(db, options, &cf.0, key), value, length, value_found)
    }

    fn rocksdb_multi_get(db: &Database, options: &ReadOptions, read: MultiGet) {
        let results = read_many(db, options, &read.keys, &[]);
        read.fill(results);
    }

    fn rocksdb_multi_get_cf(db: &Database, options: &ReadOptions, read: MultiGetCf) {
        let results = read_many(db, options, &read.keys, &read.families);
        read.fill(results);
    }

    fn rocksdb_batched_multi_get_cf(
        db: &Database, options: &ReadOptions, cf: &Family, read: PinnedGet, _sorted_input: bool
    ) {
        let results = read_family(db, options, cf, &read.keys);
        read.fill(results);
    }

    fn rocksdb_batched_multi_get_cf_slice(
        db: &Database, options: &ReadOptions, cf: &Family, read: PinnedGetSlices,
        _sorted_input: bool
    ) {
        let results = read_family(db, options, cf, &read.keys);
        read.fill(results);
    }

    fn rocksdb_batched_multi_get_pinned_cf(
        db: &Database, options: &ReadOptions, cf: &Family, keys: Slices, _sorted_input: bool
    ) -> New<PinnedValues> {
        let results = read_family(db, options, cf, &keys).into_iter();
        let text = |error: pumice::Error| with_zero(status::text(&error).as_bytes());
        New(PinnedValues(results.map(|result| result.map_err(text)).collect()))
    }

    fn rocksdb_pinnable_multi_get_count(values: &PinnedValues) -> usize {
        values.0.len()
    }

    fn rocksdb_pinnable_multi_get_result(
        values: &PinnedValues, index: usize, value: Out<'_, *const std::ffi::c_char>,
        length: Out<'_, usize>, error: Out<'_, *const std::ffi::c_char>,
        error_length: Out<'_, usize>
    ) -> i32 {
        let (mut value, mut length) = (value, length);
        let (mut error, mut error_length) = (error, error_length);
        value.set(std::ptr::null());
        length.set(0);
        error.set(std::ptr::null());
        error_length.set(0);
        match values.0.get(index) {
            None => 3,
            Some(Ok(None)) => 0,
            Some(Ok(Some(found))) => {
                value.set(found.as_ptr().cast());
                length.set(found.len());
                1
            }
            Some(Err(text)) => {
                error.set(text.as_ptr().cast());
                error_length.set(text.len() - 1);
                2
            }
        }
    }
}
