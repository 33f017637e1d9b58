//! An open table: point lookups, block access, offsets.
//!
//! A lookup queries the filter, searches the flat index, takes one data block from the cache and
//! walks it without assembling keys; on a cache hit nothing is allocated.
//!
//! Thread safety: immutable after `open` (except for the level that `observe` counts for), shared
//! by any number of readers. Invariants: (1) the index and the filter are decoded before they are
//! reachable; (2) every block of this file in the cache has the key `cache_base` with its offset
//! xored in, which no other table uses.
//!
//! Suspends where a block has to be read. Opening is in `open`, iteration in `iter`.

use std::sync::{Arc, OnceLock};

use pumice_base::hash::hash64;
use pumice_base::key::{InternalKey, ParsedInternalKey, before_versions};
use pumice_base::planted::{self, Bug};
use pumice_base::range_tombstone::FragmentedTombstones;
use pumice_base::{Error, ErrorKind, InternalKeyComparator, Result, UserKey, ValueType};
use pumice_cache::Reservation;

use crate::Extractor;
use crate::footer::{Footer, OtherFormat, magic_of};
use crate::handle::{BlockHandle, BlockKind};
use crate::options::TableOptions;
use crate::properties::TableProperties;
use crate::read::block::GlobalSeqno;
use crate::read::blocks::MetaBlock;
use crate::read::cached_block::{BlockCache, CachedBlock, PinnedBlock};
use crate::read::context::TableReadOptions;
use crate::read::cursor::BlockCursor;
use crate::read::file::TableFile;
use crate::read::index::{IndexBlock, IndexEncoding};
use crate::read::scan::{Landing, Next, find_version};
use crate::trie::TrieIndex;

/// Partitions of an index or filter that the table holds, by number in the top level; `None` if
/// they are found through the cache each time.
pub(crate) type HeldPartitions = Option<Box<[PinnedBlock]>>;

/// The filter of a table.
pub(crate) struct TableFilter {
    /// The filter, or the index of its partitions.
    pub block: MetaBlock,
    pub partitioned: bool,
    pub partitions: HeldPartitions,
    /// The filter holds whole user keys, which have no timestamps.
    pub whole_keys: bool,
    /// Bytes of the timestamps of user keys, which the filter leaves out.
    pub timestamp: usize,
    /// There are timestamps, and the filter holds whole user keys without them.
    pub bare_keys: bool,
    /// The filter holds prefixes under this extractor, the one of the table's properties.
    pub prefix: Option<Extractor>,
    /// The column family has that extractor too, so its prefix seeks can use the filter.
    pub prefix_is_configured: bool,
}

impl TableFilter {
    /// What the filter holds of a user key, unless that is all of it: the key without its
    /// timestamp, or its prefix.
    fn part_of<'k>(&self, user: &'k [u8]) -> Option<&'k [u8]> {
        let bare = &user[..user.len().saturating_sub(self.timestamp)];
        if self.bare_keys { Some(bare) } else { self.prefix.as_ref()?.prefix(bare) }
    }
}

/// The direction in which an iterator searches for its match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// At the target and after it.
    Forward,
    /// At the target and before it.
    Backward,
}

/// An open table file.
pub struct Table {
    pub(crate) file: TableFile,
    pub(crate) options: Arc<TableOptions>,
    pub(crate) comparator: InternalKeyComparator,
    pub(crate) footer: Footer,
    pub(crate) file_number: u64,
    /// Bytes of the file that `file` is, or is the image of.
    pub(crate) file_bytes: u64,
    /// The format of the file, if it is not block-based and `file` is its image.
    pub(crate) other_format: Option<OtherFormat>,
    /// Bytes that an image holds.
    pub(crate) image_memory: usize,
    pub(crate) properties: TableProperties,
    pub(crate) global: GlobalSeqno,
    pub(crate) index_encoding: IndexEncoding,
    pub(crate) index_partitioned: bool,
    /// There is a `trie`.
    pub(crate) has_trie: bool,
    /// Values are in records of their own, which the table says.
    pub(crate) embeds: bool,
    /// Indexes of such values get the number of the table.
    pub(crate) names_indexes: bool,
    /// The data blocks in the order of the index, in a table that embeds values: these are
    /// elsewhere.
    pub(crate) data_blocks: OnceLock<Vec<BlockHandle>>,
    /// Data blocks are checked when they are used.
    pub(crate) protects: bool,
    /// `read_amp_bytes_per_bit` is set.
    pub(crate) measures_use: bool,
    pub(crate) index: MetaBlock,
    pub(crate) index_partitions: HeldPartitions,
    pub(crate) filter: Option<TableFilter>,
    pub(crate) range_tombstones: Option<Arc<FragmentedTombstones>>,
    /// The trie index, if the column family has one and the table too.
    pub(crate) trie: Option<Box<TrieIndex>>,
    pub(crate) cache: Option<Arc<BlockCache>>,
    pub(crate) cache_base: [u64; 2],
    /// What the table holds, if it is charged to the block cache.
    pub(crate) charge: Option<Reservation<CachedBlock>>,
}

/// How a lookup in one data block ended.
pub(super) enum Visit {
    /// The versions of the key end here, or the caller stopped.
    Done,
    /// The block ended; the key may continue in the next one.
    BlockEnded,
    /// The same, without a version of the key. Only the first of the blocks may be like this: the
    /// next one begins after the separator, which is at or after the target.
    Passed,
}

/// The filter's answer for a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Unknown,
    MayExist,
    Absent,
}

impl Table {
    /// The properties.
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Number of the file, for messages.
    pub fn file_number(&self) -> u64 {
        self.file_number
    }

    /// Bytes of the file.
    pub fn file_size(&self) -> u64 {
        self.file_bytes
    }

    /// The format of the file, as RocksDB's tools name it.
    pub fn format_name(&self) -> &'static str {
        match self.other_format {
            None => "block-based",
            Some(OtherFormat::Plain) => "plain table",
            Some(OtherFormat::Cuckoo) => "cuckoo table",
        }
    }

    /// Refuses a file that is not block-based, which RocksDB would not read next to those that are.
    ///
    /// # Errors
    /// Corruption, in RocksDB's words.
    pub fn check_has_blocks(&self) -> Result<()> {
        if self.other_format.is_none() {
            return Ok(());
        }
        let (expected, found) = (magic_of(None), magic_of(self.other_format));
        Err(Error::corruption(format!(
            "Bad table magic number: expected {expected}, found {found} in {}",
            self.file.name()
        )))
    }

    /// The key order.
    pub fn comparator(&self) -> &InternalKeyComparator {
        &self.comparator
    }

    /// The range tombstones, `None` if there are none.
    pub fn range_tombstones(&self) -> Option<Arc<FragmentedTombstones>> {
        self.range_tombstones.clone()
    }

    /// The range tombstones without sharing them.
    #[inline]
    pub fn range_tombstones_ref(&self) -> Option<&FragmentedTombstones> {
        self.range_tombstones.as_deref()
    }

    /// Calls `f` with every version of `user_key(target)` at or after internal key `target`,
    /// newest first, until it returns false. The block that `f` gets holds the value.
    ///
    /// # Errors
    /// Corruption and I/O errors; `Incomplete` if `cache_only` and a block is not in the cache.
    #[inline]
    pub fn get<F>(
        &self,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<()>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        let hash = if self.filter.is_some() { hash64(target.user_key().as_bytes()) } else { 0 };
        self.get_hashed::<true, F>(options, target, hash, f)
    }

    /// As [`Table::get`], for a caller that queries many tables: `hash` is `hash64` of the user key
    /// of `target`. Unless the lookup is `OBSERVED`, filters and cached blocks are not reported to
    /// statistics or perf contexts, at no cost.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[inline]
    pub fn get_hashed<const OBSERVED: bool, F>(
        &self,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        hash: u64,
        f: &mut F,
    ) -> Result<()>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        let verdict = self.ask_filter::<OBSERVED>(options, target, hash)?;
        if verdict == Verdict::Absent {
            return Ok(());
        }
        self.get_unfiltered::<OBSERVED, F>(verdict, options, target, f)
    }

    /// [`Table::get`] once the filter has let the key through.
    fn get_unfiltered<const OBSERVED: bool, F>(
        &self,
        verdict: Verdict,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<()>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        let mut found = false;
        let mut note = |key: ParsedInternalKey<'_>, value: &[u8], block: &PinnedBlock| {
            found = true;
            f(key, value, block)
        };
        if self.has_trie
            && let Some(trie) = self.trie_for(options)
        {
            self.get_by_trie(trie, options, target, &mut note)?;
        } else {
            let top = self.meta(&self.index, BlockKind::Index, options)?;
            let top = self.index_of(&top)?;
            if self.index_partitioned {
                self.get_partitioned(top, options, target, &mut note)?;
            } else {
                let at = top.seek(&self.comparator, target);
                self.get_in::<OBSERVED, _>(top, at, options, target, &mut note)?;
            }
        }
        if OBSERVED && found && verdict == Verdict::MayExist {
            self.note_true_positive();
        }
        Ok(())
    }

    /// Visits the blocks of `index` from number `at` on.
    #[inline]
    pub(super) fn get_in<const OBSERVED: bool, F>(
        &self,
        index: &IndexBlock,
        at: usize,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<Visit>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        if at >= index.len() {
            return Ok(Visit::Passed);
        }
        if index.begins_above(at, &self.comparator, target.user_key()) {
            return Ok(Visit::Done);
        }
        match self.visit_at::<OBSERVED, F>(index.handle(at), options, target, f)? {
            Visit::Done => Ok(Visit::Done),
            visit => self.get_in_next_blocks((index, at), visit, options, target, f),
        }
    }

    /// Visits one data block.
    #[inline]
    pub(super) fn visit_at<const OBSERVED: bool, F>(
        &self,
        handle: BlockHandle,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<Visit>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        let block = self.data_block_for_one::<OBSERVED>(handle, options)?;
        if self.protects {
            self.check_memory(&block, handle)?;
        }
        match self.visit(&block, handle, target, f)? {
            // With user keys as separators the versions of a key, that of one timestamp, never span
            // two blocks; those of several timestamps may.
            visit
                if !self.index_encoding.user_keys || self.comparator.user.timestamp_size() > 0 =>
            {
                Ok(visit)
            }
            _ => Ok(Visit::Done),
        }
    }

    /// Looks the target up in one data block.
    #[inline]
    fn visit<F>(
        &self,
        pin: &PinnedBlock,
        handle: BlockHandle,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<Visit>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        let block = pin.block();
        if !self.comparator.user.is_bytewise() {
            return self.visit_slowly(pin, handle, target, f);
        }
        if block.keys_end() == 0 {
            return Ok(Visit::Passed);
        }
        let damaged = || self.file.bad_block(handle, BlockKind::Data, "malformed entry");
        let user = target.user_key();
        let mut position = match find_version(block, target, self.global) {
            Landing::At(position) if position.equal => position,
            Landing::At(_) | Landing::Above(_) | Landing::Absent => return Ok(Visit::Done),
            Landing::End => return Ok(Visit::Passed),
            Landing::Undecided => return self.visit_slowly(pin, handle, target, f),
            Landing::Damaged => return Err(damaged()),
        };
        loop {
            let trailer = self.global.apply(u64::from_le_bytes(position.trailer));
            let key = self.parse(user, trailer, handle)?;
            let value = &block.data()[position.entry.value_at..position.entry.value_end];
            if self.measures_use {
                let entry = &position.entry;
                self.note_use(pin, position.offset..entry.next, entry.value_at..entry.value_end);
            }
            if !f(key, value, pin) {
                return Ok(Visit::Done);
            }
            match position.next_version(block, user.as_bytes()) {
                Next::SameKey => {}
                Next::OtherKey => return Ok(Visit::Done),
                Next::End => return Ok(Visit::BlockEnded),
                Next::Damaged => return Err(damaged()),
            }
        }
    }

    /// `visit` for any order and layout.
    #[inline(never)]
    fn visit_slowly<F>(
        &self,
        pin: &PinnedBlock,
        handle: BlockHandle,
        target: InternalKey<'_>,
        f: &mut F,
    ) -> Result<Visit>
    where
        F: FnMut(ParsedInternalKey<'_>, &[u8], &PinnedBlock) -> bool,
    {
        let block = pin.block();
        let mut cursor = BlockCursor::new(self.global);
        cursor.seek(block, &self.comparator, target);
        let passed = !cursor.valid();
        while cursor.valid() {
            let ikey = InternalKey::new(cursor.key());
            if !self.comparator.user.same_user_key(ikey.user_key(), target.user_key()) {
                return Ok(Visit::Done);
            }
            let key = self.parse(ikey.user_key(), ikey.trailer(), handle)?;
            if self.measures_use {
                let (entry, value) = cursor.place();
                self.note_use(pin, entry, value);
            }
            if !f(key, cursor.value(block), pin) {
                return Ok(Visit::Done);
            }
            cursor.next(block);
        }
        if cursor.damaged() {
            return Err(self.file.bad_block(handle, BlockKind::Data, "malformed entry"));
        }
        Ok(if passed { Visit::Passed } else { Visit::BlockEnded })
    }

    #[inline]
    fn parse<'k>(
        &self,
        user_key: UserKey<'k>,
        trailer: u64,
        handle: BlockHandle,
    ) -> Result<ParsedInternalKey<'k>> {
        let (sequence, tag) = pumice_base::key::unpack(trailer);
        match ValueType::from_u8(tag) {
            Some(value_type) => Ok(ParsedInternalKey { user_key, sequence, value_type }),
            None => {
                let what = format!("entry of unknown type {tag:#x}");
                Err(self.file.bad_block(handle, BlockKind::Data, &what))
            }
        }
    }

    /// False only if the table has no version of `key`.
    ///
    /// # Errors
    /// As [`Table::get`], for filter blocks.
    pub fn key_may_match(&self, options: &TableReadOptions, key: &[u8]) -> Result<bool> {
        let target = pumice_base::key::seek_key(key, pumice_base::key::MAX_SEQUENCE);
        Ok(self.ask_filter::<true>(options, InternalKey::new(&target), hash64(key))?
            != Verdict::Absent)
    }

    #[inline]
    fn ask_filter<const OBSERVED: bool>(
        &self,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        hash: u64,
    ) -> Result<Verdict> {
        let Some(filter) = &self.filter else { return Ok(Verdict::Unknown) };
        let user = target.user_key().as_bytes();
        let probe = if filter.whole_keys || planted::is(Bug::PrefixesAskedForKeys) {
            (user, hash)
        } else {
            match filter.part_of(user) {
                Some(part) => (part, hash64(part)),
                None => return Ok(Verdict::Unknown),
            }
        };
        let may_match = self.filter_may_match(filter, options, target, probe)?;
        if OBSERVED {
            self.note_filter(filter.whole_keys, may_match);
        }
        Ok(if may_match { Verdict::MayExist } else { Verdict::Absent })
    }

    /// The filter's answer for `probe`, the user key of `target` or its prefix, with its hash. A
    /// filter that cannot be read excludes nothing, but the miss is still reported to callers that
    /// track it.
    #[inline]
    fn filter_may_match(
        &self,
        filter: &TableFilter,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        (probe, hash): (&[u8], u64),
    ) -> Result<bool> {
        let answer = if filter.partitioned {
            self.partition_may_match(filter, options, target, (probe, hash))
        } else {
            let block = self.meta(&filter.block, BlockKind::Filter, options);
            block.map(|block| block.get().filter_may_match(probe, hash))
        };
        answer.or_else(|error| match options.missed {
            Some(_) if error.kind() == ErrorKind::Incomplete => Err(error),
            _ => Ok(true),
        })
    }

    #[cold]
    fn before_all_versions(&self, key: UserKey<'_>) -> Vec<u8> {
        let order = &self.comparator.user;
        before_versions(&order.at_newest(order.without_timestamp(key).as_bytes()))
    }

    fn partition_may_match(
        &self,
        filter: &TableFilter,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        (probe, hash): (&[u8], u64),
    ) -> Result<bool> {
        let top = self.meta(&filter.block, BlockKind::FilterIndex, options)?;
        let top = self.index_of(&top)?;
        let Some(last) = top.len().checked_sub(1) else { return Ok(true) };
        let newest;
        let target = match filter.timestamp {
            0 => target,
            // A partition may end between two versions; it has a key that its first version is in.
            _ => {
                newest = self.before_all_versions(target.user_key());
                InternalKey::new(&newest)
            }
        };
        let at = top.seek(&self.comparator, target);
        if at > last && planted::is(Bug::LastFilterPartitionMissed) {
            return Ok(false);
        }
        // The prefix of a target after the last key may be that of the last key.
        let at = at.min(last);
        if let Some(held) = &filter.partitions {
            return Ok(held[at].get().filter_may_match(probe, hash));
        }
        let handle = top.handle(at);
        if handle.size == 0 {
            return Ok(false);
        }
        let partition = self.block(handle, BlockKind::Filter, options)?;
        Ok(partition.get().filter_may_match(probe, hash))
    }

    /// False only if no key that an iterator may show after a seek to `target` has the prefix of
    /// the target's user key. Errors count as "may".
    ///
    /// Where the prefixes in the filter are not the caller's (another extractor is configured, or
    /// none applies), the filter is used only if everything up to the upper bound has one prefix;
    /// backward there is no such bound.
    pub(crate) fn prefix_may_match(
        &self,
        options: &TableReadOptions,
        target: InternalKey<'_>,
        heading: Heading,
    ) -> bool {
        if options.total_order_seek && !options.auto_prefix_mode && !options.prefix_same_as_start {
            return true;
        }
        let Some(filter) = &self.filter else { return true };
        let Some(extractor) = &filter.prefix else { return true };
        let Some(prefix) = extractor.prefix(target.user_key().as_bytes()) else {
            return true;
        };
        let trusted = (filter.prefix_is_configured || planted::is(Bug::ForeignPrefixAsked))
            && (options.prefix_same_as_start
                || !(options.total_order_seek || options.auto_prefix_mode));
        if !trusted {
            let order = &self.comparator.user;
            let within = |upper: &Arc<[u8]>| extractor.range_shares_prefix(prefix, upper, order);
            let bounded = options.iterate_upper_bound.as_ref().is_some_and(within);
            if heading == Heading::Backward || !bounded {
                return true;
            }
        }
        let probe = (prefix, hash64(prefix));
        let may_match = self.filter_may_match(filter, options, target, probe).unwrap_or(true);
        self.note_seek_filter(may_match);
        may_match
    }
}
