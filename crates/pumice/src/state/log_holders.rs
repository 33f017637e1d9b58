//! Which logs recovery may need, by who needs them: the smallest number over all holders stays, and
//! all logs after it.
//!
//! | holder | needs | until |
//! |---|---|---|
//! | a column family | the logs from its `log_number` on | its memtables are in tables |
//! | [`LogHolder::PreparedSection`] | the log that has the section | its transaction ends |
//! | an unsynced commit | the log that has its section | the commit's log is in tables |
//!
//! A flush releases logs of families only. A log that another holder keeps is not worth one, see
//! `engine::memtable_switch`.
//!
//! Thread safety: plain data, under the state lock. A holder that takes over from another one (a
//! section that a commit moves into memtables) holds before the other releases.

use std::collections::BTreeMap;

use pumice_base::FileNumber;
use pumice_base::planted::{self, Bug};
use pumice_manifest::VersionEdit;

use crate::state::DbState;

/// Who needs a log, besides the column families with unflushed data in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogHolder {
    /// A section that was prepared there and is neither committed nor rolled back.
    PreparedSection,
}

/// The logs that are held, and how often by each holder.
#[derive(Default)]
pub(crate) struct LogHolders {
    held: BTreeMap<(FileNumber, LogHolder), usize>,
    /// The logs of sections whose commits are not known to be durable, with the newest log that
    /// may have one of these.
    committed: BTreeMap<FileNumber, FileNumber>,
}

impl LogHolders {
    /// `holder` needs `log`, once more.
    pub fn hold(&mut self, log: FileNumber, holder: LogHolder) {
        *self.held.entry((log, holder)).or_default() += 1;
    }

    /// As [`LogHolders::release`], but `log` stays until everything up to `until` is in tables, as
    /// everything before `unflushed` is.
    pub fn release_after(
        &mut self,
        log: FileNumber,
        holder: LogHolder,
        until: FileNumber,
        unflushed: FileNumber,
    ) -> bool {
        self.committed.retain(|_, until| *until >= unflushed);
        let newest = self.committed.entry(log).or_insert(until);
        *newest = until.max(*newest);
        self.release(log, holder)
    }

    /// What must be in tables so that `log` and those before it can go; 0: they can.
    pub fn needed_until(&self, log: FileNumber) -> FileNumber {
        self.committed.range(..=log).map(|(_, until)| *until).max().unwrap_or(0)
    }

    /// One `hold` is over. Returns whether nothing here holds the log any more.
    pub fn release(&mut self, log: FileNumber, holder: LogHolder) -> bool {
        match self.held.get_mut(&(log, holder)) {
            Some(times) if *times > 1 => *times -= 1,
            Some(_) => drop(self.held.remove(&(log, holder))),
            None => debug_assert!(false, "log #{log} is not held by {holder:?}"),
        }
        self.held
            .range((log, LogHolder::PreparedSection)..)
            .next()
            .is_none_or(|(held, _)| held.0 != log)
    }

    /// The oldest log that is held, and its first holder.
    pub fn oldest(&self) -> Option<(FileNumber, LogHolder)> {
        self.held.keys().next().copied()
    }
}

impl DbState {
    /// The oldest log that a column family needs once `edits` are installed; None if there are no
    /// families.
    pub fn oldest_unflushed_log(&self, edits: &[VersionEdit]) -> Option<FileNumber> {
        let families = self.cfs.values().filter(|cf| !cf.data.is_dropped());
        let needed = families.map(|cf| {
            let edited = edits.iter().filter(|edit| edit.column_family == cf.data.id);
            edited.filter_map(|edit| edit.log_number).max().unwrap_or(0).max(cf.log_number)
        });
        needed.min()
    }

    /// The oldest log that anything needs once `edits` are installed.
    pub fn oldest_needed_log(&self, edits: &[VersionEdit]) -> Option<FileNumber> {
        let held = self.files.log_holders.oldest().map(|(log, _)| log);
        let held = held.filter(|_| !planted::is(Bug::PreparedLogReleased));
        let unflushed = self.oldest_unflushed_log(edits);
        let mut committed = self.files.log_holders.committed.iter();
        let committed = committed.find(|(_, until)| unflushed.is_some_and(|log| log <= **until));
        unflushed.into_iter().chain(held).chain(committed.map(|(log, _)| *log)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn a_log_is_held_as_often_as_it_was_asked_for() {
        let section = LogHolder::PreparedSection;
        let mut holders = LogHolders::default();
        assert_eq!(holders.oldest(), None);
        holders.hold(7, section);
        holders.hold(5, section);
        holders.hold(5, section);
        assert_eq!(holders.oldest(), Some((5, section)));
        assert!(!holders.release(5, section));
        assert_eq!(holders.oldest(), Some((5, section)));
        assert!(holders.release(5, section));
        assert_eq!(holders.oldest(), Some((7, section)));
        assert!(holders.release(7, section));
        assert_eq!(holders.oldest(), None);
    }

    #[pumice_test_macros::test]
    fn a_log_stays_as_long_as_the_newest_commit_of_its_sections() {
        let section = LogHolder::PreparedSection;
        let mut holders = LogHolders::default();
        (0..3).for_each(|_| holders.hold(5, section));
        assert!(!holders.release_after(5, section, 9, 4));
        assert!(!holders.release_after(5, section, 8, 4));
        assert_eq!((holders.needed_until(4), holders.needed_until(6)), (0, 9));
        assert!(holders.release_after(5, section, 12, 10), "the first two are in tables");
        assert_eq!(holders.needed_until(5), 12);
    }
}
