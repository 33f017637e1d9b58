//! Where the entries that a subcompaction keeps are written: tables of one level, or of two, where
//! young entries stay above the last level (`placement`).
//!
//! Each level has a writer of its own, which cuts its tables and gives each its share of the range
//! tombstones. Blobs are written by one for both.
//!
//! Thread safety: one owner. Invariant: entries come in the order of their keys, all versions of a
//! user key to one table of a level. Suspends on I/O.

use std::sync::Arc;

use pumice_base::range_tombstone::RangeTombstone;
use pumice_base::{FileNumber, InternalKey, Result, SequenceNumber, UserKey};
use pumice_manifest::FileMetaData;
use pumice_table::TableReason;

use crate::blob::references::References;
use crate::compaction::cut::OutputCut;
use crate::compaction::subcompaction::{JobContext, SubcompactionResult};
use crate::options::ColumnFamilyOptions;
use crate::stats::thread_status::ThreadStage;
use crate::table_output::blob_output::BlobOutput;
use crate::table_output::filter_bits;
use crate::table_output::output_file::{EntryTimes, OutputFile, OutputSpec};
use crate::table_output::tombstones;

/// The bounds of a subcompaction: user keys, None is open.
type Bounds = (Option<Vec<u8>>, Option<Vec<u8>>);

/// See the module head.
pub(super) struct Outlet<'a> {
    main: Writer<'a>,
    /// What is newer than this goes to a level of its own.
    young: Option<(SequenceNumber, Writer<'a>)>,
    blobs: Option<BlobOutput<'a>>,
}

impl<'a> Outlet<'a> {
    /// The outlet of the part of `job` inside `bounds`.
    pub fn new(
        job: &'a JobContext,
        options: &ColumnFamilyOptions,
        bounds: &Bounds,
        blobs: Option<BlobOutput<'a>>,
    ) -> Self {
        let young = job.written.placement.map(|placement| {
            let written = EntryTimes {
                oldest_ancestor: job.written.entries.oldest_ancestor.max(placement.written),
                ..job.written.entries.clone()
            };
            let share = Share { level: placement.level, written, is_young: true };
            (placement.after, Writer::new(job, options, bounds, share))
        });
        let written = job.written.entries.clone();
        let share = Share { level: job.pick.output_level, written, is_young: false };
        Outlet { main: Writer::new(job, options, bounds, share), young, blobs }
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// I/O; Corruption of an old blob.
    #[inline]
    pub fn add(&mut self, ikey: InternalKey<'_>, value: &[u8]) -> Result<()> {
        let writer = match &mut self.young {
            Some((after, young)) if ikey.sequence() > *after => young,
            _ => &mut self.main,
        };
        writer.add(ikey, value, &mut self.blobs)
    }

    /// Ends the outputs, with the tombstones that are left, and adds them to `result`.
    ///
    /// # Errors
    /// I/O.
    pub fn finish(self, result: &mut SubcompactionResult) -> Result<()> {
        let Outlet { main, young, blobs } = self;
        result.files = main.finish(result)?;
        if let Some((_, young)) = young {
            result.young_files = young.finish(result)?;
        }
        if let Some(blobs) = blobs {
            result.blob_files = blobs.finish()?;
        }
        Ok(())
    }
}

/// What of the output a writer writes.
struct Share {
    level: usize,
    written: EntryTimes,
    /// The entries that stay above the last level.
    is_young: bool,
}

struct Writer<'a> {
    job: &'a JobContext,
    share: Share,
    cut: OutputCut,
    /// What follows the data blocks counts against the target.
    is_upper_bound: bool,
    output: Option<OutputFile>,
    /// Lower bound of the tombstones that belong to the next output.
    low: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    files: Vec<Arc<FileMetaData>>,
    blobs_out: References,
    helper_cpu_micros: u64,
    dropped_tombstones: u64,
}

impl<'a> Writer<'a> {
    fn new(
        job: &'a JobContext,
        options: &ColumnFamilyOptions,
        (low, end): &Bounds,
        share: Share,
    ) -> Self {
        let pick = &job.pick;
        // What is below young entries is written by the same job.
        let grandparents = if share.is_young { Vec::new() } else { pick.grandparents.clone() };
        let cut = OutputCut::new(
            job.cf.table_order().clone(),
            grandparents,
            pick.target_output_file_size,
            pick.max_output_file_size,
            pick.max_compaction_bytes,
        );
        Writer {
            job,
            share,
            cut: cut.by_prefix(options.sst_partitioner_factory.prefix_len()),
            is_upper_bound: options.target_file_size_is_upper_bound,
            output: None,
            low: low.clone(),
            end: end.clone(),
            files: Vec::new(),
            blobs_out: References::default(),
            helper_cpu_micros: 0,
            dropped_tombstones: 0,
        }
    }

    #[inline]
    fn add(
        &mut self,
        ikey: InternalKey<'_>,
        value: &[u8],
        blobs: &mut Option<BlobOutput<'a>>,
    ) -> Result<()> {
        let key = ikey.user_key();
        let split = match &self.output {
            None => {
                self.cut.before(key, 0);
                false
            }
            // Versions of one user key never go to different files.
            Some(output) => {
                let last = output.last_key();
                let same = last.len() == ikey.len() && last.user_key().has_bytes_of(key);
                !same
                    && self.cut.before(key, self.counted_bytes(output, ikey, value))
                    && !self.job.cf.table_order().same_user_key(last.user_key(), key)
            }
        };
        if split {
            let boundary = key.to_vec();
            self.close(Some(boundary))?;
        }
        if self.output.is_none() {
            self.open()?;
        }
        let (ikey, value) = match blobs {
            None => (ikey, value),
            Some(blobs) => blobs.place(ikey, value)?,
        };
        match &mut self.output {
            Some(output) => output.add(ikey, value),
            None => Ok(()),
        }
    }

    /// What counts against the target of `output`, before the given entry.
    #[inline]
    fn counted_bytes(&self, output: &OutputFile, ikey: InternalKey<'_>, value: &[u8]) -> u64 {
        let data = output.estimated_data_bytes();
        if self.is_upper_bound {
            self.whole_bytes(data, output, ikey.as_bytes(), value)
        } else {
            data
        }
    }

    /// Includes the entry and everything after the data blocks, but the latter only up to half of
    /// the target, so that a file holds data however small its target is.
    #[cold]
    fn whole_bytes(&self, data: u64, output: &OutputFile, ikey: &[u8], value: &[u8]) -> u64 {
        let rest = output.estimated_tail_bytes() + (ikey.len() + value.len()) as u64;
        data + rest.min(self.job.pick.target_output_file_size / 2)
    }

    fn open(&mut self) -> Result<()> {
        let number = self.job.env.begin_output();
        self.job.outputs.tables.lock().push(number);
        let (job, spec) = (self.job, self.spec(number));
        self.output = Some(OutputFile::create(&*job.env, &job.cf, spec, job.io.as_ref())?);
        self.cut.started();
        Ok(())
    }

    fn spec(&self, number: FileNumber) -> OutputSpec {
        OutputSpec {
            number,
            path_id: self.job.pick.outputs.path_id,
            level: self.share.level,
            base_level: self.job.base_level,
            bottommost: self.job.pick.bottommost && !self.share.is_young,
            deepest: self.job.pick.deepest && !self.share.is_young,
            compression: self.job.pick.outputs.compression,
            epoch: self.job.pick.output_epoch(),
            written: self.share.written.clone(),
            temperature: self.job.pick.outputs.temperature,
            expected_bytes: self.job.expected_bytes,
            target_bytes: match self.share.level {
                0 => 0, // Never cut.
                _ => self.job.pick.max_output_file_size,
            },
            reason: match self.job.pick.start_level {
                0 => TableReason::CompactionLevel0,
                _ => TableReason::Compaction,
            },
            filter_policy: filter_bits::policy(&self.job.cf, || self.job.runs(self.share.level)),
        }
    }

    /// Tombstones between `low` and `high` that have to be written here; counts those that are not
    /// needed anywhere.
    fn tombstones(&mut self, high: Option<UserKey<'_>>) -> Vec<RangeTombstone> {
        let Some(list) = &self.job.tombstones else { return Vec::new() };
        let (mut left, done) = tombstones::surviving(
            list,
            self.job.cf.table_order(),
            (self.low.as_deref().map(UserKey::new), high),
            &self.job.snapshots.sequences,
            &self.job.time_bounds(),
            self.job.pick.bottommost,
        );
        if let Some(placement) = &self.job.written.placement {
            left.retain(|tombstone| (tombstone.seq > placement.after) == self.share.is_young);
        }
        self.dropped_tombstones += if self.share.is_young { 0 } else { done };
        left
    }

    /// Ends the present output, which gets tombstones up to `high`.
    fn close(&mut self, high: Option<Vec<u8>>) -> Result<()> {
        let tombstones = self.tombstones(high.as_deref().map(UserKey::new));
        if self.output.is_none() {
            if tombstones.is_empty() {
                return Ok(());
            }
            self.open()?;
        }
        let Some(mut output) = self.output.take() else { return Ok(()) };
        for tombstone in &tombstones {
            output.add_tombstone(&self.job.cf, tombstone)?;
        }
        self.low = high;
        self.job.outputs.note.at(ThreadStage::CompactionSyncFile);
        let written = output.finish(&*self.job.env, &self.job.cf)?;
        self.job.outputs.note.at(ThreadStage::CompactionProcessKv);
        self.helper_cpu_micros += written.helper_cpu_micros;
        self.blobs_out.merge(written.references);
        let (path, bytes) = (self.job.cf.table_of(&written.meta), written.meta.file_size);
        self.files.push(written.meta);
        self.job.env.end_output(&path, bytes)
    }

    /// Ends the last output; returns all, and counts in `result`.
    fn finish(mut self, result: &mut SubcompactionResult) -> Result<Vec<Arc<FileMetaData>>> {
        let end = self.end.take();
        self.close(end)?;
        result.blobs_out.merge(self.blobs_out);
        result.helper_cpu_micros += self.helper_cpu_micros;
        result.counts.dropped_tombstones += self.dropped_tombstones;
        Ok(self.files)
    }
}
