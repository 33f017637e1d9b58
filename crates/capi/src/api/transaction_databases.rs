//! Databases with transactions.

use pumice::{OptimisticTransactionDb, TransactionDb};
use pumice_binding::batch::Batch;
use pumice_binding::cursor::Iterator;
use pumice_binding::database::Database;
use pumice_binding::requests::{self, WriteOptions};
use pumice_binding::status::{of_open, of_write};
use pumice_binding::store::Fields;
use pumice_binding::transactions;

use crate::api::iterators::iterator;
use crate::api::open::{Opening, close, descriptors, handles};
use crate::api::properties::{is_number, number, text};
use crate::api::reads::{copied, read_many};
use crate::ffi::from::{Out, Taken, Text, Unused};
use crate::ffi::generated::{
    rocksdb_flushoptions_t, rocksdb_flushwaloptions_t, rocksdb_optimistictransactiondb_options_t,
    rocksdb_transactiondb_options_t,
};
use crate::ffi::into::{Copied, New, Opened};
use crate::ffi::macros::c_api;
use crate::ffi::spare::Held;
use crate::ffi::types::{
    Checkpoint, Family, GivenSnapshot, LockBuckets, Options, Pinned, ReadOptions,
};

c_api! {
    fn rocksdb_transactiondb_open(
        options: &Options, transactional: &rocksdb_transactiondb_options_t, name: Text<'_>,
        errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (only, transactional) =
            (opening.only(), transactions::locking_database(transactional.store())?);
        let db =
            TransactionDb::open_cf(&opening.options.db, &transactional, name.path(), &only);
        Ok(opening.locking(db.map_err(of_open)?.0))
    }

    fn rocksdb_transactiondb_open_column_families(
        options: &Options, transactional: &rocksdb_transactiondb_options_t, name: Text<'_>,
        families: Families, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (list, transactional) =
            (descriptors(&families)?, transactions::locking_database(transactional.store())?);
        let opened =
            TransactionDb::open_cf(&opening.options.db, &transactional, name.path(), &list);
        let (db, opened) = opened.map_err(of_open)?;
        families.fill(handles(opened));
        Ok(opening.locking(db))
    }

    fn rocksdb_optimistictransactiondb_open(
        options: &Options, name: Text<'_>, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (only, default) = (opening.only(), Default::default());
        let db =
            OptimisticTransactionDb::open_cf(&opening.options.db, &default, name.path(), &only);
        Ok(opening.optimistic(db.map_err(of_open)?.0))
    }

    fn rocksdb_optimistictransactiondb_open_with_otxn_db_options(
        options: &Options, transactional: &rocksdb_optimistictransactiondb_options_t,
        name: Text<'_>, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (only, transactional) =
            (opening.only(), transactions::optimistic_database(transactional.store())?);
        let db = OptimisticTransactionDb::open_cf(
            &opening.options.db, &transactional, name.path(), &only,
        );
        Ok(opening.optimistic(db.map_err(of_open)?.0))
    }

    fn rocksdb_optimistictransactiondb_open_column_families(
        options: &Options, name: Text<'_>, families: Families, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (list, default) = (descriptors(&families)?, Default::default());
        let opened =
            OptimisticTransactionDb::open_cf(&opening.options.db, &default, name.path(), &list);
        let (db, opened) = opened.map_err(of_open)?;
        families.fill(handles(opened));
        Ok(opening.optimistic(db))
    }

    fn rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
        options: &Options, transactional: &rocksdb_optimistictransactiondb_options_t,
        name: Text<'_>, families: Families, errptr: Fail
    ) -> Opened {
        let opening = Opening::new(options, name)?;
        let (list, transactional) =
            (descriptors(&families)?, transactions::optimistic_database(transactional.store())?);
        let opened = OptimisticTransactionDb::open_cf(
            &opening.options.db, &transactional, name.path(), &list,
        );
        let (db, opened) = opened.map_err(of_open)?;
        families.fill(handles(opened));
        Ok(opening.optimistic(db))
    }

    fn rocksdb_transactiondb_close(db: Taken<Database>) {
        if let Some(db) = db {
            close(&db);
        }
    }

    fn rocksdb_optimistictransactiondb_close(db: Taken<Database>) {
        if let Some(db) = db {
            close(&db);
        }
    }

    fn rocksdb_transactiondb_get_base_db(db: &Database) -> New<Database> {
        New(db.base())
    }

    fn rocksdb_optimistictransactiondb_get_base_db(db: &Database) -> New<Database> {
        New(db.base())
    }

    // The handle goes; the database stays open.
    fn rocksdb_transactiondb_close_base_db(base: Taken<Database>) {
        drop(base);
    }

    fn rocksdb_optimistictransactiondb_close_base_db(base: Taken<Database>) {
        drop(base);
    }

    fn rocksdb_transactiondb_create_column_family(
        db: &Database, options: &Options, name: Text<'_>, errptr: Fail
    ) -> New<Family> {
        let options = options.values.to_engine()?.cf;
        Ok(New(Family(db.create_family(&options, &name.text())?)))
    }

    fn rocksdb_transactiondb_create_snapshot(db: &Database) -> New<GivenSnapshot> {
        New(GivenSnapshot(db.snapshot()))
    }

    fn rocksdb_transactiondb_release_snapshot(
        _db: Unused<Database>, snapshot: Taken<GivenSnapshot>
    ) {
        drop(snapshot);
    }

    fn rocksdb_transactiondb_property_value(db: &Database, name: Text<'_>) -> Option<Copied> {
        text(db.property(&name.text()))
    }

    fn rocksdb_optimistictransactiondb_property_value(
        db: &Database, name: Text<'_>
    ) -> Option<Copied> {
        text(db.db().property(&name.text()))
    }

    fn rocksdb_transactiondb_property_int(
        db: &Database, name: Text<'_>, value: Out<'_, u64>
    ) -> i32 {
        let name = name.text();
        number(db.db().property_int(&name).filter(|_| is_number(&name)), value)
    }

    fn rocksdb_optimistictransactiondb_property_int(
        db: &Database, name: Text<'_>, value: Out<'_, u64>
    ) -> i32 {
        let name = name.text();
        number(db.db().property_int(&name).filter(|_| is_number(&name)), value)
    }

    fn rocksdb_transactiondb_get(
        db: &Database, options: &ReadOptions, key: Bytes, length: Out<'_, usize>, errptr: Fail
    ) -> Option<Copied> {
        copied(options.point().and_then(|o| db.get(&o, db.default_family(), key)), length)
    }

    fn rocksdb_transactiondb_get_cf(
        db: &Database, options: &ReadOptions, cf: &Family, key: Bytes, length: Out<'_, usize>,
        errptr: Fail
    ) -> Option<Copied> {
        copied(options.point().and_then(|o| db.get(&o, &cf.0, key)), length)
    }

    fn rocksdb_transactiondb_get_pinned(
        db: &Database, options: &ReadOptions, key: Bytes, errptr: Fail
    ) -> Option<Held<Pinned>> {
        Ok(db.get(&*options.point()?, db.default_family(), key)?.map(Held::new))
    }

    fn rocksdb_transactiondb_get_pinned_cf(
        db: &Database, options: &ReadOptions, cf: &Family, key: Bytes, errptr: Fail
    ) -> Option<Held<Pinned>> {
        Ok(db.get(&*options.point()?, &cf.0, key)?.map(Held::new))
    }

    fn rocksdb_transactiondb_multi_get(db: &Database, options: &ReadOptions, read: MultiGet) {
        let results = read_many(db, options, &read.keys, &[]);
        read.fill(results);
    }

    fn rocksdb_transactiondb_multi_get_cf(db: &Database, options: &ReadOptions, read: MultiGetCf) {
        let results = read_many(db, options, &read.keys, &read.families);
        read.fill(results);
    }

    fn rocksdb_transactiondb_put(
        db: &Database, options: &WriteOptions, key: Bytes, value: Bytes, errptr: Fail
    ) {
        db.put(options.engine(), db.default_family(), key, value).map_err(of_write)
    }

    fn rocksdb_transactiondb_put_cf(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, value: Bytes, errptr: Fail
    ) {
        db.put(options.engine(), &cf.0, key, value).map_err(of_write)
    }

    fn rocksdb_transactiondb_merge(
        db: &Database, options: &WriteOptions, key: Bytes, operand: Bytes, errptr: Fail
    ) {
        db.merge(options.engine(), db.default_family(), key, operand).map_err(of_write)
    }

    fn rocksdb_transactiondb_merge_cf(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, operand: Bytes,
        errptr: Fail
    ) {
        db.merge(options.engine(), &cf.0, key, operand).map_err(of_write)
    }

    fn rocksdb_transactiondb_delete(
        db: &Database, options: &WriteOptions, key: Bytes, errptr: Fail
    ) {
        db.delete(options.engine(), db.default_family(), key).map_err(of_write)
    }

    fn rocksdb_transactiondb_delete_cf(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, errptr: Fail
    ) {
        db.delete(options.engine(), &cf.0, key).map_err(of_write)
    }

    fn rocksdb_transactiondb_write(
        db: &Database, options: &WriteOptions, batch: &mut Batch, errptr: Fail
    ) {
        db.write(options.engine(), &mut batch.updates).map_err(of_write)
    }

    fn rocksdb_optimistictransactiondb_write(
        db: &Database, options: &WriteOptions, batch: &mut Batch, errptr: Fail
    ) {
        db.write(options.engine(), &mut batch.updates).map_err(of_write)
    }

    fn rocksdb_transactiondb_create_iterator(
        db: &Database, options: &ReadOptions
    ) -> New<Iterator> {
        New(iterator(db, options, db.default_family()))
    }

    fn rocksdb_transactiondb_create_iterator_cf(
        db: &Database, options: &ReadOptions, cf: &Family
    ) -> New<Iterator> {
        New(iterator(db, options, &cf.0))
    }

    fn rocksdb_transactiondb_flush(
        db: &Database, options: &rocksdb_flushoptions_t, errptr: Fail
    ) {
        db.db().flush_opt(&requests::flush(options.store()))
    }

    fn rocksdb_transactiondb_flush_cf(
        db: &Database, options: &rocksdb_flushoptions_t, cf: &Family, errptr: Fail
    ) {
        db.db().flush_cf_opt(&requests::flush(options.store()), &cf.0)
    }

    fn rocksdb_transactiondb_flush_cfs(
        db: &Database, options: &rocksdb_flushoptions_t, families: IntList<Family>, errptr: Fail
    ) {
        let families: Vec<&pumice::ColumnFamily> = families.iter().map(|cf| &cf.0).collect();
        db.db().flush_cfs_opt(&requests::flush(options.store()), &families)
    }

    fn rocksdb_transactiondb_flush_wal(db: &Database, sync: bool, errptr: Fail) {
        db.db().flush_wal(sync)
    }

    fn rocksdb_transactiondb_flush_wal_with_options(
        db: &Database, options: &rocksdb_flushwaloptions_t, errptr: Fail
    ) {
        db.db().flush_wal(options.store().flag("sync"))
    }

    fn rocksdb_transactiondb_checkpoint_object_create(
        db: &Database, errptr: Fail
    ) -> New<Checkpoint> {
        Ok(New(Checkpoint(db.base())))
    }

    fn rocksdb_optimistictransactiondb_checkpoint_object_create(
        db: &Database, errptr: Fail
    ) -> New<Checkpoint> {
        Ok(New(Checkpoint(db.base())))
    }

    // Commits lock keys, not buckets: the pool is a number.
    fn rocksdb_optimistictransactiondb_lock_buckets_create(
        buckets: usize, _cache_aligned: bool
    ) -> New<LockBuckets> {
        New(LockBuckets(buckets))
    }

    fn rocksdb_optimistictransactiondb_lock_buckets_approximate_memory_usage(
        _pool: &LockBuckets
    ) -> usize {
        size_of::<LockBuckets>()
    }

    fn rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(
        options: &mut rocksdb_optimistictransactiondb_options_t, pool: &LockBuckets
    ) {
        let buckets = u64::try_from(pool.0).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        options.store_mut().put("occ_lock_buckets", buckets);
    }
}
