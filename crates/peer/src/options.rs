//! Options: database and column family options by name, block caches, read and write options.
//!
//! Thread safety: as in the crate head. Invariants (besides the crate's): (4) `ReadOptions` and
//! `WriteOptions` are never changed after construction, so live iterators may point into them.

use crate::api::Object;
use crate::snapshot::Snapshot;
use crate::{Peer, Result, c_path, c_string};
use std::ffi::CStr;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

/// Database and column family options in one object, as RocksDB's `Options`.
pub struct Options {
    pub(crate) peer: Peer,
    pub(crate) raw: Object,
}

// SAFETY: the C object is plain data and shared pointers; RocksDB only reads it during opens.
unsafe impl Send for Options {}
// SAFETY: every method that writes takes `&mut self`.
unsafe impl Sync for Options {}

impl Options {
    /// RocksDB's defaults.
    pub fn new(peer: &Peer) -> Self {
        // SAFETY: plain constructor (crate invariant 1).
        let raw = unsafe { (peer.api.options_create)() };
        Options { peer: peer.clone(), raw }
    }

    /// The options of the database at `path` and those of its column families, as RocksDB reads
    /// its newest OPTIONS file.
    ///
    /// # Errors
    /// There is no such file, or RocksDB does not know everything in it.
    pub fn latest(peer: &Peer, path: &Path) -> Result<(Options, Vec<(String, Options)>)> {
        let path = c_path(path)?;
        let (mut raw, mut names, mut families) = (null_mut(), null_mut(), null_mut());
        let mut len = 0;
        // SAFETY: plain constructors (crate invariant 1).
        let (env, cache) =
            unsafe { ((peer.api.create_default_env)(), (peer.api.cache_create_lru)(0)) };
        let loaded = peer.checked(|api, error| {
            let (raw, len, names, families) = (&mut raw, &mut len, &mut names, &mut families);
            // SAFETY: live objects, and out-parameters, which are set when there is no error.
            unsafe {
                let load = api.load_latest_options;
                load(path.as_ptr(), env, false, cache, raw, len, names, families, error);
            }
        });
        let copy = |raw: Object| {
            // SAFETY: live options.
            let raw = unsafe { (peer.api.options_create_copy)(raw) };
            Options { peer: peer.clone(), raw }
        };
        let found = loaded.map(|()| {
            let family = |i: usize| {
                // SAFETY: arrays of `len` C strings and options.
                let (name, raw) = unsafe { (CStr::from_ptr(*names.add(i)), *families.add(i)) };
                (name.to_string_lossy().into_owned(), copy(raw))
            };
            let found = (copy(raw), (0..len).map(family).collect());
            // SAFETY: all three are ours to destroy, and were copied.
            unsafe { (peer.api.load_latest_options_destroy)(raw, names, families, len) };
            found
        });
        // SAFETY: what was copied shares the cache and the process's environment.
        unsafe {
            (peer.api.cache_destroy)(cache);
            (peer.api.env_destroy)(env);
        }
        found
    }

    /// Sets one option by its name in the OPTIONS file, for example
    /// `("merge_operator", "stringappend")` or `("compression_opts", "{level=3}")`.
    ///
    /// # Errors
    /// RocksDB does not know the name or refuses the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.set_many(&format!("{name}={value}"))
    }

    /// Sets options written as in an OPTIONS file, separated by semicolons.
    ///
    /// # Errors
    /// As [`Options::set`]; then nothing is changed.
    pub fn set_many(&mut self, text: &str) -> Result<()> {
        let text = c_string(text)?;
        let fresh = Options::new(&self.peer);
        self.peer.checked(|api, error| {
            // SAFETY: both objects are live options (crate invariant 1).
            unsafe { (api.get_options_from_string)(self.raw, text.as_ptr(), fresh.raw, error) }
        })?;
        *self = fresh;
        Ok(())
    }

    /// Sets options of the block-based table, for example `block_size=4096;format_version=5`.
    ///
    /// # Errors
    /// As [`Options::set`].
    pub fn set_table(&mut self, text: &str) -> Result<()> {
        self.set("block_based_table_factory", &format!("{{{text}}}"))
    }

    /// Resets the block-based table options, with `cache` as block cache.
    pub fn set_block_cache(&mut self, cache: &Cache) {
        let api = &self.peer.api;
        // SAFETY: live objects; the factory copies the table options and shares the cache.
        unsafe {
            let table = (api.block_based_options_create)();
            (api.block_based_options_set_block_cache)(table, cache.raw);
            (api.options_set_block_based_table_factory)(self.raw, table);
            (api.block_based_options_destroy)(table);
        }
    }

    /// Keeps values that reads find in blob files in `cache`.
    pub fn set_blob_cache(&mut self, cache: &Cache) {
        // SAFETY: live objects; the options share the cache.
        unsafe { (self.peer.api.options_set_blob_cache)(self.raw, cache.raw) };
    }

    /// Keeps rows that point reads find in tables in `cache`.
    pub fn set_row_cache(&mut self, cache: &Cache) {
        // SAFETY: live objects; the options share the cache.
        unsafe { (self.peer.api.options_set_row_cache)(self.raw, cache.raw) };
    }

    /// Paces every database opened with these options, all of them together.
    pub fn set_rate_limiter(&mut self, settings: &RateLimiterSettings) {
        let RateLimiterSettings { rate, refill_period_micros, fairness, mode, auto_tuned } =
            *settings;
        let api = &self.peer.api;
        // SAFETY: live objects; the options share the limiter.
        unsafe {
            let limiter = (api.ratelimiter_create_with_mode)(
                rate,
                refill_period_micros,
                fairness,
                mode,
                u8::from(auto_tuned),
            );
            (api.options_set_ratelimiter)(self.raw, limiter);
            (api.ratelimiter_destroy)(limiter);
        }
    }

    /// Deletes files of every database opened with these options at `bytes_per_sec`, if trash is
    /// no more than `max_trash_db_ratio` of all.
    pub fn set_sst_file_manager(&mut self, bytes_per_sec: i64, max_trash_db_ratio: f64) {
        let api = &self.peer.api;
        // SAFETY: live objects; the options share the manager, which shares the environment.
        unsafe {
            let env = (api.create_default_env)();
            let manager = (api.sst_file_manager_create)(env);
            (api.sst_file_manager_set_delete_rate_bytes_per_second)(manager, bytes_per_sec);
            (api.sst_file_manager_set_max_trash_db_ratio)(manager, max_trash_db_ratio);
            (api.options_set_sst_file_manager)(self.raw, manager);
            (api.sst_file_manager_destroy)(manager);
            (api.env_destroy)(env);
        }
    }

    /// Collects statistics in every database opened with these options.
    pub fn enable_statistics(&mut self) {
        // SAFETY: live object.
        unsafe { (self.peer.api.options_enable_statistics)(self.raw) }
    }

    /// The statistics as RocksDB prints them; `None` without [`Options::enable_statistics`].
    pub fn statistics_text(&self) -> Option<String> {
        // SAFETY: live object; the text is handed over to us.
        let text = unsafe { (self.peer.api.options_statistics_get_string)(self.raw) };
        (!text.is_null()).then(|| self.peer.take_string(text))
    }

    /// The counter that RocksDB calls `name`, for example `rocksdb.bloom.filter.useful`; `None` if
    /// there is no such counter, or no statistics.
    pub fn ticker(&self, name: &str) -> Option<u64> {
        let text = self.statistics_text()?;
        let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
        line.strip_prefix(name)?.strip_prefix(" COUNT : ")?.parse().ok()
    }
}

impl Clone for Options {
    fn clone(&self) -> Self {
        // SAFETY: live object; the copy shares caches and statistics.
        let raw = unsafe { (self.peer.api.options_create_copy)(self.raw) };
        Options { peer: self.peer.clone(), raw }
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1.
        unsafe { (self.peer.api.options_destroy)(self.raw) }
    }
}

/// The arguments of `NewGenericRateLimiter` that the C API has.
#[derive(Clone, Copy, Debug)]
pub struct RateLimiterSettings {
    /// Bytes per second, above 0.
    pub rate: i64,
    /// Microseconds between refills, above 0.
    pub refill_period_micros: i64,
    /// One refill in this many serves lower priorities first.
    pub fairness: i32,
    /// 0 limits reads, 1 writes, 2 both.
    pub mode: i32,
    /// The rate follows the load.
    pub auto_tuned: bool,
}

/// A block cache.
pub struct Cache {
    peer: Peer,
    raw: Object,
}

// SAFETY: RocksDB's caches are thread safe.
unsafe impl Send for Cache {}
// SAFETY: as above.
unsafe impl Sync for Cache {}

impl Cache {
    /// A HyperClockCache of `capacity` bytes. With an estimate of 0 its table grows by itself.
    pub fn hyper_clock(peer: &Peer, capacity: usize, estimated_entry_charge: usize) -> Self {
        // SAFETY: plain constructor.
        let raw = unsafe { (peer.api.cache_create_hyper_clock)(capacity, estimated_entry_charge) };
        Cache { peer: peer.clone(), raw }
    }

    /// An LRU cache of `capacity` bytes.
    pub fn lru(peer: &Peer, capacity: usize) -> Self {
        // SAFETY: plain constructor.
        let raw = unsafe { (peer.api.cache_create_lru)(capacity) };
        Cache { peer: peer.clone(), raw }
    }

    /// A HyperClockCache of 2 to the power of `bits` shards; -1 leaves it to RocksDB.
    pub fn hyper_clock_sharded(peer: &Peer, capacity: usize, bits: i32) -> Self {
        let api = &peer.api;
        // SAFETY: fresh options, destroyed once; the cache does not need them.
        let raw = unsafe {
            let options = (api.hyper_clock_cache_options_create)(capacity, 0);
            (api.hyper_clock_cache_options_set_num_shard_bits)(options, bits);
            let raw = (api.cache_create_hyper_clock_opts)(options);
            (api.hyper_clock_cache_options_destroy)(options);
            raw
        };
        Cache { peer: peer.clone(), raw }
    }

    /// An LRU cache of 2 to the power of `bits` shards; -1 leaves it to RocksDB.
    pub fn lru_sharded(peer: &Peer, capacity: usize, bits: i32) -> Self {
        let api = &peer.api;
        // SAFETY: fresh options, destroyed once; the cache does not need them.
        let raw = unsafe {
            let options = (api.lru_cache_options_create)();
            (api.lru_cache_options_set_capacity)(options, capacity);
            (api.lru_cache_options_set_num_shard_bits)(options, bits);
            let raw = (api.cache_create_lru_opts)(options);
            (api.lru_cache_options_destroy)(options);
            raw
        };
        Cache { peer: peer.clone(), raw }
    }

    /// Bytes in use.
    pub fn usage(&self) -> usize {
        // SAFETY: live object.
        unsafe { (self.peer.api.cache_get_usage)(self.raw) }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1; tables that use the cache hold their own reference.
        unsafe { (self.peer.api.cache_destroy)(self.raw) }
    }
}

/// How to read; becomes a [`ReadOptions`].
#[derive(Clone)]
pub struct ReadSettings {
    /// Check block checksums.
    pub verify_checksums: bool,
    /// Put blocks that were read into the block cache.
    pub fill_cache: bool,
    /// Read the state at this snapshot.
    pub snapshot: Option<Snapshot>,
    /// Iterators do not move below this key.
    pub iterate_lower_bound: Option<Vec<u8>>,
    /// Iterators stop before this key.
    pub iterate_upper_bound: Option<Vec<u8>>,
    /// Iterators stop where the prefix of the seek key ends.
    pub prefix_same_as_start: bool,
    /// Seek by total order even with a prefix extractor.
    pub total_order_seek: bool,
    /// Bytes that iterators read ahead; 0 is automatic.
    pub readahead_size: usize,
    /// Iterators read ahead, and seek, asynchronously.
    pub async_io: bool,
    /// Iterators see writes that come after their creation.
    pub tailing: bool,
    /// Read only what is in memory (`kBlockCacheTier`).
    pub cache_only: bool,
    /// Read as of this timestamp, of keys that have some.
    pub timestamp: Option<Vec<u8>>,
    /// Iterators show every version from this timestamp on.
    pub iter_start_ts: Option<Vec<u8>>,
}

impl Default for ReadSettings {
    fn default() -> Self {
        ReadSettings {
            verify_checksums: true,
            fill_cache: true,
            snapshot: None,
            iterate_lower_bound: None,
            iterate_upper_bound: None,
            prefix_same_as_start: false,
            total_order_seek: false,
            readahead_size: 0,
            async_io: false,
            tailing: false,
            cache_only: false,
            timestamp: None,
            iter_start_ts: None,
        }
    }
}

pub(crate) struct ReadInner {
    peer: Peer,
    pub(crate) raw: Object,
    /// Owns the bounds and the snapshot that `raw` points to (crate invariants 2 and 3).
    _settings: ReadSettings,
}

// SAFETY: the C object is not changed after construction (invariant 4).
unsafe impl Send for ReadInner {}
// SAFETY: as above.
unsafe impl Sync for ReadInner {}

/// Ready-made read options. Clones share one C object.
#[derive(Clone)]
pub struct ReadOptions(pub(crate) Arc<ReadInner>);

impl ReadOptions {
    /// Read options with `settings`.
    pub fn new(peer: &Peer, settings: &ReadSettings) -> Self {
        let settings = settings.clone();
        let api = &peer.api;
        // SAFETY: a fresh object; the bounds' heap bytes stay in `_settings` (crate invariant 3).
        let raw = unsafe {
            let raw = (api.readoptions_create)();
            (api.readoptions_set_verify_checksums)(raw, settings.verify_checksums.into());
            (api.readoptions_set_fill_cache)(raw, settings.fill_cache.into());
            (api.readoptions_set_prefix_same_as_start)(raw, settings.prefix_same_as_start.into());
            (api.readoptions_set_total_order_seek)(raw, settings.total_order_seek.into());
            (api.readoptions_set_readahead_size)(raw, settings.readahead_size);
            (api.readoptions_set_async_io)(raw, settings.async_io.into());
            (api.readoptions_set_tailing)(raw, settings.tailing.into());
            (api.readoptions_set_read_tier)(raw, settings.cache_only.into());
            if let Some(snapshot) = &settings.snapshot {
                (api.readoptions_set_snapshot)(raw, snapshot.raw());
            }
            if let Some(bound) = &settings.iterate_lower_bound {
                (api.readoptions_set_iterate_lower_bound)(raw, bound.as_ptr(), bound.len());
            }
            if let Some(bound) = &settings.iterate_upper_bound {
                (api.readoptions_set_iterate_upper_bound)(raw, bound.as_ptr(), bound.len());
            }
            if let Some(time) = &settings.timestamp {
                (api.readoptions_set_timestamp)(raw, time.as_ptr(), time.len());
            }
            if let Some(time) = &settings.iter_start_ts {
                (api.readoptions_set_iter_start_ts)(raw, time.as_ptr(), time.len());
            }
            raw
        };
        ReadOptions(Arc::new(ReadInner { peer: peer.clone(), raw, _settings: settings }))
    }
}

impl Drop for ReadInner {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1.
        unsafe { (self.peer.api.readoptions_destroy)(self.raw) }
    }
}

/// How to write; becomes a [`WriteOptions`].
#[derive(Clone, Copy, Default)]
pub struct WriteSettings {
    /// Sync the WAL before the write returns.
    pub sync: bool,
    /// Do not write to the WAL.
    pub disable_wal: bool,
    /// Fail instead of waiting in a write stall.
    pub no_slowdown: bool,
    /// Yield to other writes while compaction lags.
    pub low_pri: bool,
}

/// Ready-made write options.
pub struct WriteOptions {
    peer: Peer,
    pub(crate) raw: Object,
}

// SAFETY: the C object is not changed after construction (invariant 4).
unsafe impl Send for WriteOptions {}
// SAFETY: as above.
unsafe impl Sync for WriteOptions {}

impl WriteOptions {
    /// Write options with `settings`.
    pub fn new(peer: &Peer, settings: &WriteSettings) -> Self {
        let api = &peer.api;
        // SAFETY: a fresh object, plain setters.
        let raw = unsafe {
            let raw = (api.writeoptions_create)();
            (api.writeoptions_set_sync)(raw, settings.sync.into());
            (api.writeoptions_disable_WAL)(raw, settings.disable_wal.into());
            (api.writeoptions_set_no_slowdown)(raw, settings.no_slowdown.into());
            (api.writeoptions_set_low_pri)(raw, settings.low_pri.into());
            raw
        };
        WriteOptions { peer: peer.clone(), raw }
    }
}

impl Drop for WriteOptions {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1.
        unsafe { (self.peer.api.writeoptions_destroy)(self.raw) }
    }
}
