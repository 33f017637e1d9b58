//! Which log files are kept to be used again (`recycle_log_file_num`).
//!
//! A file is fit if this open wrote it, with its number in each record: then what is left of it can
//! be told from the records of a later log (`pumice_wal::reuse`).
//!
//! Thread safety: belongs to `Wals`. It does no I/O. Invariant: a number is in `ready` at most
//! once, and only once nothing needs its log any more.

use std::collections::VecDeque;

use pumice_base::FileNumber;

/// See the module head.
pub(crate) struct SpareLogs {
    max: usize,
    /// The first log that is fit; none before the first one of this open.
    first_fit: FileNumber,
    /// Files that are being cleared.
    preparing: Vec<FileNumber>,
    /// Cleared files with their bytes, the oldest first.
    ready: VecDeque<(FileNumber, u64)>,
}

impl SpareLogs {
    /// At most `max` files are kept.
    pub fn new(max: usize) -> Self {
        SpareLogs { max, first_fit: FileNumber::MAX, preparing: Vec::new(), ready: VecDeque::new() }
    }

    /// No log before `first` is fit.
    pub fn begin(&mut self, first: FileNumber) {
        self.first_fit = first;
    }

    /// No file is used again from now on; the files that are ready are nobody's.
    pub fn end(&mut self) {
        self.max = 0;
    }

    /// Whether the file of log `number`, which nothing needs, is to be cleared; then `prepared`
    /// must follow.
    pub fn wants(&mut self, number: FileNumber) -> bool {
        let kept = self.ready.len() + self.preparing.len();
        let wanted = number >= self.first_fit && kept < self.max;
        if wanted {
            self.preparing.push(number);
        }
        wanted
    }

    /// The file of log `number` has `bytes` bytes and no record, if `bytes` is something. False if
    /// it is to be deleted.
    pub fn prepared(&mut self, number: FileNumber, bytes: Option<u64>) -> bool {
        self.preparing.retain(|preparing| *preparing != number);
        let Some(bytes) = bytes.filter(|_| self.max > 0) else { return false };
        self.ready.push_back((number, bytes));
        true
    }

    /// A file to use again, with its bytes.
    pub fn take(&mut self) -> Option<(FileNumber, u64)> {
        if self.max == 0 { None } else { self.ready.pop_front() }
    }

    /// Log `number` is kept only for its file, or is about to be.
    pub fn has(&self, number: FileNumber) -> bool {
        self.preparing.contains(&number) || self.ready.iter().any(|(ready, _)| *ready == number)
    }

    /// After `end`: the files that are left, to be deleted.
    pub fn take_rest(&mut self) -> Vec<FileNumber> {
        if self.max > 0 {
            return Vec::new();
        }
        self.ready.drain(..).map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn as_many_as_wanted_are_kept_and_only_fit_ones() {
        let mut spare = SpareLogs::new(2);
        assert!(!spare.wants(4), "no log of this open yet");
        spare.begin(5);
        assert!(!spare.wants(4));
        assert!(spare.wants(5) && spare.wants(7) && !spare.wants(9));
        assert!(spare.has(5) && spare.has(7) && !spare.has(9), "while they are cleared");
        assert!(spare.prepared(5, Some(100)) && !spare.prepared(7, None));
        assert!(spare.wants(9) && spare.prepared(9, Some(50)));
        assert!(spare.has(5) && !spare.has(7));
        assert_eq!((spare.take(), spare.take()), (Some((5, 100)), Some((9, 50))));
        assert_eq!(spare.take(), None);
        spare.begin(20);
        assert!(!spare.wants(11) && spare.wants(20));
        spare.end();
        assert!(!spare.prepared(20, Some(1)) && spare.take_rest().is_empty());
    }
}
