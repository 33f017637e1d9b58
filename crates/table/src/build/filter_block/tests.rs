//! Partitions as the builder writes them, checked one by one.
//!
//! What tables do with them is tested through `TableBuilder` in `tests/all/filters.rs`.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pumice_base::extension::{FixedPrefix, SliceTransform};
use pumice_base::key::{InternalKey, UserKey, internal_key};
use pumice_base::random::Rng;
use pumice_base::{InternalKeyComparator, ValueType};
use pumice_filter::{FilterPolicy, FilterReader};

use super::*;
use crate::options::TableOptions;
use crate::read::index::{IndexBlock, IndexEncoding};

/// The result: separators, and the partitions they lead to.
struct Filters {
    index: IndexBlock,
    blocks: Vec<Vec<u8>>,
    size: u64,
    entries: u64,
}

impl Filters {
    fn may_match(&self, partition: usize, key: &[u8]) -> bool {
        let contents = &self.blocks[partition];
        FilterReader::new(contents).may_match(contents, key)
    }

    /// The number of the partition that a lookup of an internal key queries.
    fn partition_of(&self, ikey: &[u8]) -> usize {
        let at = self.index.seek(&InternalKeyComparator::default(), InternalKey::new(ikey));
        at.min(self.index.len() - 1)
    }
}

fn context(metadata_block_size: usize, prefix: Option<usize>) -> TableBuildContext {
    let table = TableOptions {
        filter_policy: Some(FilterPolicy::bloom(10.0)),
        partition_filters: true,
        index_type: IndexType::TwoLevel,
        metadata_block_size,
        ..Default::default()
    };
    let extractor = prefix.map(|n| Arc::new(FixedPrefix(n)) as Arc<dyn SliceTransform>);
    TableBuildContext { table: Arc::new(table), prefix_extractor: extractor, ..Default::default() }
}

fn change(context: &mut TableBuildContext, f: impl FnOnce(&mut TableOptions)) {
    let mut options = TableOptions::clone(&context.table);
    f(&mut options);
    context.table = Arc::new(options);
}

/// Feeds internal keys in data blocks and decodes what is written. Where the filter wants the index
/// to be cut, it is.
fn build(context: &TableBuildContext, blocks: &[Vec<Vec<u8>>], user_keys: bool) -> Filters {
    let mut builder = FilterBlockBuilder::new(context).unwrap();
    let mut keys = BlockKeys::default();
    for (i, block) in blocks.iter().enumerate() {
        keys.clear();
        block.iter().for_each(|key| keys.push(key));
        builder.add_block(&mut keys);
        let next = blocks.get(i + 1).and_then(|next| next.first());
        builder.block_ends(builder.wants_cut(), next.map(|key| &key[..]));
    }
    let before = builder.num_entries();
    let mut written: Vec<Vec<u8>> = Vec::new();
    let mut offset = 0;
    let mut write = |block: &mut Vec<u8>| {
        let handle = BlockHandle::new(offset, block.len() as u64);
        offset = handle.end().unwrap();
        written.push(block.clone());
        Ok(handle)
    };
    let result = builder.finish(user_keys, true, &mut write).unwrap().unwrap();
    assert!(result.partitioned);
    assert!(builder.num_entries() >= before);
    let top = written.pop().unwrap();
    let encoding = IndexEncoding { user_keys, delta_handles: true, first_keys: false };
    let index = IndexBlock::decode(&top, encoding, &context.comparator).unwrap();
    assert_eq!(index.len(), written.len());
    let mut at = 0;
    for (handle, block) in index.handles().zip(&written) {
        assert_eq!((handle.offset, handle.size), (at, block.len() as u64));
        at = handle.end().unwrap();
    }
    assert_eq!((result.handle.offset, result.handle.size), (at, top.len() as u64));
    let entries = builder.num_entries();
    Filters { index, blocks: written, size: result.size, entries }
}

/// Keys `0..n` as 8 digits, `versions` each, in data blocks of `per_block` entries.
fn blocks_of(n: u64, versions: u64, per_block: usize) -> Vec<Vec<Vec<u8>>> {
    let one = |i: u64, seq: u64| internal_key(&digits(i), seq, ValueType::Value);
    let all: Vec<_> =
        (0..n).flat_map(|i| (0..versions).rev().map(move |v| one(i, v + 1))).collect();
    all.chunks(per_block).map(<[_]>::to_vec).collect()
}

fn digits(i: u64) -> Vec<u8> {
    format!("{i:08}").into_bytes()
}

/// Partitions are as full as configured, no key is missing, and the last one has its share.
#[pumice_test_macros::test]
fn decoupled_partitions_have_their_size() {
    for (n, versions) in [(10, 1), (2918, 1), (2919, 1), (3000, 3), (8754, 1), (8800, 2)] {
        let context = context(4096, None);
        let filters = build(&context, &blocks_of(n, versions, 33), true);
        assert_eq!(filters.entries, n, "each key counts once");
        let sum: usize = filters.blocks.iter().map(Vec::len).sum();
        assert!(filters.size > sum as u64);
        assert_eq!(filters.blocks.len() as u64, n.div_ceil(2918));
        for i in 0..n {
            let at = filters.partition_of(&internal_key(&digits(i), 2, ValueType::Value));
            assert!(filters.may_match(at, &digits(i)), "{i} of {n}");
        }
        let smallest = filters.blocks.iter().map(Vec::len).min().unwrap();
        if n > 2918 {
            assert!(smallest >= 3687 / 2 - 128, "{n}: smallest {smallest}");
        }
        assert!(filters.blocks.iter().all(|block| block.len() <= 4096));
    }
}

/// A cut inside a data block has the user key before it as separator, with sequence and type 0.
#[pumice_test_macros::test]
fn separators_of_decoupled_partitions() {
    let context = context(4096, None);
    let blocks = blocks_of(8000, 1, 40);
    for user_keys in [true, false] {
        let filters = build(&context, &blocks, user_keys);
        assert_eq!(filters.index.user_key(0), digits(2917));
        if !user_keys {
            assert_eq!(&filters.index.key(0)[8..], [0; 8]);
        }
        assert_eq!(filters.index.user_key(filters.index.len() - 1), digits(7999));
    }
}

/// A tiny partition size puts every key into one of its own; versions stay together.
#[pumice_test_macros::test]
fn one_key_for_each_partition() {
    for per_block in [1, 4, 100] {
        for decoupled in [true, false] {
            let mut context = context(1, None);
            change(&mut context, |options| {
                options.filter_policy = Some(FilterPolicy::bloom(100.0));
                options.decouple_partitioned_filters = decoupled;
            });
            // 64 bytes at 100 bits a key are room for five.
            let filters = build(&context, &blocks_of(40, 3, per_block), false);
            if decoupled {
                assert_eq!(filters.blocks.len(), 8, "{per_block}");
            }
            for i in 0..40 {
                let at = filters.partition_of(&internal_key(&digits(i), 2, ValueType::Value));
                assert!(filters.may_match(at, &digits(i)), "{i}");
            }
        }
    }
}

/// No key, no prefix: no filter.
#[pumice_test_macros::test]
fn nothing_comes_of_nothing() {
    let mut context = context(4096, Some(20));
    for partitioned in [true, false] {
        change(&mut context, |options| {
            options.whole_key_filtering = false;
            options.partition_filters = partitioned;
        });
        let mut builder = FilterBlockBuilder::new(&context).unwrap();
        let mut keys = BlockKeys::default();
        blocks_of(10, 1, 10)[0].iter().for_each(|key| keys.push(key));
        builder.add_block(&mut keys);
        let mut write = |_: &mut Vec<u8>| -> Result<BlockHandle> { panic!("nothing to write") };
        assert!(builder.finish(true, true, &mut write).unwrap().is_none());
    }
    change(&mut context, |options| options.filter_policy = None);
    assert!(FilterBlockBuilder::new(&context).is_none());
}

/// The boundary rule, checked directly: each partition holds the prefix of its neighbours' nearest
/// keys, also where the last two were cut again.
#[pumice_test_macros::test]
fn neighbours_prefixes_are_in_each_partition() {
    for decoupled in [true, false] {
        for whole in [true, false] {
            for n in [700, 2000, 6100, 6400] {
                let mut context = context(2048, Some(7));
                change(&mut context, |options| {
                    options.whole_key_filtering = whole;
                    options.decouple_partitioned_filters = decoupled;
                });
                let blocks = blocks_of(n, 1, 30);
                let filters = build(&context, &blocks, true);
                for i in 0..filters.index.len() - 1 {
                    let users = blocks.iter().flatten().map(|key| InternalKey::new(key).user_key());
                    let all = || users.clone().map(UserKey::as_bytes);
                    let end = &filters.index.user_key(i)[..];
                    let last = all().take_while(|key| *key <= end).last().unwrap();
                    let next = all().find(|key| *key > end).unwrap();
                    let what = format!("{decoupled} {whole} {n} {i}");
                    assert!(filters.may_match(i, &next[..7]), "closing {what}");
                    assert!(filters.may_match(i + 1, &last[..7]), "opening {what}");
                }
            }
        }
    }
}

/// Random keys, blocks and sizes: every key and prefix is in the partition that is queried.
#[pumice_test_macros::test]
fn random_partitions_lose_nothing() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut users: Vec<Vec<u8>> = (0..rng.uniform(3000))
            .map(|_| {
                let len = rng.uniform(7) as usize;
                (0..len).map(|_| b'a' + rng.uniform(4) as u8).collect()
            })
            .collect();
        users.push(b"z".to_vec());
        users.sort();
        let per_block = 1 + rng.uniform(60) as usize;
        let mut seq = 1 << 30;
        let all: Vec<_> = users
            .iter()
            .map(|user| {
                seq -= 1;
                internal_key(user, seq, ValueType::Value)
            })
            .collect();
        let blocks: Vec<_> = all.chunks(per_block).map(<[_]>::to_vec).collect();
        let prefix = rng.one_in(2).then(|| 1 + rng.uniform(4) as usize);
        let mut context = context(1 + rng.uniform(1500) as usize, prefix);
        let whole = prefix.is_none() || rng.one_in(2);
        change(&mut context, |options| {
            options.whole_key_filtering = whole;
            options.decouple_partitioned_filters = rng.one_in(2);
            options.format_version = if rng.one_in(3) { 4 } else { 5 };
            options.index_block_restart_interval = 1 + rng.uniform(8) as u32;
        });
        if prefix.is_some() && !whole && users.iter().all(|user| user.len() < prefix.unwrap()) {
            continue;
        }
        let filters = build(&context, &blocks, false);
        for ikey in &all {
            let at = filters.partition_of(ikey);
            let user = InternalKey::new(ikey).user_key().as_bytes();
            if whole {
                assert!(filters.may_match(at, user));
            }
            if let Some(prefix) = prefix.and_then(|n| user.get(..n)) {
                assert!(filters.may_match(at, prefix));
            }
        }
    }
}

/// A hash that a memory fault changed before the filter is built fails the table, if that check is
/// enabled.
#[pumice_test_macros::test]
fn changed_hashes_are_detected() {
    for partitioned in [false, true] {
        for detect in [false, true] {
            let mut context = context(4096, None);
            change(&mut context, |options| {
                options.partition_filters = partitioned;
                options.detect_filter_construct_corruption = detect;
            });
            let mut builder = FilterBlockBuilder::new(&context).unwrap();
            let mut keys = BlockKeys::default();
            blocks_of(100, 1, 100)[0].iter().for_each(|key| keys.push(key));
            builder.add_block(&mut keys);
            match &mut builder {
                FilterBlockBuilder::Full(full) => full.builder.damage_entry(7),
                FilterBlockBuilder::Partitioned(partitioned) => partitioned.damage_entry(7),
            }
            let mut write = |_: &mut Vec<u8>| Ok(BlockHandle::default());
            let result = builder.finish(true, true, &mut write);
            match (detect, result) {
                (false, result) => assert!(result.unwrap().is_some()),
                (true, result) => assert!(result.unwrap_err().is_corruption()),
            }
        }
    }
}
