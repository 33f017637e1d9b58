//! The log of a database: its batches and its files.

use pumice_binding::batch::Batch;
use pumice_binding::database::Database;
use pumice_binding::log_cursor::LogCursor;
use pumice_binding::reports;
use pumice_binding::store::Plain;

use crate::ffi::from::{Out, Unused};
use crate::ffi::generated::{rocksdb_wal_file_t, rocksdb_wal_readoptions_t};
use crate::ffi::into::{New, Part};
use crate::ffi::macros::c_api;
use crate::ffi::types::WalFiles;

c_api! {
    fn rocksdb_get_updates_since(
        db: &Database, sequence: u64, _options: Unused<rocksdb_wal_readoptions_t>, errptr: Fail
    ) -> New<LogCursor> {
        db.updates_since(sequence).map(New)
    }

    fn rocksdb_wal_iter_next(iterator: &mut LogCursor) {
        iterator.next();
    }

    fn rocksdb_wal_iter_valid(iterator: &LogCursor) -> bool {
        iterator.valid()
    }

    fn rocksdb_wal_iter_status(iterator: &LogCursor, errptr: Fail) {
        iterator.status()
    }

    fn rocksdb_wal_iter_get_batch(
        iterator: &LogCursor, sequence: Out<'_, u64>
    ) -> Option<New<Batch>> {
        let (first, updates) = iterator.batch()?;
        let mut sequence = sequence;
        sequence.set(first);
        let mut batch = Batch::default();
        batch.updates = updates.clone();
        Some(New(batch))
    }

    fn rocksdb_get_sorted_wal_files(db: &Database, errptr: Fail) -> New<WalFiles> {
        let files = db.db().wal_files()?;
        Ok(New(WalFiles(files.iter().map(|file| Plain(reports::wal_file(file))).collect())))
    }

    fn rocksdb_get_current_wal_file(db: &Database, errptr: Fail) -> New<rocksdb_wal_file_t> {
        Ok(New(Plain(reports::wal_file(&db.db().current_wal_file()?))))
    }

    fn rocksdb_wal_files_count(files: &WalFiles) -> usize {
        files.0.len()
    }

    fn rocksdb_wal_files_get_wal_file(files: &WalFiles, index: usize) -> Part<rocksdb_wal_file_t> {
        Part::of(files.0.get(index))
    }
}
