//! Decides from plain data which column families are sealed and flushed together.
//!
//! With `atomic_flush` a batch that skipped the log has to survive a crash in all of its column
//! families or in none. So sealing one memtable seals all that are not empty, at one point between
//! two batches, and one job flushes everything that is sealed: exactly what was written before the
//! last of those points.
//!
//! Invariant: with `Grouping::All` at most one flush runs. A later one would have newer entries of
//! some families, and must not be installed before the earlier one.
//!
//! Thread safety: pure functions. Nothing is sealed, queued or written here.

use std::collections::BTreeSet;

/// Which of the column families that wait for a flush one job takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// The one that has waited longest.
    One,
    /// All that are queued.
    Queued,
    /// All that have anything sealed.
    All,
}

impl Grouping {
    /// The grouping with `atomic_flush`, and while the database resumes from an error: after a
    /// failed log only memory has all the data, and a crash must not leave some families with it
    /// and some without.
    pub fn of(atomic_flush: bool, resuming: bool) -> Self {
        match (atomic_flush, resuming) {
            (true, _) => Grouping::All,
            (false, true) => Grouping::Queued,
            (false, false) => Grouping::One,
        }
    }
}

/// The data of a column family that is in no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unflushed {
    pub id: u32,
    /// The memtable that takes writes holds something.
    pub active: bool,
    /// There are sealed memtables.
    pub sealed: bool,
    /// A job is writing them.
    pub flushing: bool,
}

impl Unflushed {
    /// A job may take it.
    pub fn is_ready(self) -> bool {
        self.sealed && !self.flushing
    }
}

/// The column families whose memtables are sealed when those of `asked` should be.
pub(crate) fn to_seal(
    atomic_flush: bool,
    asked: &BTreeSet<u32>,
    families: impl Iterator<Item = Unflushed>,
) -> Vec<u32> {
    let wanted = |family: &Unflushed| atomic_flush || asked.contains(&family.id);
    families.filter(|family| family.active && wanted(family)).map(|family| family.id).collect()
}

/// The column families of a job that flushes all; none while another one runs.
pub(crate) fn flushed_together(families: impl Iterator<Item = Unflushed>) -> Vec<u32> {
    let sealed: Vec<Unflushed> = families.filter(|family| family.sealed).collect();
    match sealed.iter().any(|family| family.flushing) {
        true => Vec::new(),
        false => sealed.iter().map(|family| family.id).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> [Unflushed; 4] {
        let family = |id, active, sealed| Unflushed { id, active, sealed, flushing: false };
        [
            family(0, true, false),
            family(1, false, false),
            family(2, true, true),
            family(3, false, true),
        ]
    }

    #[pumice_test_macros::test]
    fn seals_what_is_asked_for_or_all_that_hold_anything() {
        let asked = BTreeSet::from([0, 1]);
        assert_eq!(to_seal(false, &asked, families().into_iter()), [0]);
        assert_eq!(to_seal(true, &asked, families().into_iter()), [0, 2]);
        // A flush of an empty family alone still seals the others.
        assert_eq!(to_seal(true, &BTreeSet::from([1]), families().into_iter()), [0, 2]);
        assert!(to_seal(false, &BTreeSet::from([1]), families().into_iter()).is_empty());
    }

    #[pumice_test_macros::test]
    fn flushes_all_that_are_sealed_unless_a_flush_runs() {
        assert_eq!(flushed_together(families().into_iter()), [2, 3]);
        let mut running = families();
        running[3].flushing = true;
        assert!(flushed_together(running.into_iter()).is_empty());
        assert!(flushed_together(families().into_iter().take(2)).is_empty());
    }

    #[pumice_test_macros::test]
    fn families_belong_together_by_option_and_after_an_error() {
        assert_eq!(Grouping::of(false, false), Grouping::One);
        assert_eq!(Grouping::of(false, true), Grouping::Queued);
        assert_eq!(Grouping::of(true, false), Grouping::All);
        assert_eq!(Grouping::of(true, true), Grouping::All);
    }
}
