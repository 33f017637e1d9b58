//! Which state a read shows.

#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use crate::read::get;
use crate::{
    Db, IngestExternalFileOptions, MemFs, Options, PinnedSlice, ReadOptions, SstFileWriter,
};

use super::point_options;

/// A reader that is interrupted between its two loads, while a file is ingested and a write
/// follows.
#[pumice_test_macros::test]
fn a_view_from_before_an_ingestion_has_no_sequence_number_after_it() {
    let fs = MemFs::new(1);
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    let db = Db::open(&options, "/db").unwrap();
    let (inner, cf) = (db.inner(), Arc::clone(&db.default_column_family().data));
    let reads = ReadOptions::default();

    let view = cf.super_version.load_full();
    let snapshot = db.snapshot();
    assert_eq!(inner.sequence_for(&cf, &view, &reads), Some(0));
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/in.sst").unwrap();
    writer.put(b"a", b"ingested").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&IngestExternalFileOptions::default(), &["/in.sst"]).unwrap();
    db.put_opt(&Default::default(), b"b", b"later").unwrap();

    // The view holds the later write and not the file before it.
    let now = inner.read_sequence(&reads);
    let at = |sequence, key: &[u8]| {
        let found =
            get::get(&cf, &cf.tables(), &view, &point_options(&reads), sequence, key).unwrap();
        found.map(|value: PinnedSlice| value.to_vec())
    };
    assert_eq!((at(now, b"a"), at(now, b"b")), (None, Some(b"later".to_vec())));
    assert_eq!(inner.sequence_for(&cf, &view, &reads), None);
    let (view, sequence) = inner.view(&cf, &reads);
    assert_eq!(sequence, now);
    assert_eq!(inner.sequence_for(&cf, &view, &reads), Some(now));
    let then = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    assert_eq!(db.get_opt(&then, b"a").unwrap().as_deref(), None);
    assert_eq!(db.get_opt(&reads, b"a").unwrap().as_deref(), Some(&b"ingested"[..]));
}

/// The same while a secondary catches up, with tables that the view lacks.
#[pumice_test_macros::test]
fn a_view_from_before_a_catch_up_has_no_sequence_number_after_it() {
    let fs = MemFs::new(1);
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    let primary = Db::open(&options, "/db").unwrap();
    primary.put("a", "1").unwrap();
    let secondary = Db::builder("/db").options(options).secondary("/beside").open().unwrap();
    let (inner, cf) = (secondary.inner(), Arc::clone(&secondary.default_column_family().data));
    let reads = ReadOptions::default();
    let view = cf.super_version.load_full();
    primary.put("b", "2").unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(inner.sequence_for(&cf, &view, &reads), Some(2), "it has the log's memtable");
    primary.flush().unwrap();
    primary.put("c", "3").unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(inner.sequence_for(&cf, &view, &reads), None);
    let view = cf.super_version.load_full();
    assert_eq!(inner.sequence_for(&cf, &view, &reads), Some(3));
    primary.close().unwrap();
}
