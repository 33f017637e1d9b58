//! The names of tickers and histograms.
//!
//! Names and their order are RocksDB 10.10's (`include/rocksdb/statistics.h`), without those of
//! features that are not built (RocksDB's old BlobDB, transactions, a third cache tier, tiers) and
//! others that nothing here counts. docs/statistics.md says which of those listed are counted.

/// Declares an enum with RocksDB's name for each member, in print order.
macro_rules! stat_names {
    ($(#[$meta:meta])* pub enum $name:ident { $($variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        #[allow(missing_docs)] // The name in quotes says what is counted.
        pub enum $name { $($variant),+ }

        impl $name {
            /// Every member in print order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
            /// Number of members.
            pub const COUNT: usize = Self::ALL.len();

            /// RocksDB's name, for instance `rocksdb.block.cache.miss`.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            /// The member with that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|member| member.name() == name)
            }
        }
    };
}

stat_names! {
    /// A counter that only grows.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice::Error> {
    /// # let dir = std::env::temp_dir().join(format!("pumice-ticker-{}", std::process::id()));
    /// use std::sync::Arc;
    ///
    /// use pumice::{Db, HistogramKind, Statistics, Ticker};
    /// let statistics = Arc::new(Statistics::new());
    /// let shared = statistics.clone();
    /// let db = Db::builder(&dir)
    ///     .create(true)
    ///     .configure(|options| options.db.statistics = Some(shared))
    ///     .open()?;
    /// db.put("a", "1")?;
    /// assert_eq!(statistics.ticker(Ticker::NumberKeysWritten), 1);
    /// assert_eq!(statistics.histogram(HistogramKind::DbWrite).count(), 1);
    /// # db.close()?;
    /// # pumice::Db::destroy(&Default::default(), &dir)?;
    /// # Ok(())
    /// # }
    /// ```
    pub enum Ticker {
        BlockCacheMiss = "rocksdb.block.cache.miss",
        BlockCacheHit = "rocksdb.block.cache.hit",
        BlockCacheAdd = "rocksdb.block.cache.add",
        BlockCacheAddFailures = "rocksdb.block.cache.add.failures",
        BlockCacheIndexMiss = "rocksdb.block.cache.index.miss",
        BlockCacheIndexHit = "rocksdb.block.cache.index.hit",
        BlockCacheIndexAdd = "rocksdb.block.cache.index.add",
        BlockCacheIndexBytesInsert = "rocksdb.block.cache.index.bytes.insert",
        BlockCacheFilterMiss = "rocksdb.block.cache.filter.miss",
        BlockCacheFilterHit = "rocksdb.block.cache.filter.hit",
        BlockCacheFilterAdd = "rocksdb.block.cache.filter.add",
        BlockCacheFilterBytesInsert = "rocksdb.block.cache.filter.bytes.insert",
        BlockCacheDataMiss = "rocksdb.block.cache.data.miss",
        BlockCacheDataHit = "rocksdb.block.cache.data.hit",
        BlockCacheDataAdd = "rocksdb.block.cache.data.add",
        BlockCacheDataBytesInsert = "rocksdb.block.cache.data.bytes.insert",
        BlockCacheBytesRead = "rocksdb.block.cache.bytes.read",
        BlockCacheBytesWrite = "rocksdb.block.cache.bytes.write",
        SecondaryCacheHits = "rocksdb.secondary.cache.hits",
        SecondaryCacheFilterHits = "rocksdb.secondary.cache.filter.hits",
        SecondaryCacheIndexHits = "rocksdb.secondary.cache.index.hits",
        SecondaryCacheDataHits = "rocksdb.secondary.cache.data.hits",
        CompressedSecondaryCacheDummyHits = "rocksdb.compressed.secondary.cache.dummy.hits",
        CompressedSecondaryCacheHits = "rocksdb.compressed.secondary.cache.hits",
        BloomFilterUseful = "rocksdb.bloom.filter.useful",
        BloomFilterFullPositive = "rocksdb.bloom.filter.full.positive",
        BloomFilterFullTruePositive = "rocksdb.bloom.filter.full.true.positive",
        BloomFilterPrefixChecked = "rocksdb.bloom.filter.prefix.checked",
        BloomFilterPrefixUseful = "rocksdb.bloom.filter.prefix.useful",
        BloomFilterPrefixTruePositive = "rocksdb.bloom.filter.prefix.true.positive",
        PersistentCacheHit = "rocksdb.persistent.cache.hit",
        PersistentCacheMiss = "rocksdb.persistent.cache.miss",
        SimBlockCacheHit = "rocksdb.sim.block.cache.hit",
        SimBlockCacheMiss = "rocksdb.sim.block.cache.miss",
        MemtableHit = "rocksdb.memtable.hit",
        MemtableMiss = "rocksdb.memtable.miss",
        GetHitL0 = "rocksdb.l0.hit",
        GetHitL1 = "rocksdb.l1.hit",
        GetHitL2AndUp = "rocksdb.l2andup.hit",
        CompactionKeyDropNewerEntry = "rocksdb.compaction.key.drop.new",
        CompactionKeyDropObsolete = "rocksdb.compaction.key.drop.obsolete",
        CompactionKeyDropRangeDel = "rocksdb.compaction.key.drop.range_del",
        CompactionKeyDropUser = "rocksdb.compaction.key.drop.user",
        CompactionRangeDelDropObsolete = "rocksdb.compaction.range_del.drop.obsolete",
        CompactionOptimizedDelDropObsolete = "rocksdb.compaction.optimized.del.drop.obsolete",
        CompactionCancelled = "rocksdb.compaction.cancelled",
        NumberKeysWritten = "rocksdb.number.keys.written",
        NumberKeysRead = "rocksdb.number.keys.read",
        NumberKeysUpdated = "rocksdb.number.keys.updated",
        BytesWritten = "rocksdb.bytes.written",
        BytesRead = "rocksdb.bytes.read",
        NumberDbSeek = "rocksdb.number.db.seek",
        NumberDbNext = "rocksdb.number.db.next",
        NumberDbPrev = "rocksdb.number.db.prev",
        NumberDbSeekFound = "rocksdb.number.db.seek.found",
        NumberDbNextFound = "rocksdb.number.db.next.found",
        NumberDbPrevFound = "rocksdb.number.db.prev.found",
        IterBytesRead = "rocksdb.db.iter.bytes.read",
        NumberIterSkip = "rocksdb.number.iter.skip",
        NumberOfReseeksInIteration = "rocksdb.number.reseeks.iteration",
        NoIteratorCreated = "rocksdb.num.iterator.created",
        NoIteratorDeleted = "rocksdb.num.iterator.deleted",
        NoFileOpens = "rocksdb.no.file.opens",
        NoFileErrors = "rocksdb.no.file.errors",
        StallMicros = "rocksdb.stall.micros",
        DbMutexWaitMicros = "rocksdb.db.mutex.wait.micros",
        NumberMultigetCalls = "rocksdb.number.multiget.get",
        NumberMultigetKeysRead = "rocksdb.number.multiget.keys.read",
        NumberMultigetBytesRead = "rocksdb.number.multiget.bytes.read",
        NumberMultigetKeysFound = "rocksdb.number.multiget.keys.found",
        NumberMergeFailures = "rocksdb.number.merge.failures",
        WalFileSynced = "rocksdb.wal.synced",
        WalFileBytes = "rocksdb.wal.bytes",
        WriteDoneBySelf = "rocksdb.write.self",
        WriteDoneByOther = "rocksdb.write.other",
        WriteWithWal = "rocksdb.write.wal",
        CompactReadBytes = "rocksdb.compact.read.bytes",
        CompactWriteBytes = "rocksdb.compact.write.bytes",
        FlushWriteBytes = "rocksdb.flush.write.bytes",
        CompactReadBytesMarked = "rocksdb.compact.read.marked.bytes",
        CompactReadBytesPeriodic = "rocksdb.compact.read.periodic.bytes",
        CompactReadBytesTtl = "rocksdb.compact.read.ttl.bytes",
        CompactWriteBytesMarked = "rocksdb.compact.write.marked.bytes",
        CompactWriteBytesPeriodic = "rocksdb.compact.write.periodic.bytes",
        CompactWriteBytesTtl = "rocksdb.compact.write.ttl.bytes",
        NumberSuperversionAcquires = "rocksdb.number.superversion_acquires",
        NumberSuperversionReleases = "rocksdb.number.superversion_releases",
        NumberSuperversionCleanups = "rocksdb.number.superversion_cleanups",
        NumberBlockCompressed = "rocksdb.number.block.compressed",
        NumberBlockDecompressed = "rocksdb.number.block.decompressed",
        BytesCompressedFrom = "rocksdb.bytes.compressed.from",
        BytesCompressedTo = "rocksdb.bytes.compressed.to",
        BytesCompressionBypassed = "rocksdb.bytes.compression_bypassed",
        BytesCompressionRejected = "rocksdb.bytes.compression.rejected",
        NumberBlockCompressionBypassed = "rocksdb.number.block_compression_bypassed",
        NumberBlockCompressionRejected = "rocksdb.number.block_compression_rejected",
        BytesDecompressedFrom = "rocksdb.bytes.decompressed.from",
        BytesDecompressedTo = "rocksdb.bytes.decompressed.to",
        MergeOperationTotalTime = "rocksdb.merge.operation.time.nanos",
        FilterOperationTotalTime = "rocksdb.filter.operation.time.nanos",
        CompactionCpuTotalTime = "rocksdb.compaction.total.time.cpu_micros",
        RowCacheHit = "rocksdb.row.cache.hit",
        RowCacheMiss = "rocksdb.row.cache.miss",
        BlobDbBlobFileBytesWritten = "rocksdb.blobdb.blob.file.bytes.written",
        BlobDbBlobFileBytesRead = "rocksdb.blobdb.blob.file.bytes.read",
        BlobDbBlobFileSynced = "rocksdb.blobdb.blob.file.synced",
        BlobDbGcNumKeysRelocated = "rocksdb.blobdb.gc.num.keys.relocated",
        BlobDbGcBytesRelocated = "rocksdb.blobdb.gc.bytes.relocated",
        BlobDbCacheMiss = "rocksdb.blobdb.cache.miss",
        BlobDbCacheHit = "rocksdb.blobdb.cache.hit",
        BlobDbCacheAdd = "rocksdb.blobdb.cache.add",
        BlobDbCacheAddFailures = "rocksdb.blobdb.cache.add.failures",
        BlobDbCacheBytesRead = "rocksdb.blobdb.cache.bytes.read",
        BlobDbCacheBytesWrite = "rocksdb.blobdb.cache.bytes.write",
        ReadAmpEstimateUsefulBytes = "rocksdb.read.amp.estimate.useful.bytes",
        ReadAmpTotalReadBytes = "rocksdb.read.amp.total.read.bytes",
        NumberRateLimiterDrains = "rocksdb.number.rate_limiter.drains",
        RateLimiterBytesRead = "rocksdb.rate.limiter.bytes.read",
        RateLimiterBytesWrite = "rocksdb.rate.limiter.bytes.write",
        RateLimiterRequestsRead = "rocksdb.rate.limiter.requests.read",
        RateLimiterRequestsWrite = "rocksdb.rate.limiter.requests.write",
        RateLimiterDelayedRequestsRead = "rocksdb.rate.limiter.delayed.requests.read",
        RateLimiterDelayedRequestsWrite = "rocksdb.rate.limiter.delayed.requests.write",
        RateLimiterTotalWaitMicrosRead = "rocksdb.rate.limiter.total.wait.micros.read",
        RateLimiterTotalWaitMicrosWrite = "rocksdb.rate.limiter.total.wait.micros.write",
        FilesMarkedTrash = "rocksdb.files.marked.trash",
        FilesDeletedFromTrashQueue = "rocksdb.files.marked.trash.deleted",
        FilesDeletedImmediately = "rocksdb.files.deleted.immediately",
        ErrorHandlerBgErrorCount = "rocksdb.error.handler.bg.error.count",
        ErrorHandlerBgIoErrorCount = "rocksdb.error.handler.bg.io.error.count",
        ErrorHandlerBgRetryableIoErrorCount =
            "rocksdb.error.handler.bg.retryable.io.error.count",
        ErrorHandlerAutoresumeCount = "rocksdb.error.handler.autoresume.count",
        ErrorHandlerAutoresumeRetryTotalCount =
            "rocksdb.error.handler.autoresume.retry.total.count",
        ErrorHandlerAutoresumeSuccessCount = "rocksdb.error.handler.autoresume.success.count",
        MemtablePayloadBytesAtFlush = "rocksdb.memtable.payload.bytes.at.flush",
        MemtableGarbageBytesAtFlush = "rocksdb.memtable.garbage.bytes.at.flush",
        VerifyChecksumReadBytes = "rocksdb.verify_checksum.read.bytes",
        LastLevelReadBytes = "rocksdb.last.level.read.bytes",
        LastLevelReadCount = "rocksdb.last.level.read.count",
        NonLastLevelReadBytes = "rocksdb.non.last.level.read.bytes",
        NonLastLevelReadCount = "rocksdb.non.last.level.read.count",
        LastLevelSeekFiltered = "rocksdb.last.level.seek.filtered",
        LastLevelSeekFilterMatch = "rocksdb.last.level.seek.filter.match",
        NonLastLevelSeekFiltered = "rocksdb.non.last.level.seek.filtered",
        NonLastLevelSeekFilterMatch = "rocksdb.non.last.level.seek.filter.match",
        BlockChecksumComputeCount = "rocksdb.block.checksum.compute.count",
        BlockChecksumMismatchCount = "rocksdb.block.checksum.mismatch.count",
        FifoMaxSizeCompactions = "rocksdb.fifo.max.size.compactions",
        FifoTtlCompactions = "rocksdb.fifo.ttl.compactions",
        FifoChangeTemperatureCompactions = "rocksdb.fifo.change_temperature.compactions",
        PrefetchBytes = "rocksdb.prefetch.bytes",
        PrefetchBytesUseful = "rocksdb.prefetch.bytes.useful",
        PrefetchHits = "rocksdb.prefetch.hits",
        FooterCorruptionCount = "rocksdb.footer.corruption.count",
        CompactionDisabledCount = "rocksdb.compaction.disabled.count",
    }
}

stat_names! {
    /// A distribution of values.
    ///
    /// Example: that of [`Ticker`](crate::Ticker).
    pub enum HistogramKind {
        DbGet = "rocksdb.db.get.micros",
        DbWrite = "rocksdb.db.write.micros",
        CompactionTime = "rocksdb.compaction.times.micros",
        CompactionCpuTime = "rocksdb.compaction.times.cpu_micros",
        SubcompactionSetupTime = "rocksdb.subcompaction.setup.times.micros",
        TableSyncMicros = "rocksdb.table.sync.micros",
        CompactionOutfileSyncMicros = "rocksdb.compaction.outfile.sync.micros",
        WalFileSyncMicros = "rocksdb.wal.file.sync.micros",
        ManifestFileSyncMicros = "rocksdb.manifest.file.sync.micros",
        TableOpenIoMicros = "rocksdb.table.open.io.micros",
        DbMultiget = "rocksdb.db.multiget.micros",
        ReadBlockCompactionMicros = "rocksdb.read.block.compaction.micros",
        ReadBlockGetMicros = "rocksdb.read.block.get.micros",
        WriteRawBlockMicros = "rocksdb.write.raw.block.micros",
        NumFilesInSingleCompaction = "rocksdb.numfiles.in.singlecompaction",
        DbSeek = "rocksdb.db.seek.micros",
        WriteStall = "rocksdb.db.write.stall",
        SstReadMicros = "rocksdb.sst.read.micros",
        FileReadFlushMicros = "rocksdb.file.read.flush.micros",
        FileReadCompactionMicros = "rocksdb.file.read.compaction.micros",
        FileReadDbOpenMicros = "rocksdb.file.read.db.open.micros",
        FileReadGetMicros = "rocksdb.file.read.get.micros",
        FileReadMultigetMicros = "rocksdb.file.read.multiget.micros",
        FileReadDbIteratorMicros = "rocksdb.file.read.db.iterator.micros",
        SstWriteMicros = "rocksdb.sst.write.micros",
        FileWriteFlushMicros = "rocksdb.file.write.flush.micros",
        FileWriteCompactionMicros = "rocksdb.file.write.compaction.micros",
        FileWriteDbOpenMicros = "rocksdb.file.write.db.open.micros",
        NumSubcompactionsScheduled = "rocksdb.num.subcompactions.scheduled",
        BytesPerRead = "rocksdb.bytes.per.read",
        BytesPerWrite = "rocksdb.bytes.per.write",
        BytesPerMultiget = "rocksdb.bytes.per.multiget",
        CompressionTimesNanos = "rocksdb.compression.times.nanos",
        DecompressionTimesNanos = "rocksdb.decompression.times.nanos",
        ReadNumMergeOperands = "rocksdb.read.num.merge_operands",
        BlobDbBlobFileWriteMicros = "rocksdb.blobdb.blob.file.write.micros",
        BlobDbBlobFileReadMicros = "rocksdb.blobdb.blob.file.read.micros",
        BlobDbBlobFileSyncMicros = "rocksdb.blobdb.blob.file.sync.micros",
        BlobDbCompressionMicros = "rocksdb.blobdb.compression.micros",
        BlobDbDecompressionMicros = "rocksdb.blobdb.decompression.micros",
        FlushTime = "rocksdb.db.flush.micros",
        NumSstReadPerLevel = "rocksdb.num.sst.read.per.level",
        NumLevelReadPerMultiget = "rocksdb.num.level.read.per.multiget",
        ErrorHandlerAutoresumeRetryCount = "rocksdb.error.handler.autoresume.retry.count",
        RateLimiterWaitMicrosRead = "rocksdb.rate.limiter.wait.micros.read",
        RateLimiterWaitMicrosWrite = "rocksdb.rate.limiter.wait.micros.write",
    }
}
