//! One table file under construction, with the metadata that the MANIFEST will hold.
//!
//! Used by flush, recovery and compaction alike.
//!
//! Thread safety: one owner. Invariants: (1) entries come in internal-key order; (2) `smallest` and
//! `largest` bound every entry and every range tombstone of the file
//! (docs/format/manifest.md#rules-for-a-writer). Writing suspends.

use std::sync::Arc;

use pumice_base::hash::hash64_seeded;
use pumice_base::key::{self, MAX_SEQUENCE};
use pumice_base::narrow::small_i32;
use pumice_base::range_tombstone::RangeTombstone;
use pumice_base::{Error, FileNumber, InternalKey, Result, ValueType};
use pumice_compress::CompressionType;
use pumice_env::filename::PathId;
use pumice_env::{BufferedWriter, FileOptions, JobIo, Temperature, WriterOptions};
use pumice_filter::FilterPolicy;
use pumice_manifest::FileMetaData;
use pumice_port::helpers::HelperPool;
use pumice_port::lane::at_normal_priority;
use pumice_table::{
    SeqnoToTimeMapping, TableBuildContext, TableBuilder, TableReadOptions, TableReason, unique_id,
};

use crate::blob::references::{References, may_refer};
use crate::callbacks::key_forms::KeyForms;
use crate::options::codec::compression_of;
use crate::options::{ColumnFamilyOptions, CompactionStyle as Style};
use crate::stats::{HistogramKind, Record};
use crate::table_output::env::OutputEnv;
use crate::table_output::table_collectors::Collectors;
use crate::version::family::CfData;
use crate::version::identity::host_id;
use crate::version::table_cache::file_stats;

/// When the entries of a table were written, in seconds since 1970.
#[derive(Clone, Debug)]
pub(crate) struct EntryTimes {
    /// Since when the oldest of them has been in the tree.
    pub oldest_ancestor: u64,
    /// None was written later; 0 if unknown.
    pub newest: u64,
    /// Samples, if the table is to have them.
    pub samples: Option<Arc<SeqnoToTimeMapping>>,
}

/// The purpose of a new table; decides compression, filter and recorded times.
#[derive(Clone, Debug)]
pub(crate) struct OutputSpec {
    pub number: FileNumber,
    /// The directory that it is written into.
    pub path_id: PathId,
    pub level: usize,
    pub base_level: usize,
    pub bottommost: bool,
    /// See `CompactionPick::deepest`.
    pub deepest: bool,
    /// See `OutputForm::compression`.
    pub compression: Option<CompressionType>,
    pub epoch: u64,
    pub written: EntryTimes,
    /// See `OutputForm::temperature`.
    pub temperature: Option<Temperature>,
    /// Bytes the file will have, roughly; 0 if unknown.
    pub expected_bytes: u64,
    /// Bytes at which the file will end; 0 if only its contents end it.
    pub target_bytes: u64,
    pub reason: TableReason,
    /// The filter's policy in place of the table options'.
    pub filter_policy: Option<FilterPolicy>,
}

impl OutputSpec {
    /// What the job asks for, or the options: those of the family's last level before others.
    fn temperature(&self, options: &ColumnFamilyOptions) -> Temperature {
        let is_last = i32::try_from(self.level + 1) == Ok(options.num_levels);
        let last = Some(options.last_level_temperature);
        self.temperature
            .or(last.filter(|last| is_last && *last != Temperature::Unknown))
            .unwrap_or(options.default_write_temperature)
    }
}

/// A finished file.
pub(crate) struct WrittenFile {
    pub meta: Arc<FileMetaData>,
    /// CPU time that other threads spent on it, microseconds.
    pub helper_cpu_micros: u64,
    /// The blobs that its entries refer to.
    pub references: References,
}

/// See the module head.
pub(crate) struct OutputFile {
    spec: OutputSpec,
    builder: TableBuilder,
    smallest: Vec<u8>,
    /// Largest end of a range tombstone; the builder knows the last point entry.
    largest_end: Vec<u8>,
    creation_time: u64,
    temperature: Temperature,
    collectors: Collectors,
    keys: KeyForms,
    references: References,
    /// Digest of the entries so far, with `paranoid_file_checks`.
    digest: Option<u64>,
}

impl OutputFile {
    /// Creates file `spec.number` in its directory. Writes are charged to `io`.
    ///
    /// # Errors
    /// I/O.
    pub fn create(
        env: &dyn OutputEnv,
        cf: &CfData,
        spec: OutputSpec,
        io: Option<&Arc<JobIo>>,
    ) -> Result<Self> {
        let settings = cf.settings();
        let options = &settings.options;
        let path = cf.dirs.table(spec.path_id, spec.number);
        let (db_options, (db_id, db_session_id)) = (env.db_options(), env.ids());
        let temperature = spec.temperature(options);
        let direct = db_options.use_direct_io_for_flush_and_compaction;
        let how = FileOptions { direct, temperature, ..FileOptions::default() };
        // Creating a file locks the directory in the kernel, and writers create logs in it.
        let file = at_normal_priority(|| env.file_system().create(&path, &how))?;
        let creation_time = pumice_port::time::wall_seconds();
        let (compression, compression_opts) =
            compression_of(options, spec.level, spec.base_level, spec.deepest, spec.compression);
        let context = TableBuildContext {
            table: Arc::clone(&settings.table),
            comparator: cf.table_keys.icmp.clone(),
            stripped_of: options.stripped_of(),
            compression,
            compression_opts,
            compression_manager: options.compression_manager,
            column_family_id: cf.id,
            column_family_name: cf.name.clone(),
            level: small_i32(spec.level),
            is_leveled: matches!(options.compaction_style, Style::Level | Style::Universal),
            oldest_ancestor_time: spec.written.oldest_ancestor,
            oldest_key_time: 0,
            newest_key_time: spec.written.newest,
            file_creation_time: creation_time,
            original_file_number: spec.number,
            db_id: db_id.to_string(),
            db_session_id: db_session_id.to_string(),
            db_host_id: host_id(&db_options),
            merge_operator_name: options.merge_operator.as_ref().map(|m| m.name().to_string()),
            prefix_extractor: options.prefix_extractor.clone(),
            filter_policy: spec.filter_policy,
            skip_filters: options.optimize_filters_for_hits && spec.bottommost,
            reason: spec.reason,
            target_file_size: spec.target_bytes,
            helpers: Some(HelperPool::shared()),
            time_codec: env.statistics().as_ref().is_some_and(|s| s.wants_detailed_timers()),
            stats: cf.tables().receiver(spec.level),
            filter_balance: Some(Arc::clone(&cf.filter_balance)),
            sample_for_compression: options.sample_for_compression,
            seqno_times: spec.written.samples.clone(),
            user_collected: Vec::new(),
            property_collectors: Collectors::names(options),
            limits: env.limits(),
        };
        let (priority, events) = env.pace(spec.reason);
        let writer = db_options.paced_table_writer(spec.expected_bytes, priority, events);
        let writer = BufferedWriter::new(file, WriterOptions { job: io.cloned(), ..writer })
            .with_checksum(db_options.file_checksum_gen_factory.generator(&path, ""));
        Ok(OutputFile {
            collectors: Collectors::new(options, cf.id, small_i32(spec.level)),
            spec,
            builder: TableBuilder::new(context, writer)?,
            smallest: Vec::new(),
            largest_end: Vec::new(),
            creation_time,
            temperature,
            keys: cf.key_forms(),
            references: References::default(),
            digest: options.paranoid_file_checks.then_some(0),
        })
    }

    /// Appends a point entry.
    ///
    /// # Errors
    /// I/O; the file is then useless.
    #[inline]
    pub fn add(&mut self, ikey: InternalKey<'_>, value: &[u8]) -> Result<()> {
        if self.smallest.is_empty() {
            self.smallest.extend_from_slice(ikey.as_bytes());
        }
        if let Some(digest) = &mut self.digest {
            *digest = extend_digest(*digest, ikey, value);
        }
        if !self.collectors.is_empty() {
            self.collectors.add(ikey, value, self.builder.file_size());
        }
        let tag = ikey.sequence_and_type().1;
        if may_refer(tag, value) {
            self.references.add(self.keys.whole_len(ikey.user_key()), tag, value)?;
        }
        self.builder.add(ikey.as_bytes(), value)
    }

    /// Adds a range tombstone that belongs to this file. The bounds grow to its ends.
    ///
    /// # Errors
    /// I/O.
    pub fn add_tombstone(&mut self, cf: &CfData, tombstone: &RangeTombstone) -> Result<()> {
        let (start, end) = (tombstone.stored_start(), tombstone.stored_end());
        let first = key::internal_key(&start, tombstone.seq, ValueType::RangeDeletion);
        let last = key::internal_key(tombstone.end(), MAX_SEQUENCE, ValueType::RangeDeletion);
        self.builder.add(&first, &end)?;
        self.collectors.add(InternalKey::new(&first), &end, self.builder.file_size());
        if self.smallest.is_empty()
            || cf
                .table_keys
                .icmp
                .compare(InternalKey::new(&first), InternalKey::new(&self.smallest))
                .is_lt()
        {
            self.smallest = first;
        }
        if self.largest_end.is_empty()
            || cf
                .table_keys
                .icmp
                .compare(InternalKey::new(&last), InternalKey::new(&self.largest_end))
                .is_gt()
        {
            self.largest_end = last;
        }
        Ok(())
    }

    /// Bytes of the data blocks if the file ended now, roughly.
    #[inline]
    pub fn estimated_data_bytes(&self) -> u64 {
        self.builder.estimated_data_size()
    }

    /// Bytes of everything after them; an upper estimate.
    pub fn estimated_tail_bytes(&self) -> u64 {
        self.builder.estimated_tail_size()
    }

    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.smallest.is_empty()
    }

    /// The last internal key added as a point entry; empty before the first.
    #[inline]
    pub fn last_key(&self) -> InternalKey<'_> {
        InternalKey::new(self.builder.last_key())
    }

    /// The end of the file's range.
    fn largest(&self, cf: &CfData) -> Vec<u8> {
        let (point, end) = (self.last_key(), InternalKey::new(&self.largest_end));
        let by_point =
            !point.is_empty() && (end.is_empty() || cf.table_keys.icmp.compare(point, end).is_gt());
        if by_point { point.to_vec() } else { end.to_vec() }
    }

    /// Finishes the table and makes it durable; making its directory entry durable is left to the
    /// caller.
    ///
    /// # Errors
    /// I/O; Corruption if `paranoid_file_checks` reads something other than what was written. The
    /// file is then useless and must not be installed.
    pub fn finish(mut self, env: &dyn OutputEnv, cf: &CfData) -> Result<WrittenFile> {
        let largest = self.largest(cf);
        let (min_timestamp, max_timestamp) = self.collectors.times().cloned().unwrap_or_default();
        let marked_for_compaction = self.collectors.finish(&mut self.builder)?;
        self.builder.finish()?;
        let timer = env.statistics().timer();
        self.builder.finish_file(true, env.db_options().use_fsync)?;
        let kind = match self.spec.reason {
            TableReason::Flush | TableReason::Recovery => HistogramKind::TableSyncMicros,
            _ => HistogramKind::CompactionOutfileSyncMicros,
        };
        timer.stop(env.statistics(), kind);
        let stats = self.builder.stats();
        let helper_cpu_micros = at_normal_priority(|| env.built(stats));
        let (smallest_seq, largest_seq) = self.builder.seqno_bounds().unwrap_or((MAX_SEQUENCE, 0));
        let (db_id, db_session_id) = env.ids();
        let checksum = self.builder.file_checksum().cloned().unwrap_or_default();
        let meta = FileMetaData {
            number: self.spec.number,
            path_id: self.spec.path_id,
            file_size: self.builder.file_size(),
            smallest: self.smallest,
            largest,
            smallest_seq,
            largest_seq,
            epoch_number: self.spec.epoch,
            oldest_ancester_time: self.spec.written.oldest_ancestor,
            file_creation_time: self.creation_time,
            unique_id: unique_id(db_id, db_session_id, self.spec.number).unwrap_or([0, 0]),
            tail_size: self.builder.tail_size(),
            marked_for_compaction,
            timestamps_stripped: cf.table_keys.stripped,
            min_timestamp,
            max_timestamp,
            oldest_blob_file_number: self.references.oldest(),
            file_checksum: checksum.value,
            file_checksum_func_name: checksum.function,
            temperature: self.temperature as u8,
            ..FileMetaData::default()
        };
        meta.stats.get_or_init(|| file_stats(self.builder.properties()));
        if let Some(digest) = self.digest {
            verify(cf, &meta, digest)?;
        }
        cf.tables().open_new(&meta, self.spec.level)?;
        let references = self.references;
        Ok(WrittenFile { meta: Arc::new(meta), helper_cpu_micros, references })
    }

    /// Abandons the file; it stays on disk until obsolete files are deleted.
    ///
    /// # Errors
    /// I/O of closing it.
    pub fn abandon(self) -> Result<()> {
        self.builder.abandon()
    }
}

fn extend_digest(digest: u64, ikey: InternalKey<'_>, value: &[u8]) -> u64 {
    hash64_seeded(value, hash64_seeded(ikey.as_bytes(), digest))
}

/// Reads the file back: every block must be intact and the entries must be those that were added.
fn verify(cf: &CfData, file: &FileMetaData, expected: u64) -> Result<()> {
    let tables = cf.tables();
    let table = tables.table(file)?;
    table.verify_checksums()?;
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let mut iter = table.share()?.iter(&options);
    let mut digest = 0;
    iter.seek_to_first();
    while iter.valid() {
        digest = extend_digest(digest, iter.key(), iter.value());
        iter.next();
    }
    iter.status()?;
    if digest != expected {
        return Err(Error::corruption(format!(
            "Paranoid checksums do not match: table file {:06}",
            file.number
        )));
    }
    Ok(())
}
