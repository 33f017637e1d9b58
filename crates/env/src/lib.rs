//! Files as the engine sees them: one file-system trait, its backends, and what is built on top.
//!
//! Backends: [`PosixFs`] for real disks, [`MemFs`] with crashes and faults for tests. On top: file
//! names, the buffered writer, readahead, the rate limiter, the device scheduler, and the manager
//! of table files with its paced deletion. Also here: what a task's calls did ([`perf`]). Every
//! error carries RocksDB's text for the operation and the path.
//!
//! Thread safety: file systems are shared freely; a file being written has one owner at a time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod activity;
pub mod buffered_writer;
pub mod delete_scheduler;
pub mod device_scheduler;
mod direct;
pub mod file_system;
pub mod filename;
pub mod mem;
mod observed_file;
mod operation;
pub mod perf;
pub mod posix;
mod posix_file;
pub mod rate_limiter;
pub mod readahead;
pub mod sst_file_manager;
pub mod temperature;
mod tracked_files;
pub mod wrappers;

pub use activity::IoActivity;
pub use buffered_writer::{BufferedWriter, OldContent, WriterOptions};
pub use delete_scheduler::{DeleteScheduler, Deletion, DeletionEvents, TrashBucket};
pub use device_scheduler::{DeviceMember, DeviceScheduler, IoClass, JobIo, JobProgress};
pub use file_system::{
    FileLock, FileOptions, FileSyncer, FileSystem, RandomAccessFile, ReadFileOptions, ReadRequest,
    SequentialFile, WritableFile, create_dir_durably, parent_of, read_one_by_one, write_file,
    write_file_with,
};
pub use filename::FileType;
pub use mem::MemFs;
pub use observed_file::{FileTimes, ObservedFile};
pub use posix::PosixFs;
pub use rate_limiter::{
    IoKind, IoPriority, RateLimiter, RateLimiterEvents, RateLimiterMode, RateLimiterOptions,
};
pub use readahead::ReadaheadBuffer;
pub use sst_file_manager::{SstFileManager, SstFileManagerOptions};
pub use temperature::Temperature;
pub use wrappers::{
    FileSystemWrapper, RandomAccessFileWrapper, SequentialFileWrapper, WritableFileWrapper,
};

#[cfg(test)]
mod tests;
