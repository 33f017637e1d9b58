//! Writes of single keys and of batches.

use pumice_binding::batch::Batch;
use pumice_binding::database::Database;
use pumice_binding::requests::WriteOptions;
use pumice_binding::status::of_write;

use crate::ffi::macros::c_api;
use crate::ffi::types::Family;

c_api! {
    fn rocksdb_put(
        db: &Database, options: &WriteOptions, key: Bytes, value: Bytes, errptr: Fail
    ) {
        db.put(options.engine(), db.default_family(), key, value).map_err(of_write)
    }

    fn rocksdb_put_cf(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, value: Bytes, errptr: Fail
    ) {
        db.put(options.engine(), &cf.0, key, value).map_err(of_write)
    }

    fn rocksdb_delete(db: &Database, options: &WriteOptions, key: Bytes, errptr: Fail) {
        db.db().delete_opt(options.engine(), key).map_err(of_write)
    }

    fn rocksdb_delete_cf(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, errptr: Fail
    ) {
        db.db().delete_cf_opt(options.engine(), &cf.0, key).map_err(of_write)
    }

    fn rocksdb_singledelete(db: &Database, options: &WriteOptions, key: Bytes, errptr: Fail) {
        db.db().single_delete_opt(options.engine(), key).map_err(of_write)
    }

    fn rocksdb_singledelete_cf(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, errptr: Fail
    ) {
        db.db().single_delete_cf_opt(options.engine(), &cf.0, key).map_err(of_write)
    }

    fn rocksdb_delete_range_cf(
        db: &Database, options: &WriteOptions, cf: &Family, start: Bytes, end: Bytes, errptr: Fail
    ) {
        db.db().delete_range_cf_opt(options.engine(), &cf.0, start, end).map_err(of_write)
    }

    fn rocksdb_merge(
        db: &Database, options: &WriteOptions, key: Bytes, operand: Bytes, errptr: Fail
    ) {
        db.merge(options.engine(), db.default_family(), key, operand).map_err(of_write)
    }

    fn rocksdb_merge_cf(
        db: &Database, options: &WriteOptions, cf: &Family, key: Bytes, operand: Bytes,
        errptr: Fail
    ) {
        db.merge(options.engine(), &cf.0, key, operand).map_err(of_write)
    }

    fn rocksdb_write(db: &Database, options: &WriteOptions, batch: &mut Batch, errptr: Fail) {
        db.write(options.engine(), &mut batch.updates).map_err(of_write)
    }
}
