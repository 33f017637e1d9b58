//! The row cache: results of point reads in table files, by file and key, in front of the block
//! cache.
//!
//! A row holds the versions of one key in one file, newest first, as far as a search needs them. It
//! is made only by a search to which the whole file was visible, and used only by such searches:
//! then their sequence numbers do not matter. Files never change, so that a row is good until it is
//! evicted; rows of deleted files are never looked up again.
//!
//! Rows are stored under a hash of the key and hold the key itself: two keys with one hash take
//! turns, and neither gets the other's value.
//!
//! Not here: whether a file's range deletions cover the key. Files that have any have no rows
//! (`read::get`). RocksDB refuses range deletions where there is a row cache.
//!
//! Thread safety: everything is `Send + Sync`; nothing blocks. Cost: a hit copies the value once.

use std::sync::Arc;

use pumice_base::hash::hash64;
use pumice_base::{FileNumber, SequenceNumber, ValueType};
use pumice_cache::{Cache, CacheKey, CacheOptions, Priority};

/// A key and a short value.
const ESTIMATED_ROW_BYTES: usize = 256;
/// Bits of a key that hold the file number; the bits above distinguish databases.
const FILE_BITS: u32 = 40;

/// Rows that were read from table files, for `DbOptions::row_cache`; databases may share one.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-rowcache-{}", std::process::id()));
/// use pumice::{Db, RowCache};
/// let rows = RowCache::new(1 << 20);
/// let shared = rows.clone();
/// let db = Db::builder(&dir)
///     .create(true)
///     .configure(|options| options.db.row_cache = Some(shared))
///     .open()?;
/// db.put("a", "1")?;
/// db.flush()?;
/// db.get("a")?;
/// assert!(rows.usage() > 0);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RowCache {
    rows: Arc<Cache<Row>>,
}

impl std::fmt::Debug for RowCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowCache").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

impl RowCache {
    /// An empty cache for `capacity` bytes of keys and values.
    pub fn new(capacity: usize) -> Arc<Self> {
        let options = CacheOptions {
            estimated_entry_charge: ESTIMATED_ROW_BYTES,
            ..CacheOptions::new(capacity)
        };
        Arc::new(RowCache { rows: Cache::new(options) })
    }

    /// Bytes that it may hold.
    pub fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    /// Bytes that it holds.
    pub fn usage(&self) -> usize {
        self.rows.usage()
    }
}

/// A key's versions, encoded: the key's length, the key, and each version with its sequence
/// number, type, length and value.
struct Row(Box<[u8]>);

/// The rows of one database.
pub(crate) struct Rows {
    cache: Arc<RowCache>,
    id: u64,
}

impl Rows {
    /// Rows in `cache` that neither another database sees nor this one after its next open.
    pub fn new(cache: &Arc<RowCache>) -> Self {
        Rows { cache: Arc::clone(cache), id: cache.rows.new_id() }
    }

    fn key(&self, file: FileNumber, key: &[u8]) -> CacheKey {
        CacheKey(self.id << FILE_BITS ^ file, hash64(key))
    }

    /// Passes the versions of `key` in `file` to `take`, newest first, until it stops; false if
    /// there is no row.
    pub fn find(
        &self,
        file: FileNumber,
        key: &[u8],
        mut take: impl FnMut(SequenceNumber, ValueType, &[u8]) -> bool,
    ) -> bool {
        let Some(row) = self.cache.rows.lookup(&self.key(file, key)) else { return false };
        let Some((found, mut rest)) = split_sized(&row.0) else { return false };
        if found != key {
            return false;
        }
        while let Some((sequence, value_type, value, after)) = split_version(rest) {
            rest = after;
            if !take(sequence, value_type, value) {
                break;
            }
        }
        true
    }

    /// Keeps `row` if it is complete and not empty: for missing keys there are filters.
    pub fn insert(&self, file: FileNumber, row: RowBuilder<'_>) {
        if row.versions == 0 || row.is_partial {
            return;
        }
        let charge = row.bytes.len() + size_of::<Row>();
        let entry = Row(row.bytes.into_boxed_slice());
        // A full cache may refuse; the next read tries again.
        drop(self.cache.rows.insert(self.key(file, row.key), entry, charge, Priority::Low));
    }
}

/// Gathers a row while a table is searched.
pub(crate) struct RowBuilder<'a> {
    key: &'a [u8],
    bytes: Vec<u8>,
    versions: usize,
    is_partial: bool,
}

impl<'a> RowBuilder<'a> {
    /// Nothing of `key` yet.
    pub fn new(key: &'a [u8]) -> Self {
        let mut bytes = Vec::new();
        push_sized(&mut bytes, key);
        RowBuilder { key, bytes, versions: 0, is_partial: false }
    }

    /// The next older version.
    pub fn push(&mut self, sequence: SequenceNumber, value_type: ValueType, value: &[u8]) {
        self.bytes.extend_from_slice(&sequence.to_le_bytes());
        self.bytes.push(value_type as u8);
        push_sized(&mut self.bytes, value);
        self.versions += 1;
    }

    /// The search ended earlier than others might.
    pub fn set_partial(&mut self) {
        self.is_partial = true;
    }
}

fn push_sized(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn split_sized(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = from.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)
}

fn split_version(from: &[u8]) -> Option<(SequenceNumber, ValueType, &[u8], &[u8])> {
    let (sequence, rest) = from.split_first_chunk::<8>()?;
    let (&value_type, rest) = rest.split_first()?;
    let (value, rest) = split_sized(rest)?;
    Some((u64::from_le_bytes(*sequence), ValueType::from_u8(value_type)?, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(rows: &Rows, file: FileNumber, key: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
        let mut found = Vec::new();
        let there = rows.find(file, key, |sequence, _, value| {
            found.push((sequence, value.to_vec()));
            true
        });
        there.then_some(found)
    }

    #[pumice_test_macros::test]
    fn rows_are_found_by_database_file_and_key() {
        let cache = RowCache::new(1 << 20);
        let (one, other) = (Rows::new(&cache), Rows::new(&cache));
        let mut row = RowBuilder::new(b"key");
        row.push(9, ValueType::Merge, b"operand");
        row.push(7, ValueType::Value, b"");
        one.insert(5, row);
        let expected = vec![(9, b"operand".to_vec()), (7, Vec::new())];
        assert_eq!(versions(&one, 5, b"key"), Some(expected));
        assert_eq!(versions(&one, 6, b"key"), None);
        assert_eq!(versions(&one, 5, b"kex"), None);
        assert_eq!(versions(&other, 5, b"key"), None);
    }

    #[pumice_test_macros::test]
    fn nothing_and_parts_are_not_kept() {
        let cache = RowCache::new(1 << 20);
        let rows = Rows::new(&cache);
        rows.insert(5, RowBuilder::new(b"key"));
        let mut row = RowBuilder::new(b"key");
        row.push(9, ValueType::Value, b"value");
        row.set_partial();
        rows.insert(5, row);
        assert_eq!(versions(&rows, 5, b"key"), None);
        assert_eq!(cache.usage(), 0);
    }
}
