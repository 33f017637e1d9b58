//! What searches for keys report: where they found their answers, and what samples say of tables.
//!
//! Thread safety: plain data; the counts of samples are in the files' metadata.

use super::{Answer, Lookup, SettledBy};
use crate::read::sampling::{self, Fruitless, Sampled};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// Where the answers of point reads came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    /// Settled by a memtable, values and deletions alike.
    pub memtable: u64,
    /// Not settled by a memtable.
    pub memtable_misses: u64,
    /// Values from tables of L0, of L1, of the levels below.
    pub levels: [u64; 3],
    /// Which reads are sampled.
    pub sampled: Sampled,
    /// Since a sample a table is to be compacted.
    pub is_due: bool,
}

impl Hits {
    /// Counts a finished search.
    pub(super) fn count(&mut self, lookup: &Lookup<'_>) {
        match lookup.settled_by {
            SettledBy::Memtable => self.memtable += 1,
            SettledBy::Level(level) => {
                self.memtable_misses += 1;
                if matches!(lookup.answer, Answer::Found(_)) {
                    self.levels[level.min(2)] += 1;
                }
            }
            SettledBy::Nobody => self.memtable_misses += 1,
        }
    }

    /// Counts what a search has noted that was sampled.
    pub(super) fn count_sampled(
        &mut self,
        cf: &CfData,
        view: &SuperVersion,
        fruitless: &Fruitless,
    ) {
        let tables = fruitless.take();
        if !tables.is_empty() {
            self.is_due |= sampling::count(cf, view, tables);
        }
    }
}
