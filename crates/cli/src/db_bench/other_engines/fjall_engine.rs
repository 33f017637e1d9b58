//! fjall as an engine.
//!
//! A database is the folder `fjall` in the one of `--db`, with one keyspace. `--cache_size`,
//! `--write_buffer_size` (of a memtable) and `--block_size` are those of the flags; filters and
//! compression are fjall's own unless `--bloom_bits` and `--compression_type` are given, which hold
//! for all levels then. It chooses the number of its background threads.
//!
//! Thread safety: handles are shared between workers.

use super::super::engine::{
    Access, BenchDb, Engine, Hits, Pool, ReadSettings, Reader, Result, TableFile, WriteSettings,
    Writer,
};
use super::super::flags::Flags;
use super::cursor::{RangeCursor, Ranges};
use super::{cannot, without_pools, without_rocksdbs_calls};
use crate::folder;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{
    CompressionType, Database, Guard, Iter, Keyspace, KeyspaceCreateOptions, KvPair,
    OwnedWriteBatch, PersistMode,
};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// The version that the root `Cargo.toml` pins.
const VERSION: &str = "3.1.13";

/// Its options.
pub struct Fjall {
    flags: Flags,
    memtable_bytes: usize,
}

impl Fjall {
    /// With the options that `flags` say.
    ///
    /// # Errors
    /// The size of memtables is not a number.
    pub fn new(flags: &Flags) -> Result<Self> {
        let mut options = pumice::ColumnFamilyOptions::default();
        let name = "write_buffer_size";
        for given in flags.options.iter().filter(|given| given.option == name) {
            options.set(name, &given.value).map_err(text)?;
        }
        Ok(Fjall { flags: flags.clone(), memtable_bytes: options.write_buffer_size })
    }

    fn keyspace_options(&self) -> KeyspaceCreateOptions {
        let flags = &self.flags;
        let mut options =
            KeyspaceCreateOptions::default().max_memtable_size(self.memtable_bytes as u64);
        if flags.is_given("block_size") {
            let bytes = u32::try_from(flags.block_size).unwrap_or(u32::MAX);
            options = options.data_block_size_policy(BlockSizePolicy::all(bytes));
        }
        if flags.is_given("bloom_bits") && flags.bloom_bits > 0.0 {
            let bits = BloomConstructionPolicy::BitsPerKey(flags.bloom_bits as f32);
            let entry = FilterPolicyEntry::Bloom(bits);
            options = options.filter_policy(FilterPolicy::all(entry));
        }
        if flags.is_given("compression_type") {
            let codec = match flags.compression_type.as_str() {
                "none" => CompressionType::None,
                _ => CompressionType::Lz4,
            };
            options = options.data_block_compression_policy(CompressionPolicy::all(codec));
        }
        options
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn place(path: &Path) -> PathBuf {
    path.join("fjall")
}

impl Engine for Fjall {
    type Db = FjallDb;

    fn version_line(&self) -> String {
        format!("fjall:      version {VERSION}")
    }

    fn open(&self, path: &Path, _: Option<&Path>, access: Access<'_>) -> Result<FjallDb> {
        if let Access::Secondary(_) | Access::Follower(_) = access {
            return Err("this engine has no secondary instances".into());
        }
        let cache = u64::try_from(self.flags.cache_size).unwrap_or(0);
        let db = Database::builder(place(path)).cache_size(cache).open().map_err(text)?;
        let keyspace = db.keyspace("default", || self.keyspace_options()).map_err(text)?;
        Ok(FjallDb { db, keyspace })
    }

    fn destroy(&self, path: &Path) -> Result<()> {
        folder::remove(&place(path));
        Ok(())
    }

    without_pools!();
}

/// An open database.
pub struct FjallDb {
    db: Database,
    keyspace: Keyspace,
}

impl BenchDb for FjallDb {
    type Writer = FjallWriter;
    type Reader = FjallReader;
    type Cursor = RangeCursor<Keyspace>;

    fn writer(&self, settings: WriteSettings) -> FjallWriter {
        let mode = if settings.sync { PersistMode::SyncData } else { PersistMode::Buffer };
        FjallWriter {
            batch: self.db.batch(),
            db: self.db.clone(),
            keyspace: self.keyspace.clone(),
            mode,
        }
    }

    fn reader(&self, _: &ReadSettings) -> FjallReader {
        FjallReader { keyspace: self.keyspace.clone() }
    }

    fn cursor(&self, _: &ReadSettings, _: [Option<&[u8]>; 2]) -> Result<RangeCursor<Keyspace>> {
        Ok(RangeCursor::new(self.keyspace.clone()))
    }

    without_rocksdbs_calls!();
}

/// Writes of one worker.
pub struct FjallWriter {
    db: Database,
    keyspace: Keyspace,
    batch: OwnedWriteBatch,
    mode: PersistMode,
}

impl FjallWriter {
    /// Without `--sync` fjall itself has handed the journal to the kernel.
    fn persist(&self) -> Result<()> {
        match self.mode {
            PersistMode::Buffer => Ok(()),
            mode => self.db.persist(mode).map_err(text),
        }
    }
}

impl Writer for FjallWriter {
    fn select(&mut self, _: usize) {}

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value).map_err(text)?;
        self.persist()
    }
    fn merge(&mut self, _: &[u8], _: &[u8]) -> Result<()> {
        cannot("merge")
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.keyspace.remove(key).map_err(text)?;
        self.persist()
    }
    fn single_delete(&mut self, _: &[u8]) -> Result<()> {
        cannot("single deletion")
    }
    fn batch_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.insert(&self.keyspace, key, value);
    }
    fn batch_delete(&mut self, key: &[u8]) {
        self.batch.remove(&self.keyspace, key);
    }
    fn batch_delete_range(&mut self, _: &[u8], _: &[u8]) {
        unreachable!("flags that ask for range deletions are refused");
    }
    fn commit(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, self.db.batch());
        // A batch writes nothing to the kernel unless told to.
        batch.durability(Some(self.mode)).commit().map_err(text)
    }
}

/// Point reads of one worker.
pub struct FjallReader {
    keyspace: Keyspace,
}

impl Reader for FjallReader {
    fn select(&mut self, _: usize) {}

    fn pin(&mut self, _: bool) {}

    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.keyspace.get(key).map_err(text)?;
        found.iter().for_each(|found| value.extend_from_slice(found));
        Ok(found.is_some())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.keyspace.get(key).map_err(text)?.map(|value| value.len()))
    }

    fn multi_get(&mut self, _: &[u8], _: usize) -> Result<Hits> {
        cannot("multi-get")
    }
}

impl Ranges for Keyspace {
    type Entry = KvPair;
    type Iter = Iter;

    fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Iter> {
        Ok(Keyspace::range::<&[u8], _>(self, (from, to)))
    }
    fn step(iter: &mut Iter, forward: bool) -> Option<Result<KvPair>> {
        let guard = if forward { iter.next() } else { iter.next_back() };
        guard.map(Guard::into_inner).map(|entry| entry.map_err(text))
    }
    fn key(entry: &KvPair) -> &[u8] {
        &entry.0
    }
    fn value(entry: &KvPair) -> &[u8] {
        &entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Plain #[test]: nothing in it can wait.
    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"fjall\"\nversion = \"{VERSION}\"\n")));
    }
}
