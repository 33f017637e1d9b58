//! redb as an engine.
//!
//! A database is the file `data.redb` in the folder of `--db`, with one table. `--cache_size` is
//! that of the flag. It compresses nothing and has no filters.
//!
//! Thread safety: handles are shared between workers; one of them writes at a time.

use super::super::engine::{
    Access, BenchDb, Engine, Hits, Pool, ReadSettings, Reader, Result, TableFile, WriteSettings,
    Writer,
};
use super::super::flags::Flags;
use super::cursor::{RangeCursor, Ranges};
use super::{cannot, without_pools, without_rocksdbs_calls};
use pumice_port::os;
use redb::{
    AccessGuard, Database, Durability, Range, ReadOnlyTable, ReadableDatabase, TableDefinition,
};
use std::io::ErrorKind;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version that the root `Cargo.toml` pins.
const VERSION: &str = "4.6.0";

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("default");

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;
type Bytes = AccessGuard<'static, &'static [u8]>;

/// Its options.
pub struct Redb {
    cache_bytes: usize,
}

impl Redb {
    /// With the options that `flags` say.
    pub fn new(flags: &Flags) -> Self {
        Redb { cache_bytes: usize::try_from(flags.cache_size).unwrap_or(0) }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn place(path: &Path) -> PathBuf {
    path.join("data.redb")
}

impl Engine for Redb {
    type Db = RedbDb;

    fn version_line(&self) -> String {
        format!("redb:       version {VERSION}")
    }

    fn open(&self, path: &Path, _: Option<&Path>, access: Access<'_>) -> Result<RedbDb> {
        if let Access::Secondary(_) | Access::Follower(_) = access {
            return Err("this engine has no secondary instances".into());
        }
        let mut builder = Database::builder();
        builder.set_cache_size(self.cache_bytes);
        let db = builder.create(place(path)).map_err(text)?;
        // Readers need the table.
        let transaction = db.begin_write().map_err(text)?;
        transaction.open_table(TABLE).map_err(text)?;
        transaction.commit().map_err(text)?;
        Ok(RedbDb { db: Arc::new(db) })
    }

    fn destroy(&self, path: &Path) -> Result<()> {
        match os::unlink(&place(path)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(text(error)),
            _ => Ok(()),
        }
    }

    without_pools!();
}

/// An open database.
pub struct RedbDb {
    db: Arc<Database>,
}

impl RedbDb {
    fn table(db: &Database) -> Result<Table> {
        let transaction = db.begin_read().map_err(text)?;
        transaction.open_table(TABLE).map_err(text)
    }
}

impl BenchDb for RedbDb {
    type Writer = RedbWriter;
    type Reader = RedbReader;
    type Cursor = RangeCursor<Table>;

    fn writer(&self, settings: WriteSettings) -> RedbWriter {
        RedbWriter { db: self.db.clone(), sync: settings.sync, batch: Vec::new() }
    }

    fn reader(&self, _: &ReadSettings) -> RedbReader {
        RedbReader { db: self.db.clone() }
    }

    fn cursor(&self, _: &ReadSettings, _: [Option<&[u8]>; 2]) -> Result<RangeCursor<Table>> {
        Ok(RangeCursor::new(RedbDb::table(&self.db)?))
    }

    without_rocksdbs_calls!();
}

/// A put, or a deletion.
type Write<B> = (B, Option<B>);

/// Writes of one worker.
pub struct RedbWriter {
    db: Arc<Database>,
    sync: bool,
    batch: Vec<Write<Vec<u8>>>,
}

impl RedbWriter {
    /// One transaction.
    fn write<'w>(&self, writes: impl Iterator<Item = Write<&'w [u8]>>) -> Result<()> {
        let mut transaction = self.db.begin_write().map_err(text)?;
        let durability = if self.sync { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability).map_err(text)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(text)?;
            for (key, value) in writes {
                match value {
                    Some(value) => table.insert(key, value).map(drop),
                    None => table.remove(key).map(drop),
                }
                .map_err(text)?;
            }
        }
        transaction.commit().map_err(text)
    }
}

impl Writer for RedbWriter {
    fn select(&mut self, _: usize) {}

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(std::iter::once((key, Some(value))))
    }
    fn merge(&mut self, _: &[u8], _: &[u8]) -> Result<()> {
        cannot("merge")
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.write(std::iter::once((key, None)))
    }
    fn single_delete(&mut self, _: &[u8]) -> Result<()> {
        cannot("single deletion")
    }
    fn batch_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.push((key.to_vec(), Some(value.to_vec())));
    }
    fn batch_delete(&mut self, key: &[u8]) {
        self.batch.push((key.to_vec(), None));
    }
    fn batch_delete_range(&mut self, _: &[u8], _: &[u8]) {
        unreachable!("flags that ask for range deletions are refused");
    }
    fn commit(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.write(batch.iter().map(|(key, value)| (key.as_slice(), value.as_deref())))
    }
}

/// Point reads of one worker.
pub struct RedbReader {
    db: Arc<Database>,
}

impl RedbReader {
    fn find<T>(&self, key: &[u8], then: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let found = RedbDb::table(&self.db)?.get(key).map_err(text)?;
        Ok(found.map(|value| then(value.value())))
    }
}

impl Reader for RedbReader {
    fn select(&mut self, _: usize) {}

    fn pin(&mut self, _: bool) {}

    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        Ok(self.find(key, |found| value.extend_from_slice(found))?.is_some())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<usize>> {
        self.find(key, <[u8]>::len)
    }

    fn multi_get(&mut self, _: &[u8], _: usize) -> Result<Hits> {
        cannot("multi-get")
    }
}

impl Ranges for Table {
    type Entry = (Bytes, Bytes);
    type Iter = Range<'static, &'static [u8], &'static [u8]>;

    fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Self::Iter> {
        ReadOnlyTable::range::<&[u8]>(self, (from, to)).map_err(text)
    }
    fn step(iter: &mut Self::Iter, forward: bool) -> Option<Result<Self::Entry>> {
        let entry = if forward { iter.next() } else { iter.next_back() };
        entry.map(|entry| entry.map_err(text))
    }
    fn key(entry: &Self::Entry) -> &[u8] {
        entry.0.value()
    }
    fn value(entry: &Self::Entry) -> &[u8] {
        entry.1.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Plain #[test]: nothing in it can wait.
    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"redb\"\nversion = \"{VERSION}\"\n")));
    }
}
