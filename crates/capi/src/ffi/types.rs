//! Which Rust type stands for which type of C. Types that are not here are made of values, by the
//! table of properties, or only have a name.
//!
//! Thread safety: see each type.
#![allow(non_camel_case_types, missing_docs)] // C's names.

use std::borrow::Cow;
use std::sync::Arc;

use pumice::backup::{BackupEngine, BackupInfo};
use pumice::{
    BlockCache, ColumnFamily, CompactionFilter, CompactionFilterFactory, Comparator, Error,
    FilterPolicy, LiveFile, LiveFileStorageInfo, Logger, MergeOperator, PinnedSlice, RateLimiter,
    Result, SharedBatch, SliceTransform, Snapshot, SstFileManager, SstFileWriter, Transaction,
    WriteBufferManager,
};
use pumice_binding::batch::Batch;
use pumice_binding::database::Database;
use pumice_binding::store::{Fields, Store};
use pumice_binding::{cursor, env, log_cursor, options, reports, requests};

use crate::ffi::from::Kept;
use crate::ffi::listener::Listener;
use crate::ffi::progress::{LeftOut, Progress};
use crate::ffi::service;

pub type rocksdb_t = Database;
pub type rocksdb_transactiondb_t = Database;
pub type rocksdb_optimistictransactiondb_t = Database;
pub type rocksdb_transaction_t = OpenTransaction;
pub type rocksdb_writebatch_wi_t = SharedBatch;
pub type rocksdb_optimistictransactiondb_lock_buckets_t = LockBuckets;
pub type rocksdb_options_t = Options;
pub type rocksdb_block_based_table_options_t = options::TableOptions;
pub type rocksdb_column_family_handle_t = Family;
pub type rocksdb_readoptions_t = ReadOptions;
pub type rocksdb_writeoptions_t = requests::WriteOptions;
pub type rocksdb_snapshot_t = GivenSnapshot;
pub type rocksdb_iterator_t = cursor::Iterator;
pub type rocksdb_wal_iterator_t = log_cursor::LogCursor;
pub type rocksdb_wal_files_t = WalFiles;
pub type rocksdb_writebatch_t = Batch;
pub type rocksdb_pinnableslice_t = Pinned;
pub type rocksdb_pinnable_handle_t = PinnedValue;
pub type rocksdb_pinnable_multi_get_t = PinnedValues;
pub type rocksdb_cache_t = Cache;
pub type rocksdb_env_t = env::Env;
pub type rocksdb_logger_t = InfoLogger;
pub type rocksdb_comparator_t = Order;
pub type rocksdb_mergeoperator_t = Merge;
pub type rocksdb_compactionfilter_t = Filter;
pub type rocksdb_compactionfilterfactory_t = FilterFactory;
pub type rocksdb_filterpolicy_t = FilterPolicy;
pub type rocksdb_slicetransform_t = Prefix;
pub type rocksdb_eventlistener_t = Listener;
pub type rocksdb_ratelimiter_t = Limiter;
pub type rocksdb_write_buffer_manager_t = BufferManager;
pub type rocksdb_sst_file_manager_t = FileManager;
pub type rocksdb_sstfilewriter_t = Writer;
pub type rocksdb_checkpoint_t = Checkpoint;
pub type rocksdb_backup_engine_t = Backups;
pub type rocksdb_create_backup_options_t = BackupCreation;
pub type rocksdb_backup_engine_info_t = BackupList;
pub type rocksdb_backup_engine_options_t = requests::BackupOptions;
pub type rocksdb_livefiles_t = LiveFiles;
pub type rocksdb_livefile_t = NewLiveFile;
pub type rocksdb_export_import_files_metadata_t = Exported;
pub type rocksdb_compaction_options_t = CompactFiles;
pub type rocksdb_livefiles_storage_info_t = StorageInfo;
pub type rocksdb_table_properties_collector_factory_t = CollectorFactory;
pub type rocksdb_memory_allocator_t = MemoryAllocator;
pub type rocksdb_column_family_metadata_t = reports::FamilyMetadata;
pub type rocksdb_level_metadata_t = reports::LevelMetadata;
pub type rocksdb_sst_file_metadata_t = reports::FileMetadata;
pub type rocksdb_flushjobinfo_t = reports::FlushInfo;
pub type rocksdb_compactionjobinfo_t = reports::CompactionInfo;
pub type rocksdb_compaction_file_info_t = reports::CompactionFile;
pub type rocksdb_compaction_job_stats_t = reports::JobStats;
pub type rocksdb_subcompactionjobinfo_t = reports::SubcompactionInfo;
pub type rocksdb_memtableinfo_t = reports::MemTable;
pub type rocksdb_externalfileingestioninfo_t = reports::Ingestion;
pub type rocksdb_writestallinfo_t = reports::Stall;
pub type rocksdb_writestallcondition_t = reports::StallCondition;
pub type rocksdb_table_properties_t = reports::Properties;
pub type rocksdb_status_ptr_t = Status;
pub type rocksdb_dbpath_t = DbPath;
pub type rocksdb_perfcontext_t = PerfContext;
pub type rocksdb_memory_consumers_t = MemoryConsumers;
pub type rocksdb_file_checksum_gen_factory_t = ChecksumFactory;
pub type rocksdb_sst_partitioner_factory_t = Partitioner;
pub type rocksdb_walfilter_t = WalFilter;
pub type rocksdb_compactionservice_t = service::Service;
pub type rocksdb_compaction_service_options_override_t = service::ServiceOverride;
pub type rocksdb_open_and_compact_options_t = service::WorkerOptions;
pub type rocksdb_trace_reader_t = TraceFile;
pub type rocksdb_replayer_t = CallReplayer;
pub type rocksdb_hyper_clock_cache_options_t = HyperClockOptions;

/// Options, and the listeners that each database gets a copy of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub values: options::Options,
    pub listeners: Vec<Arc<Listener>>,
    /// A logger of the program's, to give it back.
    pub logger: Option<InfoLogger>,
}

impl Fields for Options {
    fn store(&self) -> &Store {
        self.values.store()
    }
    fn store_mut(&mut self) -> &mut Store {
        self.values.store_mut()
    }
}

/// A trace's file; None once it is closed.
pub struct TraceFile(pub Option<Box<dyn pumice::trace::TraceReader>>);

/// What makes the calls of a trace again.
#[derive(Debug)]
pub struct CallReplayer(pub pumice::Replayer);

/// A column family of an open database.
#[derive(Clone, Debug)]
pub struct Family(pub ColumnFamily);

/// Options of reads; the bounds are the program's bytes.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    pub values: requests::ReadOptions,
    pub lower: Kept,
    pub upper: Kept,
    /// What the timestamps are that reads are as of, and from which scans show versions.
    timestamp: Kept,
    pub start_timestamp: Kept,
    /// Why reads with these options are refused.
    pub refused: Option<Error>,
    /// Which tables scans read.
    pub table_filter: Option<pumice::TableFilter>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            values: requests::ReadOptions::default(),
            lower: Kept::NOTHING,
            upper: Kept::NOTHING,
            timestamp: Kept::NOTHING,
            start_timestamp: Kept::NOTHING,
            refused: None,
            table_filter: None,
        }
    }
}

impl Fields for ReadOptions {
    fn store(&self) -> &Store {
        self.values.store()
    }
    fn store_mut(&mut self) -> &mut Store {
        self.values.store_mut()
    }
    fn changed(&mut self) {
        self.values.changed();
        self.refused = self.values.check().err();
    }
}

impl ReadOptions {
    /// The engine's options of a point read.
    ///
    /// # Errors
    /// NotSupported for a setting that this build has not.
    #[inline]
    pub fn point(&self) -> Result<Cow<'_, pumice::ReadOptions>> {
        match &self.refused {
            None if self.has_timestamp() => Ok(Cow::Owned(self.timed())),
            None => Ok(Cow::Borrowed(self.values.engine())),
            Some(error) => Err(error.clone()),
        }
    }

    /// Reads are as of a timestamp.
    #[inline]
    pub fn has_timestamp(&self) -> bool {
        !self.timestamp.is_nothing()
    }

    /// The timestamp that reads are as of, which is the program's bytes.
    pub fn set_timestamp(&mut self, timestamp: Kept) {
        self.timestamp = timestamp;
    }

    /// The engine's options with the timestamp as it is now.
    #[cold]
    fn timed(&self) -> pumice::ReadOptions {
        pumice::ReadOptions { timestamp: self.timestamp.read(), ..self.values.engine().clone() }
    }

    /// The engine's options of a scan, with the bounds as they are now.
    ///
    /// # Errors
    /// As [`Self::point`].
    pub fn scan(&self) -> Result<pumice::ReadOptions> {
        let mut options = self.point()?.into_owned();
        options.iter_start_ts = self.start_timestamp.read();
        options.iterate_lower_bound = self.lower.read();
        options.iterate_upper_bound = self.upper.read();
        options.table_filter = self.table_filter.clone();
        Ok(options)
    }
}

/// The value of a key; None only while nobody has the handle.
#[derive(Debug)]
pub struct Pinned(pub Option<PinnedSlice>);

/// The value of a key, by the newer functions; None as there.
#[derive(Debug)]
pub struct PinnedValue(pub Option<PinnedSlice>);

/// The values of many keys, or the texts of what went wrong, each with a zero byte behind it.
#[derive(Debug)]
pub struct PinnedValues(pub Vec<std::result::Result<Option<PinnedSlice>, Vec<u8>>>);

/// The logs of a database.
#[derive(Clone, Debug)]
pub struct WalFiles(pub Vec<crate::ffi::generated::rocksdb_wal_file_t>);

/// A block cache. The same object serves as row cache, by its capacity.
#[derive(Clone, Debug)]
pub struct Cache {
    pub blocks: Arc<BlockCache>,
    pub rows: Arc<std::sync::OnceLock<Arc<pumice::RowCache>>>,
}

/// A logger of the program's, or to stderr.
#[derive(Clone)]
pub struct InfoLogger(pub Arc<dyn Logger>);

/// An order of keys.
#[derive(Clone, Debug)]
pub struct Order(pub Comparator);

/// A merge operator.
#[derive(Clone)]
pub struct Merge(pub Arc<dyn MergeOperator>);

/// A compaction filter.
#[derive(Clone)]
pub struct Filter(pub Arc<dyn CompactionFilter>);

/// Makes compaction filters.
#[derive(Clone)]
pub struct FilterFactory(pub Arc<dyn CompactionFilterFactory>);

/// A prefix extractor.
#[derive(Clone)]
pub struct Prefix(pub Arc<dyn SliceTransform>);

macro_rules! nameless {
    ($($name:ident),+) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )+};
}
nameless!(InfoLogger, Merge, Filter, FilterFactory, Prefix, Writer);

/// A rate limiter; a rate that is none is refused where it is used.
#[derive(Clone, Debug)]
pub struct Limiter(pub std::result::Result<Arc<RateLimiter>, Error>);

/// A write buffer manager.
#[derive(Clone, Debug)]
pub struct BufferManager {
    pub manager: Arc<WriteBufferManager>,
    pub flush_policy: i32,
}

/// A manager of table files.
#[derive(Clone, Debug)]
pub struct FileManager(pub Arc<SstFileManager>);

/// A writer of table files. What its options lack is said at `open`.
pub struct Writer {
    pub writer: std::result::Result<SstFileWriter, Error>,
    pub file_size: u64,
}

/// Makes checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpoint(pub Database);

/// Backups in a directory.
#[derive(Debug)]
pub struct Backups(pub BackupEngine);

/// Options of a backup.
#[derive(Debug)]
pub struct BackupCreation {
    store: Store,
    /// Called while files are copied.
    pub progress: Progress,
    /// The files that are left out.
    pub left_out: LeftOut,
}

impl Default for BackupCreation {
    fn default() -> Self {
        BackupCreation {
            store: Store::named("create_backup_options"),
            progress: Progress::NONE,
            left_out: LeftOut::NONE,
        }
    }
}

impl Fields for BackupCreation {
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

/// What backups there are.
#[derive(Clone, Debug)]
pub struct BackupList(pub Vec<BackupInfo>);

/// Tables of a database. Texts have a zero byte behind them.
#[derive(Clone, Debug, Default)]
pub struct LiveFiles(pub Vec<NewLiveFile>);

/// A table, described by a program or by the engine.
#[derive(Clone, Debug)]
pub struct NewLiveFile {
    store: Store,
    pub column_family_name: Vec<u8>,
    pub name: Vec<u8>,
    pub directory: Vec<u8>,
    pub smallest_key: Vec<u8>,
    pub largest_key: Vec<u8>,
    /// What no function of C reads or writes, of a file that was exported.
    exported: LiveFile,
}

impl Default for NewLiveFile {
    fn default() -> Self {
        NewLiveFile {
            store: Store::named("livefile"),
            column_family_name: vec![0],
            name: vec![0],
            directory: vec![0],
            smallest_key: Vec::new(),
            largest_key: Vec::new(),
            exported: LiveFile::default(),
        }
    }
}

impl Fields for NewLiveFile {
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

/// Bytes with a zero byte behind them.
pub fn with_zero(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0]].concat()
}

impl NewLiveFile {
    /// A table of the engine.
    pub fn new(file: &LiveFile) -> NewLiveFile {
        let mut description = NewLiveFile {
            column_family_name: with_zero(file.column_family_name.as_bytes()),
            name: with_zero(file.name.as_bytes()),
            directory: with_zero(file.directory.as_os_str().as_encoded_bytes()),
            smallest_key: file.smallest_key.clone(),
            largest_key: file.largest_key.clone(),
            ..NewLiveFile::default()
        };
        let store = &mut description.store;
        store.put("level", file.level as u64);
        store.put("size", file.size);
        store.put("smallest_seqno", file.smallest_seq);
        store.put("largest_seqno", file.largest_seq);
        store.put("num_entries", file.num_entries);
        store.put("num_deletions", file.num_deletions);
        description
    }

    /// A table of an exported column family: as in RocksDB without the family's name and counts.
    pub fn exported(file: &LiveFile) -> NewLiveFile {
        let shown = LiveFile {
            column_family_name: String::new(),
            num_entries: 0,
            num_deletions: 0,
            ..file.clone()
        };
        NewLiveFile { exported: file.clone(), ..NewLiveFile::new(&shown) }
    }

    /// The same for the engine.
    pub fn to_engine(&self) -> LiveFile {
        let text = |bytes: &[u8]| bytes.strip_suffix(&[0]).unwrap_or(bytes).to_vec();
        let number = |name| self.store.bits(name);
        LiveFile {
            level: usize::try_from(self.store.int("level")).unwrap_or(usize::MAX),
            name: String::from_utf8_lossy(&text(&self.name)).into_owned(),
            directory: pumice_binding::path(&text(&self.directory)),
            size: number("size"),
            smallest_key: self.smallest_key.clone(),
            largest_key: self.largest_key.clone(),
            smallest_seq: number("smallest_seqno"),
            largest_seq: number("largest_seqno"),
            ..self.exported.clone()
        }
    }
}

/// An exported column family, or what a program says is one.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    pub comparator: Vec<u8>,
    pub files: LiveFiles,
}

/// Options of `compact_files`.
#[derive(Clone, Debug)]
pub struct CompactFiles {
    store: Store,
    /// Ends the call.
    pub canceled: Option<pumice::CancelFlag>,
}

impl Default for CompactFiles {
    fn default() -> Self {
        CompactFiles { store: Store::named("compaction_options"), canceled: None }
    }
}

impl Fields for CompactFiles {
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

/// The files of a database. Texts have a zero byte behind them.
#[derive(Clone, Debug)]
pub struct StorageInfo(pub Vec<StorageFile>);

/// One of them.
#[derive(Clone, Debug)]
pub struct StorageFile {
    pub info: LiveFileStorageInfo,
    pub name: Vec<u8>,
    pub directory: Vec<u8>,
    pub checksum: Vec<u8>,
    pub checksum_function: Vec<u8>,
    pub replacement: Vec<u8>,
}

impl StorageFile {
    /// A file of the engine.
    pub fn new(info: LiveFileStorageInfo) -> StorageFile {
        StorageFile {
            name: with_zero(info.relative_filename.as_bytes()),
            directory: with_zero(info.directory.as_os_str().as_encoded_bytes()),
            checksum: with_zero(&info.file_checksum),
            checksum_function: with_zero(info.file_checksum_func_name.as_bytes()),
            replacement: with_zero(&info.replacement_contents),
            info,
        }
    }
}

/// A factory of collectors, which no function of the interface makes.
#[derive(Debug)]
pub struct CollectorFactory;

/// A memory allocator, which no function of the interface makes without jemalloc.
#[derive(Debug)]
pub struct MemoryAllocator;

/// A snapshot. Empty if the database has `inplace_update_support`: reads with it see the newest
/// values, as in RocksDB.
#[derive(Debug, PartialEq, Eq)]
pub struct GivenSnapshot(pub Option<Snapshot>);

/// A transaction, and what was given out of it, which stays until the handle is destroyed.
#[derive(Debug)]
pub struct OpenTransaction {
    pub transaction: Transaction,
    snapshots: Vec<GivenSnapshot>,
    batches: Vec<SharedBatch>,
}

impl OpenTransaction {
    /// The handle of `transaction`.
    pub fn new(transaction: Transaction) -> OpenTransaction {
        OpenTransaction { transaction, snapshots: Vec::new(), batches: Vec::new() }
    }

    /// Its snapshot, if it has one.
    pub fn keep_snapshot(&mut self) -> Option<&GivenSnapshot> {
        let snapshot = GivenSnapshot(Some(self.transaction.snapshot()?));
        if self.snapshots.last() != Some(&snapshot) {
            self.snapshots.push(snapshot);
        }
        self.snapshots.last()
    }

    /// Its writes.
    pub fn keep_batch(&mut self) -> &SharedBatch {
        let batch = self.transaction.shared_batch();
        if self.batches.last() != Some(&batch) {
            self.batches.push(batch);
        }
        self.batches.last().expect("it was just added")
    }
}

/// How many locks commits of optimistic transactions would have.
#[derive(Clone, Debug)]
pub struct LockBuckets(pub usize);

/// What a listener hears of an error.
#[derive(Clone, Debug, Default)]
pub struct Status(pub Option<Error>);

/// A directory for tables.
#[derive(Clone, Debug)]
pub struct DbPath(pub pumice::options::DbPath);

/// Perf contexts are the thread's own; this is only a handle.
#[derive(Clone, Debug, Default)]
pub struct PerfContext(pub u8);

/// Databases and caches whose memory is summed up.
#[derive(Clone, Debug, Default)]
pub struct MemoryConsumers {
    pub databases: Vec<Database>,
    pub caches: Vec<Cache>,
}

/// Computes checksums of files: CRC-32C.
#[derive(Clone, Debug, Default)]
pub struct ChecksumFactory(pub u8);

/// Cuts tables where prefixes of this length change.
#[derive(Clone, Debug)]
pub struct Partitioner(pub usize);

/// Options of a cache.
#[derive(Clone, Debug)]
pub struct HyperClockOptions(pub Store);

impl Fields for HyperClockOptions {
    fn store(&self) -> &Store {
        &self.0
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.0
    }
}

/// A filter of logs, which options and databases share.
#[derive(Clone)]
pub struct WalFilter(pub Arc<crate::ffi::wal_filter::CWalFilter>);

nameless!(WalFilter);
