//! The memtable: one representation, its filter and range tombstones, and when to flush.
//!
//! Thread safety: see the crate's head. Invariants: (1) `add` and `add_concurrent` never
//! overlap, which debug builds check; (2) nothing is added after `mark_immutable`.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};

use pumice_base::extractor::Extractor;
use pumice_base::key::{VALUE_TYPE_FOR_SEEK, pack, unpack};
use pumice_base::range_tombstone::{FragmentedTombstones, RangeTombstone};
use pumice_base::{
    Comparator, Error, ErrorKind, InternalKeyComparator, Result, SequenceNumber, UserKey, ValueType,
};

use crate::arena::{Arena, Lane};
use crate::bloom::{Bloom, BloomOptions};
use crate::dead_ranges::DeadRanges;
use crate::entry::{EntryRef, Target, check_lengths};
use crate::guard::Checks;
use crate::index;
use crate::order::{KeyOrder, with_order};
use crate::range_del::RangeDels;
use crate::skiplist::SkipList;
use crate::vector::VectorRep;
use crate::write_buffer_manager::WriteBufferManager;

/// Part of a block by which a memtable may exceed its size rather than leave the block unused.
const OVER_ALLOCATION_PERCENT: usize = 60;

/// Largest block of an arena (RocksDB's `Arena::kMaxBlockSize`); more may be asked for.
const BLOCK_BYTES_MAX: usize = 2 << 30;

/// How entries are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemTableRep {
    /// Sorted at any time; concurrent writers.
    SkipList {
        /// RocksDB's `lookahead`. Accepted but not needed: every insert tries its predecessor.
        lookahead: usize,
    },
    /// Appended, and sorted when it is first read. For bulk loads.
    Vector {
        /// Entries to make room for.
        reserve: usize,
    },
}

impl MemTableRep {
    /// A skiplist, as it usually is.
    pub const SKIP_LIST: Self = MemTableRep::SkipList { lookahead: 0 };
}

/// How a memtable is made.
#[derive(Clone)]
pub struct MemTableOptions {
    /// How entries are kept.
    pub rep: MemTableRep,
    /// Size of the arena's blocks, bytes, at most `write_buffer_bytes`; 0: an eighth of that, at
    /// most 1 MiB.
    pub arena_block_bytes: usize,
    /// Size at which the memtable wants to be flushed, bytes.
    pub write_buffer_bytes: usize,
    /// Order of the keys.
    pub comparator: InternalKeyComparator,
    /// Also full with this many range tombstones; 0: no limit.
    pub max_range_deletions: usize,
    /// The filter that lookups query first.
    pub bloom: BloomOptions,
    /// Several threads may add at once, as far as the representation and the order allow it.
    pub concurrent_adds: bool,
    /// Least number of deleted keys in a row of which readers may say that nothing in between is
    /// visible ([`MemTable::note_dead_range`]); 0: never.
    pub dead_run_min: u32,
    /// Bytes of a checksum that each point entry gets: 1, 2, 4 or 8; 0: none. Readers of values
    /// have to take it off ([`unguarded`](crate::unguarded)).
    pub guard_bytes: usize,
    /// What readers compare on their way to an entry.
    pub checks: Checks,
    /// Told of all memory held.
    pub write_buffer_manager: Option<Arc<WriteBufferManager>>,
}

impl MemTableOptions {
    /// A skiplist of `write_buffer_bytes` in bytewise order, without filter, limits or manager.
    pub fn new(write_buffer_bytes: usize) -> Self {
        MemTableOptions {
            rep: MemTableRep::SKIP_LIST,
            arena_block_bytes: 0,
            write_buffer_bytes,
            comparator: InternalKeyComparator::default(),
            max_range_deletions: 0,
            bloom: BloomOptions::default(),
            concurrent_adds: true,
            dead_run_min: 0,
            guard_bytes: 0,
            checks: Checks::default(),
            write_buffer_manager: None,
        }
    }

    /// The block size in effect, a multiple of 4 KiB.
    fn block_bytes(&self) -> usize {
        let bytes = match self.arena_block_bytes {
            0 => (self.write_buffer_bytes / 8).min(1 << 20),
            // In a larger block less than a quarter would always be left, and the memtable be full.
            given => given.min(self.write_buffer_bytes),
        };
        bytes.clamp(1, BLOCK_BYTES_MAX).next_multiple_of(4096)
    }

    /// See [`MemTable::takes_concurrent_adds`].
    fn take_concurrent_adds(&self) -> bool {
        matches!(self.rep, MemTableRep::SkipList { .. })
            && !matches!(self.comparator.user, Comparator::Custom(_))
            && !matches!(self.bloom.prefix, Some(Extractor::Other(_)))
            && self.concurrent_adds
            && self.guard_bytes == 0
    }
}

/// One per memtable, on the heap: boxing the larger one would only add a step to every read.
#[expect(clippy::large_enum_variant)]
pub(crate) enum Rep {
    SkipList(SkipList),
    Vector(VectorRep),
}

/// See the head of the module.
pub struct MemTable {
    pub(crate) rep: Rep,
    pub(crate) bloom: Option<Box<Bloom>>,
    comparator: InternalKeyComparator,
    /// No filter, no timestamps, no checksums: one check for each add.
    pub(crate) is_plain: bool,
    /// Bytes of the timestamps that user keys end with.
    pub(crate) timestamp_size: usize,
    /// The newest timestamp, if they are numbers of 8 bytes.
    pub(crate) newest_time: AtomicU64,
    range_dels: RangeDels,
    pub(crate) dead_ranges: DeadRanges,
    pub(crate) dead_run_min: u32,
    /// Memory held beyond which the memtable is full.
    full_bytes: AtomicUsize,
    /// `usize::MAX` for no limit.
    max_range_deletions: usize,
    takes_concurrent_adds: bool,
    pub(crate) guard_bytes: usize,
    pub(crate) checks: Checks,
    /// See [`MemTable::is_checked`].
    pub(crate) is_checked: bool,
    manager: Option<Arc<WriteBufferManager>>,
    pub(crate) immutable: AtomicBool,
    /// Bytes reported to the manager by `mark_flushed`; 0 before.
    flushed_bytes: AtomicUsize,
    id: u64,
    earliest_seq: SequenceNumber,
    /// Sequences of the range tombstones, which have no lane.
    range_first_seq: AtomicU64,
    range_largest_seq: AtomicU64,
    #[cfg(debug_assertions)]
    pub(crate) concurrent_writers: std::sync::atomic::AtomicUsize,
}

impl MemTable {
    /// An empty memtable. `id` orders the memtables of a column family; every future entry has a
    /// sequence of at least `earliest_seq`.
    pub fn new(options: MemTableOptions, id: u64, earliest_seq: SequenceNumber) -> Arc<Self> {
        let block = options.block_bytes();
        let full_bytes = full_bytes(options.write_buffer_bytes, block);
        let arena = Arena::new(block, options.write_buffer_manager.clone());
        let takes_concurrent_adds = options.take_concurrent_adds();
        let bloom = Bloom::new(options.bloom);
        let timestamp_size = options.comparator.user.timestamp_size();
        let checksums = options.checks.checksums && options.guard_bytes > 0;
        let checks = Checks { checksums, ..options.checks };
        if let Some(bloom) = &bloom {
            arena.charge(bloom.bytes());
        }
        let rep = match options.rep {
            MemTableRep::SkipList { .. } => Rep::SkipList(SkipList::new(arena)),
            MemTableRep::Vector { reserve } => Rep::Vector(VectorRep::new(arena, reserve)),
        };
        Arc::new(MemTable {
            rep,
            is_plain: bloom.is_none() && timestamp_size == 0 && options.guard_bytes == 0,
            bloom,
            timestamp_size,
            comparator: options.comparator,
            newest_time: AtomicU64::new(0),
            range_dels: RangeDels::new(),
            dead_ranges: DeadRanges::new(),
            dead_run_min: match options.rep {
                MemTableRep::SkipList { .. } => options.dead_run_min,
                MemTableRep::Vector { .. } => 0,
            },
            full_bytes: AtomicUsize::new(full_bytes),
            max_range_deletions: match options.max_range_deletions {
                0 => usize::MAX,
                limit => limit,
            },
            takes_concurrent_adds,
            guard_bytes: options.guard_bytes,
            checks,
            is_checked: options.guard_bytes > 0 || checks.order,
            manager: options.write_buffer_manager,
            immutable: AtomicBool::new(false),
            flushed_bytes: AtomicUsize::new(0),
            id,
            earliest_seq,
            range_first_seq: AtomicU64::new(u64::MAX),
            range_largest_seq: AtomicU64::new(0),
            #[cfg(debug_assertions)]
            concurrent_writers: std::sync::atomic::AtomicUsize::new(0),
        })
    }

    /// Order of the user keys.
    #[inline]
    pub(crate) fn comparator(&self) -> &Comparator {
        &self.comparator.user
    }
    #[inline]
    fn arena(&self) -> &Arena {
        match &self.rep {
            Rep::SkipList(list) => list.arena(),
            Rep::Vector(vector) => vector.arena(),
        }
    }

    /// Bytes of the checksum behind each value; 0 for none.
    #[inline]
    pub fn guard_bytes(&self) -> usize {
        self.guard_bytes
    }

    /// Bytes of the timestamps that user keys end with; 0 for none.
    pub fn timestamp_size(&self) -> usize {
        self.timestamp_size
    }

    /// Whether the filter lets `key` through; None if there is no filter.
    pub fn filter_may_match(&self, key: &[u8]) -> Option<bool> {
        self.bloom.as_ref().map(|bloom| bloom.may_hold(key))
    }

    /// As [`MemTable::add`], from any number of threads at once. Must not overlap `add`. The vector
    /// representation takes a lock.
    ///
    /// # Errors
    /// As `add`.
    pub fn add_concurrent(
        &self,
        seq: SequenceNumber,
        t: ValueType,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        debug_assert_eq!(self.guard_bytes, 0, "a guarded memtable takes no concurrent adds");
        let Rep::SkipList(list) = &self.rep else {
            return self.add(seq, t, key, value);
        };
        if t == ValueType::RangeDeletion {
            self.add_range_deletion(seq, key, value);
            return Ok(());
        }
        check_lengths(key, value)?;
        let t = if self.timestamp_size > 0 { self.take_timed(t, key) } else { t };
        if let Some(bloom) = &self.bloom {
            bloom.add_concurrent(key);
        }
        let trailer = pack(seq, t as u8);
        #[cfg(debug_assertions)]
        self.concurrent_writers.fetch_add(1, Relaxed);
        let inserted = with_order!(self.comparator(), order => {
            list.insert_concurrent(order, &Target::new(order, UserKey::new(key), trailer), value)
        });
        #[cfg(debug_assertions)]
        self.concurrent_writers.fetch_sub(1, Relaxed);
        // Either this sees that a range was announced, or who announced it sees the entry.
        fence(SeqCst);
        self.cut_dead_ranges(t, key);
        if inserted { Ok(()) } else { Err(repeated()) }
    }

    /// An entry of `key` was inserted: unless it deletes, the key may be visible from now on.
    #[inline]
    pub(crate) fn cut_dead_ranges(&self, t: ValueType, key: &[u8]) {
        if self.dead_ranges.any() && t != ValueType::Deletion {
            self.dead_ranges.cut(self.comparator(), UserKey::new(key));
        }
    }

    pub(crate) fn add_range_deletion(&self, seq: SequenceNumber, start: &[u8], end: &[u8]) {
        if self.timestamp_size > 0 {
            self.take_timed(ValueType::RangeDeletion, start);
        }
        self.range_first_seq.fetch_min(seq, Relaxed);
        self.range_largest_seq.fetch_max(seq, Relaxed);
        let (start, end) = (UserKey::new(start), UserKey::new(end));
        let tombstone = RangeTombstone::of_stored(self.comparator(), start, end, seq);
        let bytes = self.range_dels.add(tombstone);
        self.arena().charge(bytes);
    }

    /// Many tasks may gain by `add_concurrent`: a skip list, whose order and filter run none of the
    /// user's code, and to which no writer has to add what depends on earlier entries.
    #[inline]
    pub fn takes_concurrent_adds(&self) -> bool {
        self.takes_concurrent_adds
    }

    /// Shows `f` the point entries of `key` with sequences up to `seq`, newest first, until it
    /// returns false.
    #[inline]
    pub fn get_with<F>(&self, key: UserKey<'_>, seq: SequenceNumber, mut f: F)
    where
        F: FnMut(SequenceNumber, ValueType, &[u8]) -> bool,
    {
        self.visit_with(key, seq, |_, seq, value_type, value| f(seq, value_type, value));
    }

    /// As [`MemTable::get_with`]; `f` also sees each entry's own user key, whose timestamp may be
    /// older than that of `key`.
    #[inline]
    pub fn visit_with<F>(&self, key: UserKey<'_>, seq: SequenceNumber, mut f: F)
    where
        F: FnMut(UserKey<'_>, SequenceNumber, ValueType, &[u8]) -> bool,
    {
        if let Some(bloom) = &self.bloom
            && !bloom.may_hold(key.as_bytes())
        {
            return;
        }
        let trailer = pack(seq, VALUE_TYPE_FOR_SEEK);
        with_order!(self.comparator(), order => {
            let target = Target::new(order, key, trailer);
            match &self.rep {
                Rep::SkipList(list) => {
                    let first = list.find(order, &target).next;
                    list.visit(first, |entry| show(order, entry, &target, &mut f));
                }
                Rep::Vector(vector) => {
                    let items = vector.sorted(order);
                    let start = vector.lower_bound(order, &items, &target);
                    for item in &items[start..] {
                        if !show(order, vector.entry(*item), &target, &mut f) {
                            break;
                        }
                    }
                }
            }
        });
    }

    /// Starts loading what [`MemTable::get_with`] reads for these keys: lookups soon after miss the
    /// CPU caches less, as the misses of all keys overlap. Nothing for a vector or a small table.
    pub fn warm<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>, seq: SequenceNumber) {
        let Rep::SkipList(list) = &self.rep else { return };
        if !list.has_index() {
            return;
        }
        let trailer = pack(seq, VALUE_TYPE_FOR_SEEK);
        with_order!(self.comparator(), order => loop {
            let mut targets = [Target::new(order, UserKey::new(&[]), trailer); index::WARMED_MAX];
            let mut count = 0;
            for (target, key) in targets.iter_mut().zip(keys.by_ref()) {
                *target = Target::new(order, UserKey::new(key), trailer);
                count += 1;
            }
            list.warm(order, &targets[..count]);
            if count < targets.len() {
                return;
            }
        });
    }

    /// [`MemTable::get_with`] without a type parameter.
    pub fn get(
        &self,
        key: &[u8],
        seq: SequenceNumber,
        f: &mut dyn FnMut(SequenceNumber, ValueType, &[u8]) -> bool,
    ) {
        self.get_with(UserKey::new(key), seq, f);
    }

    /// How many of the newest entries of `key` up to `seq` are merge operands, counted up to
    /// `limit`. Range tombstones are ignored.
    pub fn count_successive_merges(&self, key: &[u8], seq: SequenceNumber, limit: usize) -> usize {
        let mut count = 0;
        if limit > 0 {
            self.get_with(UserKey::new(key), seq, |_, value_type, _| {
                let merge = value_type == ValueType::Merge;
                count += usize::from(merge);
                merge && count < limit
            });
        }
        count
    }

    /// The range tombstones; `None`, by one load, if there are none.
    #[inline]
    pub fn range_tombstones(&self) -> Option<Arc<FragmentedTombstones>> {
        self.range_dels.fragmented(self.comparator())
    }

    /// Number of entries, range tombstones included.
    pub fn num_entries(&self) -> u64 {
        self.sum(|lane| &lane.entries) + self.num_range_deletes()
    }
    /// Number of point deletions.
    pub fn num_deletes(&self) -> u64 {
        self.sum(|lane| &lane.deletes)
    }
    /// Number of range tombstones.
    pub fn num_range_deletes(&self) -> u64 {
        self.range_dels.len() as u64
    }
    /// Bytes of internal keys and values of the point entries.
    pub fn data_bytes(&self) -> u64 {
        self.sum(|lane| &lane.data_bytes)
    }
    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }
    /// Smallest sequence added; 0: none.
    pub fn first_seq(&self) -> SequenceNumber {
        let lanes = self.arena().lanes().map(|lane| lane.first_seq.load(Relaxed)).min();
        let range = self.range_first_seq.load(Relaxed);
        match lanes.map_or(range, |seq| seq.min(range)) {
            u64::MAX => 0,
            seq => seq,
        }
    }
    /// Largest sequence added; 0: none.
    pub fn largest_seq(&self) -> SequenceNumber {
        let lanes = self.arena().lanes().map(|lane| lane.largest_seq.load(Relaxed)).max();
        lanes.unwrap_or(0).max(self.range_largest_seq.load(Relaxed))
    }
    /// Lower bound of all sequences, given when made.
    pub fn earliest_seq(&self) -> SequenceNumber {
        self.earliest_seq
    }
    /// The number given when made.
    pub fn id(&self) -> u64 {
        self.id
    }
    pub(crate) fn sum(&self, counter: impl Fn(&Lane) -> &AtomicU64) -> u64 {
        self.arena().lanes().map(|lane| counter(lane).load(Relaxed)).sum()
    }

    /// Bytes held, used or not.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        self.arena().allocated()
    }

    /// The memtable is full, by the policy of RocksDB's `MemTable::ShouldFlushNow`: it may exceed
    /// its size by 60 % of a block rather than leave much of the last block unused.
    #[inline]
    pub fn should_flush(&self) -> bool {
        if self.range_dels.len() >= self.max_range_deletions {
            return true;
        }
        let arena = self.arena();
        let block = arena.block_bytes();
        let held = arena.allocated();
        let full_bytes = self.full_bytes.load(Relaxed);
        if held + block < full_bytes {
            return false;
        }
        held > full_bytes || arena.unused() < block / 4
    }

    /// Changes the size at which the memtable wants to be flushed, bytes; blocks stay as they are.
    /// One with a filter only gets smaller: the filter was sized for no more keys (RocksDB's
    /// `MemTable::UpdateWriteBufferSize`).
    pub fn set_write_buffer_bytes(&self, bytes: usize) {
        let full = full_bytes(bytes, self.arena().block_bytes());
        if self.bloom.is_none() {
            self.full_bytes.store(full, Relaxed);
        } else {
            self.full_bytes.fetch_min(full, Relaxed);
        }
    }

    /// Nothing will be added any more.
    pub fn mark_immutable(&self) {
        if !self.immutable.swap(true, Relaxed)
            && let Some(manager) = &self.manager
        {
            manager.schedule_free(self.memory_bytes());
        }
    }

    /// Nothing more will be added, nor will it be flushed: it has been, or it is no longer needed.
    /// A writer that waits for memory need not wait for this.
    pub fn mark_flushed(&self) {
        self.mark_immutable();
        let bytes = self.memory_bytes();
        if let Some(manager) = &self.manager
            && self.flushed_bytes.compare_exchange(0, bytes, Relaxed, Relaxed).is_ok()
        {
            manager.flushed(bytes);
        }
    }
}

/// Memory beyond which a memtable of that size is full.
fn full_bytes(write_buffer_bytes: usize, block_bytes: usize) -> usize {
    write_buffer_bytes.saturating_add(block_bytes / 100 * OVER_ALLOCATION_PERCENT)
}

impl Drop for MemTable {
    fn drop(&mut self) {
        self.mark_immutable();
        if let Some(manager) = &self.manager {
            manager.free(self.memory_bytes(), self.flushed_bytes.load(Relaxed));
        }
    }
}

/// Shows `f` an entry if it is of the target's key; false ends the walk.
#[inline]
fn show<O, F>(order: O, entry: EntryRef<'_>, target: &Target<'_>, f: &mut F) -> bool
where
    O: KeyOrder,
    F: FnMut(UserKey<'_>, SequenceNumber, ValueType, &[u8]) -> bool,
{
    if !order.same_user_key(entry.user_key(), target.user_key) {
        return false;
    }
    let (seq, tag) = unpack(entry.trailer());
    let value_type = ValueType::from_u8(tag).expect("entries are added with a ValueType");
    f(entry.user_key(), seq, value_type, entry.value())
}

pub(crate) fn repeated() -> Error {
    Error::new(ErrorKind::TryAgain, "key+seq exists")
}
