//! `inplace_update_support`: accepted as RocksDB does; older values stay, so that snapshots work.

use pumice::{ColumnFamilyOptions, Db, ErrorKind, ReadOptions};

use super::on_memory;

#[pumice_test_macros::test]
fn updates_in_place_need_one_writer() {
    let (_, mut options) = on_memory();
    options.set("inplace_update_support", "true").unwrap();
    let refused = Db::open(&options, "/db").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let text = "In-place memtable updates (inplace_update_support) is not compatible with \
                concurrent writes (allow_concurrent_memtable_write)";
    assert!(refused.to_string().contains(text), "{refused}");
    options.db.allow_concurrent_memtable_write = false;
    let db = Db::open(&options, "/db").unwrap();
    assert!(db.has_in_place_updates());
    db.put("key", "old").unwrap();
    let snapshot = db.snapshot();
    db.put("key", "new").unwrap();
    let read = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    assert_eq!(db.get_opt(&read, b"key").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"new"[..]));
}

#[pumice_test_macros::test]
fn any_family_counts() {
    let (_, mut options) = on_memory();
    options.db.allow_concurrent_memtable_write = false;
    let db = Db::open(&options, "/db").unwrap();
    assert!(!db.has_in_place_updates());
    let in_place =
        ColumnFamilyOptions { inplace_update_support: true, ..ColumnFamilyOptions::default() };
    let family = db.create_column_family(&in_place, "in place").unwrap();
    assert!(db.has_in_place_updates());
    db.drop_column_family(&family).unwrap();
    assert!(!db.has_in_place_updates());
}
