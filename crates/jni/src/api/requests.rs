//! Options of reads, writes and compression.

use jni_sys::jvalue;
use pumice::{CompressionOptions, Snapshot};
use pumice_binding::env::Env as Files;
use pumice_binding::requests::BackupOptions;
use pumice_binding::store::{Fields, Store};

use crate::api::callbacks::engine_logger;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::into::New;
use crate::objects::{Compression, Limiter, Log, ReadOptions, Slice, Values, WriteOptions};

/// Java: ReadOptions.newReadOptions ()
pub fn new_read(_env: Env<'_>) -> Result<New<ReadOptions>> {
    Ok(New(ReadOptions::default()))
}

/// Java: ReadOptions.newReadOptions (ZZ)
pub fn new_read_with(_env: Env<'_>, verify: bool, fill: bool) -> Result<New<ReadOptions>> {
    let mut options = ReadOptions::default();
    options.store_mut().put("verify_checksums", u64::from(verify));
    options.store_mut().put("fill_cache", u64::from(fill));
    options.changed();
    Ok(New(options))
}

/// Java: ReadOptions.copyReadOptions
pub fn copy_read(_env: Env<'_>, options: &ReadOptions) -> Result<New<ReadOptions>> {
    Ok(New(options.clone()))
}

/// Java: ReadOptions.setSnapshot 0 1 1
pub fn set_snapshot(
    _env: Env<'_>,
    options: &mut ReadOptions,
    snapshot: Option<&Snapshot>,
    handle: i64,
) -> Result<()> {
    options.values.set_snapshot(snapshot.cloned());
    options.handles[0] = handle;
    Ok(())
}

/// Java: ReadOptions.snapshot
pub fn snapshot(_env: Env<'_>, options: &ReadOptions) -> Result<i64> {
    Ok(options.handles[0])
}

fn bytes(slice: Option<&Slice>) -> Option<Vec<u8>> {
    slice.map(|slice| slice.bytes().to_vec())
}

/// Java: ReadOptions.setIterateLowerBound 0 1 1
pub fn set_lower(
    _env: Env<'_>,
    options: &mut ReadOptions,
    bound: Option<&Slice>,
    handle: i64,
) -> Result<()> {
    options.lower = bytes(bound);
    options.handles[1] = handle;
    Ok(())
}

/// Java: ReadOptions.setIterateUpperBound 0 1 1
pub fn set_upper(
    _env: Env<'_>,
    options: &mut ReadOptions,
    bound: Option<&Slice>,
    handle: i64,
) -> Result<()> {
    options.upper = bytes(bound);
    options.handles[2] = handle;
    Ok(())
}

/// Java: ReadOptions.iterateLowerBound
pub fn lower(_env: Env<'_>, options: &ReadOptions) -> Result<i64> {
    Ok(options.handles[1])
}

/// Java: ReadOptions.iterateUpperBound
pub fn upper(_env: Env<'_>, options: &ReadOptions) -> Result<i64> {
    Ok(options.handles[2])
}

/// Java: ReadOptions.setTimestamp 0 1 1
pub fn set_timestamp(
    _env: Env<'_>,
    options: &mut ReadOptions,
    timestamp: Option<&Slice>,
    handle: i64,
) -> Result<()> {
    options.values.set_timestamp(bytes(timestamp));
    options.handles[3] = handle;
    Ok(())
}

/// Java: ReadOptions.timestamp
pub fn timestamp(_env: Env<'_>, options: &ReadOptions) -> Result<i64> {
    Ok(options.handles[3])
}

/// Java: ReadOptions.setIterStartTs 0 1 1
pub fn set_iter_start(
    _env: Env<'_>,
    options: &mut ReadOptions,
    timestamp: Option<&Slice>,
    handle: i64,
) -> Result<()> {
    options.start_timestamp = bytes(timestamp);
    options.handles[4] = handle;
    Ok(())
}

/// Java: ReadOptions.iterStartTs
pub fn iter_start(_env: Env<'_>, options: &ReadOptions) -> Result<i64> {
    Ok(options.handles[4])
}

/// Java: WriteOptions.newWriteOptions
pub fn new_write(_env: Env<'_>) -> Result<New<WriteOptions>> {
    Ok(New(WriteOptions::default()))
}

/// Java: WriteOptions.copyWriteOptions
pub fn copy_write(_env: Env<'_>, options: &WriteOptions) -> Result<New<WriteOptions>> {
    Ok(New(options.clone()))
}

/// Java: RestoreOptions.newRestoreOptions
pub fn new_restore(_env: Env<'_>, keep_log_files: bool) -> Result<New<Values>> {
    let store = Store::named("restore_options");
    Ok(New(Values(store.with("keep_log_files", u64::from(keep_log_files)))))
}

/// Java: IngestExternalFileOptions.newIngestExternalFileOptions (ZZZZ)
pub fn new_ingest(
    _env: Env<'_>,
    move_files: bool,
    snapshot_consistency: bool,
    allow_global_seqno: bool,
    allow_blocking_flush: bool,
) -> Result<New<Values>> {
    let store = Store::named("ingestexternalfileoptions")
        .with("move_files", u64::from(move_files))
        .with("snapshot_consistency", u64::from(snapshot_consistency))
        .with("allow_global_seqno", u64::from(allow_global_seqno))
        .with("allow_blocking_flush", u64::from(allow_blocking_flush));
    Ok(New(Values(store)))
}

/// Java: CompactRangeOptions.setFullHistoryTSLow
pub fn set_history_low(_env: Env<'_>, options: &mut Values, start: i64, range: i64) -> Result<()> {
    // Timestamps of 16 bytes, as RocksDB makes them of the two.
    let low = [start.to_le_bytes(), range.to_le_bytes()].concat();
    options.store_mut().put_text("full_history_ts_low", low);
    Ok(())
}

/// Java: CompactRangeOptions.fullHistoryTSLow
pub fn history_low<'a>(env: Env<'a>, options: &Values) -> Result<Option<Object<'a>>> {
    let Some((start, range)) = options.store().text("full_history_ts_low").split_first_chunk()
    else {
        return Ok(None);
    };
    let range = range.first_chunk().copied().unwrap_or_default();
    let number = |bytes| jvalue { j: i64::from_le_bytes(bytes) };
    let arguments = [number(*start), number(range)];
    env.construct("org/rocksdb/CompactRangeOptions$Timestamp", "(JJ)V", &arguments).map(Some)
}

/// Java: EnvOptions.newEnvOptions (J) -
pub fn new_env_of(_env: Env<'_>, _options: i64) -> Result<New<Values>> {
    Ok(New(Values(Store::named("envoptions"))))
}

/// Java: EnvOptions.setRateLimiter
pub fn set_env_limiter(_env: Env<'_>, _options: &Values, _limiter: &Limiter) -> Result<()> {
    // Files of writers of tables are not paced; that of a database is set at the database.
    Ok(())
}

/// Java: BackupEngineOptions.newBackupEngineOptions
pub fn new_backup(_env: Env<'_>, dir: String) -> Result<New<BackupOptions>> {
    Ok(New(BackupOptions::new(dir.as_bytes())))
}

/// Java: BackupEngineOptions.setBackupEnv
pub fn set_backup_env(_env: Env<'_>, options: &mut BackupOptions, files: &Files) -> Result<()> {
    options.env = Some(files.clone());
    Ok(())
}

/// Java: BackupEngineOptions.setInfoLog
pub fn set_backup_log(_env: Env<'_>, options: &mut BackupOptions, log: Option<&Log>) -> Result<()> {
    options.info_log.0 = log.map(engine_logger);
    Ok(())
}

/// Java: BackupEngineOptions.setBackupRateLimiter
pub fn set_backup_limiter(
    _env: Env<'_>,
    options: &mut BackupOptions,
    limiter: &Limiter,
) -> Result<()> {
    options.limits.backup = Some(limiter.0.clone()?);
    Ok(())
}

/// Java: BackupEngineOptions.setRestoreRateLimiter
pub fn set_restore_limiter(
    _env: Env<'_>,
    options: &mut BackupOptions,
    limiter: &Limiter,
) -> Result<()> {
    options.limits.restore = Some(limiter.0.clone()?);
    Ok(())
}

/// Java: CompressionOptions.newCompressionOptions
pub fn new_compression(_env: Env<'_>) -> Result<New<Compression>> {
    Ok(New(Compression { engine: CompressionOptions::default(), enabled: false }))
}

/// Java: CompressionOptions.windowBits
pub fn window_bits(_env: Env<'_>, options: &Compression) -> Result<i32> {
    Ok(options.engine.window_bits)
}

/// Java: CompressionOptions.setWindowBits
pub fn set_window_bits(_env: Env<'_>, options: &mut Compression, bits: i32) -> Result<()> {
    options.engine.window_bits = bits;
    Ok(())
}

/// Java: CompressionOptions.level
pub fn level(_env: Env<'_>, options: &Compression) -> Result<i32> {
    Ok(options.engine.level)
}

/// Java: CompressionOptions.setLevel
pub fn set_level(_env: Env<'_>, options: &mut Compression, level: i32) -> Result<()> {
    options.engine.level = level;
    Ok(())
}

/// Java: CompressionOptions.strategy
pub fn strategy(_env: Env<'_>, options: &Compression) -> Result<i32> {
    Ok(options.engine.strategy)
}

/// Java: CompressionOptions.setStrategy
pub fn set_strategy(_env: Env<'_>, options: &mut Compression, strategy: i32) -> Result<()> {
    options.engine.strategy = strategy;
    Ok(())
}

/// Java: CompressionOptions.maxDictBytes
pub fn dict_bytes(_env: Env<'_>, options: &Compression) -> Result<i32> {
    Ok(options.engine.max_dict_bytes.cast_signed())
}

/// Java: CompressionOptions.setMaxDictBytes
pub fn set_dict_bytes(_env: Env<'_>, options: &mut Compression, bytes: i32) -> Result<()> {
    options.engine.max_dict_bytes = bytes.cast_unsigned();
    Ok(())
}

/// Java: CompressionOptions.zstdMaxTrainBytes
pub fn train_bytes(_env: Env<'_>, options: &Compression) -> Result<i32> {
    Ok(options.engine.zstd_max_train_bytes.cast_signed())
}

/// Java: CompressionOptions.setZstdMaxTrainBytes
pub fn set_train_bytes(_env: Env<'_>, options: &mut Compression, bytes: i32) -> Result<()> {
    options.engine.zstd_max_train_bytes = bytes.cast_unsigned();
    Ok(())
}

/// Java: CompressionOptions.enabled
pub fn enabled(_env: Env<'_>, options: &Compression) -> Result<bool> {
    Ok(options.enabled)
}

/// Java: CompressionOptions.setEnabled
pub fn set_enabled(_env: Env<'_>, options: &mut Compression, enabled: bool) -> Result<()> {
    options.enabled = enabled;
    Ok(())
}
