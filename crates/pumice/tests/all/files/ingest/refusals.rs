//! What is refused, with RocksDB's words, and without a trace in the directory.

use pumice::{
    ColumnFamilyDescriptor, Comparator, Db, ErrorKind, IngestExternalFileArg,
    IngestExternalFileOptions, Options, SstFileWriter, WriteOptions,
};

use super::support::{DIR, assert_no_litter, contents, fresh, ingest, put, table_of, write_table};

fn write_text(options: &Options, path: &str, text: &str) {
    let fs = &*options.db.file_system;
    pumice_env::write_file(fs, path.as_ref(), text.as_bytes(), false).unwrap();
}

fn assert_refused(
    options: &Options,
    db: &Db,
    result: pumice::Result<()>,
    kind: ErrorKind,
    text: &str,
) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(text), "{error}");
    assert_no_litter(&options.db.file_system, db);
}

#[pumice_test_macros::test]
fn wrong_calls() {
    let (_fs, options, db) = fresh();
    let path = table_of(&options, "/in/1.sst", &["b"], "1");
    let cf = db.default_column_family().clone();
    let refused = |result, kind, text: &str| assert_refused(&options, &db, result, kind, text);
    let invalid = ErrorKind::InvalidArgument;
    let how = IngestExternalFileOptions::default;
    refused(db.ingest_external_files(&[]), invalid, "ingestion arg list is empty");
    refused(ingest(&db, &[]), invalid, "external_files[0] is empty");
    let arg = IngestExternalFileArg::new(&cf, vec![path.clone()], &how());
    let twice = db.ingest_external_files(&[arg.clone(), arg]);
    refused(twice, invalid, "ingestion args have duplicate column families");
    let both = IngestExternalFileOptions { move_files: true, link_files: true, ..how() };
    let result = db.ingest_external_file(&both, &[&path]);
    refused(result, invalid, "`move_files` and `link_files` can not both be true.");
    let behind = IngestExternalFileOptions { ingest_behind: true, ..how() };
    let text = "Can't ingest_behind file in ColumnFamily default with cf_allow_ingest_behind=false";
    refused(db.ingest_external_file(&behind, &[&path]), invalid, text);
    refused(ingest(&db, &[&"/in/none.sst".into()]), ErrorKind::IoError, "/in/none.sst");

    db.put_opt(&WriteOptions::default(), b"b", b"memory").unwrap();
    let no_flush = IngestExternalFileOptions { allow_blocking_flush: false, ..how() };
    let result = db.ingest_external_file(&no_flush, &[&path]);
    refused(result, invalid, "External file requires flush");
    let no_seqno = IngestExternalFileOptions { allow_global_seqno: false, ..how() };
    let result = db.ingest_external_file(&no_seqno, &[&path]);
    refused(result, invalid, "Global seqno is required, but disabled");
    let again = table_of(&options, "/in/2.sst", &["b", "c"], "2");
    let result = db.ingest_external_file(&no_seqno, &[&path, &again]);
    let text =
        "Global seqno is required, but disabled (because external files key range overlaps).";
    refused(result, invalid, text);
    let beside = table_of(&options, "/in/3.sst", &["x"], "2");
    db.ingest_external_file(&no_seqno, &[&beside]).unwrap();
    assert_eq!(contents(&db).len(), 2);
}

#[pumice_test_macros::test]
fn wrong_files() {
    let (fs, mut options, db) = fresh();
    let refused = |result, kind, text: &str| assert_refused(&options, &db, result, kind, text);
    // A table of a database is not an external file.
    db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
    super::support::flush(&db);
    let own = super::support::files(&db).pop().unwrap();
    let own = own.directory.join(own.name.trim_start_matches('/'));
    refused(ingest(&db, &[&own]), ErrorKind::Corruption, "External file version not found");
    write_text(&options, "/in/text.sst", &"no table ".repeat(30));
    refused(ingest(&db, &[&"/in/text.sst".into()]), ErrorKind::Corruption, "/in/text.sst");
    write_text(&options, "/in/short.sst", "x");
    refused(ingest(&db, &[&"/in/short.sst".into()]), ErrorKind::Corruption, "too short");
    // Damage in a data block is only found by verification.
    let path = table_of(&options, "/in/1.sst", &["a", "b"], &"v".repeat(3000));
    fs.damage(&path, |bytes| bytes[1000] ^= 1).unwrap();
    let check =
        IngestExternalFileOptions { verify_checksums_before_ingest: true, ..Default::default() };
    let result = db.ingest_external_file(&check, &[&path]);
    refused(result, ErrorKind::Corruption, "checksum");
    // Another order.
    let order = options.cf.comparator.clone();
    options.cf.comparator = Comparator::ReverseBytewise;
    let path = table_of(&options, "/in/reverse.sst", &["b", "a"], "v");
    options.cf.comparator = order;
    let text = "does not match existing comparator rocksdb.ReverseBytewiseComparator";
    assert_refused(&options, &db, ingest(&db, &[&path]), ErrorKind::InvalidArgument, text);
    let named = ingest(&db, &[&path]).unwrap_err();
    assert!(named.message().starts_with("/in/reverse.sst: "), "{named}");
    assert_eq!(contents(&db).len(), 1);
}

#[pumice_test_macros::test]
fn files_of_another_column_family() {
    let (_fs, options, db) = fresh();
    let other = db.create_column_family(&options.cf, "other").unwrap();
    let mut writer = SstFileWriter::for_column_family(&options, &other).unwrap();
    writer.open("/in/1.sst").unwrap();
    writer.put(b"k", b"v").unwrap();
    writer.finish().unwrap();
    let path = "/in/1.sst".into();
    let text = "External file column family id don't match";
    assert_refused(&options, &db, ingest(&db, &[&path]), ErrorKind::InvalidArgument, text);
    let how = IngestExternalFileOptions::default();
    db.ingest_external_file_cf(&how, &other, &[&path]).unwrap();
    db.drop_column_family(&other).unwrap();
    let result = db.ingest_external_file_cf(&how, &other, &[&path]);
    let text = "cannot ingest an external file into a dropped CF";
    assert_eq!(result.unwrap_err().message(), text);
}

#[pumice_test_macros::test]
fn not_when_reading_only_or_closed() {
    let (_fs, options, db) = fresh();
    let path = write_table(&options, "/in/1.sst", &[put("k", "v")]).unwrap();
    db.close().unwrap();
    assert_eq!(ingest(&db, &[&path]).unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    let all = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (db, _) = Db::open_read_only(&options.db, DIR, &all, false).unwrap();
    let error = ingest(&db, &[&path]).unwrap_err();
    assert_eq!(error.message(), "Not supported operation in read only mode.");
    assert_eq!(contents(&db).len(), 0);
}
