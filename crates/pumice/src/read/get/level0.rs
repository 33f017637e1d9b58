//! Lookups in level 0, whose files overlap.
//!
//! The files are searched newest first, and the first one that settles the answer is the last one
//! searched. Where lookups have lately had to read blocks of several files
//! ([`L0Reads`](crate::version::l0_reads::L0Reads)), the blocks that are missing of all files whose
//! filters let the key through are read together before the search; those of files behind the one
//! that settles the answer are then read in vain. An error of such a read is found again, and
//! returned, if the search gets to its file. No table is opened for that, and what is counted is
//! what the search alone would count.
//!
//! Thread safety: as `get`. Reads files and so suspends.

use std::sync::Arc;

use pumice_base::Result;
use pumice_base::key::{InternalKey, ParsedInternalKey};
use pumice_env::activity;
use pumice_manifest::Level;
use pumice_table::{BlockHandle, BlockKind, MissedBlock, PinnedBlock, Table, TableReadOptions};

use super::Lookup;
use crate::read::together::read_together;
use crate::read::value::EntryKind;
use crate::version::table_cache::TableCache;

/// A block that a file lacks for the lookup.
type Need = (Arc<Table>, (BlockHandle, BlockKind));

impl Lookup<'_> {
    /// Looks in the files of level 0.
    #[inline(never)]
    pub(super) fn level0<const OBSERVED: bool>(
        &mut self,
        cache: &TableCache,
        options: &TableReadOptions,
        level: &Level,
        target: (InternalKey<'_>, u64),
    ) -> Result<()> {
        let cf = self.cf;
        let may = options.waits_once() && !options.cache_only && cache.rows().is_none();
        if may && level.files().len() > 1 && cf.l0_reads.expects_several() {
            return self.level0_together::<OBSERVED>(cache, options, level, target);
        }
        let mut read = 0;
        for file in level.candidates(&cf.table_keys.icmp, target.0) {
            let before = options.reads.get();
            self.ask::<OBSERVED>(cache, options, (0, file), target)?;
            read += u32::from(options.reads.get() != before);
            if !self.is_open() {
                break;
            }
        }
        if read > 1 {
            cf.l0_reads.note_several();
        }
        Ok(())
    }

    /// The same, after reading the blocks that are missing.
    #[cold]
    fn level0_together<const OBSERVED: bool>(
        &mut self,
        cache: &TableCache,
        options: &TableReadOptions,
        level: &Level,
        target: (InternalKey<'_>, u64),
    ) -> Result<()> {
        let missed = Arc::new(MissedBlock::default());
        let needs = self.needs(cache, options, &missed, level, target);
        if needs.len() > 1 {
            let little_stack = |(table, (_, kind)): &&Need| table.loads_on_little_stack(*kind);
            read_together(activity::current(), needs.iter(), little_stack, |(table, block)| {
                if let Ok(loaded) = table.load_for_one(*block, options) {
                    missed.keep(table, block.0.offset, loaded);
                }
            });
        }
        let options = &TableReadOptions { missed: Some(missed), ..options.clone() };
        let cf = self.cf;
        let mut used = 0;
        for file in level.candidates(&cf.table_keys.icmp, target.0) {
            self.ask::<OBSERVED>(cache, options, (0, file), target)?;
            used += usize::from(needs.iter().any(|need| need.0.file_number() == file.number));
            if !self.is_open() {
                break;
            }
        }
        match used > 1 && used == needs.len() {
            true => cf.l0_reads.note_several(),
            false => cf.l0_reads.note_fewer(),
        }
        Ok(())
    }

    /// The blocks that files of level 0 lack, up to the file that settles the answer for sure.
    fn needs(
        &self,
        cache: &TableCache,
        options: &TableReadOptions,
        missed: &Arc<MissedBlock>,
        level: &Level,
        (seek_key, hash): (InternalKey<'_>, u64),
    ) -> Vec<Need> {
        let (cache_only, missed) = (true, Some(Arc::clone(missed)));
        let quick = TableReadOptions { cache_only, missed, uncounted: true, ..options.clone() };
        let mut needs = Vec::new();
        for file in level.candidates(&self.cf.table_keys.icmp, seek_key) {
            // The search opens it, if it gets so far.
            let Some(table) = cache.opened(file) else { break };
            let mut settled = false;
            let see = &mut |entry: ParsedInternalKey<'_>, _: &[u8], _: &PinnedBlock| {
                settled = self.cf.timestamp_size == 0
                    && EntryKind::of(entry.value_type) != EntryKind::Operand;
                false
            };
            let searched = table.get_hashed::<false, _>(&quick, seek_key, hash, see);
            if searched.is_err()
                && let (Some(missed), Ok(shared)) = (&quick.missed, table.share())
            {
                missed.set_table(shared);
                needs.extend(missed.take());
            }
            if settled {
                break;
            }
        }
        needs
    }
}
