//! Several point reads as one: blocks missing in the block cache are read together.
//!
//! First every key is looked up in memory and in the cache alone. Missing blocks are then loaded in
//! rounds: one block per open key, each block once however many keys need it, all reads of a round
//! in flight together, whatever files they are in. The keys are looked up again, with the blocks
//! now held, cached or not, until none is open. A call whose blocks are all cached starts no fiber.
//!
//! Before keys are looked up, the memtable prefetches for a few at a time, so that their cache
//! misses overlap.
//!
//! The reads in flight are fibers (`together`). Lookups, and with them merge operators, comparators
//! and prefix extractors, run on the caller; so do loads that would call user code.
//!
//! The first error of a block is the answer for the keys that need it, and for no others. Thread
//! safety: one call on its task. Suspends where it reads.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use pumice_base::{Result, SequenceNumber};
use pumice_env::IoActivity;
use pumice_port::fiber;
use pumice_table::{BlockHandle, BlockKind, MissedBlock, Table, TableReadOptions};

use crate::cost;
use crate::read::answer::PointAnswer;
use crate::read::get::timed::FoundTimes;
use crate::read::get::{self, Attempt, Hits};
use crate::read::sampling::Sampled;
use crate::read::together::read_together;
use crate::snapshot::Snapshot;
use crate::version::family::CfData;
use crate::version::super_version::{SuperVersion, kept_view};
use crate::version::table_cache::TableCache;

/// Keys whose blocks are held at one time; further keys come after them.
const KEYS_AT_ONCE: usize = 1024;

/// Keys whose searches in the memtable are prefetched together: the data they load fits the CPU's
/// L1 cache.
const KEYS_WARMED: usize = 16;

type Answer<W> = Result<Option<W>>;

/// A column family as the call sees it.
pub(crate) struct Family<'a> {
    pub cf: &'a Arc<CfData>,
    tables: Arc<TableCache>,
    pub view: Arc<SuperVersion>,
}

impl<'a> Family<'a> {
    /// `cf` to be read at `snapshot`: as it is now, since the snapshot keeps what later changes
    /// replace, or as it was if a filter ran then.
    pub fn under(cf: &'a Arc<CfData>, snapshot: &Snapshot) -> Self {
        Self::at(cf, kept_view(snapshot, cf.id).unwrap_or_else(|| cf.super_version.load_full()))
    }

    /// `cf` as of `view`.
    pub fn at(cf: &'a Arc<CfData>, view: Arc<SuperVersion>) -> Self {
        Family { cf, tables: Arc::clone(&cf.tables()), view }
    }
}

/// Which block: file and offset.
type Place = (u64, u64);

/// A block that some keys need.
struct Need {
    table: Arc<Table>,
    block: (BlockHandle, BlockKind),
}

impl Need {
    fn place(&self) -> Place {
        (self.table.file_number(), self.block.0.offset)
    }
}

/// A key that waits for a block.
struct Open {
    at: usize,
    needs: Place,
}

/// See the module head.
pub(crate) struct MultiGet<'a, W> {
    families: Vec<Family<'a>>,
    /// Index of the family, user key.
    keys: Vec<(usize, &'a [u8])>,
    options: TableReadOptions,
    sequence: SequenceNumber,
    hits: Cell<Hits>,
    /// Get the timestamps of the versions found.
    times: Option<&'a [RefCell<FoundTimes>]>,
    wanted: PhantomData<fn() -> W>,
}

impl<'a, W: PointAnswer> MultiGet<'a, W> {
    /// A search for `keys`, each with the number of its family, at `sequence`.
    pub fn new(
        families: Vec<Family<'a>>,
        keys: Vec<(usize, &'a [u8])>,
        options: TableReadOptions,
        sequence: SequenceNumber,
    ) -> Self {
        let (hits, times, wanted) = (Cell::default(), None, PhantomData);
        MultiGet { families, keys, options, sequence, hits, times, wanted }
    }

    /// Those reads are sampled.
    pub fn sampling(self, sampled: Sampled) -> Self {
        self.hits.set(Hits { sampled, ..self.hits.get() });
        self
    }

    /// The timestamps of the versions found go to `times`, which are as many as the keys.
    pub fn noting(self, times: Option<&'a [RefCell<FoundTimes>]>) -> Self {
        MultiGet { times, ..self }
    }

    /// Where the timestamp of key number `at` goes; nothing is there.
    fn time_of(&self, at: usize) -> Option<&'a RefCell<FoundTimes>> {
        let time = &self.times?[at];
        // An earlier attempt may have found the version, and not the value that it needs.
        time.borrow_mut().clear();
        Some(time)
    }

    /// Where the answers came from.
    pub fn hits(&self) -> Hits {
        self.hits.get()
    }

    /// The answers in the order of the keys.
    pub fn run(&self) -> Vec<Answer<W>> {
        let count = self.keys.len();
        let mut views = self.families.iter().map(|family| &family.view.version);
        if self.options.cache_only || count == 1 || views.any(|view| view.is_overlapping()) {
            return (0..count).map(|at| self.get(at)).collect();
        }
        let mut answers = Vec::with_capacity(count);
        while answers.len() < count {
            let end = count.min(answers.len() + KEYS_AT_ONCE);
            self.run_some(end, &mut answers);
        }
        answers
    }

    /// Answers the next keys, up to number `end`.
    fn run_some(&self, end: usize, answers: &mut Vec<Answer<W>>) {
        let missed = Arc::new(MissedBlock::default());
        let quick = TableReadOptions {
            cache_only: true,
            missed: Some(Arc::clone(&missed)),
            ..self.options.clone()
        };
        let (mut open, mut needs) = (Vec::new(), Vec::new());
        for at in answers.len()..end {
            if at.is_multiple_of(KEYS_WARMED) {
                self.warm(at..end.min(at + KEYS_WARMED));
            }
            fiber::spend(cost::GET);
            answers.push(match self.attempt(at, &quick) {
                Attempt::Settled(answer) => answer,
                Attempt::Needs(table, block) => {
                    let need = Need { table, block };
                    open.push(Open { at, needs: need.place() });
                    needs.push(need);
                    Ok(None)
                }
            });
        }
        if !open.is_empty() {
            self.load_and_retry(&quick, &missed, (open, needs), answers);
        }
    }

    /// Has the memtable load the data that the searches for these keys will read.
    fn warm(&self, range: Range<usize>) {
        for keys in self.keys[range].chunk_by(|one, other| one.0 == other.0) {
            if let [(family, _), _, ..] = keys {
                let mem = &self.families[*family].view.mem;
                mem.warm(keys.iter().map(|(_, key)| *key), self.sequence);
            }
        }
    }

    fn get(&self, at: usize) -> Answer<W> {
        let ((family, key), time) = (self.keys[at], self.time_of(at));
        let Family { cf, tables, view } = &self.families[family];
        let at = (self.sequence, key);
        let mut hits = self.hits.get();
        let answer = match time {
            None => get::get_observed(cf, tables, view, &self.options, at, &mut hits),
            Some(time) => get::timed::get_at(cf, view, &self.options, at, time, &mut hits),
        };
        self.hits.set(hits);
        answer
    }

    fn attempt(&self, at: usize, quick: &TableReadOptions) -> Attempt<W> {
        let ((family, key), time) = (self.keys[at], self.time_of(at));
        let Family { cf, tables, view } = &self.families[family];
        let at = (self.sequence, key, time);
        let mut hits = self.hits.get();
        let attempt = get::attempt(cf, tables, view, quick, at, &mut hits);
        self.hits.set(hits);
        attempt
    }

    /// Loads the blocks that the keys in `open` need, round by round, until all have an answer.
    fn load_and_retry(
        &self,
        quick: &TableReadOptions,
        missed: &MissedBlock,
        (mut open, mut needs): (Vec<Open>, Vec<Need>),
        answers: &mut [Answer<W>],
    ) {
        let mut asked = BTreeSet::new();
        // A single key is as fast on its own.
        while open.len() > 1 {
            needs.sort_unstable_by_key(Need::place);
            needs.dedup_by_key(|need| need.place());
            asked.extend(needs.iter().map(Need::place));
            self.load(&needs, missed);
            needs.clear();
            open.retain_mut(|key| {
                fiber::spend(cost::GET);
                if missed.has(key.needs) {
                    match self.attempt(key.at, quick) {
                        Attempt::Settled(answer) => {
                            answers[key.at] = answer;
                            return false;
                        }
                        Attempt::Needs(table, block) => {
                            let need = Need { table, block };
                            key.needs = need.place();
                            if !asked.contains(&key.needs) {
                                needs.push(need);
                                return true;
                            }
                        }
                    }
                }
                // The error of the block it needs.
                answers[key.at] = self.get(key.at);
                false
            });
        }
        for key in open {
            answers[key.at] = self.get(key.at);
        }
    }

    /// Loads the blocks together. Errors are found again, and returned, by the lookups of the keys
    /// that need the blocks.
    fn load(&self, needs: &[Need], missed: &MissedBlock) {
        let little_stack = |need: &&Need| need.table.loads_on_little_stack(need.block.1);
        read_together(IoActivity::MultiGet, needs.iter(), little_stack, |need| {
            if let Ok(block) = need.table.load(need.block, &self.options) {
                missed.keep(&need.table, need.block.0.offset, block);
            }
        });
    }
}
