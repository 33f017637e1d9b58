//! Values that are not where their entries are: those in blob files, whole or as columns of an
//! entity.
//!
//! Thread safety: borrowed plain data. Reads files and so suspends. Out of the line of reads whose
//! values are in tables: these ask `blob::references::may_refer` and no more.

use pumice_base::{Error, FileNumber, Result, UserKey, ValueType, WideColumn, wide_columns};
use pumice_env::IoPriority;
use pumice_manifest::Version;
use pumice_table::{ReadLimits, TableReadOptions, paced};

use crate::blob::index::BlobIndex;
use crate::read::pinned::PinnedSlice;
use crate::version::table_cache::TableCache;

/// How a read treats blob files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlobReads {
    verify_checksums: bool,
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

/// The blob files of a version of a column family.
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

    /// The value of `key` that `index` refers to.
    ///
    /// # Errors
    /// As [`BlobSource::fetch`].
    pub fn value(&self, key: UserKey<'_>, index: &BlobIndex) -> Result<PinnedSlice> {
        let blobs = self.version.blob_files();
        let file = blobs.get(&index.file).ok_or_else(|| unknown_file(index.file))?;
        if self.reads.cache_only {
            return Err(Error::incomplete("Cannot read blob(s): no disk I/O allowed"));
        }
        let mut value = Vec::new();
        paced(self.reads.io_priority, &self.reads.limits, || {
            let file = self.tables.blob_file(&file.shared, self.family)?;
            file.read(key.as_bytes(), index, self.reads.verify_checksums, &mut value)
        })?;
        Ok(PinnedSlice::owned(value))
    }
}

#[cold]
fn unknown_file(number: FileNumber) -> Error {
    Error::corruption(format!("Invalid blob file number: {number} is not in the MANIFEST"))
}
