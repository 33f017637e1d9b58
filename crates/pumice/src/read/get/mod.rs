//! Point reads: the search for one key.
//!
//! Sources are searched newest first (memtable, immutable memtables, L0 files newest first, then
//! one file per level) until the newest visible version settles the answer. A hit in a cached block
//! allocates nothing and copies nothing.
//!
//! Thread safety: reads take no lock; see `super_version` for the order of loads.
//! May read files and so suspend.

mod elsewhere;
mod guarded;
mod hits;
mod level0;
pub(crate) mod operands;
mod overlapping;
pub(crate) mod timed;

use std::cell::RefCell;
use std::sync::Arc;

use pumice_base::hash::hash64;
use pumice_base::key::{self, InternalKey, ParsedInternalKey, VALUE_TYPE_FOR_SEEK};
use pumice_base::{Error, Result, SequenceNumber, UserKey, ValueType};
use pumice_env::perf::{self, LevelMetric, PerfMetric};
use pumice_manifest::FileMetaData;
use pumice_memtable::MemTable;
use pumice_table::{BlockHandle, BlockKind, PinnedBlock, Table, TableReadOptions};

use crate::blob::references::may_refer;
use crate::options::requests::ContinueCallback;
use crate::read::answer::PointAnswer;
use crate::read::columns::PinnedColumns;
use crate::read::get::timed::FoundTimes;
use crate::read::merge::merge_for_read;
use crate::read::operand_list::OperandList;
use crate::read::pinned::PinnedSlice;
use crate::read::range_del::inside_file;
use crate::read::sampling::Fruitless;
use crate::read::value::{EntryKind, Values, is_entity, plain, stored_merge};
use crate::row_cache::{RowBuilder, Rows};
use crate::stats::{Record, Ticker};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;
use crate::version::table_cache::TableCache;

pub(crate) use hits::Hits;

/// The state of a search.
enum Answer {
    /// Keep looking in older sources.
    Open,
    Deleted,
    Found(PinnedSlice),
    Failed(Error),
}

/// Where a block that holds a value is pinned, and the place of the value in it.
type Pin<'p> = &'p dyn Fn() -> (PinnedBlock, usize);

/// `value`, pinned where that is possible.
#[inline]
fn kept(value: &[u8], pin: Option<Pin<'_>>) -> PinnedSlice {
    match pin {
        Some(pin) => {
            let (block, offset) = pin();
            PinnedSlice::pinned(block, offset..offset + value.len())
        }
        None => PinnedSlice::copied(value),
    }
}

/// The source that settled a lookup; set only by an observed search.
enum SettledBy {
    Nobody,
    Memtable,
    Level(usize),
}

/// Who gets something beside the value; only from an observed search.
#[derive(Default)]
struct Observers<'a> {
    /// The timestamps of what is found, of keys that have some.
    times: Option<&'a RefCell<FoundTimes>>,
    /// The tables without a value.
    sampled: Option<&'a Fruitless>,
}

/// One lookup in progress.
struct Lookup<'a> {
    cf: &'a CfData,
    options: &'a TableReadOptions,
    values: Values<'a>,
    key: UserKey<'a>,
    sequence: SequenceNumber,
    /// As `sequence` for range tombstones; 0 to see none.
    ranges_to: SequenceNumber,
    /// Highest sequence of a visible range tombstone over the key, in sources seen so far.
    covered_below: SequenceNumber,
    /// Merge operands, newest first.
    operands: OperandList,
    /// The result is the default column of a wide-column entity; with `columns` it is the whole
    /// entity.
    entity: bool,
    /// All columns are wanted.
    columns: bool,
    /// The operands are wanted, and older ones only while this returns true for the last one seen.
    unmerged: Option<ContinueCallback<'a>>,
    observers: Observers<'a>,
    /// `key` has lost its timestamp, as those of the tables searched now.
    stripped: bool,
    answer: Answer,
    settled_by: SettledBy,
}

impl<'a> Lookup<'a> {
    fn new<W: PointAnswer>(
        cf: &'a CfData,
        view: &'a SuperVersion,
        options: &'a TableReadOptions,
        key: UserKey<'a>,
        sequence: SequenceNumber,
    ) -> Self {
        Lookup {
            cf,
            options,
            values: Values::of(cf, view),
            key,
            sequence,
            ranges_to: if options.ignore_range_deletions { 0 } else { sequence },
            covered_below: 0,
            operands: OperandList::new(),
            entity: false,
            columns: W::COLUMNS,
            unmerged: None,
            observers: Observers::default(),
            stripped: false,
            answer: Answer::Open,
            settled_by: SettledBy::Nobody,
        }
    }

    /// Processes the next older version; true to continue.
    #[inline]
    fn take(
        &mut self,
        sequence: SequenceNumber,
        value_type: ValueType,
        value: &[u8],
        pin: Option<Pin<'_>>,
    ) -> bool {
        if sequence < self.covered_below {
            self.finish(None);
            return false;
        }
        match EntryKind::of(value_type) {
            EntryKind::Plain if self.operands.is_empty() => {
                self.answer = Answer::Found(kept(value, pin));
                false
            }
            EntryKind::Operand => {
                self.operands.push(value);
                match self.unmerged {
                    Some(go_on) if !go_on(value) => {
                        self.finish(None);
                        false
                    }
                    _ => true,
                }
            }
            EntryKind::Tombstone => {
                self.finish(None);
                false
            }
            _ => {
                self.take_base(value_type, value, pin);
                false
            }
        }
    }

    /// Processes the last version of the key's history, which has a special stored form or is below
    /// operands.
    #[inline(never)]
    fn take_base(&mut self, value_type: ValueType, stored: &[u8], pin: Option<Pin<'_>>) {
        let tag = value_type as u8;
        if may_refer(tag, stored) {
            return self.take_elsewhere(tag, stored, pin);
        }
        self.take_stored(tag, stored, pin);
    }

    /// The same, for a value that is at hand.
    fn take_stored(&mut self, tag: u8, stored: &[u8], pin: Option<Pin<'_>>) {
        let plain = match plain(tag, stored) {
            Ok(plain) => plain,
            Err(error) => return self.answer = Answer::Failed(error),
        };
        self.entity = is_entity(tag);
        if !self.entity || !self.columns {
            return self.finish(Some(plain));
        }
        if self.operands.is_empty() {
            return self.answer = Answer::Found(kept(stored, pin));
        }
        self.finish(Some(plain));
        if let Answer::Found(merged) = &self.answer {
            self.answer = match stored_merge(Some((tag, stored)), merged.to_vec()) {
                Ok((_, entity)) => Answer::Found(PinnedSlice::owned(entity)),
                Err(error) => Answer::Failed(error),
            };
        }
    }

    /// The history of the key ends here, with `base` or with nothing.
    fn finish(&mut self, base: Option<&[u8]>) {
        if self.operands.is_empty() {
            self.answer = match base {
                Some(value) => Answer::Found(PinnedSlice::copied(value)),
                None => Answer::Deleted,
            };
            return;
        }
        perf::count(PerfMetric::InternalMergePointLookupCount, self.operands.len() as u64);
        if self.unmerged.is_some() {
            base.into_iter().for_each(|base| self.operands.push(base));
            return self.answer = Answer::Deleted;
        }
        self.operands.reverse();
        let key = self.key_of_operator();
        self.answer = match merge_for_read(self.cf, &key, base, &self.operands.slices()) {
            Ok(value) => Answer::Found(PinnedSlice::owned(value)),
            Err(error) => Answer::Failed(error),
        };
    }

    #[inline]
    fn is_open(&self) -> bool {
        matches!(self.answer, Answer::Open)
    }

    /// Looks in a memtable.
    fn memtable<const OBSERVED: bool>(&mut self, mem: &MemTable) {
        if let Some(list) = mem.range_tombstones() {
            let found = list.max_covering_seq(&self.cf.icmp.user, self.key, self.ranges_to);
            self.covered_below = self.covered_below.max(found);
        }
        if mem.is_checked() {
            return self.memtable_guarded(mem);
        }
        mem.visit_with(self.key, self.sequence, |key, sequence, value_type, value| {
            if OBSERVED && !self.sees(key, sequence, (value_type, value)) {
                return true;
            }
            self.take(sequence, value_type, value, None)
        });
    }

    /// As `memtable`, counted.
    fn memtable_observed(&mut self, mem: &MemTable) {
        let _time = perf::time(PerfMetric::GetFromMemtableTime);
        perf::count(PerfMetric::GetFromMemtableCount, 1);
        if perf::is_any()
            && let Some(may_contain) = mem.filter_may_match(self.key.as_bytes())
        {
            let metric = match may_contain {
                true => PerfMetric::BloomMemtableHitCount,
                false => PerfMetric::BloomMemtableMissCount,
            };
            perf::count(metric, 1);
        }
        self.memtable::<true>(mem);
    }

    /// As `table`, counted.
    fn table_observed(
        &mut self,
        cache: &TableCache,
        options: &TableReadOptions,
        level: usize,
        file: &FileMetaData,
        target: (InternalKey<'_>, u64),
    ) -> Result<()> {
        let timer = perf::time_at_level(LevelMetric::GetFromTableNanos, level);
        // A row is the same for all readers only if all of the file is visible, and is read to the
        // end of the key's history.
        let whole = self.sequence >= file.largest_seq
            && self.unmerged.is_none()
            && self.cf.timestamp_size == 0
            && !options.ignore_range_deletions;
        match cache.rows().filter(|_| whole) {
            Some(rows) => self.row(rows, cache, options, level, file, target)?,
            None => self.table::<true>(cache, options, level, file, target, None)?,
        }
        drop(timer);
        if let Some(sampled) = self.observers.sampled
            && !matches!(self.answer, Answer::Found(_) | Answer::Failed(_))
        {
            sampled.borrow_mut().push(file.number);
        }
        if !self.is_open() {
            self.settled_by = SettledBy::Level(level);
            if matches!(self.answer, Answer::Found(_)) {
                perf::count_at_level(LevelMetric::UserKeyReturnCount, level, 1);
            }
        }
        Ok(())
    }

    /// Looks in a file of a level.
    #[inline(always)]
    fn ask<const OBSERVED: bool>(
        &mut self,
        cache: &TableCache,
        options: &TableReadOptions,
        (level, file): (usize, &FileMetaData),
        target: (InternalKey<'_>, u64),
    ) -> Result<()> {
        match OBSERVED {
            true => self.table_observed(cache, options, level, file, target),
            false => self.table::<false>(cache, options, level, file, target, None),
        }
    }

    /// Looks in the row cache, and then in the table file.
    fn row(
        &mut self,
        rows: &Rows,
        cache: &TableCache,
        options: &TableReadOptions,
        level: usize,
        file: &FileMetaData,
        target: (InternalKey<'_>, u64),
    ) -> Result<()> {
        let key = self.key.as_bytes();
        let found = rows.find(file.number, key, |sequence, value_type, value| {
            self.take(sequence, value_type, value, None)
        });
        if found {
            cache.statistics().tick(Ticker::RowCacheHit);
            return Ok(());
        }
        let mut row = RowBuilder::new(key);
        self.table::<true>(cache, options, level, file, target, Some(&mut row))?;
        cache.statistics().tick(Ticker::RowCacheMiss);
        if options.fill_cache {
            rows.insert(file.number, row);
        }
        Ok(())
    }

    /// Searches a table file. The versions found also go into `row`.
    fn table<const OBSERVED: bool>(
        &mut self,
        cache: &TableCache,
        options: &TableReadOptions,
        level: usize,
        file: &FileMetaData,
        (seek_key, hash): (InternalKey<'_>, u64),
        mut row: Option<&mut RowBuilder<'_>>,
    ) -> Result<()> {
        let find = OBSERVED.then(|| perf::time(PerfMetric::FindTableNanos));
        let table = cache.table_for(options, file, level)?;
        if OBSERVED {
            table.seen_at(level);
        }
        drop(find);
        if let Some(list) = table.range_tombstones_ref()
            && inside_file(self.cf.table_order(), self.key, file)
        {
            let found = list.max_covering_seq(self.cf.table_order(), self.key, self.ranges_to);
            self.covered_below = self.covered_below.max(found);
            if let Some(row) = &mut row {
                row.set_partial();
            }
        }
        let take = &mut |entry: ParsedInternalKey<'_>, value: &[u8], block: &PinnedBlock| {
            if OBSERVED && !self.sees(entry.user_key, entry.sequence, (entry.value_type, value)) {
                return true;
            }
            if OBSERVED && let Some(row) = &mut row {
                row.push(entry.sequence, entry.value_type, value);
                if entry.sequence < self.covered_below {
                    row.set_partial();
                }
            }
            self.take(entry.sequence, entry.value_type, value, Some(&|| block.pin(value)))
        };
        let searched = table.get_hashed::<OBSERVED, _>(options, seek_key, hash, take);
        if searched.is_err()
            && let Some(missed) = &options.missed
        {
            missed.set_table(table.share()?);
        }
        searched
    }

    /// The result, after all sources were searched.
    #[inline(always)]
    fn answer<W: PointAnswer>(mut self) -> Result<Option<W>> {
        if self.is_open() {
            self.finish(None);
        }
        match self.answer {
            Answer::Found(value) => W::of_found(value, self.entity),
            Answer::Failed(error) => Err(error),
            Answer::Deleted | Answer::Open => Ok(None),
        }
    }
}

/// The result of a search that reads no files.
pub(crate) enum Attempt<W> {
    /// The answer.
    Settled(Result<Option<W>>),
    /// This block of this table is needed first.
    Needs(Arc<Table>, (BlockHandle, BlockKind)),
}

/// As [`get_observed`], or `get_at` if there is a place for timestamps, with `options`, which
/// must be `cache_only` and note what was missed; counts
/// settled searches only. May open table files and so suspend.
#[inline(never)]
pub(crate) fn attempt<W: PointAnswer>(
    cf: &CfData,
    cache: &TableCache,
    super_version: &SuperVersion,
    options: &TableReadOptions,
    (sequence, key, times): (SequenceNumber, &[u8], Option<&RefCell<FoundTimes>>),
    hits: &mut Hits,
) -> Attempt<W> {
    let fruitless = Fruitless::default();
    let mut lookup = Lookup::new::<W>(cf, super_version, options, UserKey::new(key), sequence);
    lookup.observers.times = times;
    lookup.observers.sampled = hits.sampled.wants().then_some(&fruitless);
    let searched = search::<true>(&mut lookup, cache, options);
    if searched.is_err()
        && let Some((table, block)) = options.missed.as_ref().and_then(|missed| missed.take())
    {
        return Attempt::Needs(table, block);
    }
    hits.count(&lookup);
    hits.count_sampled(cf, super_version, &fruitless);
    Attempt::Settled(searched.and_then(|()| lookup.answer()))
}

/// The value of `key` at `sequence`, from `super_version`.
///
/// # Errors
/// Corruption and I/O errors of the files read; errors of the merge operator.
#[inline]
pub(crate) fn get<W: PointAnswer>(
    cf: &CfData,
    cache: &TableCache,
    super_version: &SuperVersion,
    options: &TableReadOptions,
    sequence: SequenceNumber,
    key: &[u8],
) -> Result<Option<W>> {
    let mut lookup = Lookup::new::<W>(cf, super_version, options, UserKey::new(key), sequence);
    search::<false>(&mut lookup, cache, options)?;
    lookup.answer()
}

/// As [`get`], for a caller that counts: where the answer came from is added to `hits`.
#[inline(never)]
pub(crate) fn get_observed<W: PointAnswer>(
    cf: &CfData,
    cache: &TableCache,
    super_version: &SuperVersion,
    options: &TableReadOptions,
    (sequence, key): (SequenceNumber, &[u8]),
    hits: &mut Hits,
) -> Result<Option<W>> {
    let fruitless = Fruitless::default();
    let mut lookup = Lookup::new::<W>(cf, super_version, options, UserKey::new(key), sequence);
    lookup.observers.sampled = hits.sampled.wants().then_some(&fruitless);
    let searched = search::<true>(&mut lookup, cache, options);
    hits.count(&lookup);
    hits.count_sampled(cf, super_version, &fruitless);
    searched.and_then(|()| lookup.answer())
}

/// The value that a merge at `sequence` starts from. With `cache_only` nothing is read from files,
/// not even to open one that the key might be in.
///
/// # Errors
/// As [`get`]; Incomplete if something is not in memory.
#[cold]
pub(crate) fn get_for_merge(
    cf: &CfData,
    super_version: &SuperVersion,
    options: &TableReadOptions,
    sequence: SequenceNumber,
    key: &[u8],
) -> Result<Option<PinnedColumns>> {
    let cache = cf.tables();
    let key = UserKey::new(key);
    let times = RefCell::default();
    let mut lookup = Lookup::new::<PinnedColumns>(cf, super_version, options, key, sequence);
    lookup.observers.times = (cf.timestamp_size > 0).then_some(&times);
    search::<true>(&mut lookup, &cache, options)?;
    lookup.answer()
}

/// Searches the sources, newest first. Sets `settled_by` if it is `OBSERVED`; other searches pay
/// nothing for that.
#[inline(always)]
fn search<const OBSERVED: bool>(
    lookup: &mut Lookup<'_>,
    cache: &TableCache,
    options: &TableReadOptions,
) -> Result<()> {
    let super_version = lookup.values.view();
    let ask = |lookup: &mut Lookup<'_>, mem| match OBSERVED {
        true => lookup.memtable_observed(mem),
        false => lookup.memtable::<false>(mem),
    };
    if !super_version.mem.is_empty() {
        ask(lookup, &super_version.mem);
    }
    for mem in &super_version.imm {
        if !lookup.is_open() {
            break;
        }
        ask(lookup, mem);
    }
    if !lookup.is_open() {
        if OBSERVED {
            lookup.settled_by = SettledBy::Memtable;
        }
        return Ok(());
    }
    let _time = OBSERVED.then(|| perf::time(PerfMetric::GetFromOutputFilesTime));
    if OBSERVED && lookup.cf.table_keys.stripped {
        lookup.strip();
    }
    let mut stack = [0u8; 256];
    let mut heap = Vec::new();
    let seek_key = seek_key(lookup.key, lookup.sequence, &mut stack, &mut heap);
    if super_version.version.is_overlapping() {
        return lookup.overlapping(cache, options, &super_version.version, seek_key);
    }
    // One hash for the filters of all tables.
    let hash = hash64(lookup.key.as_bytes());
    let icmp = &lookup.cf.table_keys.icmp;
    for (number, level) in super_version.version.levels().iter().enumerate() {
        if level.files().is_empty() {
            continue;
        }
        if number == 0 {
            lookup.level0::<OBSERVED>(cache, options, level, (seek_key, hash))?;
            if !lookup.is_open() {
                return Ok(());
            }
            continue;
        }
        // Two neighbouring files may share a user key; the later file has the older versions.
        let mut index = level.find_file(icmp, seek_key);
        while let Some(file) = level.files().get(index) {
            if icmp.user.compare_without_timestamp(lookup.key, file.smallest_user_key()).is_lt() {
                break;
            }
            lookup.ask::<OBSERVED>(cache, options, (number, file), (seek_key, hash))?;
            if !lookup.is_open() {
                return Ok(());
            }
            if !icmp.user.same_user_key(lookup.key, file.largest_user_key()) {
                break;
            }
            index += 1;
        }
    }
    Ok(())
}

/// `key ‖ trailer` on the stack when it fits, so that a read allocates nothing.
fn seek_key<'b>(
    key: UserKey<'_>,
    sequence: SequenceNumber,
    stack: &'b mut [u8; 256],
    heap: &'b mut Vec<u8>,
) -> InternalKey<'b> {
    match key::seek_key_in(stack, key, sequence) {
        Some(fits) => fits,
        None => {
            key::append_internal_key(heap, key, sequence, VALUE_TYPE_FOR_SEEK);
            InternalKey::new(heap)
        }
    }
}
