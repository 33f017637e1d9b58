//! What a worker calls on Pumice: writes and point reads.
//!
//! Thread safety: each belongs to one worker.

use super::engine::{self, Hits, Result};
use super::families::Families;
use super::pumice_blob_db::BlobWriter;
use super::pumice_engine::{PumiceDb, text};
use super::user_times::{ReadTimes, UserTimes};
use pumice::options::UserDefinedIndex;
use pumice::{
    BlobDb, ColumnFamily, Db, ErrorKind, GetMergeOperandsOptions, IoPriority, PinnedSlice,
    RangeOpt, ReadOptions, WriteBatch, WriteOptions,
};
use std::sync::Arc;

/// A worker's handles, with the one that it uses.
struct Handles {
    all: Vec<ColumnFamily>,
    selected: usize,
}

impl Handles {
    fn new(db: &PumiceDb) -> Handles {
        Handles { all: db.families.lock().clone(), selected: 0 }
    }

    fn selected(&self) -> &ColumnFamily {
        &self.all[self.selected]
    }

    fn select(&mut self, db: &Db, family: usize) {
        for index in self.all.len()..=family {
            let handle = db.column_family(&Families::name(index));
            self.all.push(handle.expect("the caller names one that exists"));
        }
        self.selected = family;
    }
}

/// Writes of one worker.
pub struct PumiceWriter {
    db: Db,
    options: WriteOptions,
    batch: WriteBatch,
    handles: Handles,
    times: Option<Arc<UserTimes>>,
    blobs: Option<BlobWriter>,
}

impl PumiceWriter {
    /// A writer to `db`.
    pub fn new(db: &PumiceDb, settings: engine::WriteSettings) -> Self {
        let (handles, options) = (Handles::new(db), write_options(settings));
        let (mut batch, times) = (WriteBatch::new(), db.times.clone());
        if settings.protected {
            batch.protect();
        }
        let blobs = db.blobs.as_ref().map(BlobWriter::new);
        PumiceWriter { db: db.db.clone(), options, batch, handles, times, blobs }
    }

    /// Writes what `add` adds to a batch, which gets a timestamp.
    fn timed(&mut self, add: impl FnOnce(&mut WriteBatch, &ColumnFamily)) -> Result<()> {
        add(&mut self.batch, self.handles.selected());
        engine::Writer::commit(self)
    }
}

impl engine::Writer for PumiceWriter {
    fn select(&mut self, family: usize) {
        self.handles.select(&self.db, family);
    }
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.times.is_some() {
            return self.timed(|batch, cf| {
                batch.put_cf(cf, key, value);
            });
        }
        if let Some(blobs) = &self.blobs {
            return blobs.db().put_opt(&self.options, key, value).map_err(text);
        }
        self.db.put_cf_opt(&self.options, self.handles.selected(), key, value).map_err(text)
    }
    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        if self.times.is_some() {
            return self.timed(|batch, cf| {
                batch.merge_cf(cf, key, operand);
            });
        }
        if let Some(blobs) = &self.blobs {
            return blobs.db().merge_opt(&self.options, key, operand).map_err(text);
        }
        self.db.merge_cf_opt(&self.options, self.handles.selected(), key, operand).map_err(text)
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        if self.times.is_some() {
            return self.timed(|batch, cf| {
                batch.delete_cf(cf, key);
            });
        }
        if let Some(blobs) = &self.blobs {
            return blobs.db().delete_opt(&self.options, key).map_err(text);
        }
        self.db.delete_cf_opt(&self.options, self.handles.selected(), key).map_err(text)
    }
    fn single_delete(&mut self, key: &[u8]) -> Result<()> {
        if self.times.is_some() {
            return self.timed(|batch, cf| {
                batch.single_delete_cf(cf, key);
            });
        }
        if let Some(blobs) = &self.blobs {
            return blobs.db().single_delete_opt(&self.options, key).map_err(text);
        }
        self.db.single_delete_cf_opt(&self.options, self.handles.selected(), key).map_err(text)
    }
    fn batch_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put_cf(self.handles.selected(), key, value);
    }
    fn batch_delete(&mut self, key: &[u8]) {
        self.batch.delete_cf(self.handles.selected(), key);
    }
    fn batch_delete_range(&mut self, begin: &[u8], end: &[u8]) {
        self.batch.delete_range_cf(self.handles.selected(), begin, end);
    }
    fn commit(&mut self) -> Result<()> {
        if let Some(times) = &self.times {
            self.db.set_timestamps(&mut self.batch, &times.of_write()).map_err(text)?;
        }
        let written = match &mut self.blobs {
            Some(blobs) => blobs.commit(&self.options, &self.batch),
            None => self.db.write_opt(&self.options, &mut self.batch).map_err(text),
        };
        self.batch.clear();
        written
    }
    fn write_encoded(&mut self, batch: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::from_data(batch).map_err(text)?;
        if let Some(blobs) = &self.blobs {
            return blobs.db().write_opt(&self.options, &mut batch).map_err(text);
        }
        self.db.write_opt(&self.options, &mut batch).map_err(text)
    }
}

/// Point reads of one worker.
pub struct PumiceReader {
    db: Db,
    options: ReadOptions,
    handles: Handles,
    /// Operands that the next key is expected to have at most: as many as any had so far.
    operands_max: usize,
    times: Option<ReadTimes>,
    blobs: Option<BlobDb>,
}

impl PumiceReader {
    /// A reader of `db`.
    pub fn new(of: &PumiceDb, options: ReadOptions) -> Self {
        let (db, handles, times) = (of.db.clone(), Handles::new(of), &of.times);
        let times = times.as_ref().map(ReadTimes::new);
        let blobs = of.blobs.as_ref().map(|blobs| blobs.db.clone());
        PumiceReader { db, options, handles, operands_max: 8, times, blobs }
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Result<Option<PinnedSlice>> {
        let found = match &self.blobs {
            Some(blobs) => blobs.get_opt(&self.options, key),
            None => self.db.get_cf_opt(&self.options, self.handles.selected(), key),
        };
        found.map_err(text)
    }

    /// The next read is at its time.
    #[inline]
    fn tick(&mut self) {
        if let Some(times) = &mut self.times {
            let timestamp = self.options.timestamp.get_or_insert_default();
            timestamp.clear();
            timestamp.extend_from_slice(&times.next());
        }
    }
}

impl engine::Reader for PumiceReader {
    fn select(&mut self, family: usize) {
        self.handles.select(&self.db, family);
    }

    fn pin(&mut self, pinned: bool) {
        self.options.snapshot = pinned.then(|| self.db.snapshot());
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<usize>> {
        self.tick();
        Ok(self.find(key)?.map(|value| value.len()))
    }

    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.tick();
        value.clear();
        let found = self.find(key)?;
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn operands(&mut self, key: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.tick();
        let mut number = 0;
        let read = |at_most, number: &mut usize| {
            let how = GetMergeOperandsOptions::at_most(at_most);
            let cf = self.handles.selected();
            if let Some(blobs) = &self.blobs {
                return blobs.get_merge_operands_cf_opt(&self.options, cf, key, &how, number);
            }
            self.db.get_merge_operands_cf_opt(&self.options, cf, key, &how, number)
        };
        let found = match read(self.operands_max, &mut number) {
            Err(error) if error.kind() == ErrorKind::Incomplete => {
                self.operands_max = number;
                // A merge may come in between.
                read(usize::MAX, &mut number)
            }
            found => found,
        };
        let found = found.map_err(text)?;
        found.iter().for_each(|operand| each(operand));
        Ok(!found.is_empty())
    }

    fn multi_get(&mut self, keys: &[u8], key_len: usize) -> Result<Hits> {
        let keys: Vec<&[u8]> = keys.chunks_exact(key_len).collect();
        self.tick();
        let mut hits = Hits::default();
        let found = match &self.blobs {
            Some(blobs) => blobs.multi_get_opt(&self.options, &keys),
            None => self.db.multi_get_opt(&self.options, &keys),
        };
        for value in found {
            if let Some(value) = value.map_err(text)? {
                hits.found += 1;
                hits.bytes += (key_len + value.len()) as u64;
            }
        }
        Ok(hits)
    }
}

/// Scans ranges of the default column family; see [`engine::BenchDb::multi_scan`].
pub fn multi_scan(
    db: &Db,
    options: &ReadOptions,
    ranges: &[(Vec<u8>, Vec<u8>)],
    see: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<()> {
    let range = |(start, limit): &(Vec<u8>, Vec<u8>)| RangeOpt {
        start: Some(start.clone()),
        limit: Some(limit.clone()),
    };
    let (cf, ranges) = (db.default_column_family(), ranges.iter().map(range).collect());
    for scan in db.multi_scan(options, cf, ranges, false).map_err(text)? {
        for entry in scan.map_err(text)? {
            let (key, value) = entry.map_err(text)?;
            see(&key, &value);
        }
    }
    Ok(())
}

impl PumiceDb {
    /// What cursors are made with.
    pub(super) fn scan_options(
        &self,
        settings: &engine::ReadSettings,
        bounds: [Option<&[u8]>; 2],
    ) -> ReadOptions {
        let times = self.times.as_ref();
        ReadOptions {
            snapshot: settings.snapshot.then(|| self.db.snapshot()),
            timestamp: times.map(|times| ReadTimes::new(times).next().to_vec()),
            ..read_options(settings, bounds)
        }
    }
}

pub(super) fn write_options(settings: engine::WriteSettings) -> WriteOptions {
    WriteOptions {
        sync: settings.sync,
        disable_wal: settings.disable_wal,
        rate_limiter_priority: settings.limited.then_some(IoPriority::User),
        ..WriteOptions::default()
    }
}

pub(super) fn read_options(
    settings: &engine::ReadSettings,
    [lower, upper]: [Option<&[u8]>; 2],
) -> ReadOptions {
    let defaults = ReadOptions::default();
    ReadOptions {
        auto_prefix_mode: settings.auto_prefix_mode.unwrap_or(defaults.auto_prefix_mode),
        verify_checksums: settings.verify_checksums,
        total_order_seek: settings.total_order_seek,
        prefix_same_as_start: settings.prefix_same_as_start,
        tailing: settings.tailing,
        readahead_size: settings.readahead_size,
        auto_readahead_size: settings.auto_readahead_size.unwrap_or(defaults.auto_readahead_size),
        async_io: settings.async_io.unwrap_or(defaults.async_io),
        table_index_factory: settings.by_trie.then_some(UserDefinedIndex::Trie),
        rate_limiter_priority: settings.limited.then_some(IoPriority::User),
        iterate_lower_bound: lower.map(<[u8]>::to_vec),
        iterate_upper_bound: upper.map(<[u8]>::to_vec),
        ..defaults
    }
}
