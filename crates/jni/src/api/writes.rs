//! Writes of single keys and of batches.

use pumice_binding::batch::Batch;
use pumice_binding::database::Database;
use pumice_binding::status::of_write;

use crate::api::family;
use crate::ffi::call::Result;
use crate::ffi::env::Env;
use crate::ffi::from::{Bytes, Direct};
use crate::objects::{Family, SharedBatch, WriteOptions};

fn engine(options: Option<&WriteOptions>) -> pumice::WriteOptions {
    options.map_or_else(Default::default, |options| *options.engine())
}

type Options<'a> = Option<&'a WriteOptions>;
type In<'a> = Option<&'a Family>;

/// Java: RocksDB.put (J[BII[BII) 0 - 1 2 -
/// Java: RocksDB.put (J[BII[BIIJ) 0 - 1 2 3
/// Java: RocksDB.put (JJ[BII[BII) 0 1 2 3 -
/// Java: RocksDB.put (JJ[BII[BIIJ)
pub fn put(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Bytes,
    value: Bytes,
    cf: In<'_>,
) -> Result<()> {
    Ok(db.put(&engine(options), family(db, cf), &key, &value).map_err(of_write)?)
}

/// Java: RocksDB.putDirect
pub fn put_direct(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Direct<'_>,
    value: Direct<'_>,
    cf: In<'_>,
) -> Result<()> {
    Ok(db.put(&engine(options), family(db, cf), key.0, value.0).map_err(of_write)?)
}

/// Java: RocksDB.merge (J[BII[BII) 0 - 1 2 -
/// Java: RocksDB.merge (J[BII[BIIJ) 0 - 1 2 3
/// Java: RocksDB.merge (JJ[BII[BII) 0 1 2 3 -
/// Java: RocksDB.merge (JJ[BII[BIIJ)
pub fn merge(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Bytes,
    value: Bytes,
    cf: In<'_>,
) -> Result<()> {
    Ok(db.merge(&engine(options), family(db, cf), &key, &value).map_err(of_write)?)
}

/// Java: RocksDB.mergeDirect
pub fn merge_direct(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Direct<'_>,
    value: Direct<'_>,
    cf: In<'_>,
) -> Result<()> {
    Ok(db.merge(&engine(options), family(db, cf), key.0, value.0).map_err(of_write)?)
}

/// Java: RocksDB.delete (J[BII) 0 - 1 -
/// Java: RocksDB.delete (J[BIIJ) 0 - 1 2
/// Java: RocksDB.delete (JJ[BII) 0 1 2 -
/// Java: RocksDB.delete (JJ[BIIJ)
pub fn delete(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Bytes,
    cf: In<'_>,
) -> Result<()> {
    Ok(db.delete(&engine(options), family(db, cf), &key).map_err(of_write)?)
}

/// Java: RocksDB.deleteDirect
pub fn delete_direct(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Direct<'_>,
    cf: In<'_>,
) -> Result<()> {
    Ok(db.delete(&engine(options), family(db, cf), key.0).map_err(of_write)?)
}

/// Java: RocksDB.singleDelete (J[BI) 0 - 1 -
/// Java: RocksDB.singleDelete (J[BIJ) 0 - 1 2
/// Java: RocksDB.singleDelete (JJ[BI) 0 1 2 -
/// Java: RocksDB.singleDelete (JJ[BIJ)
pub fn single_delete(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    key: Bytes,
    cf: In<'_>,
) -> Result<()> {
    let cf = family(db, cf);
    Ok(db.db().single_delete_cf_opt(&engine(options), cf, &*key).map_err(of_write)?)
}

/// Java: RocksDB.deleteRange (J[BII[BII) 0 - 1 2 -
/// Java: RocksDB.deleteRange (J[BII[BIIJ) 0 - 1 2 3
/// Java: RocksDB.deleteRange (JJ[BII[BII) 0 1 2 3 -
/// Java: RocksDB.deleteRange (JJ[BII[BIIJ)
pub fn delete_range(
    _env: Env<'_>,
    db: &Database,
    options: Options<'_>,
    start: Bytes,
    end: Bytes,
    cf: In<'_>,
) -> Result<()> {
    let cf = family(db, cf);
    Ok(db.db().delete_range_cf_opt(&engine(options), cf, &*start, &*end).map_err(of_write)?)
}

/// Java: RocksDB.write0
pub fn write(
    _env: Env<'_>,
    db: &Database,
    options: &WriteOptions,
    batch: &mut Batch,
) -> Result<()> {
    Ok(db.write(options.engine(), &mut batch.updates).map_err(of_write)?)
}

/// Java: RocksDB.write1
pub fn write_indexed(
    _env: Env<'_>,
    db: &Database,
    options: &WriteOptions,
    batch: &SharedBatch,
) -> Result<()> {
    let written = batch.with_mut(|batch| db.write(options.engine(), batch.write_batch_mut()));
    Ok(written.map_err(of_write)?)
}
