//! A RocksDB library as an engine.
//!
//! Point reads copy the value into a reused buffer (`rocksdb_get_into_buffer_cf`), the cheapest way
//! through the C API; everything else is one C call per operation. `verifychecksum` does not exist
//! in the C API.

use super::engine::{self, Access, BenchDb, Engine, Hits, Result};
use super::engine_options::{self, LIMITER_FAIRNESS, NamedOption};
use super::families::Families;
use super::flags::Flags;
use super::{pumice_transactions, rocksdb_transactions};
use pumice_peer::{
    Cache, ColumnFamily, CompactRangeSettings, Db, DbIterator, Options, Peer, RateLimiterSettings,
    ReadOptions, WriteBatch, WriteOptions,
};
use pumice_port::sync::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A loaded library and the options of its databases.
pub struct RocksDb {
    library: PathBuf,
    peer: Peer,
    options: Arc<Options>,
    /// The options once more with another `wal_dir`, for several databases.
    flags: Flags,
    families: Families,
}

impl RocksDb {
    /// Loads `library` and turns `flags` into its options.
    ///
    /// # Errors
    /// The library cannot be loaded, or refuses an option.
    pub fn new(library: &Path, flags: &Flags) -> Result<Self> {
        let peer = Peer::load(library).map_err(text)?;
        let options = Arc::new(Self::options(&peer, flags)?);
        let families = Families::new(flags)?;
        println!("Initializing RocksDB Options from command-line flags");
        Ok(RocksDb {
            library: library.to_path_buf(),
            peer,
            options,
            flags: flags.clone(),
            families,
        })
    }

    /// The first flag that is given and for which our binding of the C library has no call.
    fn beyond(flags: &Flags) -> Option<&'static str> {
        let given = [
            ("options_file", !flags.options_file.as_os_str().is_empty()),
            ("use_keep_filter", flags.use_keep_filter),
            ("use_trie_index", flags.use_trie_index),
            ("use_uint64_comparator", flags.use_uint64_comparator),
            ("user_timestamp_size", flags.user_timestamp_size > 0),
            ("report_file_operations", flags.report_file_operations),
            ("cache_uri", !flags.cache_uri.is_empty()),
            ("simcache_size", flags.simcache_size >= 0),
            ("cost_write_buffer_to_cache", flags.cost_write_buffer_to_cache),
            (
                "charge_compression_dictionary_building_buffer",
                flags.charge_compression_dictionary_building_buffer,
            ),
            ("charge_filter_construction", flags.charge_filter_construction),
            ("charge_table_reader", flags.charge_table_reader),
            ("charge_file_metadata", flags.charge_file_metadata),
            ("charge_blob_cache", flags.charge_blob_cache),
            ("secondary_cache_uri", !flags.secondary_cache_uri.is_empty()),
            ("use_compressed_secondary_cache", flags.use_compressed_secondary_cache),
            ("compression_manager", !flags.compression_manager.eq_ignore_ascii_case("none")),
            ("read_cache_path", !flags.read_cache_path.as_os_str().is_empty()),
            ("stats_level", flags.is_given("stats_level")),
            ("auto_prefix_mode", flags.is_given("auto_prefix_mode")),
            ("thread_status_per_interval", flags.thread_status_per_interval != 0),
            ("io_uring_enabled", !flags.io_uring_enabled),
            ("simulate_hdd", flags.simulate_hdd),
            ("use_blob_db", flags.use_blob_db),
            ("simulate_hybrid_fs_file", !flags.simulate_hybrid_fs_file.as_os_str().is_empty()),
            (
                "write_batch_protection_bytes_per_key",
                flags.write_batch_protection_bytes_per_key > 0,
            ),
        ];
        given.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
    }

    fn options(peer: &Peer, flags: &Flags) -> Result<Options> {
        if let Some(flag) = Self::beyond(flags) {
            return Err(format!(
                "{flag} cannot be given with --engine: our binding lacks the call"
            ));
        }
        let mut options = Options::new(peer);
        let bits = engine_options::cache_shard_bits(flags)?;
        let bytes = usize::try_from(flags.cache_size).unwrap_or(0);
        let cache = match flags.cache_type.as_str() {
            "hyper_clock_cache" => Cache::hyper_clock_sharded(peer, bytes, bits),
            "lru_cache" => Cache::lru_sharded(peer, bytes, bits),
            other => return Err(format!("cache_type {other} is not supported yet")),
        };
        options.set_block_cache(&cache);
        if flags.use_blob_cache {
            let bytes = usize::try_from(flags.blob_cache_size).unwrap_or(usize::MAX);
            match flags.use_shared_block_and_blob_cache {
                true => options.set_blob_cache(&cache),
                false => options.set_blob_cache(&Cache::lru_sharded(
                    peer,
                    bytes,
                    flags.blob_cache_numshardbits,
                )),
            }
        }
        if let Ok(bytes @ 1..) = usize::try_from(flags.row_cache_size) {
            options.set_row_cache(&Cache::lru_sharded(peer, bytes, bits));
        }
        let named = engine_options::from_flags(flags)?;
        options.set_table(&joined(&named.table)).map_err(text)?;
        options.set("create_if_missing", "true").map_err(text)?;
        options.set("create_missing_column_families", "true").map_err(text)?;
        for option in &named.main {
            options.set(option.name, &option.value).map_err(text)?;
        }
        if let Some(settings) = rate_limiter(flags)? {
            options.set_rate_limiter(&settings);
        }
        if let Some(manager) = engine_options::file_manager(flags)? {
            let flag = "sst_file_manager_bytes_per_truncate";
            if flags.is_given(flag) {
                return Err(format!(
                    "{flag} cannot be given with --engine: the C API has no such setting"
                ));
            }
            options.set_sst_file_manager(manager.rate, engine_options::MAX_TRASH_DB_RATIO);
        }
        if flags.wants_statistics() {
            options.enable_statistics();
        }
        Ok(options)
    }
}

/// The limiter that `flags` ask for, as far as the C API can make it.
fn rate_limiter(flags: &Flags) -> Result<Option<RateLimiterSettings>> {
    let Some(wanted) = engine_options::limiter(flags)? else { return Ok(None) };
    let beyond = [
        ("rate_limiter_single_burst_bytes", wanted.single_burst_bytes != 0),
        ("rate_limit_user_ops", flags.rate_limit_user_ops),
        ("rate_limit_auto_wal_flush", flags.rate_limit_auto_wal_flush),
    ];
    if let Some((flag, _)) = beyond.iter().find(|(_, given)| *given) {
        return Err(format!("{flag} cannot be given with --engine: the C API has no such setting"));
    }
    Ok(Some(RateLimiterSettings {
        rate: wanted.rate,
        refill_period_micros: wanted.refill_period_micros,
        fairness: LIMITER_FAIRNESS,
        mode: i32::from(!wanted.reads_only),
        auto_tuned: wanted.auto_tuned,
    }))
}

fn joined(options: &[NamedOption]) -> String {
    let parts: Vec<String> =
        options.iter().map(|option| format!("{}={}", option.name, option.value)).collect();
    parts.join(";")
}

fn text(error: pumice_peer::Error) -> String {
    error.to_string()
}

impl Engine for RocksDb {
    type Db = RocksDbHandle;

    fn version_line(&self) -> String {
        format!("RocksDB:    {}", self.library.display())
    }

    fn open(
        &self,
        path: &Path,
        wal_dir: Option<&Path>,
        access: Access<'_>,
    ) -> Result<RocksDbHandle> {
        let options = match wal_dir {
            None => self.options.clone(),
            Some(dir) => {
                let mut flags = self.flags.clone();
                flags.wal_dir = dir.display().to_string();
                Arc::new(Self::options(&self.peer, &flags)?)
            }
        };
        let names: Vec<String> = (0..self.families.hot).map(Families::name).collect();
        let families: Vec<(&str, &Options)> =
            names.iter().map(|name| (name.as_str(), &*options)).collect();
        if let (Access::Write, Some(kind)) = (access, pumice_transactions::wanted(&self.flags)?) {
            if names.len() > 1 {
                return Err("transactions and column families: our binding lacks the call".into());
            }
            let kind = rocksdb_transactions::kind(kind);
            let db = Db::open_for_transactions(&options, path, kind).map_err(text)?;
            let families = vec![db.default_column_family().clone()];
            return Ok(RocksDbHandle {
                db,
                created: AtomicUsize::new(families.len()),
                families: Arc::new(Mutex::new(families)),
                options,
            });
        }
        let opened = match access {
            Access::Secondary(beside) => Db::open_as_secondary(&options, path, beside, &families),
            Access::Follower(_) => return Err("RocksDB's C library opens no followers".into()),
            access => Db::open_cf(&options, path, &families, access == Access::Read),
        };
        let (db, families) = opened.map_err(text)?;
        Ok(RocksDbHandle {
            db,
            created: AtomicUsize::new(families.len()),
            families: Arc::new(Mutex::new(families)),
            options,
        })
    }

    fn destroy(&self, path: &Path) -> Result<()> {
        Db::destroy(&self.options, path).map_err(text)
    }

    fn set_threads(&self, pool: engine::Pool, threads: u32) -> Result<()> {
        let threads = i32::try_from(threads).map_err(|error| error.to_string())?;
        self.peer.set_background_threads(
            match pool {
                engine::Pool::Bottom => pumice_peer::Pool::Bottom,
                engine::Pool::Low => pumice_peer::Pool::Low,
                engine::Pool::High => pumice_peer::Pool::High,
            },
            threads,
        );
        Ok(())
    }

    fn lower_priority(&self, cpu: bool, io: bool) -> Result<()> {
        self.peer.lower_thread_pools(cpu, io);
        Ok(())
    }

    fn statistics(&self) -> Option<String> {
        self.options.statistics_text()
    }
}

/// An open RocksDB database.
pub struct RocksDbHandle {
    db: Db,
    /// Handles; only ever grows.
    families: Arc<Mutex<Vec<ColumnFamily>>>,
    /// How many of them there are.
    created: AtomicUsize,
    options: Arc<Options>,
}

impl RocksDbHandle {
    fn write_options(&self, settings: engine::WriteSettings) -> WriteOptions {
        let settings = pumice_peer::WriteSettings {
            sync: settings.sync,
            disable_wal: settings.disable_wal,
            ..Default::default()
        };
        WriteOptions::new(self.db.peer(), &settings)
    }

    fn handles(&self) -> Handles {
        let all = self.families.lock().clone();
        Handles { all, shared: self.families.clone(), selected: 0 }
    }
}

/// A worker's handles, with the one that it uses.
struct Handles {
    all: Vec<ColumnFamily>,
    shared: Arc<Mutex<Vec<ColumnFamily>>>,
    selected: usize,
}

impl Handles {
    fn selected(&self) -> &ColumnFamily {
        &self.all[self.selected]
    }

    fn select(&mut self, family: usize) {
        if family >= self.all.len() {
            self.all = self.shared.lock().clone();
        }
        self.selected = family;
    }
}

impl BenchDb for RocksDbHandle {
    type Writer = RocksDbWriter;
    type Reader = RocksDbReader;
    type Cursor = DbIterator;

    fn catch_up(&self) -> Result<()> {
        self.db.try_catch_up_with_primary().map_err(text)
    }

    fn writer(&self, settings: engine::WriteSettings) -> RocksDbWriter {
        RocksDbWriter {
            handles: self.handles(),
            options: self.write_options(settings),
            batch: WriteBatch::new(self.db.peer()),
            db: self.db.clone(),
        }
    }

    fn transactions(
        &self,
        write: engine::WriteSettings,
        settings: engine::TransactionSettings,
    ) -> Result<Box<dyn engine::Transactions>> {
        let (snapshot, lock_timeout) = (settings.snapshot, settings.lock_timeout);
        let settings = pumice_peer::TxnSettings { snapshot, lock_timeout };
        let worker = self.db.txn_worker(self.write_options(write), settings);
        let worker = worker.ok_or("the database was opened without transactions")?;
        Ok(Box::new(worker))
    }

    fn reader(&self, settings: &engine::ReadSettings) -> RocksDbReader {
        RocksDbReader {
            handles: self.handles(),
            settings: settings.clone(),
            options: read_options(&self.db, settings, [None, None], false),
            value: Vec::with_capacity(1024),
            db: self.db.clone(),
        }
    }

    fn cursor(
        &self,
        settings: &engine::ReadSettings,
        bounds: [Option<&[u8]>; 2],
    ) -> Result<DbIterator> {
        let options = read_options(&self.db, settings, bounds, settings.snapshot);
        Ok(self.db.iter(&options, self.db.default_column_family()))
    }

    fn flush(&self) -> Result<()> {
        self.families.lock().iter().try_for_each(|family| self.db.flush(family)).map_err(text)
    }

    fn families(&self) -> usize {
        self.created.load(Ordering::Acquire)
    }

    fn create_families(&self, total: usize) -> Result<()> {
        let mut families = self.families.lock();
        while families.len() < total {
            let name = Families::name(families.len());
            families.push(self.db.create_column_family(&self.options, &name).map_err(text)?);
            self.created.store(families.len(), Ordering::Release);
        }
        Ok(())
    }

    fn compact(&self, subcompactions: i32) -> Result<()> {
        let settings = CompactRangeSettings {
            bottommost_level: 3,
            max_subcompactions: subcompactions,
            ..CompactRangeSettings::default()
        };
        self.db.compact_range(self.db.default_column_family(), None, None, &settings);
        Ok(())
    }

    fn compact_all(&self, subcompactions: i32) -> Result<()> {
        let settings = CompactRangeSettings {
            max_subcompactions: subcompactions,
            ..CompactRangeSettings::default()
        };
        self.db.compact_range(self.db.default_column_family(), None, None, &settings);
        Ok(())
    }

    fn compact_files(&self, _: &[String], _: usize) -> Result<()> {
        Err("Not implemented: RocksDB's C library has no CompactFiles".into())
    }

    fn table_files(&self) -> Result<Vec<engine::TableFile>> {
        Err("Not implemented: RocksDB's C library has no CompactFiles".into())
    }

    fn approximate_sizes(&self, _: &[(Vec<u8>, Vec<u8>)]) -> Result<u64> {
        Err("Not implemented: our binding of RocksDB's library has no GetApproximateSizes".into())
    }

    fn approximate_memtable_entries(&self, _: &[u8], _: &[u8]) -> Result<u64> {
        Err("Not implemented: RocksDB's C library has no GetApproximateMemTableStats".into())
    }

    fn reset_stats(&self) -> Result<()> {
        Err("Not implemented: RocksDB's C library has no ResetStats".into())
    }

    fn wait_for_compaction(&self) -> Result<()> {
        self.db.wait_for_compact(false).map_err(text)
    }

    fn verify_checksum(&self) -> Result<()> {
        Err("Not implemented: RocksDB's C library has no VerifyChecksum".into())
    }

    fn backup(&self, _: &Path, _: u64) -> Result<()> {
        Err("Not implemented: our binding of RocksDB's library has no BackupEngine".into())
    }

    fn restore(&self, _: &Path, _: &Path, _: u64) -> Result<()> {
        Err("Not implemented: our binding of RocksDB's library has no BackupEngine".into())
    }

    fn property(&self, name: &str) -> Option<String> {
        self.db.property(self.db.default_column_family(), name)
    }
}

fn read_options(
    db: &Db,
    settings: &engine::ReadSettings,
    [lower, upper]: [Option<&[u8]>; 2],
    snapshot: bool,
) -> ReadOptions {
    let settings = pumice_peer::ReadSettings {
        verify_checksums: settings.verify_checksums,
        total_order_seek: settings.total_order_seek,
        prefix_same_as_start: settings.prefix_same_as_start,
        tailing: settings.tailing,
        readahead_size: settings.readahead_size,
        async_io: settings.async_io.unwrap_or(false),
        snapshot: snapshot.then(|| db.snapshot()),
        iterate_lower_bound: lower.map(<[u8]>::to_vec),
        iterate_upper_bound: upper.map(<[u8]>::to_vec),
        ..pumice_peer::ReadSettings::default()
    };
    ReadOptions::new(db.peer(), &settings)
}

/// Writes of one worker.
pub struct RocksDbWriter {
    db: Db,
    handles: Handles,
    options: WriteOptions,
    batch: WriteBatch,
}

impl engine::Writer for RocksDbWriter {
    fn select(&mut self, family: usize) {
        self.handles.select(family);
    }
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put(&self.options, self.handles.selected(), key, value).map_err(text)
    }
    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.db.merge(&self.options, self.handles.selected(), key, operand).map_err(text)
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.db.delete(&self.options, self.handles.selected(), key).map_err(text)
    }
    fn single_delete(&mut self, key: &[u8]) -> Result<()> {
        self.db.single_delete(&self.options, self.handles.selected(), key).map_err(text)
    }
    fn batch_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(self.handles.selected(), key, value);
    }
    fn batch_delete(&mut self, key: &[u8]) {
        self.batch.delete(self.handles.selected(), key);
    }
    fn batch_delete_range(&mut self, begin: &[u8], end: &[u8]) {
        self.batch.delete_range(self.handles.selected(), begin, end);
    }
    fn commit(&mut self) -> Result<()> {
        let written = self.db.write(&self.options, &self.batch);
        self.batch.clear();
        written.map_err(text)
    }
}

/// Point reads of one worker.
pub struct RocksDbReader {
    db: Db,
    handles: Handles,
    settings: engine::ReadSettings,
    options: ReadOptions,
    value: Vec<u8>,
}

impl engine::Reader for RocksDbReader {
    fn select(&mut self, family: usize) {
        self.handles.select(family);
    }

    fn pin(&mut self, pinned: bool) {
        self.options = read_options(&self.db, &self.settings, [None, None], pinned);
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<usize>> {
        match self.db.get(&self.options, self.handles.selected(), key, &mut self.value) {
            Ok(found) => Ok(found.then_some(self.value.len())),
            Err(error) => Err(text(error)),
        }
    }

    fn operands(&mut self, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Err("Not implemented: RocksDB's C library has no rocksdb_get_merge_operands".into())
    }
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.db.get(&self.options, self.handles.selected(), key, value);
        found.map_err(text)
    }

    fn multi_get(&mut self, keys: &[u8], key_len: usize) -> Result<Hits> {
        let keys: Vec<&[u8]> = keys.chunks_exact(key_len).collect();
        let mut hits = Hits::default();
        let each = |_: usize, value: &[u8]| {
            hits.found += 1;
            hits.bytes += (key_len + value.len()) as u64;
        };
        self.db.multi_get(&self.options, self.handles.selected(), &keys, each).map_err(text)?;
        Ok(hits)
    }
}

impl engine::Cursor for DbIterator {
    fn valid(&self) -> bool {
        self.valid()
    }
    fn seek_to_first(&mut self) {
        self.seek_to_first();
    }
    fn seek_to_last(&mut self) {
        self.seek_to_last();
    }
    fn seek(&mut self, key: &[u8]) {
        self.seek(key);
    }
    fn next(&mut self) {
        self.next();
    }
    fn prev(&mut self) {
        self.prev();
    }
    fn key(&self) -> &[u8] {
        self.key()
    }
    fn value(&self) -> &[u8] {
        self.value()
    }
    fn status(&self) -> Result<()> {
        self.status().map_err(text)
    }
}
