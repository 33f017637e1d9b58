//! `rocksdb_t` and the like: an open database, plain, with values that expire or with transactions.
//!
//! A handle may outlive the close of its database: calls then fail, and nothing is freed twice.
//!
//! Thread safety: as `pumice::Db`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pumice::{
    ColumnFamily, ColumnFamilyOptions, Db, DbWithTtl, Error, ExportImportFilesMetadata,
    ImportColumnFamilyOptions, OptimisticTransactionDb, OptimisticTransactionOptions, PinnedSlice,
    ReadOptions, Result, Snapshot, Transaction, TransactionDb, TransactionOptions, WriteBatch,
    WriteBatchWithIndex, WriteOptions,
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
    Locking(TransactionDb),
    Optimistic(OptimisticTransactionDb),
}

/// Does the same with each kind of handle.
macro_rules! each {
    ($kind:expr, $db:ident => $call:expr) => {
        match $kind {
            Kind::Plain($db) => $call,
            Kind::Ttl($db) => $call,
            Kind::Locking($db) => $call,
            Kind::Optimistic($db) => $call,
        }
    };
}

/// An open database.
#[derive(Clone, Debug)]
pub struct Database {
    kind: Kind,
    default: ColumnFamily,
    slot: Arc<Slot>,
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

    /// The handle of `db`, whose transactions lock.
    pub fn locking(db: TransactionDb, slot: Arc<Slot>) -> Database {
        Database::new(Kind::Locking(db), slot)
    }

    /// The handle of `db`, whose transactions are checked at their commit.
    pub fn optimistic(db: OptimisticTransactionDb, slot: Arc<Slot>) -> Database {
        Database::new(Kind::Optimistic(db), slot)
    }

    /// A handle of the plain database below.
    pub fn base(&self) -> Database {
        Database::plain(self.db().clone(), self.slot_handle())
    }

    fn new(kind: Kind, slot: Arc<Slot>) -> Database {
        let default = plain_of(&kind).default_column_family().clone();
        Database { kind, default, slot }
    }

    /// The plain database, for what concerns no values.
    pub fn db(&self) -> &Db {
        plain_of(&self.kind)
    }

    /// A snapshot; none with `inplace_update_support`, as in RocksDB.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let db = self.db();
        (!db.has_in_place_updates()).then(|| db.snapshot())
    }

    /// A property; a database whose transactions lock has some more.
    pub fn property(&self, name: &str) -> Option<String> {
        match &self.kind {
            Kind::Locking(db) => db.property(name),
            kind => plain_of(kind).property(name),
        }
    }

    /// The database if its transactions lock.
    pub fn locking_db(&self) -> Option<&TransactionDb> {
        match &self.kind {
            Kind::Locking(db) => Some(db),
            _ => None,
        }
    }

    /// Its prepared transactions; none of a database without transactions that lock.
    pub fn prepared_transactions(&self) -> Vec<Transaction> {
        match &self.kind {
            Kind::Locking(db) => db.prepared_transactions(),
            _ => Vec::new(),
        }
    }

    /// Begins a transaction; None for a database without.
    pub fn begin(&self, write: &WriteOptions, options: &Begin) -> Option<Transaction> {
        match (&self.kind, options) {
            (Kind::Locking(db), Begin::Locking(options)) => {
                Some(db.transaction_opt(write, options))
            }
            (Kind::Optimistic(db), Begin::Optimistic(options)) => {
                Some(db.transaction_opt(write, options))
            }
            _ => None,
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
        each!(&self.kind, db => db.get_cf_opt(options, cf, key))
    }

    /// Reads values of one column family; results are in the order of the keys.
    pub fn multi_get(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        keys: &[&[u8]],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        let keys: Vec<_> = keys.iter().map(|key| (cf, *key)).collect();
        each!(&self.kind, db => db.multi_get_cf_opt(options, &keys))
    }

    /// Reads values of several column families.
    pub fn multi_get_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamily, &[u8])],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        each!(&self.kind, db => db.multi_get_cf_opt(options, keys))
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
        each!(&self.kind, db => db.put_cf_opt(options, cf, key, value))
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As `pumice::Db::delete`.
    pub fn delete(&self, options: &WriteOptions, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        each!(&self.kind, db => db.delete_cf_opt(options, cf, key))
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
        each!(&self.kind, db => db.merge_cf_opt(options, cf, key, operand))
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// As `pumice::Db::write`.
    pub fn write(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        each!(&self.kind, db => db.write_opt(options, batch))
    }

    /// A cursor over a column family.
    ///
    /// # Errors
    /// As `pumice::Db::cursor`.
    pub fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<Cursor> {
        Ok(match &self.kind {
            Kind::Plain(_) | Kind::Locking(_) | Kind::Optimistic(_) => {
                Cursor::Plain(self.db().cursor_cf_opt(options, cf)?)
            }
            Kind::Ttl(db) => Cursor::Ttl(db.cursor_cf_opt(options, cf)?),
        })
    }

    /// Reads a value as it would be if `batch` were written now.
    ///
    /// # Errors
    /// As `pumice::WriteBatchWithIndex::get_from_batch_and_db`.
    pub fn get_through(
        &self,
        batch: &WriteBatchWithIndex,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedSlice>> {
        each!(&self.kind, db => batch.get_from_batch_and_db(db, options, cf, key))
    }

    /// Creates a column family.
    ///
    /// # Errors
    /// As `pumice::Db::create_column_family`.
    pub fn create_family(&self, options: &ColumnFamilyOptions, name: &str) -> Result<ColumnFamily> {
        self.create_family_with_ttl(options, name, 0)
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
            Kind::Locking(db) => db.create_column_family(options, name),
            Kind::Optimistic(db) => db.create_column_family(options, name),
        }
    }

    /// Creates a column family from the files of an exported one.
    ///
    /// # Errors
    /// As `pumice::Db::create_column_family_with_import`.
    pub fn import_family(
        &self,
        options: &ColumnFamilyOptions,
        name: &str,
        how: &ImportColumnFamilyOptions,
        exported: &ExportImportFilesMetadata,
    ) -> Result<ColumnFamily> {
        self.db().create_column_family_with_import(options, name, how, &[exported])
    }

    /// The logs from `sequence` on.
    ///
    /// # Errors
    /// As `pumice::Db::get_updates_since`.
    pub fn updates_since(&self, sequence: u64) -> Result<super::log_cursor::LogCursor> {
        Ok(super::log_cursor::LogCursor::new(self.db().get_updates_since(sequence)?))
    }
}

fn plain_of(kind: &Kind) -> &Db {
    match kind {
        Kind::Plain(db) => db,
        Kind::Ttl(db) => db.db(),
        Kind::Locking(db) => db.db(),
        Kind::Optimistic(db) => db.db(),
    }
}

/// Options of a transaction, of either kind of database.
#[derive(Clone, Debug)]
pub enum Begin {
    /// Of a database whose transactions lock.
    Locking(TransactionOptions),
    /// Of one whose transactions are checked at their commit.
    Optimistic(OptimisticTransactionOptions),
}
