//! Iterators and snapshots.

use pumice::{Result, Snapshot};
use pumice_binding::cursor::Iterator;
use pumice_binding::database::Database;

use crate::ffi::from::{Out, Taken, Unused};
use crate::ffi::into::{Lent, New, Slice};
use crate::ffi::macros::c_api;
use crate::ffi::types::{Family, GivenSnapshot, ReadOptions};

/// An iterator; one that cannot be made has the reason as its status.
pub(super) fn iterator(
    db: &Database,
    options: &ReadOptions,
    cf: &pumice::ColumnFamily,
) -> Iterator {
    match options.scan() {
        Ok(options) => Iterator::new(db, options, cf),
        Err(error) => Iterator::refused(error),
    }
}

c_api! {
    fn rocksdb_create_iterator(db: &Database, options: &ReadOptions) -> New<Iterator> {
        New(iterator(db, options, db.default_family()))
    }

    fn rocksdb_create_iterator_cf(
        db: &Database, options: &ReadOptions, cf: &Family
    ) -> New<Iterator> {
        New(iterator(db, options, &cf.0))
    }

    fn rocksdb_create_iterators(
        db: &Database, options: &ReadOptions, families: NewHandles<'_, Family, Iterator>,
        errptr: Fail
    ) {
        let mut options = options.scan()?;
        // All see the same state.
        if options.snapshot.is_none() && !options.tailing {
            options.snapshot = Some(db.db().snapshot());
        }
        let make = |cf: &&Family| {
            let iterator = Iterator::new(db, options.clone(), &cf.0);
            iterator.status().map(|()| iterator)
        };
        let made = families.from.iter().map(make).collect::<Result<Vec<_>>>()?;
        families.fill(made);
        Ok(())
    }

    fn rocksdb_iter_valid(iterator: &Iterator) -> bool {
        iterator.valid()
    }

    fn rocksdb_iter_seek_to_first(iterator: &mut Iterator) {
        iterator.seek_to_first();
    }

    fn rocksdb_iter_seek_to_last(iterator: &mut Iterator) {
        iterator.seek_to_last();
    }

    fn rocksdb_iter_seek(iterator: &mut Iterator, key: Bytes) {
        iterator.seek(key);
    }

    fn rocksdb_iter_seek_for_prev(iterator: &mut Iterator, key: Bytes) {
        iterator.seek_for_prev(key);
    }

    fn rocksdb_iter_next(iterator: &mut Iterator) {
        iterator.next();
    }

    fn rocksdb_iter_prev(iterator: &mut Iterator) {
        iterator.prev();
    }

    fn rocksdb_iter_key(iterator: &Iterator, length: Out<'_, usize>) -> Lent {
        let mut length = length;
        let key = iterator.key();
        length.set(key.len());
        Lent::of(key)
    }

    fn rocksdb_iter_value(iterator: &Iterator, length: Out<'_, usize>) -> Lent {
        let mut length = length;
        let value = iterator.value();
        length.set(value.len());
        Lent::of(value)
    }

    fn rocksdb_iter_key_slice(iterator: &Iterator) -> Slice {
        Slice::of(iterator.key())
    }

    fn rocksdb_iter_value_slice(iterator: &Iterator) -> Slice {
        Slice::of(iterator.value())
    }

    fn rocksdb_iter_get_error(iterator: &Iterator, errptr: Fail) {
        iterator.status()
    }

    fn rocksdb_iter_refresh(iterator: &mut Iterator, errptr: Fail) {
        iterator.refresh(None)
    }

    fn rocksdb_create_snapshot(db: &Database) -> New<GivenSnapshot> {
        New(GivenSnapshot(db.snapshot()))
    }

    fn rocksdb_release_snapshot(_db: Unused<Database>, snapshot: Taken<GivenSnapshot>) {
        drop(snapshot);
    }

    fn rocksdb_snapshot_get_sequence_number(snapshot: &GivenSnapshot) -> u64 {
        snapshot.0.as_ref().map_or(0, Snapshot::sequence_number)
    }
}
