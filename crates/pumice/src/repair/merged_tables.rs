//! Merges the readable entries of several tables into one sorted run.
//!
//! An internal key that is in several tables is returned once, from the newest of them: the entry
//! of a compaction's input and of its output, or of a log and of the table it was flushed to.
//!
//! Thread safety: one user. Suspends on I/O.

use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::range_tombstone::RangeTombstone;
use pumice_base::{FileNumber, InternalKey, Result};
use pumice_manifest::FileMetaData;
use pumice_table::SalvageIter;

use crate::repair::context::{Family, RepairContext};
use crate::repair::repaired_tables::Entries;
use crate::repair::tables;

/// A table to read, and the bounds within which its entries count.
#[derive(Clone)]
pub(super) struct Input {
    pub path: PathBuf,
    pub meta: Arc<FileMetaData>,
    /// The bounds, and the sequence number of an ingested file, come from a MANIFEST.
    pub known: bool,
    /// It cannot stay as it is.
    pub rewrite: bool,
}

/// See the module head.
pub(super) struct Merge<'a> {
    context: &'a RepairContext<'a>,
    family: &'a Family,
    /// Not begun yet, the one with the smallest key last.
    waiting: Vec<Input>,
    active: Vec<(FileNumber, SalvageIter)>,
    /// Place of the present entry in `active`.
    at: Option<usize>,
    /// The key returned last.
    last: Vec<u8>,
    pub tombstones: Vec<RangeTombstone>,
}

impl<'a> Merge<'a> {
    /// At the first entry.
    ///
    /// # Errors
    /// The errors of opening the tables.
    pub fn new(
        context: &'a RepairContext<'a>,
        family: &'a Family,
        inputs: &[Input],
    ) -> Result<Self> {
        let mut waiting = inputs.to_vec();
        waiting.sort_by(|a, b| family.icmp.compare(b.meta.smallest_key(), a.meta.smallest_key()));
        let mut tombstones = Vec::new();
        for input in inputs {
            let table = open(context, family, input)?;
            let all = tables::tombstones(&table).into_iter();
            match input.known {
                true => tombstones.extend(
                    all.filter_map(|t| tables::within_bounds(t, &input.meta, &family.icmp.user)),
                ),
                false => tombstones.extend(all),
            }
        }
        let (active, last) = (Vec::new(), Vec::new());
        let mut merge = Merge { context, family, waiting, active, at: None, last, tombstones };
        merge.choose()?;
        Ok(merge)
    }

    /// Finds the smallest entry after `last`; of equal ones that of the newest file.
    fn choose(&mut self) -> Result<()> {
        loop {
            self.active.retain(|(_, iter)| iter.valid());
            self.at = self.smallest();
            let smallest = self.at.map(|at| self.active[at].1.key());
            let due = self.waiting.last().is_some_and(|input| {
                let begins = input.meta.smallest_key();
                smallest.is_none_or(|key| {
                    self.family.icmp.compare(begins, InternalKey::new(key)).is_le()
                })
            });
            if due && let Some(input) = self.waiting.pop() {
                let table = open(self.context, self.family, &input)?;
                self.active.push((input.meta.number, table.salvage()));
                continue;
            }
            match self.at {
                Some(at) if self.was_last(self.active[at].1.key()) => self.active[at].1.next(),
                _ => return Ok(()),
            }
        }
    }

    /// The entry is the one returned last: the order decides, not the bytes.
    fn was_last(&self, key: &[u8]) -> bool {
        !self.last.is_empty()
            && self.family.icmp.compare(InternalKey::new(key), InternalKey::new(&self.last)).is_eq()
    }

    fn smallest(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (at, (number, iter)) in self.active.iter().enumerate() {
            let better = best.is_none_or(|best| {
                let (other, known) = &self.active[best];
                let order = self
                    .family
                    .icmp
                    .compare(InternalKey::new(iter.key()), InternalKey::new(known.key()));
                order.is_lt() || order.is_eq() && number > other
            });
            if better {
                best = Some(at);
            }
        }
        best
    }
}

fn open(
    context: &RepairContext<'_>,
    family: &Family,
    input: &Input,
) -> Result<Arc<pumice_table::Table>> {
    let known = input.known.then_some(&*input.meta);
    tables::open(context, &input.path, input.meta.number, &family.icmp.user, known)
}

impl Entries for Merge<'_> {
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn key(&self) -> &[u8] {
        self.at.map_or(&[], |at| self.active[at].1.key())
    }
    fn value(&self) -> &[u8] {
        self.at.map_or(&[], |at| self.active[at].1.value())
    }
    fn next(&mut self) -> Result<()> {
        let Some(at) = self.at else { return Ok(()) };
        self.last.clear();
        self.last.extend_from_slice(self.active[at].1.key());
        self.active[at].1.next();
        self.choose()
    }
}
