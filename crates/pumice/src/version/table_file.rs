//! The file of an open table, whose descriptor can be closed while the table stays open.
//!
//! Tables that were opened without a limit on open files stay in their files' metadata for as long
//! as a version names them. When a limit is set, only their descriptors are closed: index and
//! filter stay in memory, and a read that reaches the file opens it again.
//!
//! Thread safety: all methods from anywhere. A reader keeps the descriptor that it began with until
//! it is done. Reading a closed file opens it and so may suspend.
//!
//! What it does not do: decide which file is closed (`table_cache`).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use pumice_base::{Error, FileNumber, Result};
use pumice_env::{FileSystem, RandomAccessFile, ReadFileOptions, ReadRequest};

/// Opens a table's file, and counts that.
pub(super) struct FileOpener {
    pub fs: Arc<dyn FileSystem>,
    pub files: ReadFileOptions,
    pub number: FileNumber,
    pub watcher: Weak<dyn FileWatcher>,
}

/// Counts open descriptors.
pub(super) trait FileWatcher: Send + Sync {
    /// The descriptor of `file` was closed and is open again.
    fn opened_again(&self, file: &Arc<TableFile>);
}

type Descriptor = Arc<dyn RandomAccessFile>;

/// See the module head.
pub(super) struct TableFile {
    opener: FileOpener,
    path: PathBuf,
    len: u64,
    read_unit: usize,
    /// None: closed.
    descriptor: ArcSwapOption<Descriptor>,
    /// Was read since the last check.
    used: AtomicBool,
    me: Weak<TableFile>,
}

impl TableFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn open(opener: FileOpener, path: PathBuf) -> Result<Arc<Self>> {
        let descriptor = opener.fs.open_random_with(&path, &opener.files)?;
        Ok(Arc::new_cyclic(|me| TableFile {
            len: descriptor.len(),
            read_unit: descriptor.read_unit(),
            opener,
            path,
            descriptor: ArcSwapOption::from_pointee(descriptor),
            used: AtomicBool::new(true),
            me: Weak::clone(me),
        }))
    }

    pub fn number(&self) -> FileNumber {
        self.opener.number
    }

    /// Whether it was read since the last call.
    pub fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Closes the descriptor, once those who read from it are done.
    pub fn close(&self) {
        self.descriptor.store(None);
    }

    fn note_use(&self) {
        // The shared cache line is written only if the value changes.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    fn with<T>(&self, read: impl FnOnce(&dyn RandomAccessFile) -> T) -> Result<T> {
        self.note_use();
        let open: Guard<Option<Arc<Descriptor>>> = self.descriptor.load();
        match &*open {
            Some(descriptor) => Ok(read(&***descriptor)),
            None => self.open_again().map(|descriptor| read(&**descriptor)),
        }
    }

    /// Two readers may open it at the same time; the loser's descriptor is closed when its read is
    /// done.
    #[cold]
    fn open_again(&self) -> Result<Arc<Descriptor>> {
        let descriptor = self.opener.fs.open_random_with(&self.path, &self.opener.files)?;
        if descriptor.len() != self.len {
            return Err(Error::corruption(format!(
                "Sst file size mismatch: {}. Size when it was first opened {}, actual size {}",
                self.path.display(),
                self.len,
                descriptor.len()
            )));
        }
        let descriptor = Arc::new(descriptor);
        self.descriptor.store(Some(Arc::clone(&descriptor)));
        if let (Some(watcher), Some(me)) = (self.opener.watcher.upgrade(), self.me.upgrade()) {
            watcher.opened_again(&me);
        }
        Ok(descriptor)
    }
}

impl RandomAccessFile for TableFile {
    #[inline]
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.with(|file| file.read_at(offset, buf))?
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        if let Err(error) = self.with(|file| file.read_batch(requests)) {
            for request in requests {
                request.result = Err(error.clone());
            }
        }
    }
    /// That changes when a trace of files begins.
    fn needs_little_stack(&self) -> bool {
        self.descriptor.load().as_ref().is_some_and(|file| file.needs_little_stack())
    }
    fn read_unit(&self) -> usize {
        self.read_unit
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        // Only a hint: if the file cannot be opened, the following read reports it.
        self.with(|file| file.prefetch(offset, bytes)).ok();
    }
    fn prefetches(&self) -> bool {
        self.with(|file| file.prefetches()).unwrap_or(false)
    }
    fn len(&self) -> u64 {
        self.len
    }
    fn path(&self) -> &Path {
        &self.path
    }
}
