//! Which memtables are sealed for `db_write_buffer_size`, while no flush can run: RocksDB's choice,
//! the oldest active memtable of a family that has none to flush yet. And a new `write_buffer_size`
//! applies to the active memtable.

use crate::common::{memory, options};
use pumice::{ColumnFamily, Db, FlushOptions, Options, WriteOptions};

const LIMIT: usize = 1 << 20;
const NUM_IMMUTABLE: &str = "rocksdb.num-immutable-mem-table";

fn open(families: usize) -> (Db, Vec<ColumnFamily>, Options) {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.db.db_write_buffer_size = LIMIT as u64;
    options.db.background_policy = pumice::options::BackgroundPolicy::Static;
    options.cf.write_buffer_size = 64 << 20;
    options.cf.arena_block_size = 16 << 10;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    let mut all = vec![db.default_column_family().clone()];
    for n in 1..families {
        all.push(db.create_column_family(&options.cf, &format!("family {n}")).unwrap());
    }
    (db, all, options)
}

fn write(db: &Db, cf: &ColumnFamily, bytes: usize) {
    for n in 0..bytes.div_ceil(1024) {
        let to = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
        db.put_cf_opt(&to, cf, format!("{n:08}").as_bytes(), &[b'v'; 1000]).unwrap();
    }
}

fn sealed(db: &Db, families: &[ColumnFamily]) -> Vec<u64> {
    families.iter().map(|cf| db.property_int_cf(cf, NUM_IMMUTABLE).unwrap()).collect()
}

#[pumice_test_macros::test]
fn what_waits_for_its_flush_is_not_sealed_again() {
    let (db, families, _) = open(4);
    db.pause_background_work();
    // The first two are as old as each other, the third is younger, the last one has nothing.
    write(&db, &families[2], LIMIT / 8);
    write(&db, &families[1], LIMIT / 2);
    write(&db, &families[0], LIMIT / 8);
    assert_eq!(sealed(&db, &families), [0, 0, 0, 0]);
    write(&db, &families[1], LIMIT / 8);
    assert_eq!(sealed(&db, &families), [1, 0, 0, 0]);
    write(&db, &families[1], LIMIT / 4);
    assert_eq!(sealed(&db, &families), [1, 1, 0, 0]);
    // The rest has to be flushed first, however much is written; writes neither wait nor fail.
    write(&db, &families[1], 2 * LIMIT);
    assert_eq!(sealed(&db, &families), [1, 1, 1, 0]);
    write(&db, &families[3], 1000);
    assert_eq!(sealed(&db, &families), [1, 1, 1, 0]);
    write(&db, &families[3], 1000);
    assert_eq!(sealed(&db, &families), [1, 1, 1, 1]);
    db.continue_background_work().unwrap();
    db.flush_cfs_opt(&FlushOptions::default(), &families.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(sealed(&db, &families), [0, 0, 0, 0]);
    db.close().unwrap();
}

/// Forty families with fresh memtables use next to nothing of the limit, whatever the size of their
/// blocks.
#[pumice_test_macros::test]
fn a_memtable_counts_when_it_takes_writes() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.db.db_write_buffer_size = LIMIT as u64;
    options.cf.write_buffer_size = 64 << 20;
    let db = Db::open(&options, "/db").unwrap();
    let mut families = vec![db.default_column_family().clone()];
    for n in 1..40 {
        families.push(db.create_column_family(&options.cf, &format!("family {n}")).unwrap());
    }
    db.pause_background_work();
    for cf in &families {
        write(&db, cf, 1000);
    }
    assert_eq!(sealed(&db, &families), [0; 40]);
    db.continue_background_work().unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_new_write_buffer_size_holds_for_the_present_memtable() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.write_buffer_size = 64 << 20;
    options.cf.disable_auto_compactions = true;
    options.db.background_policy = pumice::options::BackgroundPolicy::Static;
    options.cf.level0_slowdown_writes_trigger = 1000;
    options.cf.level0_stop_writes_trigger = 1000;
    let db = Db::open(&options, "/db").unwrap();
    let cf = db.default_column_family().clone();
    write(&db, &cf, 2 << 20);
    let flushed = || db.live_files_metadata().len();
    assert_eq!((flushed(), sealed(&db, std::slice::from_ref(&cf))), (0, vec![0]));
    db.set_options_cf(&cf, &[("write_buffer_size", "1048576")]).unwrap();
    // A flush takes all sealed memtables, so none may run before they are counted.
    db.pause_background_work();
    write(&db, &cf, 2000);
    assert_eq!(sealed(&db, std::slice::from_ref(&cf)), [1]);
    db.continue_background_work().unwrap();
    db.flush_opt(&FlushOptions::default()).unwrap();
    let before = flushed();
    // A larger one applies at once, too.
    db.set_options_cf(&cf, &[("write_buffer_size", "67108864")]).unwrap();
    write(&db, &cf, 5 << 20);
    assert_eq!((flushed(), sealed(&db, std::slice::from_ref(&cf))), (before, vec![0]));
    db.close().unwrap();
}
