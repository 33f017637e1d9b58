//! Cursors that pass over tables.

use crate::common::{DIR, flush, get, memory, options};
use pumice::{CompactRangeOptions, Db, ReadOptions, TableFilter};

fn keys(db: &Db, options: &ReadOptions) -> Vec<Vec<u8>> {
    let mut cursor = db.cursor_opt(options).unwrap();
    let mut found = Vec::new();
    cursor.seek_to_first();
    while cursor.valid() {
        found.push(cursor.key().unwrap().to_vec());
        cursor.next();
    }
    cursor.status().unwrap();
    let mut back = Vec::new();
    cursor.seek_to_last();
    while cursor.valid() {
        back.push(cursor.key().unwrap().to_vec());
        cursor.prev();
    }
    back.reverse();
    assert_eq!(found, back);
    found
}

/// Three tables below level 0, one in it, and a memtable: the tables with an odd number of entries
/// are passed over, whatever level they are on, but their range deletions are not.
#[pumice_test_macros::test]
fn a_cursor_passes_over_tables_that_the_filter_does_not_want() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    options.cf.sst_partitioner_factory = pumice::options::SstPartitionerFactory::FixedPrefix(1);
    let db = Db::open(&options, DIR).unwrap();
    for key in ["a1", "a2", "b1", "c1", "c2"] {
        db.put(key, "v").unwrap();
    }
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(db.live_files_metadata().len(), 3);
    db.delete_range("c2", "c3").unwrap();
    db.put("d1", "v").unwrap();
    db.put("d2", "v").unwrap();
    flush(&db);
    db.put("e1", "v").unwrap();
    let even = TableFilter::new(|table| table.num_entries % 2 == 0);
    let filtered = ReadOptions { table_filter: Some(even), ..ReadOptions::default() };
    let all = ReadOptions::default();
    assert_eq!(keys(&db, &all), [b"a1", b"a2", b"b1", b"c1", b"d1", b"d2", b"e1"]);
    // Of level 0 there are three entries, one of them the range deletion.
    assert_eq!(keys(&db, &filtered), [b"a1", b"a2", b"c1", b"e1"]);
    let mut cursor = db.cursor_opt(&filtered).unwrap();
    cursor.seek("b");
    assert_eq!(cursor.key(), Some(&b"c1"[..]));
    cursor.seek_for_prev("b9");
    assert_eq!(cursor.key(), Some(&b"a2"[..]));
    // Point reads do not ask.
    assert_eq!(db.get_opt(&filtered, "b1").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(get(&db, b"b1").unwrap(), b"v");
    let none = TableFilter::new(|_| false);
    let filtered = ReadOptions { table_filter: Some(none), ..ReadOptions::default() };
    assert_eq!(keys(&db, &filtered), [b"e1"]);
}
