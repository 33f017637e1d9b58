//! Wraps a user's file system: calls are marked, panics become errors.
//!
//! Files are written between the steps of state changes and under locks: a panic there would leave
//! the change half done, whereas an error ends it in an orderly way.
//!
//! Thread safety: as the user's file system. What it does not do: keep a file system that waits
//! forever from blocking those that need its files.

use std::path::Path;
use std::sync::Arc;

use pumice_base::Result;
use pumice_env::{
    FileLock, FileOptions, FileSyncer, FileSystem, RandomAccessFile, ReadFileOptions, ReadRequest,
    SequentialFile, WritableFile,
};
use pumice_port::thread;

use super::Mark;

/// A file system or file, and the database whose calls it serves.
struct Marked<T> {
    mark: Mark,
    code: T,
}

impl<T> Marked<T> {
    fn call<R>(&self, f: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        let _marked = self.mark.enter_locked();
        thread::contain("The file system", || f(&self.code)).and_then(|result| result)
    }
    fn change<R>(&mut self, f: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        let _marked = self.mark.enter_locked();
        thread::contain("The file system", || f(&mut self.code)).and_then(|result| result)
    }
    fn of<R>(&self, code: R) -> Marked<R> {
        Marked { mark: self.mark, code }
    }
}

/// `fs` with marks, unless it is the library's own.
pub(crate) fn mark_files(mark: Mark, fs: &Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
    if fs.is_own() {
        return Arc::clone(fs);
    }
    Arc::new(Marked { mark, code: Arc::clone(fs) })
}

macro_rules! delegate {
    ($call:ident: $($method:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $method(&self, $($arg: $type),*) -> Result<$result> {
            self.$call(|code| code.$method($($arg),*))
        }
    )*};
}

macro_rules! delegate_changes {
    ($($method:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $method(&mut self, $($arg: $type),*) -> Result<$result> {
            self.change(|code| code.$method($($arg),*))
        }
    )*};
}

impl FileSystem for Marked<Arc<dyn FileSystem>> {
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.call(|fs| fs.open_random_with(path, options))?;
        Ok(Arc::new(self.of(file)))
    }
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = self.call(|fs| fs.open_sequential(path))?;
        Ok(Box::new(self.of(file)))
    }
    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let file = self.call(|fs| fs.create(path, options))?;
        Ok(Box::new(self.of(file)))
    }
    fn reopen_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = self.call(|fs| fs.reopen_append(path))?;
        Ok(Box::new(self.of(file)))
    }
    fn reuse(&self, old: &Path, new: &Path) -> Result<Box<dyn WritableFile>> {
        let file = self.call(|fs| fs.reuse(old, new))?;
        Ok(Box::new(self.of(file)))
    }
    delegate! { call:
        read_file(path: &Path) -> Vec<u8>;
        exists(path: &Path) -> bool;
        file_size(path: &Path) -> u64;
        modified_time(path: &Path) -> u64;
        rename(from: &Path, to: &Path) -> ();
        link(from: &Path, to: &Path) -> ();
        remove(path: &Path) -> ();
        num_file_links(path: &Path) -> u64;
        truncate(path: &Path, bytes: u64) -> ();
        create_dir_all(path: &Path) -> ();
        remove_dir(path: &Path) -> ();
        list(path: &Path) -> Vec<String>;
        sync_dir(path: &Path) -> ();
        lock(path: &Path) -> Box<dyn FileLock>;
        free_space(path: &Path) -> u64;
    }
    fn device(&self, path: &Path) -> Option<u64> {
        self.call(|fs| Ok(fs.device(path))).ok().flatten()
    }
    fn is_own(&self) -> bool {
        false
    }
}

impl RandomAccessFile for Marked<Arc<dyn RandomAccessFile>> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.call(|file| file.read_at(offset, buf))
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        let read = self.call(|file| {
            file.read_batch(requests);
            Ok(())
        });
        if let Err(error) = read {
            requests.iter_mut().for_each(|request| request.result = Err(error.clone()));
        }
    }
    fn needs_little_stack(&self) -> bool {
        self.code.needs_little_stack()
    }
    fn prefetches(&self) -> bool {
        self.code.prefetches()
    }
    fn read_unit(&self) -> usize {
        self.code.read_unit()
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        let hint = |file: &Arc<dyn RandomAccessFile>| {
            file.prefetch(offset, bytes);
            Ok(())
        };
        drop(self.call(hint)); // Only a hint.
    }
    fn len(&self) -> u64 {
        self.code.len()
    }
    fn path(&self) -> &Path {
        self.code.path()
    }
}

impl SequentialFile for Marked<Box<dyn SequentialFile>> {
    delegate_changes! {
        read(buf: &mut [u8]) -> usize;
        skip(bytes: u64) -> ();
    }
    fn path(&self) -> &Path {
        self.code.path()
    }
}

impl WritableFile for Marked<Box<dyn WritableFile>> {
    delegate_changes! {
        append(data: &[u8]) -> ();
        overwrite(ahead: u64, data: &[u8], step: u64) -> ();
        flush() -> ();
        sync() -> ();
        fsync() -> ();
        range_sync(offset: u64, bytes: u64, wait_for_earlier: bool) -> ();
        preallocate(end: u64) -> ();
        truncate(bytes: u64) -> ();
        close() -> ();
    }
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        let syncer = self.call(|file| file.syncer())?;
        Ok(Arc::new(self.of(syncer)))
    }
    fn len(&self) -> u64 {
        self.code.len()
    }
    fn path(&self) -> &Path {
        self.code.path()
    }
}

impl FileSyncer for Marked<Arc<dyn FileSyncer>> {
    delegate! { call:
        sync() -> ();
    }
}
