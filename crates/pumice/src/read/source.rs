//! The sources a column family's iterator merges, as one enum.
//!
//! An enum instead of a boxed trait object keeps `next`, `key` and `value` free of virtual calls.
//! Thread safety: one owner at a time (`Send`).

use pumice_base::{InternalIterator, InternalKey, Result};
use pumice_env::perf::{self, PerfMetric};
use pumice_memtable::MemTableIter;
use pumice_table::{Extractor, Goal, TableIter};

use crate::read::guarded::GuardedSource;
use crate::read::level_iterator::LevelIterator;
use crate::read::merging_iterator::{MergingIterator, Waits};
use crate::read::overlapping::OverlappingIterator;
use crate::read::padded::PaddedSource;
use crate::read::timed::TimedSource;

/// A source that few cursors have.
pub enum Rare {
    /// All files, where they overlap.
    Overlapping(OverlappingIterator),
    /// What a time sees of all other sources.
    Timed(TimedSource),
    /// Tables that have lost the timestamps of their keys.
    Padded(PaddedSource),
    /// A memtable whose entries have checksums.
    Guarded(GuardedSource),
}

/// A memtable, one L0 table, one sorted level, or a rare source.
pub enum Source {
    /// A mutable or immutable memtable.
    Mem(MemTableIter),
    /// A table of L0, or a single compaction input.
    Table(TableIter),
    /// A level at or below L1.
    Level(LevelIterator),
    /// One of the others: a variant more here would cost each step of each cursor.
    Rare(Box<Rare>),
}

macro_rules! each_rare {
    ($self:ident, $iter:ident => $body:expr) => {
        match $self {
            Rare::Overlapping($iter) => $body,
            Rare::Timed($iter) => $body,
            Rare::Padded($iter) => $body,
            Rare::Guarded($iter) => $body,
        }
    };
}

// Never inlined: the steps of all other cursors would carry their code.
impl InternalIterator for Rare {
    #[inline(never)]
    fn valid(&self) -> bool {
        each_rare!(self, i => i.valid())
    }
    fn seek_to_first(&mut self) {
        each_rare!(self, i => i.seek_to_first());
    }
    fn seek_to_last(&mut self) {
        each_rare!(self, i => i.seek_to_last());
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        each_rare!(self, i => i.seek(target));
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        each_rare!(self, i => i.seek_for_prev(target));
    }
    #[inline(never)]
    fn next(&mut self) {
        each_rare!(self, i => i.next());
    }
    #[inline(never)]
    fn prev(&mut self) {
        each_rare!(self, i => i.prev());
    }
    #[inline(never)]
    fn key(&self) -> InternalKey<'_> {
        each_rare!(self, i => i.key())
    }
    #[inline(never)]
    fn value(&self) -> &[u8] {
        each_rare!(self, i => i.value())
    }
    fn status(&self) -> Result<()> {
        each_rare!(self, i => i.status())
    }
}

macro_rules! each {
    ($self:ident, $iter:ident => $body:expr) => {
        match $self {
            Source::Mem($iter) => $body,
            Source::Table($iter) => $body,
            Source::Level($iter) => $body,
            Source::Rare($iter) => $body,
        }
    };
}

impl Source {
    /// From now on, a seek may leave out keys without the prefix of its target; with None it finds
    /// everything.
    pub fn scope_to_prefix(&mut self, scope: Option<&Extractor>) {
        match self {
            Source::Mem(mem) => mem.scope_to_prefix(scope),
            Source::Table(table) => table.scope_to_prefix(scope),
            Source::Level(level) => level.scope_to_prefix(scope),
            Source::Rare(rare) => match &mut **rare {
                Rare::Overlapping(files) => files.scope_to_prefix(scope),
                Rare::Guarded(mem) => mem.scope_to_prefix(scope),
                // It finds everything.
                Rare::Timed(_) | Rare::Padded(_) => {}
            },
        }
    }

    /// Whether it is a memtable.
    pub fn is_memtable(&self) -> bool {
        match self {
            Source::Mem(_) => true,
            Source::Rare(rare) => match &**rare {
                Rare::Timed(timed) => timed.is_memtable(),
                Rare::Guarded(_) => true,
                Rare::Overlapping(_) | Rare::Padded(_) => false,
            },
            Source::Table(_) | Source::Level(_) => false,
        }
    }

    /// The timestamp of the entry that it is on, if it hides timestamps. Requires `valid`.
    pub fn timestamp(&self) -> &[u8] {
        match self {
            Source::Rare(rare) => match &**rare {
                Rare::Timed(timed) => timed.timestamp(),
                Rare::Overlapping(_) | Rare::Padded(_) | Rare::Guarded(_) => &[],
            },
            _ => &[],
        }
    }

    /// The value is returned to a user. Requires `valid`.
    pub fn note_use(&self) {
        match self {
            Source::Mem(_) => {}
            Source::Rare(rare) => match &**rare {
                Rare::Timed(timed) => timed.note_use(),
                Rare::Padded(padded) => padded.note_use(),
                Rare::Overlapping(_) | Rare::Guarded(_) => {}
            },
            Source::Table(table) => table.note_use(),
            Source::Level(level) => level.note_use(),
        }
    }
}

impl Waits for TableIter {
    fn start(&mut self, goal: Goal<'_>) -> bool {
        TableIter::start(self, goal, true)
    }
    fn waiting(&mut self) -> Option<&mut TableIter> {
        Some(self)
    }
    fn go_on(&mut self, goal: Goal<'_>) -> bool {
        TableIter::go_on(self, goal)
    }
}

impl Waits for Source {
    #[inline]
    fn start(&mut self, goal: Goal<'_>) -> bool {
        match self {
            Source::Table(table) => table.start(goal, true),
            Source::Level(level) => level.start(goal, true),
            Source::Mem(_) | Source::Rare(_) => {
                match goal {
                    Goal::First => self.seek_to_first(),
                    Goal::Last => self.seek_to_last(),
                    Goal::Seek(target) => self.seek(target),
                    Goal::SeekForPrev(target) => self.seek_for_prev(target),
                }
                false
            }
        }
    }
    fn waiting(&mut self) -> Option<&mut TableIter> {
        match self {
            Source::Table(table) => Some(table),
            Source::Level(level) => level.waiting(),
            Source::Mem(_) | Source::Rare(_) => None,
        }
    }
    fn go_on(&mut self, goal: Goal<'_>) -> bool {
        match self {
            Source::Table(table) => table.go_on(goal),
            Source::Level(level) => level.go_on(goal),
            Source::Mem(_) | Source::Rare(_) => false,
        }
    }
}

impl MergingIterator<Source> {
    /// The value is returned to a user. Requires `valid`.
    pub fn note_use(&self) {
        if let Some(source) = self.current_source() {
            source.note_use();
        }
    }
}

/// Seeks in a memtable, and counts the seek.
fn seek_memtable(mem: &mut MemTableIter, seek: impl FnOnce(&mut MemTableIter)) {
    let _time = perf::time(PerfMetric::SeekOnMemtableTime);
    perf::count(PerfMetric::SeekOnMemtableCount, 1);
    seek(mem);
}

impl InternalIterator for Source {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, i => i.valid())
    }
    fn seek_to_first(&mut self) {
        each!(self, i => i.seek_to_first())
    }
    fn seek_to_last(&mut self) {
        each!(self, i => i.seek_to_last())
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        match self {
            Source::Mem(mem) => seek_memtable(mem, |mem| mem.seek(target)),
            Source::Table(table) => table.seek(target),
            Source::Level(level) => level.seek(target),
            Source::Rare(rare) => rare.seek(target),
        }
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        match self {
            Source::Mem(mem) => seek_memtable(mem, |mem| mem.seek_for_prev(target)),
            Source::Table(table) => table.seek_for_prev(target),
            Source::Level(level) => level.seek_for_prev(target),
            Source::Rare(rare) => rare.seek_for_prev(target),
        }
    }
    #[inline]
    fn next(&mut self) {
        each!(self, i => i.next())
    }
    #[inline]
    fn prev(&mut self) {
        each!(self, i => i.prev())
    }
    // As `MergingIterator::key`.
    #[inline(always)]
    fn key(&self) -> InternalKey<'_> {
        each!(self, i => i.key())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, i => i.value())
    }
    fn status(&self) -> Result<()> {
        each!(self, i => i.status())
    }
}
