//! Keys with timestamps: reads and writes at a time, history, recovery; against a model and against
//! RocksDB.
//!
//! RocksDB works on real files, which some suites look at as it does.
#![allow(clippy::disallowed_methods)]

mod basics;
mod blob_garbage;
mod blobs;
mod crashes;
mod files;
mod history;
mod keys_shown;
mod model;
mod ranges;
mod regressions;
mod repaired;
mod repaired_changes;
mod repaired_forms;
mod several;
mod sides;
mod theirs;
mod transactions;
mod unkept;
mod unkept_copies;
mod unkept_crashes;
mod unkept_rules;
mod write_times;

use std::sync::Arc;

use pumice::options::IndexType;
use pumice::{BYTEWISE_U64_TS, Comparator, Db, FileSystem, FilterPolicy, Options};

use crate::common::{DIR, options};

/// Options of a database whose keys have timestamps that are numbers.
pub fn timed(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options(fs);
    options.cf.comparator = Comparator::builtin(BYTEWISE_U64_TS).unwrap();
    // RocksDB's name: its databases have the same operands.
    options.cf.set_merge_operator_associative("StringAppendOperator", |_, old, operands| {
        let all: Vec<&[u8]> = old.into_iter().chain(operands.iter().copied()).collect();
        Some(all.join(&b","[..]))
    });
    options
}

/// Blocks and partitions of few keys, so that versions of a key lie in several.
pub fn partition(table: &mut pumice::BlockBasedTableOptions) {
    table.block_size = 64;
    (table.index_type, table.partition_filters) = (IndexType::TwoLevel, true);
    (table.metadata_block_size, table.filter_policy) = (64, Some(FilterPolicy::bloom(10.0)));
}

/// The same of a database whose tables lose the timestamps.
pub fn unkept(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = timed(fs);
    options.cf.persist_user_defined_timestamps = false;
    options.db.allow_concurrent_memtable_write = false;
    options
}

/// A new database with such keys, in memory.
pub fn database() -> (Db, Options) {
    let options = timed(&crate::common::memory().1);
    (Db::open(&options, DIR).unwrap(), options)
}

/// What a time sees of a key.
pub fn text(db: &Db, time: u64, key: &str) -> Option<String> {
    let value = db.at(time).get(key).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// The message of an error.
pub fn message<T>(result: pumice::Result<T>) -> String {
    result.err().unwrap().to_string()
}
