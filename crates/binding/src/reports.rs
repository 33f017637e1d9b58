//! What the engine reports, as objects of values: events, table properties, metadata of files.
//!
//! RocksDB's numbers of reasons are here. What the engine does not measure is 0 or empty.
//!
//! Thread safety: plain data.

use std::path::Path;

use pumice::{
    BackgroundErrorReason, CompactionJobInfo, CompactionReason, CompressionType,
    ExternalFileIngestionInfo, FlushJobInfo, FlushReason, LiveFile, MemTableInfo,
    SubcompactionJobInfo, WalFile, WriteStallCondition, WriteStallInfo,
};
use pumice_base::UserKey;
use pumice_env::filename::TableDirs;
use pumice_table::TableProperties;

use crate::store::{Fields, Store};

/// A report whose values are in a store; `children` are the reports in it.
macro_rules! report {
    ($(#[$meta:meta])* $name:ident, $class:literal {
        $($(#[$field_meta:meta])* $field:ident: $ty:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            store: Store,
            $($(#[$field_meta])* pub $field: $ty,)*
        }
        impl Default for $name {
            fn default() -> Self {
                $name { store: Store::named($class), $($field: <$ty>::default(),)* }
            }
        }
        impl Fields for $name {
            fn store(&self) -> &Store {
                &self.store
            }
            fn store_mut(&mut self) -> &mut Store {
                &mut self.store
            }
        }
    };
}

report! {
    /// `rocksdb_table_properties_t`.
    Properties, "table_properties" {
        /// What collectors wrote, by name.
        user_collected: Vec<(Vec<u8>, Vec<u8>)>,
    }
}

report! {
    /// `rocksdb_flushjobinfo_t`.
    FlushInfo, "flushjobinfo" {
        /// Of the new table; empty.
        table_properties: Properties,
    }
}

report! {
    /// `rocksdb_compaction_file_info_t`.
    CompactionFile, "compaction_file_info" {}
}

report! {
    /// `rocksdb_compaction_job_stats_t`.
    JobStats, "compaction_job_stats" {}
}

report! {
    /// `rocksdb_compactionjobinfo_t`.
    CompactionInfo, "compactionjobinfo" {
        /// What went wrong.
        status: Option<pumice::Error>,
        /// Paths of the inputs.
        input_files: Vec<Vec<u8>>,
        /// Paths of the outputs.
        output_files: Vec<Vec<u8>>,
        /// The inputs.
        input_infos: Vec<CompactionFile>,
        /// The outputs.
        output_infos: Vec<CompactionFile>,
        /// What the job did.
        stats: JobStats,
        /// Properties of inputs and outputs, by path.
        table_properties: Vec<(Vec<u8>, Properties)>,
    }
}

report! {
    /// `rocksdb_subcompactionjobinfo_t`.
    SubcompactionInfo, "subcompactionjobinfo" {
        /// What went wrong.
        status: Option<pumice::Error>,
        /// What the part did.
        stats: JobStats,
    }
}

report! {
    /// `rocksdb_memtableinfo_t`.
    MemTable, "memtableinfo" {}
}

report! {
    /// `rocksdb_externalfileingestioninfo_t`.
    Ingestion, "externalfileingestioninfo" {
        /// Of the ingested table.
        table_properties: Properties,
    }
}

report! {
    /// `rocksdb_writestallinfo_t`.
    Stall, "writestallinfo" {
        /// The present state, RocksDB's number.
        current: StallCondition,
        /// The state before.
        previous: StallCondition,
    }
}

/// `rocksdb_writestallcondition_t`: 0 delayed, 1 stopped, 2 normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallCondition(pub i32);

impl Default for StallCondition {
    fn default() -> Self {
        StallCondition(2)
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// RocksDB's number of a reason to flush.
pub fn flush_reason(reason: FlushReason) -> u64 {
    match reason {
        FlushReason::Others => 0,
        FlushReason::GetLiveFiles => 1,
        FlushReason::ShutDown => 2,
        FlushReason::ExternalFileIngestion => 3,
        FlushReason::ManualCompaction => 4,
        FlushReason::WriteBufferManager => 5,
        FlushReason::WriteBufferFull => 6,
        FlushReason::AutoCompaction => 9,
        FlushReason::ManualFlush => 10,
        FlushReason::ErrorRecovery => 11,
        FlushReason::WalFull => 13,
    }
}

/// RocksDB's number of a reason to compact.
pub fn compaction_reason(reason: CompactionReason) -> u64 {
    match reason {
        CompactionReason::LevelL0FilesNum => 1,
        CompactionReason::LevelMaxLevelSize => 2,
        CompactionReason::UniversalSizeAmplification => 3,
        CompactionReason::UniversalSizeRatio => 4,
        CompactionReason::UniversalSortedRunNum => 5,
        CompactionReason::FifoMaxSize => 6,
        CompactionReason::FifoReduceNumFiles => 7,
        CompactionReason::FifoTtl => 8,
        CompactionReason::ManualCompaction => 9,
        CompactionReason::FilesMarkedForCompaction => 10,
        CompactionReason::BottommostFiles => 11,
        CompactionReason::Ttl => 12,
        CompactionReason::PeriodicCompaction => 15,
        CompactionReason::ChangeTemperature => 16,
        CompactionReason::ForcedBlobGc => 17,
        CompactionReason::ReadTriggered => 20,
    }
}

/// RocksDB's number of what a background error interrupted.
pub fn background_error_reason(reason: BackgroundErrorReason) -> u32 {
    match reason {
        BackgroundErrorReason::Flush => 0,
        BackgroundErrorReason::Compaction => 1,
        BackgroundErrorReason::WriteCallback => 2,
        BackgroundErrorReason::MemTable => 3,
        BackgroundErrorReason::ManifestWrite => 4,
    }
}

impl FlushInfo {
    /// The report of a flush.
    pub fn new(info: &FlushJobInfo) -> FlushInfo {
        let mut report = FlushInfo::default();
        let store = &mut report.store;
        store.put("cf_id", u64::from(info.cf_id));
        store.put_text("cf_name", &info.cf_name);
        store.put_text("file_path", bytes(&info.file_path));
        store.put("file_number", info.file_number);
        store.put("job_id", info.job_id);
        store.put("triggered_writes_slowdown", u64::from(info.triggered_writes_slowdown));
        store.put("triggered_writes_stop", u64::from(info.triggered_writes_stop));
        store.put("smallest_seqno", info.smallest_seqno);
        store.put("largest_seqno", info.largest_seqno);
        store.put("flush_reason", flush_reason(info.flush_reason));
        report.table_properties = Properties::new(&info.table_properties);
        report
    }
}

impl CompactionFile {
    /// A file of a compaction.
    pub fn new(level: i32, number: u64) -> CompactionFile {
        let mut file = CompactionFile::default();
        file.store.put_int("level", i64::from(level));
        file.store.put("file_number", number);
        file
    }
}

impl CompactionInfo {
    /// The report of a compaction of the database in `dir`.
    pub fn new(info: &CompactionJobInfo, dir: &Path) -> CompactionInfo {
        let mut report = CompactionInfo { status: info.error.clone(), ..Self::default() };
        let dirs = TableDirs::of(dir);
        let path = |number: u64| match info.tables.get(&number) {
            Some(table) => bytes(&table.path).to_vec(),
            None => table_path(&dirs, number),
        };
        for (level, numbers) in &info.input_files {
            for &number in numbers {
                report.input_infos.push(CompactionFile::new(*level, number));
                report.input_files.push(path(number));
            }
        }
        for &number in &info.output_files {
            report.output_infos.push(CompactionFile::new(info.output_level, number));
            report.output_files.push(path(number));
        }
        let at_output = report.input_infos.iter();
        let output_level = i64::from(info.output_level);
        let at_output = at_output.filter(|f| f.store.int("level") == output_level).count() as u64;
        for table in info.tables.values() {
            let properties = Properties::new(&table.properties);
            report.table_properties.push((bytes(&table.path).to_vec(), properties));
        }
        report.store.put("table_properties_count", info.tables.len() as u64);
        report.fill(info, at_output);
        report.fill_stats(info, at_output);
        report
    }

    fn fill(&mut self, info: &CompactionJobInfo, at_output: u64) {
        let (inputs, outputs) = (self.input_infos.len() as u64, self.output_infos.len() as u64);
        let compression = CompressionType::from_property_name(info.output_compression);
        let store = &mut self.store;
        store.put("cf_id", u64::from(info.cf_id));
        store.put_text("cf_name", &info.cf_name);
        store.put("job_id", info.job_id);
        store.put_int("base_input_level", i64::from(info.base_input_level));
        store.put_int("output_level", i64::from(info.output_level));
        store.put("compaction_reason", compaction_reason(info.compaction_reason));
        store.put("compression", compression.map_or(0, |kind| kind as u64));
        for name in ["input_files_count", "input_file_infos_count", "num_input_files"] {
            store.put(name, inputs);
        }
        for name in ["output_files_count", "output_file_infos_count"] {
            store.put(name, outputs);
        }
        store.put("elapsed_micros", info.elapsed_micros);
        store.put("input_records", info.num_input_records);
        store.put("output_records", info.num_output_records);
        store.put("total_input_bytes", info.total_input_bytes);
        store.put("total_output_bytes", info.total_output_bytes);
        store.put("num_input_files_at_output_level", at_output);
    }

    fn fill_stats(&mut self, info: &CompactionJobInfo, at_output: u64) {
        let manual = info.compaction_reason == CompactionReason::ManualCompaction;
        let stats = &mut self.stats.store;
        stats.put("elapsed_micros", info.elapsed_micros);
        stats.put("cpu_micros", info.cpu_micros);
        stats.put("has_accurate_num_input_records", 1);
        stats.put("num_input_records", info.num_input_records);
        stats.put("num_output_records", info.num_output_records);
        stats.put("num_input_files", self.input_infos.len() as u64);
        stats.put("num_output_files", self.output_infos.len() as u64);
        stats.put("num_input_files_at_output_level", at_output);
        stats.put("is_manual_compaction", u64::from(manual));
        stats.put("total_input_bytes", info.total_input_bytes);
        stats.put("total_output_bytes", info.total_output_bytes);
    }
}

impl SubcompactionInfo {
    /// The report of a part of a compaction.
    pub fn new(info: &SubcompactionJobInfo) -> SubcompactionInfo {
        let mut report = SubcompactionInfo { status: info.error.clone(), ..Self::default() };
        let compression = CompressionType::from_property_name(info.output_compression);
        let store = &mut report.store;
        store.put("cf_id", u64::from(info.cf_id));
        store.put_text("cf_name", &info.cf_name);
        store.put("job_id", info.job_id);
        store.put("subcompaction_job_id", info.subcompaction_job_id as u64);
        store.put_int("base_input_level", i64::from(info.base_input_level));
        store.put_int("output_level", i64::from(info.output_level));
        store.put("compaction_reason", compaction_reason(info.compaction_reason));
        store.put("compression", compression.map_or(0, |kind| kind as u64));
        let stats = &mut report.stats.store;
        stats.put("elapsed_micros", info.elapsed_micros);
        stats.put("cpu_micros", info.cpu_micros);
        stats.put("num_input_records", info.num_input_records);
        stats.put("num_output_records", info.num_output_records);
        stats.put("num_output_files", info.num_output_files as u64);
        stats.put("total_output_bytes", info.total_output_bytes);
        report
    }
}

fn table_path(dirs: &TableDirs, number: u64) -> Vec<u8> {
    bytes(&dirs.table(TableDirs::OWN, number)).to_vec()
}

impl MemTable {
    /// The report of a sealed memtable.
    pub fn new(info: &MemTableInfo) -> MemTable {
        let mut report = MemTable::default();
        let store = &mut report.store;
        store.put_text("cf_name", &info.cf_name);
        store.put("first_seqno", info.first_seqno);
        store.put("earliest_seqno", info.earliest_seqno);
        store.put("num_entries", info.num_entries);
        store.put("num_deletes", info.num_deletes);
        report
    }
}

impl Ingestion {
    /// The report of an ingested table.
    pub fn new(info: &ExternalFileIngestionInfo) -> Ingestion {
        let table_properties = Properties::new(&info.table_properties);
        let mut report = Ingestion { table_properties, ..Self::default() };
        let store = &mut report.store;
        store.put_text("cf_name", &info.cf_name);
        store.put_text("external_file_path", bytes(&info.external_file_path));
        store.put_text("internal_file_path", bytes(&info.internal_file_path));
        store.put("global_seqno", info.global_seqno);
        report
    }
}

impl Stall {
    /// The report of a change of a write stall.
    pub fn new(info: &WriteStallInfo) -> Stall {
        let number = |condition| match condition {
            WriteStallCondition::Delayed => StallCondition(0),
            WriteStallCondition::Stopped => StallCondition(1),
            WriteStallCondition::Normal => StallCondition(2),
        };
        let (current, previous) = (number(info.current), number(info.previous));
        let mut report = Stall { current, previous, ..Self::default() };
        report.store.put_text("cf_name", &info.cf_name);
        report
    }
}

impl Properties {
    /// The properties of a table.
    pub fn new(table: &TableProperties) -> Properties {
        let mut report = Properties::default();
        for (name, value) in numbers(table) {
            report.store.put(name, value);
        }
        for (name, value) in texts(table) {
            report.store.put_text(name, value);
        }
        for name in ["has_key_largest_seqno", "has_key_smallest_seqno"] {
            report.store.put(name, 1);
        }
        let collected = table.user_collected.iter();
        report.user_collected = collected.map(|(k, v)| (k.clone(), v.clone())).collect();
        report
    }
}

fn numbers(table: &TableProperties) -> [(&'static str, u64); 35] {
    [
        ("orig_file_number", table.original_file_number),
        ("data_size", table.data_size),
        ("index_size", table.index_size),
        ("index_partitions", table.index_partitions),
        ("top_level_index_size", table.top_level_index_size),
        ("index_key_is_user_key", table.index_key_is_user_key),
        ("index_value_is_delta_encoded", table.index_value_is_delta_encoded),
        ("udi_is_primary_index", table.udi_is_primary_index),
        ("filter_size", table.filter_size),
        ("raw_key_size", table.raw_key_size),
        ("raw_value_size", table.raw_value_size),
        ("num_data_blocks", table.num_data_blocks),
        ("num_uniform_blocks", table.num_uniform_blocks),
        ("num_entries", table.num_entries),
        ("num_filter_entries", table.num_filter_entries),
        ("num_deletions", table.num_deletions),
        ("num_merge_operands", table.num_merge_operands),
        ("num_range_deletions", table.num_range_deletions),
        ("format_version", table.format_version),
        ("fixed_key_len", table.fixed_key_len),
        ("column_family_id", table.column_family_id),
        ("creation_time", table.creation_time),
        ("oldest_key_time", table.oldest_key_time),
        ("newest_key_time", table.newest_key_time),
        ("file_creation_time", table.file_creation_time),
        ("slow_compression_estimated_data_size", table.slow_compression_size),
        ("fast_compression_estimated_data_size", table.fast_compression_size),
        ("external_sst_file_global_seqno_offset", table.global_seqno_offset),
        ("tail_start_offset", table.tail_start_offset),
        ("user_defined_timestamps_persisted", table.user_timestamps_persisted),
        ("key_largest_seqno", table.key_largest_seqno),
        ("key_smallest_seqno", table.key_smallest_seqno),
        ("data_block_restart_interval", table.data_block_restart_interval),
        ("index_block_restart_interval", table.index_block_restart_interval),
        ("separate_key_value_in_data_block", table.separate_key_value_in_data_block),
    ]
}

fn texts(table: &TableProperties) -> [(&'static str, &[u8]); 12] {
    [
        ("db_id", table.db_id.as_bytes()),
        ("db_session_id", table.db_session_id.as_bytes()),
        ("db_host_id", table.db_host_id.as_bytes()),
        ("column_family_name", table.column_family_name.as_bytes()),
        ("filter_policy_name", table.filter_policy.as_bytes()),
        ("comparator_name", table.comparator.as_bytes()),
        ("merge_operator_name", table.merge_operator.as_bytes()),
        ("prefix_extractor_name", table.prefix_extractor.as_bytes()),
        ("property_collectors_names", table.property_collectors.as_bytes()),
        ("compression_name", table.compression.as_bytes()),
        ("compression_options", table.compression_options.as_bytes()),
        ("seqno_to_time_mapping", &table.seqno_time_map),
    ]
}

/// `rocksdb_wal_file_t`.
pub fn wal_file(file: &WalFile) -> Store {
    Store::named("wal_file")
        .with_text("path_name", &file.path_name)
        .with("log_number", file.log_number)
        .with("type", file.file_type as u64)
        .with("start_sequence", file.start_sequence)
        .with("size_file_bytes", file.size_file_bytes)
}

report! {
    /// `rocksdb_column_family_metadata_t`.
    FamilyMetadata, "column_family_metadata" {
        /// One for each level.
        levels: Vec<LevelMetadata>,
    }
}

report! {
    /// `rocksdb_level_metadata_t`.
    LevelMetadata, "level_metadata" {
        /// The backup's tables.
        files: Vec<FileMetadata>,
    }
}

report! {
    /// `rocksdb_sst_file_metadata_t`.
    FileMetadata, "sst_file_metadata" {}
}

/// Which tables metadata is asked for.
#[derive(Clone, Debug, Default)]
pub struct MetadataRange {
    /// A level; None for all.
    pub level: Option<usize>,
    /// Tables that end before this key are left out.
    pub start: Option<Vec<u8>>,
    /// Tables that begin after this key are left out.
    pub end: Option<Vec<u8>>,
}

impl MetadataRange {
    fn takes(&self, file: &LiveFile, order: &pumice::Comparator) -> bool {
        let compare = |a: &[u8], b: &[u8]| order.compare(UserKey::new(a), UserKey::new(b));
        let ends_before = |start: &Vec<u8>| compare(&file.largest_key, start).is_lt();
        let begins_after = |end: &Vec<u8>| compare(&file.smallest_key, end).is_gt();
        self.level.is_none_or(|level| level == file.level)
            && !self.start.as_ref().is_some_and(ends_before)
            && !self.end.as_ref().is_some_and(begins_after)
    }
}

impl FamilyMetadata {
    /// The tables of the column family `name`, by level.
    pub fn new(
        name: &str,
        levels: usize,
        files: &[LiveFile],
        range: &MetadataRange,
        order: &pumice::Comparator,
    ) -> FamilyMetadata {
        let mut metadata = FamilyMetadata::default();
        let own = files.iter().filter(|file| file.column_family_name == name);
        let own: Vec<&LiveFile> = own.filter(|file| range.takes(file, order)).collect();
        for level in 0..levels {
            let at = own.iter().filter(|file| file.level == level);
            let files: Vec<FileMetadata> = at.clone().map(|f| FileMetadata::new(f)).collect();
            let mut report = LevelMetadata::default();
            report.store.put("level", level as u64);
            report.store.put("size", at.map(|file| file.size).sum());
            report.store.put("file_count", files.len() as u64);
            report.files = files;
            metadata.levels.push(report);
        }
        metadata.store.put_text("name", name);
        metadata.store.put("size", own.iter().map(|file| file.size).sum());
        metadata.store.put("file_count", own.len() as u64);
        metadata.store.put("level_count", levels as u64);
        metadata
    }
}

impl FileMetadata {
    fn new(file: &LiveFile) -> FileMetadata {
        let mut report = FileMetadata::default();
        let name = file.name.strip_prefix('/').unwrap_or(&file.name);
        report.store.put_text("relative_filename", name);
        report.store.put_text("directory", bytes(&file.directory));
        report.store.put("size", file.size);
        report.store.put_text("smallestkey", &file.smallest_key);
        report.store.put_text("largestkey", &file.largest_key);
        report
    }
}
