//! Range tombstones in flush and compaction: gathering them, and giving each output its share.
//!
//! Pure functions.

use std::sync::Arc;

use pumice_base::range_tombstone::{FragmentedTombstones, RangeTombstone};
use pumice_base::{Comparator, SequenceNumber, UserKey};
use pumice_memtable::MemTable;

/// All tombstones of `mems` as one list; None if there are none.
pub(crate) fn of_memtables(
    mems: &[Arc<MemTable>],
    comparator: &Comparator,
) -> Option<Arc<FragmentedTombstones>> {
    let lists: Vec<_> = mems.iter().filter_map(|mem| mem.range_tombstones()).collect();
    let mut all = Vec::new();
    for list in &lists {
        flatten(list, &mut all);
    }
    (!all.is_empty()).then(|| Arc::new(FragmentedTombstones::build(all, comparator)))
}

/// Appends the tombstones of a list one by one.
pub(crate) fn flatten(list: &FragmentedTombstones, out: &mut Vec<RangeTombstone>) {
    for fragment in list.fragments() {
        for &seq in &fragment.seqs {
            out.push(RangeTombstone {
                start: fragment.start.clone(),
                end: fragment.end.clone(),
                seq,
            });
        }
    }
}

/// The part of `list` in `[low, high)` that must survive a compaction, and how many pieces are no
/// longer needed.
///
/// Of tombstones in one stripe only the newest matters; at the bottommost level those that every
/// snapshot sees are no longer needed.
pub(crate) fn surviving(
    list: &FragmentedTombstones,
    comparator: &Comparator,
    low: Option<UserKey<'_>>,
    high: Option<UserKey<'_>>,
    snapshots: &[SequenceNumber],
    bottommost: bool,
) -> (Vec<RangeTombstone>, u64) {
    let earliest = snapshots.first().copied().unwrap_or(SequenceNumber::MAX);
    let (mut out, mut done) = (Vec::new(), 0);
    for fragment in list.fragments() {
        let mut start = fragment.start();
        let mut end = fragment.end();
        if let Some(low) = low
            && comparator.compare(start, low).is_lt()
        {
            start = low;
        }
        if let Some(high) = high
            && comparator.compare(end, high).is_gt()
        {
            end = high;
        }
        if comparator.compare(start, end).is_ge() {
            continue;
        }
        let mut last_stripe = None;
        for &seq in &fragment.seqs {
            let stripe = snapshots.partition_point(|&s| s < seq);
            if last_stripe == Some(stripe) {
                continue;
            }
            last_stripe = Some(stripe);
            if bottommost && seq <= earliest {
                done += 1;
            } else {
                out.push(RangeTombstone { start: start.to_vec(), end: end.to_vec(), seq });
            }
        }
    }
    (out, done)
}
