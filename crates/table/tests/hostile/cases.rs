//! Attacks larger than any seed makes, and what seeds have found, each by name.

use std::sync::Arc;

use pumice_base::key::{MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::{Error, InternalKey, Result, ValueType};
use pumice_table::{BlockHandle, Table, TableReadContext, TableReadOptions, dump};

use crate::forge::{Forge, entry_block, growing_block, index_block, key, one_block, varint};
use crate::{ALONE, support, within_memory};

fn open(bytes: &[u8]) -> Result<Arc<Table>> {
    support::open(TableReadContext::default(), bytes)
}

fn refused(bytes: &[u8]) -> Error {
    let error = open(bytes).err().expect("it is refused");
    assert!(error.is_corruption(), "{error}");
    error
}

fn says(error: &Error, what: &str) {
    assert!(error.to_string().contains(what), "{error}");
}

/// Memory that a small attack may cost.
const LITTLE: usize = 16 << 20;

#[pumice_test_macros::test]
fn a_plain_forgery_is_read() {
    let _alone = ALONE.lock();
    let bytes = one_block(&entry_block(&[(key("a", 7), "1"), (key("b", 6), "2")]));
    let table = open(&bytes).unwrap();
    table.verify_checksums().unwrap();
    let mut iter = table.iter(&TableReadOptions::default());
    iter.seek(InternalKey::new(&seek_key(b"b", MAX_SEQUENCE)));
    assert_eq!((iter.valid(), iter.value()), (true, &b"2"[..]));
    iter.prev();
    assert_eq!((iter.valid(), iter.value()), (true, &b"1"[..]));
}

/// 400 KB of index would have 5 GB of keys.
#[pumice_test_macros::test]
fn index_keys_that_grow_are_refused() {
    let _alone = ALONE.lock();
    let mut forge = Forge::new();
    let data = forge.block(&entry_block(&[(key("a", 7), "1")]));
    let mut block = vec![0, 1, b'k'];
    data.encode_to(&mut block);
    for shared in 1..100_000 {
        pumice_base::coding::put_varint32(&mut block, shared);
        block.extend([1, b'k', 0]);
    }
    block.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    let index = forge.block(&block);
    let bytes = forge.finish(index);
    let error = within_memory("open", 128 << 20, || refused(&bytes));
    says(&error, "index keys take too much memory");
}

/// Every entry of the top level names the same partition: without a cache each would be loaded for
/// itself.
#[pumice_test_macros::test]
fn a_partition_that_is_named_twice_is_refused() {
    let _alone = ALONE.lock();
    let mut forge = Forge::new();
    forge.set("rocksdb.block.based.table.index.type", [2, 0, 0, 0]);
    let data = forge.block(&entry_block(&[(key("a", 7), "1")]));
    let partition: Vec<_> = (0..2000u32).map(|i| (i.to_be_bytes(), data)).collect();
    let partition = forge.block(&index_block(&partition[..1]));
    let top: Vec<_> = (0..20_000u32).map(|i| (i.to_be_bytes(), partition)).collect();
    let top = forge.block(&index_block(&top));
    let bytes = forge.finish(top);
    says(&within_memory("open", LITTLE, || refused(&bytes)), "index handles out of order");
}

/// Partitions that differ may still name the same data: that would be verified once for each.
#[pumice_test_macros::test]
fn data_that_two_partitions_name_is_not_verified_twice() {
    let _alone = ALONE.lock();
    let mut forge = Forge::new();
    forge.set("rocksdb.block.based.table.index.type", [2, 0, 0, 0]);
    let data = forge.block(&entry_block(&[(key("a", 7), "1")]));
    let top: Vec<_> = (0..2000u32)
        .map(|i| (i.to_be_bytes(), forge.block(&index_block(&[(i.to_be_bytes(), data)]))))
        .collect();
    let top = forge.block(&index_block(&top));
    let table = open(&forge.finish(top)).unwrap();
    says(&table.verify_checksums().unwrap_err(), "blocks out of order");
    says(&dump::raw_text(&table, false).unwrap_err(), "blocks out of order");
}

/// The keys of a block grow: walking back, and dumping, must not assemble all of them.
#[pumice_test_macros::test]
fn keys_that_grow_in_a_data_block_take_little() {
    let _alone = ALONE.lock();
    let bytes = one_block(&growing_block(&key("k", 7), 60_000, 1, b""));
    let table = open(&bytes).unwrap();
    within_memory("walks", LITTLE, || {
        let mut iter = table.iter(&TableReadOptions::default());
        let mut count = 0;
        iter.seek_to_last();
        while iter.valid() {
            count += 1;
            iter.prev();
        }
        iter.status().unwrap();
        assert_eq!(count, 60_000);
    });
    let dumped = within_memory("dump", 512 << 20, || dump::raw_text(&table, false));
    says(&dumped.unwrap_err(), "keys take too much memory");
}

/// Names in a metaindex or among the properties that grow.
#[pumice_test_macros::test]
fn names_that_grow_are_refused() {
    let _alone = ALONE.lock();
    let names = |value: &[u8]| growing_block(b"name", 30_000, 1, value);
    let mut forge = Forge::new();
    let data = forge.block(&entry_block(&[(key("a", 7), "1")]));
    let index = forge.block(&index_block(&[("z", data)]));
    let metaindex = forge.block(&names(&[0, 1]));
    let bytes = forge.foot(index, metaindex);
    says(&within_memory("metaindex", 128 << 20, || refused(&bytes)), "too much memory");
    let mut forge = Forge::new();
    let data = forge.block(&entry_block(&[(key("a", 7), "1")]));
    let index = forge.block(&index_block(&[("z", data)]));
    let properties = forge.block(&names(b""));
    forge.name("rocksdb.properties", properties);
    let bytes = forge.close(index);
    says(&within_memory("properties", 128 << 20, || refused(&bytes)), "too much memory");
}

fn with_tombstones(block: &[u8]) -> Vec<u8> {
    let mut forge = Forge::new();
    let data = forge.block(&entry_block(&[(key("a", 7), "1")]));
    let index = forge.block(&index_block(&[("z", data)]));
    let tombstones = forge.block(block);
    forge.name("rocksdb.range_del", tombstones);
    forge.finish(index)
}

/// Nested tombstones, each with its own sequence number: the number of fragment entries is
/// quadratic.
#[pumice_test_macros::test]
fn tombstones_that_nest_too_deep_are_refused() {
    let _alone = ALONE.lock();
    let nest = |count: u32| -> Vec<u8> {
        let entry = |i: u32| {
            let start = internal_key(&i.to_be_bytes(), u64::from(i) + 1, ValueType::RangeDeletion);
            (start, [0xff])
        };
        with_tombstones(&entry_block(&(0..count).map(entry).collect::<Vec<_>>()))
    };
    assert_eq!(open(&nest(500)).unwrap().range_tombstones().unwrap().num_tombstones(), 500);
    let bytes = nest(20_000);
    says(&within_memory("open", 256 << 20, || refused(&bytes)), "nest too deep");
}

#[pumice_test_macros::test]
fn tombstones_whose_starts_grow_are_refused() {
    let _alone = ALONE.lock();
    let first = internal_key(b"", u64::from_le_bytes(*b"kkkkkkk\0"), ValueType::RangeDeletion);
    let type_and_more = [&[15u8; 8][..], &first].concat();
    let bytes = with_tombstones(&growing_block(&type_and_more, 30_000, 1, b"z"));
    within_memory("open", 128 << 20, || refused(&bytes));
}

/// Blocks that claim a decompressed size, in each codec's format.
#[pumice_test_macros::test]
fn claims_of_size_allocate_nothing() {
    let _alone = ALONE.lock();
    let stream = [0x55u8; 300];
    for kind in 1..=7u8 {
        for claim in [u64::from(u32::MAX), 1 << 31, 65 << 20, 30 << 20, 1 << 62] {
            let mut forge = Forge::new();
            let data = forge.packed(kind, &[&varint(claim)[..], &stream].concat());
            let index = forge.block(&index_block(&[("z", data)]));
            let table = open(&forge.finish(index)).unwrap();
            within_memory("get", 64 << 20, || {
                let target = seek_key(b"a", MAX_SEQUENCE);
                let got = table.get(
                    &TableReadOptions::default(),
                    InternalKey::new(&target),
                    &mut |_, _, _| true,
                );
                assert!(got.is_err(), "codec {kind} claims {claim}");
            });
        }
    }
}

/// Blocks below their separators: a lookup must not walk all of them.
#[pumice_test_macros::test]
fn a_lookup_passes_few_blocks() {
    let _alone = ALONE.lock();
    let mut forge = Forge::new();
    forge.set("rocksdb.index.key.is.user.key", varint(0));
    let block = entry_block(&[(key("a", 7), "1")]);
    let blocks: Vec<(Vec<u8>, BlockHandle)> = (0..3000u32)
        .map(|i| (key([&b"b"[..], &i.to_be_bytes()].concat(), 5), forge.block(&block)))
        .collect();
    let index = forge.block(&index_block(&blocks));
    let table = open(&forge.finish(index)).unwrap();
    let target = seek_key(b"b", MAX_SEQUENCE);
    let got =
        table.get(&TableReadOptions::default(), InternalKey::new(&target), &mut |_, _, _| true);
    says(&got.unwrap_err(), "out of order");
    let mut iter = table.iter(&TableReadOptions::default());
    iter.seek(InternalKey::new(&target));
    assert!(!iter.valid());
    says(&iter.status().unwrap_err(), "out of order");
}
