//! The list of the files of a state: a copy of them is a database.

use std::path::Path;

use crate::common::{DIR, contents, fill, flush, memory, options};
use pumice::options::FileChecksumGenFactory;
use pumice::{Db, FileOptions, LiveFilesStorageInfoOptions, StorageFileType};

#[pumice_test_macros::test]
fn a_copy_of_the_listed_files_is_a_database() {
    for wal_size_for_flush in [0, u64::MAX] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.db.file_checksum_gen_factory = FileChecksumGenFactory::Crc32c;
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..100, "table");
        flush(&db);
        fill(&db, 100..110, "log");
        db.disable_file_deletions();
        let how = LiveFilesStorageInfoOptions { include_checksum_info: true, wal_size_for_flush };
        let files = db.live_files_storage_info(&how).unwrap();
        let wanted = contents(&db);
        // What is written later is not in the copy.
        fill(&db, 110..120, "later");
        fs.create_dir_all(Path::new("/copy")).unwrap();
        for file in &files {
            let bytes = match file.replacement_contents.is_empty() {
                true => {
                    let source = fs.open_random(&file.directory.join(&file.relative_filename));
                    let mut bytes = vec![0; usize::try_from(file.size).unwrap()];
                    assert_eq!(source.unwrap().read_at(0, &mut bytes).unwrap(), bytes.len());
                    bytes
                }
                false => file.replacement_contents.clone(),
            };
            let to = Path::new("/copy").join(&file.relative_filename);
            let mut copy = fs.create(&to, &FileOptions::default()).unwrap();
            copy.append(&bytes).unwrap();
            copy.close().unwrap();
        }
        db.enable_file_deletions();
        let copy = Db::open(&options, "/copy").unwrap();
        assert_eq!(contents(&copy), wanted);
        let tables: Vec<_> =
            files.iter().filter(|f| f.file_type == StorageFileType::Table).collect();
        assert_eq!(tables.len(), if wal_size_for_flush == 0 { 2 } else { 1 });
        assert!(tables.iter().all(|f| f.file_checksum_func_name == "FileChecksumCrc32c"));
        assert!(tables.iter().all(|f| f.file_checksum.len() == 4 && !f.trim_to_size));
        let manifest = files.iter().find(|f| f.file_type == StorageFileType::Descriptor).unwrap();
        assert!(manifest.trim_to_size && manifest.file_checksum_func_name == "Unknown");
    }
}
