//! The result wanted from a point read: the user's value, or all columns of an entity.
//!
//! Thread safety: plain data. The search is compiled for each.

use pumice_base::Result;

use crate::read::columns::PinnedColumns;
use crate::read::pinned::PinnedSlice;

/// The answer of a point read.
pub(crate) trait PointAnswer: Sized {
    /// Entities are wanted whole, not their default columns.
    const COLUMNS: bool;

    /// The answer made from `found`: an entity as it is stored (only with `COLUMNS`), or a value.
    ///
    /// # Errors
    /// The errors of decoding the entity.
    fn of_found(found: PinnedSlice, is_entity: bool) -> Result<Option<Self>>;

    /// Its size in bytes, for the statistics.
    fn bytes(&self) -> u64;
}

impl PointAnswer for PinnedSlice {
    const COLUMNS: bool = false;

    #[inline(always)]
    fn of_found(found: PinnedSlice, _: bool) -> Result<Option<Self>> {
        Ok(Some(found))
    }

    #[inline(always)]
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl PointAnswer for PinnedColumns {
    const COLUMNS: bool = true;

    fn of_found(found: PinnedSlice, is_entity: bool) -> Result<Option<Self>> {
        match is_entity {
            true => PinnedColumns::of_entity(found).map(Some),
            false => Ok(Some(PinnedColumns::of_plain(found))),
        }
    }

    fn bytes(&self) -> u64 {
        self.stored_bytes() as u64
    }
}
