//! Which logs recovery may need, by who needs them: the smallest number over all holders stays, and
//! all logs after it.
//!
//! | holder | needs | until |
//! |---|---|---|
//! | a column family | the logs from its `log_number` on | its memtables are in tables |
//! | [`LogHolder::PreparedSection`] | the log that has the section | its transaction ends |
//!
//! A flush releases logs of families only. A log that another holder keeps is not worth one, see
//! `engine::memtable_switch`.
//!
//! Thread safety: plain data, under the state lock. A holder that takes over from another one (a
//! section that a commit moves into memtables) holds before the other releases.

use std::collections::BTreeMap;

use pumice_base::FileNumber;
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
pub(crate) struct LogHolders(BTreeMap<(FileNumber, LogHolder), usize>);

impl LogHolders {
    /// `holder` needs `log`, once more.
    pub fn hold(&mut self, log: FileNumber, holder: LogHolder) {
        *self.0.entry((log, holder)).or_default() += 1;
    }

    /// One `hold` is over. Returns whether nothing here holds the log any more.
    pub fn release(&mut self, log: FileNumber, holder: LogHolder) -> bool {
        match self.0.get_mut(&(log, holder)) {
            Some(times) if *times > 1 => *times -= 1,
            Some(_) => drop(self.0.remove(&(log, holder))),
            None => debug_assert!(false, "log #{log} is not held by {holder:?}"),
        }
        self.0
            .range((log, LogHolder::PreparedSection)..)
            .next()
            .is_none_or(|(held, _)| held.0 != log)
    }

    /// The oldest log that is held, and its first holder.
    pub fn oldest(&self) -> Option<(FileNumber, LogHolder)> {
        self.0.keys().next().copied()
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
        self.oldest_unflushed_log(edits).into_iter().chain(held).min()
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
}
