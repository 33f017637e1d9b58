//! Tables against a real RocksDB (10.10, through its C library), both ways: every format version it
//! writes, codec, index and filter. Skipped with a message where the library is missing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod cache_tier;
mod consulted;
mod counted;
mod counters;
mod drawn;
mod fifo;
mod ingest;
mod ingest_own;
mod large_values;
mod levels;
mod logs;
mod odd_keys;
mod offpeak;
mod paranoid;
mod read_amp;
mod round_robin;
mod sampling;
mod settings;
#[path = "../../../crates/table/tests/support/mod.rs"]
mod support;
mod universal;
mod universal_cost;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::checksum::ChecksumType;
use pumice_base::extension::FixedPrefix;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::{Comparator, InternalKeyComparator, UserKey, ValueType};
use pumice_compress::CompressionType;
use pumice_filter::FilterPolicy;
use pumice_peer::{
    Db, Options, Peer, ReadOptions, ReadSettings, SstFileWriter, WriteOptions, WriteSettings,
};
use pumice_table::{Table, TableBuildContext, TableOptions, TableReadContext, TableReadOptions};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

const KEYS: u64 = 1500;
const CODECS: [CompressionType; 6] = [
    CompressionType::None,
    CompressionType::Snappy,
    CompressionType::Bzip2,
    CompressionType::Lz4,
    CompressionType::Lz4hc,
    CompressionType::Zstd,
];
const CHECKSUMS: [ChecksumType; 5] = [
    ChecksumType::None,
    ChecksumType::Crc32c,
    ChecksumType::XxHash,
    ChecksumType::XxHash64,
    ChecksumType::Xxh3,
];

fn peer() -> Option<Peer> {
    pumice_peer::installed_library().map(|path| Peer::load(path).unwrap())
}

/// In memory where possible: the disk is not under test, and flushes would wait for it.
/// There `fallocate` takes memory at once, some 70 MB for a log or table of the default sizes, so
/// databases here are opened without `allow_fallocate`.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = memory.is_dir().then(|| tempfile::tempdir_in(memory).ok()).flatten();
    made.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

fn user(i: u64) -> Vec<u8> {
    format!("key{:07}", i * 7).into_bytes()
}

fn value(i: u64, round: u64) -> Vec<u8> {
    format!("value {i} of round {round} ").repeat(1 + (i % 5) as usize).into_bytes()
}

/// Writes two rounds of versions with a snapshot between them and two range tombstones, flushes,
/// and returns the table file and what must be in it.
fn write(peer: &Peer, dir: &Path, settings: &str, table: &str) -> (PathBuf, Entries) {
    let mut options = Options::new(peer);
    options
        .set_many("create_if_missing=true;allow_fallocate=false;disable_auto_compactions=true")
        .unwrap();
    options.set_many(settings).unwrap();
    options.set_table(table).unwrap();
    let db = Db::open(&options, dir).unwrap();
    let cf = db.default_column_family().clone();
    let wo = WriteOptions::new(peer, &WriteSettings::default());
    let mut entries = Entries::new();
    let mut sequence = 0;
    let mut snapshots = Vec::new();
    for round in 0..2 {
        for i in 0..KEYS {
            sequence += 1;
            if round == 1 && i % 3 == 0 {
                db.delete(&wo, &cf, &user(i)).unwrap();
                let key = internal_key(&user(i), sequence, ValueType::Deletion);
                entries.push((key, Vec::new()));
            } else {
                db.put(&wo, &cf, &user(i), &value(i, round)).unwrap();
                let key = internal_key(&user(i), sequence, ValueType::Value);
                entries.push((key, value(i, round)));
            }
        }
        snapshots.push(db.snapshot());
    }
    db.delete_range(&wo, &cf, &user(10), &user(20)).unwrap();
    db.delete_range(&wo, &cf, &user(15), &user(40)).unwrap();
    db.flush(&cf).unwrap();
    (only_table(dir), entries)
}

fn only_table(dir: &Path) -> PathBuf {
    let tables: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "sst"))
        .collect();
    assert_eq!(tables.len(), 1, "{tables:?}");
    tables[0].clone()
}

fn context(user: Comparator) -> TableReadContext {
    let options = TableOptions {
        block_cache: Some(support::cache(1 << 20)),
        filter_policy: Some(FilterPolicy::bloom(10.0)),
        cache_index_and_filter_blocks: true,
        ..Default::default()
    };
    TableReadContext {
        options: Arc::new(options),
        comparator: InternalKeyComparator::new(user),
        prefix_extractor: Some(Arc::new(FixedPrefix(5))),
        ..Default::default()
    }
}

fn check(table: &Arc<Table>, mut want: Entries, what: &str) {
    let cmp = table.comparator().clone();
    want.sort_by(|a, b| cmp.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
    table.verify_checksums().unwrap_or_else(|e| panic!("{what}: {e}"));
    let ro = TableReadOptions::default();
    let mut iter = table.iter(&ro);
    iter.seek_to_first();
    for (key, value) in &want {
        assert!(iter.valid(), "{what}: {:?}", iter.status());
        assert_eq!((iter.key().as_bytes(), iter.value()), (&key[..], &value[..]), "{what}");
        iter.next();
    }
    assert!(!iter.valid(), "{what}");
    iter.status().unwrap();
    iter.seek_to_last();
    for (key, value) in want.iter().rev() {
        assert_eq!(
            (iter.key().as_bytes(), iter.value()),
            (&key[..], &value[..]),
            "{what}: backward"
        );
        iter.prev();
    }
    for (key, value) in want.iter().step_by(7) {
        iter.seek(InternalKey::new(key));
        assert_eq!((iter.key().as_bytes(), iter.value()), (&key[..], &value[..]), "{what}: seek");
        let mut got = None;
        table
            .get(&ro, InternalKey::new(key), &mut |found, v, _| {
                got = Some((found.sequence, v.to_vec()));
                false
            })
            .unwrap();
        let sequence = InternalKey::new(key).sequence_and_type().0;
        assert_eq!(got, Some((sequence, value.clone())), "{what}: get");
    }
    let mut absent = 0;
    for i in 0..200u64 {
        let key = format!("key{:07}", i * 7 + 3);
        absent += usize::from(!table.key_may_match(&ro, key.as_bytes()).unwrap());
        let target = seek_key(key.as_bytes(), MAX_SEQUENCE);
        table
            .get(&ro, InternalKey::new(&target), &mut |_, _, _| {
                panic!("{what}: {key} is not there")
            })
            .unwrap();
    }
    if what.contains("filter_policy") && !what.contains("whole_key_filtering=false") {
        assert!(absent > 180, "{what}: the filter was used ({absent})");
    }
}

/// Column family and table options to write with.
fn cases() -> Vec<(String, String)> {
    let mut cases: Vec<(String, String)> = Vec::new();
    let mut add = |settings: &str, table: &str| cases.push((settings.into(), table.into()));
    for version in 2..=7 {
        for codec in [
            "kNoCompression",
            "kSnappyCompression",
            "kZlibCompression",
            "kBZip2Compression",
            "kLZ4Compression",
            "kLZ4HCCompression",
            "kZSTD",
        ] {
            add(&format!("compression={codec}"), &format!("format_version={version}"));
        }
        for checksum in ["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"] {
            let table = format!(
                "format_version={version};checksum={checksum};filter_policy=bloomfilter:10:false"
            );
            add("compression=kLZ4Compression", &table);
        }
        for index in ["kBinarySearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey"] {
            for extra in ["", "partition_filters=true;", "index_block_restart_interval=4;"] {
                if extra.contains("partition") && index != "kTwoLevelIndexSearch" {
                    continue;
                }
                let table = format!(
                    "format_version={version};index_type={index};metadata_block_size=512;{extra}\
                     filter_policy=bloomfilter:10:false"
                );
                add("compression=kSnappyCompression", &table);
            }
        }
        add(
            "prefix_extractor=rocksdb.FixedPrefix.5",
            &format!("format_version={version};index_type=kHashSearch"),
        );
        add("", &format!("format_version={version};data_block_index_type=kDataBlockBinaryAndHash"));
        add("", &format!("format_version={version};block_align=true;use_delta_encoding=false"));
    }
    add("", "filter_policy=ribbonfilter:12:0");
    add("", "filter_policy=bloomfilter:10:false;optimize_filters_for_memory=true");
    add(
        "prefix_extractor=rocksdb.FixedPrefix.5",
        "filter_policy=bloomfilter:10:false;whole_key_filtering=false",
    );
    for codec in ["kZSTD", "kLZ4Compression", "kZlibCompression"] {
        let dictionary = "max_dict_bytes=4096;zstd_max_train_bytes=65536;enabled=true";
        let settings = format!(
            "compression={codec};compression_opts={{{dictionary}}};\
             bottommost_compression_opts={{{dictionary}}}"
        );
        add(&settings, "block_size=1000");
    }
    cases
}

#[pumice_test_macros::test]
fn every_table_option_is_read() {
    let Some(peer) = peer() else { return };
    for (settings, table) in &cases() {
        let what = format!("{settings} | {table}");
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let block_align = table.contains("block_align");
        let settings = if block_align { "compression=kNoCompression" } else { settings.as_str() };
        let (path, entries) = write(&peer, dir.path(), settings, table);
        let bytes = std::fs::read(&path).unwrap();
        let table = support::open(context(Comparator::Bytewise), &bytes)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let tombstones = table.range_tombstones().unwrap();
        let user17 = user(17);
        let newest =
            tombstones.max_covering_seq(&Comparator::Bytewise, UserKey::new(&user17), MAX_SEQUENCE);
        assert_eq!(newest, 2 * KEYS + 2, "{what}");
        check(&table, entries, &what);
    }
}

#[pumice_test_macros::test]
fn sst_file_writer_tables_take_the_global_sequence() {
    let Some(peer) = peer() else { return };
    for version in 5..=7 {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("external.sst");
        let mut options = Options::new(&peer);
        options.set_table(&format!("format_version={version}")).unwrap();
        let mut writer = SstFileWriter::new(&options);
        writer.open(&path).unwrap();
        let mut entries = Entries::new();
        for i in 0..KEYS {
            // A key that extends another one may share bytes with its trailer.
            let mut key = user(i / 2);
            if i % 2 == 1 {
                key.extend([1, 0, 0, 0]);
            }
            writer.put(&key, &value(i, 0)).unwrap();
            entries.push((internal_key(&key, 77, ValueType::Value), value(i, 0)));
        }
        writer.delete_range(&user(3), &user(5)).unwrap();
        writer.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let context = TableReadContext { largest_seqno: 77, ..context(Comparator::Bytewise) };
        let table = support::open(context, &bytes).unwrap();
        let list = table.range_tombstones().unwrap();
        let key = user(3);
        assert_eq!(
            list.max_covering_seq(&Comparator::Bytewise, UserKey::new(&key), MAX_SEQUENCE),
            77
        );
        check(&table, entries, &format!("external file v{version}"));
    }
}

#[pumice_test_macros::test]
fn reverse_order_is_read() {
    let Some(peer) = peer() else { return };
    for table in ["format_version=7", "index_type=kTwoLevelIndexSearch;metadata_block_size=300"] {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let settings = "comparator=rocksdb.ReverseBytewiseComparator";
        let mut options = Options::new(&peer);
        options.set_many("create_if_missing=true;allow_fallocate=false").unwrap();
        options.set_many(settings).unwrap();
        options.set_table(table).unwrap();
        let db = Db::open(&options, dir.path()).unwrap();
        let cf = db.default_column_family().clone();
        let wo = WriteOptions::new(&peer, &WriteSettings::default());
        let mut entries = Entries::new();
        for i in 0..KEYS {
            db.put(&wo, &cf, &user(i), &value(i, 0)).unwrap();
            entries.push((internal_key(&user(i), i + 1, ValueType::Value), value(i, 0)));
        }
        db.flush(&cf).unwrap();
        let bytes = std::fs::read(only_table(dir.path())).unwrap();
        let opened = support::open(context(Comparator::ReverseBytewise), &bytes).unwrap();
        assert_eq!(InternalKey::new(&entries[0].0).user_key().as_bytes(), user(0));
        check(&opened, entries, table);
    }
}

/// RocksDB ingests and reads tables of every format, codec and checksum that the builder writes.
#[pumice_test_macros::test]
fn rocksdb_reads_what_the_builder_writes() {
    let Some(peer) = peer() else { return };
    for version in 2..=7 {
        for (i, compression) in CODECS.into_iter().enumerate() {
            let checksum = CHECKSUMS[(i + version as usize) % CHECKSUMS.len()];
            let options = TableOptions {
                format_version: version,
                checksum,
                filter_policy: Some(FilterPolicy::bloom(10.0)),
                ..Default::default()
            };
            let context = support::external(TableBuildContext {
                table: Arc::new(options),
                compression,
                ..Default::default()
            });
            ingest_and_read(&peer, context, &format!("v{version} {compression:?} {checksum:?}"));
        }
    }
}

fn ingest_and_read(peer: &Peer, context: TableBuildContext, what: &str) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let table = format!("format_version={};filter_policy=bloomfilter:10:false", 5);
    let mut options = Options::new(peer);
    options.set_many("create_if_missing=true;allow_fallocate=false").unwrap();
    options.set_table(&table).unwrap();
    let db = Db::open(&options, &dir.path().join("db")).unwrap();
    let cf = db.default_column_family().clone();
    let entries: Entries =
        (0..KEYS).map(|i| (internal_key(&user(i), 0, ValueType::Value), value(i, 0))).collect();
    let range = (internal_key(&user(2), 0, ValueType::RangeDeletion), user(4));
    let all = entries.iter().chain([&range]);
    let built = support::build(context, all.map(|(k, v)| (&k[..], &v[..])));
    let path = dir.path().join("ours.sst");
    std::fs::write(&path, &built.bytes).unwrap();
    db.ingest(&cf, &[&path], false).unwrap_or_else(|e| panic!("{what}: {e}"));
    let settings = ReadSettings { verify_checksums: true, ..Default::default() };
    let ro = ReadOptions::new(peer, &settings);
    let mut iter = db.iter(&ro, &cf);
    iter.seek_to_first();
    for (key, value) in &entries {
        assert!(iter.valid(), "{what}");
        assert_eq!(
            (iter.key(), iter.value()),
            (InternalKey::new(key).user_key().as_bytes(), &value[..]),
            "{what}"
        );
        iter.next();
    }
    assert!(!iter.valid(), "{what}");
    iter.status().unwrap();
    let mut out = Vec::new();
    for (key, value) in entries.iter().step_by(5) {
        assert!(
            db.get(&ro, &cf, InternalKey::new(key).user_key().as_bytes(), &mut out).unwrap(),
            "{what}"
        );
        assert_eq!(&out, value, "{what}");
    }
    assert!(!db.get(&ro, &cf, b"absent", &mut out).unwrap(), "{what}");
}
