//! Keys, values and batches of any size end well: data that the formats cannot hold is refused at
//! once, by an error that names it, and accepted data is there after flush, compaction and
//! recovery.
//!
//! The limits are lowered, so that kibibytes stand for gibibytes; `of_real_size` has the real ones.
//! A separate program, because its allocator counts the process's requests.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{DIR, contents, flush, get, memory, options};
use pumice::{
    CompactRangeOptions, CompressionType, Db, Error, FileSystem, FilterDecision,
    IngestExternalFileOptions, MergeOperator, Options, ReadOptions, SizeLimits, SstFileWriter,
    WriteBatch, WriteOptions, filter_of,
};
use pumice_testkit::alloc::LiveAllocator;

#[global_allocator]
static ALLOCATOR: LiveAllocator = LiveAllocator::new();

/// Blocks of 16 KiB, so keys of 4 KiB, and 64 bytes less than 16 KiB for an entry.
const LIMITS: SizeLimits = SizeLimits::lowered(16 << 10);
const KEY_BYTES: usize = LIMITS.key_bytes();
const ENTRY_BYTES: usize = LIMITS.entry_bytes();

struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "Append"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some([&[base.unwrap_or_default()], operands].concat().concat())
    }
    fn partial_merge(&self, _: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some([left, right].concat())
    }
}

fn small(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options(fs);
    options.db.limits = LIMITS;
    options.cf.merge_operator = Some(Arc::new(Append));
    options
}

fn bytes(n: usize, of: u8) -> Vec<u8> {
    vec![of; n]
}

/// The error text of an update; empty for Ok.
fn message(result: Result<(), Error>) -> String {
    result.map_or_else(|error| error.to_string(), |()| String::new())
}

const KEY: &str = "Invalid argument: key is too large";
const VALUE: &str = "Invalid argument: value is too large";
const END: &str = "Invalid argument: end key is too large";

/// Updates, by size of key and of value, that are given to every call.
const UPDATES: [(usize, usize, &str); 8] = [
    (KEY_BYTES, 0, ""),
    (KEY_BYTES + 1, 0, KEY),
    (1, ENTRY_BYTES - 1, ""),
    (1, ENTRY_BYTES, VALUE),
    (300, ENTRY_BYTES - 300, ""),
    (300, ENTRY_BYTES - 299, VALUE),
    (KEY_BYTES, ENTRY_BYTES - KEY_BYTES, ""),
    (KEY_BYTES + 1, ENTRY_BYTES, KEY),
];

/// Each update by each call alone, by a batch, and by an external table. Accepted data is there
/// after each path through the engine; the database works after a refusal.
#[pumice_test_macros::test]
fn each_entrance_takes_what_fits_and_names_what_does_not() {
    let (_, fs) = memory();
    let options = small(&fs);
    let write = WriteOptions::default();
    for (number, (key, value, refused)) in UPDATES.into_iter().enumerate() {
        let dir = format!("{DIR}{number}");
        let db = Db::open(&options, &dir).unwrap();
        let (key, value) = (bytes(key, b'k'), bytes(value, b'v'));
        let mut want = vec![(b"a".to_vec(), b"1".to_vec()), (b"z".to_vec(), b"2".to_vec())];
        db.put_opt(&write, b"a", b"1").unwrap();
        assert_eq!(message(db.put_opt(&write, &key, &value)), refused);
        db.put_opt(&write, b"z", b"2").unwrap();
        if refused.is_empty() {
            want.push((key.clone(), value.clone()));
        }
        assert_eq!(message(db.merge_opt(&write, &[&key[..], b"m"].concat()[1..], &value)), refused);
        if refused.is_empty() {
            want.push(([&key[1..], b"m"].concat(), value.clone()));
        }
        let only_key = if refused == KEY { KEY } else { "" };
        assert_eq!(message(db.delete_opt(&write, &[&key[..], b"x"].concat()[1..])), only_key);
        assert_eq!(
            message(db.single_delete_opt(&write, &[&key[..], b"y"].concat()[1..])),
            only_key
        );

        let mut batch = WriteBatch::with_limits(LIMITS);
        batch.put(b"b", b"3");
        batch.put(&key, &value);
        assert_eq!(message(batch.status()), refused);
        assert_eq!(message(db.write_opt(&write, &mut batch)), refused);
        if refused.is_empty() {
            want.push((b"b".to_vec(), b"3".to_vec()));
        }
        let table = format!("/{number}.sst");
        let mut writer = SstFileWriter::new(&options).unwrap();
        writer.open(&table).unwrap();
        let other = bytes(key.len(), b'y');
        assert_eq!(message(writer.put(&other, &value)), refused);
        if refused.is_empty() {
            writer.finish().unwrap();
            db.ingest_external_file(&IngestExternalFileOptions::default(), &[&table]).unwrap();
            want.push((other, value.clone()));
        }
        want.sort();
        let check = |db: &Db, when: &str| {
            let there = contents(db);
            assert!(there == want, "{number} {when}: {} entries", there.len());
            for (key, value) in &want {
                assert!(get(db, key).as_ref() == Some(value), "{number} {when}");
            }
        };
        check(&db, "in memory");
        db.close().unwrap();
        drop(db);
        let db = Db::open(&options, &dir).unwrap();
        check(&db, "recovered");
        flush(&db);
        check(&db, "flushed");
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        check(&db, "compacted");
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn ranges_are_checked_at_both_ends() {
    let (_, fs) = memory();
    let db = Db::open(&small(&fs), DIR).unwrap();
    let write = WriteOptions::default();
    let begin = |n| bytes(n, b'a');
    let end = |n| bytes(n, b'b');
    db.put_opt(&write, b"aaaaaaab", b"1").unwrap();
    for (from, to, refused) in [
        (KEY_BYTES + 1, 1, KEY),
        (KEY_BYTES, 1, END),
        (1, KEY_BYTES, END),
        (KEY_BYTES / 2, KEY_BYTES / 2, ""),
        (KEY_BYTES / 2 - 1, KEY_BYTES / 2 + 1, ""),
    ] {
        assert_eq!(message(db.delete_range_opt(&write, &begin(from), &end(to))), refused);
        let mut batch = WriteBatch::with_limits(LIMITS);
        batch.delete_range(&begin(from), &end(to));
        assert_eq!(message(db.write_opt(&write, &mut batch)), refused);
        assert_eq!(batch.count(), u32::from(refused.is_empty()));
        let mut writer = SstFileWriter::new(&small(&fs)).unwrap();
        writer.open("/ranges.sst").unwrap();
        assert_eq!(message(writer.delete_range(&begin(from), &end(to))), refused);
    }
    let mut batch = WriteBatch::with_limits(LIMITS);
    batch.delete_range(b"a", &end(KEY_BYTES / 2));
    batch.delete_range(b"b", &end(KEY_BYTES / 2));
    assert!(message(batch.status()).contains("range deletions of the batch are too large"));
    assert_eq!(contents(&db), []);
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(contents(&db), []);
    db.close().unwrap();
}

/// Of range deletions that cover each other a flush writes only the newest for each snapshot:
/// writing all of them would multiply their number.
#[pumice_test_macros::test]
fn a_flush_writes_nested_ranges_once() {
    let (_, fs) = memory();
    let db = Db::open(&small(&fs), DIR).unwrap();
    for n in 0..100 {
        let (begin, end) = (format!("a{n:03}"), format!("b{:03}", 200 - n));
        db.delete_range_opt(&WriteOptions::default(), begin.as_bytes(), end.as_bytes()).unwrap();
    }
    flush(&db);
    let properties = db.property("rocksdb.aggregated-table-properties").unwrap();
    assert!(properties.contains("# range deletions=199"), "{properties}");
    db.close().unwrap();
}

/// A batch cannot exceed its limit, however it is composed, and returns the error until it is
/// cleared or rolled back.
#[pumice_test_macros::test]
fn a_batch_ends_where_its_bytes_cannot_be_counted() {
    let (_, fs) = memory();
    let db = Db::open(&small(&fs), DIR).unwrap();
    let write = WriteOptions::default();
    let large = "batch is too large";
    let mut batch = WriteBatch::with_limits(LIMITS);
    let mut puts = 0;
    batch.set_save_point();
    while batch.status().is_ok() && puts < 100 {
        batch.set_save_point();
        batch.put(&bytes(100, b'k'), &bytes(1000, b'v'));
        puts += 1;
    }
    assert_eq!((batch.count(), puts), (14, 15), "16 KiB hold 14 of 1,105 bytes");
    batch.delete(b"and now nothing is taken");
    assert!(message(db.write_opt(&write, &mut batch)).contains(large));
    assert_eq!(contents(&db), []);

    batch.rollback_to_save_point().unwrap();
    batch.status().unwrap();
    let mut tail = WriteBatch::with_limits(LIMITS);
    tail.put(&bytes(100, b'l'), &bytes(1000, b'v'));
    batch.append(&tail);
    assert!(message(batch.status()).contains(large));
    assert_eq!(batch.count(), 14, "all of the other or nothing");
    batch.rollback_to_save_point().unwrap();
    batch.append(&tail);
    batch.put_log_data(&bytes(LIMITS.batch_bytes(), b'x'));
    assert!(message(batch.status()).contains(large));
    assert_eq!(batch.count(), 14);
    let mut more = WriteBatch::with_limits(LIMITS);
    more.append(&batch);
    assert!(message(more.status()).contains(large), "what was left out there is missing here");
    batch.clear();
    batch.put(b"a", b"1");
    db.write_opt(&write, &mut batch).unwrap();
    assert_eq!(contents(&db), [(b"a".to_vec(), b"1".to_vec())]);
    db.close().unwrap();
}

/// A large update allocates little more than its own size.
#[pumice_test_macros::test]
fn a_large_update_takes_the_room_it_needs() {
    const LARGE: usize = 24 << 20;
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.compression = CompressionType::None;
    options.cf.merge_operator = Some(Arc::new(Append));
    let db = Db::open(&options, DIR).unwrap();
    let (write, large) = (WriteOptions::default(), bytes(LARGE, b'x'));
    for update in ["put", "merge"] {
        ALLOCATOR.begin();
        match update {
            "put" => db.put_opt(&write, b"put", &large).unwrap(),
            _ => db.merge_opt(&write, b"merge", &large).unwrap(),
        }
        flush(&db);
        // Files in memory double their room when they grow.
        let largest = ALLOCATOR.largest();
        assert!(largest <= 3 * LARGE, "{update}: {largest} bytes at once");
    }
    db.close().unwrap();
}

/// Operands that merge into more than a value can have are read whole, however they are stored.
#[pumice_test_macros::test]
fn operands_that_merge_into_too_much_stay_operands() {
    let (_, fs) = memory();
    for limit in [0, 2] {
        let mut options = small(&fs);
        options.cf.max_successive_merges = limit;
        let dir = format!("{DIR}{limit}");
        let db = Db::open(&options, &dir).unwrap();
        let write = WriteOptions::default();
        let mut want = Vec::new();
        for of in b'a'..=b'h' {
            let part = bytes(5000, of);
            db.merge_opt(&write, b"k", &part).unwrap();
            want.extend(part);
            if of % 3 == 0 {
                flush(&db);
            }
            assert!(get(&db, b"k").as_ref() == Some(&want), "{limit}: up to {of}");
        }
        flush(&db);
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        assert!(get(&db, b"k").as_ref() == Some(&want), "{limit}: compacted");
        db.close().unwrap();
        drop(db);
        let db = Db::open(&options, &dir).unwrap();
        assert!(get(&db, b"k").as_ref() == Some(&want), "{limit}: reopened");
        db.close().unwrap();
    }
}

/// What a filter makes of a value is written if it fits. If not, the compaction says so and harms
/// nothing.
#[pumice_test_macros::test]
fn a_filter_that_makes_too_much_fails_its_compaction() {
    let (_, fs) = memory();
    let room = ENTRY_BYTES - 1;
    for (made, entity) in [(room, false), (1 << 20, false), (1 << 20, true)] {
        let mut options = small(&fs);
        options.cf.compaction_filter =
            Some(filter_of("grow", move |_, key: &[u8], _: &[u8]| match (key, entity) {
                (b"k", false) => FilterDecision::ChangeValue(bytes(made, b'x')),
                (b"k", true) => {
                    FilterDecision::ChangeWideColumnEntity(vec![(Vec::new(), bytes(made, b'x'))])
                }
                _ => FilterDecision::Keep,
            }));
        let dir = format!("{DIR}{made}{entity}");
        let db = Db::open(&options, &dir).unwrap();
        for key in [b"j", b"k", b"l"] {
            db.put_opt(&WriteOptions::default(), key, b"small").unwrap();
        }
        flush(&db);
        let compacted = db.compact_range(&CompactRangeOptions::default(), None, None);
        let value = if made == room { bytes(made, b'x') } else { b"small".to_vec() };
        assert_eq!(message(compacted), if made == room { "" } else { VALUE }, "{made}");
        // Writes go on, and without the filter compactions do.
        db.put_opt(&WriteOptions::default(), b"m", b"small").unwrap();
        db.close().unwrap();
        drop(db);
        options.cf.compaction_filter = None;
        let db = Db::open(&options, &dir).unwrap();
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        for (key, value) in [(b"j", &b"small"[..]), (b"k", &value), (b"l", b"small")] {
            assert!(get(&db, key).as_deref() == Some(value), "{made}: {key:?}");
        }
        db.close().unwrap();
    }
}

/// Blocks stay below their limit although `block_size` would let them grow, keys of an index as
/// well; what cannot be put into one block fails the flush and harms nothing.
#[pumice_test_macros::test]
fn blocks_end_before_they_cannot_be_counted() {
    let (_, fs) = memory();
    for kind in ["kBinarySearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey"] {
        let mut options = small(&fs);
        options.set("block_based_table_factory.block_size", "1M").unwrap();
        options.set("block_based_table_factory.index_type", kind).unwrap();
        let dir = format!("{DIR}{kind}");
        let db = Db::open(&options, &dir).unwrap();
        let mut want = Vec::new();
        for n in 0..200 {
            let (key, value) = (format!("key{n:05}").into_bytes(), bytes(700 + n, b'v'));
            db.put_opt(&WriteOptions::default(), &key, &value).unwrap();
            want.push((key, value));
        }
        flush(&db);
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        assert!(contents(&db) == want, "{kind}");
        let most = db.property("rocksdb.aggregated-table-properties").unwrap();
        let blocks = most.split("# data blocks=").nth(1).unwrap().split(';').next().unwrap();
        assert!(blocks.trim().parse::<u64>().unwrap() >= 10, "{most}");
        db.close().unwrap();
    }
}

/// Keys that share nearly all their bytes need separators as long as they are: a table of many of
/// them gets few blocks, so that its index still is one block.
#[pumice_test_macros::test]
fn an_index_of_long_keys_stays_one_block() {
    let (_, fs) = memory();
    let options = small(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let mut want = Vec::new();
    for n in 0..40u8 {
        let key = [bytes(1000, b'k'), vec![n, 0]].concat();
        let value = bytes(if n < 3 { 5000 } else { 10 }, n);
        db.put_opt(&WriteOptions::default(), &key, &value).unwrap();
        want.push((key, value));
    }
    flush(&db);
    assert!(contents(&db) == want);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert!(contents(&db) == want);
    db.close().unwrap();
}

/// The real limits, with values of 4 GiB: about 20 GiB of memory and disk, and minutes. Run alone,
/// and only on request: `PUMICE_LARGE_DIR=/where cargo test --release -p pumice --test sizes
/// of_real_size`.
#[pumice_test_macros::test]
fn of_real_size() {
    let Some(dir) = std::env::var_os("PUMICE_LARGE_DIR").map(std::path::PathBuf::from) else {
        return;
    };
    let limits = SizeLimits::FORMAT;
    let write = WriteOptions::default();
    for codec in [CompressionType::None, CompressionType::Lz4, CompressionType::Zstd] {
        let path = dir.join(format!("pumice-large-{codec:?}"));
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.cf.compression = codec;
        let db = Db::open(&options, &path).unwrap();
        let key = bytes(300, b'k');
        let value = bytes(limits.entry_bytes() - 300, 7);
        for (more, refused) in [(1, VALUE), (64 + 299, VALUE), (64 + 310, VALUE)] {
            let large = bytes(value.len() + more, 9);
            assert_eq!(message(db.put_opt(&write, &key, &large)), refused, "{more}");
        }
        db.put_opt(&write, b"a", b"1").unwrap();
        db.put_opt(&write, &key, &value).unwrap();
        db.put_opt(&write, b"z", b"2").unwrap();
        let check = |db: &Db, when: &str| {
            assert_eq!(get(db, b"a").as_deref(), Some(&b"1"[..]), "{codec:?} {when}");
            assert_eq!(get(db, b"z").as_deref(), Some(&b"2"[..]), "{codec:?} {when}");
            let there = db.get_opt(&ReadOptions::default(), &key).unwrap().unwrap();
            assert!(*there == *value, "{codec:?} {when}");
        };
        check(&db, "in memory");
        drop(db);
        let db = Db::open(&options, &path).unwrap();
        check(&db, "recovered");
        flush(&db);
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        check(&db, "compacted");
        db.close().unwrap();
        drop(db);
        Db::destroy(&options, &path).unwrap();
    }
}
