//! Reads of a table through its trie index, which is kept with the table.
//!
//! A column family that has such an index reads it when it opens a table; a read uses it if it asks
//! for it, or if it is the primary index. A table without it is read through its own index.
//!
//! Thread safety: as the table. Suspends where a block is read.

use pumice_base::key::{InternalKey, ParsedInternalKey};
use pumice_base::{Error, InternalKeyComparator, Result};

use crate::handle::{BlockHandle, BlockKind};
use crate::metaindex::{MetaIndex, TRIE_INDEX};
use crate::read::cached_block::PinnedBlock;
use crate::read::context::TableReadOptions;
use crate::read::file::Tail;
use crate::read::index::IndexBlock;
use crate::read::open::read;
use crate::read::table::{Table, Visit};
use crate::trie::{TrieIndex, check_order};

/// An index of one level that a read uses.
#[derive(Clone, Copy)]
pub(super) enum Blocks<'a> {
    Index(&'a IndexBlock),
    Trie(&'a TrieIndex),
}

impl Blocks<'_> {
    /// Number of blocks.
    pub fn len(self) -> usize {
        match self {
            Blocks::Index(index) => index.len(),
            Blocks::Trie(trie) => trie.len(),
        }
    }

    /// The handle of block `i`, which is below `len`.
    pub fn handle(self, i: usize) -> BlockHandle {
        match self {
            Blocks::Index(index) => index.handle(i),
            Blocks::Trie(trie) => trie.handle(i),
        }
    }

    /// The first block whose separator is at or after internal key `target`; `len` if none.
    pub fn seek(self, cmp: &InternalKeyComparator, target: InternalKey<'_>) -> usize {
        match self {
            Blocks::Index(index) => index.seek(cmp, target),
            Blocks::Trie(trie) => trie.seek(target),
        }
    }

    /// The separator of block `i` is at or after internal key `target`.
    pub fn reaches(self, i: usize, cmp: &InternalKeyComparator, target: InternalKey<'_>) -> bool {
        match self {
            Blocks::Index(index) => index.reaches(i, cmp, target),
            Blocks::Trie(trie) => trie.seek(target) <= i,
        }
    }
}

impl Table {
    /// The trie, if such a read uses it.
    #[cold]
    pub(super) fn trie_for(&self, options: &TableReadOptions) -> Option<&TrieIndex> {
        let wanted = self.options.use_udi_as_primary_index || options.table_index_factory.is_some();
        self.trie.as_deref().filter(|_| wanted)
    }

    /// Visits the blocks that `target` may be in.
    #[cold]
    #[inline(never)]
    pub(super) fn get_by_trie<F>(
        &self,
        trie: &TrieIndex,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<()>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        let mut last = Visit::BlockEnded;
        for at in trie.seek(target)..trie.len() {
            let visit = self.visit_at::<true, F>(trie.handle(at), options, target, f)?;
            if let Visit::Done = visit {
                return Ok(());
            }
            last = self.next_visit(last, visit)?;
        }
        Ok(())
    }

    /// Reads the trie index if the column family has one.
    pub(super) fn load_trie(&mut self, tail: &Tail, meta: &MetaIndex) -> Result<()> {
        let options = &self.options;
        if options.user_defined_index_factory.is_none() {
            return Ok(());
        }
        let Some(handle) = meta.trie else {
            if options.fail_if_no_udi_on_open || options.use_udi_as_primary_index {
                return Err(Error::corruption(format!(
                    "Corruption: Cannot find the meta block: {TRIE_INDEX}: {}",
                    self.file.name()
                )));
            }
            return Ok(());
        };
        check_order(&self.comparator.user)?;
        let kind = BlockKind::Index;
        let bad = |what: &str| self.file.bad_block(handle, kind, what);
        let trie = TrieIndex::decode(&read(&self.file, tail, handle, kind)?).map_err(bad)?;
        if trie.len() as u64 != self.properties.num_data_blocks {
            return Err(bad("Trie index: not as many blocks as the table has"));
        }
        self.has_trie = true;
        self.trie = Some(Box::new(trie));
        Ok(())
    }
}
