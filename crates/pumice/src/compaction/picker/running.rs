//! The compactions under way in one column family.
//!
//! Thread safety: plain data under the engine's lock. Invariant: exactly the input files of the
//! entries are flagged as being compacted. A reservation is an entry whose inputs, if any, go
//! without being compacted.

use std::sync::Arc;

use pumice_base::{Comparator, InternalKeyComparator};
use pumice_manifest::{FileMetaData, UserRange};

use super::{CompactionPick, InputLevel};

#[derive(Debug)]
struct Entry {
    id: u64,
    output_level: usize,
    inputs: Vec<InputLevel>,
    begin: Vec<u8>,
    end: Vec<u8>,
    end_open: bool,
}

/// Registry of running compactions.
#[derive(Debug, Default)]
pub struct RunningCompactions {
    entries: Vec<Entry>,
    next_id: u64,
}

impl RunningCompactions {
    /// Flags the input files of `pick` and remembers its range. Returns the id for
    /// [`Self::unregister`].
    pub fn register(&mut self, pick: &CompactionPick, icmp: &InternalKeyComparator) -> u64 {
        for (_, file) in pick.input_files() {
            debug_assert!(!file.is_being_compacted());
            file.set_being_compacted(true);
        }
        let range = UserRange::of_files(icmp, pick.inputs.iter().flat_map(|i| &i.files));
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push(Entry {
            id,
            output_level: pick.output_level,
            begin: range.begin.unwrap_or_default().to_vec(),
            end: range.end.unwrap_or_default().to_vec(),
            end_open: range.end_open,
            inputs: pick.inputs.clone(),
        });
        id
    }

    /// Reserves `range` on `level` for files that come from outside the tree; `replaced` are files
    /// that go in the same moment. Returns the id for [`Self::unregister`].
    pub fn reserve(
        &mut self,
        level: usize,
        range: &UserRange<'_>,
        replaced: Vec<InputLevel>,
    ) -> u64 {
        for file in replaced.iter().flat_map(|input| &input.files) {
            debug_assert!(!file.is_being_compacted());
            file.set_being_compacted(true);
        }
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push(Entry {
            id,
            output_level: level,
            begin: range.begin.unwrap_or_default().to_vec(),
            end: range.end.unwrap_or_default().to_vec(),
            end_open: range.end_open,
            inputs: replaced,
        });
        id
    }

    /// Forgets a compaction that ended, with or without success.
    pub fn unregister(&mut self, id: u64) {
        if let Some(at) = self.entries.iter().position(|e| e.id == id) {
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

    /// Every file being compacted, with its level: what scores leave out.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
        let inputs = self.entries.iter().flat_map(|e| &e.inputs);
        inputs.flat_map(|i| i.files.iter().map(move |f| (i.level, f)))
    }

    /// Some compaction writes to `level` inside `range`.
    pub fn writes_into(&self, level: usize, range: &UserRange<'_>, cmp: &Comparator) -> bool {
        self.entries.iter().filter(|e| e.output_level == level).any(|e| {
            let own = UserRange { begin: Some(&e.begin), end: Some(&e.end), end_open: e.end_open };
            own.overlaps(range, cmp)
        })
    }
}
