//! Tries against a list of separators by seed; blocks of RocksDB, rebuilt; damage.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pumice_base::key::{InternalKey, ValueType, internal_key};
use pumice_base::random::Rng;
use pumice_env::{FileSystem, PosixFs};

use super::*;
use crate::BlockKind;
use crate::metaindex::MetaIndex;
use crate::read::context::{TableReadContext, TableReadOptions};
use crate::read::cursor::BlockCursor;
use crate::read::file::BlockRead;
use crate::read::table::Table;

/// Internal keys of a block.
type Keys = Vec<Vec<u8>>;

/// Data blocks of user keys that begin alike, with versions that go on in the next block.
fn blocks(rng: &mut Rng) -> Vec<Keys> {
    let letters = 2 + rng.uniform(254);
    let most = [4, 30, 300][rng.uniform(3) as usize];
    let longest = 1 + rng.uniform(most);
    let mut users: Vec<Vec<u8>> = Vec::new();
    for _ in 0..1 + rng.uniform(400) {
        let mut key = match users.last() {
            Some(last) if rng.one_in(3) => {
                last[..rng.uniform(last.len() as u64 + 1) as usize].into()
            }
            _ => Vec::new(),
        };
        let more = rng.uniform(longest);
        key.extend((0..more).map(|_| 255 - rng.uniform(letters) as u8));
        users.push(key);
    }
    users.sort();
    users.dedup();
    let versions = 1 + rng.uniform(7);
    let keys = users.iter().flat_map(|user| {
        let count = 1 + rng.uniform(versions);
        // Compaction makes the oldest 0.
        let sequence = |n| if n == 0 { 0 } else { 5 * n };
        (0..count).rev().map(move |n| internal_key(user, sequence(n), ValueType::Value))
    });
    let keys: Keys = keys.collect();
    let mut blocks = vec![Keys::new()];
    for key in keys {
        if !blocks.last().unwrap().is_empty() && rng.one_in(2) {
            blocks.push(Keys::new());
        }
        blocks.last_mut().unwrap().push(key);
    }
    blocks
}

/// Their entries in a trie, and the separators with their tags.
fn collect(blocks: &[Keys]) -> (TrieEntries, Vec<(Vec<u8>, u64)>) {
    let (mut entries, mut entry) = (TrieEntries::default(), TrieEntry::default());
    let mut separators = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        let next = blocks.get(i + 1).map(|next| &next[0][..]);
        entry.prepare(block.last().unwrap(), next);
        entries.push(&entry, BlockHandle::new(40 * i as u64, 30));
        let key = entries.key(entries.len() - 1).to_vec();
        separators.push((key, entries.blocks(entries.len() - 1).last().unwrap().tag));
    }
    (entries, separators)
}

fn target(rng: &mut Rng, blocks: &[Keys]) -> Vec<u8> {
    let block = &blocks[rng.uniform(blocks.len() as u64) as usize];
    let key = &block[rng.uniform(block.len() as u64) as usize];
    let mut user = InternalKey::new(key).user_key().to_vec();
    match rng.uniform(6) {
        0 => user.push(rng.next_u32() as u8),
        1 => user.truncate(rng.uniform(user.len() as u64 + 1) as usize),
        2 if !user.is_empty() => *user.last_mut().unwrap() = rng.next_u32() as u8,
        _ => {}
    }
    internal_key(&user, rng.uniform(40), ValueType::Value)
}

/// A search ends at the block of a list of separators, and an entry at or after the target is in
/// that block or begins the next one.
#[pumice_test_macros::test]
fn searches_end_where_a_list_of_separators_says() {
    let (mut runs, mut dense, mut chained) = (0, 0, 0);
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let blocks = blocks(&mut rng);
        let (entries, separators) = collect(&blocks);
        runs += usize::from(entries.len() < blocks.len());
        let bytes = entries.finish().unwrap();
        assert!(bytes.len().is_multiple_of(8), "seed {seed}");
        dense += usize::from(bytes[16] > 0);
        chained += usize::from(separators.iter().any(|(key, _)| key.len() > 40));
        let trie = TrieIndex::decode(&bytes).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(trie.len(), blocks.len(), "seed {seed}");
        let cmp = pumice_base::InternalKeyComparator::default();
        for i in 0..blocks.len() {
            assert_eq!(trie.handle(i), BlockHandle::new(40 * i as u64, 30), "seed {seed}");
        }
        for _ in 0..100 {
            let key = target(&mut rng, &blocks);
            let target = InternalKey::new(&key);
            let user = target.user_key().as_bytes();
            let reaches = |(key, tag): &(Vec<u8>, u64)| {
                key[..] > *user || (key[..] == *user && *tag <= target.trailer())
            };
            let want = separators.iter().position(reaches).unwrap_or(separators.len());
            let at = trie.seek(target);
            assert_eq!(at, want, "seed {seed}: {key:x?}");
            let is_after = |key: &Vec<u8>| cmp.compare(InternalKey::new(key), target).is_ge();
            let first = blocks.iter().position(|block| is_after(block.last().unwrap()));
            let first = first.unwrap_or(blocks.len());
            let in_gap = at + 1 == first && blocks.get(first).is_none_or(|b| is_after(&b[0]));
            assert!(at == first || in_gap, "seed {seed}: {key:x?} is in {first}, not {at}");
        }
    }
    assert!(runs > 30 && dense > 5 && chained > 15, "{runs} {dense} {chained}");
}

#[pumice_test_macros::test]
fn a_table_of_nothing_and_one_of_the_empty_key_have_a_trie() {
    let trie = TrieIndex::decode(&TrieEntries::default().finish().unwrap()).unwrap();
    let key = internal_key(b"x", 1, ValueType::Value);
    assert_eq!((trie.len(), trie.seek(InternalKey::new(&key))), (0, 0));
    let empty = |sequence| internal_key(b"", sequence, ValueType::Value);
    for blocks in [vec![vec![empty(3)]], vec![vec![empty(3)], vec![empty(2)], vec![key]]] {
        let trie = TrieIndex::decode(&collect(&blocks).0.finish().unwrap()).unwrap();
        for (i, block) in blocks.iter().enumerate() {
            assert_eq!(trie.seek(InternalKey::new(&block[0])), i);
        }
    }
}

#[pumice_test_macros::test]
fn blocks_beyond_4_gib_have_no_trie() {
    let (mut entries, _) = collect(&[vec![internal_key(b"a", 1, ValueType::Value)]]);
    assert!(entries.finish().is_some());
    let mut entry = TrieEntry::default();
    entry.prepare(&internal_key(b"b", 1, ValueType::Value), None);
    entries.push(&entry, BlockHandle::new(1 << 32, 5));
    assert!(entries.finish().is_none());
}

/// Flipped bits and cuts are errors, or another trie in which every search ends.
#[pumice_test_macros::test]
fn damaged_blocks_are_refused_or_searched() {
    let (mut refused, mut read) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut blocks = blocks(&mut rng);
        blocks.truncate(60);
        let bytes = collect(&blocks).0.finish().unwrap();
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + rng.uniform(3) {
                let at = rng.uniform(damaged.len() as u64) as usize;
                match rng.uniform(8) {
                    0 => damaged.truncate(at.max(1)),
                    1 => damaged[at] = rng.next_u32() as u8,
                    _ => damaged[at] ^= 1 << rng.uniform(8),
                }
            }
            match TrieIndex::decode(&damaged) {
                Err(why) => {
                    assert!(why.starts_with("Trie index: ") || why.starts_with("Bitvector: "));
                    refused += 1;
                }
                Ok(trie) => {
                    for _ in 0..20 {
                        let key = target(&mut rng, &blocks);
                        let at = trie.seek(InternalKey::new(&key));
                        assert!(at <= trie.len(), "seed {seed}");
                        (at < trie.len()).then(|| trie.handle(at));
                    }
                    read += 1;
                }
            }
        }
        for _ in 0..40 {
            let cut = rng.uniform(bytes.len() as u64) as usize;
            assert!(TrieIndex::decode(&bytes[..cut]).is_err(), "seed {seed}: {cut}");
        }
    }
    // What the lists of labels, sizes and tags say cannot be told from damage.
    assert!(refused > 4000 && read > 200, "{refused} {read}");
}

/// Each number of the header that does not fit is named.
#[pumice_test_macros::test]
fn wrong_headers_are_refused_by_name() {
    let bytes = collect(&blocks(&mut Rng::new(1))).0.finish().unwrap();
    for (at, with, why) in [
        (0, 1, "bad magic number"),
        (4, 9, "unsupported format version"),
        (15, 1, "num_keys exceeds reasonable limit"),
        (16, 77, "cutoff_level inconsistent"),
        (23, 1, "max_depth exceeds reasonable limit"),
        (20, 0, "max_depth inconsistent"),
        (31, 1, "dense_leaf_count exceeds num_keys"),
        (40, 0x77, "child position table inconsistent"),
        (48, 3, "unknown flags"),
    ] {
        let mut wrong = bytes.clone();
        wrong[at] = with;
        let error = TrieIndex::decode(&wrong).err().unwrap_or("taken");
        assert!(error.contains(why), "{at}: {error}");
    }
}

/// First and last internal key, and the place, of each data block of a table.
fn data_blocks(table: &Arc<Table>) -> Vec<(Keys, BlockHandle)> {
    let options = TableReadOptions::default();
    let top = table.meta(&table.index, BlockKind::Index, &options).unwrap();
    let index = table.index_of(&top).unwrap();
    let block = |handle| {
        let pin = table.block(handle, BlockKind::Data, &options).unwrap();
        let mut cursor = BlockCursor::new(table.global);
        cursor.seek_to_first(pin.block());
        let first = cursor.key().to_vec();
        cursor.seek_to_last(pin.block());
        (vec![first, cursor.key().to_vec()], handle)
    };
    index.handles().map(block).collect()
}

/// The tables of `trie-index.tar.gz`: their tries are ours of the same blocks, byte for byte.
#[pumice_test_macros::test]
fn the_tries_of_rocksdb_11_9_are_rebuilt() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/testdata/rocksdb-11.9/trie-index.tar.gz");
    let dir = tempfile::tempdir().unwrap();
    let tar = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(dir.path()).status();
    assert!(tar.unwrap().success());
    let db = dir.path().join("trie-index/db");
    let mut tables = 0;
    for name in PosixFs.list(&db).unwrap() {
        if !name.ends_with(".sst") {
            continue;
        }
        let file = PosixFs.open_random_with(&db.join(&name), &Default::default()).unwrap();
        let len = file.len();
        let table = Table::open(TableReadContext::default(), file, len).unwrap();
        let meta =
            table.file.read(table.footer.metaindex, BlockKind::MetaIndex, BlockRead::ONCE).unwrap();
        let place = MetaIndex::decode(meta).unwrap().trie.unwrap();
        let theirs = table.file.read(place, BlockKind::Index, BlockRead::ONCE).unwrap();
        assert_eq!(theirs.len() as u64, place.size, "it is not compressed");
        let blocks = data_blocks(&table);
        let (mut entries, mut entry) = (TrieEntries::default(), TrieEntry::default());
        for (i, (keys, handle)) in blocks.iter().enumerate() {
            entry.prepare(&keys[1], blocks.get(i + 1).map(|(next, _)| &next[0][..]));
            entries.push(&entry, *handle);
        }
        let ours = entries.finish().unwrap();
        let differs = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        assert_eq!((differs, ours.len()), (None, theirs.len()), "{name}");
        let trie = TrieIndex::decode(&theirs).unwrap();
        for (i, (keys, handle)) in blocks.iter().enumerate() {
            assert_eq!(trie.handle(i), *handle);
            assert!(keys.iter().all(|key| trie.seek(InternalKey::new(key)) == i), "{name}: {i}");
        }
        tables += 1;
    }
    assert_eq!(tables, 4);
}

/// What no reader takes is not written.
#[pumice_test_macros::test]
fn a_separator_that_is_too_long_leaves_no_trie() {
    for (len, fits) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false)] {
        let key = internal_key(&vec![b'k'; len as usize], 7, ValueType::Value);
        let (entries, _) = collect(&[vec![key.clone()], vec![key]]);
        let block = entries.finish();
        assert_eq!(block.is_some(), fits, "{len}");
        let block = block.map(|block| TrieIndex::decode(&block).map(|trie| trie.len()));
        assert_eq!(block, fits.then_some(Ok(2)), "{len}");
    }
}
