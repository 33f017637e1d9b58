//! The calls of a `BlobDb`: blobs are appended before their indexes are written, and read after
//! them.
//!
//! Thread safety: as the database. Invariant: a write that is synced makes every blob durable whose
//! index is in the log before it; so such writes are alone, and others share the gate.

use std::sync::Arc;

use pumice_base::{Error, ValueType};

use super::BlobDb;
use super::cursor::BlobDbIterator;
use super::files::Appending;
use crate::commit::batch::BatchRecord;
use crate::db::forms::*;
use crate::options::DbOptions;
use crate::options::index_owner::INDEX_COLUMN;

store_forms!(BlobDb);

/// Adds the updates of one write to a batch, and their blobs to files.
type Fill<'f> = dyn FnMut(&mut Appending<'_>, &mut WriteBatch) -> Result<()> + 'f;

/// A value, and when it expires if it does, in seconds since 1970.
type Expiring = (Vec<u8>, Option<u64>);

#[cold]
fn unsupported() -> Error {
    Error::not_supported("Not supported operation in blob db.")
}

fn check_default(cf: &ColumnFamily) -> Result<()> {
    match cf.id() {
        0 => Ok(()),
        _ => {
            let text = "Blob DB doesn't support non-default column family.";
            Err(Error::not_supported(text))
        }
    }
}

impl BlobDb {
    /// Sets `key` to `value` for `ttl` seconds.
    ///
    /// # Errors
    /// As [`BlobDb::put`].
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: u64,
    ) -> Result<()> {
        self.put_with_ttl_opt(&WRITE_DEFAULT, key, value, ttl)
    }

    /// [`BlobDb::put_with_ttl`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn put_with_ttl_opt(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: u64,
    ) -> Result<()> {
        let expires = self.stack.files.now().checked_add(ttl).filter(|at| *at != u64::MAX);
        self.set(options, key.as_ref(), value.as_ref(), expires)
    }

    /// The value of `key`, and when it expires, in seconds since 1970; None there: never.
    ///
    /// # Errors
    /// As [`BlobDb::get`].
    pub fn get_with_expiration(
        &self,
        options: &ReadOptions,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(Vec<u8>, Option<u64>)>> {
        let db = &self.stack.db;
        self.settled(|| {
            Store::get_entity(db, options, db.default_column_family(), key.as_ref())
                .and_then(|found| self.resolve(key.as_ref(), found))
        })
    }

    /// Makes all writes so far durable.
    ///
    /// # Errors
    /// I/O.
    pub fn sync_wal(&self) -> Result<()> {
        let _alone = self.stack.gate.write();
        self.stack.files.sync()?;
        self.stack.db.sync_wal()
    }

    /// What `read` gives; again if it fails and files came or went meanwhile.
    fn settled<T>(&self, read: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            let shown = self.stack.files.shown();
            match read() {
                Err(_) if !Arc::ptr_eq(&shown, &self.stack.files.shown()) => {}
                settled => return settled,
            }
        }
    }

    fn resolve(&self, key: &[u8], found: Option<PinnedColumns>) -> Result<Option<Expiring>> {
        let Some(columns) = found else { return Ok(None) };
        match columns.get(INDEX_COLUMN) {
            Some(index) => self.stack.files.value(&self.stack.files.shown(), key, index),
            None => Ok(Some((columns.get("").unwrap_or_default().to_vec(), None))),
        }
    }

    fn set(
        &self,
        options: &WriteOptions,
        key: &[u8],
        value: &[u8],
        expires: Option<u64>,
    ) -> Result<()> {
        self.commit(options, &mut |blobs, batch| {
            batch.put_blob_index(key, &blobs.put(key, value, expires)?);
            Ok(())
        })
    }

    /// Writes what `fill` adds.
    fn commit(&self, options: &WriteOptions, fill: &mut Fill<'_>) -> Result<()> {
        let alone = options.sync.then(|| self.stack.gate.write());
        let shared = (!options.sync).then(|| self.stack.gate.read());
        let mut batch = WriteBatch::new();
        let mut blobs = self.stack.files.append()?;
        fill(&mut blobs, &mut batch)?;
        let pending = blobs.finish(options.sync)?;
        let written = Store::write(&self.stack.db, options, &mut batch);
        drop((alone, shared));
        let newest = self.stack.db.latest_sequence_number();
        // A write that has failed may still be in the log, as the next one.
        pending.done(if written.is_ok() { newest } else { newest + 1 });
        written
    }
}

impl Store for BlobDb {
    type Cursor = BlobDbIterator;

    fn default_column_family(&self) -> &ColumnFamily {
        self.stack.db.default_column_family()
    }
    fn options(&self) -> Arc<DbOptions> {
        self.stack.db.options()
    }

    fn get(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedSlice>> {
        check_default(cf)?;
        let found = self.get_with_expiration(options, key)?;
        Ok(found.map(|(value, _)| PinnedSlice::owned(value)))
    }
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        if let Err(error) = keys.iter().try_for_each(|(cf, _)| check_default(cf)) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        loop {
            let shown = self.stack.files.shown();
            let found = Store::multi_get_entity(&self.stack.db, options, keys);
            let values = found.into_iter().zip(keys).map(|(found, (_, key))| {
                let value = self.resolve(key, found?)?;
                Ok(value.map(|(value, _)| PinnedSlice::owned(value)))
            });
            let values: Vec<Result<_>> = values.collect();
            let settled = Arc::ptr_eq(&shown, &self.stack.files.shown());
            if settled || values.iter().all(Result::is_ok) {
                return values;
            }
        }
    }
    fn get_entity(
        &self,
        _options: &ReadOptions,
        _cf: &ColumnFamily,
        _key: &[u8],
    ) -> Result<Option<PinnedColumns>> {
        Err(unsupported())
    }
    fn multi_get_entity(
        &self,
        _options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedColumns>>> {
        keys.iter().map(|_| Err(unsupported())).collect()
    }
    fn get_merge_operands(
        &self,
        _options: &ReadOptions,
        _cf: &ColumnFamily,
        _key: &[u8],
        _how: &GetMergeOperandsOptions<'_>,
        _number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        Err(unsupported())
    }
    fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<BlobDbIterator> {
        check_default(cf)?;
        let db = &self.stack.db;
        BlobDbIterator::new(&self.stack.files, || Store::cursor(db, options, cf))
    }

    fn put(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_default(cf)?;
        self.set(options, key, value, None)
    }
    fn put_encoded_entity(
        &self,
        _options: &WriteOptions,
        _cf: &ColumnFamily,
        _key: &[u8],
        _entity: &[u8],
    ) -> Result<()> {
        Err(unsupported())
    }
    fn delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        check_default(cf)?;
        self.commit(options, &mut |_, batch| {
            batch.delete(key);
            Ok(())
        })
    }
    fn single_delete(
        &self,
        _options: &WriteOptions,
        _cf: &ColumnFamily,
        _key: &[u8],
    ) -> Result<()> {
        Err(unsupported())
    }
    fn merge(
        &self,
        _options: &WriteOptions,
        _cf: &ColumnFamily,
        _key: &[u8],
        _operand: &[u8],
    ) -> Result<()> {
        Err(unsupported())
    }
    fn delete_range(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
    ) -> Result<()> {
        check_default(cf)?;
        self.commit(options, &mut |_, batch| {
            batch.delete_range(begin, end);
            Ok(())
        })
    }
    /// The batch is not changed. Values put by it do not expire.
    fn write(&self, options: &WriteOptions, updates: &mut WriteBatch) -> Result<()> {
        updates.status()?;
        updates.check_owner(&**self.stack.db.inner())?;
        self.commit(options, &mut |blobs, batch| {
            updates.iter().try_for_each(|record| add(record?, blobs, batch))
        })
    }
}

/// Adds an update of the user's batch.
fn add(record: BatchRecord<'_>, blobs: &mut Appending<'_>, batch: &mut WriteBatch) -> Result<()> {
    match record {
        BatchRecord::Entry { column_family: 0, value_type, key, value } => match value_type {
            ValueType::Value => batch.put_blob_index(key, &blobs.put(key, value, None)?),
            ValueType::Deletion => batch.delete(key),
            ValueType::RangeDeletion => batch.delete_range(key, value),
            _ => return Err(unsupported()),
        },
        BatchRecord::Entry { .. } => {
            let text = "Blob DB doesn't support non-default column family.";
            return Err(Error::not_supported(text));
        }
        BatchRecord::LogData(blob) => batch.put_log_data(blob),
        BatchRecord::Marker(..) => return Err(unsupported()),
    }
    Ok(())
}
