//! RocksDB really uses the indexes, filters and dictionaries of our tables.
//!
//! A table whose hash index, filter or dictionary RocksDB ignored would read just as well. So each
//! structure is damaged such that a read that consults it is misled (these tables have no
//! checksums), or its use shows in RocksDB's counters, which must be those of RocksDB's own table
//! over the same entries. Each check fails if RocksDB does not use the structure.
//!
//! Skipped with a message where the library is missing.

use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::ValueType;
use pumice_base::checksum::ChecksumType;
use pumice_base::extension::FixedPrefix;
use pumice_base::key::internal_key;
use pumice_compress::{CompressionOptions, CompressionType};
use pumice_filter::FilterPolicy;
use pumice_peer::{
    ColumnFamily, Db, Options, Peer, PerfContext, ReadOptions, ReadSettings, SstFileWriter,
};
use pumice_table::{
    DataBlockIndexType, IndexType, TableBuildContext, TableOptions, TableReadContext, dump,
};
use tempfile::TempDir;

use super::{peer, support};

/// User keys and values in order.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

const GROUPS: u64 = 200;
const MEMBERS: u64 = 15;
const PREFIX: usize = 8;
/// A get whose buffer is too small is done twice, and counted twice.
const VALUE_MAX: usize = 100;
/// What the tables of both engines are built with, but for the hash index.
const FORMAT: u32 = 5;
/// With whole internal keys in the index, whose comparisons RocksDB counts.
const HASH_FORMAT: u32 = 2;

fn key(group: u64, member: u64) -> Vec<u8> {
    format!("grp{group:05}:{member:03}").into_bytes()
}

/// Even groups of even members.
fn entries() -> Entries {
    let of_group = |group| (0..MEMBERS).map(move |member| key(group * 2, member * 2));
    let value = |key: Vec<u8>| {
        let value = [&b"the value of "[..], &key].concat();
        (key, value)
    };
    (0..GROUPS).flat_map(of_group).map(value).collect()
}

/// A file that RocksDB will ingest, without checksums and compression.
fn context(change: impl FnOnce(&mut TableOptions)) -> TableBuildContext {
    let mut table =
        TableOptions { checksum: ChecksumType::None, format_version: FORMAT, ..Default::default() };
    change(&mut table);
    support::external(TableBuildContext {
        table: Arc::new(table),
        prefix_extractor: Some(Arc::new(FixedPrefix(PREFIX))),
        ..Default::default()
    })
}

fn ours(context: TableBuildContext, entries: &Entries) -> support::Built {
    let internal: Entries = entries
        .iter()
        .map(|(key, value)| (internal_key(key, 0, ValueType::Value), value.clone()))
        .collect();
    support::build(context, internal.iter().map(|(k, v)| (&k[..], &v[..])))
}

/// A RocksDB over tables.
struct Reader {
    db: Db,
    cf: ColumnFamily,
    options: Options,
    peer: Peer,
    // Last: the files are under the database.
    _dir: TempDir,
}

/// Where a table comes from.
enum Source<'a> {
    Ours(&'a [u8]),
    Theirs(&'a Entries),
}

fn options(peer: &Peer, table: &str) -> Options {
    let mut options = Options::new(peer);
    options
        .set_many(
            "create_if_missing=true;allow_fallocate=false;\
             disable_auto_compactions=true;compression=kNoCompression;\
             prefix_extractor=rocksdb.FixedPrefix.8",
        )
        .unwrap();
    options.set_table(&format!("checksum=kNoChecksum;{table}")).unwrap();
    options.enable_statistics();
    options
}

impl Reader {
    /// Ingests the tables, one after the other.
    fn open(peer: &Peer, table: &str, sources: &[Source<'_>]) -> Self {
        Reader::try_open(peer, table, sources).unwrap()
    }

    fn try_open(peer: &Peer, table: &str, sources: &[Source<'_>]) -> pumice_peer::Result<Self> {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let options = options(peer, table);
        let db = Db::open(&options, &dir.path().join("db")).unwrap();
        let cf = db.default_column_family().clone();
        for (number, source) in sources.iter().enumerate() {
            let file: PathBuf = dir.path().join(format!("{number}.sst"));
            match source {
                Source::Ours(bytes) => std::fs::write(&file, bytes).unwrap(),
                Source::Theirs(entries) => {
                    let mut writer = SstFileWriter::new(&options);
                    writer.open(&file).unwrap();
                    entries.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
                    writer.finish().unwrap();
                }
            }
            db.ingest(&cf, &[&file], false)?;
        }
        Ok(Reader { db, cf, options, peer: peer.clone(), _dir: dir })
    }

    /// Blocks that are read are not kept: each is read, and counted, whenever it is used.
    fn reads(&self, total_order_seek: bool) -> ReadOptions {
        let settings =
            ReadSettings { total_order_seek, fill_cache: false, ..ReadSettings::default() };
        ReadOptions::new(&self.peer, &settings)
    }

    /// How many of the entries are found, with their values. What cannot be read is not found.
    fn found(&self, entries: &Entries) -> usize {
        let reads = self.reads(false);
        let mut value = Vec::with_capacity(VALUE_MAX);
        let mut found = |(key, want): &&(Vec<u8>, Vec<u8>)| {
            self.db.get(&reads, &self.cf, key, &mut value) == Ok(true) && value == *want
        };
        entries.iter().filter(|entry| found(entry)).count()
    }

    /// The same by seeks.
    fn sought(&self, entries: &Entries, total_order_seek: bool) -> usize {
        let mut iter = self.db.iter(&self.reads(total_order_seek), &self.cf);
        let mut found = |(key, value): &&(Vec<u8>, Vec<u8>)| {
            iter.seek(key);
            iter.valid() && iter.key() == key && iter.value() == value
        };
        entries.iter().filter(|entry| found(entry)).count()
    }

    fn tickers<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        names.map(|name| self.options.ticker(name).unwrap_or_else(|| panic!("no {name}")))
    }
}

/// Comparisons of user keys for lookups of all entries.
fn comparisons(reader: &Reader, entries: &Entries) -> u64 {
    let perf = PerfContext::new(&reader.peer);
    assert_eq!(reader.found(entries), entries.len());
    perf.count("user_key_comparison_count").unwrap()
}

/// Where `part` is in `bytes`: once.
fn position(bytes: &[u8], part: &[u8]) -> usize {
    let mut at = (0..=bytes.len() - part.len()).filter(|at| bytes[*at..].starts_with(part));
    let first = at.next().unwrap();
    assert_eq!(at.next(), None, "more than once");
    first
}

#[pumice_test_macros::test]
fn the_hash_index_is_consulted() {
    let Some(peer) = peer() else { return };
    let entries = entries();
    let small = |kind: IndexType| {
        move |table: &mut TableOptions| {
            (table.index_type, table.block_size, table.format_version) = (kind, 256, HASH_FORMAT);
        }
    };
    let built = ours(context(small(IndexType::HashSearch)), &entries).bytes;
    let text = format!("format_version={HASH_FORMAT};index_type=kHashSearch;block_size=256");
    let text = text.as_str();
    let reader = Reader::open(&peer, text, &[Source::Ours(&built)]);
    assert_eq!(reader.sought(&entries, false), entries.len());
    assert_eq!(reader.sought(&entries, true), entries.len());
    // It saves the binary search in the index, as much as that of RocksDB does.
    let theirs = Reader::open(&peer, text, &[Source::Theirs(&entries)]);
    let plain = ours(context(small(IndexType::BinarySearch)), &entries).bytes;
    let plain = Reader::open(&peer, text, &[Source::Ours(&plain)]);
    let counts = [&reader, &theirs, &plain].map(|reader| comparisons(reader, &entries));
    println!("comparisons: hash index {}, RocksDB's {}, none {}", counts[0], counts[1], counts[2]);
    assert_eq!(counts[0], counts[1]);
    assert!(counts[0] + 3 * entries.len() as u64 <= counts[2], "{counts:?}");
    // With other prefixes in the meta block RocksDB does not find existing keys.
    let two = [&key(0, 0)[..PREFIX], &key(2, 0)[..PREFIX]].concat();
    let at = position(&built, &two);
    let mut damaged = built;
    for group in 0..GROUPS as usize {
        assert_eq!(damaged[at + group * PREFIX..][..3], *b"grp");
        damaged[at + group * PREFIX] = b'x';
    }
    let misled = Reader::open(&peer, text, &[Source::Ours(&damaged)]);
    let (found, sought) = (misled.found(&entries), misled.sought(&entries, false));
    println!("other prefixes: {found} found, {sought} sought of {}", entries.len());
    assert!(found * 10 < entries.len() && sought * 10 < entries.len());
    assert_eq!(misled.sought(&entries, true), entries.len(), "total order does without it");
}

#[pumice_test_macros::test]
fn the_data_block_hash_index_is_consulted() {
    let Some(peer) = peer() else { return };
    let mut entries = entries();
    entries.truncate(200);
    let kind = |kind| {
        move |table: &mut TableOptions| {
            (table.data_block_index_type, table.block_size) = (kind, 1 << 16);
        }
    };
    let built = ours(context(kind(DataBlockIndexType::BinaryAndHash)), &entries);
    let text = format!(
        "format_version={FORMAT};data_block_index_type=kDataBlockBinaryAndHash;block_size=65536"
    );
    let text = text.as_str();
    let reader = Reader::open(&peer, text, &[Source::Ours(&built.bytes)]);
    let theirs = Reader::open(&peer, text, &[Source::Theirs(&entries)]);
    let plain = ours(context(kind(DataBlockIndexType::BinarySearch)), &entries).bytes;
    let plain = Reader::open(&peer, text, &[Source::Ours(&plain)]);
    let counts = [&reader, &theirs, &plain].map(|reader| comparisons(reader, &entries));
    println!("comparisons: hash index {}, RocksDB's {}, none {}", counts[0], counts[1], counts[2]);
    assert_eq!(counts[0], counts[1]);
    assert!(counts[0] + entries.len() as u64 <= counts[2], "{counts:?}");
    // One block: entries, restarts, buckets, their number, the packed word, the trailer.
    assert_eq!(built.properties.num_data_blocks, 1);
    let mut damaged = built.bytes;
    let packed = built.properties.data_size as usize - 5 - 4;
    assert_eq!(damaged[packed + 3] & 0x80, 0x80, "the block has a hash index");
    let count = usize::from(u16::from_le_bytes([damaged[packed - 2], damaged[packed - 1]]));
    let buckets = packed - 2 - count..packed - 2;
    assert!(damaged[buckets.clone()].iter().any(|bucket| *bucket < 254));
    damaged[buckets].fill(255);
    // An empty bucket means that at most the last restart interval has the key.
    let misled = Reader::open(&peer, text, &[Source::Ours(&damaged)]);
    assert_eq!(misled.found(&entries), entries.len() % 16);
    assert_eq!(misled.sought(&entries, true), entries.len(), "scans do without it");
}

const POINTS: [&str; 3] = [
    "rocksdb.bloom.filter.useful",
    "rocksdb.bloom.filter.full.positive",
    "rocksdb.bloom.filter.full.true.positive",
];
const PREFIXES: [&str; 3] = [
    "rocksdb.bloom.filter.prefix.checked",
    "rocksdb.bloom.filter.prefix.useful",
    "rocksdb.bloom.filter.prefix.true.positive",
];
const SEEKS: [&str; 2] =
    ["rocksdb.last.level.seek.filtered", "rocksdb.last.level.seek.filter.match"];

/// RocksDB's filter counters.
#[derive(Debug, PartialEq, Eq)]
struct FilterCounts {
    points: [u64; 3],
    prefixes: [u64; 3],
    seeks: [u64; 2],
}

impl FilterCounts {
    fn of(reader: &Reader) -> Self {
        let (points, prefixes) = (reader.tickers(POINTS), reader.tickers(PREFIXES));
        FilterCounts { points, prefixes, seeks: reader.tickers(SEEKS) }
    }

    fn since(&self, start: &FilterCounts) -> Self {
        fn less<const N: usize>(now: [u64; N], start: [u64; N]) -> [u64; N] {
            std::array::from_fn(|i| now[i] - start[i])
        }
        FilterCounts {
            points: less(self.points, start.points),
            prefixes: less(self.prefixes, start.prefixes),
            seeks: less(self.seeks, start.seeks),
        }
    }
}

/// The counters for lookups of existing keys, of absent keys in existing groups, of absent groups,
/// and for seeks to groups.
fn filter_counts(reader: &Reader, entries: &Entries) -> FilterCounts {
    let start = FilterCounts::of(reader);
    assert_eq!(reader.found(entries), entries.len());
    let reads = reader.reads(false);
    let mut value = Vec::with_capacity(VALUE_MAX);
    let mut absent = |key: &[u8]| {
        assert_eq!(reader.db.get(&reads, &reader.cf, key, &mut value), Ok(false));
    };
    for group in 0..GROUPS - 1 {
        absent(&key(group * 2, 1));
        absent(&key(group * 2 + 1, 0));
        absent(&key(group * 2 + 1, 2));
    }
    let mut iter = reader.db.iter(&reads, &reader.cf);
    for group in 0..2 * GROUPS - 1 {
        let (first, behind) = (key(group, 0), key(group, 999));
        iter.seek(&first[..PREFIX]);
        assert_eq!(iter.key().starts_with(&first[..PREFIX]), group % 2 == 0);
        iter.seek_for_prev(&behind);
        assert_eq!(iter.key().starts_with(&first[..PREFIX]), group % 2 == 0);
    }
    FilterCounts::of(reader).since(&start)
}

/// The filter is so precise that these keys meet no false positive.
fn a_filter_is_consulted(peer: &Peer, entries: &Entries, options: TableOptions, text: &str) {
    let whole = options.whole_key_filtering;
    let built = ours(context(|table| *table = options), entries);
    let reader = Reader::open(peer, text, &[Source::Ours(&built.bytes)]);
    let theirs = Reader::open(peer, text, &[Source::Theirs(entries)]);
    let counts = filter_counts(&reader, entries);
    assert_eq!(counts, filter_counts(&theirs, entries), "{text}");
    let (present, absent) = (entries.len() as u64, GROUPS - 1);
    if whole {
        assert_eq!(counts.points, [3 * absent, present, present], "{text}");
        assert_eq!(counts.prefixes, [0; 3], "{text}");
    } else {
        assert_eq!(counts.points, [0; 3], "{text}");
        assert_eq!(counts.prefixes, [present + 3 * absent, 2 * absent, present], "{text}");
    }
    // Half of the groups are not there: each is sought forward and backward.
    assert_eq!(counts.seeks[0], 2 * absent, "{text} {counts:?}");
    assert!(counts.seeks[1] >= 2 * GROUPS, "{text} {counts:?}");
}

#[pumice_test_macros::test]
fn filters_are_consulted() {
    let Some(peer) = peer() else { return };
    let entries = entries();
    let policies = [
        (FilterPolicy::bloom(30.0), "bloomfilter:30:false"),
        (FilterPolicy::ribbon(30.0, -1), "ribbonfilter:30:-1"),
    ];
    for (policy, name) in policies {
        for (partitioned, decoupled) in [(false, false), (true, false), (true, true)] {
            for whole in [true, false] {
                let options = TableOptions {
                    checksum: ChecksumType::None,
                    format_version: FORMAT,
                    filter_policy: Some(policy),
                    index_type: IndexType::TwoLevel,
                    metadata_block_size: 1024,
                    partition_filters: partitioned,
                    decouple_partitioned_filters: decoupled,
                    whole_key_filtering: whole,
                    block_size: 512,
                    ..Default::default()
                };
                let text = format!(
                    "format_version={FORMAT};block_size=512;metadata_block_size=1024;\
                     index_type=kTwoLevelIndexSearch;filter_policy={name};\
                     partition_filters={partitioned};decouple_partitioned_filters={decoupled};\
                     whole_key_filtering={whole}"
                );
                a_filter_is_consulted(&peer, &entries, options, &text);
            }
        }
    }
}

/// Where the dictionary of a table is.
fn dictionary(bytes: &[u8]) -> std::ops::Range<usize> {
    let table = support::open(TableReadContext::default(), bytes).unwrap();
    let text = String::from_utf8_lossy(&dump::raw_text(&table, false).unwrap()).into_owned();
    let line = text.lines().find(|line| line.contains("Compression dictionary")).unwrap();
    let hex = line.rsplit(' ').next().unwrap();
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let stored: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect();
    let mut numbers = pumice_base::coding::Decoder::new(&stored);
    let (offset, size) = (numbers.varint64().unwrap(), numbers.varint64().unwrap());
    offset as usize..(offset + size) as usize
}

#[pumice_test_macros::test]
fn dictionaries_are_consulted() {
    let Some(peer) = peer() else { return };
    let entries = entries();
    for codec in [CompressionType::Zstd, CompressionType::Lz4, CompressionType::Zlib] {
        for train in [0, 1 << 16] {
            if train > 0 && codec != CompressionType::Zstd {
                continue;
            }
            let mut context = context(|table| table.block_size = 512);
            context.compression = codec;
            context.compression_opts = CompressionOptions {
                max_dict_bytes: 2048,
                zstd_max_train_bytes: train,
                ..CompressionOptions::default()
            };
            let mut bytes = ours(context, &entries).bytes;
            let at = dictionary(&bytes);
            assert!(!at.is_empty() && at.len() <= 2048, "{codec:?} {at:?}");
            let text = format!("format_version={FORMAT};block_size=512");
            let whole = Reader::open(&peer, &text, &[Source::Ours(&bytes)]);
            assert_eq!(whole.found(&entries), entries.len(), "{codec:?}");
            // The content is at the end, after the tables of a trained dictionary.
            let content = at.end - at.len() / 2..at.end;
            bytes[content].fill(b'?');
            // A table whose first block cannot be read is not even ingested.
            let misled = Reader::try_open(&peer, &text, &[Source::Ours(&bytes)]);
            let found = misled.map_or(0, |misled| misled.found(&entries));
            println!("{codec:?} train {train}: {found} of {} without dictionary", entries.len());
            assert!(found * 4 < entries.len() * 3, "{codec:?} {train}: {found}");
        }
    }
}

/// Every other key in one table, the rest in another one above it. A seek reads a block of the
/// table that has the key; where the other table's position is the start of a block, the index has
/// its first key.
#[pumice_test_macros::test]
fn first_keys_of_the_index_are_consulted() {
    let Some(peer) = peer() else { return };
    let all = entries();
    let every_other = |from: usize| all.iter().skip(from).step_by(2).cloned().collect::<Entries>();
    let halves = [every_other(0), every_other(1)];
    let reads = |sources: &[Source<'_>], text: &str| {
        let reader = Reader::open(&peer, text, sources);
        let perf = PerfContext::new(&peer);
        // Each seek by a new iterator, which has no block yet.
        let alone = |entry: &(Vec<u8>, Vec<u8>)| reader.sought(&vec![entry.clone()], true);
        assert_eq!(halves[0].iter().map(alone).sum::<usize>(), halves[0].len());
        perf.count("block_read_count").unwrap()
    };
    let of = |kind: IndexType, text: &str| {
        let mut number = 0;
        let built = halves.each_ref().map(|half| {
            let change = |table: &mut TableOptions| {
                (table.index_type, table.block_size) = (kind, 256);
            };
            // Two files of one number would share their places in a block cache.
            number += 1;
            let context = TableBuildContext { original_file_number: number, ..context(change) };
            ours(context, half).bytes
        });
        let ours = reads(&built.each_ref().map(|bytes| Source::Ours(bytes)), text);
        (ours, reads(&halves.each_ref().map(Source::Theirs), text))
    };
    let text = |kind| format!("format_version={FORMAT};block_size=256;index_type={kind}");
    let plain = of(IndexType::BinarySearch, &text("kBinarySearch"));
    let first = of(IndexType::BinarySearchWithFirstKey, &text("kBinarySearchWithFirstKey"));
    println!("blocks read, ours and RocksDB's: {first:?} with first keys, {plain:?} without");
    assert_eq!(plain.0, plain.1);
    assert_eq!(first.0, first.1);
    assert!(first.0 * 20 < plain.0 * 19, "{first:?} {plain:?}");
}
