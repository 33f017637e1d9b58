//! Options of requests: the stored values as the engine's.
//!
//! Those of reads and writes, which every call takes, are translated when they are changed; the
//! others when they are used.
//!
//! Thread safety: plain data.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use pumice::backup::{BackupEngineOptions, RestoreMode, RestoreOptions, ShareFilesNaming};
use pumice::options::UserDefinedIndex;
use pumice::{
    BottommostLevelCompaction, CancelFlag, CompactFilesOptions, CompactRangeOptions, Error,
    FlushOptions, IngestExternalFileOptions, IoPriority, Logger, Result, Snapshot,
    WaitForCompactOptions,
};

use crate::store::{Fields, Store};

/// The priority with RocksDB's number; None does not use the rate limiter.
fn io_priority(number: i64) -> Option<IoPriority> {
    match number {
        0 => Some(IoPriority::Low),
        1 => Some(IoPriority::Mid),
        2 => Some(IoPriority::High),
        3 => Some(IoPriority::User),
        _ => None,
    }
}

/// `rocksdb_readoptions_t`. Bounds are not in it: RocksDB's are pointers into the caller's memory.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    store: Store,
    engine: pumice::ReadOptions,
    /// `merge_operand_count_threshold` is set.
    pub has_operand_threshold: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            store: Store::named("readoptions"),
            engine: pumice::ReadOptions::default(),
            has_operand_threshold: false,
        }
    }
}

impl Fields for ReadOptions {
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
    fn changed(&mut self) {
        let store = &self.store;
        let (snapshot, timestamp) = (self.engine.snapshot.take(), self.engine.timestamp.take());
        self.engine = pumice::ReadOptions {
            snapshot,
            timestamp,
            verify_checksums: store.flag("verify_checksums"),
            fill_cache: store.flag("fill_cache"),
            readahead_size: usize::try_from(store.bits("readahead_size")).unwrap_or(usize::MAX),
            auto_readahead_size: store.flag("auto_readahead_size"),
            prefix_same_as_start: store.flag("prefix_same_as_start"),
            total_order_seek: store.flag("total_order_seek"),
            cache_only: store.int("read_tier") == 1,
            rate_limiter_priority: io_priority(store.int("rate_limiter_priority")),
            deadline_micros: store.bits("deadline"),
            io_timeout_micros: store.bits("io_timeout"),
            tailing: store.flag("tailing"),
            ignore_range_deletions: store.flag("ignore_range_deletions"),
            max_skippable_internal_keys: store.bits("max_skippable_internal_keys"),
            table_index_factory: index_factory(store.text("table_index_factory_name")),
            ..pumice::ReadOptions::DEFAULT
        };
    }
}

impl ReadOptions {
    /// The engine's options, without bounds.
    pub fn engine(&self) -> &pumice::ReadOptions {
        &self.engine
    }

    /// Reads as of `snapshot`, or of the latest state.
    pub fn set_snapshot(&mut self, snapshot: Option<Snapshot>) {
        self.engine.snapshot = snapshot;
    }

    /// Reads are as of this timestamp, for keys that have some.
    pub fn set_timestamp(&mut self, timestamp: Option<Vec<u8>>) {
        self.engine.timestamp = timestamp;
    }

    /// What a read would do otherwise than RocksDB's, by name.
    ///
    /// # Errors
    /// NotSupported.
    pub fn check(&self) -> Result<()> {
        let store = &self.store;
        match store.int("read_tier") {
            // Everything, and what is in memory.
            0 | 1 => Ok(()),
            other => Err(unsupported("read_tier", other)),
        }
    }
}

/// The index that a read asks for by the name of its factory.
fn index_factory(name: &[u8]) -> Option<UserDefinedIndex> {
    UserDefinedIndex::by_name(std::str::from_utf8(name).ok()?)
}

fn unsupported(name: &str, value: i64) -> Error {
    Error::not_supported(format!("ReadOptions.{name}={value} is not supported by this build"))
}

/// `rocksdb_writeoptions_t`.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    store: Store,
    engine: pumice::WriteOptions,
}

impl Default for WriteOptions {
    fn default() -> Self {
        let store = Store::named("writeoptions");
        WriteOptions { store, engine: pumice::WriteOptions::default() }
    }
}

impl Fields for WriteOptions {
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
    fn changed(&mut self) {
        let store = &self.store;
        self.engine = pumice::WriteOptions {
            sync: store.flag("sync"),
            disable_wal: store.flag("disable_WAL"),
            no_slowdown: store.flag("no_slowdown"),
            low_pri: store.flag("low_pri"),
            ignore_missing_column_families: store.flag("ignore_missing_column_families"),
            rate_limiter_priority: io_priority(store.int("rate_limiter_priority")),
            protection_bytes_per_key: u8::try_from(store.bits("protection_bytes_per_key"))
                .unwrap_or(u8::MAX),
        };
    }
}

impl WriteOptions {
    /// The engine's options.
    pub fn engine(&self) -> &pumice::WriteOptions {
        &self.engine
    }
}

/// `rocksdb_flushoptions_t`.
pub fn flush(store: &Store) -> FlushOptions {
    FlushOptions {
        wait: store.flag("wait"),
        allow_write_stall: store.flag("allow_write_stall"),
        listener_wait: store.flag("listener_wait"),
    }
}

/// `rocksdb_compactoptions_t`.
pub fn compact_range(store: &Store) -> CompactRangeOptions {
    CompactRangeOptions {
        exclusive_manual_compaction: store.flag("exclusive_manual_compaction"),
        change_level: store.flag("change_level"),
        target_level: i32::try_from(store.int("target_level")).unwrap_or(-1),
        bottommost_level_compaction: match store.int("bottommost_level_compaction") {
            0 => BottommostLevelCompaction::Skip,
            2 => BottommostLevelCompaction::Force,
            3 => BottommostLevelCompaction::ForceOptimized,
            _ => BottommostLevelCompaction::IfHaveCompactionFilter,
        },
        allow_write_stall: store.flag("allow_write_stall"),
        max_subcompactions: u32::try_from(store.int("max_subcompactions")).unwrap_or(0),
        canceled: None,
        target_path_id: u32::try_from(store.int("target_path_id")).unwrap_or(u32::MAX),
        full_history_ts_low: match store.text("full_history_ts_low") {
            b"" => None,
            low => Some(low.to_vec()),
        },
        ..CompactRangeOptions::default()
    }
}

/// `rocksdb_compaction_options_t`, of compact_files, with the switch that ends it.
pub fn compact_files(store: &Store, canceled: Option<CancelFlag>) -> CompactFilesOptions {
    let number = u8::try_from(store.int("compression")).ok();
    let chosen = number.filter(|number| *number != 255);
    CompactFilesOptions {
        compression: chosen.and_then(pumice::CompressionType::from_u8),
        output_file_size_limit: store.bits("output_file_size_limit"),
        max_subcompactions: u32::try_from(store.int("max_subcompactions")).unwrap_or(0),
        canceled,
        output_path_id: None,
        output_temperature_override: u8::try_from(store.int("output_temperature_override"))
            .map_or(pumice::Temperature::Unknown, pumice::Temperature::of_byte),
    }
}

/// `rocksdb_wait_for_compact_options_t`.
pub fn wait_for_compact(store: &Store) -> WaitForCompactOptions {
    WaitForCompactOptions {
        flush: store.flag("flush"),
        close_db: store.flag("close_db"),
        timeout_micros: store.bits("timeout"),
        abort_on_pause: store.flag("abort_on_pause"),
    }
}

/// `rocksdb_ingestexternalfileoptions_t`.
pub fn ingest(store: &Store) -> IngestExternalFileOptions {
    IngestExternalFileOptions {
        move_files: store.flag("move_files"),
        link_files: store.flag("link_files"),
        failed_move_fall_back_to_copy: store.flag("failed_move_fall_back_to_copy"),
        snapshot_consistency: store.flag("snapshot_consistency"),
        allow_global_seqno: store.flag("allow_global_seqno"),
        allow_blocking_flush: store.flag("allow_blocking_flush"),
        ingest_behind: store.flag("ingest_behind"),
        write_global_seqno: store.flag("write_global_seqno"),
        verify_checksums_before_ingest: store.flag("verify_checksums_before_ingest"),
        fail_if_not_bottommost_level: store.flag("fail_if_not_bottommost_level"),
        allow_db_generated_files: store.flag("allow_db_generated_files"),
        fill_cache: store.flag("fill_cache"),
        ..IngestExternalFileOptions::default()
    }
}

/// `rocksdb_restore_options_t`.
///
/// # Errors
/// InvalidArgument for a mode that there is not.
pub fn restore(store: &Store) -> Result<RestoreOptions> {
    let mode = match store.int("mode") {
        1 => RestoreMode::KeepLatestDbSessionIdFiles,
        2 => RestoreMode::VerifyChecksum,
        0xffff => RestoreMode::PurgeAllFiles,
        other => return Err(Error::invalid_argument(format!("RestoreOptions.mode={other}"))),
    };
    Ok(RestoreOptions { keep_log_files: store.flag("keep_log_files"), mode })
}

/// `rocksdb_backup_engine_options_t`, with its objects.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    store: Store,
    /// Paces backups and restores.
    pub limits: pumice::backup::BackupLimits,
    /// The file system of the backups; None for that of the engine's environment.
    pub env: Option<crate::env::Env>,
    /// Where the engine notes what it does.
    pub info_log: InfoLog,
}

/// A log, or none.
#[derive(Clone, Default)]
pub struct InfoLog(pub Option<Arc<dyn Logger>>);

impl fmt::Debug for InfoLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InfoLog")
    }
}

impl BackupOptions {
    /// Options of backups in `dir`.
    pub fn new(dir: &[u8]) -> BackupOptions {
        let store = Store::named("backup_engine_options").with_text("backup_dir", dir);
        let limits = pumice::backup::BackupLimits::default();
        BackupOptions { store, limits, env: None, info_log: InfoLog::default() }
    }

    /// What would give backups that are not those asked for. Files are always synced.
    ///
    /// # Errors
    /// NotSupported, naming the option.
    pub fn check(&self) -> Result<()> {
        if self.naming().is_none() {
            let naming = self.store.int("share_files_with_checksum_naming");
            let text = format!("BackupEngineOptions.share_files_with_checksum_naming={naming}");
            return Err(Error::invalid_argument(text));
        }
        self.engine().check()
    }

    fn naming(&self) -> Option<ShareFilesNaming> {
        const SIZE: i64 = 1 << 31;
        // An `int` of C, whose highest bit is a flag, which names by checksum ignore.
        match self.store.int("share_files_with_checksum_naming") & 0xffff_ffff {
            number if number & !SIZE == 1 => Some(ShareFilesNaming::LegacyCrc32cAndFileSize),
            2 => Some(ShareFilesNaming::UseDbSessionId),
            number if number == SIZE | 2 => Some(ShareFilesNaming::UseDbSessionIdAndFileSize),
            _ => None,
        }
    }

    /// The engine's options.
    pub fn engine(&self) -> BackupEngineOptions {
        BackupEngineOptions {
            backup_log_files: self.store.flag("backup_log_files"),
            callback_trigger_interval_size: self.store.bits("callback_trigger_interval_size"),
            share_table_files: self.store.flag("share_table_files"),
            share_files_with_checksum: self.store.flag("share_files_with_checksum"),
            share_files_with_checksum_naming: self.naming().unwrap_or_default(),
            schema_version: u32::try_from(self.store.int("schema_version")).unwrap_or(0),
        }
    }

    /// The limiters, with those that a rate asks for.
    ///
    /// # Errors
    /// InvalidArgument for a rate that no limiter has.
    pub fn limits(&self) -> Result<pumice::backup::BackupLimits> {
        let mut limits = self.limits.clone();
        let limiter = |rate: u64| -> Result<Arc<pumice::RateLimiter>> {
            let options = pumice::RateLimiterOptions {
                mode: pumice::RateLimiterMode::AllIo,
                ..pumice::RateLimiterOptions::new(rate)
            };
            pumice::RateLimiter::new(&options).map(Arc::new)
        };
        let (backup, restore) =
            (self.store.bits("backup_rate_limit"), self.store.bits("restore_rate_limit"));
        if limits.backup.is_none() && backup > 0 {
            limits.backup = Some(limiter(backup)?);
        }
        if limits.restore.is_none() && restore > 0 {
            limits.restore = Some(limiter(restore)?);
        }
        Ok(limits)
    }

    /// The directory of the backups.
    pub fn dir(&self) -> PathBuf {
        crate::path(self.store.text("backup_dir"))
    }
}

impl Fields for BackupOptions {
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}
