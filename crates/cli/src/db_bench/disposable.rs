//! `fillanddeleteuniquerandom`: disposable entries, which are deleted some time after all of their
//! batch were written, and persistent ones, written before those deletions.
//!
//! Keys are numbered in the order of the shuffle: a batch of disposable ones, its persistent ones,
//! the next batch. Thread safety: of one worker.

use std::collections::VecDeque;

use super::flags::Flags;

/// What comes next; the numbers are places in the shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Written, to be deleted.
    Disposable(u64),
    /// Written for good.
    Persistent(u64),
    /// Deleted.
    Delete(u64),
}

/// The order of the entries of one database.
#[derive(Clone, Debug)]
pub struct Disposables {
    /// Disposable entries of a batch; above 0.
    batch: u64,
    /// Persistent entries of a batch.
    persistent: u64,
    delay_micros: u64,
    /// Where the next disposable entry is.
    next: u64,
    /// Batches that are written: when their deletions are due, and their first place.
    due: VecDeque<(u64, u64)>,
    /// Persistent entries and deletions done for the first of these.
    done: u64,
}

impl Disposables {
    /// From the flags; None if they request none.
    pub fn new(flags: &Flags) -> Option<Disposables> {
        (flags.disposable_entries_batch_size > 0).then(|| Disposables {
            batch: flags.disposable_entries_batch_size,
            persistent: flags.persistent_entries_batch_size,
            delay_micros: flags.disposable_entries_delete_delay,
            next: 0,
            due: VecDeque::new(),
            done: 0,
        })
    }

    /// The next entry, at the time `now_micros`.
    pub fn next(&mut self, now_micros: u64) -> Entry {
        let Some(&(_, first)) = self.due.front().filter(|(time, _)| *time <= now_micros) else {
            return self.write(now_micros);
        };
        let entry = match self.done.checked_sub(self.persistent) {
            None => Entry::Persistent(first + self.batch + self.done),
            Some(deleted) => Entry::Delete(first + deleted),
        };
        self.done += 1;
        if self.done == self.batch + self.persistent {
            self.due.pop_front();
            self.done = 0;
        }
        entry
    }

    fn write(&mut self, now_micros: u64) -> Entry {
        let at = self.next;
        let cycle = self.batch + self.persistent;
        self.next += 1;
        if self.next % cycle == self.batch % cycle {
            let first = self.next - self.batch;
            self.due.push_back((now_micros.saturating_add(self.delay_micros), first));
            self.next += self.persistent;
        }
        Entry::Disposable(at)
    }
}

/// Whether the flags fit together.
///
/// # Errors
/// The rule that is broken, in RocksDB's words where it has some.
pub fn check(flags: &Flags) -> Result<(), String> {
    let rules = [
        (
            flags.disposable_entries_batch_size > 0 || flags.persistent_entries_batch_size == 0,
            "persistent_entries_batch_size needs a disposable_entries_batch_size",
        ),
        (
            flags.disposable_entries_batch_size == 0
                || flags.overwrite_probability <= 0.0 && flags.writes_per_range_tombstone <= 0,
            "Disposable/persistent deletes are not compatible with overwrites and DeleteRanges; \
             and are only supported in filluniquerandom.",
        ),
        (
            flags.disposable_entries_value_size >= 0 && flags.persistent_entries_value_size >= 0,
            "disposable_entries_value_size and persistent_entries_value_size have to be positive.",
        ),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err((*rule).to_string()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::Entry::{Delete, Disposable, Persistent};
    use super::*;

    fn disposables(batch: u64, persistent: u64, delay_micros: u64) -> Disposables {
        let (next, due, done) = (0, VecDeque::new(), 0);
        Disposables { batch, persistent, delay_micros, next, due, done }
    }

    #[pumice_test_macros::test]
    fn batches_follow_each_other() {
        let mut entries = disposables(2, 1, 0);
        let got: Vec<Entry> = (0..10).map(|_| entries.next(5)).collect();
        let batch = |at| {
            [Disposable(at), Disposable(at + 1), Persistent(at + 2), Delete(at), Delete(at + 1)]
        };
        assert_eq!(got, [batch(0), batch(3)].concat());
        let mut entries = disposables(2, 0, 0);
        let got: Vec<Entry> = (0..6).map(|_| entries.next(5)).collect();
        let expected =
            [Disposable(0), Disposable(1), Delete(0), Delete(1), Disposable(2), Disposable(3)];
        assert_eq!(got, expected);
    }

    #[pumice_test_macros::test]
    fn deletions_wait_for_their_time() {
        let mut entries = disposables(1, 1, 10);
        let got: Vec<Entry> = [0, 9, 10, 10, 18, 20, 20].map(|now| entries.next(now)).to_vec();
        let expected = [
            Disposable(0),
            Disposable(2),
            Persistent(1),
            Delete(0),
            Disposable(4),
            Persistent(3),
            Delete(2),
        ];
        assert_eq!(got, expected);
    }
}
