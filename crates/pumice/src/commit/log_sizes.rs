//! The sizes of the logs that recovery would read, and their sum, which every write reads.
//!
//! Thread safety: belongs to `Wals`. Invariants: (1) ascending by number, the current log last;
//! (2) `total` is the sum of all sizes.

use std::collections::VecDeque;

use pumice_base::FileNumber;

/// See the module head.
#[derive(Default)]
pub(crate) struct LogSizes {
    logs: VecDeque<(FileNumber, u64)>,
    total: u64,
}

impl LogSizes {
    /// Adds logs that recovery found.
    pub fn extend(&mut self, logs: &[(FileNumber, u64)]) {
        self.logs.extend(logs);
        self.total += logs.iter().map(|(_, bytes)| bytes).sum::<u64>();
    }

    /// Adds an empty log, the current one from now on.
    pub fn start(&mut self, number: FileNumber) {
        self.logs.push_back((number, 0));
    }

    /// The current log has `bytes` now.
    pub fn grow(&mut self, bytes: u64) {
        if let Some((_, size)) = self.logs.back_mut() {
            self.total = self.total - *size + bytes;
            *size = bytes;
        }
    }

    /// Number of the oldest log.
    pub fn oldest(&self) -> Option<FileNumber> {
        self.logs.front().map(|(number, _)| *number)
    }

    /// Forgets the oldest log.
    pub fn pop_oldest(&mut self) {
        if let Some((_, bytes)) = self.logs.pop_front() {
            self.total -= bytes;
        }
    }

    /// The sum of all sizes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// All logs with their sizes, ascending.
    pub fn all(&self) -> Vec<(FileNumber, u64)> {
        self.logs.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn the_total_is_the_sum() {
        let mut sizes = LogSizes::default();
        sizes.extend(&[(3, 10), (5, 20)]);
        sizes.start(7);
        for bytes in [1, 1, 40] {
            sizes.grow(bytes);
            assert_eq!(sizes.total(), sizes.all().iter().map(|(_, bytes)| bytes).sum());
        }
        sizes.pop_oldest();
        assert_eq!((sizes.oldest(), sizes.total()), (Some(5), 60));
        (0..3).for_each(|_| sizes.pop_oldest());
        assert_eq!((sizes.oldest(), sizes.total()), (None, 0));
    }
}
