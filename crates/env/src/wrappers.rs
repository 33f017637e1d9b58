//! What wraps a file or a file system: each method that an implementor leaves out is the wrapped
//! one's.
//!
//! An implementor of [`FileSystemWrapper`] is a [`FileSystem`], one of
//! [`RandomAccessFileWrapper`] a [`RandomAccessFile`], and so on, as with RocksDB's
//! FileSystemWrapper. A method has no default where forwarding would be right for some wrappers and
//! wrong for others: whether code that is not the library's is called, how much stack reads need,
//! and the two ways of reading, since a wrapper that counts or delays one has to do so for both.
//!
//! Thread safety: as the traits of [`crate::file_system`]. Calls suspend where the wrapped one's
//! do.

use std::path::Path;
use std::sync::Arc;

use pumice_base::Result;

use crate::file_system::{
    FileLock, FileOptions, FileSyncer, FileSystem, RandomAccessFile, ReadFileOptions, ReadRequest,
    SequentialFile, WritableFile,
};

/// Writes one trait for wrappers, and the implementation of the trait that they stand for.
macro_rules! wrapper {
    (
        $(#[$doc:meta])*
        $wrapper:ident: $of:ident, $bound:ident $(+ $more:ident)*
            $(, exclusive $wrapped_mut:ident)?;
        required { $(fn $rname:ident(&self $(, $rarg:ident: $rtype:ty)*) -> $rresult:ty;)* }
        forwarded { $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty;)* }
        exclusive { $(fn $xname:ident(&mut self $(, $xarg:ident: $xtype:ty)*) -> $xresult:ty;)* }
    ) => {
        $(#[$doc])*
        #[allow(clippy::len_without_is_empty)] // As the trait that it stands for.
        pub trait $wrapper: $bound $(+ $more)* {
            /// What is wrapped.
            fn wrapped(&self) -> &dyn $of;
            $(
                /// What is wrapped.
                fn $wrapped_mut(&mut self) -> &mut dyn $of;
            )?
            $(
                #[doc = concat!("See [`", stringify!($of), "::", stringify!($rname), "`].")]
                fn $rname(&self $(, $rarg: $rtype)*) -> $rresult;
            )*
            $(
                #[doc = concat!("See [`", stringify!($of), "::", stringify!($name), "`].")]
                fn $name(&self $(, $arg: $type)*) -> $result {
                    self.wrapped().$name($($arg),*)
                }
            )*
            $(
                #[doc = concat!("See [`", stringify!($of), "::", stringify!($xname), "`].")]
                fn $xname(&mut self $(, $xarg: $xtype)*) -> $xresult {
                    self.wrapped_mut().$xname($($xarg),*)
                }
            )*
        }
        impl<T: $wrapper> $of for T {
            $(
                fn $rname(&self $(, $rarg: $rtype)*) -> $rresult {
                    $wrapper::$rname(self $(, $rarg)*)
                }
            )*
            $(
                fn $name(&self $(, $arg: $type)*) -> $result {
                    $wrapper::$name(self $(, $arg)*)
                }
            )*
            $(
                fn $xname(&mut self $(, $xarg: $xtype)*) -> $xresult {
                    $wrapper::$xname(self $(, $xarg)*)
                }
            )*
        }
    };
}

wrapper! {
    /// A file system that changes some of what another does.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice_base::Error> {
    /// # use std::{path::Path, sync::Arc};
    /// # use pumice_base::{Error, Result};
    /// # use pumice_env::{
    /// #     FileOptions, FileSystem, FileSystemWrapper, MemFs, RandomAccessFile, ReadFileOptions,
    /// #     SequentialFile, WritableFile, WritableFileWrapper,
    /// # };
    /// /// Refuses to write over what is there.
    /// struct Careful(Arc<dyn FileSystem>);
    ///
    /// impl FileSystemWrapper for Careful {
    ///     fn wrapped(&self) -> &dyn FileSystem {
    ///         &*self.0
    ///     }
    ///     // Code that is not the library's.
    ///     fn is_own(&self) -> bool {
    ///         false
    ///     }
    ///     fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
    ///         match self.0.exists(path)? {
    ///             true => Err(Error::invalid_argument(format!("{} is there", path.display()))),
    ///             false => Ok(Box::new(Counted(self.0.create(path, options)?, 0))),
    ///         }
    ///     }
    /// #   fn open_random_with(
    /// #       &self,
    /// #       path: &Path,
    /// #       options: &ReadFileOptions,
    /// #   ) -> Result<Arc<dyn RandomAccessFile>> {
    /// #       self.0.open_random_with(path, options)
    /// #   }
    /// }
    ///
    /// /// Knows how often it was written to.
    /// struct Counted(Box<dyn WritableFile>, u64);
    ///
    /// impl WritableFileWrapper for Counted {
    ///     fn wrapped(&self) -> &dyn WritableFile {
    ///         &*self.0
    ///     }
    ///     fn wrapped_mut(&mut self) -> &mut dyn WritableFile {
    ///         &mut *self.0
    ///     }
    ///     fn append(&mut self, data: &[u8]) -> Result<()> {
    ///         self.1 += 1;
    ///         self.0.append(data)
    ///     }
    /// }
    ///
    /// let fs = Careful(MemFs::default().shared());
    /// let fs: &dyn FileSystem = &fs;
    /// let mut file = fs.create(Path::new("/a"), &FileOptions::default())?;
    /// file.append(b"1")?;
    /// file.close()?;
    /// assert!(fs.create(Path::new("/a"), &FileOptions::default()).is_err());
    /// # Ok(())
    /// # }
    /// ```
    FileSystemWrapper: FileSystem, Send + Sync;
    required {
        fn is_own(&self) -> bool;
    }
    forwarded {
        fn open_random_with(&self, path: &Path, options: &ReadFileOptions)
            -> Result<Arc<dyn RandomAccessFile>>;
        fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>>;
        fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>>;
        fn reopen_append(&self, path: &Path) -> Result<Box<dyn WritableFile>>;
        fn reuse(&self, old: &Path, new: &Path) -> Result<Box<dyn WritableFile>>;
        fn read_file(&self, path: &Path) -> Result<Vec<u8>>;
        fn exists(&self, path: &Path) -> Result<bool>;
        fn file_size(&self, path: &Path) -> Result<u64>;
        fn modified_time(&self, path: &Path) -> Result<u64>;
        fn rename(&self, from: &Path, to: &Path) -> Result<()>;
        fn link(&self, from: &Path, to: &Path) -> Result<()>;
        fn remove(&self, path: &Path) -> Result<()>;
        fn num_file_links(&self, path: &Path) -> Result<u64>;
        fn truncate(&self, path: &Path, bytes: u64) -> Result<()>;
        fn create_dir_all(&self, path: &Path) -> Result<()>;
        fn remove_dir(&self, path: &Path) -> Result<()>;
        fn list(&self, path: &Path) -> Result<Vec<String>>;
        fn sync_dir(&self, path: &Path) -> Result<()>;
        fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
        fn free_space(&self, path: &Path) -> Result<u64>;
        fn device(&self, path: &Path) -> Option<u64>;
    }
    exclusive {}
}

wrapper! {
    /// A file for reads at any position that changes some of what another does.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice_base::Error> {
    /// # use std::{path::Path, sync::Arc};
    /// # use pumice_base::Result;
    /// # use pumice_env::{
    /// #     FileSystem, MemFs, RandomAccessFile, RandomAccessFileWrapper, ReadFileOptions,
    /// #     ReadRequest, SequentialFile, SequentialFileWrapper, write_file,
    /// # };
    /// /// Says what is read.
    /// struct Told<F>(F);
    ///
    /// impl RandomAccessFileWrapper for Told<Arc<dyn RandomAccessFile>> {
    ///     fn wrapped(&self) -> &dyn RandomAccessFile {
    ///         &*self.0
    ///     }
    ///     fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
    ///         println!("{} bytes at {offset}", buf.len());
    ///         self.0.read_at(offset, buf)
    ///     }
    ///     fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
    ///         println!("{} reads", requests.len());
    ///         self.0.read_batch(requests);
    ///     }
    ///     fn needs_little_stack(&self) -> bool {
    ///         false // What `println` needs is not known.
    ///     }
    /// }
    ///
    /// impl SequentialFileWrapper for Told<Box<dyn SequentialFile>> {
    ///     fn wrapped(&self) -> &dyn SequentialFile {
    ///         &*self.0
    ///     }
    ///     fn wrapped_mut(&mut self) -> &mut dyn SequentialFile {
    ///         &mut *self.0
    ///     }
    ///     fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
    ///         println!("{} bytes more", buf.len());
    ///         self.0.read(buf)
    ///     }
    /// }
    ///
    /// # let (fs, path) = (MemFs::default().shared(), Path::new("/a"));
    /// # write_file(&*fs, path, b"text", false)?;
    /// # let mut buf = [0; 4];
    /// let file = Told(fs.open_random_with(path, &ReadFileOptions::default())?);
    /// assert_eq!(RandomAccessFile::read_at(&file, 0, &mut buf)?, 4);
    /// let mut file = Told(fs.open_sequential(path)?);
    /// assert_eq!(SequentialFile::read(&mut file, &mut buf)?, 4);
    /// # Ok(())
    /// # }
    /// ```
    RandomAccessFileWrapper: RandomAccessFile, Send + Sync;
    required {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
        fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> ();
        fn needs_little_stack(&self) -> bool;
    }
    forwarded {
        fn prefetch(&self, offset: u64, bytes: u64) -> ();
        fn prefetches(&self) -> bool;
        fn read_unit(&self) -> usize;
        fn len(&self) -> u64;
        fn path(&self) -> &Path;
    }
    exclusive {}
}

wrapper! {
    /// A file for reading from front to back that changes some of what another does.
    ///
    /// Example: that of [`RandomAccessFileWrapper`].
    SequentialFileWrapper: SequentialFile, Send, exclusive wrapped_mut;
    required {}
    forwarded {
        fn path(&self) -> &Path;
    }
    exclusive {
        fn read(&mut self, buf: &mut [u8]) -> Result<usize>;
        fn skip(&mut self, bytes: u64) -> Result<()>;
    }
}

wrapper! {
    /// A file for writing that changes some of what another does.
    ///
    /// Example: that of [`FileSystemWrapper`].
    WritableFileWrapper: WritableFile, Send, exclusive wrapped_mut;
    required {}
    forwarded {
        fn syncer(&self) -> Result<Arc<dyn FileSyncer>>;
        fn len(&self) -> u64;
        fn path(&self) -> &Path;
    }
    exclusive {
        fn append(&mut self, data: &[u8]) -> Result<()>;
        fn overwrite(&mut self, ahead: u64, data: &[u8], step: u64) -> Result<()>;
        fn flush(&mut self) -> Result<()>;
        fn sync(&mut self) -> Result<()>;
        fn fsync(&mut self) -> Result<()>;
        fn range_sync(&mut self, offset: u64, bytes: u64, wait_for_earlier: bool) -> Result<()>;
        fn preallocate(&mut self, end: u64) -> Result<()>;
        fn truncate(&mut self, bytes: u64) -> Result<()>;
        fn close(&mut self) -> Result<()>;
    }
}
