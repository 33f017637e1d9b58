//! The compactions under way in one column family.
//!
//! Thread safety: plain data under the engine's lock. Invariant: exactly the input files of the
//! entries are flagged as being compacted. A reservation is an entry whose inputs, if any, are
//! removed without being compacted; one that only removes files has no output. Each entry has one
//! [`Registered`], which is made only here and ends the entry when it is given back.

use std::sync::Arc;

use pumice_base::{Comparator, InternalKeyComparator, UserKey};
use pumice_manifest::{FileMetaData, UserRange};

use super::{CompactionPick, InputLevel};

/// Files and a range are registered: other compactions keep away from them. Only
/// [`RunningCompactions::unregister`] ends that; if it is dropped, the entry stays for as long as
/// the column family lives. It does not record its column family.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Registered(u64);

#[derive(Debug)]
struct Entry {
    id: u64,
    inputs: Vec<InputLevel>,
    outputs: Vec<OutputRange>,
}

/// Where an entry writes: a range of user keys of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRange {
    /// The level.
    pub level: usize,
    begin: Vec<u8>,
    end: Vec<u8>,
    end_open: bool,
}

impl OutputRange {
    /// `range`, which is closed, of `level`.
    pub(super) fn new(level: usize, range: &UserRange<'_>) -> Self {
        OutputRange {
            level,
            begin: range.begin.unwrap_or_default().to_vec(),
            end: range.end.unwrap_or_default().to_vec(),
            end_open: range.end_open,
        }
    }

    /// The range.
    pub fn range(&self) -> UserRange<'_> {
        UserRange {
            begin: Some(UserKey::new(&self.begin)),
            end: Some(UserKey::new(&self.end)),
            end_open: self.end_open,
        }
    }
}

/// Registry of running compactions.
#[derive(Debug, Default)]
pub struct RunningCompactions {
    entries: Vec<Entry>,
    next_id: u64,
}

impl RunningCompactions {
    /// Flags the input files of `pick` and remembers its ranges.
    pub fn register(&mut self, pick: &CompactionPick, icmp: &InternalKeyComparator) -> Registered {
        let range = UserRange::of_files(icmp, pick.inputs.iter().flat_map(|i| &i.files));
        let proximal = pick.outputs.proximal.as_ref().map(|output| output.range.clone());
        let outputs = [OutputRange::new(pick.output_level, &range)].into_iter().chain(proximal);
        self.add(pick.inputs.clone(), outputs.collect())
    }

    /// Reserves `range` on `level` for files that come from outside the tree; `replaced` are files
    /// that are removed at the same time.
    pub fn reserve(
        &mut self,
        level: usize,
        range: &UserRange<'_>,
        replaced: Vec<InputLevel>,
    ) -> Registered {
        self.add(replaced, vec![OutputRange::new(level, range)])
    }

    /// Reserves files that are removed without a replacement.
    pub fn reserve_files(&mut self, doomed: Vec<InputLevel>) -> Registered {
        self.add(doomed, Vec::new())
    }

    fn add(&mut self, inputs: Vec<InputLevel>, outputs: Vec<OutputRange>) -> Registered {
        for file in inputs.iter().flat_map(|input| &input.files) {
            debug_assert!(!file.is_being_compacted());
            file.set_being_compacted(true);
        }
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push(Entry { id, inputs, outputs });
        Registered(id)
    }

    /// Forgets a compaction that ended, with or without success.
    pub fn unregister(&mut self, registered: Registered) {
        if let Some(at) = self.entries.iter().position(|e| e.id == registered.0) {
            let entry = self.entries.swap_remove(at);
            let files = entry.inputs.iter().flat_map(|i| &i.files);
            files.for_each(|f| f.set_being_compacted(false));
        }
    }

    /// Nothing is being compacted.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Some compaction reads L0 files.
    pub fn level0_busy(&self) -> bool {
        self.entries.iter().any(|e| e.inputs.first().is_some_and(|i| i.level == 0))
    }

    /// Some compaction takes files out of L0.
    pub fn leaves_level0(&self) -> bool {
        let leaves = |entry: &Entry| {
            entry.inputs.first().is_some_and(|input| input.level == 0)
                && entry.outputs.first().is_none_or(|output| output.level != 0)
        };
        self.entries.iter().any(leaves)
    }

    /// Every file being compacted, with its level: scores leave these out.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
        let inputs = self.entries.iter().flat_map(|e| &e.inputs);
        inputs.flat_map(|i| i.files.iter().map(move |f| (i.level, f)))
    }

    /// Some compaction writes to `level` inside `range`.
    pub fn writes_into(&self, level: usize, range: &UserRange<'_>, cmp: &Comparator) -> bool {
        let outputs = self.entries.iter().flat_map(|entry| &entry.outputs);
        let mut at_level = outputs.filter(|output| output.level == level);
        at_level.any(|output| output.range().overlaps(range, cmp))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::sync::Arc;

    use pumice_base::key::CustomComparator;

    use super::*;

    /// Like a comparator that reads numbers from its keys.
    struct FixedWidth;

    impl CustomComparator for FixedWidth {
        fn name(&self) -> &str {
            "fixed width"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            let number = |key: &[u8]| u32::from_be_bytes(key.try_into().expect("four bytes"));
            number(a).cmp(&number(b))
        }
    }

    /// The user's comparator sees user keys only.
    #[pumice_test_macros::test]
    fn files_that_only_go_are_compared_with_nothing() {
        let cmp = Comparator::Custom(Arc::new(FixedWidth));
        let range = UserRange::closed(Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 9]));
        let file = Arc::new(FileMetaData::default());
        let mut running = RunningCompactions::default();
        let going = running.reserve_files(vec![InputLevel::new(3, vec![Arc::clone(&file)])]);
        assert!((0..7).all(|level| !running.writes_into(level, &range, &cmp)));
        assert!(file.is_being_compacted() && !running.is_empty() && !running.level0_busy());
        let coming = running.reserve(2, &range, Vec::new());
        assert!(running.writes_into(2, &range, &cmp) && !running.writes_into(3, &range, &cmp));
        running.unregister(coming);
        running.unregister(going);
        assert!(!file.is_being_compacted() && running.is_empty());
    }
}
