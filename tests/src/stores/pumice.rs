//! Pumice as an engine of the testkit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice::stats::NullLogger;
use pumice::{
    BlockCache, BottommostLevelCompaction, CacheOptions, ColumnFamily, ColumnFamilyDescriptor,
    CompactRangeOptions, Db, DbIterator, FlushOptions, IngestExternalFileOptions, Options,
    ReadOptions, Snapshot, SstFileWriter, Statistics, Ticker, WaitForCompactOptions, WalIterator,
    WriteBatch, WriteOptions,
};
use pumice_env::{FileSystem, PosixFs};
use pumice_testkit::store::{CursorSpec, IngestMode, Order, Step, TableFile, Updates, WriteMode};
use pumice_testkit::{Engine, Entry, Op, Store};

use super::Settings;

/// An open Pumice database.
pub struct Pumice {
    path: PathBuf,
    settings: Settings,
    file_system: Arc<dyn FileSystem>,
    cursors: BTreeMap<u64, DbIterator>,
    snapshots: BTreeMap<u64, Snapshot>,
    statistics: Arc<Statistics>,
    updates: Option<WalIterator>,
    families: Vec<ColumnFamily>,
    db: Option<Db>,
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Options of the database, and those of each column family.
pub fn options(
    settings: &Settings,
    file_system: Arc<dyn FileSystem>,
) -> Result<(Options, Vec<ColumnFamilyDescriptor>), String> {
    let mut base = Options::default();
    base.db.file_system = file_system;
    if !settings.info_log {
        base.db.info_log = Some(Arc::new(NullLogger));
    }
    for (name, value) in &settings.options {
        base.set(name, value).map_err(text)?;
    }
    base.set_from_text(&settings.text).map_err(text)?;
    for (name, value) in &settings.own {
        base.set(name, value).map_err(text)?;
    }
    base.set("block_based_table_factory", &format!("{{{}}}", settings.table)).map_err(text)?;
    let mut families = Vec::new();
    for (name, compression) in &settings.families {
        let mut family = base.clone();
        if !compression.is_empty() {
            family.set("compression", compression).map_err(text)?;
        }
        let cache = |bytes| BlockCache::new(CacheOptions::new(bytes));
        family.cf.table_factory.block_cache = settings.cache_bytes.map(cache);
        families.push(ColumnFamilyDescriptor::new(name.clone(), family.cf));
    }
    Ok((base, families))
}

/// The writes of a batch in Pumice's form.
pub fn batch(families: &[ColumnFamily], ops: &[Op]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for op in ops {
        match op {
            Op::Put { cf, key, value } => batch.put_cf(families[*cf].id(), key, value),
            Op::Delete { cf, key } => batch.delete_cf(families[*cf].id(), key),
            Op::SingleDelete { cf, key } => batch.single_delete_cf(families[*cf].id(), key),
            Op::Merge { cf, key, operand } => batch.merge_cf(families[*cf].id(), key, operand),
            Op::DeleteRange { cf, begin, end } => {
                batch.delete_range_cf(families[*cf].id(), begin, end);
            }
        }
    }
    batch
}

impl Pumice {
    /// Opens the database at `path` on the real file system.
    ///
    /// # Errors
    /// Pumice's.
    pub fn open(path: &Path, settings: &Settings) -> Result<Self, String> {
        Self::open_on(PosixFs::shared(), path, settings)
    }

    /// Opens the database at `path` of `file_system`.
    ///
    /// # Errors
    /// Pumice's.
    pub fn open_on(
        file_system: Arc<dyn FileSystem>,
        path: &Path,
        settings: &Settings,
    ) -> Result<Self, String> {
        let mut store = Pumice {
            path: path.to_path_buf(),
            settings: settings.clone(),
            file_system,
            cursors: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            statistics: Arc::new(Statistics::new()),
            updates: None,
            families: Vec::new(),
            db: None,
        };
        store.open_again()?;
        Ok(store)
    }

    fn open_again(&mut self) -> Result<(), String> {
        let (mut base, families) = options(&self.settings, Arc::clone(&self.file_system))?;
        base.db.statistics = self.settings.statistics.then(|| Arc::clone(&self.statistics));
        let (db, families) = Db::open_cf(&base.db, &self.path, &families).map_err(text)?;
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

    /// What was counted; nothing without statistics in the settings.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// Writes with the given options.
    ///
    /// # Errors
    /// Pumice's.
    pub fn write_with(&mut self, ops: &[Op], options: &WriteOptions) -> Result<(), String> {
        self.db().write_opt(options, &mut batch(&self.families, ops)).map_err(text)
    }

    /// Releases everything and closes.
    ///
    /// # Errors
    /// Pumice's.
    pub fn close(mut self) -> Result<(), String> {
        self.let_go();
        let db = self.db.take().expect("open but during reopen");
        db.close().map_err(text)
    }

    fn let_go(&mut self) {
        self.cursors.clear();
        self.snapshots.clear();
        self.updates = None;
        self.families.clear();
    }

    fn reads(&self, snapshot: Option<u64>) -> ReadOptions {
        let snapshot = snapshot.map(|name| self.snapshots[&name].clone());
        ReadOptions { snapshot, ..ReadOptions::default() }
    }
}

impl Store for Pumice {
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
        let found = self.db().get_cf_opt(&self.reads(snapshot), &self.families[cf], key);
        Ok(found.map_err(text)?.map(|value| value.to_vec()))
    }

    fn multi_get(
        &mut self,
        cf: usize,
        keys: &[Vec<u8>],
        snapshot: Option<u64>,
    ) -> Result<Vec<Option<Vec<u8>>>, String> {
        let keys: Vec<(&ColumnFamily, &[u8])> =
            keys.iter().map(|key| (&self.families[cf], key.as_slice())).collect();
        let found = self.db().multi_get_cf_opt(&self.reads(snapshot), &keys);
        found.into_iter().map(|one| Ok(one.map_err(text)?.map(|value| value.to_vec()))).collect()
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
        let reads = ReadOptions {
            iterate_lower_bound: spec.lower.clone(),
            iterate_upper_bound: spec.upper.clone(),
            total_order_seek: spec.order == Order::Total,
            prefix_same_as_start: spec.order == Order::SamePrefix,
            ..self.reads(spec.snapshot)
        };
        let cursor = self.db().cursor_cf_opt(&reads, &self.families[spec.cf]).map_err(text)?;
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
        Ok(cursor.valid().then(|| {
            (cursor.key().unwrap_or_default().to_vec(), cursor.value().unwrap_or_default().to_vec())
        }))
    }

    fn close_cursor(&mut self, name: u64) {
        self.cursors.remove(&name);
    }

    fn flush(&mut self, cf: usize) -> Result<(), String> {
        self.db().flush_cfs_opt(&FlushOptions::default(), &[&self.families[cf]]).map_err(text)
    }

    fn compact(
        &mut self,
        cf: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<(), String> {
        let how = CompactRangeOptions::default();
        self.db().compact_range_cf(&how, &self.families[cf], begin, end).map_err(text)
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.let_go();
        let db = self.db.take().expect("open but during reopen");
        db.close().map_err(text)?;
        drop(db);
        self.open_again()
    }
}

impl Engine for Pumice {
    fn write_as(&mut self, ops: &[Op], mode: WriteMode) -> Result<(), String> {
        let WriteMode { sync, disable_wal } = mode;
        self.write_with(ops, &WriteOptions { sync, disable_wal, ..WriteOptions::default() })
    }

    fn compact_all(&mut self, cf: usize) -> Result<(), String> {
        let how = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        self.db().compact_range_cf(&how, &self.families[cf], None, None).map_err(text)
    }

    fn settle(&mut self) -> Result<(), String> {
        self.db().wait_for_compact(&WaitForCompactOptions::default()).map_err(text)?;
        // The last job may not have deleted its obsolete files yet.
        self.db().disable_file_deletions();
        self.db().enable_file_deletions();
        Ok(())
    }

    fn set_options(&mut self, cf: usize, options: &[(&str, &str)]) -> Result<(), String> {
        self.db().set_options_cf(&self.families[cf], options).map_err(text)
    }

    fn files(&mut self) -> Vec<TableFile> {
        let files = self.db().live_files_metadata().into_iter();
        files.map(|file| TableFile { family: file.column_family_name, level: file.level }).collect()
    }

    fn sequence(&mut self) -> u64 {
        self.db().latest_sequence_number()
    }

    fn ticker(&mut self, name: &str) -> Result<u64, String> {
        let ticker = Ticker::ALL.iter().find(|ticker| ticker.name() == name);
        ticker.map(|ticker| self.statistics.ticker(*ticker)).ok_or(format!("no ticker {name}"))
    }

    fn make_table(&mut self, path: &Path, entries: &[Op]) -> Result<(), String> {
        let (base, _) = options(&self.settings, Arc::clone(&self.file_system))?;
        let mut writer = SstFileWriter::new(&base).map_err(text)?;
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
        let options = IngestExternalFileOptions {
            move_files: mode.move_files,
            snapshot_consistency: mode.snapshot_consistency,
            allow_global_seqno: mode.allow_global_seqno,
            allow_blocking_flush: mode.allow_blocking_flush,
            ingest_behind: mode.ingest_behind,
            fail_if_not_bottommost_level: mode.fail_if_not_bottommost_level,
            ..IngestExternalFileOptions::default()
        };
        self.db().ingest_external_file_cf(&options, &self.families[cf], files).map_err(text)
    }

    fn updates_since(&mut self, sequence: u64) -> Result<(Updates, Result<(), String>), String> {
        self.updates = Some(self.db().get_updates_since(sequence).map_err(text)?);
        self.more_updates()
    }

    fn more_updates(&mut self) -> Result<(Updates, Result<(), String>), String> {
        let iterator = self.updates.as_mut().ok_or("no iterator")?;
        let mut batches = Updates::new();
        while let Some(Ok((sequence, batch))) = iterator.next() {
            batches.push((sequence, batch.data().to_vec()));
        }
        Ok((batches, iterator.status().map_err(text)))
    }

    fn verify(&mut self) -> Result<(), String> {
        self.db().verify_checksum().map_err(text)
    }
}
