//! The documented bytes, and random indexes of every kind against a model.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use crate::options::TableOptions;
use crate::read::index::{IndexBlock, IndexEncoding};
use pumice_base::coding::Decoder;
use pumice_base::extension::FixedPrefix;
use pumice_base::key::{InternalKey, internal_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKeyComparator, UserKey, ValueType};

use crate::options::IndexShortening;

fn context(options: TableOptions) -> TableBuildContext {
    TableBuildContext { table: Arc::new(options), ..Default::default() }
}

fn options(kind: IndexType) -> TableOptions {
    TableOptions {
        index_type: kind,
        format_version: 5,
        index_block_restart_interval: 4,
        ..Default::default()
    }
}

fn key(text: &str, seq: u64) -> Vec<u8> {
    internal_key(text.as_bytes(), seq, ValueType::Value)
}

/// Builder and separators with the blocks that were written.
struct Bench {
    separators: Separators,
    cuts: Option<CutRule>,
    builder: IndexBuilder,
    entry: IndexEntry,
    end: u64,
}

impl Bench {
    fn new(context: &TableBuildContext) -> Self {
        Bench {
            separators: Separators::new(context),
            cuts: CutRule::new(&context.table),
            builder: IndexBuilder::new(context).unwrap(),
            entry: IndexEntry::default(),
            end: 0,
        }
    }

    /// Adds a block of `keys` that has `size` bytes, after `padding`.
    fn block(&mut self, keys: &[Vec<u8>], next: Option<&[u8]>, size: u64, padding: u64) {
        let (first, last) = (keys.first().unwrap(), keys.last().unwrap());
        self.separators.prepare(last, next, first, &mut self.entry);
        self.separators.note_prefixes(
            keys.iter().map(|k| InternalKey::new(k).user_key().as_bytes()),
            &mut self.entry,
        );
        if let Some(cuts) = &mut self.cuts {
            cuts.decide(&mut self.entry, false);
        }
        let handle = BlockHandle::new(self.end + padding, size);
        self.end = handle.end().unwrap();
        self.builder.push(&self.entry, handle);
    }

    /// The blocks of the index, in the order they are written, and what `finish` returns.
    fn finish(mut self) -> (Vec<(BlockHandle, Vec<u8>)>, IndexResult) {
        let mut blocks = Vec::new();
        let mut end = self.end;
        let result = self.builder.finish(&mut |block| {
            let handle = BlockHandle::new(end, block.len() as u64);
            end = handle.end().unwrap();
            blocks.push((handle, std::mem::take(block)));
            Ok(handle)
        });
        (blocks, result.unwrap())
    }
}

/// Adds the four documented blocks.
fn documented(bench: &mut Bench) {
    let ends = ["key000005", "key000011", "key000017", "key000023"];
    for (end, size) in ends.iter().zip([262u64, 263, 262, 263]) {
        let next = key(&format!("{end}0"), 1);
        bench.block(&[key(end, 1)], Some(&next), size, 0);
    }
}

/// The documented delta-encoded index of four blocks.
#[pumice_test_macros::test]
fn encodes_the_documented_example() {
    let mut bench = Bench::new(&context(options(IndexType::BinarySearch)));
    documented(&mut bench);
    let mut want = b"\x00\x09key000005\x00\x86\x02".to_vec();
    want.extend(b"\x07\x0211\x02");
    want.extend(b"\x08\x017\x01");
    want.extend(b"\x07\x0223\x02");
    want.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    let (blocks, result) = bench.finish();
    assert!(result.stores_user_keys && result.delta_handles);
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].1, want);
    assert_eq!((result.size, result.partitions), (want.len() as u64, 0));
}

/// Index type 3: after the handle, or its difference, the first internal key with its length.
#[pumice_test_macros::test]
fn stores_first_keys_behind_handles() {
    let mut bench = Bench::new(&context(options(IndexType::BinarySearchWithFirstKey)));
    documented(&mut bench);
    let (blocks, _) = bench.finish();
    let mut want = b"\x00\x09key000005\x00\x86\x02".to_vec();
    for (end, head) in [
        ("key000005", &b""[..]),
        ("key000011", b"\x07\x0211\x02"),
        ("key000017", b"\x08\x017\x01"),
        ("key000023", b"\x07\x0223\x02"),
    ] {
        want.extend(head);
        want.push(17);
        want.extend(key(end, 1));
    }
    want.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(blocks[0].1, want);
}

/// Without delta handles the value length counts the first key too.
#[pumice_test_macros::test]
fn stores_first_keys_in_plain_values() {
    let plain = TableOptions { format_version: 3, ..options(IndexType::BinarySearchWithFirstKey) };
    let mut bench = Bench::new(&context(plain));
    bench.block(&[key("a", 3), key("b", 2)], None, 300, 0);
    let (blocks, _) = bench.finish();
    let mut want = b"\x00\x01\x0db\x00\xac\x02\x09".to_vec();
    want.extend(key("a", 3));
    want.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(blocks[0].1, want);
}

#[pumice_test_macros::test]
fn a_user_key_in_two_blocks_needs_sequences() {
    let one = TableOptions { index_block_restart_interval: 1, ..options(IndexType::BinarySearch) };
    let mut bench = Bench::new(&context(one));
    bench.block(&[key("a", 9)], Some(&key("a", 3)), 10, 0);
    bench.block(&[key("a", 1)], None, 10, 0);
    let (blocks, result) = bench.finish();
    assert!(!result.stores_user_keys);
    assert_eq!(&blocks[0].1[..2], &[0, 9]);
    assert_eq!(&blocks[0].1[2..11], key("a", 9));
}

/// A block after padding carries a full handle, and so shares no key byte.
#[pumice_test_macros::test]
fn handles_behind_padding_are_full() {
    let mut bench = Bench::new(&context(options(IndexType::BinarySearch)));
    bench.block(&[key("aa1", 1)], Some(&key("aa15", 1)), 10, 0);
    bench.block(&[key("aa2", 1)], Some(&key("aa25", 1)), 10, 85);
    bench.block(&[key("aa3", 1)], None, 11, 0);
    let (blocks, _) = bench.finish();
    let mut want = b"\x00\x03aa1\x00\x0a".to_vec();
    want.extend(b"\x00\x03aa2\x64\x0a");
    want.extend(b"\x02\x013\x02");
    want.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(blocks[0].1, want);
}

#[pumice_test_macros::test]
fn a_hash_index_needs_a_prefix_extractor() {
    let context = context(options(IndexType::HashSearch));
    let error = IndexBuilder::new(&context).err().unwrap();
    assert_eq!(
        error.to_string(),
        "Invalid argument: Hash index is specified for block-based table, but prefix_extractor is \
         not given"
    );
}

#[pumice_test_macros::test]
fn a_hash_index_lists_the_blocks_of_each_prefix() {
    let mut context = context(options(IndexType::HashSearch));
    context.prefix_extractor = Some(Arc::new(FixedPrefix(2)));
    let mut bench = Bench::new(&context);
    bench.block(&[key("a", 1), key("aa1", 1), key("aa2", 1)], Some(&key("aa3", 1)), 50, 0);
    bench.block(&[key("aa3", 1), key("aa9", 1)], Some(&key("aa99", 1)), 50, 0);
    bench.block(&[key("aa99", 1), key("ab1", 1), key("ac1", 1)], Some(&key("ad", 1)), 50, 0);
    bench.block(&[key("ad", 1)], None, 50, 0);
    let (_, result) = bench.finish();
    let [(name, prefixes), (meta_name, metadata)] = &result.meta_blocks[..] else {
        panic!("two meta blocks")
    };
    assert_eq!((*name, *meta_name), ("rocksdb.hashindex.prefixes", "rocksdb.hashindex.metadata"));
    assert_eq!(prefixes, b"aaabacad");
    assert_eq!(metadata, &[2, 0, 3, 2, 2, 1, 2, 2, 1, 2, 3, 1]);
}

/// What went into a random index.
struct Model {
    blocks: Vec<Vec<Vec<u8>>>,
    handles: Vec<BlockHandle>,
}

/// Random blocks of random keys, some with a user key in two blocks, some after padding.
fn random(rng: &mut Rng, context: &TableBuildContext) -> (Model, Bench) {
    let cmp = &context.comparator;
    let mut keys: Vec<Vec<u8>> = (0..rng.uniform(400) + 1)
        .map(|_| {
            let user = format!("{:0w$}", rng.uniform(3000), w = 1 + rng.uniform(30) as usize);
            internal_key(user.as_bytes(), rng.uniform(100), ValueType::Value)
        })
        .collect();
    let versions = rng.one_in(2);
    keys.sort_by(|a, b| cmp.compare(InternalKey::new(a), InternalKey::new(b)));
    keys.dedup_by(|a, b| {
        if versions {
            a == b
        } else {
            InternalKey::new(a).user_key().has_bytes_of(InternalKey::new(b).user_key())
        }
    });
    let mut bench = Bench::new(context);
    let mut model = Model { blocks: Vec::new(), handles: Vec::new() };
    let padded = rng.one_in(3);
    let mut rest = &keys[..];
    while !rest.is_empty() {
        let (block, behind) = rest.split_at(1 + rng.uniform(rest.len().min(6) as u64) as usize);
        let padding = if padded { rng.uniform(3) } else { 0 };
        let most = if rng.one_in(9) { 100_000 } else { 300 };
        let size = 20 + rng.uniform(most);
        bench.block(block, behind.first().map(|k| &k[..]), size, padding);
        model.blocks.push(block.to_vec());
        model.handles.push(BlockHandle::new(bench.end - size - 5, size));
        rest = behind;
    }
    (model, bench)
}

fn random_context(rng: &mut Rng) -> TableBuildContext {
    let kinds = [
        IndexType::BinarySearch,
        IndexType::HashSearch,
        IndexType::TwoLevel,
        IndexType::BinarySearchWithFirstKey,
    ];
    let shortenings = [
        IndexShortening::None,
        IndexShortening::Separators,
        IndexShortening::SeparatorsAndSuccessor,
    ];
    let options = TableOptions {
        index_type: kinds[rng.uniform(4) as usize],
        index_shortening: shortenings[rng.uniform(3) as usize],
        format_version: 2 + rng.uniform(6) as u32,
        index_block_restart_interval: 1 + rng.uniform(5) as u32,
        metadata_block_size: 1 << rng.uniform(10),
        block_size_deviation: rng.uniform(101) as u32,
        partition_filters: rng.one_in(2),
        decouple_partitioned_filters: rng.one_in(2),
        ..Default::default()
    };
    let orders = [Comparator::Bytewise, Comparator::ReverseBytewise];
    TableBuildContext {
        table: Arc::new(options),
        comparator: InternalKeyComparator::new(orders[rng.uniform(2) as usize].clone()),
        prefix_extractor: Some(Arc::new(FixedPrefix(rng.uniform(4) as usize))),
        ..Default::default()
    }
}

/// Every entry of an index, through its partitions.
fn decode_all(
    blocks: &[(BlockHandle, Vec<u8>)],
    encoding: IndexEncoding,
    context: &TableBuildContext,
) -> Vec<(Vec<u8>, BlockHandle)> {
    let decode = |bytes: &[u8]| IndexBlock::decode(bytes, encoding, &context.comparator).unwrap();
    let (top, partitions) = blocks.split_last().unwrap();
    let top = decode(&top.1);
    let list = |index: &IndexBlock| {
        (0..index.len()).map(|i| (index.key(i).to_vec(), index.handle(i))).collect::<Vec<_>>()
    };
    if context.table.index_type != IndexType::TwoLevel {
        assert!(partitions.is_empty());
        return list(&top);
    }
    let mut all = Vec::new();
    assert_eq!(top.len(), partitions.len());
    for (i, (handle, bytes)) in partitions.iter().enumerate() {
        assert_eq!(top.handle(i), *handle);
        let entries = list(&decode(bytes));
        assert_eq!(top.key(i), entries.last().unwrap().0, "top-level key");
        all.extend(entries);
    }
    all
}

/// The separators of every kind separate, and every handle comes back.
#[pumice_test_macros::test]
fn random_indexes_match_the_model() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let context = random_context(&mut rng);
        let (model, bench) = random(&mut rng, &context);
        let (blocks, result) = bench.finish();
        let kind = context.table.index_type;
        let encoding = IndexEncoding {
            user_keys: result.stores_user_keys,
            delta_handles: result.delta_handles,
            first_keys: kind == IndexType::BinarySearchWithFirstKey,
        };
        let entries = decode_all(&blocks, encoding, &context);
        assert_eq!(entries.len(), model.blocks.len(), "seed {seed}");
        let cmp = &context.comparator;
        for (i, (separator, handle)) in entries.iter().enumerate() {
            assert_eq!(*handle, model.handles[i], "seed {seed}, block {i}");
            let last = model.blocks[i].last().unwrap();
            let next = model.blocks.get(i + 1).map(|block| &block[0]);
            let (from, to) = if encoding.user_keys {
                let user = |key: &[u8]| {
                    cmp.user.compare(InternalKey::new(key).user_key(), UserKey::new(separator))
                };
                (user(last), next.map(|next| user(next)))
            } else {
                let order =
                    |key: &[u8]| cmp.compare(InternalKey::new(key), InternalKey::new(separator));
                (order(last), next.map(|next| order(next)))
            };
            assert!(from.is_le(), "seed {seed}, block {i}: separator below the last key");
            assert!(to.is_none_or(|to| to.is_gt()), "seed {seed}, block {i}: reaches the next");
        }
        let meta = result.meta_blocks.iter().map(|(_, block)| block.len() as u64);
        let sizes: u64 = blocks.iter().map(|(_, block)| block.len() as u64).chain(meta).sum();
        assert_eq!(result.size, sizes, "seed {seed}");
        assert_eq!(result.partitions, blocks.len() as u64 - 1, "seed {seed}");
        check_prefixes(&context, &model, &result, seed);
    }
}

/// Every record of the hash index names the blocks from the first to the last key of a run.
fn check_prefixes(context: &TableBuildContext, model: &Model, result: &IndexResult, seed: u64) {
    let extractor = context.prefix_extractor.as_ref().unwrap();
    if context.table.index_type != IndexType::HashSearch {
        assert!(result.meta_blocks.is_empty());
        return;
    }
    let mut want: Vec<(Vec<u8>, u32, u32)> = Vec::new();
    for (number, block) in model.blocks.iter().enumerate() {
        for key in block
            .iter()
            .map(|k| InternalKey::new(k).user_key().as_bytes())
            .filter(|k| extractor.in_domain(k))
        {
            let prefix = extractor.transform(key);
            match want.last_mut() {
                Some((last, first, count)) if last == prefix => {
                    *count = number as u32 - *first + 1;
                }
                _ => want.push((prefix.to_vec(), number as u32, 1)),
            }
        }
    }
    let [(_, prefixes), (_, metadata)] = &result.meta_blocks[..] else {
        assert!(want.is_empty(), "seed {seed}");
        return;
    };
    let (mut prefixes, mut metadata) = (Decoder::new(prefixes), Decoder::new(metadata));
    for (prefix, first, count) in want {
        assert_eq!(metadata.varint32(), Some(prefix.len() as u32), "seed {seed}");
        assert_eq!(metadata.varint32(), Some(first), "seed {seed}");
        assert_eq!(metadata.varint32(), Some(count), "seed {seed}");
        assert_eq!(prefixes.bytes(prefix.len()), Some(&prefix[..]), "seed {seed}");
    }
    assert!(metadata.is_empty() && prefixes.is_empty());
}

/// Partitions have the configured size, and the last one is not smaller than half of it.
#[pumice_test_macros::test]
fn partitions_have_their_size() {
    for blocks in [1usize, 2, 3, 60, 61, 200, 1000, 1001] {
        let size = TableOptions { metadata_block_size: 512, ..options(IndexType::TwoLevel) };
        let mut bench = Bench::new(&context(size));
        for i in 0..blocks {
            let (this, next) = (key(&format!("{i:020}a"), 1), key(&format!("{:020}", i + 1), 1));
            bench.block(&[this], Some(&next), 100, 0);
        }
        let (written, result) = bench.finish();
        let (_, partitions) = written.split_last().unwrap();
        assert!(result.partitions >= 1);
        for (i, (_, block)) in partitions.iter().enumerate() {
            assert!(block.len() <= 512, "{blocks} blocks, partition {i}: {}", block.len());
            let last_two = i + 2 >= partitions.len();
            let least = if partitions.len() == 1 {
                0
            } else if last_two {
                200
            } else {
                460
            };
            assert!(block.len() >= least, "{blocks} blocks, partition {i}: {}", block.len());
        }
    }
}

/// Coupled partitions end where the entries say and nowhere else.
#[pumice_test_macros::test]
fn coupled_partitions_end_where_entries_say() {
    let coupled = TableOptions {
        partition_filters: true,
        decouple_partitioned_filters: false,
        metadata_block_size: 256,
        ..options(IndexType::TwoLevel)
    };
    let context = context(coupled);
    let mut bench = Bench::new(&context);
    let mut cuts = Vec::new();
    for i in 0..100u32 {
        let (this, next) = (key(&format!("{i:08}"), 1), key(&format!("{:08}", i + 1), 1));
        bench.block(std::slice::from_ref(&this), Some(&next), 100, 0);
        if bench.entry.cut_after {
            cuts.push(i);
        }
    }
    assert!(cuts.len() > 5, "{cuts:?}");
    let (blocks, result) = bench.finish();
    let encoding = IndexEncoding { user_keys: true, delta_handles: true, first_keys: false };
    let mut last = 0;
    let mut ends = Vec::new();
    for (_, block) in &blocks[..blocks.len() - 1] {
        last += IndexBlock::decode(block, encoding, &context.comparator).unwrap().len() as u32;
        ends.push(last - 1);
        assert!(block.len() < 256);
    }
    assert_eq!(result.partitions, ends.len() as u64);
    assert_eq!(&ends[..cuts.len()], &cuts[..]);
    assert_eq!(ends.last(), Some(&99));
}

/// A table of range tombstones only has an empty index.
#[pumice_test_macros::test]
fn an_empty_index_is_one_empty_block() {
    for kind in [IndexType::BinarySearch, IndexType::TwoLevel] {
        let (blocks, result) = Bench::new(&context(options(kind))).finish();
        assert_eq!(blocks.len(), 1);
        assert_eq!(blocks[0].1, [0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(result.partitions, 0);
    }
}
