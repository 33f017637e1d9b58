//! Who waits for whom: a graph, the search for a circle in it, and the last circles found.
//!
//! Only waiters that asked for it are in the graph. The search goes breadth first from the holders
//! that the new waiter waits for, over at most as many of them as it allows; a search that is not
//! over by then counts as a deadlock, as in RocksDB. The one who asked last gives way.
//!
//! Thread safety: plain data under the table's lock. Pure: the caller gives the time.

use std::collections::{BTreeMap, VecDeque};

/// A wait for a lock.
///
/// Example: that of [`HeldLock`](crate::HeldLock).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The transaction that waits.
    pub id: u64,
    /// Those that it waits for.
    pub holders: Vec<u64>,
    /// Column family of the key.
    pub column_family: u32,
    /// The key, or the first one of a range.
    pub key: Vec<u8>,
    /// It wants the range from `key` to before this one.
    pub end: Option<Vec<u8>>,
    /// It wants the key for itself alone.
    pub exclusive: bool,
}

/// A circle of transactions that wait for each other.
///
/// Example: that of [`HeldLock`](crate::HeldLock).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadlockPath {
    /// Each waits for the next one, the last for the first. Empty with `limit_exceeded`.
    pub waits: Vec<Wait>,
    /// The search was given up: it had visited as many transactions as it may.
    pub limit_exceeded: bool,
    /// Wall clock in seconds since 1970.
    pub time_seconds: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Waits {
    waiting: BTreeMap<u64, Wait>,
    /// How many wait for each.
    wanted: BTreeMap<u64, u32>,
    found: VecDeque<DeadlockPath>,
    found_max: usize,
}

impl Waits {
    pub fn new(found_max: usize) -> Self {
        Waits {
            waiting: BTreeMap::new(),
            wanted: BTreeMap::new(),
            found: VecDeque::new(),
            found_max,
        }
    }

    /// `wait` begins, until [`Waits::end`]; false, and it does not begin, if it would be part of a
    /// deadlock as far as a search of `depth` transactions shows. That is remembered.
    pub fn begin(&mut self, wait: Wait, depth: usize, time_seconds: u64) -> bool {
        let id = wait.id;
        for holder in &wait.holders {
            *self.wanted.entry(*holder).or_default() += 1;
        }
        self.waiting.insert(id, wait);
        let circle = match self.wanted.contains_key(&id) {
            true => self.circle(id, depth),
            false => None,
        };
        let Some(mut circle) = circle else { return true };
        circle.time_seconds = time_seconds;
        self.end(id);
        self.found.push_back(circle);
        while self.found.len() > self.found_max {
            self.found.pop_front();
        }
        false
    }

    /// The wait of `id` is over, if there was one.
    pub fn end(&mut self, id: u64) {
        let Some(wait) = self.waiting.remove(&id) else { return };
        for holder in wait.holders {
            if let Some(count) = self.wanted.get_mut(&holder) {
                *count -= 1;
                if *count == 0 {
                    self.wanted.remove(&holder);
                }
            }
        }
    }

    /// The way from `id` back to itself.
    fn circle(&self, id: u64, depth: usize) -> Option<DeadlockPath> {
        // Each visited transaction, with the place of the one that waits for it.
        let mut visited: Vec<(u64, Option<usize>)> = Vec::new();
        let holders = |of: u64| self.waiting.get(&of).map_or(&[][..], |wait| &wait.holders);
        visited.extend(holders(id).iter().map(|holder| (*holder, None)));
        for next in 0..depth {
            let &(at, _) = visited.get(next)?;
            if at == id {
                return Some(self.path(&visited, next));
            }
            let more = depth.saturating_sub(visited.len());
            visited.extend(holders(at).iter().take(more).map(|holder| (*holder, Some(next))));
        }
        Some(DeadlockPath { limit_exceeded: true, ..DeadlockPath::default() })
    }

    /// The waits on the way to the visited transaction at `end`.
    fn path(&self, visited: &[(u64, Option<usize>)], end: usize) -> DeadlockPath {
        let mut waits = Vec::new();
        let mut at = Some(end);
        while let Some((id, parent)) = at.and_then(|at| visited.get(at)) {
            waits.extend(self.waiting.get(id).cloned());
            at = *parent;
        }
        waits.reverse();
        DeadlockPath { waits, ..DeadlockPath::default() }
    }

    /// The last deadlocks, the oldest first.
    pub fn deadlocks(&self) -> Vec<DeadlockPath> {
        self.found.iter().cloned().collect()
    }

    /// Keeps at most `found_max` deadlocks from now on, the newest.
    pub fn keep_at_most(&mut self, found_max: usize) {
        self.found_max = found_max;
        while self.found.len() > found_max {
            self.found.pop_front();
        }
    }

    /// All waits, by transaction.
    pub fn waiting(&self) -> impl Iterator<Item = &Wait> {
        self.waiting.values()
    }
}
