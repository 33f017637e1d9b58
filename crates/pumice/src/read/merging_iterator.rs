//! Merges sorted sources into one stream of internal keys.
//!
//! Each source caches the first 8 bytes of its user key as a big-endian integer, so that under
//! the bytewise comparator most comparisons are one integer comparison. The winner stays outside
//! the heap and is compared only with the heap's top after it moves ("champion retention"):
//! long runs from one source cost one comparison a key, and a single source costs none.
//!
//! Thread safety: one owner at a time (`Send`).
//! Invariants: (1) `heap` holds every valid source but `current`, smallest first when moving
//! forward, largest first when moving backward; (2) ties cannot occur: no two sources hold the
//! same internal key (sequence numbers are unique within a column family).
//! It does not hide anything: versions and tombstones come out as stored.

use pumice_base::narrow::len_u32;
use std::cmp::Ordering;

use pumice_base::dbformat::user_key;
use pumice_base::planted::{self, Bug};
use pumice_base::{InternalIterator, InternalKeyComparator, Result};
use pumice_env::perf::{self, PerfMetric};

struct Source<I> {
    iter: I,
    prefix: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// See the module head.
pub struct MergingIterator<I> {
    comparator: InternalKeyComparator,
    bytewise: bool,
    sources: Vec<Source<I>>,
    heap: Vec<u32>,
    current: Option<u32>,
    direction: Direction,
    status: Result<()>,
}

/// The first 8 bytes of a user key, zero-padded, as an integer that orders like the bytes.
#[inline]
pub(crate) fn key_prefix(user_key: &[u8]) -> u64 {
    match user_key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0u8; 8];
            head[..user_key.len()].copy_from_slice(user_key);
            u64::from_be_bytes(head)
        }
    }
}

impl<I: InternalIterator> MergingIterator<I> {
    /// Merges `sources`; position it with a seek before use.
    pub fn new(comparator: InternalKeyComparator, sources: Vec<I>) -> Self {
        let bytewise = comparator.user.is_bytewise();
        let heap = Vec::with_capacity(sources.len());
        let sources = sources.into_iter().map(|iter| Source { iter, prefix: 0 }).collect();
        MergingIterator {
            comparator,
            bytewise,
            sources,
            heap,
            current: None,
            direction: Direction::Forward,
            status: Ok(()),
        }
    }

    /// The sources, for settings that do not move them.
    pub fn sources_mut(&mut self) -> impl Iterator<Item = &mut I> {
        self.sources.iter_mut().map(|source| &mut source.iter)
    }

    /// The source that the iterator stands on.
    pub fn current_source(&self) -> Option<&I> {
        self.current.map(|index| &self.sources[index as usize].iter)
    }

    /// Source `a` comes out before source `b` in the present direction.
    #[inline]
    fn before(&self, a: u32, b: u32) -> bool {
        let (x, y) = (&self.sources[a as usize], &self.sources[b as usize]);
        let order = match x.prefix.cmp(&y.prefix) {
            Ordering::Equal => self.comparator.compare(x.iter.key(), y.iter.key()),
            other => other,
        };
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    /// Re-reads source `index` after it moved; true if it is valid. Keeps its error.
    #[inline]
    fn refresh(&mut self, index: u32) -> bool {
        let source = &mut self.sources[index as usize];
        if source.iter.valid() {
            if self.bytewise {
                source.prefix = key_prefix(user_key(source.iter.key()));
            }
            return true;
        }
        if self.status.is_ok() && !planted::is(Bug::ScanIgnoresReadError) {
            self.status = source.iter.status();
        }
        false
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

    /// Rebuilds heap and current from where the sources stand.
    fn rebuild(&mut self, direction: Direction) {
        self.direction = direction;
        self.heap.clear();
        for index in 0..len_u32(self.sources.len()) {
            if self.refresh(index) {
                self.heap.push(index);
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
        self.current = Some(self.heap.swap_remove(0));
        self.sift_down(0);
    }

    /// Restores invariant 1 after the current source moved one step.
    #[inline]
    fn settle(&mut self, index: u32) {
        if !self.refresh(index) {
            self.pop_current();
            return;
        }
        if let Some(&top) = self.heap.first()
            && self.before(top, index)
        {
            self.heap[0] = index;
            self.current = Some(top);
            self.sift_down(0);
        }
    }

    fn seek_all(&mut self, direction: Direction, mut seek: impl FnMut(&mut I)) {
        self.status = Ok(());
        let time = perf::time(PerfMetric::SeekChildSeekTime);
        for source in &mut self.sources {
            seek(&mut source.iter);
        }
        perf::count(PerfMetric::SeekChildSeekCount, self.sources.len() as u64);
        drop(time);
        let _time = perf::time(match direction {
            Direction::Forward => PerfMetric::SeekMinHeapTime,
            Direction::Backward => PerfMetric::SeekMaxHeapTime,
        });
        self.rebuild(direction);
    }

    /// Turns round: puts every other source on the far side of the current key.
    fn turn(&mut self, direction: Direction) {
        let Some(current) = self.current else { return };
        let key = self.sources[current as usize].iter.key().to_vec();
        for (index, source) in self.sources.iter_mut().enumerate() {
            if index == current as usize {
                continue;
            }
            match direction {
                Direction::Forward => source.iter.seek(&key),
                Direction::Backward => source.iter.seek_for_prev(&key),
            }
        }
        self.direction = direction;
        self.heap.clear();
        for index in 0..len_u32(self.sources.len()) {
            if index != current && self.refresh(index) {
                self.heap.push(index);
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

impl<I: InternalIterator> InternalIterator for MergingIterator<I> {
    #[inline]
    fn valid(&self) -> bool {
        self.current.is_some()
    }
    fn seek_to_first(&mut self) {
        self.seek_all(Direction::Forward, I::seek_to_first);
    }
    fn seek_to_last(&mut self) {
        self.seek_all(Direction::Backward, I::seek_to_last);
    }
    fn seek(&mut self, target: &[u8]) {
        self.seek_all(Direction::Forward, |iter| iter.seek(target));
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.seek_all(Direction::Backward, |iter| iter.seek_for_prev(target));
    }
    #[inline]
    fn next(&mut self) {
        if self.direction == Direction::Backward {
            self.turn(Direction::Forward);
        }
        let Some(index) = self.current else { return };
        self.sources[index as usize].iter.next();
        self.settle(index);
    }
    #[inline]
    fn prev(&mut self) {
        if self.direction == Direction::Forward {
            self.turn(Direction::Backward);
        }
        let Some(index) = self.current else { return };
        self.sources[index as usize].iter.prev();
        self.settle(index);
    }
    #[inline]
    fn key(&self) -> &[u8] {
        self.sources[self.current.expect("key() requires valid()") as usize].iter.key()
    }
    #[inline]
    fn value(&self) -> &[u8] {
        self.sources[self.current.expect("value() requires valid()") as usize].iter.value()
    }
    fn status(&self) -> Result<()> {
        self.status.clone()
    }
}
