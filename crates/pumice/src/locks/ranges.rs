//! Locks of ranges of keys in a column family, each for one holder alone.
//!
//! Held ranges are disjoint: those of one holder that meet are one. A range is first claimed:
//! nobody gets a key in it any more; then the table looks whether others hold keys in it. If they
//! do, the claim is taken back until they are through, so that they can go on in the range
//! meanwhile.
//!
//! Thread safety: from any task; waiting suspends. A task that is about to get a key looks here
//! under its stripe's mutex, and a claim is made before the stripes are searched, so one of the two
//! sees the other. Invariants: (1) `held` is in order, and no two of its ranges overlap; (2) a
//! claim overlaps no range and no claim of another holder; (3) whenever ranges go, or a
//! claim becomes one, all waiters look again. Lock order: a stripe, then the ranges, then the
//! waits.

use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Access};

use pumice_base::key::UserKey;
use pumice_base::{Comparator, Result};
use pumice_port::sync::{Condvar, Mutex};

use crate::lock_order;
use crate::locks::holder::Holder;
use crate::locks::pause::{Blocked, Pause, blocked_by};

/// A range of keys that somebody wants, of one column family: from `start` to before `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRange<'a> {
    pub start: &'a [u8],
    pub end: &'a [u8],
}

impl KeyRange<'_> {
    pub fn contains(&self, order: &Comparator, key: &[u8]) -> bool {
        compare(order, self.start, key) != Greater && compare(order, key, self.end) == Less
    }
}

/// What becomes of a claim.
pub(super) enum Claim {
    /// The asker holds the whole range already.
    Held,
    Made,
    Blocked,
}

/// See the head of this file.
pub(super) struct RangeLocks {
    /// Ranges and claims. Written under the mutex; a task that holds a stripe's sees all claims
    /// that were made before the stripe was searched for them.
    count: AtomicUsize,
    ranges: Mutex<Ranges>,
}

#[derive(Default)]
struct Ranges {
    /// The order of the keys, known since the first claim.
    order: Comparator,
    held: Vec<Range>,
    claims: Vec<Range>,
    waiters: Vec<Arc<Condvar>>,
}

struct Range {
    start: Box<[u8]>,
    end: Box<[u8]>,
    holder: Arc<Holder>,
}

/// A range that is held.
pub(super) struct HeldRange {
    pub start: Vec<u8>,
    pub end: Vec<u8>,
    pub holder: u64,
}

/// A key, or the keys from one to before another.
type Keys<'a> = (&'a [u8], Option<&'a [u8]>);

fn compare(order: &Comparator, a: &[u8], b: &[u8]) -> Ordering {
    order.compare_without_timestamp(UserKey::new(a), UserKey::new(b))
}

impl Ranges {
    fn overlaps(&self, range: &Range, (start, end): Keys<'_>) -> bool {
        compare(&self.order, start, &range.end) == Less
            && match end {
                Some(end) => compare(&self.order, &range.start, end) == Less,
                None => compare(&self.order, &range.start, start) != Greater,
            }
    }

    /// Those that are in the way of `id`; ranges of expired holders are taken from them instead.
    fn in_the_way(&mut self, id: u64, keys: Keys<'_>, now: u64) -> Option<Blocked> {
        let mut others: Vec<Arc<Holder>> = Vec::new();
        for range in self.held.iter().chain(&self.claims) {
            let known = || others.iter().any(|other| other.id() == range.holder.id());
            if range.holder.id() != id && self.overlaps(range, keys) && !known() {
                others.push(Arc::clone(&range.holder));
            }
        }
        if others.is_empty() {
            return None;
        }
        let Some(mut blocked) = blocked_by(&others, id, now) else {
            self.remove(|range| others.iter().any(|other| other.id() == range.holder.id()));
            return None;
        };
        // A claim is soon kept or taken back, so who waits for it alone waits for nobody.
        let holds = |range: &Range, by| range.holder.id() == by && self.overlaps(range, keys);
        blocked.by.retain(|by| self.held.iter().any(|range| holds(range, *by)));
        Some(blocked)
    }

    /// Removes ranges and claims; those who wait look again.
    fn remove(&mut self, gone: impl Fn(&Range) -> bool) {
        self.held.retain(|range| !gone(range));
        self.claims.retain(|range| !gone(range));
        self.waiters.iter().for_each(|waiter| waiter.notify_all());
    }

    /// Adds a range that overlaps nobody else's, and makes one range of those of its holder that it
    /// meets.
    fn add(&mut self, mut new: Range) {
        let Ranges { order, held, .. } = self;
        let first = held.partition_point(|range| compare(order, &range.end, &new.start) == Less);
        let meets = |range: &Range, new: &Range| {
            range.holder.id() == new.holder.id()
                && compare(order, &new.start, &range.end) != Greater
                && compare(order, &range.start, &new.end) != Greater
        };
        // A neighbour that only touches it may be another holder's.
        let first = first
            + usize::from(held.get(first).is_some_and(|range| {
                !meets(range, &new) && compare(order, &range.end, &new.start) == Equal
            }));
        let met = held[first..].iter().take_while(|range| meets(range, &new)).count();
        for range in held.drain(first..first + met) {
            if compare(order, &range.start, &new.start) == Less {
                new.start = range.start;
            }
            if compare(order, &range.end, &new.end) == Greater {
                new.end = range.end;
            }
        }
        held.insert(first, new);
    }

    fn contains(&self, id: u64, range: &KeyRange<'_>) -> bool {
        let covers = |held: &Range| {
            held.holder.id() == id
                && compare(&self.order, &held.start, range.start) != Greater
                && compare(&self.order, range.end, &held.end) != Greater
        };
        self.held.iter().any(covers)
    }
}

impl RangeLocks {
    pub fn new() -> Self {
        let ranges = Mutex::ranked(&lock_order::KEY_RANGES, Ranges::default());
        RangeLocks { count: AtomicUsize::new(0), ranges }
    }

    /// How many ranges and claims there are, as far as the holder of a stripe's mutex is concerned.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Access::Acquire)
    }

    fn recount(&self, ranges: &Ranges) {
        self.count.store(ranges.held.len() + ranges.claims.len(), Access::Release);
    }

    /// Who is in the way of a key.
    #[cold]
    pub fn in_the_way(&self, id: u64, key: &[u8], now: u64) -> Option<Blocked> {
        let mut ranges = self.ranges.lock();
        let blocked = ranges.in_the_way(id, (key, None), now);
        self.recount(&ranges);
        blocked.map(|blocked| Blocked { by_range: true, ..blocked })
    }

    /// Claims a range, unless another one's is in the way.
    pub fn claim(
        &self,
        asker: &Arc<Holder>,
        order: &Comparator,
        range: &KeyRange<'_>,
        now: u64,
    ) -> Claim {
        let mut ranges = self.ranges.lock();
        if ranges.held.is_empty() && ranges.claims.is_empty() {
            ranges.order = order.clone();
        }
        if ranges.contains(asker.id(), range) {
            return Claim::Held;
        }
        let blocked = ranges.in_the_way(asker.id(), (range.start, Some(range.end)), now);
        if blocked.is_none() {
            let holder = Arc::clone(asker);
            ranges.claims.push(Range { start: range.start.into(), end: range.end.into(), holder });
        }
        self.recount(&ranges);
        if blocked.is_some() { Claim::Blocked } else { Claim::Made }
    }

    /// Takes the claim of `id` back; those who wait look again.
    pub fn withdraw(&self, id: u64) {
        let mut ranges = self.ranges.lock();
        ranges.claims.retain(|claim| claim.holder.id() != id);
        self.recount(&ranges);
        ranges.waiters.iter().for_each(|waiter| waiter.notify_all());
    }

    /// Makes the claim of `id` its range, unless it expired and was taken from it.
    pub fn keep(&self, id: u64) {
        let mut ranges = self.ranges.lock();
        if let Some(at) = ranges.claims.iter().position(|claim| claim.holder.id() == id) {
            let claim = ranges.claims.swap_remove(at);
            ranges.add(claim);
            // Those who met the claim wait for a holder now.
            ranges.waiters.iter().for_each(|waiter| waiter.notify_all());
        }
        self.recount(&ranges);
    }

    /// Releases all ranges of `id`.
    pub fn release(&self, id: u64) {
        let mut ranges = self.ranges.lock();
        ranges.remove(|range| range.holder.id() == id);
        self.recount(&ranges);
    }

    /// Waits until ranges go, if one is still in the way. Suspends.
    ///
    /// # Errors
    /// As [`Pause::pause`].
    pub fn wait(&self, pause: &Pause<'_>, keys: Keys<'_>, now: u64) -> Result<()> {
        let mut ranges = self.ranges.lock();
        let blocked = ranges.in_the_way(pause.id(), keys, now);
        self.recount(&ranges);
        let Some(blocked) = blocked else { return Ok(()) };
        let woken = Arc::new(Condvar::new());
        ranges.waiters.push(Arc::clone(&woken));
        let (mut ranges, result) = pause.pause(ranges, &woken, &blocked);
        ranges.waiters.retain(|waiter| !Arc::ptr_eq(waiter, &woken));
        result
    }

    /// The ranges that are held, in their order.
    pub fn held(&self) -> Vec<HeldRange> {
        let ranges = self.ranges.lock();
        let held = ranges.held.iter().map(|range| HeldRange {
            start: range.start.to_vec(),
            end: range.end.to_vec(),
            holder: range.holder.id(),
        });
        held.collect()
    }
}
