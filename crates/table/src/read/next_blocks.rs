//! Lookups that continue past the first data block: versions of a key may span several.
//!
//! Thread safety: as the table. The index is checked against the blocks: at most one block without
//! a version of the key comes before it, so a lookup in a table crafted to keep it busy ends in an
//! error. Suspends where a block is read.

use pumice_base::key::{InternalKey, ParsedInternalKey};
use pumice_base::{Error, Result};

use crate::read::cached_block::PinnedBlock;
use crate::read::context::TableReadOptions;
use crate::read::index::IndexBlock;
use crate::read::table::{Table, Visit};

impl Table {
    /// Continues after block `at` of `index`, whose visit ended in `last`.
    #[cold]
    #[inline(never)]
    pub(super) fn get_in_next_blocks<F>(
        &self,
        (index, at): (&IndexBlock, usize),
        mut last: Visit,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<Visit>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        for at in at + 1..index.len() {
            if index.begins_above(at, &self.comparator, target.user_key()) {
                return Ok(Visit::Done);
            }
            let visit = self.visit_at::<true, F>(index.handle(at), options, target, f)?;
            if let Visit::Done = visit {
                return Ok(Visit::Done);
            }
            last = self.next_visit(last, visit)?;
        }
        Ok(last)
    }

    /// The next state of a lookup that was at `last`, given `visit`, which is not `Done`.
    #[cold]
    pub(super) fn next_visit(&self, last: Visit, visit: Visit) -> Result<Visit> {
        match (last, visit) {
            (Visit::Passed, Visit::Passed) => Err(Error::corruption(format!(
                "blocks out of order: two are before a key that the index puts there, in {}",
                self.file.name()
            ))),
            (_, visit) => Ok(visit),
        }
    }
}
