//! The engines of the testkit's interface, and folders for their databases.

pub use pumice_tests::stores::{Settings, family_name, pumice, rocksdb};
use tempfile::TempDir;

/// A folder in memory that is deleted with its handle.
pub fn temp_folder() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("pumice-test-").tempdir_in(parent).unwrap()
}
