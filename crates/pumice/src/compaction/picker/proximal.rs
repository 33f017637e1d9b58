//! The second output of compactions into the last level: the level above it, where young entries
//! stay (`preclude_last_level_data_seconds`). RocksDB calls it proximal.
//!
//! What goes there must overlap no file of the level that stays, and nothing that another
//! compaction writes there. So entries go up only inside the range of the inputs above the last
//! level, and only those that come from them: what is newer than every input of the last level. In
//! universal compaction, where no file of the level stays, entries of the last level may go up as
//! well. Where that cannot be had, all goes to the last level.
//!
//! A compaction whose entries would all stay where they are changes nothing: automatic picks leave
//! files alone that are wholly young.
//!
//! Pure, like the rest of the picker. Not here: from which sequence number on entries are young,
//! which the job finds out (`compaction::placement`).

use std::collections::BTreeSet;
use std::sync::Arc;

use pumice_base::SequenceNumber;
use pumice_manifest::{FileMetaData, Preclusion, UserRange};

use super::running::OutputRange;
use super::{InputLevel, PickContext};

/// See the module head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProximalOutput {
    /// What may be written there.
    pub range: OutputRange,
    /// Entries up to this one stay in the last level.
    pub kept_through: SequenceNumber,
}

/// Which files have only young entries.
#[derive(Clone, Copy, Debug)]
pub struct Young {
    /// Since when young ones are written, unix seconds.
    pub since: u64,
    /// Newer entries than the oldest snapshot count as young; `u64::MAX` without one.
    pub oldest_snapshot: SequenceNumber,
}

impl Young {
    fn is_whole(&self, file: &FileMetaData) -> bool {
        file.oldest_ancester_time > self.since || file.smallest_seq > self.oldest_snapshot
    }
}

impl PickContext<'_> {
    /// The level above the last one, if young entries stay there.
    pub(super) fn proximal_level(&self) -> Option<usize> {
        let is_on = self.options.preclusion != Preclusion::Off;
        self.version.num_levels().checked_sub(2).filter(|level| is_on && *level > 0)
    }

    /// The second output of a compaction of `inputs` into `output_level`, if it may have one.
    pub(super) fn proximal_output(
        &self,
        inputs: &[InputLevel],
        output_level: usize,
    ) -> Option<ProximalOutput> {
        let level = self.proximal_level().filter(|level| level + 1 == output_level)?;
        let taken = inputs.iter().filter(|input| input.level == level).flat_map(|i| &i.files);
        let taken: BTreeSet<u64> = taken.map(|file| file.number).collect();
        let stays = |file: &&Arc<FileMetaData>| !taken.contains(&file.number);
        let mut staying = self.version.files(level).iter().filter(stays).peekable();
        let whole = self.options.preclusion == Preclusion::Universal && staying.peek().is_none();
        let safe = |input: &&InputLevel| whole || input.level != output_level;
        let mut safe = inputs.iter().filter(safe).flat_map(|input| &input.files).peekable();
        safe.peek()?;
        let icmp = self.version.comparator();
        let range = UserRange::of_files(icmp, safe);
        if staying.any(|file| UserRange::of_file(file).overlaps(&range, &icmp.user)) {
            return None;
        }
        let last = inputs.iter().filter(|input| input.level == output_level);
        let newest = last.flat_map(|input| &input.files).map(|file| file.largest_seq).max();
        let kept_through = if whole { 0 } else { newest.unwrap_or(0) };
        Some(ProximalOutput { range: OutputRange::new(level, &range), kept_through })
    }

    /// Another compaction writes where `output` would.
    pub(super) fn conflicts_at_proximal(&self, output: Option<&ProximalOutput>) -> bool {
        let conflicts = |output: &ProximalOutput| {
            let OutputRange { level, .. } = output.range;
            self.running.writes_into(level, &output.range.range(), &self.version.comparator().user)
        };
        output.is_some_and(conflicts)
    }

    /// A compaction of these files of `level` into the level below would leave all that is in them
    /// where it is.
    pub(super) fn stays_young<'f>(
        &self,
        level: usize,
        files: impl IntoIterator<Item = &'f Arc<FileMetaData>>,
    ) -> bool {
        let is_proximal = self.proximal_level() == Some(level);
        let young = self.young.filter(|_| is_proximal);
        young.is_some_and(|young| files.into_iter().all(|file| young.is_whole(file)))
    }
}
