//! Reads of merge operands of values that expire, in the four forms of decision 0029.
//!
//! Thread safety: as the database. Every call may suspend. RocksDB's `DBWithTTL` leaves the times
//! at the end of what it returns here and of what it passes to the callback; this handle never
//! does.

use pumice_base::Result;

use super::{DbWithTtl, split, stripped_value};
use crate::options::requests::{GetMergeOperandsOptions, ReadOptions};
use crate::read::pinned::PinnedSlice;
use crate::version::family::ColumnFamily;

impl DbWithTtl {
    /// As [`Db::get_merge_operands`](crate::Db::get_merge_operands); what is too old is returned
    /// until a compaction drops it.
    ///
    /// # Errors
    /// As there; Corruption for a value or an operand without a valid time.
    pub fn get_merge_operands(
        &self,
        key: impl AsRef<[u8]>,
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        let cf = self.db.default_column_family();
        self.get_merge_operands_cf_opt(&ReadOptions::DEFAULT, cf, key, how, number_of_operands)
    }
    /// [`Self::get_merge_operands`] in `cf`.
    ///
    /// # Errors
    /// As [`Self::get_merge_operands`].
    pub fn get_merge_operands_cf(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        self.get_merge_operands_cf_opt(&ReadOptions::DEFAULT, cf, key, how, number_of_operands)
    }
    /// [`Self::get_merge_operands`] with options.
    ///
    /// # Errors
    /// As [`Self::get_merge_operands`].
    pub fn get_merge_operands_opt(
        &self,
        options: &ReadOptions,
        key: impl AsRef<[u8]>,
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        let cf = self.db.default_column_family();
        self.get_merge_operands_cf_opt(options, cf, key, how, number_of_operands)
    }
    /// [`Self::get_merge_operands`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Self::get_merge_operands`].
    pub fn get_merge_operands_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        let shown = |stored: &[u8]| match (how.continue_cb, split(stored)) {
            (Some(continue_cb), Ok((operand, _))) => continue_cb(operand),
            (None, Ok(_)) => true,
            // This becomes the error of the call.
            (_, Err(_)) => false,
        };
        let how = GetMergeOperandsOptions { continue_cb: Some(&shown), ..*how };
        let found =
            self.db.get_merge_operands_cf_opt(options, cf, key, &how, number_of_operands)?;
        found.into_iter().map(stripped_value).collect()
    }
}
