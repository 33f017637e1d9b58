//! Reads with `cache_only` while every read of a table, and every open of one, is an error: data in
//! memory is found, anything else is Incomplete, and the file system is not called.

use crate::common::{fill, flush, key, memory, options};
use pumice::{CompactRangeOptions, Db, ErrorKind, FilterPolicy, MemFs, Options, ReadOptions};
use pumice_env::mem::{Fault, FaultOp, FaultRule};

const KEYS: usize = 2000;
const ONLY: ReadOptions = ReadOptions {
    snapshot: None,
    verify_checksums: true,
    fill_cache: true,
    readahead_size: 0,
    auto_readahead_size: true,
    async_io: true,
    iterate_lower_bound: None,
    iterate_upper_bound: None,
    prefix_same_as_start: false,
    total_order_seek: false,
    cache_only: true,
    rate_limiter_priority: None,
    deadline_micros: 0,
    io_timeout_micros: 0,
    auto_prefix_mode: true,
    tailing: false,
    table_filter: None,
    ignore_range_deletions: false,
    max_skippable_internal_keys: 0,
    timestamp: None,
    iter_start_ts: None,
    table_index_factory: None,
};

/// A level of several tables, two of L0 (keys from `KEYS` on) and a memtable (from `KEYS + 20` on),
/// closed.
fn build(max_open_files: i32, index_in_cache: bool) -> (MemFs, Options) {
    let (fs, shared) = memory();
    let mut options = options(&shared);
    options.db.max_open_files = max_open_files;
    options.db.avoid_flush_during_recovery = true;
    options.cf.disable_auto_compactions = true;
    options.cf.compression = pumice::CompressionType::None;
    options.cf.target_file_size_base = 32 << 10;
    options.cf.table_factory.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.table_factory.cache_index_and_filter_blocks = index_in_cache;
    let db = Db::open(&options, "/db").unwrap();
    for value in ["old", "new"] {
        fill(&db, 0..KEYS, &value.repeat(30));
        flush(&db);
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert!(db.live_files_metadata().len() > 4);
    for n in 0..2 {
        fill(&db, KEYS + 10 * n..KEYS + 10 * n + 10, "upper");
        flush(&db);
    }
    fill(&db, KEYS + 20..KEYS + 30, "fresh");
    db.close().unwrap();
    (fs, options)
}

fn refuse_reads(fs: &MemFs) {
    for operation in [FaultOp::Open, FaultOp::Read] {
        fs.add_fault(FaultRule::always(operation, "*.sst", Fault::Eio));
    }
}

/// `+` for a value, `-` for none, `?` for Incomplete.
fn letter<T>(found: &pumice::Result<Option<T>>) -> char {
    match found {
        Ok(Some(_)) => '+',
        Ok(None) => '-',
        Err(error) if error.kind() == ErrorKind::Incomplete => '?',
        Err(error) => panic!("{error}"),
    }
}

/// What is found of the numbers, by `get` and by `multi_get`.
fn found(db: &Db, numbers: &[usize]) -> String {
    let keys: Vec<_> = numbers.iter().map(|n| key(*n)).collect();
    let one: String = keys.iter().map(|key| letter(&db.get_opt(&ONLY, key))).collect();
    let several: String = db.multi_get_opt(&ONLY, &keys).iter().map(letter).collect();
    assert_eq!(one, several);
    one
}

/// How many keys an iterator shows from `key(n)` on, or down to the first one, and how it ends.
fn walked(db: &Db, n: usize, forward: bool) -> (usize, Option<ErrorKind>) {
    let mut iter = match db.cursor_opt(&ONLY) {
        Ok(iter) => iter,
        Err(error) => return (0, Some(error.kind())),
    };
    let mut shown = 0;
    if forward {
        iter.seek(&key(n))
    } else {
        iter.seek_for_prev(&key(n))
    }
    while iter.valid() {
        shown += 1;
        if forward { iter.next() } else { iter.prev() }
    }
    (shown, iter.status().err().map(|error| error.kind()))
}

#[pumice_test_macros::test]
fn what_is_not_in_memory_is_incomplete() {
    for (max_open_files, index_in_cache) in [(-1, false), (50, false), (-1, true), (50, true)] {
        let (fs, options) = build(max_open_files, index_in_cache);
        let db = Db::open(&options, "/db").unwrap();
        refuse_reads(&fs);
        let incomplete = Some(ErrorKind::Incomplete);
        // No table is open.
        let some = [0, 3, KEYS / 2, KEYS - 1, KEYS, KEYS + 15, KEYS + 20, KEYS + 29];
        assert_eq!(found(&db, &some), "??????++");
        for (n, forward) in [(0, true), (KEYS + 25, true), (KEYS + 40, false)] {
            assert_eq!(walked(&db, n, forward), (0, incomplete));
        }
        assert_eq!(fs.fault_log(), Vec::<String>::new());

        // The blocks of L0 are in memory, and one of the level.
        fs.clear_faults();
        for n in [3, KEYS, KEYS + 15] {
            db.get_opt(&ReadOptions::default(), &key(n)).unwrap().unwrap();
        }
        refuse_reads(&fs);
        assert_eq!(found(&db, &some), "++??++++");
        // Not even from a table that is open, or the last one.
        assert_eq!(found(&db, &[KEYS + 40]), "-");
        assert_eq!(walked(&db, KEYS / 2, true), (0, incomplete));
        let (shown, end) = walked(&db, 0, true);
        assert!((4..200).contains(&shown) && end == incomplete, "{shown} {end:?}");
        assert_eq!(walked(&db, KEYS, true), (30, None));
        assert_eq!(walked(&db, KEYS + 40, false), (0, incomplete));
        assert_eq!(fs.fault_log(), Vec::<String>::new());

        // All is in memory.
        fs.clear_faults();
        let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
        iter.seek_to_first();
        while iter.valid() {
            iter.next();
        }
        refuse_reads(&fs);
        assert_eq!(walked(&db, 0, true), (KEYS + 30, None));
        assert_eq!(walked(&db, KEYS + 40, false), (KEYS + 30, None));
        assert_eq!(found(&db, &some), "++++++++");
        fs.clear_faults();
        db.close().unwrap();
    }
}
