//! Forms of blocks that RocksDB has had since version 11: ours are those of RocksDB 11.8.1, byte
//! for byte, and each engine reads what the other wrote. Skipped with a message where its library
//! is missing.
//!
//! A program of its own, because it loads another RocksDB than the other tests of tables.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use pumice_base::key::InternalKey;
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKeyComparator};
use pumice_compress::{CompressionManager, CompressionType};
use pumice_peer::{Db, Options, Peer, ReadOptions, ReadSettings, WriteOptions, WriteSettings};
use pumice_table::{
    DataBlockIndexType, IndexType, Table, TableBuildContext, TableOptions, TableReadOptions,
    UserDefinedIndex,
};

type Bytes = Vec<u8>;

fn peer() -> Option<Peer> {
    pumice_peer::installed_11_8().map(|library| Peer::load(library).unwrap())
}

const KINDS: [(IndexType, &str); 4] = [
    (IndexType::BinarySearch, "kBinarySearch"),
    (IndexType::HashSearch, "kHashSearch"),
    (IndexType::TwoLevel, "kTwoLevelIndexSearch"),
    (IndexType::BinarySearchWithFirstKey, "kBinarySearchWithFirstKey"),
];

/// Drawn settings, for both engines, and what is put into the table.
#[derive(Clone)]
struct Case {
    seed: u64,
    family: String,
    table: String,
    context: TableBuildContext,
    entries: BTreeMap<Bytes, Bytes>,
    /// Versions of a key, all of which the table has.
    versions: usize,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let of = |rng: &mut Rng, list: &[usize]| list[rng.uniform(list.len() as u64) as usize];
        let (index_type, index_name) = KINDS[rng.uniform(4) as usize];
        let (packed, reverse) = (rng.one_in(3), rng.one_in(4));
        let hash = rng.one_in(3);
        let options = TableOptions {
            index_type,
            data_block_index_type: match hash {
                true => DataBlockIndexType::BinaryAndHash,
                false => DataBlockIndexType::BinarySearch,
            },
            block_size: of(&mut rng, &[300, 1000, 4096, 20_000]),
            block_size_deviation: of(&mut rng, &[0, 10, 60]) as u32,
            // RocksDB gives up hash indexes for the rest of a table after a block with more than
            // 254 restart points.
            block_restart_interval: of(&mut rng, if hash { &[16, 40] } else { &[1, 2, 16, 40] })
                as u32,
            index_block_restart_interval: match index_type {
                IndexType::HashSearch => 1,
                _ => of(&mut rng, &[1, 3]) as u32,
            },
            use_delta_encoding: !rng.one_in(4),
            // Later ones have checksums that differ from file to file.
            format_version: 2 + rng.uniform(4) as u32,
            enable_index_compression: false,
            ..TableOptions::default()
        };
        let o = &options;
        let table = format!(
            "index_type={index_name};data_block_index_type={};block_size={};\
             block_size_deviation={};block_restart_interval={};index_block_restart_interval={};\
             use_delta_encoding={};format_version={};enable_index_compression=false;",
            if hash { "kDataBlockBinaryAndHash" } else { "kDataBlockBinarySearch" },
            o.block_size,
            o.block_size_deviation,
            o.block_restart_interval,
            o.index_block_restart_interval,
            o.use_delta_encoding,
            o.format_version,
        );
        let order = if reverse { "ReverseBytewise" } else { "leveldb.Bytewise" };
        let order = order.replace("ReverseBytewise", "rocksdb.ReverseBytewise");
        let family = format!(
            "compression={};comparator={order}Comparator;prefix_extractor=rocksdb.FixedPrefix.2",
            if packed { "kLZ4Compression" } else { "kNoCompression" },
        );
        let comparator = if reverse { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let context = TableBuildContext {
            table: Arc::new(options),
            comparator: InternalKeyComparator::new(comparator),
            compression: if packed { CompressionType::Lz4 } else { CompressionType::None },
            prefix_extractor: Some(Arc::new(pumice_base::extension::FixedPrefix(2))),
            ..TableBuildContext::default()
        };
        let versions = if rng.one_in(3) { 5 } else { 1 };
        Case { seed, family, table, context, entries: entries(&mut rng), versions }
    }

    fn change(&mut self, change: impl FnOnce(&mut TableOptions), table: &str) {
        change(Arc::make_mut(&mut self.context.table));
        self.table += table;
    }

    fn name(&self) -> String {
        format!("seed {}: {}{}", self.seed, self.table, self.family)
    }

    fn options(&self, peer: &Peer) -> Options {
        let mut options = Options::new(peer);
        options.set_many("create_if_missing=true;disable_auto_compactions=true").unwrap();
        options.set_many(&self.family).unwrap();
        options.set_table(&self.table).unwrap_or_else(|e| panic!("{}: {e}", self.name()));
        options
    }

    /// RocksDB's file of the entries, with its versions.
    fn theirs(&self, peer: &Peer) -> Bytes {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let db = Db::open(&self.options(peer), dir.path()).unwrap();
        let cf = db.default_column_family().clone();
        let write = WriteOptions::new(peer, &WriteSettings::default());
        let mut snapshots = Vec::new();
        for version in 0..self.versions {
            for (key, value) in &self.entries {
                let value = if version + 1 == self.versions { &value[..] } else { b"old" };
                db.put(&write, &cf, key, value).unwrap();
            }
            snapshots.push(db.snapshot());
        }
        db.flush(&cf).unwrap();
        let files = db.live_files();
        assert_eq!(files.len(), 1);
        std::fs::read(dir.path().join(files[0].name.trim_start_matches('/'))).unwrap()
    }

    fn open(&self, bytes: &[u8]) -> Arc<Table> {
        support::open(support::read_context(&self.context), bytes)
            .unwrap_or_else(|e| panic!("{}: {e}", self.name()))
    }

    /// The same entries by our builder.
    fn ours(&self, list: &[(Bytes, Bytes)]) -> support::Built {
        support::build(self.context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])))
    }

    /// The entries in their order.
    fn ordered(&self) -> Vec<(&Bytes, &Bytes)> {
        let mut list: Vec<_> = self.entries.iter().collect();
        if self.context.comparator.user.name().contains("Reverse") {
            list.reverse();
        }
        list
    }
}

/// Keys of even and uneven distances, values from none to more than a block.
fn entries(rng: &mut Rng) -> BTreeMap<Bytes, Bytes> {
    let step = [0, 7][rng.uniform(2) as usize];
    let longest = [3, 60, 500][rng.uniform(3) as usize];
    let mut number = 0;
    let mut list = BTreeMap::new();
    for _ in 0..500 + rng.uniform(2500) {
        let far = 1 << rng.uniform(12);
        number += if step > 0 { step } else { 1 + rng.uniform(far) };
        let tail = if step > 0 { "".into() } else { "x".repeat(rng.uniform(20) as usize) };
        let len = if rng.one_in(300) { 30_000 } else { rng.uniform(longest) as usize };
        let mut value = rng.bytes(len.div_ceil(2));
        value.resize(len, b'v');
        list.insert(format!("key{number:08}{tail}").into_bytes(), value);
    }
    list
}

/// All entries of a table.
fn contents(table: &Arc<Table>) -> Vec<(Bytes, Bytes)> {
    let mut iter = table.iter(&TableReadOptions { total_order_seek: true, ..Default::default() });
    let mut all = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        all.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    all
}

/// Tables of both engines of one case. Our data blocks and index must be RocksDB's.
fn compare(peer: &Peer, case: &Case) -> (Arc<Table>, support::Built) {
    let theirs = case.theirs(peer);
    let table = case.open(&theirs);
    let list = contents(&table);
    assert_eq!(list.len(), case.versions * case.entries.len(), "{}", case.name());
    let newest = list.iter().step_by(case.versions);
    for ((key, value), (user, want)) in newest.zip(case.ordered()) {
        let found = InternalKey::new(key).user_key().as_bytes();
        assert_eq!((found, value), (&user[..], want), "{}", case.name());
    }
    let ours = case.ours(&list);
    let (mine, other) = (&ours.properties, table.properties());
    assert_eq!(mine.data_size, other.data_size, "{}", case.name());
    let mut end = other.data_size;
    // Partitions are cut elsewhere, and blocks of prefixes lie elsewhere.
    if !matches!(case.context.table.index_type, IndexType::TwoLevel | IndexType::HashSearch) {
        assert_eq!(mine.index_size, other.index_size, "{}", case.name());
        end += other.index_size;
    }
    let differs = ours.bytes.iter().zip(&theirs).take(end as usize).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{}: data ends at {}", case.name(), other.data_size);
    assert_eq!(contents(&case.open(&ours.bytes)), list, "{}", case.name());
    (table, ours)
}

/// RocksDB ingests our table of the newest values and gets, scans and seeks them.
fn read_by_rocksdb(peer: &Peer, case: &Case) {
    let mut case = Case { context: support::external(case.context.clone()), ..case.clone() };
    let format = 2 + case.seed % 6;
    case.change(|o| o.format_version = format as u32, "");
    let name = case.name();
    let list: Vec<(Bytes, Bytes)> = case
        .ordered()
        .into_iter()
        .map(|(key, value)| {
            (pumice_base::key::internal_key(key, 0, pumice_base::ValueType::Value), value.clone())
        })
        .collect();
    let built = case.ours(&list);
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = dir.path().join("ours.sst");
    std::fs::write(&file, built.bytes).unwrap();
    let db = Db::open(&case.options(peer), &dir.path().join("db")).unwrap();
    let cf = db.default_column_family().clone();
    db.ingest(&cf, &[&file], false).unwrap_or_else(|e| panic!("{name}: {e}"));
    let settings = ReadSettings { total_order_seek: true, ..ReadSettings::default() };
    let read = ReadOptions::new(peer, &settings);
    let mut value = Vec::new();
    for (key, want) in &case.entries {
        assert!(db.get(&read, &cf, key, &mut value).unwrap(), "{name}: {key:?} is missing");
        assert_eq!(&value, want, "{name}");
    }
    let mut iter = db.iter(&read, &cf);
    for backward in [false, true] {
        if backward {
            iter.seek_to_last()
        } else {
            iter.seek_to_first()
        }
        let mut list = case.ordered();
        if backward {
            list.reverse();
        }
        for (key, value) in list {
            assert!(iter.valid(), "{name}");
            assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]), "{name}");
            if backward { iter.prev() } else { iter.next() }
        }
        assert!(!iter.valid(), "{name}");
        iter.status().unwrap();
    }
    let mut rng = Rng::new(case.seed);
    let ordered = case.ordered();
    for _ in 0..300 {
        let mut target = ordered[rng.uniform(ordered.len() as u64) as usize].0.clone();
        if rng.one_in(2) {
            target.push(b'!');
        }
        let above = (Bound::Included(&target), Bound::Unbounded);
        let below = (Bound::Unbounded, Bound::Included(&target));
        let found = match case.context.comparator.user.name().contains("Reverse") {
            true => case.entries.range::<Bytes, _>(below).next_back(),
            false => case.entries.range::<Bytes, _>(above).next(),
        };
        iter.seek(&target);
        let landed = iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()));
        assert_eq!(landed, found.map(|(k, v)| (k.clone(), v.clone())), "{name}: {target:?}");
    }
}

/// `separate_key_value_in_data_block`.
#[pumice_test_macros::test]
fn data_blocks_are_those_of_rocksdb() {
    let Some(peer) = peer() else { return };
    let separated = "separate_key_value_in_data_block=true;";
    for seed in 0..40 {
        let mut case = Case::new(seed);
        case.change(|o| o.separate_key_value_in_data_block = true, separated);
        let (table, ours) = compare(&peer, &case);
        let facts = |p: &pumice_table::TableProperties| {
            (
                p.separate_key_value_in_data_block,
                p.data_block_restart_interval,
                p.index_block_restart_interval,
                p.num_data_blocks,
            )
        };
        assert_eq!(facts(&ours.properties), facts(table.properties()), "{}", case.name());
        assert_eq!(ours.properties.separate_key_value_in_data_block, 1);
        read_by_rocksdb(&peer, &case);
    }
}

/// `uniform_cv_threshold`, which marks index blocks; RocksDB searches those otherwise.
#[pumice_test_macros::test]
fn even_indexes_are_marked_where_rocksdb_marks_them() {
    let Some(peer) = peer() else { return };
    let mut marked = [0; 2];
    for seed in 100..140 {
        let mut case = Case::new(seed);
        let threshold = [0.0, 0.05, 0.3, 1.5][seed as usize % 4];
        let text = format!("uniform_cv_threshold={threshold};index_block_search_type=kAuto;");
        case.change(|o| o.uniform_cv_threshold = threshold, &text);
        let (table, ours) = compare(&peer, &case);
        let of_ours = ours.properties.num_uniform_blocks;
        if case.context.table.index_type == IndexType::TwoLevel {
            assert_eq!(of_ours > 0, table.properties().num_uniform_blocks > 0, "{}", case.name());
        } else {
            assert_eq!(of_ours, table.properties().num_uniform_blocks, "{}", case.name());
        }
        marked[usize::from(of_ours > 0)] += 1;
        read_by_rocksdb(&peer, &case);
    }
    assert!(marked[0] > 5 && marked[1] > 5, "{marked:?}");
}

/// `super_block_alignment_size`: gaps, sizes and handles are RocksDB's.
#[pumice_test_macros::test]
fn blocks_lie_in_one_super_block_where_rocksdbs_do() {
    let Some(peer) = peer() else { return };
    let mut gaps = 0;
    for seed in 200..240 {
        let mut case = Case::new(seed);
        let bytes = [8 << 10, 16 << 10, 64 << 10][seed as usize % 3];
        let ratio = [0, 4, 5, 16][seed as usize / 3 % 4];
        let text = format!(
            "super_block_alignment_size={bytes};\
             super_block_alignment_space_overhead_ratio={ratio};"
        );
        case.change(
            |o| {
                o.super_block_alignment_size = bytes;
                o.super_block_alignment_space_overhead_ratio = ratio;
            },
            &text,
        );
        let (table, ours) = compare(&peer, &case);
        let list = contents(&table);
        let mut plain = case.clone();
        plain.change(|o| o.super_block_alignment_size = 0, "");
        let without = plain.ours(&list).properties.data_size;
        let with = ours.properties.data_size;
        assert!(ratio > 0 || with == without, "{}", case.name());
        gaps += usize::from(with > without);
        read_by_rocksdb(&peer, &case);
    }
    assert!(gaps > 10, "{gaps}");
}

/// The trie index among the meta blocks.
fn trie_of<'b>(table: &Table, bytes: &'b [u8]) -> &'b [u8] {
    let text = pumice_table::dump::meta_blocks_text(table).unwrap();
    let (_, place) = text.split_once("rocksdb.user_defined_index.trie_index: ").unwrap();
    let mut numbers = place.lines().next().unwrap().split(' ').map(|n| n.parse().unwrap());
    let (offset, len): (usize, usize) = (numbers.next().unwrap(), numbers.next().unwrap());
    &bytes[offset..offset + len]
}

/// `user_defined_index_factory`: our tries have the bytes of RocksDB's, and each engine reads what
/// the other wrote through them.
#[pumice_test_macros::test]
fn trie_indexes_are_those_of_rocksdb() {
    let Some(peer) = peer() else { return };
    let (mut seen, mut same) = (0, 0);
    for seed in 300..380 {
        let mut case = Case::new(seed);
        if case.context.comparator.user.name().contains("Reverse") {
            continue;
        }
        let two_level = case.context.table.index_type == IndexType::TwoLevel;
        case.change(
            |o| {
                o.user_defined_index_factory = Some(UserDefinedIndex::Trie);
                o.use_udi_as_primary_index = !two_level;
            },
            &format!(
                "user_defined_index_factory=trie_index;use_udi_as_primary_index={};",
                !two_level
            ),
        );
        let theirs = case.theirs(&peer);
        let table = case.open(&theirs);
        let list = contents(&table);
        assert_eq!(list.len(), case.versions * case.entries.len(), "{}", case.name());
        let asked = TableReadOptions {
            total_order_seek: true,
            table_index_factory: Some(UserDefinedIndex::Trie),
            ..Default::default()
        };
        for (key, value) in &list {
            let mut found = None;
            let mut note = |_: pumice_base::key::ParsedInternalKey<'_>, value: &[u8], _: &_| {
                found = Some(value.to_vec());
                false
            };
            table.get(&asked, InternalKey::new(key), &mut note).unwrap();
            assert_eq!(found.as_ref(), Some(value), "{}: {key:x?}", case.name());
        }
        let ours = case.ours(&list);
        assert_eq!(ours.properties.udi_is_primary_index, table.properties().udi_is_primary_index);
        let own = case.open(&ours.bytes);
        let (mine, other) = (trie_of(&own, &ours.bytes), trie_of(&table, &theirs));
        let differs = mine.iter().zip(other).position(|(a, b)| a != b);
        assert_eq!(mine.len(), other.len(), "{}: {differs:?}", case.name());
        seen += 1;
        same += usize::from(differs.is_none());
        assert_eq!(differs, None, "{}", case.name());
        read_by_rocksdb(&peer, &case);
    }
    assert!(seen > 40, "{seen} {same}");
}

/// RocksDB reads tables of each compression manager in each version of the format.
#[pumice_test_macros::test]
fn rocksdb_reads_what_managers_choose() {
    let Some(peer) = peer() else { return };
    let managers = [
        None,
        Some(CompressionManager::BuiltinV2),
        Some(CompressionManager::RoundRobin),
        Some(CompressionManager::CostAware),
        Some(CompressionManager::AutoSkip),
    ];
    for (manager, seed) in managers.into_iter().flat_map(|m| (200..212).map(move |s| (m, s))) {
        let mut case = Case::new(seed);
        case.context.compression_manager = manager;
        case.context.compression = CompressionType::Lz4;
        case.context.compression_opts.auto_skip = manager.is_none();
        if seed % 2 == 0 {
            case.context.compression_opts.max_dict_bytes = 1000;
        }
        case.change(|o| o.enable_index_compression = true, "");
        read_by_rocksdb(&peer, &case);
    }
}

/// With the one manager that can be named in RocksDB's options, properties are RocksDB's.
#[pumice_test_macros::test]
fn properties_of_a_manager_are_those_of_rocksdb() {
    let Some(peer) = peer() else { return };
    for kind in [CompressionType::None, CompressionType::Lz4, CompressionType::Zstd] {
        let mut case = Case::new(220);
        case.versions = 1;
        case.context.compression = kind;
        case.context.compression_manager = Some(CompressionManager::BuiltinV2);
        case.change(|o| o.format_version = 7, "format_version=7;");
        let name = kind.option_name();
        case.family += &format!(";compression={name};compression_manager=BuiltinV2");
        let table = case.open(&case.theirs(&peer));
        let ours = case.ours(&contents(&table)).properties;
        let facts = |p: &pumice_table::TableProperties| {
            (p.compression.clone(), p.compression_options.clone())
        };
        assert_eq!(facts(&ours), facts(table.properties()), "{name}");
    }
}
