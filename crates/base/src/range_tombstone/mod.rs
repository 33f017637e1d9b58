//! Range tombstones cut into disjoint fragments, so that one binary search answers "which
//! tombstone covers this key at this sequence".
//!
//! ```text
//! tombstones   [a ........ e)@9      fragments  [a,c) 9
//!                   [c .......... g)@4          [c,e) 9 4
//!                                               [e,g) 4
//! ```
//!
//! Thread safety: [`FragmentedTombstones`] is immutable. Invariants: (1) fragments are sorted,
//! non-empty and disjoint under the comparator they were built with, which every call must pass
//! again; (2) a fragment's sequences are descending, distinct and at least one, or pairs of
//! sequence and timestamp are distinct; (3) two fragments that touch have different sequences or
//! timestamps; (4) if keys have timestamps, the ends of tombstones and fragments have the newest
//! there can be: so a key is inside or not, at whatever time. Building costs O(n log n) plus the
//! size of the result, which is quadratic only for deeply nested tombstones of different sequences.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::key::{Comparator, SequenceNumber, UserKey};
use crate::order;

/// One `delete_range(start, end)`: hides older entries of the keys in `[start, end)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First user key that is deleted.
    pub start: Vec<u8>,
    /// First user key after `start` that is not.
    pub end: Vec<u8>,
    /// When the deletion was written.
    pub seq: SequenceNumber,
    /// Its timestamp; empty if keys have none.
    pub time: Vec<u8>,
}

impl RangeTombstone {
    /// A deletion of `[start, end)`, keys as they are stored: with its timestamp, if they have any.
    pub fn of_stored(
        cmp: &Comparator,
        start: UserKey<'_>,
        end: UserKey<'_>,
        seq: SequenceNumber,
    ) -> Self {
        let whole = |key| cmp.at_newest(cmp.without_timestamp(key).as_bytes());
        let time = cmp.timestamp_of(start).to_vec();
        RangeTombstone { start: whole(start), end: whole(end), seq, time }
    }

    /// The start as it is stored.
    pub fn stored_start(&self) -> Vec<u8> {
        self.at_time(&self.start)
    }
    /// The end as it is stored.
    pub fn stored_end(&self) -> Vec<u8> {
        self.at_time(&self.end)
    }
    fn at_time(&self, key: &[u8]) -> Vec<u8> {
        let bare = key.len().saturating_sub(self.time.len());
        [&key[..bare], &self.time].concat()
    }

    /// First user key that is deleted.
    #[inline]
    pub fn start(&self) -> UserKey<'_> {
        UserKey::new(&self.start)
    }
    /// First user key after it that is not.
    #[inline]
    pub fn end(&self) -> UserKey<'_> {
        UserKey::new(&self.end)
    }
}

/// A key range over which the same tombstones apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// First user key of the range.
    pub start: Vec<u8>,
    /// First user key after it.
    pub end: Vec<u8>,
    /// Sequences of the tombstones over it, newest first, without repetition.
    pub seqs: Vec<SequenceNumber>,
    /// Their timestamps; empty if keys have none.
    pub times: Vec<Vec<u8>>,
}

impl Fragment {
    /// First user key of the range.
    #[inline]
    pub fn start(&self) -> UserKey<'_> {
        UserKey::new(&self.start)
    }
    /// First user key after it.
    #[inline]
    pub fn end(&self) -> UserKey<'_> {
        UserKey::new(&self.end)
    }
    /// The sequence and the timestamp of each tombstone over it, newest first.
    pub fn tombstones(&self) -> impl Iterator<Item = (SequenceNumber, &[u8])> {
        let time = |n| self.times.get(n).map_or(&[][..], Vec::as_slice);
        self.seqs.iter().enumerate().map(move |(n, &seq)| (seq, time(n)))
    }

    /// The newest sequence at or below `upper` of a tombstone whose timestamp is `wanted`; 0 if
    /// there is none.
    #[cold]
    fn newest_of(&self, upper: SequenceNumber, wanted: impl Fn(&[u8]) -> bool) -> SequenceNumber {
        let seen = |(seq, time): &(SequenceNumber, &[u8])| *seq <= upper && wanted(time);
        self.tombstones().find(seen).map_or(0, |(seq, _)| seq)
    }

    /// The newest sequence at or below `upper`; 0 if there is none.
    #[inline]
    pub fn newest_at(&self, upper: SequenceNumber) -> SequenceNumber {
        // Nearly every fragment has one sequence, and nearly every reader sees the newest.
        match self.seqs.first() {
            Some(&newest) if newest <= upper => newest,
            _ => {
                let at = self.seqs.partition_point(|&seq| seq > upper);
                self.seqs.get(at).copied().unwrap_or(0)
            }
        }
    }
}

/// The fragments of a set of tombstones.
#[derive(Clone, Debug, Default)]
pub struct FragmentedTombstones {
    fragments: Vec<Fragment>,
    tombstones: usize,
}

/// Where a tombstone begins or ends in the sweep.
struct Edge<'a> {
    key: UserKey<'a>,
    which: (Reverse<SequenceNumber>, &'a [u8]),
    begins: bool,
}

impl FragmentedTombstones {
    /// No tombstones.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Fragments `tombstones`, which may overlap, nest and repeat in any order. Those whose end is
    /// not after their start delete nothing and are dropped.
    pub fn build(tombstones: Vec<RangeTombstone>, cmp: &Comparator) -> Self {
        Self::build_within(tombstones, cmp, usize::MAX).unwrap_or_default()
    }

    /// As [`Self::build`]; `None` if the sequences of all fragments would be more than `seqs_max`,
    /// for untrusted tombstones. No more are processed, either.
    pub fn build_within(
        mut tombstones: Vec<RangeTombstone>,
        cmp: &Comparator,
        seqs_max: usize,
    ) -> Option<Self> {
        tombstones.retain(|t| cmp.compare(t.start(), t.end()) == Ordering::Less);
        let count = tombstones.len();
        order::sort_by(&mut tombstones, |a, b| cmp.compare(a.start(), b.start()));
        let disjoint = tombstones
            .windows(2)
            .all(|pair| cmp.compare(pair[0].end(), pair[1].start()) == Ordering::Less);
        let fragments = if disjoint {
            tombstones.into_iter().map(whole).collect()
        } else {
            sweep(&tombstones, cmp, seqs_max)?
        };
        Some(FragmentedTombstones { fragments, tombstones: count })
    }

    /// There is no tombstone.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }
    /// The fragments in key order.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }
    /// Number of non-empty tombstones that were fragmented.
    pub fn num_tombstones(&self) -> usize {
        self.tombstones
    }

    /// All fragments as tombstones, one for each sequence and timestamp.
    pub fn tombstones(&self) -> impl Iterator<Item = RangeTombstone> {
        self.fragments.iter().flat_map(|fragment| {
            fragment.tombstones().map(|(seq, time)| {
                let (start, end) = (fragment.start.clone(), fragment.end.clone());
                RangeTombstone { start, end, seq, time: time.to_vec() }
            })
        })
    }

    /// Index of the first fragment that ends after `user_key`: the one that covers it, else the
    /// next one; the number of fragments if there is none.
    #[inline]
    pub fn first_ending_after(&self, cmp: &Comparator, user_key: UserKey<'_>) -> usize {
        self.fragments.partition_point(|f| cmp.compare(f.end(), user_key) != Ordering::Greater)
    }

    /// The fragment that covers `user_key`.
    #[inline]
    pub fn covering(&self, cmp: &Comparator, user_key: UserKey<'_>) -> Option<&Fragment> {
        let fragment = self.fragments.get(self.first_ending_after(cmp, user_key))?;
        (cmp.compare(fragment.start(), user_key) != Ordering::Greater).then_some(fragment)
    }

    /// The newest sequence at or below `upper` of a tombstone over `user_key`; 0 if there is none.
    /// An entry of that key is deleted if its own sequence is lower than the result. The timestamp
    /// of `user_key` is a reader's: newer tombstones are not seen.
    #[inline]
    pub fn max_covering_seq(
        &self,
        cmp: &Comparator,
        user_key: UserKey<'_>,
        upper: SequenceNumber,
    ) -> SequenceNumber {
        if self.is_empty() {
            return 0;
        }
        let Some(fragment) = self.covering(cmp, user_key) else { return 0 };
        if fragment.times.is_empty() {
            return fragment.newest_at(upper);
        }
        let now = cmp.timestamp_of(user_key);
        fragment.newest_of(upper, |time| cmp.compare_timestamp(time, now).is_le())
    }

    /// As `max_covering_seq`, of the tombstones whose timestamps are `wanted`, whatever the key's.
    pub fn max_covering_seq_of(
        &self,
        cmp: &Comparator,
        user_key: UserKey<'_>,
        upper: SequenceNumber,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> SequenceNumber {
        self.covering(cmp, user_key).map_or(0, |fragment| fragment.newest_of(upper, wanted))
    }

    /// Heap bytes held, for accounting.
    pub fn memory_bytes(&self) -> usize {
        let times =
            |f: &Fragment| f.times.iter().map(|t| t.capacity() + size_of::<Vec<u8>>()).sum();
        let one = |f: &Fragment| {
            let times: usize = times(f);
            f.start.capacity() + f.end.capacity() + 8 * f.seqs.capacity() + times
        };
        self.fragments.capacity() * size_of::<Fragment>()
            + self.fragments.iter().map(one).sum::<usize>()
    }
}

/// A tombstone that overlaps no other.
fn whole(tombstone: RangeTombstone) -> Fragment {
    let RangeTombstone { start, end, seq, time } = tombstone;
    let times = if time.is_empty() { Vec::new() } else { vec![time] };
    Fragment { start, end, seqs: vec![seq], times }
}

/// The tombstones that are open, newest first: how many of each sequence and timestamp.
type Open<'a> = BTreeMap<(Reverse<SequenceNumber>, &'a [u8]), usize>;

/// Walks all starts and ends in key order and emits a fragment between neighbours whenever some
/// tombstone is open there. `None` if that takes more than `seqs_max` sequences.
fn sweep(
    tombstones: &[RangeTombstone],
    cmp: &Comparator,
    mut seqs_max: usize,
) -> Option<Vec<Fragment>> {
    let mut edges: Vec<Edge<'_>> = Vec::with_capacity(2 * tombstones.len());
    for t in tombstones {
        let which = (Reverse(t.seq), &t.time[..]);
        edges.push(Edge { key: t.start(), which, begins: true });
        edges.push(Edge { key: t.end(), which, begins: false });
    }
    order::sort_by(&mut edges, |a, b| cmp.compare(a.key, b.key));
    let mut open = Open::new();
    let mut fragments: Vec<Fragment> = Vec::new();
    let mut previous = UserKey::new(&[]);
    for edge in &edges {
        if !open.is_empty() && cmp.compare(previous, edge.key) == Ordering::Less {
            // Those of a fragment that is only lengthened count too: they are compared.
            seqs_max = seqs_max.checked_sub(open.len())?;
            emit(&mut fragments, previous, edge.key, &open);
        }
        previous = edge.key;
        if edge.begins {
            *open.entry(edge.which).or_default() += 1;
        } else if let Some(count) = open.get_mut(&edge.which) {
            *count -= 1;
            if *count == 0 {
                open.remove(&edge.which);
            }
        }
    }
    debug_assert!(open.is_empty(), "every tombstone ends after it starts");
    Some(fragments)
}

/// Appends `[start, end)`, or lengthens the last fragment if that keeps invariant 3.
fn emit(fragments: &mut Vec<Fragment>, start: UserKey<'_>, end: UserKey<'_>, open: &Open<'_>) {
    let seqs = open.keys().map(|(Reverse(seq), _)| *seq);
    let times = open.keys().map(|(_, time)| *time).filter(|time| !time.is_empty());
    if let Some(last) = fragments.last_mut()
        && last.end == start.as_bytes()
        && last.seqs.iter().copied().eq(seqs.clone())
        && last.times.iter().map(Vec::as_slice).eq(times.clone())
    {
        last.end = end.to_vec();
        return;
    }
    let times = times.map(<[u8]>::to_vec).collect();
    let (start, end) = (start.to_vec(), end.to_vec());
    fragments.push(Fragment { start, end, seqs: seqs.collect(), times });
}

#[cfg(test)]
mod tests;
