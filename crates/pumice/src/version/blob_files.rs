//! Open blob files: finds, opens and keeps them as tables are kept (`table_cache`), in the same
//! list and under the same limit.
//!
//! Thread safety: all methods from anywhere. Two readers may open one file at the same time; the
//! loser's is dropped. Opening reads the file and so may suspend.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use pumice_base::{Error, FileNumber, Result};
use pumice_cache::CacheKey;
use pumice_env::rate_limiter::reads::LimitedFile;
use pumice_env::{ObservedFile, RandomAccessFile};
use pumice_manifest::blob::SharedBlobFile;
use pumice_port::lane::at_normal_priority;
use pumice_table::cache_base_of;

use crate::blob::file::BlobFile;
use crate::stats::{Record, Ticker};
use crate::version::charges::BlobCache;
use crate::version::table_cache::{Open, OpenTables, TableCache, wrong_slot};
use crate::version::table_file::{FileOpener, FileWatcher, TableFile};

/// A blob file in use: borrowed from its metadata, or held.
pub(crate) enum BlobFileRef<'a> {
    Kept(&'a BlobFile),
    Held(Arc<BlobFile>),
}

impl Deref for BlobFileRef<'_> {
    type Target = BlobFile;
    fn deref(&self) -> &BlobFile {
        match self {
            BlobFileRef::Kept(file) => file,
            BlobFileRef::Held(file) => file,
        }
    }
}

impl TableCache {
    /// The blob file `file` of column family `family`, opened if needed.
    ///
    /// # Errors
    /// I/O errors; Corruption if the file is not what the MANIFEST says.
    pub(crate) fn blob_file<'a>(
        &self,
        file: &'a SharedBlobFile,
        family: u32,
    ) -> Result<BlobFileRef<'a>> {
        if let Some(kept) = file.open.get::<BlobFile>() {
            return Ok(BlobFileRef::Kept(kept));
        }
        let (open, number) = (&self.open, file.addition.number);
        if !open.is_unlimited() {
            let found = |open: &Open| match open {
                Open::Blob(blob) => Some(Arc::clone(blob)),
                _ => None,
            };
            if let Some(blob) = at_normal_priority(|| open.find(number, found)) {
                return Ok(BlobFileRef::Held(blob));
            }
            let (blob, _) = self.open_blob_file(file, family)?;
            at_normal_priority(|| open.keep(number, Open::Blob(Arc::clone(&blob))));
            return Ok(BlobFileRef::Held(blob));
        }
        let (blob, handle) = self.open_blob_file(file, family)?;
        let kept = at_normal_priority(|| {
            file.open.get_or_init(|| {
                open.keep(number, Open::File(Arc::downgrade(&handle)));
                blob
            })
        });
        kept.map(BlobFileRef::Kept).ok_or_else(wrong_slot)
    }

    /// The cache of values of blob files, and the key in it of the value at `offset` of a file;
    /// None without a cache.
    pub(crate) fn blob_cache(
        &self,
        number: FileNumber,
        offset: u64,
    ) -> Option<(&BlobCache, CacheKey)> {
        let cache = self.blob_cache.as_ref()?;
        let (db_id, session) = &self.open.ids;
        Some((cache, blob_cache_key(cache_base_of(db_id, session, number)?, offset)))
    }

    fn open_blob_file(
        &self,
        file: &SharedBlobFile,
        family: u32,
    ) -> Result<(Arc<BlobFile>, Arc<TableFile>)> {
        let path = self.dirs.blob(file.addition.number);
        let opened = self.open.open_blob_file(path, file, family);
        match &opened {
            Ok(_) => self.open.statistics.tick(Ticker::NoFileOpens),
            Err(_) => self.open.statistics.tick(Ticker::NoFileErrors),
        }
        opened
    }
}

impl OpenTables {
    fn open_blob_file(
        self: &Arc<Self>,
        path: PathBuf,
        file: &SharedBlobFile,
        family: u32,
    ) -> Result<(Arc<BlobFile>, Arc<TableFile>)> {
        let opener = FileOpener {
            fs: Arc::clone(&self.fs),
            files: self.files,
            number: file.addition.number,
            watcher: Arc::downgrade(self) as Weak<dyn FileWatcher>,
        };
        let handle = TableFile::open(opener, path.clone())?;
        if handle.len() != file.file_size() {
            return Err(size_mismatch(&path, file.file_size(), handle.len()));
        }
        let limited = LimitedFile::wrap(
            ObservedFile::wrap(Arc::clone(&handle) as _, self.file_times.clone()),
            self.rate_limiter.as_ref(),
            self.rate_events.as_ref(),
        );
        Ok((Arc::new(BlobFile::open(limited, family, self.statistics.clone())?), handle))
    }
}

/// The key in a blob cache of the value at `offset` of the file with that cache base.
pub(crate) fn blob_cache_key(base: [u64; 2], offset: u64) -> CacheKey {
    CacheKey(base[0], base[1] ^ offset)
}

/// The file at `path` has another length than the MANIFEST says.
#[cold]
pub(crate) fn size_mismatch(path: &std::path::Path, expected: u64, found: u64) -> Error {
    Error::corruption(format!(
        "Blob file size mismatch: {}: the MANIFEST says {expected} bytes, the file has {found}",
        path.display()
    ))
}
