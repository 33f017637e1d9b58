//! The index block of a plain table: a hash table from prefixes to the offsets of rows.
//!
//! ```text
//! varint32 buckets ‖ varint32 prefixes ‖ fixed32 per bucket ‖ lists
//! bucket: the offset of the one row that is noted for it
//!       | 80000000 | the place of a list, from the end of the buckets
//!       | 7fffffff if it has none
//! list: varint32 rows ‖ fixed32 offset of each, ascending
//! ```
//!
//! Thread safety: one owner.

use pumice_base::coding::{put_fixed32, put_varint32};
use pumice_base::narrow::{len_u32, low_u32, round_down_u64};
use pumice_base::{Error, Result};

use crate::plain::{MAX_FILE_BYTES, slice_hash};

const EMPTY_BUCKET: u32 = (1 << 31) - 1;
const IS_LIST: u32 = 1 << 31;

/// Notes rows, and makes the block.
pub(super) struct PlainIndex {
    sparseness: usize,
    /// Prefixes per bucket; 0 for one bucket.
    ratio: f64,
    /// The hash of the prefix and the offset of each row that is noted.
    rows: Vec<(u32, u32)>,
    prefixes: u32,
    prefix: Option<(Vec<u8>, u32)>,
    rows_of_prefix: usize,
}

impl PlainIndex {
    pub fn new(sparseness: usize, ratio: f64) -> Self {
        PlainIndex {
            sparseness: sparseness.max(1),
            ratio,
            rows: Vec::new(),
            prefixes: 0,
            prefix: None,
            rows_of_prefix: 0,
        }
    }

    /// Adds a row: the first one of a prefix is noted, and then every so many.
    pub fn add(&mut self, prefix: &[u8], offset: u32) {
        let hash = match &self.prefix {
            Some((last, hash)) if last == prefix => *hash,
            _ => {
                let hash = slice_hash(prefix);
                self.prefix = Some((prefix.to_vec(), hash));
                self.prefixes += 1;
                self.rows_of_prefix = 0;
                hash
            }
        };
        if self.rows_of_prefix.is_multiple_of(self.sparseness) {
            self.rows.push((hash, offset));
        }
        self.rows_of_prefix += 1;
    }

    /// The block.
    ///
    /// # Errors
    /// NotSupported for a block that no file has room for.
    pub fn finish(&self) -> Result<Vec<u8>> {
        let count = match self.ratio > 0.0 {
            true => round_down_u64(f64::from(self.prefixes) / self.ratio).saturating_add(1),
            false => 1,
        };
        if count > MAX_FILE_BYTES / 4 {
            return Err(Error::not_supported(format!("PlainTable index of {count} buckets")));
        }
        let count = low_u32(count);
        let bucket = |row: &(u32, u32)| row.0 % count;
        let mut rows = self.rows.clone();
        // Stable: the rows of a bucket stay in their order.
        rows.sort_by_key(bucket);
        let mut block = Vec::new();
        put_varint32(&mut block, count);
        put_varint32(&mut block, self.prefixes);
        let (mut lists, mut next) = (Vec::new(), 0);
        for rows in rows.chunk_by(|a, b| bucket(a) == bucket(b)) {
            let at = bucket(&rows[0]);
            (next..at).for_each(|_| put_fixed32(&mut block, EMPTY_BUCKET));
            next = at + 1;
            let entry = match rows {
                [(_, row)] => *row,
                rows => {
                    let place = len_u32(lists.len());
                    put_varint32(&mut lists, len_u32(rows.len()));
                    rows.iter().for_each(|(_, row)| put_fixed32(&mut lists, *row));
                    place | IS_LIST
                }
            };
            put_fixed32(&mut block, entry);
        }
        (next..count).for_each(|_| put_fixed32(&mut block, EMPTY_BUCKET));
        block.append(&mut lists);
        Ok(block)
    }
}
