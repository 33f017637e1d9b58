//! Pumice: an embeddable, ordered, persistent key-value store, in Rust.
//!
//! A log-structured merge tree with RocksDB's files, options, properties and behaviour: a database
//! that RocksDB wrote opens here, and RocksDB opens one that was written here.
//!
//! ```
//! # fn main() -> Result<(), pumice::Error> {
//! use pumice::{Db, ReadOptions, WriteBatch};
//!
//! # let dir = std::env::temp_dir().join(format!("pumice-crate-doc-{}", std::process::id()));
//! let db = Db::builder(&dir)
//!     .create(true)
//!     .set("write_buffer_size", "8MB") // Any option by RocksDB's name.
//!     .open()?;
//!
//! // Single writes and batches; a batch takes effect whole or not at all.
//! db.put("apple", "green")?;
//! let mut batch = WriteBatch::new();
//! batch.put("banana", "yellow");
//! batch.put("cherry", "red");
//! batch.delete("apple");
//! db.write(&mut batch)?;
//!
//! // A snapshot keeps its view, whatever is written or compacted later.
//! let before = db.snapshot();
//! db.put("banana", "brown")?;
//! let then = ReadOptions::at(&before);
//! assert_eq!(db.get_opt(&then, "banana")?.as_deref(), Some(&b"yellow"[..]));
//!
//! // In key order, from either end; `db.range("a".."c")` and `db.prefix("b")` give a part.
//! let mut keys = Vec::new();
//! for entry in db.iter()? {
//!     let (key, _value) = entry?;
//!     keys.push(key);
//! }
//! assert_eq!(keys, [b"banana".to_vec(), b"cherry".to_vec()]);
//!
//! // From the memtable into a table file.
//! db.flush()?;
//! assert_eq!(db.property("rocksdb.num-files-at-level0").as_deref(), Some("1"));
//! db.close()?;
//! # Db::destroy(&Default::default(), &dir)?;
//! # Ok(())
//! # }
//! ```
//!
//! | need | see |
//! |---|---|
//! | read, write, maintain | [`Db`] |
//! | open in any mode | [`Db::builder`] |
//! | three knobs instead of hundreds of settings | [`Budget`] |
//! | settings | [`Options`], [`DbOptions`], [`ColumnFamilyOptions`], [`options`] |
//! | settings for a purpose | [`Options::for_point_lookups`], [`Options::for_bulk_load`], .. |
//! | custom key order and merges | [`Comparator`], [`MergeOperator`] |
//! | custom filters | [`CompactionFilter`], [`CompactionFilterFactory`] |
//! | custom checksums of files | [`DbOptions::set_file_checksum_gen_factory`] |
//! | custom prefixes | [`SliceTransform`] |
//! | the same as closures | [`ColumnFamilyOptions::set_merge_operator`] and similar calls |
//! | custom table properties | [`TablePropertiesCollector`] |
//! | values that expire | [`DbWithTtl`] |
//! | a database of RocksDB's old BlobDB | [`BlobDb`] |
//! | keys and values as Rust types | [`Db::table`] |
//! | reads as of one moment | [`Db::view`], [`Snapshot`] |
//! | files of one's own | [`FileSystem`], [`FileSystemWrapper`], [`MemFs`] |
//! | wide columns | [`Db::put_entity`], [`Db::get_entity`], [`DbIterator::columns`] |
//! | operands that are not merged yet | [`Db::get_merge_operands`] |
//! | transactions | [`TransactionDb`], [`OptimisticTransactionDb`], [`Transaction`] |
//! | a batch that can be read before it is written | [`WriteBatchWithIndex`] |
//! | all writes, in order | [`Db::get_updates_since`] |
//! | futures | [`Db::get_async`], [`Db::put_async`], .., [`Db::call_async`] for the rest |
//! | a stream of entries | [`Db::stream`] |
//! | fibers | [`Runtime`]: every call works from a fiber and suspends it alone |
//! | locks, sleep and the like for fibers | [`fiber`] |
//! | what a call did, and how long it took | [`perf`] |
//! | repair of a damaged database | [`repair()`] |
//! | monitoring | [`Db::property`], [`Statistics`], [`EventListener`], the file `LOG` |
//! | the same for Prometheus | [`Statistics::to_prometheus`], [`stats::MetricsPage`] |
//!
//! Whole programs: `crates/pumice/examples`. Without the features `lz4` and `zstd`, which are on by
//! default, the crate needs no C compiler, and refuses these codecs by name.
//!
//! Every call may wait for the disk unless its documentation says that it does not suspend. All
//! handles are `Send` and `Sync` except iterators, which are `Send`.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]
#![forbid(unsafe_code)]
#![deny(missing_docs, missing_debug_implementations)]
#![deny(clippy::return_self_not_must_use)]

/// The programs in the pages for those who come from other engines.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/migrating_from_rust_rocksdb.md")]
mod migration {}

pub mod backup;
mod batch_index;
mod blob;
mod callbacks;
mod commit;
mod compaction;
mod control;
mod cost;
mod db;
mod engine;
pub mod fiber;
mod flush;
mod ingest;
mod lock_order;
mod locks;
mod log_tail;
pub mod options;
pub mod perf;
mod read;
mod recovery;
mod repair;
mod row_cache;
mod snapshot;
mod stacked_blob_db;
mod state;
pub mod stats;
mod table_output;
pub mod trace;
mod transactions;
mod ttl;
mod typed;
mod version;

pub use batch_index::{
    BaseDeltaIterator, BatchView, SharedBatch, WriteBatchEntry, WriteBatchIndexIterator,
    WriteBatchWithIndex, WriteBatchWithIndexOptions, WriteType,
};
pub use commit::batch::{BatchIter, BatchRecord, WriteBatch};
pub use commit::update_family::UpdateFamily;
pub use compaction::service::ServiceInput as CompactionServiceInput;
pub use db::api::Db;
pub use db::at::{At, Timestamp};
pub use db::builder::DbBuilder;
pub use db::file_api::{CompactedFiles, KeyRange};
pub use db::forms::futures::DbFuture;
pub use db::multi_scan::{MultiScan, Scan};
pub use db::replay::{Replayer, TraceResult};
pub use db::sst_file_reader::SstFileReader;
pub use db::store::Store;
pub use db::stream::EntryStream;
pub use db::view::DbView;
pub use engine::export_family::ExportImportFilesMetadata;
pub use engine::live_files::LiveFile;
pub use engine::open::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME};
pub use engine::open_and_compact::{OpenAndCompactOptions, open_and_compact};
pub use engine::staged_ingestion::FileIngestionHandle;
pub use engine::storage_info::{LiveFileStorageInfo, LiveFilesStorageInfoOptions, StorageFileType};
pub use ingest::{
    ExternalSstFileInfo, IngestExternalFileArg, IngestExternalFileOptions, RangeOpt, SstFileWriter,
};
pub use locks::{DeadlockPath, HeldLock, TransactionState, Wait};
pub use log_tail::log_files::{WalFile, WalFileType};
pub use log_tail::wal_iterator::WalIterator;
pub use options::requests::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, CancelFlag, CheckpointOptions,
    CompactFilesOptions, CompactRangeOptions, ContinueCallback, FlushOptions,
    GetMergeOperandsAsyncOptions, GetMergeOperandsOptions, ImportColumnFamilyOptions, ReadOptions,
    TableFilter, WaitForCompactOptions, WriteOptions,
};
pub use options::{
    BlockBasedTableOptions, Budget, CollectorContext, ColumnFamilyOptions, CompactionFilterContext,
    CompactionFilterFactory, ConcurrentTaskLimiter, DbOptions, EntryType, Options,
    TablePropertiesCollector, TablePropertiesCollectorFactory, filter_of,
};
pub use read::columns::PinnedColumns;
pub use read::entries::{Cursor, Entries};
pub use read::iterator::DbIterator;
pub use read::key_bounds::KeyBounds;
pub use read::pinned::PinnedSlice;
pub use read::timed::TimedValue;
pub use repair::report::{FileFate, RepairOutcome, RepairReport, RepairedFile};
pub use repair::{repair, repair_column_families};
pub use snapshot::Snapshot;
pub use stacked_blob_db::{BlobDb, BlobDbEntries, BlobDbIterator, BlobDbOptions};
pub use stats::listener::{
    BackgroundErrorReason, CompactionJobInfo, CompactionReason, CompactionTable,
    ExternalFileIngestionInfo, FlushJobInfo, FlushReason, MemTableInfo, SubcompactionJobInfo,
    TableFileCreationInfo, TableFileCreationReason, TableFileDeletionInfo, WriteStallCondition,
    WriteStallInfo,
};
pub use stats::{EventListener, HistogramKind, Logger, Statistics, StatsHistoryEntry, Ticker};
pub use trace::ReplayOptions;
pub use transactions::{
    OccValidationPolicy, OptimisticTransactionDb, OptimisticTransactionDbBuilder,
    OptimisticTransactionDbOptions, OptimisticTransactionOptions, RetryOptions, SnapshotNotice,
    Transaction, TransactionDb, TransactionDbBuilder, TransactionDbOptions, TransactionOptions,
    TxnDbWritePolicy,
};
pub use ttl::{DbWithTtl, TtlDescriptor, TtlEntries, TtlIterator};
pub use typed::{Key, Table, TableEntries, Value};
pub use version::family::ColumnFamily;

#[doc(hidden)] // For tests, which lower them.
pub use pumice_base::SizeLimits;
pub use pumice_base::extension::{CappedPrefix, FixedPrefix, NoopPrefix};
pub use pumice_base::extension::{
    CompactionFilter, FilterDecision, MergeOperator, OpFailureScope, SliceTransform,
};
pub use pumice_base::file_checksum::{
    CustomFileChecksumGenFactory, FileChecksumGenContext, FileChecksumGenerator,
};
pub use pumice_base::key::{BYTEWISE_U64_TS, CustomComparator, REVERSE_BYTEWISE_U64_TS};
pub use pumice_base::names::text_of as column_family_name;
pub use pumice_base::{
    Comparator, Error, ErrorKind, Result, SequenceNumber, Severity, SubCode, UserKey,
};
pub use pumice_base::{WideColumn, wide_columns::DEFAULT_COLUMN};
pub use pumice_cache::{
    CacheOptions, ChargedRole, CompressedSecondaryCache, CompressedSecondaryCacheOptions,
    TieredAdmissionPolicy, TieredCacheOptions,
};
pub use pumice_compress::{CompressionManager, CompressionOptions, CompressionType};
pub use pumice_env::{
    FileLock, FileOptions, FileSyncer, FileSystem, FileSystemWrapper, IoPriority, MemFs, PosixFs,
    RandomAccessFile, RandomAccessFileWrapper, RateLimiter, RateLimiterMode, RateLimiterOptions,
    ReadFileOptions, ReadRequest, SequentialFile, SequentialFileWrapper, SstFileManager,
    SstFileManagerOptions, Temperature, WritableFile, WritableFileWrapper,
};
pub use pumice_filter::FilterPolicy;
pub use pumice_memtable::WriteBufferManager;
pub use pumice_port::fiber::{IoMode, Runtime};
pub use pumice_port::os::CpuPriority;
pub use pumice_port::pool::{Priority as PoolPriority, ThreadPools};
pub use pumice_table::BlockCache;
pub use pumice_table::TableProperties;
pub use pumice_table::{PersistentCache, PersistentCacheOptions, PersistentCacheStats};
pub use row_cache::RowCache;
