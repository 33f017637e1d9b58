//! One key range of a compaction: merge the inputs, filter, write output files.
//!
//! Thread safety: subcompactions of a job run in parallel and share only immutable data. They poll
//! the shutdown flag, so a closing database does not wait for them. Suspends on I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use pumice_base::extension::CompactionFilter;
use pumice_base::key::{InternalKey, append_internal_key};
use pumice_base::narrow::{round_down_u64, small_i32, to_usize};
use pumice_base::range_tombstone::FragmentedTombstones;
use pumice_base::{Error, FileNumber, InternalIterator, Result, SequenceNumber};
use pumice_env::{IoActivity, JobIo, JobProgress, activity};
use pumice_manifest::blob::BlobFiles;
use pumice_manifest::edit::BlobFileAddition;
use pumice_manifest::{BeyondCursor, FileMetaData, Level, Version};
use pumice_port::lane::Floor;
use pumice_port::sync::Mutex;
use pumice_port::time::thread_cpu_nanos;
use pumice_table::{TableReadOptions, TableReason};

use crate::blob::references::References;
use crate::compaction::compaction_env::{CompactionEnv, LaneKind};
use crate::compaction::outlet::Outlet;
use crate::compaction::picker::CompactionPick;
use crate::compaction::placement::Placement;
use crate::compaction::timed_filter;
use crate::lock_order;
use crate::options::requests::{BlobGarbageCollectionPolicy, CancelFlag, CompactRangeOptions};
use crate::options::{ColumnFamilyOptions, CompactionFilterContext};
use crate::read::level_iterator::LevelIterator;
use crate::read::merging_iterator::MergingIterator;
use crate::read::source::Source;
use crate::snapshot::LiveSnapshots;
use crate::stats::listener::{CompactionReason, SubcompactionJobInfo, TableFileCreationReason};
use crate::stats::thread_status::{JobNote, JobTraffic, ThreadStage};
use crate::table_output::blob_output::{BlobOutput, BlobSpec, Relocation};
use crate::table_output::compaction_iterator::{
    CompactionIterator, CompactionSettings, TimeBounds,
};
use crate::table_output::counts::IterationCounts;
use crate::table_output::filter_bits::Runs;
use crate::table_output::metered::Metered;
use crate::table_output::output_file::EntryTimes;
use crate::table_output::value::InputValues;
use crate::version::family::CfData;

/// Keys between two checks of the shutdown flag.
const KEYS_PER_POLL: u32 = 1024;

/// What the caller of a manual compaction wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// The switch that ends it.
    pub canceled: Option<CancelFlag>,
    /// Versions with newer timestamps are dropped; None: none are.
    pub trim_above: Option<Arc<[u8]>>,
    /// Whether old blobs are written anew; None: as the family's options say.
    pub collects: Option<bool>,
    /// The share of the blob files that counts as old; None: that of the family's options.
    pub age_cutoff: Option<f64>,
}

impl Asked {
    /// What `options` say.
    pub fn of(options: &CompactRangeOptions) -> Self {
        let policy = options.blob_garbage_collection_policy;
        let cutoff = options.blob_garbage_collection_age_cutoff;
        let overrides = policy != BlobGarbageCollectionPolicy::Disable;
        Asked {
            canceled: options.canceled.clone(),
            trim_above: options.trim_above.as_deref().map(Arc::from),
            collects: match policy {
                BlobGarbageCollectionPolicy::Force => Some(true),
                BlobGarbageCollectionPolicy::Disable => Some(false),
                BlobGarbageCollectionPolicy::UseDefault => None,
            },
            age_cutoff: Some(cutoff).filter(|cutoff| overrides && (0.0..=1.0).contains(cutoff)),
        }
    }
}

/// When the entries of the input were written.
pub(crate) struct InputTimes {
    /// As far as it is known to files.
    pub entries: EntryTimes,
    /// See [`TimeBounds::zeroed_to`].
    pub zeroed_to: Option<SequenceNumber>,
    /// Where what goes; None: all to the output level.
    pub placement: Option<Placement>,
}

/// State that all subcompactions of a job share.
pub(crate) struct JobContext {
    pub env: Arc<dyn CompactionEnv>,
    pub cf: Arc<CfData>,
    pub version: Arc<Version>,
    pub pick: CompactionPick,
    pub base_level: usize,
    pub snapshots: LiveSnapshots,
    pub tombstones: Option<Arc<FragmentedTombstones>>,
    pub written: InputTimes,
    /// Bytes of an output file, roughly.
    pub expected_bytes: u64,
    /// The account of its writes.
    pub io: Option<Arc<JobIo>>,
    pub lane: LaneKind,
    pub floor: Floor,
    /// The switch of the caller that asked for it; None if it is an automatic one.
    pub manual: Option<Asked>,
    /// What listeners are told of each part.
    pub part: SubcompactionJobInfo,
    pub outputs: Outputs,
}

/// What the parts tell while they run: numbers of output files, finished or not, and how far they
/// are.
pub(crate) struct Outputs {
    pub tables: Mutex<Vec<FileNumber>>,
    pub blobs: Mutex<Vec<FileNumber>>,
    pub note: JobNote,
}

impl Default for Outputs {
    fn default() -> Self {
        let none = || Mutex::ranked(&lock_order::JOB_OUTPUTS, Vec::new());
        Outputs { tables: none(), blobs: none(), note: JobNote::default() }
    }
}

impl JobContext {
    /// The sorted runs once this job is done, if nothing of what it reads goes, and all of it goes
    /// to `level`.
    pub fn runs(&self, level: usize) -> Runs {
        let inputs = self.pick.input_files().map(|(_, file)| file.number).collect();
        Runs::after(&self.version, &inputs, level, self.pick.input_bytes())
    }

    /// What may be dropped of keys with timestamps.
    pub fn time_bounds(&self) -> TimeBounds {
        let (keys, zeroed_to) = (self.cf.key_forms(), self.written.zeroed_to);
        if self.version.is_stripped() {
            return TimeBounds { keys, zeroed_to, ..TimeBounds::default() };
        }
        TimeBounds {
            keys,
            zeroed_to,
            low: self.version.full_history_ts_low().cloned(),
            trim_above: self.manual.as_ref().and_then(|asked| asked.trim_above.clone()),
        }
    }

    /// An error if the result is no longer wanted.
    fn check_wanted(&self) -> Result<()> {
        if self.cf.is_dropped() {
            return Err(Error::column_family_dropped(self.cf.name.clone()));
        }
        if let Some(asked) = &self.manual {
            self.env.check_manual(asked.canceled.as_ref())?;
        }
        self.env.check_open()
    }
}

/// What a subcompaction produced.
#[derive(Default)]
pub(crate) struct SubcompactionResult {
    /// In the output level.
    pub files: Vec<Arc<FileMetaData>>,
    /// In the level above, see [`Placement`].
    pub young_files: Vec<Arc<FileMetaData>>,
    pub counts: IterationCounts,
    /// The blobs that its input refers to, and those that its output does.
    pub blobs_in: References,
    pub blobs_out: References,
    pub blob_files: Vec<BlobFileAddition>,
    pub cpu_micros: u64,
    /// The share of helpers in it.
    pub helper_cpu_micros: u64,
    /// Subcompactions summed up here.
    pub parts: usize,
}

/// Compacts user keys in `[start, end)` at the job's priority; None is an open end.
///
/// # Errors
/// I/O, corruption of an input, a failed merge, ColumnFamilyDropped, Aborted when the database
/// closes.
pub(crate) fn run(
    job: &JobContext,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
) -> Result<SubcompactionResult> {
    let lane = job.env.lane(job.lane);
    let result = lane.run(&job.floor, || {
        let _inside = job.env.enter_job(); // Lanes have threads of their own.
        job.outputs.note.at(ThreadStage::CompactionProcessKv);
        activity::during(IoActivity::Compaction, || compact(job, start, end))
    });
    if let Ok(part) = &result {
        lane.add_cpu_nanos(part.helper_cpu_micros * 1000);
    }
    result
}

fn compact(
    job: &JobContext,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
) -> Result<SubcompactionResult> {
    let cpu = thread_cpu_nanos();
    let options = job.cf.options();
    let settings = CompactionSettings {
        comparator: job.cf.table_keys.icmp.clone(),
        snapshots: job.snapshots.sequences.clone(),
        earliest_write_conflict_snapshot: job.snapshots.earliest_write_conflict,
        merge_operator: job.cf.merge_operator(),
        merge_failure_scope: options.merge_operator_failure_scope,
        compaction_filter: filter(job, &options),
        level: small_i32(job.pick.output_level),
        bottommost: job.pick.bottommost,
        tombstones: job.tombstones.clone(),
        end: end.clone(),
        beyond: beyond(job, &options),
        values: input_values(job),
        limits: job.env.limits(),
        times: job.time_bounds(),
        enforce_single_del_contracts: job.env.db_options().enforce_single_del_contracts,
    };
    let input = MergingIterator::new(job.cf.table_keys.icmp.clone(), sources(job)?);
    let mut output = Kept {
        outlet: Outlet::new(
            job,
            &options,
            &(start.clone(), end.clone()),
            blob_output(job, &options)?,
        ),
        values: input_values(job),
    };
    let (counts, blobs_in) = if job.version.blob_files().is_empty() {
        let entries = CompactionIterator::new(input, settings);
        (write_all(job, entries, &start, &mut output)?.0, References::default())
    } else {
        let metered = Metered::new(input, job.cf.table_order().clone(), job.cf.key_forms(), end);
        let entries = CompactionIterator::new(metered, settings);
        let (counts, metered) = write_all(job, entries, &start, &mut output)?;
        (counts, metered.into_references())
    };
    let mut result =
        SubcompactionResult { counts, blobs_in, parts: 1, ..SubcompactionResult::default() };
    output.outlet.finish(&mut result)?;
    result.cpu_micros = (thread_cpu_nanos() - cpu) / 1000 + result.helper_cpu_micros;
    Ok(result)
}

/// What is below the output. Older L0 files may lie beside an output of L0, and older files may be
/// ingested below all others: then nothing is known.
fn beyond(job: &JobContext, options: &ColumnFamilyOptions) -> Option<BeyondCursor> {
    let known = job.pick.output_level > 0 && !options.cf_allow_ingest_behind;
    known.then(|| job.version.beyond_cursor(job.pick.output_level))
}

/// The filter of this key range, timed.
fn filter(job: &JobContext, options: &ColumnFamilyOptions) -> Option<Arc<dyn CompactionFilter>> {
    let filter = users_filter(job, options)?;
    Some(timed_filter::timed(filter, job.env.statistics().as_ref()))
}

/// The filter of this key range that the user gave.
fn users_filter(
    job: &JobContext,
    options: &ColumnFamilyOptions,
) -> Option<Arc<dyn CompactionFilter>> {
    if options.compaction_filter.is_some() {
        return options.compaction_filter.clone();
    }
    let factory = options.compaction_filter_factory.as_ref()?;
    let reason = TableFileCreationReason::Compaction;
    let inputs = job.pick.input_files().count();
    let context = CompactionFilterContext {
        is_full_compaction: inputs == job.version.num_files(),
        is_manual_compaction: job.pick.reason == CompactionReason::ManualCompaction,
        column_family_id: job.cf.id,
        input_start_level: small_i32(job.pick.start_level),
        output_level: small_i32(job.pick.output_level),
        reason,
    };
    factory.should_filter(reason).then(|| factory.create_compaction_filter(&context))?
}

/// The values of the input, some of which may be in blob files.
fn input_values(job: &JobContext) -> InputValues {
    // What a compaction reads is garbage, or elsewhere, when it ends.
    let options = TableReadOptions {
        fill_cache: false,
        io_priority: Some(job.env.pace(TableReason::Compaction).0),
        ..TableReadOptions::default()
    };
    InputValues::of(Some(Arc::clone(&job.version)), Some(Arc::clone(&job.cf)), &options)
}

/// What becomes of large values, and of old blobs; None if all stay as they are.
fn blob_output<'a>(
    job: &'a JobContext,
    options: &ColumnFamilyOptions,
) -> Result<Option<BlobOutput<'a>>> {
    let asked = job.manual.as_ref();
    let collects = asked.and_then(|asked| asked.collects);
    let collects = collects.unwrap_or(options.enable_blob_garbage_collection);
    let cutoff = asked.and_then(|asked| asked.age_cutoff);
    let cutoff = cutoff.unwrap_or(options.blob_garbage_collection_age_cutoff);
    let relocation = collects.then(|| Relocation {
        below: old_blob_files(job.version.blob_files(), cutoff),
        values: input_values(job),
        readahead_bytes: options.blob_compaction_readahead_size,
        ahead: BTreeMap::new(),
    });
    let spec = BlobSpec {
        level: job.pick.output_level,
        reason: TableReason::Compaction,
        relocation: relocation.filter(|_| !job.version.blob_files().is_empty()),
        mover: job.cf.tables().index_owner.as_ref().and_then(|owner| Arc::clone(owner).mover()),
        io: job.io.as_ref(),
        numbers: &job.outputs.blobs,
    };
    BlobOutput::new(&*job.env, &job.cf, spec)
}

/// The number below which are the given share of the blob files, the oldest ones.
fn old_blob_files(blobs: &BlobFiles, share: f64) -> FileNumber {
    let count = round_down_u64(share * blobs.len() as f64);
    blobs.keys().nth(to_usize(count)).copied().unwrap_or(FileNumber::MAX)
}

/// Where what is kept goes, and where its values are found.
struct Kept<'a> {
    outlet: Outlet<'a>,
    values: InputValues,
}

/// Writes what is to be kept of the part that begins at `start`.
fn write_all<I: InternalIterator>(
    job: &JobContext,
    mut entries: CompactionIterator<I>,
    start: &Option<Vec<u8>>,
    output: &mut Kept<'_>,
) -> Result<(IterationCounts, I)> {
    let mut traffic = job.outputs.note.count_io();
    match start {
        Some(start) => entries.seek(start),
        None => entries.seek_to_first(),
    }
    write_entries(job, &mut entries, output, &mut traffic)?;
    Ok((entries.counts(), entries.into_input()))
}

/// Writes the rest of the input.
fn write_entries<I: InternalIterator>(
    job: &JobContext,
    entries: &mut CompactionIterator<I>,
    output: &mut Kept<'_>,
    traffic: &mut JobTraffic,
) -> Result<()> {
    let mut until_poll = KEYS_PER_POLL;
    let mut progress = JobProgress::new(job.io.as_deref());
    while entries.valid() {
        let (ikey, value) = (InternalKey::new(entries.key()), entries.value());
        let (sequence, tag) = ikey.sequence_and_type();
        match output.values.take_in(ikey.user_key(), tag, value)? {
            None => output.outlet.add(ikey, value)?,
            Some(found) => {
                let (tag, value) = found.stored();
                let mut key = Vec::with_capacity(ikey.len());
                append_internal_key(&mut key, ikey.user_key(), sequence, tag);
                output.outlet.add(InternalKey::new(&key), value)?;
            }
        }
        let bytes = entries.key().len() + entries.value().len();
        entries.next();
        progress.at(entries.counts().entries_in, bytes);
        until_poll -= 1;
        if until_poll == 0 {
            until_poll = KEYS_PER_POLL;
            job.check_wanted()?;
            traffic.note();
        }
    }
    entries.status()?;
    progress.report(entries.counts().entries_in);
    Ok(())
}

/// The inputs: each L0 file by itself, every other level as one.
fn sources(job: &JobContext) -> Result<Vec<Source>> {
    let options = TableReadOptions {
        fill_cache: false,
        readahead_size: to_usize(job.env.db_options().compaction_readahead_size),
        total_order_seek: true,
        io_priority: Some(job.env.pace(TableReason::Compaction).0),
        ..TableReadOptions::default()
    };
    let tables = job.cf.tables();
    let settings = job.env.db_options();
    let direct = settings.use_direct_io_for_compaction_reads && !settings.use_direct_reads;
    let mut sources = Vec::new();
    for input in &job.pick.inputs {
        if input.level == 0 {
            for file in &input.files {
                let table = match direct {
                    true => tables.open_direct(file, 0)?,
                    false => tables.table_at(file, 0)?.share()?,
                };
                sources.push(Source::Table(table.iter(&options)));
            }
        } else {
            let level = Level::new(input.level, input.files.clone(), job.cf.table_order());
            let iter = LevelIterator::new(
                Arc::clone(&tables),
                job.cf.table_keys.icmp.clone(),
                Arc::new(level),
                options.clone(),
            );
            sources.push(Source::Level(iter.direct(direct)));
        }
    }
    Ok(sources)
}
