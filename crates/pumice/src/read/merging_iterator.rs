//! Merges sorted sources into one stream of internal keys.
//!
//! The heap holds, with each source, the first 8 bytes of its user key as a big-endian integer, so
//! that under the bytewise comparator most comparisons are one integer comparison. The winner stays
//! outside the heap and is compared only with the heap's top after it moves ("champion retention"):
//! long runs from one source cost one comparison a key, and a single source costs none.
//!
//! A move that positions all sources reads the blocks that they need together ([`Waits`]): it waits
//! once, for the slowest. It reads what it would read one by one, since each source is positioned
//! whatever the others have.
//!
//! Thread safety: one owner at a time (`Send`). Invariants: (1) `heap` holds every valid source
//! except `current`, smallest first when moving forward, largest first when moving backward; (2)
//! ties cannot occur: no two sources hold the same internal key (sequence numbers are unique within
//! a column family). It does not hide anything: versions and tombstones come out as stored.

use pumice_base::narrow::len_u32;
use std::cmp::Ordering;

use pumice_base::key::InternalKey;
use pumice_base::planted::{self, Bug};
use pumice_base::{InternalIterator, InternalKeyComparator, Result, UserKey};
use pumice_env::activity;
use pumice_env::perf::{self, PerfMetric};
use pumice_table::{Goal, TableIter};

use crate::read::together::read_together;

/// A valid source by its index, with the prefix of its key; 0 unless keys order by their bytes.
#[derive(Clone, Copy)]
struct Head {
    prefix: u64,
    index: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A source whose moves may wait for a block, so that several sources wait together.
pub trait Waits: InternalIterator {
    /// Moves to the goal; true if it waits for a block, as [`TableIter::start`].
    fn start(&mut self, goal: Goal<'_>) -> bool;
    /// The table whose block it waits for.
    fn waiting(&mut self) -> Option<&mut TableIter>;
    /// Continues when that is fetched, as [`TableIter::go_on`].
    fn go_on(&mut self, goal: Goal<'_>) -> bool;
}

/// See the module head.
pub struct MergingIterator<I> {
    comparator: InternalKeyComparator,
    bytewise: bool,
    sources: Vec<I>,
    heap: Vec<Head>,
    current: Option<u32>,
    direction: Direction,
    /// All sources are where the next move takes them: it was begun before.
    begun: bool,
    status: Result<()>,
}

/// The first 8 bytes of a user key, zero-padded, as an integer that orders like the bytes.
#[inline]
pub(crate) fn key_prefix(user_key: UserKey<'_>) -> u64 {
    let user_key = user_key.as_bytes();
    match user_key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0u8; 8];
            head[..user_key.len()].copy_from_slice(user_key);
            u64::from_be_bytes(head)
        }
    }
}

impl<I: Waits> MergingIterator<I> {
    /// Merges `sources`; position it with a seek before use.
    pub fn new(comparator: InternalKeyComparator, sources: Vec<I>) -> Self {
        let bytewise = comparator.user.is_bytewise();
        let heap = Vec::with_capacity(sources.len());
        MergingIterator {
            comparator,
            bytewise,
            sources,
            heap,
            current: None,
            direction: Direction::Forward,
            begun: false,
            status: Ok(()),
        }
    }

    /// The sources, for settings that do not move them.
    pub fn sources_mut(&mut self) -> impl Iterator<Item = &mut I> {
        self.sources.iter_mut()
    }

    /// The source that the iterator is on.
    pub fn current_source(&self) -> Option<&I> {
        self.current.map(|index| &self.sources[index as usize])
    }

    /// Source `a` comes out before source `b` in the present direction.
    #[inline]
    fn before(&self, a: Head, b: Head) -> bool {
        let key = |head: Head| self.sources[head.index as usize].key();
        let order = match a.prefix.cmp(&b.prefix) {
            Ordering::Equal => self.comparator.compare(key(a), key(b)),
            other => other,
        };
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    /// The prefix of source `index` after it moved; None if it is not valid. Keeps its error.
    #[inline]
    fn prefix(&mut self, index: u32) -> Option<u64> {
        let source = &self.sources[index as usize];
        if source.valid() {
            return Some(if self.bytewise { key_prefix(source.key().user_key()) } else { 0 });
        }
        self.keep_error(index);
        None
    }

    /// Source `index` is not valid: it may have an error.
    #[cold]
    fn keep_error(&mut self, index: u32) {
        if self.status.is_ok() && !planted::is(Bug::ScanIgnoresReadError) {
            self.status = self.sources[index as usize].status();
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        let len = self.heap.len();
        loop {
            let left = 2 * at + 1;
            if left >= len {
                return;
            }
            let right = left + 1;
            let child = if right < len && self.before(self.heap[right], self.heap[left]) {
                right
            } else {
                left
            };
            if !self.before(self.heap[child], self.heap[at]) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    /// Rebuilds heap and current from the positions of the sources.
    fn rebuild(&mut self, direction: Direction) {
        self.direction = direction;
        self.heap.clear();
        if self.sources.len() == 1 {
            self.current = self.sources[0].valid().then_some(0);
            if self.current.is_none() {
                self.keep_error(0);
            }
            return;
        }
        for index in 0..len_u32(self.sources.len()) {
            if let Some(prefix) = self.prefix(index) {
                self.heap.push(Head { prefix, index });
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        self.pop_current();
    }

    fn pop_current(&mut self) {
        if self.heap.is_empty() || self.status.is_err() {
            self.current = None;
            return;
        }
        self.current = Some(self.heap.swap_remove(0).index);
        self.sift_down(0);
    }

    /// Restores invariant 1 after the current source moved one step.
    #[inline]
    fn settle(&mut self, index: u32) {
        let Some(&top) = self.heap.first() else {
            // The only source left: its key is compared with nothing.
            if !self.sources[index as usize].valid() {
                self.keep_error(index);
                self.current = None;
            }
            return;
        };
        let Some(prefix) = self.prefix(index) else {
            self.pop_current();
            return;
        };
        let head = Head { prefix, index };
        if self.before(top, head) {
            self.heap[0] = head;
            self.current = Some(top.index);
            self.sift_down(0);
        }
    }

    /// Moves all sources but the one numbered `except`.
    fn move_sources(&mut self, goal: Goal<'_>, except: Option<u32>) {
        for (index, source) in (0..).zip(&mut self.sources) {
            if Some(index) != except && source.start(goal) {
                return self.wait_from(index, goal, except);
            }
        }
    }

    /// Source `first` waits; those after it have not moved yet.
    #[cold]
    fn wait_from(&mut self, first: u32, goal: Goal<'_>, except: Option<u32>) {
        let mut waiting = vec![first];
        self.start_sources(first + 1, goal, except, &mut waiting);
        self.wait_together(goal, waiting);
    }

    /// Moves the sources from `first` on, and adds to `waiting` those that wait.
    fn start_sources(
        &mut self,
        first: u32,
        goal: Goal<'_>,
        except: Option<u32>,
        waiting: &mut Vec<u32>,
    ) {
        for (index, source) in (0..).zip(&mut self.sources).skip(first as usize) {
            if Some(index) != except && source.start(goal) {
                waiting.push(index);
            }
        }
    }

    /// Begins a move of all sources; which of them wait for a block. The next move has to go to the
    /// same goal, once none waits.
    pub fn begin(&mut self, goal: Goal<'_>) -> Vec<u32> {
        self.begun = true;
        let mut waiting = Vec::new();
        self.start_sources(0, goal, None, &mut waiting);
        waiting
    }

    /// The tables of these sources, which wait.
    pub fn waiting<'a>(
        &'a mut self,
        waiting: &'a [u32],
    ) -> impl Iterator<Item = &'a mut TableIter> {
        let is_waiting = |index: &u32| waiting.binary_search(index).is_ok();
        let sources = (0..).zip(&mut self.sources).filter(move |(index, _)| is_waiting(index));
        sources.filter_map(|(_, source)| source.waiting())
    }

    /// Continues the move of these sources, of which those stay that wait again.
    pub fn go_on(&mut self, goal: Goal<'_>, waiting: &mut Vec<u32>) {
        waiting.retain(|index| self.sources[*index as usize].go_on(goal));
    }

    /// Reads the blocks for which those sources wait, together, until none waits.
    fn wait_together(&mut self, goal: Goal<'_>, mut waiting: Vec<u32>) {
        while !waiting.is_empty() {
            let tables = self.waiting(&waiting);
            let little_stack = |table: &&mut TableIter| table.fetches_on_little_stack();
            read_together(activity::current(), tables, little_stack, |table| table.fetch());
            self.go_on(goal, &mut waiting);
        }
    }

    fn seek_all(&mut self, direction: Direction, goal: Goal<'_>) {
        self.status = Ok(());
        let time = perf::time(PerfMetric::SeekChildSeekTime);
        if !std::mem::take(&mut self.begun) {
            self.move_sources(goal, None);
        }
        perf::count(PerfMetric::SeekChildSeekCount, self.sources.len() as u64);
        drop(time);
        let _time = perf::time(match direction {
            Direction::Forward => PerfMetric::SeekMinHeapTime,
            Direction::Backward => PerfMetric::SeekMaxHeapTime,
        });
        self.rebuild(direction);
    }

    /// Changes direction: moves every other source to the far side of the current key.
    fn turn(&mut self, direction: Direction) {
        let Some(current) = self.current else { return };
        let key = self.sources[current as usize].key().to_vec();
        let key = InternalKey::new(&key);
        let goal = match direction {
            Direction::Forward => Goal::Seek(key),
            Direction::Backward => Goal::SeekForPrev(key),
        };
        self.move_sources(goal, Some(current));
        self.direction = direction;
        self.heap.clear();
        for index in 0..len_u32(self.sources.len()) {
            if index == current {
                continue;
            }
            if let Some(prefix) = self.prefix(index) {
                self.heap.push(Head { prefix, index });
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        if self.status.is_err() {
            self.current = None;
        }
    }
}

impl<I: Waits> InternalIterator for MergingIterator<I> {
    #[inline]
    fn valid(&self) -> bool {
        self.current.is_some()
    }
    fn seek_to_first(&mut self) {
        self.seek_all(Direction::Forward, Goal::First);
    }
    fn seek_to_last(&mut self) {
        self.seek_all(Direction::Backward, Goal::Last);
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.seek_all(Direction::Forward, Goal::Seek(target));
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.seek_all(Direction::Backward, Goal::SeekForPrev(target));
    }
    #[inline]
    fn next(&mut self) {
        if self.direction == Direction::Backward {
            self.turn(Direction::Forward);
        }
        let Some(index) = self.current else { return };
        self.sources[index as usize].next();
        self.settle(index);
    }
    #[inline]
    fn prev(&mut self) {
        if self.direction == Direction::Forward {
            self.turn(Direction::Backward);
        }
        let Some(index) = self.current else { return };
        self.sources[index as usize].prev();
        self.settle(index);
    }
    // A cursor asks for the key of each entry: as calls these are 3 % of a step.
    #[inline(always)]
    fn key(&self) -> InternalKey<'_> {
        self.sources[self.current.expect("key() requires valid()") as usize].key()
    }
    #[inline]
    fn value(&self) -> &[u8] {
        self.sources[self.current.expect("value() requires valid()") as usize].value()
    }
    fn status(&self) -> Result<()> {
        self.status.clone()
    }
}
