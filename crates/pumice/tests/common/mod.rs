//! What the engine's integration tests share: small databases on a file system in memory.
#![allow(clippy::unwrap_used, dead_code)]

pub mod noted;
pub mod probe;
pub mod virtual_time;
pub mod watched;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pumice::{Db, FileSystem, FlushOptions, MemFs, Options, ReadOptions, WriteOptions};
use pumice_port::{thread, time};

/// Where the database is.
pub const DIR: &str = "/db";

/// How long [`eventually`] waits: far longer than any loaded machine needs.
const PATIENCE_MICROS: u64 = 30_000_000;

/// Synced writes.
pub const SYNC: WriteOptions = WriteOptions {
    sync: true,
    disable_wal: false,
    no_slowdown: false,
    rate_limiter_priority: None,
    protection_bytes_per_key: 0,
    low_pri: false,
    ignore_missing_column_families: false,
};

/// The name by which the program finds a test that is in `module_path`, to run it in a child.
pub fn test_name(module_path: &str, test: &str) -> String {
    // The first part is the program.
    let module = module_path.split_once("::").map_or("", |(_, module)| module);
    format!("{module}::{test}")
}

/// Waits for what must happen by itself, as the deletion of files.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = time::now_micros();
    while !holds() {
        assert!(time::now_micros() - start < PATIENCE_MICROS, "never: {what}");
        thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Options for a database on `fs`.
pub fn options(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::clone(fs);
    options.cf.write_buffer_size = 1 << 20;
    options
}

/// A new in-memory file system, and the same as the trait object for options.
pub fn memory() -> (MemFs, Arc<dyn FileSystem>) {
    let fs = MemFs::new(11);
    let shared = fs.shared();
    (fs, shared)
}

pub fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Writes `key(n) -> value` for the range.
pub fn fill(db: &Db, keys: std::ops::Range<usize>, value: &str) {
    for n in keys {
        db.put_opt(&WriteOptions::default(), &key(n), value.as_bytes()).unwrap();
    }
}

pub fn flush(db: &Db) {
    db.flush_opt(&FlushOptions::default()).unwrap();
}

/// Lets the files that are obsolete by now be deleted, or archived, before this returns.
pub fn let_files_go(db: &Db) {
    db.disable_file_deletions();
    db.enable_file_deletions();
}

pub fn get(db: &Db, key: &[u8]) -> Option<Vec<u8>> {
    db.get_opt(&ReadOptions::default(), key).unwrap().map(|value| value.to_vec())
}

/// Everything in the default column family.
pub fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    let mut all = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        all.push((iter.key().unwrap().to_vec(), iter.value().unwrap().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    all
}

/// Path of a database on a disk, destroyed on drop.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// A unique path, at which there is nothing yet.
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Scratch(std::env::temp_dir().join(format!("pumice-{}-{n}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(Db::destroy(&Options::default(), &self.0)); // A leftover does no harm.
    }
}

/// The names in a directory, sorted.
pub fn names(fs: &Arc<dyn FileSystem>, dir: &str) -> Vec<String> {
    let mut names = fs.list(dir.as_ref()).unwrap();
    names.sort();
    names
}
