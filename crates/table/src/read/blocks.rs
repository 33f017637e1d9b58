//! Blocks of a table: held by it, taken from the cache, or read from the file.
//!
//! Thread safety: as the table. A block is decoded before it is reachable; its key in the cache is
//! the table's `cache_base` with the block's offset xored in. Suspends where a block is read.

use std::sync::Arc;

use pumice_base::checksum::ChecksumType;
use pumice_base::key::InternalKey;
use pumice_base::narrow::to_usize;
use pumice_base::{Comparator, Error, ErrorKind, Result};
use pumice_cache::{CacheKey, Handle, Priority, SecondaryLookup, Simulation};
use pumice_env::IoPriority;
use pumice_env::perf;
use pumice_env::rate_limiter::reads::read_priority;
use pumice_port::time;

use crate::handle::{BlockHandle, BlockKind};
use crate::read::block::{Block, KeyForm};
use crate::read::cached_block::{BlockCache, CachedBlock, PinnedBlock};
use crate::read::context::{MissedBlock, ReadLimits, TableReadOptions};
use crate::read::file::{Searched, TableFile};
use crate::read::index::{IndexBlock, IndexEncoding, partial};
use crate::read::secondary::from_secondary;
use crate::read::table::Table;

/// An index or filter block: held by the table, or found through the cache each time.
pub(crate) enum MetaBlock {
    Held(PinnedBlock),
    InCache(BlockHandle),
}

/// A use of a meta block.
pub(crate) enum MetaRef<'a> {
    Borrowed(&'a PinnedBlock),
    Pinned(PinnedBlock),
}

impl MetaRef<'_> {
    #[inline]
    pub fn get(&self) -> &CachedBlock {
        match self {
            MetaRef::Borrowed(block) => block.get(),
            MetaRef::Pinned(block) => block.get(),
        }
    }
}

/// Reads with the options' rate-limiter priority, and within their time limits.
#[inline]
pub(crate) fn at_pace<R>(
    options: &TableReadOptions,
    read: impl FnOnce() -> Result<R>,
) -> Result<R> {
    paced(options.io_priority, &options.limits, read)
}

/// Reads a file with that rate-limiter priority, none bypasses it, and within the time limits.
///
/// # Errors
/// Those of `read`; TimedOut.
#[inline]
pub fn paced<R>(
    priority: Option<IoPriority>,
    limits: &ReadLimits,
    read: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let read = || match priority {
        None => read(),
        priority => read_priority(priority, read),
    };
    if limits.is_set() { in_time(limits, read) } else { read() }
}

/// Reads if there is still time; the result of a read that took too long is not used.
#[cold]
fn in_time<R>(limits: &ReadLimits, read: impl FnOnce() -> Result<R>) -> Result<R> {
    let deadline = limits.deadline_micros;
    let mut left = match limits.io_timeout_micros {
        0 => u64::MAX,
        timeout => timeout,
    };
    if deadline != 0 {
        left = left.min(deadline.saturating_sub(time::wall_micros()));
        if left == 0 {
            return Err(Error::new(ErrorKind::TimedOut, "Deadline exceeded"));
        }
    }
    let began = time::now_micros();
    let got = read()?;
    let took = time::now_micros() - began;
    if took > left {
        let text = format!("a read took {took} microseconds, its limit was {left}");
        return Err(Error::new(ErrorKind::TimedOut, text));
    }
    Ok(got)
}

impl Table {
    /// Compares the checksum of a block that is about to be used (`protect`).
    #[cold]
    pub(crate) fn check_memory(&self, block: &PinnedBlock, handle: BlockHandle) -> Result<()> {
        if block.get().is_intact() {
            return Ok(());
        }
        let what = "Corrupted block entry: per key-value checksum verification failed";
        Err(self.file.bad_block(handle, BlockKind::Data, what))
    }

    /// Partition `at` of the index whose top level is `top`.
    #[inline]
    pub(crate) fn index_partition(
        &self,
        top: &IndexBlock,
        at: usize,
        options: &TableReadOptions,
    ) -> Result<MetaRef<'_>> {
        match &self.index_partitions {
            Some(held) => Ok(MetaRef::Borrowed(&held[at])),
            None => Ok(MetaRef::Pinned(self.block(top.handle(at), BlockKind::Index, options)?)),
        }
    }

    /// As [`Table::index_partition`], for one lookup; `None`: it must be searched in its stored
    /// form ([`Table::search_in_passing`]).
    #[inline]
    pub(crate) fn index_partition_for_one(
        &self,
        top: &IndexBlock,
        at: usize,
        options: &TableReadOptions,
    ) -> Result<Option<MetaRef<'_>>> {
        if let Some(held) = &self.index_partitions {
            return Ok(Some(MetaRef::Borrowed(&held[at])));
        }
        let handle = top.handle(at);
        let block = match self.find_for_one::<true>(handle, BlockKind::Index, options)? {
            Some(block) => block,
            None if self.does_without(handle, options) => return Ok(None),
            None => self.read_block(handle, BlockKind::Index, options, options.fill_cache)?,
        };
        Ok(Some(MetaRef::Pinned(block)))
    }

    /// A missed index block is not worth decoding and caching. A search of the raw block does not
    /// detect damage elsewhere in it, so blocks that are not verified are always decoded.
    #[cold]
    fn does_without(&self, handle: BlockHandle, options: &TableReadOptions) -> bool {
        let verifies = options.verify_checksums && self.file.checksum != ChecksumType::None;
        if options.cache_only || !verifies {
            return false;
        }
        !self.admits(handle, BlockKind::Index, options)
    }

    /// A missed block is worth caching, if there is a cache.
    fn admits(&self, handle: BlockHandle, kind: BlockKind, options: &TableReadOptions) -> bool {
        let cache = self.cache.as_ref().filter(|_| options.fill_cache);
        cache.is_some_and(|cache| {
            // The block's charge is not known before it is decoded: assume its size in the file.
            cache.admits(&self.cache_key(handle), to_usize(handle.size), self.priority(kind))
        })
    }

    /// With what priority blocks of a kind are cached.
    fn priority(&self, kind: BlockKind) -> Priority {
        let high = self.options.cache_index_and_filter_blocks_with_high_priority;
        if kind != BlockKind::Data && high { Priority::High } else { Priority::Low }
    }

    /// A data block for one lookup: a missed one that is not worth caching in a full cache is read
    /// and not kept.
    #[inline]
    pub(crate) fn data_block_for_one<const OBSERVED: bool>(
        &self,
        handle: BlockHandle,
        options: &TableReadOptions,
    ) -> Result<PinnedBlock> {
        match self.find_for_one::<OBSERVED>(handle, BlockKind::Data, options)? {
            Some(block) => Ok(block),
            None => self.read_data_for_one(handle, options),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_data_for_one(
        &self,
        handle: BlockHandle,
        options: &TableReadOptions,
    ) -> Result<PinnedBlock> {
        options.reads.add();
        let keep = !options.cache_only && self.admits(handle, BlockKind::Data, options);
        self.read_block(handle, BlockKind::Data, options, keep)
    }

    /// Reads an index block in which `target` belongs, for one lookup. Suspends.
    pub(crate) fn search_in_passing(
        &self,
        handle: BlockHandle,
        options: &TableReadOptions,
        target: InternalKey<'_>,
    ) -> Result<Searched<BlockHandle>> {
        let usual =
            self.index_encoding == IndexEncoding::USUAL && self.comparator.user.is_bytewise();
        at_pace(options, || {
            self.file.search_in_passing(handle, options.block_read(), |block| {
                if usual { partial::find(block, target.user_key().as_bytes()) } else { Ok(None) }
            })
        })
    }

    /// The block of `meta`.
    #[inline]
    pub(crate) fn meta<'a>(
        &self,
        meta: &'a MetaBlock,
        kind: BlockKind,
        options: &TableReadOptions,
    ) -> Result<MetaRef<'a>> {
        match meta {
            MetaBlock::Held(block) => Ok(MetaRef::Borrowed(block)),
            MetaBlock::InCache(handle) => Ok(MetaRef::Pinned(self.block(*handle, kind, options)?)),
        }
    }

    #[inline]
    pub(crate) fn index_of<'a>(&self, meta: &'a MetaRef<'_>) -> Result<&'a IndexBlock> {
        meta.get().as_index().ok_or_else(|| self.foreign_block())
    }

    #[inline]
    pub(crate) fn index_in<'a>(&self, pin: &'a PinnedBlock) -> Result<&'a IndexBlock> {
        pin.get().as_index().ok_or_else(|| self.foreign_block())
    }

    #[cold]
    fn foreign_block(&self) -> Error {
        Error::corruption(format!("cached block of the wrong kind for {}", self.file.name()))
    }

    pub(crate) fn cache_key(&self, handle: BlockHandle) -> CacheKey {
        CacheKey(self.cache_base[0], self.cache_base[1] ^ handle.offset)
    }

    /// The block if it is in the cache.
    #[inline]
    pub(crate) fn cached(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Option<PinnedBlock>> {
        self.cached_observed::<true>(handle, kind, true)
    }

    /// The block if it was loaded for this lookup ([`Table::load_for_one`]), which counts as the
    /// miss that it was, or is in the cache. A hit is reported only if the lookup is `OBSERVED`.
    #[inline]
    fn find_for_one<const OBSERVED: bool>(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
    ) -> Result<Option<PinnedBlock>> {
        if let Some(missed) = &options.missed
            && !options.cache_only
            && let Some(block) = self.loaded_for_one(missed, handle, kind)
        {
            return Ok(Some(block));
        }
        self.cached_observed::<OBSERVED>(handle, kind, !options.uncounted)
    }

    #[cold]
    #[inline(never)]
    fn loaded_for_one(
        &self,
        missed: &MissedBlock,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Option<PinnedBlock> {
        let block = missed.take_loaded(self.file_number, handle, kind)?;
        if self.cache.is_some() {
            self.note_cache_miss(kind);
        }
        Some(block)
    }

    /// As [`Table::cached`]; a hit is reported only if the lookup is `OBSERVED`, and neither of
    /// them unless it is `counted`.
    #[inline]
    fn cached_observed<const OBSERVED: bool>(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        counted: bool,
    ) -> Result<Option<PinnedBlock>> {
        let Some(cache) = &self.cache else { return Ok(None) };
        let found = cache.lookup_owned(&self.cache_key(handle));
        // A block that was missed uncounted is loaded and found there, not here.
        if let Some(simulation) = cache.simulation().filter(|_| counted || found.is_none()) {
            self.look_up_simulated(simulation, handle, kind, found.as_ref());
        }
        match found {
            Some(hit) if hit.kind() == kind => {
                if OBSERVED && counted {
                    self.note_cache_hit(handle, &hit);
                }
                Ok(Some(PinnedBlock::Cached(hit)))
            }
            None if cache.secondary_cache().is_none() => {
                if counted {
                    self.note_cache_miss(kind);
                }
                Ok(None)
            }
            found => self.cached_second(found, (handle, kind), OBSERVED && counted, counted),
        }
    }

    /// Asks the simulated cache too, and counts.
    #[cold]
    #[inline(never)]
    fn look_up_simulated(
        &self,
        simulation: &Simulation,
        handle: BlockHandle,
        kind: BlockKind,
        found: Option<&Handle<CachedBlock>>,
    ) {
        let cached = found.map(|block| (block.charge(), self.priority(kind)));
        let hit = simulation.look_up(&self.cache_key(handle), cached);
        if let Some(stats) = &self.file.stats {
            stats.simulated(hit);
        }
    }

    /// [`Table::cached_observed`] where the block cache has a dummy or nothing. A block of the
    /// secondary cache counts as a hit of the block cache, as in RocksDB.
    #[cold]
    #[inline(never)]
    fn cached_second(
        &self,
        found: Option<Handle<CachedBlock>>,
        (handle, kind): (BlockHandle, BlockKind),
        hit_counts: bool,
        miss_counts: bool,
    ) -> Result<Option<PinnedBlock>> {
        if found.as_ref().is_some_and(|found| found.kind() != BlockKind::Dummy) {
            return Err(self.foreign_block());
        }
        let Some(cache) = &self.cache else { return Ok(None) };
        let make = |contents| {
            let mut block = self.decode_kept(contents, handle, kind)?;
            if self.measures_use {
                self.measure(&mut block, handle.offset);
            }
            self.settle(&mut block, cache);
            Some(block)
        };
        let place = (self.cache_key(handle), kind, self.priority(kind));
        let answer = from_secondary(cache, place, found, make);
        if let Some(stats) = &self.file.stats {
            match &answer {
                SecondaryLookup::Found(_) => stats.secondary_hit(kind),
                SecondaryLookup::Dummy => stats.secondary_dummy_hit(),
                SecondaryLookup::Missing => {}
            }
        }
        if let SecondaryLookup::Found(block) = answer {
            if hit_counts {
                self.note_cache_hit(handle, block.get());
            }
            return Ok(Some(block));
        }
        if miss_counts {
            self.note_cache_miss(kind);
        }
        Ok(None)
    }

    /// The block, from the cache or the file.
    #[inline]
    pub(crate) fn block(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
    ) -> Result<PinnedBlock> {
        match self.find_for_one::<true>(handle, kind, options)? {
            Some(block) => Ok(block),
            None => self.read_block(handle, kind, options, options.fill_cache),
        }
    }

    /// Reads a block that a read with `cache_only` missed, and with `fill_cache` keeps it in the
    /// cache (if there is one and it has room) at least until the pin is dropped. Only the options
    /// `verify_checksums`, `fill_cache`, `io_priority` and `limits` matter. Suspends.
    ///
    /// # Errors
    /// Corruption and I/O errors.
    pub fn load(
        &self,
        block: (BlockHandle, BlockKind),
        options: &TableReadOptions,
    ) -> Result<PinnedBlock> {
        self.load_and_keep(block, options, options.fill_cache)
    }

    /// As [`Table::load`], for one lookup: a block that is not worth caching is not kept. Suspends.
    ///
    /// # Errors
    /// As [`Table::load`].
    pub fn load_for_one(
        &self,
        (handle, kind): (BlockHandle, BlockKind),
        options: &TableReadOptions,
    ) -> Result<PinnedBlock> {
        let is_top = matches!(&self.index, MetaBlock::InCache(top) if *top == handle);
        let worth = match kind {
            BlockKind::Data => self.admits(handle, kind, options),
            BlockKind::Index if !is_top => !self.does_without(handle, options),
            _ => true,
        };
        self.load_and_keep((handle, kind), options, options.fill_cache && worth)
    }

    fn load_and_keep(
        &self,
        (handle, kind): (BlockHandle, BlockKind),
        options: &TableReadOptions,
        keep: bool,
    ) -> Result<PinnedBlock> {
        let TableReadOptions { verify_checksums, fill_cache, io_priority, limits, .. } = *options;
        let options = TableReadOptions {
            verify_checksums,
            fill_cache,
            io_priority,
            limits,
            ..TableReadOptions::default()
        };
        self.read_block(handle, kind, &options, keep)
    }

    /// Whether [`Table::load`] of a block of that kind needs little stack: it calls no user code,
    /// neither a comparator nor a file, nor the writer of a trace, and compresses nothing.
    pub fn loads_on_little_stack(&self, kind: BlockKind) -> bool {
        let compares = matches!(kind, BlockKind::Index | BlockKind::FilterIndex)
            && matches!(self.comparator.user, Comparator::Custom(_));
        let traced = self.file.tracer.as_ref().is_some_and(|tracer| tracer.is_on());
        let spills = self.cache.as_ref().is_some_and(|cache| cache.secondary_cache().is_some());
        let persistent = self.options.persistent_cache.as_ref();
        let foreign = persistent.is_some_and(|cache| !cache.needs_little_stack());
        !compares && !traced && !spills && !foreign && self.file.file.needs_little_stack()
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn read_block(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
        keep: bool,
    ) -> Result<PinnedBlock> {
        if let Some(missed) = &options.missed
            && let Some(block) = missed.loaded(self.file_number, handle, kind)
        {
            return Ok(block);
        }
        if options.cache_only {
            if let Some(missed) = &options.missed {
                missed.note(handle, kind);
            }
            return Err(Error::incomplete("no blocking io"));
        }
        let kept = keep && self.cache.is_some();
        let block = self.timed_fetch(|| self.fetch(handle, kind, options, kept))?;
        self.admit(block, handle, keep)
    }

    /// Reads and decodes a block. One that will be `packed` is in a buffer for reuse.
    fn fetch(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
        packed: bool,
    ) -> Result<CachedBlock> {
        let how = options.block_read();
        if matches!(kind, BlockKind::Index | BlockKind::FilterIndex) {
            let contents = at_pace(options, || self.file.read_in_passing(handle, kind, how))?;
            let block = self.decode_index(&contents, handle, kind)?;
            TableFile::recycle(contents);
            Ok(block)
        } else {
            let contents = at_pace(options, || match packed {
                true => self.file.read_in_passing(handle, kind, how),
                false => self.file.read(handle, kind, how),
            })?;
            self.decode(contents, handle, kind)
        }
    }

    /// Puts a block that was read into the cache, if there is one and `fill` is set.
    pub(crate) fn admit(
        &self,
        mut block: CachedBlock,
        handle: BlockHandle,
        fill: bool,
    ) -> Result<PinnedBlock> {
        if self.measures_use && fill {
            self.measure(&mut block, handle.offset);
        }
        if perf::is_any() && self.cache.is_some() {
            self.trace_access(handle, &block, false, !fill);
        }
        let Some(cache) = self.cache.as_ref().filter(|_| fill) else {
            if self.protects {
                block.protect();
            }
            return Ok(PinnedBlock::Owned(Arc::new(block)));
        };
        let kind = block.kind();
        self.settle(&mut block, cache);
        let charge = block.charge();
        let pinned = cache.insert(self.cache_key(handle), block, charge, self.priority(kind));
        if let Some(stats) = &self.file.stats {
            match &pinned {
                Ok(_) => stats.cache_add(kind, charge),
                Err(_) => stats.cache_add_failed(),
            }
        }
        Ok(PinnedBlock::Cached(pinned?))
    }

    /// Gives a block the form that it has in `cache`.
    fn settle(&self, block: &mut CachedBlock, cache: &BlockCache) {
        if !matches!(block.kind(), BlockKind::Index | BlockKind::FilterIndex) {
            let bytewise = block.kind() == BlockKind::Data && self.comparator.user.is_bytewise();
            if let Some(spare) = block.block.pack(bytewise, cache.is_large()) {
                TableFile::recycle(spare);
            }
        }
        if self.protects {
            block.protect();
        }
    }

    /// Decodes the contents of a block.
    pub(crate) fn decode(
        &self,
        contents: Vec<u8>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<CachedBlock> {
        let bad = |what: &str| self.file.bad_block(handle, kind, what);
        match kind {
            BlockKind::Index | BlockKind::FilterIndex => self.decode_index(&contents, handle, kind),
            BlockKind::Filter => Ok(CachedBlock::filter(contents)),
            BlockKind::Blob => Ok(CachedBlock::blob(contents)),
            BlockKind::Data | BlockKind::RangeDeletion => {
                let block = Block::decode(contents, KeyForm::Internal).map_err(bad)?;
                if self.names_indexes && kind == BlockKind::Data {
                    return Ok(CachedBlock::entries(self.name_indexes(block, handle)?, kind));
                }
                Ok(CachedBlock::entries(block, kind))
            }
            BlockKind::Dictionary
            | BlockKind::Properties
            | BlockKind::MetaIndex
            | BlockKind::Dummy => {
                let block = Block::decode(contents, KeyForm::Raw).map_err(bad)?;
                Ok(CachedBlock::entries(block, kind))
            }
        }
    }

    /// [`Table::decode`] for indexes, which do not keep the contents.
    fn decode_index(
        &self,
        contents: &[u8],
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<CachedBlock> {
        let first_keys = kind == BlockKind::Index && self.index_encoding.first_keys;
        let encoding = IndexEncoding { first_keys, ..self.index_encoding };
        let index = IndexBlock::decode(contents, encoding, &self.comparator)
            .map_err(|what| self.file.bad_block(handle, kind, what))?;
        Ok(CachedBlock::index(index, kind))
    }
}
