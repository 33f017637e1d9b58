//! Every kind of index, with and without hash indexes in data blocks: all that the builder writes
//! is read back, by us with and without a cache and by RocksDB 10.10 (through its C library;
//! skipped with a message where it is missing).
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support;
use pumice_base::extension::FixedPrefix;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKeyComparator, ValueType};
use pumice_compress::CompressionType;
use pumice_peer::{Db, Options, Peer, ReadOptions, ReadSettings};
use pumice_table::{
    DataBlockIndexType, IndexType, Table, TableBuildContext, TableOptions, TableReadContext,
    TableReadOptions,
};

pub(crate) const KINDS: [(IndexType, &str); 4] = [
    (IndexType::BinarySearch, "kBinarySearch"),
    (IndexType::HashSearch, "kHashSearch"),
    (IndexType::TwoLevel, "kTwoLevelIndexSearch"),
    (IndexType::BinarySearchWithFirstKey, "kBinarySearchWithFirstKey"),
];

pub(crate) fn context(options: TableOptions, comparator: Comparator) -> TableBuildContext {
    TableBuildContext {
        table: Arc::new(options),
        comparator: InternalKeyComparator::new(comparator),
        prefix_extractor: Some(Arc::new(FixedPrefix(5))),
        compression: CompressionType::Lz4,
        ..Default::default()
    }
}

pub(crate) fn options(kind: IndexType, hash: bool, rng: &mut Rng) -> TableOptions {
    let intervals = [1, 2, 16];
    TableOptions {
        index_type: kind,
        data_block_index_type: match hash {
            true => DataBlockIndexType::BinaryAndHash,
            false => DataBlockIndexType::BinarySearch,
        },
        data_block_hash_table_util_ratio: 0.3 + rng.next_f64(),
        block_restart_interval: intervals[rng.uniform(3) as usize],
        index_block_restart_interval: intervals[rng.uniform(3) as usize],
        format_version: 2 + rng.uniform(6) as u32,
        block_size: 200 + rng.uniform(2000) as usize,
        metadata_block_size: 100 + rng.uniform(1000) as usize,
        block_cache: None,
        no_block_cache: true,
        ..Default::default()
    }
}

/// Keys with `versions` versions each at most, some in two blocks.
pub(crate) fn entries(
    rng: &mut Rng,
    versions: u64,
    cmp: &InternalKeyComparator,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut map: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
    for _ in 0..1 + rng.uniform(900) {
        let key = format!("{:06}{}", rng.uniform(3000), "x".repeat(rng.uniform(9) as usize));
        let mut sequences: Vec<u64> =
            (0..1 + rng.uniform(versions)).map(|_| 1 + rng.uniform(1000)).collect();
        if versions == 1 {
            sequences = vec![0];
        }
        map.insert(key.into_bytes(), sequences);
    }
    let mut list = Vec::new();
    for (key, sequences) in map {
        for sequence in sequences {
            let value = rng.bytes(20);
            list.push((internal_key(&key, sequence, ValueType::Value), value));
        }
    }
    list.sort_by(|a, b| cmp.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
    list.dedup_by(|a, b| a.0 == b.0);
    list
}

/// Versions of a key at or below a sequence number.
fn versions(table: &Table, key: &[u8], sequence: u64) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut note = |key: pumice_base::key::ParsedInternalKey<'_>, value: &[u8], _: &_| {
        found.push((key.sequence, value.to_vec()));
        true
    };
    table
        .get(&TableReadOptions::default(), InternalKey::new(&seek_key(key, sequence)), &mut note)
        .unwrap();
    found
}

pub(crate) fn check(table: &Arc<Table>, list: &[(Vec<u8>, Vec<u8>)], rng: &mut Rng, seed: u64) {
    let mut iter = table.iter(&TableReadOptions { total_order_seek: true, ..Default::default() });
    iter.seek_to_first();
    for (key, value) in list {
        assert!(iter.valid(), "seed {seed}: {:?}", iter.status());
        assert_eq!((iter.key().as_bytes(), iter.value()), (&key[..], &value[..]), "seed {seed}");
        iter.next();
    }
    assert!(!iter.valid(), "seed {seed}");
    iter.status().unwrap();
    let cmp = table.comparator().clone();
    for _ in 0..400 {
        let known = &list[rng.uniform(list.len() as u64) as usize].0;
        let mut user = InternalKey::new(known).user_key().to_vec();
        if rng.one_in(3) {
            user.push(b'a' + rng.uniform(26) as u8);
        } else if rng.one_in(5) {
            user.truncate(rng.uniform(user.len() as u64) as usize);
        }
        let sequence = if rng.one_in(2) { MAX_SEQUENCE } else { rng.uniform(1000) };
        let target = seek_key(&user, sequence);
        let at = list.partition_point(|(key, _)| {
            cmp.compare(InternalKey::new(key), InternalKey::new(&target)).is_lt()
        });
        iter.seek(InternalKey::new(&target));
        assert_eq!(
            iter.valid().then(|| iter.key().as_bytes()),
            list.get(at).map(|e| &e.0[..]),
            "seed {seed}"
        );
        let want: Vec<(u64, Vec<u8>)> = list[at..]
            .iter()
            .take_while(|(key, _)| InternalKey::new(key).user_key().as_bytes() == user)
            .map(|(key, value)| (InternalKey::new(key).sequence_and_type().0, value.clone()))
            .collect();
        assert_eq!(versions(table, &user, sequence), want, "seed {seed}: {user:?}@{sequence}");
    }
}

/// Random tables of every kind against the list of their entries.
#[pumice_test_macros::test]
fn random_tables_match_the_model() {
    for seed in 0..240 {
        let mut rng = Rng::new(seed);
        let kind = KINDS[(seed % 4) as usize].0;
        let orders = [Comparator::Bytewise, Comparator::Bytewise, Comparator::ReverseBytewise];
        let order = orders[rng.uniform(3) as usize].clone();
        let hash = rng.one_in(2);
        let context = context(options(kind, hash, &mut rng), order);
        let versions = [1, 4, 80][rng.uniform(3) as usize];
        let list = entries(&mut rng, versions, &context.comparator);
        let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
        let table = support::open(support::read_context(&context), &built.bytes).unwrap();
        check(&table, &list, &mut rng, seed);
        let cached = TableOptions {
            block_cache: Some(support::cache(1 << 20)),
            no_block_cache: false,
            cache_index_and_filter_blocks: rng.one_in(2),
            ..(*context.table).clone()
        };
        let read =
            TableReadContext { options: Arc::new(cached), ..support::read_context(&context) };
        let table = support::open(read, &built.bytes).unwrap();
        check(&table, &list, &mut rng, seed);
        table.verify_checksums().unwrap();
    }
}

/// RocksDB gets, misses and scans what we wrote.
#[pumice_test_macros::test]
fn rocksdb_reads_every_kind() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    for seed in 0..48 {
        let mut rng = Rng::new(seed);
        let (kind, name) = KINDS[(seed % 4) as usize];
        let hash = seed / 4 % 2 == 0;
        let reverse = seed % 5 == 4;
        let order = if reverse { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let mut context = context(options(kind, hash, &mut rng), order);
        context.user_collected = vec![
            ("rocksdb.external_sst_file.version".into(), 2u32.to_le_bytes().to_vec()),
            ("rocksdb.external_sst_file.global_seqno".into(), 0u64.to_le_bytes().to_vec()),
        ];
        let list = entries(&mut rng, 1, &context.comparator);
        let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
        read_by_rocksdb(&peer, name, hash, reverse, &built.bytes, &list, seed);
    }
}

fn read_by_rocksdb(
    peer: &Peer,
    index_type: &str,
    hash: bool,
    reverse: bool,
    bytes: &[u8],
    list: &[(Vec<u8>, Vec<u8>)],
    seed: u64,
) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = dir.path().join("ours.sst");
    std::fs::write(&file, bytes).unwrap();
    let mut o = Options::new(peer);
    o.set_many("create_if_missing=true;prefix_extractor=rocksdb.FixedPrefix.5").unwrap();
    if reverse {
        o.set("comparator", "rocksdb.ReverseBytewiseComparator").unwrap();
    }
    let data = if hash { "kDataBlockBinaryAndHash" } else { "kDataBlockBinarySearch" };
    o.set_table(&format!("index_type={index_type};data_block_index_type={data}")).unwrap();
    let db = Db::open(&o, &dir.path().join("db")).unwrap();
    let cf = db.default_column_family().clone();
    let what = format!("seed {seed}: {index_type} hash {hash}");
    db.ingest(&cf, &[&file], false).unwrap_or_else(|e| panic!("{what}: {e}"));
    let ro = ReadOptions::new(peer, &ReadSettings::default());
    let mut value = Vec::new();
    for (key, want) in list {
        let user = InternalKey::new(key).user_key();
        assert!(db.get(&ro, &cf, user.as_bytes(), &mut value).unwrap(), "{what}: {user:?} missing");
        assert_eq!(&value, want, "{what}");
        let absent = [user.as_bytes(), b"z"].concat();
        assert!(!db.get(&ro, &cf, &absent, &mut value).unwrap(), "{what}: {absent:?} found");
    }
    let scan = ReadSettings { total_order_seek: true, ..Default::default() };
    let mut iter = db.iter(&ReadOptions::new(peer, &scan), &cf);
    iter.seek_to_first();
    for (key, want) in list {
        assert!(iter.valid(), "{what}");
        assert_eq!(
            (iter.key(), iter.value()),
            (InternalKey::new(key).user_key().as_bytes(), &want[..]),
            "{what}"
        );
        iter.next();
    }
    assert!(!iter.valid(), "{what}");
    iter.status().unwrap();
    let mut iter = db.iter(&ro, &cf);
    for (key, want) in list.iter().step_by(5) {
        iter.seek(InternalKey::new(key).user_key().as_bytes());
        assert!(iter.valid(), "{what}: seek");
        assert_eq!(
            (iter.key(), iter.value()),
            (InternalKey::new(key).user_key().as_bytes(), &want[..]),
            "{what}"
        );
    }
}
