//! Checksums of whole files that come with them.

use pumice::{Db, ErrorKind, IngestExternalFileArg, IngestExternalFileOptions, Options};

use super::support::{DIR, assert_no_litter, files, fresh, get, table_of};

const FUNCTION: &str = "FileChecksumCrc32c";

fn checksum(options: &Options, path: &std::path::Path) -> Vec<u8> {
    let file = options.db.file_system.open_random(path).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    pumice_base::checksum::crc32c(&bytes).to_be_bytes().to_vec()
}

fn arg(
    db: &Db,
    path: &std::path::Path,
    given: (&[u8], &str),
    how: &IngestExternalFileOptions,
) -> IngestExternalFileArg {
    let mut arg =
        IngestExternalFileArg::new(db.default_column_family(), vec![path.to_path_buf()], how);
    arg.files_checksums = vec![given.0.to_vec()];
    arg.files_checksum_func_names = vec![given.1.to_string()];
    arg
}

#[pumice_test_macros::test]
fn a_right_one_is_kept() {
    let (_fs, options, db) = fresh();
    let path = table_of(&options, "/in/1.sst", &["a", "b"], "1");
    let sum = checksum(&options, &path);
    for verify_checksums_readahead_size in [0, 7] {
        let how =
            IngestExternalFileOptions { verify_checksums_readahead_size, ..Default::default() };
        db.ingest_external_files(&[arg(&db, &path, (&sum, FUNCTION), &how)]).unwrap();
    }
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(files(&db).len(), 2);
    for file in files(&db) {
        assert_eq!((&file.file_checksum, &file.file_checksum_func_name[..]), (&sum, FUNCTION));
    }
    // The file is changed, so its checksum is dropped.
    let how = IngestExternalFileOptions { write_global_seqno: true, ..Default::default() };
    db.ingest_external_files(&[arg(&db, &path, (&sum, FUNCTION), &how)]).unwrap();
    let file = files(&db).pop().unwrap();
    assert_eq!((file.file_checksum.len(), file.file_checksum_func_name.len()), (0, 0));
    assert_eq!(get(&db, b"a").as_deref(), Some(&b"1"[..]));
}

#[pumice_test_macros::test]
fn a_wrong_one_is_found() {
    let (_fs, options, db) = fresh();
    let path = table_of(&options, "/in/1.sst", &["a", "b"], "1");
    let how = IngestExternalFileOptions::default();
    let refused = |arg: IngestExternalFileArg, kind, text: &str| {
        let error = db.ingest_external_files(&[arg]).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(text), "{error}");
        assert_no_litter(&options.db.file_system, &db);
        assert!(files(&db).is_empty());
    };
    let text = "Checksum verification mismatch for ingestion file /in/1.sst using function \
                FileChecksumCrc32c. Expected: 01020304 Computed: ";
    refused(arg(&db, &path, (&[1, 2, 3, 4], FUNCTION), &how), ErrorKind::Corruption, text);
    let invalid = ErrorKind::InvalidArgument;
    let text = "Checksum function name mine for file /in/1.sst not recognized";
    refused(arg(&db, &path, (&[1, 2, 3, 4], "mine"), &how), invalid, text);
    let text = "does not match with the number of ingested sst files";
    let mut few = arg(&db, &path, (&[1, 2, 3, 4], FUNCTION), &how);
    few.files_checksum_func_names.clear();
    refused(few.clone(), invalid, text);
    few.files_checksums.clear();
    few.files_checksum_func_names = vec![FUNCTION.to_string(), FUNCTION.to_string()];
    refused(few, invalid, text);
    // Without verification the given checksum is trusted.
    let believed = IngestExternalFileOptions { verify_file_checksum: false, ..how };
    db.ingest_external_files(&[arg(&db, &path, (&[1, 2, 3, 4], FUNCTION), &believed)]).unwrap();
    assert_eq!(files(&db).pop().unwrap().file_checksum, [1, 2, 3, 4]);
}
