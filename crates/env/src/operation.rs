//! The operation names in error messages, shared by all backends.
//!
//! The names are RocksDB's, letter case included: users and scripts search logs for them.

use std::path::Path;

pub(crate) const OPEN_RANDOM: &str = "While open a file for random read";
pub(crate) const OPEN_SEQUENTIAL: &str = "While opening a file for sequentially reading";
pub(crate) const CREATE: &str = "While open a file for appending";
pub(crate) const REOPEN: &str = "While reopen file for write";
pub(crate) const ACCESS: &str = "While accessing file";
pub(crate) const FILE_SIZE: &str = "while stat a file for size";
pub(crate) const MODIFIED_TIME: &str = "while stat a file for modification time";
pub(crate) const NUM_LINKS: &str = "while stat a file for num file links";
pub(crate) const REMOVE: &str = "while unlink() file";
pub(crate) const MAKE_DIR: &str = "While mkdir if missing";
pub(crate) const REMOVE_DIR: &str = "file rmdir";
pub(crate) const LIST: &str = "While opendir";
pub(crate) const OPEN_LOCK: &str = "while open a file for lock";
pub(crate) const LOCK: &str = "While lock file";
pub(crate) const FREE_SPACE: &str = "While doing statvfs";
pub(crate) const PREAD: &str = "While pread";
pub(crate) const READ_SEQUENTIAL: &str = "While reading file sequentially";
pub(crate) const APPEND: &str = "While appending to file";
pub(crate) const SYNC: &str = "While fdatasync";
pub(crate) const FSYNC: &str = "While fsync";
pub(crate) const RANGE_SYNC: &str = "While sync_file_range";
pub(crate) const ALLOCATE: &str = "While fallocate";
pub(crate) const CLOSE: &str = "While closing file after writing";

pub(crate) fn pread(offset: u64, bytes: usize) -> String {
    format!("{PREAD} offset {offset} len {bytes}")
}
pub(crate) fn truncate(bytes: u64) -> String {
    format!("While ftruncate file to size {bytes}")
}
pub(crate) fn rename(to: &Path) -> String {
    format!("While renaming a file to {}", to.display())
}
pub(crate) fn recycle(to: &Path) -> String {
    format!("while rename file to {}", to.display())
}
pub(crate) fn link(to: &Path) -> String {
    format!("while link file to {}", to.display())
}
pub(crate) fn lock_held_here(since_seconds: u64, thread: u64) -> String {
    format!("lock hold by current process, acquire time {since_seconds} acquiring thread {thread}")
}
