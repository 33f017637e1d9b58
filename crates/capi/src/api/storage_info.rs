//! The files of a database, for programs that copy them.

use pumice::LiveFilesStorageInfoOptions;
use pumice_binding::database::Database;
use pumice_binding::store::Fields;

use crate::ffi::from::Out;
use crate::ffi::generated::rocksdb_livefiles_storage_info_options_t;
use crate::ffi::into::{Lent, New};
use crate::ffi::macros::c_api;
use crate::ffi::types::{StorageFile, StorageInfo};

fn text(files: &StorageInfo, index: usize, get: impl FnOnce(&StorageFile) -> &[u8]) -> Lent {
    files.0.get(index).map_or(Lent::nothing(), |file| Lent::of(get(file)))
}

fn number(files: &StorageInfo, index: usize, get: impl FnOnce(&StorageFile) -> u64) -> u64 {
    files.0.get(index).map_or(0, get)
}

c_api! {
    fn rocksdb_get_livefiles_storage_info(
        db: &Database, options: &rocksdb_livefiles_storage_info_options_t, errptr: Fail
    ) -> New<StorageInfo> {
        let store = options.store();
        // An atomic flush is one of all column families, as every flush for a copy is here.
        let options = LiveFilesStorageInfoOptions {
            include_checksum_info: store.flag("include_checksum_info"),
            wal_size_for_flush: store.bits("wal_size_for_flush"),
        };
        let files = db.db().live_files_storage_info(&options)?;
        Ok(New(StorageInfo(files.into_iter().map(StorageFile::new).collect())))
    }

    fn rocksdb_livefiles_storage_info_count(files: &StorageInfo) -> usize {
        files.0.len()
    }

    fn rocksdb_livefiles_storage_info_relative_filename(
        files: &StorageInfo, index: usize
    ) -> Lent {
        text(files, index, |file| &file.name)
    }

    fn rocksdb_livefiles_storage_info_directory(files: &StorageInfo, index: usize) -> Lent {
        text(files, index, |file| &file.directory)
    }

    fn rocksdb_livefiles_storage_info_file_number(files: &StorageInfo, index: usize) -> u64 {
        number(files, index, |file| file.info.file_number)
    }

    fn rocksdb_livefiles_storage_info_file_type(files: &StorageInfo, index: usize) -> i32 {
        files.0.get(index).map_or(0, |file| file.info.file_type as i32)
    }

    fn rocksdb_livefiles_storage_info_size(files: &StorageInfo, index: usize) -> u64 {
        number(files, index, |file| file.info.size)
    }

    fn rocksdb_livefiles_storage_info_temperature(files: &StorageInfo, index: usize) -> i32 {
        files.0.get(index).map_or(0, |file| i32::from(file.info.temperature))
    }

    fn rocksdb_livefiles_storage_info_file_checksum(files: &StorageInfo, index: usize) -> Lent {
        text(files, index, |file| &file.checksum)
    }

    fn rocksdb_livefiles_storage_info_file_checksum_func_name(
        files: &StorageInfo, index: usize
    ) -> Lent {
        text(files, index, |file| &file.checksum_function)
    }

    fn rocksdb_livefiles_storage_info_replacement_contents(
        files: &StorageInfo, index: usize, length: Out<'_, usize>
    ) -> Lent {
        let mut length = length;
        let bytes = |file: &StorageFile| file.info.replacement_contents.len();
        length.set(files.0.get(index).map_or(0, bytes));
        text(files, index, |file| &file.replacement)
    }

    fn rocksdb_livefiles_storage_info_trim_to_size(files: &StorageInfo, index: usize) -> bool {
        files.0.get(index).is_some_and(|file| file.info.trim_to_size)
    }
}
