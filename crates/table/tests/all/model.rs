//! Tables against a sorted map: every way of building, every way of reading.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::support;
use pumice_base::checksum::ChecksumType;
use pumice_base::extension::FixedPrefix;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, parse_internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKeyComparator, UserKey, ValueType};
use pumice_compress::CompressionType;
use pumice_filter::FilterPolicy;
use pumice_table::{
    IndexShortening, IndexType, Table, TableBuildContext, TableIter, TableOptions,
    TableReadOptions, UserDefinedIndex,
};

pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Random entries in order: user keys with long common prefixes, zeros and keys that are prefixes
/// of others; up to `versions` versions each.
pub fn entries(rng: &mut Rng, cmp: &Comparator, keys: usize, versions: u64) -> Entries {
    let icmp = InternalKeyComparator::new(cmp.clone());
    let mut list = Entries::new();
    for _ in 0..keys {
        let user = random_key(rng);
        for _ in 0..1 + rng.uniform(versions) {
            let kind = match rng.uniform(8) {
                0 => ValueType::Deletion,
                1 => ValueType::Merge,
                _ => ValueType::Value,
            };
            let key = internal_key(&user, 1 + rng.uniform(1 << 20), kind);
            let len = if rng.one_in(50) { rng.uniform(3000) } else { rng.uniform(120) };
            list.push((key, rng.bytes(len as usize)));
        }
    }
    list.sort_by(|a, b| icmp.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
    list.dedup_by(|a, b| a.0 == b.0);
    list
}

fn random_key(rng: &mut Rng) -> Vec<u8> {
    let mut key = match rng.uniform(4) {
        0 => b"common/prefix/that/is/long/".to_vec(),
        1 => vec![0; rng.uniform(4) as usize],
        2 => format!("{:016}", rng.uniform(3000)).into_bytes(),
        _ => Vec::new(),
    };
    for _ in 0..rng.uniform(6) {
        key.push([0, 1, 7, b'a', 0xff][rng.uniform(5) as usize]);
    }
    key
}

fn random_context(rng: &mut Rng, cmp: &Comparator) -> TableBuildContext {
    let checksums = [
        ChecksumType::None,
        ChecksumType::Crc32c,
        ChecksumType::XxHash,
        ChecksumType::XxHash64,
        ChecksumType::Xxh3,
    ];
    let codecs = [
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Zlib,
        CompressionType::Bzip2,
        CompressionType::Lz4,
        CompressionType::Lz4hc,
        CompressionType::Zstd,
    ];
    let compression = codecs[rng.uniform(codecs.len() as u64) as usize];
    let cached = rng.one_in(2);
    let options = TableOptions {
        block_cache: cached.then(|| support::cache(1 << (12 + rng.uniform(12)))),
        block_size: [64, 300, 1024, 4096][rng.uniform(4) as usize],
        block_restart_interval: 1 + rng.uniform(20) as u32,
        index_block_restart_interval: 1 + rng.uniform(4) as u32,
        checksum: checksums[rng.uniform(5) as usize],
        format_version: 2 + rng.uniform(6) as u32,
        filter_policy: rng.one_in(2).then(|| FilterPolicy::bloom(10.0)),
        whole_key_filtering: !rng.one_in(4),
        cache_index_and_filter_blocks: rng.one_in(2),
        use_delta_encoding: !rng.one_in(4),
        enable_index_compression: rng.one_in(2),
        verify_compression: rng.one_in(3),
        block_align: compression == CompressionType::None && rng.one_in(4),
        index_shortening: [
            IndexShortening::None,
            IndexShortening::Separators,
            IndexShortening::SeparatorsAndSuccessor,
        ][rng.uniform(3) as usize],
        separate_key_value_in_data_block: rng.one_in(3),
        super_block_alignment_size: [0, 1024, 8192][rng.uniform(3) as usize],
        super_block_alignment_space_overhead_ratio: 4,
        uniform_cv_threshold: [-1.0, 0.5][rng.uniform(2) as usize],
        ..Default::default()
    };
    let mut options = options;
    if options.block_align {
        options.block_size = options.block_size.next_power_of_two();
    }
    TableBuildContext {
        table: Arc::new(options),
        comparator: InternalKeyComparator::new(cmp.clone()),
        compression,
        prefix_extractor: if rng.one_in(4) { Some(Arc::new(FixedPrefix(3))) } else { None },
        original_file_number: 7,
        db_id: "db".into(),
        db_session_id: "ABCDEFGHIJKLMNOPQRST".into(),
        ..Default::default()
    }
}

fn check_position(iter: &TableIter, want: Option<&(Vec<u8>, Vec<u8>)>, what: &str) {
    iter.status().unwrap();
    match want {
        None => assert!(!iter.valid(), "{what}: should be at the end"),
        Some((key, value)) => {
            assert!(iter.valid(), "{what}: should be valid");
            assert_eq!((iter.key().as_bytes(), iter.value()), (&key[..], &value[..]), "{what}");
        }
    }
}

pub fn check_iteration(table: &Arc<Table>, list: &Entries, ro: &TableReadOptions) {
    let mut iter = table.iter(ro);
    iter.seek_to_first();
    for entry in list {
        check_position(&iter, Some(entry), "forward");
        iter.next();
    }
    check_position(&iter, None, "forward");
    iter.seek_to_last();
    for entry in list.iter().rev() {
        check_position(&iter, Some(entry), "backward");
        iter.prev();
    }
    check_position(&iter, None, "backward");
}

pub fn check_seeks(rng: &mut Rng, table: &Arc<Table>, list: &Entries, ro: &TableReadOptions) {
    let cmp = table.comparator().clone();
    let mut iter = table.iter(&TableReadOptions { total_order_seek: true, ..ro.clone() });
    for _ in 0..300 {
        let target = random_target(rng, list);
        let at = list.partition_point(|e| {
            cmp.compare(InternalKey::new(&e.0), InternalKey::new(&target)) == Ordering::Less
        });
        if rng.one_in(2) {
            iter.seek(InternalKey::new(&target));
            check_position(&iter, list.get(at), "seek");
        } else {
            iter.seek_for_prev(InternalKey::new(&target));
            let exact = list.get(at).is_some_and(|e| e.0 == target);
            let at = if exact { Some(at) } else { at.checked_sub(1) };
            check_position(&iter, at.map(|i| &list[i]), "seek_for_prev");
        }
        walk(rng, &mut iter, list);
    }
}

/// Steps both ways from the iterator's position.
fn walk(rng: &mut Rng, iter: &mut TableIter, list: &Entries) {
    if !iter.valid() {
        return;
    }
    let mut at = list.iter().position(|e| e.0 == iter.key().as_bytes()).unwrap();
    for _ in 0..rng.uniform(40) {
        if rng.one_in(3) {
            let Some(before) = at.checked_sub(1) else { return };
            at = before;
            iter.prev();
        } else {
            at += 1;
            iter.next();
        }
        check_position(iter, list.get(at), "walk");
        if at >= list.len() {
            return;
        }
    }
}

fn random_target(rng: &mut Rng, list: &Entries) -> Vec<u8> {
    let user = if rng.one_in(2) {
        InternalKey::new(&list[rng.uniform(list.len() as u64) as usize].0).user_key().to_vec()
    } else {
        random_key(rng)
    };
    let seq = if rng.one_in(3) { MAX_SEQUENCE } else { rng.uniform(1 << 20) };
    seek_key(&user, seq)
}

pub fn check_gets(rng: &mut Rng, table: &Arc<Table>, list: &Entries, ro: &TableReadOptions) {
    let cmp = table.comparator().clone();
    for _ in 0..300 {
        let target = random_target(rng, list);
        let limit = if rng.one_in(2) { 1 } else { usize::MAX };
        let mut got = Vec::new();
        table
            .get(ro, InternalKey::new(&target), &mut |key, value, block| {
                let (pin, at) = block.pin(value);
                assert_eq!(&pin.bytes()[at..at + value.len()], value);
                let ikey = internal_key(key.user_key, key.sequence, key.value_type);
                got.push((ikey, value.to_vec()));
                got.len() < limit
            })
            .unwrap();
        let want: Entries = list
            .iter()
            .filter(|e| {
                InternalKey::new(&e.0).user_key().has_bytes_of(InternalKey::new(&target).user_key())
            })
            .filter(|e| {
                cmp.compare(InternalKey::new(&e.0), InternalKey::new(&target)) != Ordering::Less
            })
            .take(limit)
            .cloned()
            .collect();
        assert_eq!(got, want);
        if !want.is_empty() {
            assert!(
                table.key_may_match(ro, InternalKey::new(&target).user_key().as_bytes()).unwrap()
            );
        }
    }
}

#[pumice_test_macros::test]
fn random_tables_read_as_the_map() {
    for seed in 0..80 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let cmp = if seed % 3 == 2 { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let context = random_context(&mut rng, &cmp);
        let keys = 1 + rng.uniform(if seed % 4 == 0 { 5 } else { 800 }) as usize;
        let versions = 1 + rng.uniform(6);
        let list = entries(&mut rng, &cmp, keys, versions);
        let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
        assert_eq!(built.properties.num_entries, list.len() as u64);
        let mut read = support::read_context(&context);
        read.tail_size = if rng.one_in(2) { built.tail_size } else { 0 };
        let table = support::open(read, &built.bytes).unwrap();
        assert_eq!(table.properties(), &built.properties);
        table.verify_checksums().unwrap();
        for fill_cache in [true, false] {
            let readahead_size = [0, 2 << 20, 5000][rng.uniform(3) as usize];
            let ro = TableReadOptions { fill_cache, readahead_size, ..Default::default() };
            check_iteration(&table, &list, &TableReadOptions::clone(&ro));
            check_seeks(&mut rng, &table, &list, &ro);
            check_gets(&mut rng, &table, &list, &ro);
        }
        check_offsets(&table, &list);
    }
}

/// The same through a trie index, be it the primary one or asked for.
#[pumice_test_macros::test]
fn reads_through_a_trie_find_what_the_map_has() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut context = random_context(&mut rng, &Comparator::Bytewise);
        let primary = rng.one_in(2);
        let options = Arc::make_mut(&mut context.table);
        options.user_defined_index_factory = Some(UserDefinedIndex::Trie);
        options.use_udi_as_primary_index = primary;
        options.fail_if_no_udi_on_open = rng.one_in(2);
        if !primary && rng.one_in(3) {
            options.index_type = IndexType::TwoLevel;
            options.metadata_block_size = 200;
        }
        let versions = 1 + rng.uniform(12);
        let keys = 1 + rng.uniform(400) as usize;
        let list = entries(&mut rng, &Comparator::Bytewise, keys, versions);
        let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
        let table = support::open(support::read_context(&context), &built.bytes).unwrap();
        table.verify_checksums().unwrap();
        for asked in [true, primary] {
            let table_index_factory = asked.then_some(UserDefinedIndex::Trie);
            let ro = TableReadOptions { table_index_factory, ..Default::default() };
            check_iteration(&table, &list, &ro);
            check_seeks(&mut rng, &table, &list, &ro);
            check_gets(&mut rng, &table, &list, &ro);
        }
    }
}

/// A table without a trie is read through its own index, unless the options forbid it; so is one of
/// a family that has none.
#[pumice_test_macros::test]
fn tables_without_a_trie_are_read_unless_one_is_required() {
    let mut context = TableBuildContext::default();
    let list = entries(&mut Rng::new(5), &Comparator::Bytewise, 300, 3);
    let mut tables = Vec::new();
    for index in [None, Some(UserDefinedIndex::Trie)] {
        Arc::make_mut(&mut context.table).user_defined_index_factory = index;
        tables.push(support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..]))));
    }
    let ro = TableReadOptions {
        table_index_factory: Some(UserDefinedIndex::Trie),
        ..Default::default()
    };
    let mut memory = Vec::new();
    for (table, configured) in [(0, false), (0, true), (1, false), (1, true)] {
        let options = Arc::make_mut(&mut context.table);
        options.user_defined_index_factory = configured.then_some(UserDefinedIndex::Trie);
        let table = support::open(support::read_context(&context), &tables[table].bytes).unwrap();
        check_iteration(&table, &list, &ro);
        memory.push(table.approximate_memory());
    }
    assert!(memory[3] > memory[2], "{memory:?}");
    for strict in [0, 1] {
        let options = Arc::make_mut(&mut context.table);
        (options.fail_if_no_udi_on_open, options.use_udi_as_primary_index) =
            (strict == 0, strict == 1);
        let read = support::read_context(&context);
        let error = support::open(read, &tables[0].bytes).err().unwrap();
        let words = "Cannot find the meta block: rocksdb.user_defined_index.trie_index: ";
        assert!(error.is_corruption() && error.message().contains(words), "{error}");
    }
}

#[pumice_test_macros::test]
fn what_no_trie_can_do_is_refused_in_rocksdbs_words() {
    let refused = |context: TableBuildContext| {
        let fs = pumice_env::MemFs::new(1).shared();
        let path = std::path::Path::new("/t.sst");
        let file = pumice_env::FileSystem::create(&*fs, path, &Default::default()).unwrap();
        let writer = pumice_env::BufferedWriter::new(file, pumice_env::WriterOptions::new(1 << 20));
        pumice_table::TableBuilder::new(context, writer).err().unwrap().to_string()
    };
    let trie = |change: fn(&mut TableOptions)| {
        let mut options = TableOptions {
            user_defined_index_factory: Some(UserDefinedIndex::Trie),
            ..Default::default()
        };
        change(&mut options);
        TableBuildContext { table: Arc::new(options), ..Default::default() }
    };
    let mut reverse = trie(|_| {});
    reverse.comparator = InternalKeyComparator::new(Comparator::ReverseBytewise);
    let mut parallel = trie(|_| {});
    parallel.compression_opts.parallel_threads = 2;
    let primary = |options: &mut TableOptions| options.use_udi_as_primary_index = true;
    let lone = TableOptions { use_udi_as_primary_index: true, ..Default::default() };
    for (context, words) in [
        (
            reverse,
            "Not implemented: TrieIndexFactory requires BytewiseComparator; got: : \
             rocksdb.ReverseBytewiseComparator",
        ),
        (
            parallel,
            "Invalid argument: user_defined_index_factory not supported with parallel compression",
        ),
        (
            TableBuildContext { table: Arc::new(lone), ..Default::default() },
            "Invalid argument: use_udi_as_primary_index requires user_defined_index_factory",
        ),
        (
            trie(|options| {
                options.use_udi_as_primary_index = true;
                options.index_type = IndexType::TwoLevel;
            }),
            "Invalid argument: use_udi_as_primary_index is incompatible with partitioned index \
             (kTwoLevelIndexSearch)",
        ),
        (
            trie(|options| {
                options.use_udi_as_primary_index = true;
                options.partition_filters = true;
            }),
            "Invalid argument: use_udi_as_primary_index is incompatible with partitioned filters",
        ),
    ] {
        assert_eq!(refused(context), words);
    }
    let list = entries(&mut Rng::new(5), &Comparator::Bytewise, 300, 3);
    let built = support::build(trie(primary), list.iter().map(|(k, v)| (&k[..], &v[..])));
    assert_eq!(built.properties.udi_is_primary_index, 1);
}

fn check_offsets(table: &Arc<Table>, list: &Entries) {
    let mut last = 0;
    for (key, _) in list {
        let offset = table.approximate_offset_of(InternalKey::new(key)).unwrap();
        assert!(offset >= last, "offsets ascend");
        last = offset;
    }
    assert!(last <= table.properties().data_size);
}

#[pumice_test_macros::test]
fn an_empty_table_reads_as_empty() {
    for format_version in 2..=7 {
        let table = TableOptions { format_version, ..Default::default() };
        let context = TableBuildContext { table: Arc::new(table), ..Default::default() };
        let built = support::build(context.clone(), []);
        let table = support::open(support::read_context(&context), &built.bytes).unwrap();
        check_iteration(&table, &Entries::new(), &TableReadOptions::default());
        let target = seek_key(b"k", 5);
        let mut calls = 0;
        table
            .get(&TableReadOptions::default(), InternalKey::new(&target), &mut |_, _, _| {
                calls += 1;
                true
            })
            .unwrap();
        assert_eq!(calls, 0);
        let mut iter = table.iter(&TableReadOptions::default());
        iter.seek(InternalKey::new(&target));
        check_position(&iter, None, "seek");
        iter.seek_for_prev(InternalKey::new(&target));
        check_position(&iter, None, "seek_for_prev");
    }
}

#[pumice_test_macros::test]
fn range_tombstones_come_back() {
    let context = TableBuildContext::default();
    let tombstones = [
        (internal_key(b"d", 8, ValueType::RangeDeletion), b"f".to_vec()),
        (internal_key(b"a", 9, ValueType::RangeDeletion), b"e".to_vec()),
    ];
    let point = (internal_key(b"b", 3, ValueType::Value), b"v".to_vec());
    let all = [&tombstones[0], &point, &tombstones[1]];
    let built = support::build(context.clone(), all.map(|(k, v)| (&k[..], &v[..])));
    assert_eq!(built.properties.num_entries, 3);
    assert_eq!(built.properties.num_range_deletions, 2);
    assert_eq!(built.properties.num_deletions, 2);
    let table = support::open(support::read_context(&context), &built.bytes).unwrap();
    let list = table.range_tombstones().unwrap();
    let cover =
        |key: &[u8]| list.max_covering_seq(&Comparator::Bytewise, UserKey::new(key), MAX_SEQUENCE);
    assert_eq!([cover(b"a"), cover(b"d"), cover(b"e"), cover(b"f")], [9, 9, 8, 0]);
    let mut iter = table.iter(&TableReadOptions::default());
    iter.seek_to_first();
    assert_eq!(iter.key().as_bytes(), &point.0[..]);
    iter.next();
    assert!(!iter.valid());
}

#[pumice_test_macros::test]
fn keys_out_of_order_are_refused() {
    use pumice_env::{BufferedWriter, FileOptions, FileSystem, MemFs, WriterOptions};
    for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise] {
        let mut sorted = [&b"a"[..], b"a\0", b"ab", b"b"].map(<[u8]>::to_vec);
        sorted.sort_by(|a, b| cmp.compare(UserKey::new(a), UserKey::new(b)));
        for (i, first) in sorted.iter().enumerate() {
            for (j, second) in sorted.iter().enumerate() {
                for (seq1, seq2) in [(5, 5), (5, 4), (4, 5)] {
                    let fs = MemFs::new(1);
                    let path = std::path::Path::new("/x.sst");
                    let file = fs.create(path, &FileOptions::default()).unwrap();
                    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
                    let context = TableBuildContext {
                        comparator: InternalKeyComparator::new(cmp.clone()),
                        ..Default::default()
                    };
                    let mut builder = pumice_table::TableBuilder::new(context, writer).unwrap();
                    builder.add(&internal_key(first, seq1, ValueType::Value), b"").unwrap();
                    let again = builder.add(&internal_key(second, seq2, ValueType::Value), b"");
                    let ascending = i < j || (i == j && seq1 > seq2);
                    assert_eq!(again.is_ok(), ascending, "{first:?} {second:?} {seq1} {seq2}");
                }
            }
        }
    }
}

/// The callback sees versions in order and parsed types.
#[pumice_test_macros::test]
fn get_stops_when_told() {
    let context = TableBuildContext::default();
    let list: Entries = (0..20u64)
        .rev()
        .map(|seq| (internal_key(b"k", seq + 1, ValueType::Value), vec![seq as u8; 300]))
        .collect();
    let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
    let table = support::open(support::read_context(&context), &built.bytes).unwrap();
    let mut seen = Vec::new();
    table
        .get(
            &TableReadOptions::default(),
            InternalKey::new(&seek_key(b"k", 15)),
            &mut |key, _, _| {
                seen.push(key.sequence);
                seen.len() < 12
            },
        )
        .unwrap();
    assert_eq!(seen, (4..=15).rev().collect::<Vec<_>>());
    assert_eq!(parse_internal_key(&list[0].0).unwrap().sequence, 20);
}
