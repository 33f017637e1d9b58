//! Tests of decoded index blocks.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::build::context::TableBuildContext;
use crate::build::index_builder::{IndexBuilder, IndexEntry, Separators};
use crate::options::{IndexShortening, IndexType, TableOptions};
use pumice_base::key::{internal_key, seek_key};
use pumice_base::{Comparator, ValueType};
use std::sync::Arc;

impl IndexBlock {
    /// The separator of block `i` as stored.
    pub(crate) fn key(&self, i: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.key_into(i, &mut key);
        key
    }

    /// The user key of entry `i`.
    pub(crate) fn user_key(&self, i: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.user_key_into(i, &mut key);
        key
    }
}

fn options(delta_handles: bool) -> TableOptions {
    TableOptions {
        format_version: if delta_handles { 5 } else { 3 },
        index_block_restart_interval: 3,
        ..Default::default()
    }
}

fn build(cmp: &Comparator, options: TableOptions, versions: bool) -> (Vec<u8>, IndexEncoding) {
    let context = TableBuildContext {
        comparator: InternalKeyComparator::new(cmp.clone()),
        table: Arc::new(options),
        ..Default::default()
    };
    let separators = Separators::new(&context);
    let mut builder = IndexBuilder::new(&context).unwrap();
    let mut entry = IndexEntry::default();
    let mut ends: Vec<Vec<u8>> =
        (0..50u32).map(|i| format!("key{:05}", i * 10).into_bytes()).collect();
    ends.sort_by(|a, b| cmp.compare(UserKey::new(a), UserKey::new(b)));
    let mut offset = 0;
    for (i, end) in ends.iter().enumerate() {
        let last = internal_key(end, 50, ValueType::Value);
        let first = internal_key(end, 60, ValueType::Value);
        let next = ends.get(i + 1).map(|k| internal_key(k, 50, ValueType::Value));
        let next =
            if versions && i == 7 { Some(internal_key(end, 20, ValueType::Value)) } else { next };
        let size = 100 + (i as u64 * 37) % 50;
        separators.prepare(&last, next.as_deref(), &first, &mut entry);
        builder.push(&entry, BlockHandle::new(offset, size));
        offset += size + 5;
    }
    let encoding = IndexEncoding {
        user_keys: builder.stores_user_keys(),
        delta_handles: builder.delta_handles(),
        first_keys: context.table.index_type == IndexType::BinarySearchWithFirstKey,
    };
    let mut block = Vec::new();
    let mut write = |bytes: &mut Vec<u8>| {
        block = bytes.clone();
        Ok(BlockHandle::default())
    };
    builder.finish(&mut write).unwrap();
    (block, encoding)
}

#[pumice_test_macros::test]
fn decodes_and_searches_what_the_builder_wrote() {
    for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise] {
        for (delta, versions) in [(false, false), (true, false), (true, true)] {
            let (block, encoding) = build(&cmp, options(delta), versions);
            assert_eq!(encoding.user_keys, !versions);
            let icmp = InternalKeyComparator::new(cmp.clone());
            let index = IndexBlock::decode(&block, encoding, &icmp).unwrap();
            assert_eq!(index.len(), 50);
            let mut offset = 0;
            for i in 0..50 {
                assert_eq!(index.handle(i).offset, offset);
                offset = index.handle(i).end().unwrap();
            }
            for n in 0..520u32 {
                let target = seek_key(format!("key{n:05}").as_bytes(), 30);
                let want = (0..50)
                    .find(|&i| index.compare(i, &icmp, InternalKey::new(&target)).is_ge())
                    .unwrap_or(50);
                assert_eq!(index.seek(&icmp, InternalKey::new(&target)), want, "{n} {cmp:?}");
            }
        }
    }
}

/// First keys, with and without delta-encoded handles, and what they imply for lookups.
#[pumice_test_macros::test]
fn decodes_first_keys() {
    for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise] {
        for delta in [false, true] {
            let icmp = InternalKeyComparator::new(cmp.clone());
            let kind = IndexType::BinarySearchWithFirstKey;
            let options = TableOptions { index_type: kind, ..options(delta) };
            let (block, encoding) = build(&cmp, options, false);
            let index = IndexBlock::decode(&block, encoding, &icmp).unwrap();
            assert_eq!(index.len(), 50);
            for i in 0..50 {
                // The first key of a block of one key is its last.
                let number = if cmp.is_bytewise() { i * 10 } else { 490 - i * 10 };
                let first = format!("key{number:05}");
                assert!(!index.begins_above(i, &icmp, UserKey::new(first.as_bytes())));
                let (shorter, longer) = (first[..7].to_string(), format!("{first}0"));
                let (before, behind) =
                    if cmp.is_bytewise() { (shorter, longer) } else { (longer, shorter) };
                assert!(index.begins_above(i, &icmp, UserKey::new(before.as_bytes())));
                assert!(!index.begins_above(i, &icmp, UserKey::new(behind.as_bytes())));
            }
        }
    }
}

#[pumice_test_macros::test]
fn refuses_damage_without_panic() {
    for first_keys in [false, true] {
        refuse_damage(first_keys);
    }
}

fn refuse_damage(first_keys: bool) {
    let cmp = InternalKeyComparator::default();
    let mut settings = options(true);
    if first_keys {
        settings.index_type = IndexType::BinarySearchWithFirstKey;
    }
    let (block, encoding) = build(&Comparator::Bytewise, settings, false);
    for at in 0..block.len() {
        for bit in 0..8 {
            let mut bad = block.clone();
            bad[at] ^= 1 << bit;
            if let Ok(index) = IndexBlock::decode(&bad, encoding, &cmp) {
                let at = index.seek(&cmp, InternalKey::new(&seek_key(b"key00123", 9)));
                index.begins_above(at, &cmp, UserKey::new(b"key00123"));
            }
        }
        if let Ok(index) = IndexBlock::decode(&block[..at], encoding, &cmp) {
            index.seek(&cmp, InternalKey::new(&seek_key(b"key00123", 9)));
        }
    }
}

/// Entries that share all of the key before and add a byte: assembled, their keys take the square
/// of the block's size. 100,000 entries were 5 GB.
#[pumice_test_macros::test]
fn keys_that_grow_out_of_proportion_are_refused() {
    let encoding = IndexEncoding { user_keys: true, delta_handles: true, first_keys: false };
    let cmp = InternalKeyComparator::default();
    for (entries, fits) in [(5_000u32, true), (100_000, false)] {
        let mut block = vec![0, 1, b'k', 0, 10];
        for shared in 1..entries {
            pumice_base::coding::put_varint32(&mut block, shared);
            block.extend([1, b'k', 0]);
        }
        block.extend([0; 4]);
        block.extend(1u32.to_le_bytes());
        let index = IndexBlock::decode(&block, encoding, &cmp);
        assert_eq!(index.is_ok(), fits, "{entries} entries: {:?}", index.err());
    }
}

/// Blocks of a table follow each other: reading everything that an index names reads no more than
/// the file.
#[pumice_test_macros::test]
fn blocks_that_overlap_are_refused() {
    let encoding = IndexEncoding { user_keys: true, delta_handles: true, first_keys: false };
    let cmp = InternalKeyComparator::default();
    for (second, fits) in [(15, true), (40, true), (14, false), (0, false)] {
        let block = [
            &[0, 1, b'k', 0, 10, 0, 1, b'l', second, 10][..],
            &[0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0],
        ];
        let index = IndexBlock::decode(&block.concat(), encoding, &cmp);
        assert_eq!(index.is_ok(), fits, "{second}: {:?}", index.err());
    }
}

/// Keys of one table, whose first eight bytes are equal, and the short successor of the last.
#[pumice_test_macros::test]
fn words_follow_what_keys_have_in_common() {
    let icmp = InternalKeyComparator::new(Comparator::Bytewise);
    let table = TableOptions {
        index_shortening: IndexShortening::SeparatorsAndSuccessor,
        ..Default::default()
    };
    let context = TableBuildContext {
        comparator: icmp.clone(),
        table: Arc::new(table),
        ..Default::default()
    };
    let separators = Separators::new(&context);
    let mut builder = IndexBuilder::new(&context).unwrap();
    let mut entry = IndexEntry::default();
    let key = |n: u32| format!("the rows of a table/{n:08}").into_bytes();
    for n in 0..40 {
        let [first, last] =
            [10 * n, 10 * n + 9].map(|n| internal_key(&key(n), 5, ValueType::Value));
        let next = (n < 39).then(|| internal_key(&key(10 * n + 10), 5, ValueType::Value));
        separators.prepare(&last, next.as_deref(), &first, &mut entry);
        builder.push(&entry, BlockHandle::new(u64::from(n) * 100, 95));
    }
    let encoding = IndexEncoding {
        user_keys: builder.stores_user_keys(),
        delta_handles: builder.delta_handles(),
        first_keys: false,
    };
    let mut block = Vec::new();
    let mut write = |bytes: &mut Vec<u8>| {
        block = bytes.clone();
        Ok(BlockHandle::default())
    };
    builder.finish(&mut write).unwrap();
    let index = IndexBlock::decode(&block, encoding, &icmp).unwrap();
    assert_eq!((index.len(), index.columned, index.words), (40, 39, Words::Narrow));
    assert_eq!(index.key(39), b"u");
    for n in 0..400 {
        let target = seek_key(&key(n), 9);
        assert_eq!(index.seek(&icmp, InternalKey::new(&target)), n as usize / 10, "{n}");
    }
    for (name, block) in [("the rows", 0), ("the rows of a tablf", 39), ("u", 39), ("v", 40)] {
        let target = seek_key(name.as_bytes(), 9);
        assert_eq!(index.seek(&icmp, InternalKey::new(&target)), block, "{name}");
    }
}
