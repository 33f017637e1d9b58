//! `rocksdb_t`: an open database, plain or with values that expire.
//!
//! A handle may outlive the close of its database: calls then fail, and nothing is freed twice.
//!
//! Thread safety: as `pumice::Db`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use pumice::{
    ColumnFamily, ColumnFamilyOptions, Db, DbWithTtl, Error, PinnedSlice, ReadOptions, Result,
    WriteBatch, WriteOptions,
};

use super::cursor::Cursor;

/// Where listeners find the handle of their database: the address that the binding gave it, 0
/// before it is open and after it was closed.
#[derive(Debug, Default)]
pub struct Slot(AtomicUsize);

impl Slot {
    /// The address.
    pub fn address(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
    /// Sets the address.
    pub fn set_address(&self, address: usize) {
        self.0.store(address, Ordering::Release);
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Plain(Db),
    Ttl(DbWithTtl),
}

/// An open database.
#[derive(Clone, Debug)]
pub struct Database {
    kind: Kind,
    default: ColumnFamily,
    slot: Arc<Slot>,
    /// Calls of `disable_manual_compaction` without one of `enable_manual_compaction`; RocksDB's
    /// counter may fall below 0.
    manual_pauses: Arc<AtomicI64>,
}

impl Database {
    /// The handle of `db`.
    pub fn plain(db: Db, slot: Arc<Slot>) -> Database {
        Database::new(Kind::Plain(db), slot)
    }

    /// The handle of `db`, whose values expire.
    pub fn with_ttl(db: DbWithTtl, slot: Arc<Slot>) -> Database {
        Database::new(Kind::Ttl(db), slot)
    }

    fn new(kind: Kind, slot: Arc<Slot>) -> Database {
        let db = match &kind {
            Kind::Plain(db) => db,
            Kind::Ttl(db) => db.db(),
        };
        let default = db.default_column_family().clone();
        Database { kind, default, slot, manual_pauses: Arc::default() }
    }

    /// The plain database, for what concerns no values.
    pub fn db(&self) -> &Db {
        match &self.kind {
            Kind::Plain(db) => db,
            Kind::Ttl(db) => db.db(),
        }
    }

    /// The default column family.
    pub fn default_family(&self) -> &ColumnFamily {
        &self.default
    }

    /// Where its listeners find its handle.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// The same, to keep.
    pub fn slot_handle(&self) -> Arc<Slot> {
        Arc::clone(&self.slot)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// As `pumice::Db::get`.
    pub fn get(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedSlice>> {
        match &self.kind {
            Kind::Plain(db) => db.get_cf_opt(options, cf, key),
            Kind::Ttl(db) => db.get_cf_opt(options, cf, key),
        }
    }

    /// Reads values of one column family; results are in the order of the keys.
    pub fn multi_get(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        keys: &[&[u8]],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        match &self.kind {
            Kind::Plain(db) => {
                let keys: Vec<_> = keys.iter().map(|key| (cf, *key)).collect();
                db.multi_get_cf_opt(options, &keys)
            }
            Kind::Ttl(db) => {
                let keys: Vec<_> = keys.iter().map(|key| (cf, *key)).collect();
                db.multi_get_cf_opt(options, &keys)
            }
        }
    }

    /// Reads values of several column families.
    pub fn multi_get_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        match &self.kind {
            Kind::Plain(db) => db.multi_get_cf_opt(options, keys),
            Kind::Ttl(db) => db.multi_get_cf_opt(options, keys),
        }
    }

    /// Writes a value.
    ///
    /// # Errors
    /// As `pumice::Db::put`.
    pub fn put(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        match &self.kind {
            Kind::Plain(db) => db.put_cf_opt(options, cf, key, value),
            Kind::Ttl(db) => db.put_cf_opt(options, cf, key, value),
        }
    }

    /// Writes a merge operand.
    ///
    /// # Errors
    /// As `pumice::Db::merge`.
    pub fn merge(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        match &self.kind {
            Kind::Plain(db) => db.merge_cf_opt(options, cf, key, operand),
            Kind::Ttl(db) => db.merge_cf_opt(options, cf, key, operand),
        }
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// As `pumice::Db::write`.
    pub fn write(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        match &self.kind {
            Kind::Plain(db) => db.write_opt(options, batch),
            Kind::Ttl(db) => db.write_opt(options, batch),
        }
    }

    /// A cursor over a column family.
    ///
    /// # Errors
    /// As `pumice::Db::cursor`.
    pub fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<Cursor> {
        Ok(match &self.kind {
            Kind::Plain(db) => Cursor::Plain(db.cursor_cf_opt(options, cf)?),
            Kind::Ttl(db) => Cursor::Ttl(db.cursor_cf_opt(options, cf)?),
        })
    }

    /// Whether a key may exist, and its value if that was in memory.
    ///
    /// # Errors
    /// As `pumice::Db::key_may_exist`.
    pub fn key_may_exist(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<(bool, Option<Vec<u8>>)> {
        let db = self.db();
        let (may, value) = db.key_may_exist_cf_opt_value(options, cf, key)?;
        let mut value = value.map(PinnedSlice::into_vec);
        if matches!(self.kind, Kind::Ttl(_)) {
            // The time of the write stands behind the value.
            value = value.map(|mut v| {
                v.truncate(v.len().saturating_sub(4));
                v
            });
        }
        Ok((may, value))
    }

    /// Creates a column family whose values expire after `ttl` seconds.
    ///
    /// # Errors
    /// As `pumice::Db::create_column_family`; InvalidArgument if the values of the database do not
    /// expire and `ttl` is positive.
    pub fn create_family_with_ttl(
        &self,
        options: &ColumnFamilyOptions,
        name: &str,
        ttl: i32,
    ) -> Result<ColumnFamily> {
        match &self.kind {
            Kind::Plain(db) if ttl <= 0 => db.create_column_family(options, name),
            Kind::Plain(_) => {
                Err(Error::invalid_argument("the database was not opened with a time to live"))
            }
            Kind::Ttl(db) => db.create_column_family(options, name, ttl),
        }
    }

    /// Counts a call of `disable_manual_compaction` (1) or `enable_manual_compaction` (-1).
    pub fn count_manual_pause(&self, by: i64) {
        self.manual_pauses.fetch_add(by, Ordering::Relaxed);
    }

    /// Refuses a manual compaction while they are paused.
    ///
    /// # Errors
    /// Incomplete, "Manual compaction paused".
    pub fn check_manual_compaction(&self) -> Result<()> {
        if self.manual_pauses.load(Ordering::Relaxed) <= 0 {
            return Ok(());
        }
        Err(Error::incomplete("").with_subcode(pumice::SubCode::ManualCompactionPaused))
    }

    /// The logs from `sequence` on.
    ///
    /// # Errors
    /// As `pumice::Db::get_updates_since`.
    pub fn updates_since(&self, sequence: u64) -> Result<super::log_cursor::LogCursor> {
        Ok(super::log_cursor::LogCursor::new(self.db().get_updates_since(sequence)?))
    }
}
