//! Tables of a database: the flat list, and by level.

use pumice::{Error, Result};
use pumice_binding::database::Database;
use pumice_binding::reports::{FamilyMetadata, FileMetadata, LevelMetadata, MetadataRange};
use pumice_binding::store::Fields;

use crate::ffi::from::{Block, Out, Taken, Text};
use crate::ffi::generated::rocksdb_column_family_metadata_options_t;
use crate::ffi::into::{Lent, New};
use crate::ffi::macros::c_api;
use crate::ffi::types::{Family, LiveFiles, NewLiveFile, with_zero};

fn file(files: &LiveFiles, index: i32) -> Option<&NewLiveFile> {
    files.0.get(usize::try_from(index).ok()?)
}

fn number(files: &LiveFiles, index: i32, name: &str) -> u64 {
    file(files, index).map_or(0, |file| file.store().bits(name))
}

fn text(files: &LiveFiles, index: i32, get: impl FnOnce(&NewLiveFile) -> &[u8]) -> Lent {
    file(files, index).map_or(Lent::nothing(), |file| Lent::of(get(file)))
}

fn key(
    files: &LiveFiles,
    index: i32,
    mut length: Out<'_, usize>,
    get: impl FnOnce(&NewLiveFile) -> &[u8],
) -> Lent {
    let key = file(files, index).map(get);
    length.set(key.map_or(0, <[u8]>::len));
    key.map_or(Lent::nothing(), Lent::of)
}

fn metadata(
    db: &Database,
    cf: &pumice::ColumnFamily,
    options: Option<&rocksdb_column_family_metadata_options_t>,
) -> Result<FamilyMetadata> {
    let engine = db.db().column_family_options(cf)?;
    let range = options.map_or_else(MetadataRange::default, |options| {
        let key = |name| Some(options.store().text(name).to_vec()).filter(|key| !key.is_empty());
        MetadataRange {
            level: usize::try_from(options.store().int("level")).ok(),
            start: key("start_key"),
            end: key("end_key"),
        }
    });
    let levels = usize::try_from(engine.num_levels).unwrap_or(0);
    let files = db.db().live_files_metadata();
    Ok(FamilyMetadata::new(cf.name(), levels, &files, &range, &engine.comparator))
}

/// RocksDB's functions give an object in any case.
fn metadata_or_nothing(
    db: &Database,
    cf: &pumice::ColumnFamily,
    options: Option<&rocksdb_column_family_metadata_options_t>,
) -> New<FamilyMetadata> {
    New(metadata(db, cf, options).unwrap_or_default())
}

c_api! {
    fn rocksdb_livefiles(db: &Database) -> New<LiveFiles> {
        let files = db.db().live_files_metadata();
        New(LiveFiles(files.iter().map(NewLiveFile::new).collect()))
    }

    fn rocksdb_livefiles_count(files: &LiveFiles) -> i32 {
        i32::try_from(files.0.len()).unwrap_or(i32::MAX)
    }

    fn rocksdb_livefiles_column_family_name(files: &LiveFiles, index: i32) -> Lent {
        text(files, index, |file| &file.column_family_name)
    }

    fn rocksdb_livefiles_name(files: &LiveFiles, index: i32) -> Lent {
        text(files, index, |file| &file.name)
    }

    fn rocksdb_livefiles_directory(files: &LiveFiles, index: i32) -> Lent {
        text(files, index, |file| &file.directory)
    }

    fn rocksdb_livefiles_level(files: &LiveFiles, index: i32) -> i32 {
        i32::try_from(number(files, index, "level")).unwrap_or(0)
    }

    fn rocksdb_livefiles_size(files: &LiveFiles, index: i32) -> usize {
        usize::try_from(number(files, index, "size")).unwrap_or(usize::MAX)
    }

    fn rocksdb_livefiles_smallestkey(
        files: &LiveFiles, index: i32, length: Out<'_, usize>
    ) -> Lent {
        key(files, index, length, |file| &file.smallest_key)
    }

    fn rocksdb_livefiles_largestkey(files: &LiveFiles, index: i32, length: Out<'_, usize>) -> Lent {
        key(files, index, length, |file| &file.largest_key)
    }

    fn rocksdb_livefiles_smallest_seqno(files: &LiveFiles, index: i32) -> u64 {
        number(files, index, "smallest_seqno")
    }

    fn rocksdb_livefiles_largest_seqno(files: &LiveFiles, index: i32) -> u64 {
        number(files, index, "largest_seqno")
    }

    fn rocksdb_livefiles_entries(files: &LiveFiles, index: i32) -> u64 {
        number(files, index, "num_entries")
    }

    fn rocksdb_livefiles_deletions(files: &LiveFiles, index: i32) -> u64 {
        number(files, index, "num_deletions")
    }

    fn rocksdb_livefile_set_column_family_name(file: &mut NewLiveFile, name: Text<'_>) {
        file.column_family_name = with_zero(name.bytes());
    }

    fn rocksdb_livefile_set_name(file: &mut NewLiveFile, name: Text<'_>) {
        file.name = with_zero(name.bytes());
    }

    fn rocksdb_livefile_set_directory(file: &mut NewLiveFile, directory: Text<'_>) {
        file.directory = with_zero(directory.bytes());
    }

    fn rocksdb_livefile_set_smallest_key(file: &mut NewLiveFile, key: Bytes) {
        file.smallest_key = key.to_vec();
    }

    fn rocksdb_livefile_set_largest_key(file: &mut NewLiveFile, key: Bytes) {
        file.largest_key = key.to_vec();
    }

    fn rocksdb_livefiles_add(files: &mut LiveFiles, file: Taken<NewLiveFile>) {
        files.0.extend(file.map(|file| *file));
    }

    fn rocksdb_get_column_family_metadata(db: &Database) -> New<FamilyMetadata> {
        metadata_or_nothing(db, db.default_family(), None)
    }

    fn rocksdb_get_column_family_metadata_cf(db: &Database, cf: &Family) -> New<FamilyMetadata> {
        metadata_or_nothing(db, &cf.0, None)
    }

    fn rocksdb_get_column_family_metadata_with_options(
        db: &Database, options: &rocksdb_column_family_metadata_options_t
    ) -> New<FamilyMetadata> {
        metadata_or_nothing(db, db.default_family(), Some(options))
    }

    fn rocksdb_get_column_family_metadata_cf_with_options(
        db: &Database, cf: &Family, options: &rocksdb_column_family_metadata_options_t
    ) -> New<FamilyMetadata> {
        metadata_or_nothing(db, &cf.0, Some(options))
    }

    fn rocksdb_column_family_metadata_get_level_metadata(
        metadata: &FamilyMetadata, index: usize
    ) -> Option<New<LevelMetadata>> {
        metadata.levels.get(index).cloned().map(New)
    }

    fn rocksdb_level_metadata_get_sst_file_metadata(
        level: &LevelMetadata, index: usize
    ) -> Option<New<FileMetadata>> {
        level.files.get(index).cloned().map(New)
    }

    fn rocksdb_delete_file(_db: &Database, _name: Text<'_>) {
        // Removed from RocksDB 10; programs that still link it delete by range.
        let text = Error::not_supported("rocksdb_delete_file");
        crate::ffi::call::say(&text.to_string());
    }

    fn rocksdb_free(block: Block) {
        block.free();
    }
}
