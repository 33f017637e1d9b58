//! RocksDB as an engine of the testkit.
//!
//! In a program whose allocations are watched only child jobs may use it (see `child`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_peer::{
    ColumnFamily, CompactRangeSettings, Db, DbIterator, IngestSettings, Options, Peer, ReadOptions,
    ReadSettings, Snapshot, SstFileWriter, WalIterator, WriteBatch, WriteOptions, WriteSettings,
};
use pumice_testkit::store::{CursorSpec, IngestMode, Order, Step, TableFile, Updates, WriteMode};
use pumice_testkit::{Engine, Entry, Op, Store};

use super::Settings;

/// The library of RocksDB 10.10.1.
///
/// # Errors
/// The library is not installed: a missing peer fails the tests that need it.
pub fn load() -> Result<Peer, String> {
    let missing = "RocksDB's library is missing: run `cargo xtask peers`";
    let path = pumice_peer::installed_library().ok_or(missing)?;
    Peer::load(&path).map_err(text)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// An open RocksDB.
pub struct RocksDb {
    peer: Peer,
    path: PathBuf,
    settings: Settings,
    base: Options,
    reads: ReadOptions,
    // One for each mode that was asked for: making one costs more than a write.
    writes: Vec<(WriteMode, Arc<WriteOptions>)>,
    // Fields drop in order: everything that points into the database, then the database.
    cursors: BTreeMap<u64, DbIterator>,
    snapshots: BTreeMap<u64, Snapshot>,
    updates: Option<WalIterator>,
    families: Vec<ColumnFamily>,
    db: Option<Db>,
}

impl RocksDb {
    /// Opens the database at `path` with all the families of `settings`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open(peer: &Peer, path: &Path, settings: &Settings) -> Result<Self, String> {
        let mut base = base_options(peer, settings)?;
        if settings.statistics {
            base.enable_statistics();
        }
        let mut store = RocksDb {
            peer: peer.clone(),
            path: path.to_path_buf(),
            settings: settings.clone(),
            base,
            reads: ReadOptions::new(peer, &ReadSettings::default()),
            writes: Vec::new(),
            cursors: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            updates: None,
            families: Vec::new(),
            db: None,
        };
        store.open_again()?;
        Ok(store)
    }

    fn open_again(&mut self) -> Result<(), String> {
        let mut options = Vec::new();
        for (name, compression) in &self.settings.families {
            let mut family = self.base.clone();
            if !compression.is_empty() {
                family.set("compression", compression).map_err(text)?;
            }
            options.push((name.as_str(), family));
        }
        let named: Vec<(&str, &Options)> = options.iter().map(|(n, o)| (*n, o)).collect();
        let (db, families) = Db::open_cf(&self.base, &self.path, &named, false).map_err(text)?;
        self.db = Some(db);
        self.families = families;
        Ok(())
    }

    /// The database.
    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("open but during reopen")
    }

    /// The column families, in the order of the settings.
    pub fn families(&self) -> &[ColumnFamily] {
        &self.families
    }

    /// The library.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The options, with the statistics, if they are on.
    pub fn options(&self) -> &Options {
        &self.base
    }

    fn reads(&self, snapshot: Option<u64>) -> ReadOptions {
        let Some(name) = snapshot else { return self.reads.clone() };
        let snapshot = Some(self.snapshots[&name].clone());
        ReadOptions::new(&self.peer, &ReadSettings { snapshot, ..ReadSettings::default() })
    }

    fn writes(&mut self, mode: WriteMode) -> Arc<WriteOptions> {
        if let Some((_, made)) = self.writes.iter().find(|(known, _)| *known == mode) {
            return Arc::clone(made);
        }
        let WriteMode { sync, disable_wal } = mode;
        let settings = WriteSettings { sync, disable_wal, ..WriteSettings::default() };
        let made = Arc::new(WriteOptions::new(&self.peer, &settings));
        self.writes.push((mode, Arc::clone(&made)));
        made
    }
}

fn base_options(peer: &Peer, settings: &Settings) -> Result<Options, String> {
    let mut options = Options::new(peer);
    for (name, value) in &settings.options {
        options.set(name, value).map_err(|e| format!("{name}={value}: {e}"))?;
    }
    options.set_many(&settings.text).map_err(text)?;
    options.set_table(&settings.table).map_err(text)?;
    Ok(options)
}

/// What an iterator over logs still has, and how it ended.
fn drain(iterator: &mut WalIterator) -> (Updates, Result<(), String>) {
    let mut batches = Updates::new();
    while let Some((sequence, batch)) = iterator.batch() {
        batches.push((sequence, batch.data().to_vec()));
        iterator.next();
    }
    (batches, iterator.status().map_err(text))
}

impl Store for RocksDb {
    fn write(&mut self, ops: &[Op]) -> Result<(), String> {
        let disable_wal = self.settings.disable_wal;
        self.write_as(ops, WriteMode { disable_wal, ..WriteMode::default() })
    }

    fn get(
        &mut self,
        cf: usize,
        key: &[u8],
        snapshot: Option<u64>,
    ) -> Result<Option<Vec<u8>>, String> {
        // Room enough for most values: else the get is done twice.
        let mut value = Vec::with_capacity(1 << 12);
        let found = self.db().get(&self.reads(snapshot), &self.families[cf], key, &mut value);
        Ok(found.map_err(text)?.then_some(value))
    }

    fn multi_get(
        &mut self,
        cf: usize,
        keys: &[Vec<u8>],
        snapshot: Option<u64>,
    ) -> Result<Vec<Option<Vec<u8>>>, String> {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut values = vec![None; keys.len()];
        let each = |index: usize, value: &[u8]| values[index] = Some(value.to_vec());
        let reads = self.reads(snapshot);
        self.db().multi_get(&reads, &self.families[cf], &keys, each).map_err(text)?;
        Ok(values)
    }

    fn snapshot(&mut self, name: u64) -> Result<(), String> {
        let snapshot = self.db().snapshot();
        self.snapshots.insert(name, snapshot);
        Ok(())
    }

    fn release(&mut self, name: u64) {
        self.snapshots.remove(&name);
    }

    fn open_cursor(&mut self, name: u64, spec: &CursorSpec) -> Result<(), String> {
        let settings = ReadSettings {
            snapshot: spec.snapshot.map(|name| self.snapshots[&name].clone()),
            iterate_lower_bound: spec.lower.clone(),
            iterate_upper_bound: spec.upper.clone(),
            total_order_seek: spec.order == Order::Total,
            prefix_same_as_start: spec.order == Order::SamePrefix,
            ..ReadSettings::default()
        };
        let reads = ReadOptions::new(&self.peer, &settings);
        let cursor = self.db().iter(&reads, &self.families[spec.cf]);
        self.cursors.insert(name, cursor);
        Ok(())
    }

    fn step(&mut self, name: u64, step: &Step) -> Result<Option<Entry>, String> {
        let cursor = self.cursors.get_mut(&name).ok_or("no such cursor")?;
        match step {
            Step::First => cursor.seek_to_first(),
            Step::Last => cursor.seek_to_last(),
            Step::Seek(key) => cursor.seek(key),
            Step::SeekForPrev(key) => cursor.seek_for_prev(key),
            Step::Next => cursor.next(),
            Step::Prev => cursor.prev(),
        }
        cursor.status().map_err(text)?;
        Ok(cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec())))
    }

    fn close_cursor(&mut self, name: u64) {
        self.cursors.remove(&name);
    }

    fn flush(&mut self, cf: usize) -> Result<(), String> {
        self.db().flush(&self.families[cf]).map_err(text)
    }

    fn compact(
        &mut self,
        cf: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<(), String> {
        let how = CompactRangeSettings::default();
        self.db().compact_range(&self.families[cf], begin, end, &how);
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.cursors.clear();
        self.snapshots.clear();
        self.updates = None;
        self.families.clear();
        self.db = None;
        self.open_again()
    }
}

impl Engine for RocksDb {
    fn write_as(&mut self, ops: &[Op], mode: WriteMode) -> Result<(), String> {
        let mut batch = WriteBatch::new(&self.peer);
        for op in ops {
            match op {
                Op::Put { cf, key, value } => batch.put(&self.families[*cf], key, value),
                Op::Delete { cf, key } => batch.delete(&self.families[*cf], key),
                Op::SingleDelete { cf, key } => batch.single_delete(&self.families[*cf], key),
                Op::Merge { cf, key, operand } => batch.merge(&self.families[*cf], key, operand),
                Op::DeleteRange { cf, begin, end } => {
                    batch.delete_range(&self.families[*cf], begin, end);
                }
            }
        }
        let writes = self.writes(mode);
        self.db().write(&writes, &batch).map_err(text)
    }

    fn compact_all(&mut self, cf: usize) -> Result<(), String> {
        let how = CompactRangeSettings { bottommost_level: 2, ..CompactRangeSettings::default() };
        self.db().compact_range(&self.families[cf], None, None, &how);
        Ok(())
    }

    fn settle(&mut self) -> Result<(), String> {
        self.db().wait_for_compact(false).map_err(text)
    }

    fn set_options(&mut self, cf: usize, options: &[(&str, &str)]) -> Result<(), String> {
        self.db().set_options(&self.families[cf], options).map_err(text)
    }

    fn files(&mut self) -> Vec<TableFile> {
        let files = self.db().live_files().into_iter();
        let file = |file: pumice_peer::LiveFile| TableFile {
            family: file.column_family,
            level: file.level as usize,
        };
        files.map(file).collect()
    }

    fn sequence(&mut self) -> u64 {
        self.db().latest_sequence_number()
    }

    fn ticker(&mut self, name: &str) -> Result<u64, String> {
        self.base.ticker(name).ok_or(format!("no ticker {name}"))
    }

    fn make_table(&mut self, path: &Path, entries: &[Op]) -> Result<(), String> {
        let mut writer = SstFileWriter::new(&self.base);
        writer.open(path).map_err(text)?;
        for entry in entries {
            match entry {
                Op::Put { key, value, .. } => writer.put(key, value),
                Op::Merge { key, operand, .. } => writer.merge(key, operand),
                Op::Delete { key, .. } => writer.delete(key),
                Op::DeleteRange { begin, end, .. } => writer.delete_range(begin, end),
                Op::SingleDelete { .. } => return Err("a file takes no single deletes".into()),
            }
            .map_err(text)?;
        }
        writer.finish().map(drop).map_err(text)
    }

    fn ingest(&mut self, cf: usize, files: &[&Path], mode: &IngestMode) -> Result<(), String> {
        let settings = IngestSettings {
            move_files: mode.move_files,
            snapshot_consistency: mode.snapshot_consistency,
            allow_global_seqno: mode.allow_global_seqno,
            allow_blocking_flush: mode.allow_blocking_flush,
            ingest_behind: mode.ingest_behind,
            fail_if_not_bottommost_level: mode.fail_if_not_bottommost_level,
        };
        self.db().ingest_with(&self.families[cf], files, &settings).map_err(text)
    }

    fn updates_since(&mut self, sequence: u64) -> Result<(Updates, Result<(), String>), String> {
        let iterator = self.db().updates_since(sequence).map_err(text)?;
        Ok(drain(self.updates.insert(iterator)))
    }

    fn more_updates(&mut self) -> Result<(Updates, Result<(), String>), String> {
        let iterator = self.updates.as_mut().ok_or("no iterator")?;
        iterator.next();
        Ok(drain(iterator))
    }

    /// RocksDB's C library has no call for it. Its scans verify every data block, its compactions
    /// count entries, and `sst_dump` verifies format 5.
    fn verify(&mut self) -> Result<(), String> {
        Ok(())
    }
}
