//! Flush: memtables become one L0 table file.
//!
//! `write_level0` is shared with recovery: memtables in, file out. Which column families are
//! flushed together is decided in `grouping`; `engine::flush_job` picks the memtables and installs
//! the result.
//!
//! Thread safety: one flush of a column family at a time (`CfState::flush`); flushes of
//! different column families run in parallel. Suspends on I/O.

pub(crate) mod dead_ranges;
pub(crate) mod grouping;
pub(crate) mod stripping;

use std::collections::BTreeSet;
use std::sync::Arc;

use pumice_base::extension::CompactionFilter;
use pumice_base::key::append_internal_key;
use pumice_base::planted::{self, Bug};
use pumice_base::range_tombstone::FragmentedTombstones;
use pumice_base::{
    Error, FileNumber, InternalIterator, InternalKey, Result, SequenceNumber, ValueType,
};
use pumice_env::filename::TableDirs;
use pumice_env::{JobIo, JobProgress};
use pumice_manifest::edit::BlobFileAddition;
use pumice_manifest::{BeyondCursor, Version};
use pumice_memtable::MemTable;
use pumice_port::lane::at_normal_priority;
use pumice_port::sync::Mutex;
use pumice_table::{SeqnoToTimeMapping, TableReadOptions, TableReason};

use crate::options::CompactionFilterContext;
use crate::options::codec::flush_compression;
use crate::read::guarded::memtable_source;
use crate::read::merging_iterator::MergingIterator;
use crate::read::value::plain;
use crate::stats::listener::TableFileCreationReason;
use crate::stats::thread_status::{JobNote, JobTraffic, ThreadStage};
use crate::table_output::blob_output::{BlobOutput, BlobSpec};
use crate::table_output::compaction_iterator::{
    CompactionIterator, CompactionSettings, TimeBounds,
};
use crate::table_output::env::OutputEnv;
use crate::table_output::filter_bits::{self, Runs};
use crate::table_output::output_file::{EntryTimes, OutputFile, OutputSpec, WrittenFile};
use crate::table_output::tombstones::{of_memtables, surviving};
use crate::table_output::value::InputValues;
use crate::version::family::CfData;

/// What a flush or a recovery makes.
pub(crate) struct FlushOutput<'a> {
    /// The table, which L0 gets.
    pub number: FileNumber,
    pub epoch: u64,
    pub reason: TableReason,
    /// All files that are older than the memtables, if that is known.
    pub older: Option<Arc<Version>>,
    /// When entries were written, if the table is to have it.
    pub times: Option<Arc<SeqnoToTimeMapping>>,
    /// Gets the numbers of blob files, which the caller discards unless it installs the table.
    pub blob_files: &'a Mutex<Vec<FileNumber>>,
    /// Is told how far it is.
    pub note: JobNote,
}

/// What a flush or a recovery has written.
pub(crate) struct Flushed {
    pub file: WrittenFile,
    pub blob_files: Vec<BlobFileAddition>,
}

impl FlushOutput<'_> {
    /// What may be dropped of keys with timestamps.
    fn time_bounds(&self, cf: &CfData) -> TimeBounds {
        let keys = cf.key_forms();
        if cf.table_keys.stripped {
            return TimeBounds { keys, ..TimeBounds::default() };
        }
        let low = self.older.as_ref().and_then(|older| older.full_history_ts_low().cloned());
        TimeBounds { keys, low, ..TimeBounds::default() }
    }

    /// Where the versions are that a deletion of `mems` may hide; None: anywhere. Few deletions are
    /// written as they are, as RocksDB does with all.
    fn beyond(&self, cf: &CfData, mems: &[Arc<MemTable>]) -> Option<BeyondCursor> {
        let options = cf.options();
        let min = u64::from(options.min_tombstones_for_range_conversion);
        let deletes: u64 = mems.iter().map(|mem| mem.num_deletes()).sum();
        let version = self.older.as_ref().filter(|version| {
            min > 0
                && deletes >= min
                && !options.cf_allow_ingest_behind
                && !version.is_overlapping()
        })?;
        Some(version.cursor_of_memtables())
    }
}

/// The sorted runs of the family once `mems` are a file of L0.
fn runs(cf: &CfData, mems: &[Arc<MemTable>]) -> Runs {
    let version = Arc::clone(&cf.super_version.load().version);
    let bytes = mems.iter().map(|mem| mem.data_bytes()).sum();
    Runs::after(&version, &BTreeSet::new(), 0, bytes)
}

/// What the file that `mems` become is for.
fn spec(cf: &CfData, mems: &[Arc<MemTable>], flushed: &FlushOutput<'_>) -> OutputSpec {
    let now = pumice_port::time::wall_seconds();
    OutputSpec {
        number: flushed.number,
        path_id: TableDirs::OWN,
        level: 0,
        base_level: 1,
        bottommost: false,
        deepest: false,
        compression: flush_compression(&cf.options()),
        epoch: flushed.epoch,
        written: EntryTimes { oldest_ancestor: now, newest: now, samples: flushed.times.clone() },
        temperature: None,
        expected_bytes: 0,
        target_bytes: 0,
        reason: flushed.reason,
        filter_policy: filter_bits::policy(cf, || runs(cf, mems)),
    }
}

/// Writes `mems` into a file of L0; None if nothing is left to write. Writes are charged to `io`.
///
/// # Errors
/// I/O, Corruption if entries were lost; the caller then has to discard the file.
pub(crate) fn write_level0(
    env: &dyn OutputEnv,
    cf: &CfData,
    mems: &[Arc<MemTable>],
    flushed: &FlushOutput<'_>,
    io: Option<&Arc<JobIo>>,
) -> Result<Option<Flushed>> {
    if let Some(owner) = &cf.tables().index_owner {
        at_normal_priority(|| owner.sync())?;
    }
    let stripped =
        cf.table_keys.stripped.then(|| stripping::without_timestamps(cf, mems)).transpose()?;
    let (given, mems) = (mems, stripped.as_deref().unwrap_or(mems));
    let reason = flushed.reason;
    let sources = mems.iter().map(memtable_source).collect();
    let input = MergingIterator::new(cf.table_keys.icmp.clone(), sources);
    let (tombstones, snapshots) =
        at_normal_priority(|| (of_memtables(mems, cf.table_order()), env.snapshots()));
    let settings = CompactionSettings {
        comparator: cf.table_keys.icmp.clone(),
        snapshots: snapshots.sequences.clone(),
        earliest_write_conflict_snapshot: snapshots.earliest_write_conflict,
        merge_operator: cf.merge_operator(),
        merge_failure_scope: cf.options().merge_operator_failure_scope,
        compaction_filter: filter(cf, reason),
        level: 0,
        bottommost: false,
        tombstones: tombstones.clone(),
        end: None,
        beyond: flushed.beyond(cf, mems),
        values: InputValues::of(flushed.older.clone(), None, &TableReadOptions::default()),
        limits: env.limits(),
        times: flushed.time_bounds(cf),
        enforce_single_del_contracts: env.db_options().enforce_single_del_contracts,
    };
    let mut entries = CompactionIterator::new(input, settings);
    let spec = spec(cf, mems, flushed);
    let mut output = OutputFile::create(env, cf, spec, io)?;
    let numbers = flushed.blob_files;
    let of_blobs = BlobSpec { level: 0, reason, relocation: None, mover: None, io, numbers };
    let mut blobs = BlobOutput::new(env, cf, of_blobs)?;
    flushed.note.at(ThreadStage::FlushWriteL0);
    let _traffic = write_entries(&mut entries, &mut blobs, &mut output, io, &flushed.note)?;
    if env.db_options().flush_verify_memtable_count {
        verify_count(given, entries.counts().entries_in)?;
    }
    if let Some(list) = &tombstones {
        add_tombstones(cf, list, &snapshots.sequences, &flushed.time_bounds(cf), &mut output)?;
    }
    if output.is_empty() {
        return output.abandon().map(|()| None);
    }
    let blob_files = blobs.map_or_else(|| Ok(Vec::new()), BlobOutput::finish)?;
    let file = output.finish(env, cf)?;
    if !planted::is(Bug::FlushDirNotSynced) {
        env.file_system().sync_dir(cf.dirs.dir(TableDirs::OWN))?;
    }
    Ok(Some(Flushed { file, blob_files }))
}

/// Entries between two reports of what was written.
const ENTRIES_PER_NOTE: u32 = 1024;

/// What RocksDB's TimedPut wrote has a time after its value, where tables have a sequence number.
/// It becomes an ordinary value, as RocksDB's does if no sample is as old; `key` keeps its key. One
/// that is malformed stays as it is, for readers to find.
fn without_time<'a>(
    (ikey, value): (InternalKey<'a>, &'a [u8]),
    key: &'a mut Vec<u8>,
) -> (InternalKey<'a>, &'a [u8]) {
    let (sequence, tag) = ikey.sequence_and_type();
    if tag != ValueType::ValuePreferredSeqno as u8 {
        return (ikey, value);
    }
    let Ok(value) = plain(tag, value) else { return (ikey, value) };
    key.clear();
    append_internal_key(key, ikey.user_key(), sequence, ValueType::Value as u8);
    (InternalKey::new(key), value)
}

/// Adds all `entries` to `output`; large values go to `blobs` if there are some. Returns what
/// counts the rest of the writes.
fn write_entries<I: InternalIterator>(
    entries: &mut CompactionIterator<I>,
    blobs: &mut Option<BlobOutput<'_>>,
    output: &mut OutputFile,
    io: Option<&Arc<JobIo>>,
    note: &JobNote,
) -> Result<JobTraffic> {
    let mut traffic = note.count_io();
    entries.seek_to_first();
    let mut progress = JobProgress::new(io.map(|io| &**io));
    let mut until_note = ENTRIES_PER_NOTE;
    let mut untimed = Vec::new();
    while entries.valid() {
        let entry = (InternalKey::new(entries.key()), entries.value());
        let entry = without_time(entry, &mut untimed);
        let (key, value) = match blobs {
            None => entry,
            Some(blobs) => blobs.place(entry.0, entry.1)?,
        };
        output.add(key, value)?;
        let bytes = entries.key().len() + entries.value().len();
        entries.next();
        progress.at(entries.counts().entries_in, bytes);
        until_note -= 1;
        if until_note == 0 {
            until_note = ENTRIES_PER_NOTE;
            traffic.note();
        }
    }
    entries.status()?;
    progress.report(entries.counts().entries_in);
    Ok(traffic)
}

/// Adds what of `list` has to be written.
fn add_tombstones(
    cf: &CfData,
    list: &FragmentedTombstones,
    snapshots: &[SequenceNumber],
    times: &TimeBounds,
    output: &mut OutputFile,
) -> Result<()> {
    let left = surviving(list, cf.table_order(), (None, None), snapshots, times, false).0;
    left.iter().try_for_each(|tombstone| output.add_tombstone(cf, tombstone))
}

/// The filter of a flush or recovery; few factories have one.
fn filter(cf: &CfData, reason: TableReason) -> Option<Arc<dyn CompactionFilter>> {
    let options = cf.options();
    let factory = options.compaction_filter_factory.as_ref()?;
    let reason = match reason {
        TableReason::Recovery => TableFileCreationReason::Recovery,
        _ => TableFileCreationReason::Flush,
    };
    let context = CompactionFilterContext {
        is_full_compaction: false,
        is_manual_compaction: false,
        column_family_id: cf.id,
        input_start_level: -1,
        output_level: 0,
        reason,
    };
    factory.should_filter(reason).then(|| factory.create_compaction_filter(&context))?
}

/// The merge must have read every point entry of the memtables, copies or not.
fn verify_count(mems: &[Arc<MemTable>], read: u64) -> Result<()> {
    let held: u64 = mems.iter().map(|mem| mem.num_entries() - mem.num_range_deletes()).sum();
    if read != held {
        return Err(Error::corruption(format!(
            "Number of keys read during flush: {read}, memtables hold {held}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
