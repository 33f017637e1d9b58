//! The interface under which engines are compared: Pumice, RocksDB, and the model.
//!
//! [`Store`] is what the model has too, [`Engine`] what only a database has: files, jobs, a log,
//! counters. Errors are texts: a suite only prints them. Snapshots and cursors are named by numbers
//! that the caller chooses; a store keeps them until they are released.

use std::path::Path;

use crate::{Entry, Op};

/// A move of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// To the first key at or after.
    Seek(Vec<u8>),
    /// To the last key at or before.
    SeekForPrev(Vec<u8>),
    /// Forward; only while the cursor is on a key.
    Next,
    /// Backward; only while the cursor is on a key.
    Prev,
}

/// How a cursor treats prefixes, where there is an extractor of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// `total_order_seek`.
    Total,
    /// The default: results beyond the sought prefix are undefined.
    #[default]
    Prefix,
    /// `prefix_same_as_start`.
    SamePrefix,
}

/// What a cursor walks over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorSpec {
    /// Column family, counted from 0.
    pub cf: usize,
    /// The snapshot to read at; None is the state when the cursor is opened.
    pub snapshot: Option<u64>,
    /// Keys below are excluded.
    pub lower: Option<Vec<u8>>,
    /// Keys from here on are excluded.
    pub upper: Option<Vec<u8>>,
    /// How prefixes are treated.
    pub order: Order,
}

/// A database as the suites see it.
pub trait Store {
    /// Applies `batch` as one.
    fn write(&mut self, batch: &[Op]) -> Result<(), String>;
    /// Reads a key now or at a snapshot.
    fn get(
        &mut self,
        cf: usize,
        key: &[u8],
        snapshot: Option<u64>,
    ) -> Result<Option<Vec<u8>>, String>;
    /// Reads several keys from one state.
    fn multi_get(
        &mut self,
        cf: usize,
        keys: &[Vec<u8>],
        snapshot: Option<u64>,
    ) -> Result<Vec<Option<Vec<u8>>>, String>;
    /// Keeps the current state readable under `name`.
    fn snapshot(&mut self, name: u64) -> Result<(), String>;
    /// Releases the snapshot `name`.
    fn release(&mut self, name: u64);
    /// Opens a cursor under `name`.
    fn open_cursor(&mut self, name: u64, spec: &CursorSpec) -> Result<(), String>;
    /// Moves the cursor `name`; None when it is then not on a key.
    fn step(&mut self, name: u64, step: &Step) -> Result<Option<Entry>, String>;
    /// Closes the cursor `name`.
    fn close_cursor(&mut self, name: u64);
    /// Flushes a column family and waits.
    fn flush(&mut self, cf: usize) -> Result<(), String>;
    /// Compacts a key range of a column family and waits; None is unbounded.
    fn compact(
        &mut self,
        cf: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<(), String>;
    /// Closes and opens the database. Snapshots and cursors were released before.
    fn reopen(&mut self) -> Result<(), String>;
}

/// How a batch is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteMode {
    /// The write is durable when the call returns.
    pub sync: bool,
    /// No log has it.
    pub disable_wal: bool,
}

/// A table file of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// The name of its column family.
    pub family: String,
    /// The file's level.
    pub level: usize,
}

/// How external files are ingested.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // RocksDB's words.
pub struct IngestMode {
    pub move_files: bool,
    pub snapshot_consistency: bool,
    pub allow_global_seqno: bool,
    pub allow_blocking_flush: bool,
    pub ingest_behind: bool,
    pub fail_if_not_bottommost_level: bool,
}

impl Default for IngestMode {
    fn default() -> Self {
        IngestMode {
            move_files: false,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            ingest_behind: false,
            fail_if_not_bottommost_level: false,
        }
    }
}

/// Sequence number and bytes of each batch of a log.
pub type Updates = Vec<(u64, Vec<u8>)>;

/// A database of one of the two engines: Pumice or RocksDB.
pub trait Engine: Store {
    /// Applies `batch` as one, in this mode.
    fn write_as(&mut self, batch: &[Op], mode: WriteMode) -> Result<(), String>;
    /// Compacts everything of a column family, the last level too, and waits.
    fn compact_all(&mut self, cf: usize) -> Result<(), String>;
    /// Waits until all jobs that are due are done and their obsolete files are gone.
    fn settle(&mut self) -> Result<(), String>;
    /// Changes options of a column family.
    fn set_options(&mut self, cf: usize, options: &[(&str, &str)]) -> Result<(), String>;
    /// The table files of all column families.
    fn files(&mut self) -> Vec<TableFile>;
    /// The newest sequence number.
    fn sequence(&mut self) -> u64;
    /// A ticker by its name. Requires: statistics are on.
    fn ticker(&mut self, name: &str) -> Result<u64, String>;
    /// Makes an external file with these entries of a column family, in their order.
    fn make_table(&mut self, path: &Path, entries: &[Op]) -> Result<(), String>;
    /// Ingests external files into a column family.
    fn ingest(&mut self, cf: usize, files: &[&Path], mode: &IngestMode) -> Result<(), String>;
    /// The batches of the logs from `sequence` on up to the end, and how the iterator ended.
    fn updates_since(&mut self, sequence: u64) -> Result<(Updates, Result<(), String>), String>;
    /// The batches after those that were returned last, by the same iterator.
    fn more_updates(&mut self) -> Result<(Updates, Result<(), String>), String>;
    /// Checks everything stored against its checksums, if the engine has a call for that.
    fn verify(&mut self) -> Result<(), String>;

    /// Sets a key of the default column family.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.write(&[Op::Put { cf: 0, key: key.to_vec(), value: value.to_vec() }])
    }
    /// Moves a new cursor by each of `steps`.
    fn walk(&mut self, spec: &CursorSpec, steps: &[Step]) -> Result<Option<Entry>, String> {
        self.open_cursor(WALK, spec)?;
        let mut at = None;
        for step in steps {
            at = self.step(WALK, step)?;
        }
        self.close_cursor(WALK);
        Ok(at)
    }
    /// Up to `limit` entries from `start` on, backward after `Last` and `SeekForPrev`.
    fn some(
        &mut self,
        spec: &CursorSpec,
        start: &Step,
        limit: usize,
    ) -> Result<Vec<Entry>, String> {
        self.open_cursor(WALK, spec)?;
        let backward = matches!(start, Step::Last | Step::SeekForPrev(_));
        let onward = if backward { Step::Prev } else { Step::Next };
        let mut found = Vec::new();
        let mut at = self.step(WALK, start)?;
        while let Some(entry) = at {
            found.push(entry);
            // RocksDB counts an entry as soon as the iterator is on it.
            at = if found.len() < limit { self.step(WALK, &onward)? } else { None };
        }
        self.close_cursor(WALK);
        Ok(found)
    }
}

/// The name of the cursor of a whole walk.
const WALK: u64 = u64::MAX;

/// Everything in a column family, walked forward, or backward and then reversed.
pub fn scan(store: &mut dyn Store, cf: usize, backward: bool) -> Result<Vec<Entry>, String> {
    store.open_cursor(WALK, &CursorSpec { cf, ..CursorSpec::default() })?;
    let (start, onward) =
        if backward { (Step::Last, Step::Prev) } else { (Step::First, Step::Next) };
    let mut found = Vec::new();
    let mut at = store.step(WALK, &start)?;
    while let Some(entry) = at {
        found.push(entry);
        at = store.step(WALK, &onward)?;
    }
    store.close_cursor(WALK);
    if backward {
        found.reverse();
    }
    Ok(found)
}
