//! The names of what perf contexts count, in the order of RocksDB's report.
//!
//! The number is the one that `rocksdb_perfcontext_metric` of the C API takes, if it has one.
//! Metrics that are not counted here stay 0: docs/statistics.md lists them.

use super::level::PerfLevel;

/// The kind of a metric, which decides from which level on it is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    /// Nanoseconds of waiting for the engine.
    WaitTime,
    /// Other nanoseconds of the clock.
    Time,
    /// Nanoseconds of the processor.
    CpuTime,
    /// Nanoseconds of waiting for mutexes.
    MutexTime,
}

impl Kind {
    pub const fn needs(self) -> PerfLevel {
        match self {
            Kind::Count => PerfLevel::EnableCount,
            Kind::WaitTime => PerfLevel::EnableWait,
            Kind::Time => PerfLevel::EnableTimeExceptForMutex,
            Kind::CpuTime => PerfLevel::EnableTimeAndCpuTimeExceptForMutex,
            Kind::MutexTime => PerfLevel::EnableTime,
        }
    }
}

macro_rules! metrics {
    ($($variant:ident = $name:literal, $number:expr, $kind:ident;)+) => {
        /// A number of a perf context.
        ///
        /// Example: that of [`PerfContext`](super::PerfContext).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // The name in quotes says what is counted.
        pub enum PerfMetric { $($variant),+ }

        impl PerfMetric {
            /// All, in the order of the report.
            pub const ALL: &'static [PerfMetric] = &[$(PerfMetric::$variant),+];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// RocksDB's name.
            pub fn name(self) -> &'static str {
                match self { $(PerfMetric::$variant => $name),+ }
            }
            /// The number of the C API.
            pub fn number(self) -> Option<u32> {
                match self { $(PerfMetric::$variant => $number),+ }
            }
            #[inline]
            pub(super) const fn kind(self) -> Kind {
                match self { $(PerfMetric::$variant => Kind::$kind),+ }
            }
            /// The metric with this RocksDB name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|metric| metric.name() == name)
            }
            /// The metric with that number in the C API.
            pub fn from_number(number: u32) -> Option<Self> {
                Self::ALL.iter().copied().find(|metric| metric.number() == Some(number))
            }
        }
    };
}

metrics! {
    UserKeyComparisonCount = "user_key_comparison_count", Some(0), Count;
    BlockCacheHitCount = "block_cache_hit_count", Some(1), Count;
    BlockReadCount = "block_read_count", Some(2), Count;
    BlockReadByte = "block_read_byte", Some(3), Count;
    BlockReadTime = "block_read_time", Some(4), Time;
    BlockReadCpuTime = "block_read_cpu_time", Some(76), CpuTime;
    BlockCacheIndexHitCount = "block_cache_index_hit_count", None, Count;
    BlockCacheStandaloneHandleCount = "block_cache_standalone_handle_count", None, Count;
    BlockCacheRealHandleCount = "block_cache_real_handle_count", None, Count;
    IndexBlockReadCount = "index_block_read_count", None, Count;
    BlockCacheFilterHitCount = "block_cache_filter_hit_count", None, Count;
    FilterBlockReadCount = "filter_block_read_count", None, Count;
    CompressionDictBlockReadCount = "compression_dict_block_read_count", None, Count;
    BlockCacheIndexReadByte = "block_cache_index_read_byte", None, Count;
    BlockCacheFilterReadByte = "block_cache_filter_read_byte", None, Count;
    BlockCacheCompressionDictReadByte = "block_cache_compression_dict_read_byte", None, Count;
    BlockCacheReadByte = "block_cache_read_byte", None, Count;
    SecondaryCacheHitCount = "secondary_cache_hit_count", None, Count;
    CompressedSecCacheInsertRealCount = "compressed_sec_cache_insert_real_count", None, Count;
    CompressedSecCacheInsertDummyCount = "compressed_sec_cache_insert_dummy_count", None, Count;
    CompressedSecCacheUncompressedBytes = "compressed_sec_cache_uncompressed_bytes", None, Count;
    CompressedSecCacheCompressedBytes = "compressed_sec_cache_compressed_bytes", None, Count;
    BlockChecksumTime = "block_checksum_time", Some(5), Time;
    BlockDecompressTime = "block_decompress_time", Some(6), Time;
    BlockDecompressCount = "block_decompress_count", None, Count;
    GetReadBytes = "get_read_bytes", Some(7), Count;
    MultigetReadBytes = "multiget_read_bytes", Some(8), Count;
    IterReadBytes = "iter_read_bytes", Some(9), Count;
    BlobCacheHitCount = "blob_cache_hit_count", Some(69), Count;
    BlobCacheReadByte = "blob_cache_read_byte", None, Count;
    BlobReadCount = "blob_read_count", Some(70), Count;
    BlobReadByte = "blob_read_byte", Some(71), Count;
    BlobReadTime = "blob_read_time", Some(72), Time;
    BlobChecksumTime = "blob_checksum_time", Some(73), Time;
    BlobDecompressTime = "blob_decompress_time", Some(74), Time;
    InternalKeySkippedCount = "internal_key_skipped_count", Some(10), Count;
    InternalDeleteSkippedCount = "internal_delete_skipped_count", Some(11), Count;
    InternalRecentSkippedCount = "internal_recent_skipped_count", Some(12), Count;
    InternalMergeCount = "internal_merge_count", Some(13), Count;
    InternalMergePointLookupCount = "internal_merge_point_lookup_count", Some(77), Count;
    InternalRangeDelReseekCount = "internal_range_del_reseek_count", Some(75), Count;
    GetSnapshotTime = "get_snapshot_time", Some(14), Time;
    GetFromMemtableTime = "get_from_memtable_time", Some(15), Time;
    GetFromMemtableCount = "get_from_memtable_count", Some(16), Count;
    GetPostProcessTime = "get_post_process_time", Some(17), Time;
    GetFromOutputFilesTime = "get_from_output_files_time", Some(18), Time;
    SeekOnMemtableTime = "seek_on_memtable_time", Some(19), Time;
    SeekOnMemtableCount = "seek_on_memtable_count", Some(20), Count;
    NextOnMemtableCount = "next_on_memtable_count", Some(21), Count;
    PrevOnMemtableCount = "prev_on_memtable_count", Some(22), Count;
    SeekChildSeekTime = "seek_child_seek_time", Some(23), Time;
    SeekChildSeekCount = "seek_child_seek_count", Some(24), Count;
    SeekMinHeapTime = "seek_min_heap_time", Some(25), Time;
    SeekMaxHeapTime = "seek_max_heap_time", Some(26), Time;
    SeekInternalSeekTime = "seek_internal_seek_time", Some(27), Time;
    FindNextUserEntryTime = "find_next_user_entry_time", Some(28), Time;
    WriteWalTime = "write_wal_time", Some(29), Time;
    WriteMemtableTime = "write_memtable_time", Some(30), WaitTime;
    WriteDelayTime = "write_delay_time", Some(31), WaitTime;
    WriteSchedulingFlushesCompactionsTime = "write_scheduling_flushes_compactions_time", None, Time;
    WritePreAndPostProcessTime = "write_pre_and_post_process_time", Some(32), Time;
    WriteThreadWaitNanos = "write_thread_wait_nanos", None, WaitTime;
    DbMutexLockNanos = "db_mutex_lock_nanos", Some(33), MutexTime;
    DbConditionWaitNanos = "db_condition_wait_nanos", Some(34), MutexTime;
    MergeOperatorTimeNanos = "merge_operator_time_nanos", Some(35), Time;
    ReadIndexBlockNanos = "read_index_block_nanos", Some(36), Time;
    ReadFilterBlockNanos = "read_filter_block_nanos", Some(37), Time;
    NewTableBlockIterNanos = "new_table_block_iter_nanos", Some(38), Time;
    NewTableIteratorNanos = "new_table_iterator_nanos", Some(39), Time;
    BlockSeekNanos = "block_seek_nanos", Some(40), Time;
    FindTableNanos = "find_table_nanos", Some(41), Time;
    BloomMemtableHitCount = "bloom_memtable_hit_count", Some(42), Count;
    BloomMemtableMissCount = "bloom_memtable_miss_count", Some(43), Count;
    BloomSstHitCount = "bloom_sst_hit_count", Some(44), Count;
    BloomSstMissCount = "bloom_sst_miss_count", Some(45), Count;
    KeyLockWaitTime = "key_lock_wait_time", Some(46), Time;
    KeyLockWaitCount = "key_lock_wait_count", Some(47), Count;
    EnvNewSequentialFileNanos = "env_new_sequential_file_nanos", Some(48), Time;
    EnvNewRandomAccessFileNanos = "env_new_random_access_file_nanos", Some(49), Time;
    EnvNewWritableFileNanos = "env_new_writable_file_nanos", Some(50), Time;
    EnvReuseWritableFileNanos = "env_reuse_writable_file_nanos", Some(51), Time;
    EnvNewRandomRwFileNanos = "env_new_random_rw_file_nanos", Some(52), Time;
    EnvNewDirectoryNanos = "env_new_directory_nanos", Some(53), Time;
    EnvFileExistsNanos = "env_file_exists_nanos", Some(54), Time;
    EnvGetChildrenNanos = "env_get_children_nanos", Some(55), Time;
    EnvGetChildrenFileAttributesNanos = "env_get_children_file_attributes_nanos", Some(56), Time;
    EnvDeleteFileNanos = "env_delete_file_nanos", Some(57), Time;
    EnvCreateDirNanos = "env_create_dir_nanos", Some(58), Time;
    EnvCreateDirIfMissingNanos = "env_create_dir_if_missing_nanos", Some(59), Time;
    EnvDeleteDirNanos = "env_delete_dir_nanos", Some(60), Time;
    EnvGetFileSizeNanos = "env_get_file_size_nanos", Some(61), Time;
    EnvGetFileModificationTimeNanos = "env_get_file_modification_time_nanos", Some(62), Time;
    EnvRenameFileNanos = "env_rename_file_nanos", Some(63), Time;
    EnvLinkFileNanos = "env_link_file_nanos", Some(64), Time;
    EnvLockFileNanos = "env_lock_file_nanos", Some(65), Time;
    EnvUnlockFileNanos = "env_unlock_file_nanos", Some(66), Time;
    EnvNewLoggerNanos = "env_new_logger_nanos", Some(67), Time;
    GetCpuNanos = "get_cpu_nanos", None, CpuTime;
    IterNextCpuNanos = "iter_next_cpu_nanos", None, CpuTime;
    IterPrevCpuNanos = "iter_prev_cpu_nanos", None, CpuTime;
    IterSeekCpuNanos = "iter_seek_cpu_nanos", None, CpuTime;
    IterNextCount = "iter_next_count", None, Count;
    IterPrevCount = "iter_prev_count", None, Count;
    IterSeekCount = "iter_seek_count", None, Count;
    EncryptDataNanos = "encrypt_data_nanos", None, Time;
    DecryptDataNanos = "decrypt_data_nanos", None, Time;
    NumberAsyncSeek = "number_async_seek", Some(68), Count;
    FileIngestionNanos = "file_ingestion_nanos", None, Time;
    FileIngestionBlockingLiveWritesNanos = "file_ingestion_blocking_live_writes_nanos", None, Time;
    DataBlockReadByte = "data_block_read_byte", Some(78), Count;
    IndexBlockReadByte = "index_block_read_byte", Some(79), Count;
    FilterBlockReadByte = "filter_block_read_byte", Some(80), Count;
    CompressionDictBlockReadByte = "compression_dict_block_read_byte", Some(81), Count;
    MetadataBlockReadByte = "metadata_block_read_byte", Some(82), Count;
    MultiscanPrepareCount = "multiscan_prepare_count", None, Count;
    MultiscanBlocksPrefetched = "multiscan_blocks_prefetched", None, Count;
    MultiscanBlocksFromCache = "multiscan_blocks_from_cache", None, Count;
    MultiscanPrefetchBytes = "multiscan_prefetch_bytes", None, Count;
    MultiscanIoRequests = "multiscan_io_requests", None, Count;
    MultiscanIoCoalescedNonadjacent = "multiscan_io_coalesced_nonadjacent", None, Count;
}

macro_rules! plain_names {
    ($(#[$meta:meta])* pub enum $enum:ident { $($variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // The name in quotes says what is counted.
        pub enum $enum { $($variant),+ }

        impl $enum {
            /// All, in the order of the report.
            pub const ALL: &'static [$enum] = &[$($enum::$variant),+];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();
            /// RocksDB's name.
            pub fn name(self) -> &'static str {
                match self { $($enum::$variant => $name),+ }
            }
        }
    };
}

plain_names! {
    /// Counts kept separately for each level of tables, if enabled.
    ///
    /// ```
    /// # use pumice_env::perf::{self, LevelMetric, PerfLevel, TABLE_LEVELS};
    /// perf::set_level(PerfLevel::EnableCount);
    /// perf::count_by_level(true);
    /// // Here the task reads.
    /// # perf::count_at_level(LevelMetric::BlockCacheMissCount, 1, 3);
    /// let context = perf::context();
    /// let misses = |level| context.at_level(LevelMetric::BlockCacheMissCount, level);
    /// assert_eq!((0..TABLE_LEVELS).map(misses).sum::<u64>(), 3);
    /// perf::clear_levels();
    /// # perf::set_level(PerfLevel::Disable);
    /// ```
    pub enum LevelMetric {
        BloomFilterUseful = "bloom_filter_useful",
        BloomFilterFullPositive = "bloom_filter_full_positive",
        BloomFilterFullTruePositive = "bloom_filter_full_true_positive",
        UserKeyReturnCount = "user_key_return_count",
        GetFromTableNanos = "get_from_table_nanos",
        BlockCacheHitCount = "block_cache_hit_count",
        BlockCacheMissCount = "block_cache_miss_count",
    }
}

plain_names! {
    /// A number of an IO stats context.
    ///
    /// Example: that of [`IoStatsContext`](super::IoStatsContext).
    pub enum IoMetric {
        BytesRead = "bytes_read",
        BytesWritten = "bytes_written",
        OpenNanos = "open_nanos",
        AllocateNanos = "allocate_nanos",
        WriteNanos = "write_nanos",
        ReadNanos = "read_nanos",
        RangeSyncNanos = "range_sync_nanos",
        FsyncNanos = "fsync_nanos",
        PrepareWriteNanos = "prepare_write_nanos",
        LoggerNanos = "logger_nanos",
        CpuWriteNanos = "cpu_write_nanos",
        CpuReadNanos = "cpu_read_nanos",
    }
}
