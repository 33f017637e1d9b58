//! Merges the readable entries of several tables into one sorted run.
//!
//! An internal key that is in several tables is returned once, from the newest of them: the entry
//! of a compaction's input and of its output, or of a log and of the table it was flushed to. A
//! value in a blob file has the same key as one in a table: it may have gone there, or come back.
//!
//! Thread safety: one user. Suspends on I/O.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::order;
use pumice_base::range_tombstone::RangeTombstone;
use pumice_base::{FileNumber, InternalKey, Result, ValueType};
use pumice_manifest::FileMetaData;
use pumice_table::SalvageIter;

use crate::blob::references::References;
use crate::repair::blobs::{BlobFiles, Holder, Settled};
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
    /// Blobs that it refers to.
    pub references: References,
}

/// See the module head.
pub(super) struct Merge<'a> {
    context: &'a RepairContext<'a>,
    blobs: &'a BlobFiles,
    family: &'a Family,
    /// Not begun yet, the one with the smallest key last.
    waiting: Vec<Input>,
    active: Vec<(FileNumber, SalvageIter)>,
    /// Place of the present entry in `active`.
    at: Option<usize>,
    /// The present entry, if it is not as its table has it.
    moved: Option<(Vec<u8>, Vec<u8>)>,
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
        blobs: &'a BlobFiles,
        family: &'a Family,
        inputs: &[Input],
    ) -> Result<Self> {
        let mut waiting = inputs.to_vec();
        order::sort_by(&mut waiting, |a, b| {
            family.icmp.compare(b.meta.smallest_key(), a.meta.smallest_key())
        });
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
        let (active, last, at, moved) = (Vec::new(), Vec::new(), None, None);
        let mut merge =
            Merge { context, blobs, family, waiting, active, at, moved, last, tombstones };
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
                smallest.is_none_or(|key| self.order(begins.as_bytes(), key).is_le())
            });
            if due && let Some(input) = self.waiting.pop() {
                let table = open(self.context, self.family, &input)?;
                self.active.push((input.meta.number, table.salvage()));
                continue;
            }
            let Some(at) = self.at else { return Ok(()) };
            let entry = &self.active[at].1;
            if self.was_last(entry.key()) {
                self.active[at].1.next();
                continue;
            }
            let holder = Holder { table: entry.table(), stays: false };
            let owner = self.family.owner();
            match self.blobs.settle(owner, holder, entry.key(), entry.value())? {
                Settled::Stays => self.moved = None,
                Settled::Moved(ikey, value) => self.moved = Some((ikey, value)),
                Settled::Lost(_) => {
                    self.active[at].1.next();
                    continue;
                }
            }
            return Ok(());
        }
    }

    /// The entry is the one returned last: the order decides, not the bytes.
    fn was_last(&self, key: &[u8]) -> bool {
        !self.last.is_empty() && self.order(key, &self.last).is_eq()
    }

    /// The order of two internal keys; a value is the same wherever it is.
    fn order(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (a, b) = (InternalKey::new(a), InternalKey::new(b));
        let is_value = |key: InternalKey<'_>| {
            [ValueType::Value as u8, ValueType::BlobIndex as u8].contains(&key.tag())
        };
        let same = is_value(a)
            && is_value(b)
            && a.sequence() == b.sequence()
            && self.family.icmp.user.compare(a.user_key(), b.user_key()).is_eq();
        if same { Ordering::Equal } else { self.family.icmp.compare(a, b) }
    }

    fn smallest(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (at, (number, iter)) in self.active.iter().enumerate() {
            let better = best.is_none_or(|best| {
                let (other, known) = &self.active[best];
                let order = self.order(iter.key(), known.key());
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
        match &self.moved {
            Some((key, _)) => key,
            None => self.at.map_or(&[], |at| self.active[at].1.key()),
        }
    }
    fn value(&self) -> &[u8] {
        match &self.moved {
            Some((_, value)) => value,
            None => self.at.map_or(&[], |at| self.active[at].1.value()),
        }
    }
    fn next(&mut self) -> Result<()> {
        let Some(at) = self.at else { return Ok(()) };
        self.last.clear();
        self.last.extend_from_slice(self.active[at].1.key());
        self.active[at].1.next();
        self.moved = None;
        self.choose()
    }
}
