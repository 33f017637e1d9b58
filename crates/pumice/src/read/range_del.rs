//! Range tombstones as reads see them.
//!
//! A tombstone hides every older entry in its range, whatever level either is on, so the lists of
//! all sources are simply asked in turn. Tombstones of table files count only inside the file's
//! boundaries (format spec section 2.8): keys outside were split off by compaction, and entries
//! there may have had their sequence zeroed.
//!
//! Thread safety: immutable.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::dbformat::{MAX_SEQUENCE, sequence_and_type, user_key};
use pumice_base::range_tombstone::{FragmentedTombstones, RangeTombstone};
use pumice_base::{Comparator, SequenceNumber, ValueType};

/// The tombstones visible to one read.
#[derive(Clone, Default)]
pub struct RangeDels {
    lists: Vec<Arc<FragmentedTombstones>>,
    sequence: SequenceNumber,
}

impl RangeDels {
    /// Tombstones at or below `sequence`.
    pub fn new(sequence: SequenceNumber) -> Self {
        RangeDels { lists: Vec::new(), sequence }
    }

    /// Adds a source's tombstones.
    pub fn push(&mut self, list: Option<Arc<FragmentedTombstones>>) {
        if let Some(list) = list
            && !list.is_empty()
        {
            self.lists.push(list);
        }
    }

    /// An entry of `key` with `sequence` is deleted by a newer tombstone.
    #[inline]
    pub fn covers(&self, comparator: &Comparator, key: &[u8], sequence: SequenceNumber) -> bool {
        self.lists
            .iter()
            .any(|list| list.max_covering_seq(comparator, key, self.sequence) > sequence)
    }
}

/// Cuts a file's tombstones to its boundaries, given as internal keys. Appends to `out`.
///
/// The upper bound follows format spec section 2.8: a largest key `(K, maxseq, RangeDeletion)` is
/// an artificial end, exclusive. Any other largest key belongs to the file, so the tombstone must
/// cover its user key too, which as a user-key range is `[.., K]`; the part of K's versions that a
/// neighbouring file holds is older than the tombstone by construction of the cut.
pub(crate) fn truncate_to_file(
    comparator: &Comparator,
    list: &FragmentedTombstones,
    smallest: &[u8],
    largest: &[u8],
    out: &mut Vec<RangeTombstone>,
) {
    let low = user_key(smallest);
    let high = user_key(largest);
    let (high_seq, high_type) = sequence_and_type(largest);
    let exclusive = high_seq == MAX_SEQUENCE && high_type == ValueType::RangeDeletion as u8;
    // The successor of K in byte order is K followed by a zero byte; for other comparators the
    // tombstone is left whole on that side, which is right unless a neighbour shares the key.
    let inclusive_end = || {
        let mut end = high.to_vec();
        end.push(0);
        end
    };
    for fragment in list.fragments() {
        let mut start = fragment.start.as_slice();
        if comparator.compare(start, low) == Ordering::Less {
            start = low;
        }
        let mut end = fragment.end.clone();
        if comparator.compare(&end, high) == Ordering::Greater {
            if exclusive {
                end = high.to_vec();
            } else if comparator.is_bytewise() {
                end = inclusive_end();
            }
        }
        if comparator.compare(start, &end) != Ordering::Less {
            continue;
        }
        for &seq in &fragment.seqs {
            out.push(RangeTombstone { start: start.to_vec(), end: end.clone(), seq });
        }
    }
}

/// `key` lies where the tombstones of `file` count; see [`truncate_to_file`].
pub(crate) fn inside_file(
    comparator: &Comparator,
    key: &[u8],
    file: &pumice_manifest::FileMetaData,
) -> bool {
    if comparator.compare(key, user_key(&file.smallest)) == Ordering::Less {
        return false;
    }
    let (sequence, tag) = sequence_and_type(&file.largest);
    match comparator.compare(key, user_key(&file.largest)) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => sequence != MAX_SEQUENCE || tag != ValueType::RangeDeletion as u8,
    }
}
