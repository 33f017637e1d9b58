//! Values that are not where their entries are: those in blob files, or in other records of the
//! table that has the entry, whole or as columns of an entity.
//!
//! Thread safety: borrowed plain data. Reads files and so suspends. Out of the line of reads whose
//! values are in tables: these ask `blob::references::may_refer` and no more.

use std::sync::Arc;

use pumice_base::{Error, Result, UserKey, ValueType, WideColumn, wide_columns};
use pumice_cache::{CacheKey, Priority, SecondaryLookup};
use pumice_env::IoPriority;
use pumice_env::perf::{self, PerfMetric};
use pumice_manifest::{BlobFileMetaData, FileMetaData, Version};
use pumice_table::blob::format::RECORD_HEADER_LEN;
use pumice_table::blob::index::BlobIndex;
use pumice_table::{
    BlockCache, BlockKind, CachedBlock, PinnedBlock, ReadLimits, TableReadOptions, from_secondary,
    paced,
};

use crate::blob::record_key::RecordKey;
use crate::callbacks::key_forms::KeyForms;
use crate::options::index_owner::shown_index;
use crate::read::pinned::PinnedSlice;
use crate::stats::{HistogramKind, Record, Ticker, simulated};
use crate::version::charges::BlobCache;
use crate::version::table_cache::TableCache;

/// How a read treats blob files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlobReads {
    verify_checksums: bool,
    /// Values that are read enter the cache.
    fill_cache: bool,
    /// Nothing is read from files.
    cache_only: bool,
    io_priority: Option<IoPriority>,
    limits: ReadLimits,
}

impl BlobReads {
    /// As `options` say of tables.
    pub fn of(options: &TableReadOptions) -> Self {
        BlobReads {
            verify_checksums: options.verify_checksums,
            fill_cache: options.fill_cache,
            // A read that notes missing blocks of tables may read everything else at once.
            cache_only: options.cache_only && options.missed.is_none(),
            io_priority: options.io_priority,
            limits: options.limits,
        }
    }
}

/// A value, all of which is at hand.
pub(crate) struct Fetched {
    value_type: ValueType,
    pub value: PinnedSlice,
}

impl Fetched {
    /// Type and stored bytes.
    pub fn stored(&self) -> (u8, &[u8]) {
        (self.value_type as u8, &self.value)
    }

    /// It is an entity.
    pub fn is_entity(&self) -> bool {
        self.value_type == ValueType::WideColumnEntity
    }
}

/// The file that has a value.
enum Place<'a> {
    BlobFile(&'a BlobFileMetaData),
    /// A table, and its level.
    Table(usize, &'a FileMetaData),
}

/// The blob files of a version of a column family, and its tables with embedded blobs. Keys are
/// those of its tables.
pub(crate) struct BlobSource<'a> {
    pub tables: &'a TableCache,
    pub version: &'a Version,
    pub family: u32,
    pub reads: BlobReads,
}

impl BlobSource<'_> {
    /// The stored value of `key` with all that is in blob files in its place; None if nothing is.
    ///
    /// # Errors
    /// Corruption, which names the blob file if it is known; I/O; Incomplete with `cache_only`.
    #[cold]
    pub fn fetch(&self, key: UserKey<'_>, tag: u8, stored: &[u8]) -> Result<Option<Fetched>> {
        if tag == ValueType::BlobIndex as u8 {
            if self.tables.index_owner.is_some() {
                let value = PinnedSlice::owned(shown_index(stored)?);
                return Ok(Some(Fetched { value_type: ValueType::WideColumnEntity, value }));
            }
            let value = self.value(key, &BlobIndex::decode(stored)?)?;
            return Ok(Some(Fetched { value_type: ValueType::Value, value }));
        }
        if !wide_columns::has_blobs(stored) {
            return Ok(None);
        }
        let columns = wide_columns::decode_stored(stored)?;
        let fetch = |stored: &wide_columns::StoredColumn<'_>| match stored.in_blob_file {
            true => self.value(key, &BlobIndex::decode(stored.column.value)?).map(Some),
            false => Ok(None),
        };
        let fetched = columns.iter().map(fetch).collect::<Result<Vec<_>>>()?;
        let whole = columns.iter().zip(&fetched).map(|(stored, fetched)| {
            let value = fetched.as_deref().unwrap_or(stored.column.value);
            WideColumn::new(stored.column.name, value)
        });
        let entity = wide_columns::encode(&mut whole.collect::<Vec<_>>())?;
        let value = PinnedSlice::owned(entity);
        Ok(Some(Fetched { value_type: ValueType::WideColumnEntity, value }))
    }

    /// Reads what is in blob files of a stored value, from the files, and checks it. Blobs of an
    /// `IndexOwner` are its own.
    ///
    /// # Errors
    /// As [`BlobSource::fetch`].
    pub fn verify(&self, key: UserKey<'_>, tag: u8, stored: &[u8]) -> Result<()> {
        let verify = |index: &[u8]| {
            let index = BlobIndex::decode(index)?;
            self.read(&self.place(&index)?, key, &index).map(drop)
        };
        if tag == ValueType::BlobIndex as u8 {
            return if self.tables.index_owner.is_some() { Ok(()) } else { verify(stored) };
        }
        let columns = wide_columns::decode_stored(stored)?;
        let mut blobs = columns.iter().filter(|stored| stored.in_blob_file);
        blobs.try_for_each(|stored| verify(stored.column.value))
    }

    fn place(&self, index: &BlobIndex) -> Result<Place<'_>> {
        let found = match index.in_table {
            true => {
                let found = self.version.find_by_number(index.file);
                found.map(|(level, file)| Place::Table(level, file))
            }
            false => {
                let found = self.version.blob_files().get(&index.file);
                found.map(|file| Place::BlobFile(file))
            }
        };
        found.ok_or_else(|| unknown_file(index))
    }

    /// The value of `key` that `index` refers to.
    ///
    /// # Errors
    /// As [`BlobSource::fetch`].
    pub fn value(&self, key: UserKey<'_>, index: &BlobIndex) -> Result<PinnedSlice> {
        let place = self.place(index)?;
        let Some((cache, at)) = self.tables.blob_cache(index.file, index.offset) else {
            return self.read(&place, key, index).map(PinnedSlice::owned);
        };
        if let Some(hit) = self.cached(cache, at) {
            let hit = self.hit(hit);
            // An index into a table may have another length: the place alone is not the value.
            if !index.in_table || hit.len() as u64 == index.size {
                return Ok(hit);
            }
        }
        self.tables.statistics().tick(Ticker::BlobDbCacheMiss);
        let value = self.read(&place, key, index)?;
        match self.reads.fill_cache {
            true => self.keep(cache, at, value),
            false => Ok(PinnedSlice::owned(value)),
        }
    }

    /// A value that is in the cache, or in its secondary one.
    fn cached(&self, cache: &BlockCache, at: CacheKey) -> Option<PinnedBlock> {
        let found = cache.lookup_owned(&at);
        if let Some(simulation) = cache.simulation() {
            let cached = found.as_ref().map(|value| (value.charge(), Priority::Bottom));
            self.tables.statistics().tick(simulated(simulation.look_up(&at, cached)));
        }
        let found = match found {
            Some(hit) if hit.kind() == BlockKind::Blob => return Some(PinnedBlock::Cached(hit)),
            found => found,
        };
        let place = (at, BlockKind::Blob, Priority::Bottom);
        let make = |value| Some(CachedBlock::blob(value));
        let statistics = self.tables.statistics();
        match from_secondary(cache, place, found, make) {
            SecondaryLookup::Found(block) => {
                statistics.tick(Ticker::SecondaryCacheHits);
                statistics.tick(Ticker::CompressedSecondaryCacheHits);
                Some(block)
            }
            SecondaryLookup::Dummy => {
                statistics.tick(Ticker::CompressedSecondaryCacheDummyHits);
                None
            }
            SecondaryLookup::Missing => None,
        }
    }

    /// A value of the cache.
    fn hit(&self, block: PinnedBlock) -> PinnedSlice {
        let bytes = block.bytes().len();
        let statistics = self.tables.statistics();
        statistics.tick(Ticker::BlobDbCacheHit);
        statistics.tick_by(Ticker::BlobDbCacheBytesRead, bytes as u64);
        perf::count(PerfMetric::BlobCacheHitCount, 1);
        perf::count(PerfMetric::BlobCacheReadByte, bytes as u64);
        PinnedSlice::pinned(block, 0..bytes)
    }

    /// Puts a value into the cache.
    fn keep(&self, cache: &BlobCache, at: CacheKey, value: Vec<u8>) -> Result<PinnedSlice> {
        let (bytes, statistics) = (value.len(), self.tables.statistics());
        // A strict cache may refuse the entry, and then drops it.
        let spare = cache.strict_capacity_limit().then(|| value.clone());
        let entry = CachedBlock::blob(value);
        let charge = entry.charge();
        if !cache.admits(&at, charge, Priority::Bottom) {
            statistics.tick(Ticker::BlobDbCacheAddFailures);
            return Ok(PinnedSlice::pinned(PinnedBlock::Owned(Arc::new(entry)), 0..bytes));
        }
        match (cache.keep(at, entry, charge), spare) {
            (Ok(handle), _) => {
                statistics.tick(Ticker::BlobDbCacheAdd);
                statistics.tick_by(Ticker::BlobDbCacheBytesWrite, bytes as u64);
                Ok(PinnedSlice::pinned(PinnedBlock::Cached(handle), 0..bytes))
            }
            (Err(_), Some(spare)) => {
                statistics.tick(Ticker::BlobDbCacheAddFailures);
                Ok(PinnedSlice::owned(spare))
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Reads a value from its file.
    fn read(&self, place: &Place<'_>, key: UserKey<'_>, index: &BlobIndex) -> Result<Vec<u8>> {
        if self.reads.cache_only {
            return Err(Error::incomplete("Cannot read blob(s): no disk I/O allowed"));
        }
        let statistics = self.tables.statistics();
        let timer = statistics.timer();
        let record_key = RecordKey::of(KeyForms::of_version(self.version), key);
        let (mut value, verify) = (Vec::new(), self.reads.verify_checksums);
        paced(self.reads.io_priority, &self.reads.limits, || match place {
            Place::BlobFile(file) => {
                let file = self.tables.blob_file(&file.shared, self.family)?;
                file.read(&record_key, index, verify, &mut value)
            }
            Place::Table(level, file) => {
                value = self.tables.table_at(file, *level)?.embedded_blob(index, verify)?;
                Ok(())
            }
        })?;
        timer.stop(statistics, HistogramKind::BlobDbBlobFileReadMicros);
        let before = match place {
            Place::BlobFile(_) if verify => RECORD_HEADER_LEN + key.len(),
            _ => 0,
        };
        statistics.tick_by(Ticker::BlobDbBlobFileBytesRead, before as u64 + index.size);
        Ok(value)
    }
}

#[cold]
fn unknown_file(index: &BlobIndex) -> Error {
    let BlobIndex { file, offset, size, .. } = index;
    Error::corruption(format!(
        "Invalid blob file number: {file} is not in the MANIFEST, at offset {offset} of {size} \
         bytes"
    ))
}
