//! RocksDB 10.10.1 as a store. Only child jobs may use it (see `child`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pumice_peer::{
    ColumnFamily, CompactRangeSettings, Db, DbIterator, Options, Peer, ReadOptions, ReadSettings,
    Snapshot, WriteBatch, WriteOptions, WriteSettings,
};
use pumice_testkit::store::{CursorSpec, Step};
use pumice_testkit::{Entry, Op, Store};

use super::Settings;

/// The library of RocksDB 10.10.1.
///
/// # Errors
/// It is not installed: a missing peer fails the tests that need it.
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
    writes: WriteOptions,
    // Fields drop in order: everything that points into the database, then the database.
    cursors: BTreeMap<u64, DbIterator>,
    snapshots: BTreeMap<u64, Snapshot>,
    families: Vec<ColumnFamily>,
    db: Option<Db>,
}

impl RocksDb {
    /// Opens the database at `path` with all the families of `settings`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open(peer: &Peer, path: &Path, settings: &Settings) -> Result<Self, String> {
        let wal = WriteSettings { disable_wal: settings.disable_wal, ..WriteSettings::default() };
        let mut store = RocksDb {
            peer: peer.clone(),
            path: path.to_path_buf(),
            settings: settings.clone(),
            writes: WriteOptions::new(peer, &wal),
            cursors: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            families: Vec::new(),
            db: None,
        };
        store.open_again()?;
        Ok(store)
    }

    fn open_again(&mut self) -> Result<(), String> {
        let base = self.base_options()?;
        let mut options = Vec::new();
        for (name, compression) in &self.settings.families {
            let mut family = base.clone();
            family.set("compression", compression).map_err(text)?;
            options.push((name.as_str(), family));
        }
        let named: Vec<(&str, &Options)> = options.iter().map(|(n, o)| (*n, o)).collect();
        let (db, families) = Db::open_cf(&base, &self.path, &named, false).map_err(text)?;
        self.db = Some(db);
        self.families = families;
        Ok(())
    }

    fn base_options(&self) -> Result<Options, String> {
        let mut options = Options::new(&self.peer);
        for (name, value) in &self.settings.options {
            options.set(name, value).map_err(|e| format!("{name}={value}: {e}"))?;
        }
        options.set_table(&self.settings.table).map_err(text)?;
        Ok(options)
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

    fn reads(&self, snapshot: Option<u64>) -> ReadOptions {
        let snapshot = snapshot.map(|name| self.snapshots[&name].clone());
        ReadOptions::new(&self.peer, &ReadSettings { snapshot, ..ReadSettings::default() })
    }
}

impl Store for RocksDb {
    fn write(&mut self, ops: &[Op]) -> Result<(), String> {
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
        self.db().write(&self.writes, &batch).map_err(text)
    }

    fn get(
        &mut self,
        cf: usize,
        key: &[u8],
        snapshot: Option<u64>,
    ) -> Result<Option<Vec<u8>>, String> {
        let mut value = Vec::new();
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
        self.families.clear();
        self.db = None;
        self.open_again()
    }
}
