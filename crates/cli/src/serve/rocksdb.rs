//! RocksDB's C library as the server's engine, for comparison (`--engine PATH.so`).
//!
//! Options are those of Pumice in the same server; others have RocksDB's defaults. The library
//! keeps its own background threads. Errors keep RocksDB's texts.
//!
//! Thread safety: as `pumice_peer`: everything but cursors may be shared. Calls block.

use std::path::{Path, PathBuf};

use pumice::{Error, Result};
use pumice_peer::{
    Cache, Db, DbIterator, Options, Peer, ReadOptions, ReadSettings, WriteBatch, WriteOptions,
    WriteSettings,
};
use pumice_server::EngineSettings;
use pumice_server::keyspace::engine::{Foreign, ForeignCursor, Reader};

/// Opens the database of `settings` with the library at `path`.
///
/// # Errors
/// The library cannot be loaded, refuses an option or cannot open the database, in words.
pub fn open(
    path: &Path,
    settings: &EngineSettings,
) -> std::result::Result<Box<dyn Foreign>, String> {
    let text = |error: pumice_peer::Error| error.to_string();
    let peer = Peer::load(path).map_err(text)?;
    let mut options = Options::new(&peer);
    let cache_bytes = usize::try_from(settings.cache_bytes).unwrap_or(usize::MAX);
    options.set_block_cache(&Cache::hyper_clock(&peer, cache_bytes, 0));
    let filter = format!("filter_policy=bloomfilter:{}:false", settings.filter_bits);
    options.set_table(&filter).map_err(text)?;
    for (name, value) in [
        ("create_if_missing", "true".to_string()),
        ("write_buffer_size", settings.write_buffer_bytes.to_string()),
        ("compression", settings.compression.to_string()),
        ("max_background_jobs", settings.background_jobs.to_string()),
        ("use_direct_reads", settings.direct_reads.to_string()),
    ] {
        options.set(name, &value).map_err(text)?;
    }
    let db = Db::open(&options, &settings.dir).map_err(text)?;
    let write = |sync| WriteOptions::new(&peer, &WriteSettings { sync, ..Default::default() });
    Ok(Box::new(RocksDb {
        now: State { reads: ReadOptions::new(&peer, &ReadSettings::default()), db, kept: None },
        library: path.to_path_buf(),
        dir: settings.dir.clone(),
        plain: write(false),
        durable: write(true),
        peer,
    }))
}

/// The error for a RocksDB error text.
fn failed(error: pumice_peer::Error) -> Error {
    let text = error.message();
    let after = |prefix: &str| text.strip_prefix(prefix).map(str::trim_start);
    match (after("Corruption:"), after("IO error:"), after("Invalid argument:")) {
        (Some(rest), ..) => Error::corruption(rest),
        (_, Some(rest), _) => Error::io_message(rest),
        (.., Some(rest)) => Error::invalid_argument(rest),
        _ => Error::aborted(text),
    }
}

/// A state of the database.
struct State {
    db: Db,
    reads: ReadOptions,
    /// How to make the options of cursors, of a state that is kept.
    kept: Option<ReadSettings>,
}

struct RocksDb {
    /// The current state.
    now: State,
    library: PathBuf,
    dir: PathBuf,
    plain: WriteOptions,
    durable: WriteOptions,
    peer: Peer,
}

impl Reader for State {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        // Most values fit at once, without a second look.
        let mut value = Vec::with_capacity(256);
        let family = self.db.default_column_family();
        let found = self.db.get(&self.reads, family, key, &mut value).map_err(failed)?;
        Ok(found.then_some(value))
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut values = vec![None; keys.len()];
        let family = self.db.default_column_family();
        let each = |index: usize, value: &[u8]| values[index] = Some(value.to_vec());
        self.db.multi_get(&self.reads, family, &keys, each).map_err(failed)?;
        Ok(values)
    }

    fn cursor(&self, first: Option<&[u8]>, end: Option<&[u8]>) -> Result<Box<dyn ForeignCursor>> {
        let settings = ReadSettings {
            iterate_lower_bound: first.map(<[u8]>::to_vec),
            iterate_upper_bound: end.map(<[u8]>::to_vec),
            ..self.kept.clone().unwrap_or_default()
        };
        let reads = ReadOptions::new(self.db.peer(), &settings);
        Ok(Box::new(Cursor(self.db.iter(&reads, self.db.default_column_family()))))
    }
}

impl Reader for RocksDb {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.now.get(key)
    }
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        self.now.multi_get(keys)
    }
    fn cursor(&self, first: Option<&[u8]>, end: Option<&[u8]>) -> Result<Box<dyn ForeignCursor>> {
        self.now.cursor(first, end)
    }
}

impl Foreign for RocksDb {
    fn name(&self) -> String {
        format!("RocksDB of {}", self.library.display())
    }
    fn snapshot(&self) -> Box<dyn Reader> {
        let db = self.now.db.clone();
        let settings = ReadSettings { snapshot: Some(db.snapshot()), ..Default::default() };
        let reads = ReadOptions::new(&self.peer, &settings);
        Box::new(State { reads, db, kept: Some(settings) })
    }
    fn write(&self, batch: &[u8], sync: bool) -> Result<()> {
        let batch = WriteBatch::from_data(&self.peer, batch);
        let options = if sync { &self.durable } else { &self.plain };
        self.now.db.write(options, &batch).map_err(failed)
    }
    fn latest_sequence_number(&self) -> u64 {
        self.now.db.latest_sequence_number()
    }
    fn sync_wal(&self) -> Result<()> {
        self.now.db.flush_wal(true).map_err(failed)
    }
    fn property(&self, name: &str) -> Option<String> {
        self.now.db.property(self.now.db.default_column_family(), name)
    }
    fn path(&self) -> PathBuf {
        self.dir.clone()
    }
    fn checkpoint(&self, path: &Path) -> Result<()> {
        self.now.db.checkpoint(path).map_err(failed)
    }
    fn close(&self) {
        self.now.db.cancel_background_work(true);
    }
}

struct Cursor(DbIterator);

impl ForeignCursor for Cursor {
    fn valid(&self) -> bool {
        self.0.valid()
    }
    fn seek_to_first(&mut self) {
        self.0.seek_to_first();
    }
    fn seek_to_last(&mut self) {
        self.0.seek_to_last();
    }
    fn seek(&mut self, key: &[u8]) {
        self.0.seek(key);
    }
    fn next(&mut self) {
        self.0.next();
    }
    fn prev(&mut self) {
        self.0.prev();
    }
    fn key(&self) -> &[u8] {
        self.0.key()
    }
    fn value(&self) -> &[u8] {
        self.0.value()
    }
    fn status(&self) -> Result<()> {
        self.0.status().map_err(failed)
    }
}
