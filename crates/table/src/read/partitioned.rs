//! Point lookups in an index of partitions: decoded ones from the cache, others in passing.
//!
//! Thread safety: as the table. Invariant: partitions are searched in order from the first whose
//! separator is not before the target, until a lookup is done. Suspends where a block is read.

use pumice_base::Result;
use pumice_base::key::{InternalKey, ParsedInternalKey};

use crate::handle::{BlockHandle, BlockKind};
use crate::read::cached_block::PinnedBlock;
use crate::read::context::TableReadOptions;
use crate::read::file::{Searched, TableFile};
use crate::read::index::{IndexBlock, RawIndex};
use crate::read::table::{Table, Visit};

impl Table {
    /// Visits the blocks of the partitions that `target` may be in.
    pub(super) fn get_partitioned<F>(
        &self,
        top: &IndexBlock,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<()>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        let mut last = Visit::BlockEnded;
        for at in top.seek(&self.comparator, target)..top.len() {
            let visit = match self.index_partition_for_one(top, at, options)? {
                Some(partition) => {
                    let index = self.index_of(&partition)?;
                    let first = index.seek(&self.comparator, target);
                    self.get_in::<true, F>(index, first, options, target, f)?
                }
                None => self.get_in_passing(top.handle(at), options, target, f)?,
            };
            if let Visit::Done = visit {
                return Ok(());
            }
            last = self.next_visit(last, visit)?;
        }
        Ok(())
    }

    /// As [`Table::get_in`] from where `target` belongs, in an index block that is read, but not
    /// decoded and not kept.
    #[cold]
    #[inline(never)]
    fn get_in_passing<F>(
        &self,
        place: BlockHandle,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<Visit>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        match self.search_in_passing(place, options, target)? {
            Searched::Found(handle) => self.visit_at::<true, F>(handle, options, target, f),
            Searched::Contents(contents) => {
                let visit = self.get_in_raw((&contents, place), options, target, f);
                TableFile::recycle(contents);
                visit
            }
        }
    }

    /// [`Table::get_in_passing`] with the contents of the block at `place`.
    fn get_in_raw<F>(
        &self,
        (contents, place): (&[u8], BlockHandle),
        options: &TableReadOptions,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<Visit>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        let bad = |what: &'static str| self.file.bad_block(place, BlockKind::Index, what);
        let index = RawIndex::new(contents, self.index_encoding).map_err(bad)?;
        let mut position = index.seek(&self.comparator, target).map_err(bad)?;
        let mut last = Visit::BlockEnded;
        while let Some(handle) = position.handle() {
            if position.begins_above(&self.comparator, target.user_key()).map_err(bad)? {
                return Ok(Visit::Done);
            }
            let visit = self.visit_at::<true, F>(handle, options, target, f)?;
            if let Visit::Done = visit {
                return Ok(Visit::Done);
            }
            last = self.next_visit(last, visit)?;
            position.advance().map_err(bad)?;
        }
        Ok(last)
    }
}
