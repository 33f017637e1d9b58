//! Walks in blocks that are assembled by hand.
//!
//! Also blocks with separated keys and values (docs/format/table.md#separated-values), because
//! RocksDB writes them from 11.0 on, and no peer of that version is installed here: they follow the
//! description, byte example included.
#![allow(clippy::unwrap_used)]

use pumice_base::coding::{put_fixed16, put_fixed32, put_varint32};
use pumice_base::key::{internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{InternalKey, InternalKeyComparator, ValueType};

use super::BlockCursor;
use crate::read::block::{Block, GlobalSeqno, KeyForm};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A block of `entries` with `interval` entries to a restart point.
fn separated_block(entries: &Entries, interval: usize, hash_index: bool) -> Vec<u8> {
    let (mut keys, mut values, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
    let mut last: &[u8] = &[];
    for (n, (key, value)) in entries.iter().enumerate() {
        let restart = n % interval == 0;
        let same = key.iter().zip(last).take_while(|(a, b)| a == b).count();
        let shared = if restart { 0 } else { same };
        if restart {
            restarts.push(keys.len() as u32);
        }
        put_varint32(&mut keys, shared as u32);
        put_varint32(&mut keys, (key.len() - shared) as u32);
        put_varint32(&mut keys, value.len() as u32);
        if restart {
            put_varint32(&mut keys, values.len() as u32);
        }
        keys.extend_from_slice(&key[shared..]);
        values.extend_from_slice(value);
        last = key;
    }
    let values_at = keys.len() as u32;
    let mut block = keys;
    block.extend_from_slice(&values);
    restarts.iter().for_each(|at| put_fixed32(&mut block, *at));
    let mut packed = restarts.len() as u32 | 1 << 28;
    if hash_index {
        block.extend_from_slice(&[254, 254, 254]);
        put_fixed16(&mut block, 3);
        packed |= 1 << 31;
    }
    put_fixed32(&mut block, values_at);
    put_fixed32(&mut block, packed);
    block
}

fn random_entries(rng: &mut Rng) -> Entries {
    let mut keys: Vec<String> =
        (0..1 + rng.uniform(60)).map(|_| format!("key{:05}", rng.uniform(300))).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .map(|key| {
            let len = rng.uniform(40) as usize;
            (internal_key(key.as_bytes(), 1 + rng.uniform(90), ValueType::Value), rng.bytes(len))
        })
        .collect()
}

fn shown(cursor: &BlockCursor, block: &Block) -> (Vec<u8>, Vec<u8>) {
    (cursor.key().to_vec(), cursor.value(block).to_vec())
}

#[pumice_test_macros::test]
fn separated_values_are_read_in_every_direction() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let entries = random_entries(&mut rng);
        let bytes = separated_block(&entries, 1 + rng.uniform(8) as usize, rng.one_in(3));
        let block = Block::decode(bytes, KeyForm::Internal).unwrap();
        let mut cursor = BlockCursor::new(GlobalSeqno::new(None));

        cursor.seek_to_first(&block);
        for entry in &entries {
            assert!(cursor.valid(), "seed {seed}");
            assert_eq!(shown(&cursor, &block), *entry, "seed {seed}");
            cursor.next(&block);
        }
        assert!(!cursor.valid() && !cursor.damaged(), "seed {seed}");

        cursor.seek_to_last(&block);
        for entry in entries.iter().rev() {
            assert!(cursor.valid(), "seed {seed}");
            assert_eq!(shown(&cursor, &block), *entry, "seed {seed}");
            cursor.prev(&block);
        }
        assert!(!cursor.valid() && !cursor.damaged(), "seed {seed}");

        let icmp = InternalKeyComparator::default();
        for _ in 0..20 {
            let target = seek_key(format!("key{:05}", rng.uniform(310)).as_bytes(), 1000);
            cursor.seek(&block, &icmp, InternalKey::new(&target));
            let want = entries.iter().position(|(key, _)| {
                icmp.compare(InternalKey::new(key), InternalKey::new(&target)).is_ge()
            });
            assert_eq!(cursor.valid(), want.is_some(), "seed {seed}");
            let Some(at) = want else { continue };
            assert_eq!(shown(&cursor, &block), entries[at], "seed {seed}");
            cursor.next(&block);
            assert_eq!(cursor.valid(), at + 1 < entries.len(), "seed {seed}");
            if cursor.valid() {
                assert_eq!(shown(&cursor, &block), entries[at + 1], "seed {seed}");
                cursor.prev(&block);
                assert_eq!(shown(&cursor, &block), entries[at], "seed {seed}");
            }
        }
    }
}

#[pumice_test_macros::test]
fn restart_entries_have_the_layout_of_the_example() {
    // Interval 5, 17-byte keys, 29-byte values: the second restart's value offset is 145.
    let entries: Entries = (0..6)
        .map(|n| {
            (internal_key(format!("key00000{n}").as_bytes(), 1, ValueType::Value), vec![7; 29])
        })
        .collect();
    let bytes = separated_block(&entries, 5, false);
    assert_eq!(bytes[..4], [0x00, 0x11, 0x1d, 0x00]);
    // The first restart entry takes 4 + 17 bytes, four more entries 3 + 9 each.
    assert_eq!(bytes[69..74], [0x00, 0x11, 0x1d, 0x91, 0x01]);
}

#[pumice_test_macros::test]
fn damaged_separated_blocks_never_panic() {
    let mut rng = Rng::new(3);
    let entries = random_entries(&mut rng);
    let good = separated_block(&entries, 3, true);
    for at in 0..good.len() {
        for flip in [1u8, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            let Ok(block) = Block::decode(bytes, KeyForm::Internal) else { continue };
            let mut cursor = BlockCursor::new(GlobalSeqno::new(None));
            cursor.seek_to_first(&block);
            for _ in 0..200 {
                if !cursor.valid() {
                    break;
                }
                shown(&cursor, &block);
                cursor.next(&block);
            }
            cursor.seek_to_last(&block);
            for _ in 0..200 {
                if !cursor.valid() {
                    break;
                }
                shown(&cursor, &block);
                cursor.prev(&block);
            }
            cursor.seek(
                &block,
                &InternalKeyComparator::default(),
                InternalKey::new(&seek_key(b"key00100", 50)),
            );
        }
    }
}

/// A block whose keys share all they can with the one before, trailers too.
fn sharing_block(keys: &[Vec<u8>], interval: usize) -> Block {
    let (mut bytes, mut restarts, mut last) = (Vec::new(), Vec::new(), &Vec::new());
    for (n, key) in keys.iter().enumerate() {
        let restart = n % interval == 0;
        let same = key.iter().zip(last).take_while(|(a, b)| a == b).count();
        let shared = if restart { 0 } else { same };
        if restart {
            restarts.push(bytes.len() as u32);
        }
        put_varint32(&mut bytes, shared as u32);
        put_varint32(&mut bytes, (key.len() - shared) as u32);
        put_varint32(&mut bytes, 1);
        bytes.extend_from_slice(&key[shared..]);
        bytes.push(n as u8);
        last = key;
    }
    restarts.iter().for_each(|at| put_fixed32(&mut bytes, *at));
    put_fixed32(&mut bytes, restarts.len() as u32);
    Block::decode(bytes, KeyForm::Internal).unwrap()
}

/// Steps in both directions, with and without a sequence number that replaces the stored one.
#[pumice_test_macros::test]
fn walks_show_the_entries_of_the_list() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut keys: Vec<Vec<u8>> = (0..1 + rng.uniform(70))
            .map(|_| {
                let (n, longer) = (rng.uniform(30), "y".repeat(rng.uniform(4) as usize));
                let user = format!("k{n:02}{longer}");
                internal_key(user.as_bytes(), 1 + rng.uniform(5), ValueType::Value)
            })
            .collect();
        let cmp = InternalKeyComparator::default();
        keys.sort_by(|a, b| cmp.compare(InternalKey::new(a), InternalKey::new(b)));
        let global = [None, Some(7)][rng.uniform(2) as usize];
        let block = sharing_block(&keys, 1 + rng.uniform(20) as usize);
        let shown = |at: usize| {
            let mut key = keys[at].clone();
            if let Some(seqno) = global {
                let trailer_at = key.len() - 8;
                key[trailer_at + 1..trailer_at + 8].fill(0);
                key[trailer_at + 1] = seqno as u8;
            }
            (key, vec![at as u8])
        };
        let mut cursor = BlockCursor::new(GlobalSeqno::new(global));
        for _ in 0..4 {
            let mut at = if rng.one_in(2) { 0 } else { keys.len() - 1 };
            if at == 0 {
                cursor.seek_to_first(&block)
            } else {
                cursor.seek_to_last(&block)
            }
            let back = 1 + rng.uniform(9);
            for _ in 0..200 {
                assert!(cursor.valid() && !cursor.damaged(), "seed {seed}");
                let found = (cursor.key().to_vec(), cursor.value(&block).to_vec());
                assert_eq!(found, shown(at), "seed {seed} at {at}");
                let forward = rng.uniform(10) >= back;
                if forward {
                    cursor.next(&block)
                } else {
                    cursor.prev(&block)
                }
                match forward {
                    true if at + 1 < keys.len() => at += 1,
                    false if at > 0 => at -= 1,
                    _ => break,
                }
            }
        }
    }
}

/// Keys of one restart interval that grow by a byte each: assembled they would take a thousand
/// times the size of the block.
#[pumice_test_macros::test]
fn walking_back_takes_no_more_memory_than_the_block() {
    let key = vec![b'k'; 20_000];
    let keys: Vec<Vec<u8>> = (8..key.len()).map(|len| key[..len].to_vec()).collect();
    let block = sharing_block(&keys, usize::MAX);
    let mut cursor = BlockCursor::new(GlobalSeqno::default());
    cursor.seek_to_last(&block);
    for want in keys.iter().rev() {
        assert!(cursor.valid() && cursor.key() == want.as_slice());
        cursor.prev(&block);
    }
    assert!(!cursor.valid() && !cursor.damaged());
    let held = cursor.replaced.capacity() + cursor.back.capacity() * size_of::<super::BackEntry>();
    assert!(held <= 10 * block.data().len(), "{held} bytes for {}", block.data().len());
}
