//! Options of memtables whose effect shows through the database: the filter, successive merges.

mod filter;
mod in_place;
mod merges;

use std::sync::Arc;

use pumice::{MemFs, Options};

/// Options for a fresh database on a file system in memory.
fn on_memory() -> (MemFs, Options) {
    let fs = MemFs::new(7);
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.db.info_log = Some(Arc::new(pumice::stats::NullLogger));
    (fs, options)
}
