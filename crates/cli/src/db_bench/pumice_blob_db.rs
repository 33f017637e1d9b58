//! `--use_blob_db`: Pumice's databases are those of RocksDB's old BlobDB.
//!
//! Thread safety: what a worker has is its own.

use super::engine::{self, Result};
use super::flags::Flags;
use super::pumice_engine::text;
use pumice::{BatchRecord, BlobDb, BlobDbIterator, BlobDbOptions, DbIterator};
use pumice::{WriteBatch, WriteOptions};
use pumice_base::ValueType;
use pumice_base::random::Rng;

/// Such a database, and how long what batches put into it lives.
#[derive(Clone)]
pub struct Blobs {
    /// The database.
    pub db: BlobDb,
    /// Below how many seconds; 0: forever.
    pub ttl_below: u64,
}

/// The options that the flags ask for; None for another kind of database.
///
/// # Errors
/// The flags exclude each other.
pub fn wanted(flags: &Flags) -> Result<Option<BlobDbOptions>> {
    if !flags.use_blob_db {
        return Ok(None);
    }
    let excluded = [
        ("readonly", flags.readonly),
        ("use_secondary_db", flags.use_secondary_db),
        ("open_as_follower", flags.open_as_follower),
        ("transaction_db", flags.transaction_db),
        ("optimistic_transaction_db", flags.optimistic_transaction_db),
        ("num_column_families", flags.num_column_families > 1),
        ("user_timestamp_size", flags.user_timestamp_size > 0),
    ];
    if let Some((name, _)) = excluded.iter().find(|(_, given)| *given) {
        return Err(format!("use_blob_db and {name} exclude each other"));
    }
    Ok(Some(BlobDbOptions {
        max_db_size: flags.blob_db_max_db_size,
        ttl_range_secs: flags.blob_db_ttl_range_secs,
        blob_file_size: flags.blob_db_file_size,
        enable_garbage_collection: flags.blob_db_enable_gc,
        ..BlobDbOptions::default()
    }))
}

/// Writes of one worker.
pub struct BlobWriter {
    blobs: Blobs,
    ttls: Rng,
}

impl BlobWriter {
    /// A writer to `blobs`.
    pub fn new(blobs: &Blobs) -> Self {
        BlobWriter { blobs: blobs.clone(), ttls: Rng::new(1) }
    }

    /// The database.
    pub fn db(&self) -> &BlobDb {
        &self.blobs.db
    }

    /// Makes the updates of `batch` one by one, as RocksDB's db_bench does in fills.
    ///
    /// # Errors
    /// Those of the writes.
    pub fn commit(&mut self, options: &WriteOptions, batch: &WriteBatch) -> Result<()> {
        let db = &self.blobs.db;
        for record in batch.iter() {
            let record = record.map_err(text)?;
            let BatchRecord::Entry { value_type, key, value, .. } = record else { continue };
            let written = match value_type {
                ValueType::Value if self.blobs.ttl_below > 0 => {
                    let ttl = self.ttls.uniform(self.blobs.ttl_below);
                    db.put_with_ttl_opt(options, key, value, ttl)
                }
                ValueType::Value => db.put_opt(options, key, value),
                ValueType::Deletion => db.delete_opt(options, key),
                ValueType::RangeDeletion => db.delete_range_opt(options, key, value),
                other => return Err(format!("{other:?} in a BlobDB")),
            };
            written.map_err(text)?;
        }
        Ok(())
    }
}

/// An iterator of one worker.
#[allow(clippy::large_enum_variant)] // Moves of a plain one go through no pointer.
pub enum AnyCursor {
    /// Of a plain database.
    Plain(DbIterator),
    /// Of a BlobDB.
    Blobs(Box<BlobDbIterator>),
}

/// Calls `$call` on either kind.
macro_rules! either {
    ($cursor:expr, $entries:ident => $call:expr) => {
        match $cursor {
            AnyCursor::Plain($entries) => $call,
            AnyCursor::Blobs($entries) => $call,
        }
    };
}

impl engine::Cursor for AnyCursor {
    #[inline]
    fn valid(&self) -> bool {
        either!(self, cursor => cursor.valid())
    }
    fn seek_to_first(&mut self) {
        either!(self, cursor => cursor.seek_to_first());
    }
    fn seek_to_last(&mut self) {
        either!(self, cursor => cursor.seek_to_last());
    }
    fn seek(&mut self, key: &[u8]) {
        either!(self, cursor => cursor.seek(key));
    }
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        either!(self, cursor => cursor.seek_for_prev(key));
        Ok(())
    }
    #[inline]
    fn next(&mut self) {
        either!(self, cursor => cursor.next());
    }
    #[inline]
    fn prev(&mut self) {
        either!(self, cursor => cursor.prev());
    }
    #[inline]
    fn key(&self) -> &[u8] {
        either!(self, cursor => cursor.key()).unwrap_or_default()
    }
    #[inline]
    fn value(&self) -> &[u8] {
        either!(self, cursor => cursor.value()).unwrap_or_default()
    }
    fn status(&self) -> Result<()> {
        either!(self, cursor => cursor.status()).map_err(text)
    }
}
