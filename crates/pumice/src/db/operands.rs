//! The handle's reads of merge operands that are not merged.
//!
//! Forms and key types are those of the other reads (`reads`).
//!
//! Thread safety: from any thread. Every call may suspend.

use pumice_base::{Error, ErrorKind, Result, SubCode};

use crate::db::api::Db;
use crate::engine::read_api;
use crate::options::requests::{GetMergeOperandsOptions, ReadOptions};
use crate::read::pinned::PinnedSlice;
use crate::version::family::ColumnFamily;

impl Db {
    /// What the value of `key` is to be merged from, in the order of application: the value below
    /// the operands, if there is one (the default column of an entity), then the operands, oldest
    /// first. Nothing is merged; what a flush or a compaction has merged already is one value or
    /// one operand. Empty if there is no such key.
    ///
    /// `number_of_operands` becomes the number found, also if that is more than `how` expects.
    ///
    /// # Errors
    /// Incomplete ([`SubCode::MergeOperandsInsufficientCapacity`]) if there are more than
    /// `expected_max_number_of_operands`; InvalidArgument for operands without a merge operator;
    /// otherwise as [`Db::get`].
    pub fn get_merge_operands(
        &self,
        key: impl AsRef<[u8]>,
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        let cf = self.default_column_family();
        self.get_merge_operands_cf_opt(&ReadOptions::DEFAULT, cf, key, how, number_of_operands)
    }

    /// [`Db::get_merge_operands`] in `cf`.
    ///
    /// # Errors
    /// As [`Db::get_merge_operands`].
    pub fn get_merge_operands_cf(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        self.get_merge_operands_cf_opt(&ReadOptions::DEFAULT, cf, key, how, number_of_operands)
    }

    /// [`Db::get_merge_operands`] with options.
    ///
    /// # Errors
    /// As [`Db::get_merge_operands`].
    pub fn get_merge_operands_opt(
        &self,
        options: &ReadOptions,
        key: impl AsRef<[u8]>,
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        let cf = self.default_column_family();
        self.get_merge_operands_cf_opt(options, cf, key, how, number_of_operands)
    }

    /// [`Db::get_merge_operands`] in `cf` with options.
    ///
    /// # Errors
    /// As [`Db::get_merge_operands`].
    pub fn get_merge_operands_cf_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        how: &GetMergeOperandsOptions<'_>,
        number_of_operands: &mut usize,
    ) -> Result<Vec<PinnedSlice>> {
        *number_of_operands = 0;
        let go_on = how.continue_cb.unwrap_or(&|_| true);
        let found =
            read_api::get_operands(self.inner(), options, self.data(cf)?, key.as_ref(), go_on)?;
        *number_of_operands = found.len();
        if found.len() > how.expected_max_number_of_operands {
            let error = Error::new(ErrorKind::Incomplete, "");
            return Err(error.with_subcode(SubCode::MergeOperandsInsufficientCapacity));
        }
        Ok(found)
    }
}
