//! Exports and imports of column families: files keep their levels and sequence numbers, and a
//! failure leaves nothing.

use std::path::Path;

use crate::common::{DIR, memory, options};
use pumice::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind,
    ExportImportFilesMetadata, ImportColumnFamilyOptions, MemFs, Options, ReadOptions,
    SstFileWriter,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};

const EXPORT: &str = "/export";
const OTHER: &str = "/other";

fn quiet(fs: &std::sync::Arc<dyn pumice::FileSystem>) -> Options {
    let mut options = options(fs);
    options.cf.disable_auto_compactions = true;
    options
}

fn entries(db: &Db, cf: &ColumnFamily) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = db.cursor_cf_opt(&ReadOptions::default(), cf).unwrap();
    let mut found = Vec::new();
    cursor.seek_to_first();
    while cursor.valid() {
        found.push((cursor.key().unwrap().to_vec(), cursor.value().unwrap().to_vec()));
        cursor.next();
    }
    cursor.status().unwrap();
    found
}

/// A family with entries at the bottom, two tables of level 0, a range deletion, and an ingested
/// table whose sequence number only the MANIFEST has.
fn family(db: &Db, options: &Options) -> ColumnFamily {
    let cf = db.create_column_family(&options.cf, "from").unwrap();
    for n in 0..100 {
        db.put_cf(&cf, format!("k{n:03}"), "bottom").unwrap();
    }
    db.compact_range_cf(&CompactRangeOptions::default(), &cf, None, None).unwrap();
    db.delete_range_cf(&cf, "k010", "k020").unwrap();
    db.put_cf(&cf, "k001", "newer").unwrap();
    db.flush_cf(&cf).unwrap();
    let mut writer = SstFileWriter::new(options).unwrap();
    writer.open("/outside.sst").unwrap();
    writer.put("k001", "ingested").unwrap();
    writer.put("k015", "ingested").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file_cf(&Default::default(), &cf, &["/outside.sst"]).unwrap();
    db.put_cf(&cf, "k002", "memtable").unwrap();
    cf
}

fn import(
    db: &Db,
    options: &Options,
    exported: &ExportImportFilesMetadata,
    move_files: bool,
) -> pumice::Result<ColumnFamily> {
    let how = ImportColumnFamilyOptions { move_files };
    db.create_column_family_with_import(&options.cf, "to", &how, &[exported])
}

fn place(db: &Db, name: &str) -> Vec<(usize, u64, u64, u64)> {
    let files = db.live_files_metadata().into_iter().filter(|f| f.column_family_name == name);
    files.map(|f| (f.level, f.smallest_seq, f.largest_seq, f.epoch_number)).collect()
}

#[pumice_test_macros::test]
fn an_imported_family_is_the_exported_one() {
    for move_files in [false, true] {
        let (_, fs) = memory();
        let options = quiet(&fs);
        let db = Db::open(&options, DIR).unwrap();
        let cf = family(&db, &options);
        let wanted = entries(&db, &cf);
        let exported = db.export_column_family(&cf, EXPORT).unwrap();
        assert_eq!(exported.db_comparator_name, "leveldb.BytewiseComparator");
        let other = Db::open(&options, OTHER).unwrap();
        let copy = import(&other, &options, &exported, move_files).unwrap();
        assert_eq!(entries(&other, &copy), wanted);
        assert_eq!(place(&other, "to"), place(&db, "from"));
        assert_eq!(other.latest_sequence_number(), db.latest_sequence_number());
        // What is written later is newer than all of it, also after a compaction and an open.
        other.put_cf(&copy, "k001", "mine").unwrap();
        other.compact_range_cf(&CompactRangeOptions::default(), &copy, None, None).unwrap();
        assert_eq!(other.get_cf(&copy, "k001").unwrap().as_deref(), Some(&b"mine"[..]));
        other.verify_checksum().unwrap();
        drop(copy);
        other.close().unwrap();
        let families = ["default", "to"]
            .map(|name| pumice::ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let (other, families) = Db::open_cf(&options.db, OTHER, &families).unwrap();
        assert_eq!(entries(&other, &families[1]).len(), wanted.len());
        let left = exported.files.iter().filter(|file| {
            fs.exists(&Path::new(EXPORT).join(file.name.trim_start_matches('/'))).unwrap()
        });
        assert_eq!(left.count(), if move_files { 0 } else { exported.files.len() });
        // The source has its own names of the files.
        assert_eq!(entries(&db, &cf), wanted);
    }
}

/// Bounds and epochs are found if a description by hand has none.
#[pumice_test_macros::test]
fn a_description_by_hand_is_enough() {
    let (_, fs) = memory();
    let options = quiet(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let cf = family(&db, &options);
    let wanted = entries(&db, &cf);
    let mut exported = db.export_column_family(&cf, EXPORT).unwrap();
    for file in &mut exported.files {
        (file.smallest, file.largest, file.epoch_number) = (Vec::new(), Vec::new(), 0);
    }
    exported.files.reverse();
    let other = Db::open(&options, OTHER).unwrap();
    let copy = import(&other, &options, &exported, false).unwrap();
    assert_eq!(entries(&other, &copy), wanted);
    other.flush_cf(&copy).unwrap();
    other.compact_range_cf(&CompactRangeOptions::default(), &copy, None, None).unwrap();
    assert_eq!(entries(&other, &copy), wanted);
}

/// Several exports with ranges apart become one family; with overlapping ones none.
#[pumice_test_macros::test]
fn several_exports_are_joined() {
    let (_, fs) = memory();
    let options = quiet(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let part = |name: &str, keys: [&str; 2]| {
        let cf = db.create_column_family(&options.cf, name).unwrap();
        keys.iter().for_each(|key| db.put_cf(&cf, key, name).unwrap());
        db.export_column_family(&cf, format!("/export-{name}")).unwrap()
    };
    let (one, two, three) = (part("1", ["a", "c"]), part("2", ["d", "f"]), part("3", ["b", "e"]));
    let how = ImportColumnFamilyOptions::default();
    let all = db.create_column_family_with_import(&options.cf, "all", &how, &[&two, &one]).unwrap();
    let keys: Vec<_> = entries(&db, &all).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"a", b"c", b"d", b"f"]);
    let error = db.create_column_family_with_import(&options.cf, "no", &how, &[&one, &three]);
    assert_eq!(error.unwrap_err().message(), "CFs have overlapping ranges");
    assert!(db.column_family("no").is_none());
}

#[pumice_test_macros::test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let (_, fs) = memory();
    let options = quiet(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let cf = family(&db, &options);
    let exported = db.export_column_family(&cf, EXPORT).unwrap();
    let again = db.export_column_family(&cf, EXPORT).unwrap_err();
    assert_eq!(again.message(), "Specified export_dir exists");
    let before = db.live_files_metadata().len();
    let refused = |change: &dyn Fn(&mut ExportImportFilesMetadata)| {
        let mut described = exported.clone();
        change(&mut described);
        let error = import(&db, &options, &described, false).unwrap_err();
        assert!(db.column_family("to").is_none());
        assert_eq!(db.live_files_metadata().len(), before);
        error
    };
    let error = refused(&|e| e.db_comparator_name = "other".to_string());
    assert_eq!(error.message(), "Comparator name mismatch");
    assert_eq!(refused(&|e| e.files.clear()).message(), "The list of files is empty");
    let bounds = |e: &mut ExportImportFilesMetadata| {
        let file = e.files.last_mut().unwrap();
        file.largest = file.smallest.clone();
    };
    assert_eq!(refused(&bounds).kind(), ErrorKind::Corruption);
    assert_eq!(refused(&|e| e.files[0].level = 7).kind(), ErrorKind::InvalidArgument);
    let error = refused(&|e| e.files[0].epoch_number = u64::MAX);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let twice = |e: &mut ExportImportFilesMetadata| e.files.push(e.files.last().unwrap().clone());
    assert_eq!(refused(&twice).kind(), ErrorKind::Corruption);
    assert!(refused(&|e| e.files[0].name = "/none.sst".to_string()).is_not_found());
    // A table of the database itself is not moved away.
    let own = ExportImportFilesMetadata {
        files: exported
            .files
            .iter()
            .map(|f| pumice::LiveFile { directory: DIR.into(), ..f.clone() })
            .collect(),
        ..exported.clone()
    };
    let error = import(&db, &options, &own, true).unwrap_err();
    assert!(error.message().contains("cannot be moved"), "{error}");
    import(&db, &options, &exported, true).unwrap();
}

/// A failed export or import can be repeated.
#[pumice_test_macros::test]
fn faults_leave_nothing() {
    let (mem, fs): (MemFs, _) = memory();
    let options = quiet(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.create_column_family(&ColumnFamilyOptions::default(), "from").unwrap();
    db.put_cf(&cf, "a", "1").unwrap();
    db.flush_cf(&cf).unwrap();
    mem.add_fault(FaultRule::once(FaultOp::Link, "*", 0, Fault::Eio));
    db.export_column_family(&cf, EXPORT).unwrap_err();
    assert!(!fs.exists(Path::new(EXPORT)).unwrap());
    let exported = db.export_column_family(&cf, EXPORT).unwrap();
    mem.add_fault(FaultRule::once(FaultOp::Link, "*", 0, Fault::Eio));
    import(&db, &options, &exported, true).unwrap_err();
    assert!(db.column_family("to").is_none());
    let copy = import(&db, &options, &exported, true).unwrap();
    assert_eq!(db.get_cf(&copy, "a").unwrap().as_deref(), Some(&b"1"[..]));
}
