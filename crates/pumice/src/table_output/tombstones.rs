//! Range tombstones in flush and compaction: gathering them, and giving each output its share.
//!
//! Pure functions.

use std::sync::Arc;

use pumice_base::range_tombstone::{FragmentedTombstones, RangeTombstone};
use pumice_base::{Comparator, SequenceNumber, UserKey};
use pumice_memtable::MemTable;

use crate::table_output::compaction_iterator::TimeBounds;

/// All tombstones of `mems` as one list; None if there are none.
pub(crate) fn of_memtables(
    mems: &[Arc<MemTable>],
    comparator: &Comparator,
) -> Option<Arc<FragmentedTombstones>> {
    let lists: Vec<_> = mems.iter().filter_map(|mem| mem.range_tombstones()).collect();
    let mut all = Vec::new();
    for list in &lists {
        all.extend(list.tombstones());
    }
    (!all.is_empty()).then(|| Arc::new(FragmentedTombstones::build(all, comparator)))
}

/// The part of `list` in `[low, high)` that must survive a compaction, and how many pieces are no
/// longer needed.
///
/// Of tombstones in one stripe only the newest matters; at the bottommost level those that every
/// snapshot sees are no longer needed. Of those with timestamps this goes for the ones below the
/// low of the history, by `times`.
pub(crate) fn surviving(
    list: &FragmentedTombstones,
    comparator: &Comparator,
    (low, high): (Option<UserKey<'_>>, Option<UserKey<'_>>),
    snapshots: &[SequenceNumber],
    times: &TimeBounds,
    bottommost: bool,
) -> (Vec<RangeTombstone>, u64) {
    let earliest = snapshots.first().copied().unwrap_or(SequenceNumber::MAX);
    let (mut out, mut done) = (Vec::new(), 0);
    let [low, high] = [low, high].map(|key| key.map(|key| edge(comparator, key)));
    let [low, high] = [&low, &high].map(|key| key.as_deref().map(UserKey::new));
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
        for (seq, time) in fragment.tombstones() {
            if times.trims_time(comparator, time) {
                done += 1;
                continue;
            }
            let one = || RangeTombstone {
                start: start.as_bytes().to_vec(),
                end: end.as_bytes().to_vec(),
                seq,
                time: time.to_vec(),
            };
            if !time.is_empty() && !times.is_history_time(comparator, time) {
                out.push(one());
                continue;
            }
            let stripe = snapshots.partition_point(|&s| s < seq);
            if last_stripe == Some(stripe) {
                continue;
            }
            last_stripe = Some(stripe);
            if bottommost && seq <= earliest {
                done += 1;
            } else {
                out.push(one());
            }
        }
    }
    (out, done)
}

/// Where the tombstones of one file end and those of the next begin, between any two user keys.
fn edge(comparator: &Comparator, key: UserKey<'_>) -> Vec<u8> {
    comparator.at_newest(comparator.without_timestamp(key).as_bytes())
}
