//! The files of a request, between their check and the change of the MANIFEST that names them:
//! where each goes, and what the MANIFEST says of it.
//!
//! Thread safety: plain data with one owner; places are chosen under the lock of the state.

use std::sync::Arc;

use pumice_base::file_checksum::FileChecksum;
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result, SequenceNumber};
use pumice_env::Temperature;
use pumice_manifest::{FileMetaData, UserRange, VersionEdit};
use pumice_port::time;
use pumice_table::unique_id_of;

use crate::compaction::picker::InputLevel;
use crate::ingest::external::ExternalFile;
use crate::ingest::place::{self, Demand, Place, Tree};
use crate::ingest::source::FileIdentity;
use crate::ingest::transfer::Transferred;
use crate::ingest::{IngestExternalFileOptions, RangeOpt, replace};
use crate::options::CompactionStyle;
use crate::state::family::CfState;
use crate::version::family::CfData;
use crate::version::table_cache::file_stats;

/// Epoch of files that are ingested behind all others.
const BEHIND_EPOCH: u64 = 1;

/// A request whose files have been checked and copied or linked.
pub(super) struct Prepared {
    pub cf: Arc<CfData>,
    pub options: IngestExternalFileOptions,
    pub files: Vec<Incoming>,
    /// The range of the tree that the files replace.
    pub replaces: Option<RangeOpt>,
    /// The files of the tree that are removed for it, once they are known.
    pub replaced: Vec<InputLevel>,
    /// Numbers of files in each batch, see `place`.
    pub batches: Vec<usize>,
}

/// One of its files.
pub(super) struct Incoming {
    pub external: ExternalFile,
    pub transferred: Transferred,
    /// Which file the caller's name was, if the commit removes the name.
    pub moved: Option<FileIdentity>,
    pub checksum: FileChecksum,
    pub temperature: Temperature,
    pub placed: Placed,
}

/// The temperature of files that are copied into the database. Their level is not known yet, except
/// where it must be the last.
pub(super) fn temperature_of_copies(cf: &CfData, asked: &IngestExternalFileOptions) -> Temperature {
    let options = cf.options();
    match asked.ingest_behind || asked.fail_if_not_bottommost_level {
        true => options.last_level_temperature,
        false => options.default_write_temperature,
    }
}

/// Where a file went.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub level: usize,
    pub sequence: SequenceNumber,
    pub epoch: u64,
}

impl Prepared {
    /// The range of the tree that the files replace.
    pub fn replaced_range(&self) -> Result<Option<UserRange<'_>>> {
        self.replaces.as_ref().map(|range| replace::range_of(range, &self.options)).transpose()
    }

    /// After files of other requests with the same family and options were added.
    ///
    /// # Errors
    /// The options do not allow that they overlap.
    pub fn check_joined(&mut self) -> Result<()> {
        let ranges: Vec<UserRange<'_>> =
            self.files.iter().map(|file| file.external.range()).collect();
        let comparator = self.cf.table_order();
        let overlapping = place::any_overlap(&ranges, comparator);
        place::check_demand((&self.cf, &self.options), overlapping, self.replaces.is_some())?;
        self.batches = place::batches(&ranges, comparator);
        Ok(())
    }

    /// Places every file; `first` is the newest sequence number in use. Returns the newest one
    /// after that.
    pub fn place(
        &mut self,
        cf: &mut CfState,
        overlaps: &[Option<usize>],
        snapshots: bool,
        first: SequenceNumber,
    ) -> Result<SequenceNumber> {
        let version = Arc::clone(&cf.version);
        let options = self.options.clone();
        let fifo = cf.data.options().compaction_style == CompactionStyle::Fifo;
        let own_sequences = options.allow_db_generated_files;
        let mut demand = Demand {
            sequenced: (self.batches.len() > 1 && !own_sequences)
                || (options.snapshot_consistency
                    && snapshots
                    && !planted::is(Bug::IngestIgnoresSnapshots)),
            // FIFO compaction has no other level.
            below: fifo.then_some(0),
            only_last_level: options.fail_if_not_bottommost_level,
            own_sequences,
            replaces: self.replaces.is_some(),
        };
        let tree = Tree {
            version: &version,
            base_level: cf.plan.base_level(),
            running: cf.plan.running(),
        };
        let replaced = self.replaced_range()?;
        let replaced = replaced.map(|range| replace::replaced(&tree, &range)).transpose()?;
        self.replaced = replaced.unwrap_or_default();
        let mut last = first;
        let mut at = 0;
        for &len in &self.batches {
            let mut uppermost = usize::MAX;
            for (file, overlap) in self.files[at..at + len].iter_mut().zip(&overlaps[at..]) {
                let range = file.external.range();
                let Place { level, sequenced } = match options.ingest_behind {
                    true => tree.place_behind(&range)?,
                    false => tree.place(&range, *overlap, demand)?,
                };
                let sequence = if sequenced { last + 1 } else { 0 };
                if sequence != file.external.stored_seqno && !options.allow_global_seqno {
                    return Err(Error::invalid_argument("Global seqno is required, but disabled"));
                }
                last = last.max(sequence).max(file.external.largest_sequence());
                uppermost = uppermost.min(level);
                let epoch = if options.ingest_behind { BEHIND_EPOCH } else { cf.next.epoch };
                cf.next.epoch += u64::from(!options.ingest_behind);
                file.placed = Placed { level, sequence, epoch };
            }
            demand.below = Some(uppermost);
            at += len;
        }
        Ok(last)
    }

    pub fn edit(&self, last_sequence: SequenceNumber) -> VersionEdit {
        let stripped = self.cf.table_keys.stripped;
        let new = |file: &Incoming| (file.placed.level, file.metadata(stripped));
        let of_level = |input: &InputLevel| {
            let level = input.level;
            input.files.iter().map(|file| (level, file.number)).collect::<Vec<_>>()
        };
        VersionEdit {
            column_family: self.cf.id,
            last_sequence: Some(last_sequence),
            new_files: self.files.iter().map(new).collect(),
            deleted_files: self.replaced.iter().flat_map(of_level).collect(),
            ..VersionEdit::default()
        }
    }
}

impl Incoming {
    fn metadata(&self, stripped: bool) -> Arc<FileMetaData> {
        let (external, placed) = (&self.external, self.placed);
        let properties = &external.properties;
        let (smallest, largest) = external.bounds_at(placed.sequence);
        let (now, (min_timestamp, max_timestamp)) = (time::wall_seconds(), external.timestamps());
        let tail_start = properties.tail_start_offset;
        let lone_tombstone = properties.num_range_deletions == 1 && properties.num_entries == 1;
        let (smallest_seq, largest_seq) =
            external.own_sequences.unwrap_or((placed.sequence, placed.sequence));
        let meta = FileMetaData {
            number: external.number,
            file_size: external.bytes,
            smallest,
            largest,
            smallest_seq,
            largest_seq,
            epoch_number: placed.epoch,
            oldest_ancester_time: now,
            file_creation_time: now,
            unique_id: unique_id_of(properties).unwrap_or([0, 0]),
            tail_size: if tail_start > 0 { external.bytes.saturating_sub(tail_start) } else { 0 },
            marked_for_compaction: lone_tombstone,
            timestamps_stripped: stripped,
            min_timestamp,
            max_timestamp,
            file_checksum: self.checksum.value.clone(),
            file_checksum_func_name: self.checksum.function.clone(),
            temperature: self.temperature as u8,
            ..FileMetaData::default()
        };
        meta.stats.get_or_init(|| file_stats(properties));
        Arc::new(meta)
    }
}
