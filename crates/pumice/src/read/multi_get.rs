//! Several point reads as one: what they miss in the block cache is read together.
//!
//! First every key is looked up in memory and in the cache alone. What is missing is then loaded
//! in rounds: one block per open key, each block once however many keys need it, all reads of a
//! round in flight together, whatever files they are in. The keys are looked up again, over the
//! blocks that are pinned now, until none is open. A call whose blocks are all cached starts no
//! fiber.
//!
//! Without a cache to load into (or with `fill_cache` off) open keys are read one fiber each.
//!
//! The first error of a block is the answer of the keys that need it, and of no other.
//! Thread safety: one call on its task. Suspends where it reads.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;

use pumice_base::{Result, SequenceNumber};
use pumice_port::fiber;
use pumice_port::thread::NotStarted;
use pumice_table::{BlockHandle, BlockKind, MissedBlock, PinnedBlock, Table, TableReadOptions};

use crate::db::column_family::CfData;
use crate::read::get::{self, Attempt};
use crate::read::pinned::PinnedSlice;
use crate::read::super_version::SuperVersion;
use crate::table_cache::TableCache;

/// Reads in flight at most; more wait for their turn.
const READS_AT_ONCE: usize = 64;

type Answer = Result<Option<PinnedSlice>>;

/// A column family as the call sees it.
pub(crate) struct Family<'a> {
    pub cf: &'a Arc<CfData>,
    tables: Arc<TableCache>,
    view: Arc<SuperVersion>,
}

impl<'a> Family<'a> {
    /// `cf` as it is now. Requires a snapshot that was taken before and is read at.
    pub fn new(cf: &'a Arc<CfData>) -> Self {
        Self::at(cf, cf.super_version.load_full())
    }

    /// `cf` as `view` has it.
    pub fn at(cf: &'a Arc<CfData>, view: Arc<SuperVersion>) -> Self {
        Family { cf, tables: Arc::clone(&cf.tables()), view }
    }
}

/// A block that some keys need.
struct Need {
    table: Arc<Table>,
    block: (BlockHandle, BlockKind),
}

impl Need {
    fn order(&self) -> (u64, u64) {
        (self.table.file_number(), self.block.0.offset)
    }
}

/// See the module head.
pub(crate) struct MultiGet<'a> {
    pub families: Vec<Family<'a>>,
    /// Index of the family, user key.
    pub keys: Vec<(usize, &'a [u8])>,
    pub options: TableReadOptions,
    pub sequence: SequenceNumber,
}

impl MultiGet<'_> {
    /// The answers in the order of the keys.
    pub fn run(&self) -> Vec<Answer> {
        if self.options.cache_only || self.keys.len() == 1 {
            return (0..self.keys.len()).map(|at| self.get(at)).collect();
        }
        let quick = TableReadOptions {
            cache_only: true,
            missed: Some(Arc::new(MissedBlock::default())),
            ..self.options.clone()
        };
        let mut answers = Vec::with_capacity(self.keys.len());
        let mut open = Vec::new();
        let mut needs = Vec::new();
        for at in 0..self.keys.len() {
            fiber::maybe_yield();
            answers.push(match self.attempt(at, &quick) {
                Attempt::Settled(answer) => answer,
                Attempt::Needs(table, block) => {
                    open.push(at);
                    needs.push(Need { table, block });
                    Ok(None)
                }
            });
        }
        if self.options.fill_cache {
            self.load_and_retry(&quick, &mut open, needs, &mut answers);
        }
        self.read_each(&open, &mut answers);
        answers
    }

    fn get(&self, at: usize) -> Answer {
        let (family, key) = self.keys[at];
        let Family { cf, tables, view } = &self.families[family];
        get::get(cf, tables, view, &self.options, self.sequence, key)
    }

    fn attempt(&self, at: usize, quick: &TableReadOptions) -> Attempt {
        let (family, key) = self.keys[at];
        let Family { cf, tables, view } = &self.families[family];
        get::attempt(cf, tables, view, quick, self.sequence, key)
    }

    /// Loads what the keys in `open` need, round by round; those left in `open` it could not help.
    fn load_and_retry(
        &self,
        quick: &TableReadOptions,
        open: &mut Vec<usize>,
        mut needs: Vec<Need>,
        answers: &mut [Answer],
    ) {
        let mut pins = Vec::new();
        let mut loaded = BTreeSet::new();
        // A single key is as fast on its own.
        while open.len() > 1 {
            needs.sort_unstable_by_key(Need::order);
            needs.dedup_by_key(|need| need.order());
            loaded.extend(needs.iter().map(Need::order));
            if !self.load(&needs, &mut pins) {
                return;
            }
            needs.clear();
            let mut evicted = false;
            open.retain(|&at| match self.attempt(at, quick) {
                Attempt::Settled(answer) => {
                    answers[at] = answer;
                    false
                }
                Attempt::Needs(table, block) => {
                    let need = Need { table, block };
                    evicted |= loaded.contains(&need.order());
                    needs.push(need);
                    true
                }
            });
            // A cache that does not keep what is pinned would have it read again and again.
            if evicted {
                return;
            }
        }
    }

    /// Loads the blocks together; false if some could not be loaded into a cache.
    fn load(&self, needs: &[Need], pins: &mut Vec<PinnedBlock>) -> bool {
        let verify = self.options.verify_checksums;
        let loaded: Vec<Cell<Option<PinnedBlock>>> =
            needs.iter().map(|_| Cell::default()).collect();
        together(needs.len(), |at| {
            // An error is met again, and told, by the keys that need the block.
            loaded[at].set(needs[at].table.load(needs[at].block, verify).ok());
        });
        let before = pins.len();
        pins.extend(loaded.into_iter().filter_map(Cell::into_inner));
        let cached = |pin: &PinnedBlock| matches!(pin, PinnedBlock::Cached(_));
        pins.len() == before + needs.len() && pins[before..].iter().all(cached)
    }

    /// Reads the keys in `open` in the ordinary way, together.
    fn read_each(&self, open: &[usize], answers: &mut [Answer]) {
        let found: Vec<Cell<Option<Answer>>> = open.iter().map(|_| Cell::default()).collect();
        together(open.len(), |n| found[n].set(Some(self.get(open[n]))));
        for (&at, found) in open.iter().zip(found) {
            if let Some(answer) = found.into_inner() {
                answers[at] = answer;
            }
        }
    }
}

/// Does `work` for each number below `count`, on fibers of the calling thread, and where there is no
/// memory for them on the caller.
fn together(count: usize, work: impl Fn(usize)) {
    let next = Cell::new(0);
    let (next, work) = (&next, &work);
    let some = move || {
        while next.get() < count {
            work(next.replace(next.get() + 1));
        }
    };
    if count > 1 {
        fiber::scope_here(|scope| {
            let fibers = count.min(READS_AT_ONCE);
            let fibers: Vec<_> = (0..fibers).map(|_| scope.spawn("multi_get", some)).collect();
            for fiber in fibers {
                match fiber.join() {
                    Err(panic) if !panic.is::<NotStarted>() => resume_unwind(panic),
                    _ => {}
                }
            }
        });
    }
    some();
}
