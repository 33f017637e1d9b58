//! Collectors: what watches the entries of a table while it is written, and may ask for its
//! compaction.
//!
//! Thread safety: plain data; a collector belongs to the table's writer. Pure.

use pumice_base::ValueType;

/// Parts of the window that leave it at once.
const BUCKETS: usize = 128;

/// RocksDB's `NewCompactOnDeletionCollectorFactory`: asks for the compaction of a table in which
/// deletions are dense. Deletions are those of single keys, but for `single_delete`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactOnDeletionCollectorFactory {
    /// Entries looked at together, rounded up to a multiple of 128; 0 turns this part off.
    pub sliding_window_size: usize,
    /// Deletions among them that are too many.
    pub deletion_trigger: usize,
    /// Part of all entries of the table that is too much, above 0 and at most 1; else off.
    pub deletion_ratio: f64,
}

impl CompactOnDeletionCollectorFactory {
    /// As it is written into the properties of a table.
    pub const NAME: &'static str = "CompactOnDeletionCollector";

    /// A collector for one table.
    pub(crate) fn create(&self) -> CompactOnDeletionCollector {
        let ratio = Some(self.deletion_ratio).filter(|ratio| *ratio > 0.0 && *ratio <= 1.0);
        CompactOnDeletionCollector {
            bucket_size: self.sliding_window_size.div_ceil(BUCKETS),
            trigger: self.deletion_trigger,
            ratio,
            buckets: [0; BUCKETS],
            current: 0,
            in_current: 0,
            in_window: 0,
            entries: 0,
            deletions: 0,
            wanted: false,
        }
    }
}

/// Watches the entries of one table.
pub(crate) struct CompactOnDeletionCollector {
    bucket_size: usize,
    trigger: usize,
    ratio: Option<f64>,
    /// Deletions in each part of the window.
    buckets: [usize; BUCKETS],
    current: usize,
    /// Entries in the current part.
    in_current: usize,
    /// Deletions in the window.
    in_window: usize,
    entries: u64,
    deletions: u64,
    wanted: bool,
}

impl CompactOnDeletionCollector {
    /// The table gets an entry whose internal key has this tag.
    pub fn add(&mut self, tag: u8) {
        if self.wanted {
            return;
        }
        let deletes = usize::from(tag == ValueType::Deletion as u8);
        self.entries += 1;
        self.deletions += deletes as u64;
        if self.bucket_size == 0 {
            return;
        }
        if self.in_current == self.bucket_size {
            self.current = (self.current + 1) % BUCKETS;
            self.in_window -= std::mem::take(&mut self.buckets[self.current]);
            self.in_current = 0;
        }
        self.in_current += 1;
        self.in_window += deletes;
        self.buckets[self.current] += deletes;
        self.wanted = deletes > 0 && self.in_window >= self.trigger;
    }

    /// The table is complete: it is to be compacted.
    pub fn needs_compaction(&self) -> bool {
        let part =
            |ratio: f64| self.entries > 0 && self.deletions as f64 / self.entries as f64 >= ratio;
        self.wanted || self.ratio.is_some_and(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: u8 = ValueType::Value as u8;
    const DELETE: u8 = ValueType::Deletion as u8;

    fn asks(window: usize, trigger: usize, ratio: f64, tags: &[u8]) -> bool {
        let factory = CompactOnDeletionCollectorFactory {
            sliding_window_size: window,
            deletion_trigger: trigger,
            deletion_ratio: ratio,
        };
        let mut collector = factory.create();
        tags.iter().for_each(|tag| collector.add(*tag));
        collector.needs_compaction()
    }

    /// One deletion after `gap` other entries, `count` times.
    fn spread(gap: usize, count: usize) -> Vec<u8> {
        [vec![PUT; gap], vec![DELETE]].concat().repeat(count)
    }

    #[pumice_test_macros::test]
    fn dense_deletions_ask_for_a_compaction() {
        // A window of 128 entries: 16 deletions of a row of 8 entries each just fit into it.
        assert!(asks(128, 16, 0.0, &spread(7, 100)));
        assert!(!asks(128, 17, 0.0, &spread(7, 100)));
        assert!(!asks(128, 16, 0.0, &spread(8, 100)));
        // Rounded up to parts of two entries, 256 in all.
        assert!(asks(129, 32, 0.0, &spread(7, 100)));
        assert!(!asks(129, 33, 0.0, &spread(7, 100)));
        // What left the window does not count.
        let far = [spread(0, 10), vec![PUT; 200], spread(0, 10)].concat();
        assert!(!asks(128, 11, 0.0, &far) && asks(128, 10, 0.0, &far));
        // Nothing is asked for by the window alone if there is none.
        assert!(!asks(0, 0, 0.0, &spread(0, 1000)));
        assert!(!asks(128, 0, 0.0, &vec![PUT; 1000]));
        let others = [ValueType::SingleDeletion as u8, ValueType::RangeDeletion as u8];
        assert!(!asks(128, 1, 0.5, &others.repeat(50)));
    }

    #[pumice_test_macros::test]
    fn many_deletions_in_all_ask_for_a_compaction() {
        assert!(asks(0, 0, 0.25, &spread(3, 50)));
        assert!(!asks(0, 0, 0.26, &spread(3, 50)));
        assert!(!asks(128, 100, 0.26, &spread(3, 50)));
        for off in [0.0, -1.0, 1.5] {
            assert!(!asks(0, 0, off, &spread(0, 50)));
        }
        assert!(asks(0, 0, 1.0, &spread(0, 50)));
        assert!(!asks(0, 0, 0.1, &[]));
    }
}
