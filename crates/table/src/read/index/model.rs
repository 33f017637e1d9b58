//! Decoded index blocks against lists of entries, over random blocks of all forms.
//!
//! Blocks are encoded here, entry by entry, so that they also contain what no builder writes: gaps
//! between blocks, offsets beyond 4 GiB, equal separators. Seeds are in the messages.
#![allow(clippy::unwrap_used)]

use super::*;
use pumice_base::coding::{put_varint32, put_varint64};
use pumice_base::key::{CustomComparator, internal_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, Error, ValueType};
use pumice_compress::{CompressionOptions, CompressionType, Compressor, SnappyPrefix};
use std::sync::Arc;

/// Shorter keys first, then bytes.
struct ByLength;

impl CustomComparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
    fn find_shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    fn find_short_successor(&self, _key: &mut Vec<u8>) {}
}

struct Entry {
    /// As stored.
    key: Vec<u8>,
    handle: BlockHandle,
    first: Vec<u8>,
}

struct Case {
    cmp: InternalKeyComparator,
    encoding: IndexEncoding,
    entries: Vec<Entry>,
    block: Vec<u8>,
}

/// User keys of a few bytes' alphabet after a shared prefix, so that words tie and nest.
fn user_key_of(rng: &mut Rng, prefix: &[u8], len_max: u64) -> Vec<u8> {
    let alphabet = [0, 1, b'a', b'b', 0x7f, 0x80, 0xff];
    let mut key = prefix.to_vec();
    let len = rng.uniform(len_max + 1);
    key.extend((0..len).map(|_| alphabet[rng.uniform(7) as usize]));
    key
}

fn handles_of(rng: &mut Rng, n: usize) -> Vec<BlockHandle> {
    let mut at = match rng.uniform(4) {
        0 => 0,
        1 => rng.uniform(1 << 20),
        2 => (4 << 30) - rng.uniform(1 << 12),
        _ => rng.uniform(1 << 62),
    };
    let (size_max, gaps) =
        ([1, 50, 5000, 1 << 17, 1 << 33][rng.uniform(5) as usize], rng.one_in(3));
    let mut one = || {
        let handle = BlockHandle::new(at, rng.uniform(size_max));
        at = handle.end().unwrap() + if gaps { rng.uniform(5000) } else { 0 };
        handle
    };
    (0..n).map(|_| one()).collect()
}

fn put_entry(block: &mut Vec<u8>, case: &Case, i: usize, restart: bool, delta: bool) {
    let Entry { key, handle, first } = &case.entries[i];
    let shared = match i {
        0 => 0,
        _ if restart => 0,
        _ => crate::prefix::common_prefix(&case.entries[i - 1].key, key),
    };
    let mut value = Vec::new();
    if delta && shared > 0 {
        let step = handle.size.wrapping_sub(case.entries[i - 1].handle.size) as i64;
        put_varint64(&mut value, ((step << 1) ^ (step >> 63)) as u64);
    } else {
        handle.encode_to(&mut value);
    }
    if case.encoding.first_keys {
        put_varint32(&mut value, first.len() as u32);
        value.extend_from_slice(first);
    }
    put_varint32(block, shared as u32);
    put_varint32(block, (key.len() - shared) as u32);
    if !delta {
        put_varint32(block, value.len() as u32);
    }
    block.extend_from_slice(&key[shared..]);
    block.extend_from_slice(&value);
}

fn random_case(rng: &mut Rng, n_max: u64) -> Case {
    let orders =
        [Comparator::Bytewise, Comparator::ReverseBytewise, Comparator::Custom(Arc::new(ByLength))];
    // Bytewise has most of the forms.
    let order = orders[[0, 0, 0, 1, 2][rng.uniform(5) as usize]].clone();
    let cmp = InternalKeyComparator::new(order);
    let n = rng.uniform(n_max + 1) as usize;
    let prefix_len = [0, 0, 3, 8, 9, 20][rng.uniform(6) as usize];
    let (prefix, len_max) = (rng.bytes(prefix_len), [2, 3, 5, 9, 40][rng.uniform(5) as usize]);
    let user_keys = rng.one_in(2);
    let mut keys: Vec<Vec<u8>> = (0..n)
        .map(|_| {
            let user = user_key_of(rng, &prefix, len_max);
            if user_keys { user } else { internal_key(&user, rng.uniform(9), ValueType::Value) }
        })
        .collect();
    keys.sort_by(|a, b| {
        if user_keys {
            cmp.user.compare(UserKey::new(a), UserKey::new(b))
        } else {
            cmp.compare(InternalKey::new(a), InternalKey::new(b))
        }
    });
    // A short successor, as builders write it, which shares nothing with the others.
    if rng.one_in(3)
        && matches!(cmp.user, Comparator::Bytewise)
        && let Some(last) = keys.last_mut()
    {
        *last =
            if user_keys { vec![0xff; 42] } else { internal_key(&[0xff; 42], 3, ValueType::Value) };
    }
    let handles = handles_of(rng, n);
    let contiguous = handles.windows(2).all(|pair| pair[0].end() == Some(pair[1].offset));
    let encoding = IndexEncoding {
        user_keys,
        delta_handles: contiguous && rng.one_in(2),
        first_keys: rng.one_in(3),
    };
    let entries = keys.into_iter().zip(handles);
    let entries = entries
        .map(|(key, handle)| {
            let first = user_key_of(rng, &prefix, len_max);
            Entry { key, handle, first: internal_key(&first, 1, ValueType::Value) }
        })
        .collect();
    let mut case = Case { cmp, encoding, entries, block: Vec::new() };
    case.encode([1, 1, 3, 16][rng.uniform(4) as usize]);
    case
}

impl Case {
    fn encode(&mut self, interval: usize) {
        let (mut block, mut restarts) = (Vec::new(), vec![0u32]);
        for i in 0..self.entries.len() {
            let restart = i % interval == 0;
            if restart && i > 0 {
                restarts.push(block.len() as u32);
            }
            put_entry(&mut block, self, i, restart, self.encoding.delta_handles);
        }
        for restart in &restarts {
            block.extend_from_slice(&restart.to_le_bytes());
        }
        block.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
        self.block = block;
    }

    fn decode(&self) -> Result<IndexBlock, &'static str> {
        IndexBlock::decode(&self.block, self.encoding, &self.cmp)
    }

    fn raw(&self) -> RawIndex<'_> {
        RawIndex::new(&self.block, self.encoding).unwrap()
    }
}

/// Two keys in the wrong order, anywhere, are noticed: also where only the part after the words
/// distinguishes them, or the trailer.
#[pumice_test_macros::test]
fn keys_out_of_order_are_refused() {
    let mut refused = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(5000 + seed);
        let mut case = random_case(&mut rng, 20);
        let n = case.entries.len();
        if n < 2 {
            continue;
        }
        let at = rng.uniform(n as u64 - 1) as usize;
        let other = at + 1 + rng.uniform((n - at) as u64 - 1) as usize;
        if case.entries[at].key == case.entries[other].key {
            continue;
        }
        let key = std::mem::take(&mut case.entries[at].key);
        case.entries[at].key = std::mem::replace(&mut case.entries[other].key, key);
        case.encode(1);
        let error = case.decode().err();
        assert_eq!(error, Some("index keys out of order"), "seed {seed}");
        refused += 1;
    }
    assert!(refused > 200, "{refused}");
}

fn check_seek(case: &Case, index: &IndexBlock, target: &[u8], what: &str) {
    let Case { cmp, entries, encoding, .. } = case;
    let reaches = |entry: &Entry| {
        if encoding.user_keys {
            cmp.user.compare(UserKey::new(&entry.key), InternalKey::new(target).user_key()).is_ge()
        } else {
            cmp.compare(InternalKey::new(&entry.key), InternalKey::new(target)).is_ge()
        }
    };
    let want = entries.iter().position(reaches).unwrap_or(entries.len());
    assert_eq!(index.seek(cmp, InternalKey::new(target)), want, "seek {target:?} in {what}");
    let mut raw = case.raw().seek(cmp, InternalKey::new(target)).unwrap();
    for (i, entry) in entries.iter().enumerate().skip(want) {
        assert_eq!(raw.handle(), Some(entry.handle), "raw {i} {target:?} in {what}");
        let above = index.begins_above(i, cmp, InternalKey::new(target).user_key());
        assert_eq!(
            raw.begins_above(cmp, InternalKey::new(target).user_key()),
            Ok(above),
            "raw {i} in {what}"
        );
        raw.advance().unwrap();
    }
    assert_eq!(raw.handle(), None, "raw {target:?} in {what}");
    for (i, entry) in entries.iter().enumerate() {
        assert_eq!(
            index.reaches(i, cmp, InternalKey::new(target)),
            reaches(entry),
            "{i} {target:?} in {what}"
        );
        let first = InternalKey::new(&entry.first).user_key();
        let above = encoding.first_keys
            && cmp.user.compare(first, InternalKey::new(target).user_key()).is_gt();
        assert_eq!(
            index.begins_above(i, cmp, InternalKey::new(target).user_key()),
            above,
            "{i} in {what}"
        );
    }
}

#[pumice_test_macros::test]
fn random_blocks_match_the_list_of_their_entries() {
    let mut forms = std::collections::BTreeSet::new();
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let n_max = if seed % 20 == 0 { 400 } else { 40 };
        let case = random_case(&mut rng, n_max);
        let what = format!("seed {seed}, {:?}", case.encoding);
        let index = case.decode().unwrap();
        assert_eq!(index.len(), case.entries.len(), "{what}");
        assert!(index.memory_bytes() < 400 + 3 * case.block.len() + 22 * case.entries.len());
        for (i, entry) in case.entries.iter().enumerate() {
            assert_eq!(index.key(i), entry.key, "{i} in {what}");
            assert_eq!(index.handle(i), entry.handle, "{i} in {what}");
        }
        assert!(index.handles().eq(case.entries.iter().map(|entry| entry.handle)), "{what}");
        let shape = (index.words, index.handles.tight, index.handles.sizes.is_none());
        let is_apart = (index.columned as usize) < index.len();
        forms.insert(format!("{shape:?} {} {is_apart}", index.word_lens.is_none()));
        for _ in 0..12 {
            let near = case.entries.get(rng.uniform(40) as usize);
            let mut user = near.map_or(Vec::new(), |entry| match case.encoding.user_keys {
                true => entry.key.clone(),
                false => InternalKey::new(&entry.key).user_key().to_vec(),
            });
            match rng.uniform(5) {
                0 => user.push([0, 1, 0xff][rng.uniform(3) as usize]),
                1 => user.truncate(rng.uniform(user.len() as u64 + 1) as usize),
                2 if !user.is_empty() => {
                    let at = rng.uniform(user.len() as u64) as usize;
                    user[at] = user[at].wrapping_add(1 + rng.uniform(254) as u8);
                }
                3 => user = user_key_of(&mut rng, &[], 12),
                _ => {}
            }
            let target = internal_key(&user, rng.uniform(9), ValueType::Value);
            check_seek(&case, &index, &target, &what);
        }
    }
    // Narrow and wide words, tight and loose handles, gaps, keys that end in their words, a last
    // one that is apart.
    assert!(forms.len() >= 20, "{forms:?}");
}

/// Every bit of blocks of all forms: an error or a usable index, in memory bounded by the size of
/// the block.
#[pumice_test_macros::test]
fn damage_is_refused_or_harmless() {
    for seed in 0..60 {
        let mut rng = Rng::new(1000 + seed);
        let case = random_case(&mut rng, 12);
        let target = internal_key(b"ab", 3, ValueType::Value);
        let use_it = |block: &[u8]| {
            search_raw(block, &case, &target);
            let Ok(index) = IndexBlock::decode(block, case.encoding, &case.cmp) else { return };
            let most = 600 + block.len() * block.len();
            assert!(index.memory_bytes() <= most, "seed {seed}: {}", index.memory_bytes());
            let at = index.seek(&case.cmp, InternalKey::new(&target));
            assert!(at <= index.len(), "seed {seed}");
            let mut key = Vec::new();
            for i in 0..index.len() {
                index.user_key_into(i, &mut key);
                assert!(key.len() <= block.len() * block.len());
                index.handle(i);
                index.begins_above(i, &case.cmp, UserKey::new(b"ab"));
            }
        };
        for at in 0..case.block.len() {
            for bit in 0..8 {
                let mut bad = case.block.clone();
                bad[at] ^= 1 << bit;
                use_it(&bad);
            }
            use_it(&case.block[..at]);
        }
    }
}

/// A raw search of arbitrary bytes ends, in an error or at a position in the block.
fn search_raw(block: &[u8], case: &Case, target: &[u8]) {
    let targets = case.entries.iter().map(|entry| match case.encoding.user_keys {
        true => internal_key(&entry.key, 3, ValueType::Value),
        false => entry.key.clone(),
    });
    for target in targets.chain([target.to_vec()]) {
        let Ok(index) = RawIndex::new(block, case.encoding) else { return };
        let Ok(mut at) = index.seek(&case.cmp, InternalKey::new(&target)) else { continue };
        let mut steps = 0;
        while at.handle().is_some() {
            let first = at.begins_above(&case.cmp, InternalKey::new(&target).user_key());
            assert!(first.is_ok() || case.encoding.first_keys);
            steps += 1;
            assert!(steps <= block.len(), "an endless index");
            if at.advance().is_err() {
                break;
            }
        }
    }
}

/// A search in the compressed block that stops early.
fn search_partial(block: &[u8], target: &[u8]) -> Result<Option<BlockHandle>, Error> {
    let options = CompressionOptions::default();
    let mut compressor = Compressor::new(CompressionType::Snappy, &options).unwrap();
    let mut framed = Vec::new();
    if !compressor.compress(block, &mut framed).unwrap() {
        // Not worth it: as literals.
        framed.clear();
        put_varint32(&mut framed, block.len() as u32);
        for literal in block.chunks(60) {
            framed.push((literal.len() as u8 - 1) << 2);
            framed.extend_from_slice(literal);
        }
    }
    let mut prefix = SnappyPrefix::new(&framed, Vec::new(), 1 << 20)?;
    partial::find(&mut prefix, InternalKey::new(target).user_key().as_bytes())
}

/// A search that stops early finds what the list of entries has, or nothing; it must find targets
/// inside blocks as builders write them, also at their ends.
#[pumice_test_macros::test]
fn partial_searches_find_what_whole_ones_do() {
    let (mut found, mut left) = (0, 0);
    for seed in 0..2000 {
        let mut rng = Rng::new(9000 + seed);
        let n_max = if seed % 10 == 0 { 400 } else { 80 };
        let mut case = random_case(&mut rng, n_max);
        let bytewise = matches!(case.cmp.user, Comparator::Bytewise);
        if case.encoding != IndexEncoding::USUAL || !bytewise || case.entries.is_empty() {
            continue;
        }
        let interval = [1, 1, 1, 2, 16][rng.uniform(5) as usize];
        case.encode(interval);
        let far = case.entries.iter().any(|entry| entry.handle.end().unwrap() >= 1 << 28);
        // The restart array gives the last entry its window.
        let has_window = case.entries.len() >= 20;
        for _ in 0..20 {
            let near = rng.uniform(case.entries.len() as u64) as usize;
            let mut user = case.entries[near].key.clone();
            match rng.uniform(4) {
                0 => user.push([0, 1, 0xff][rng.uniform(3) as usize]),
                1 => user.truncate(rng.uniform(user.len() as u64 + 1) as usize),
                2 => user = user_key_of(&mut rng, &[], 12),
                _ => {}
            }
            let want = case.entries.iter().find(|entry| entry.key >= user);
            let target = internal_key(&user, 3, ValueType::Value);
            let got = search_partial(&case.block, &target).unwrap();
            if got.is_some() || (interval == 1 && !far && has_window) {
                assert_eq!(got, want.map(|entry| entry.handle), "seed {seed}, {user:?}");
            }
            *(if got.is_some() { &mut found } else { &mut left }) += 1;
        }
    }
    assert!(found > 400 && left > 400, "{found} found, {left} left");
}

/// Every bit of usual blocks: an error, nothing, or some handle.
#[pumice_test_macros::test]
fn partial_searches_survive_damage() {
    for seed in 0..200 {
        let mut rng = Rng::new(7000 + seed);
        // Few entries are walked, more are found by their restart points.
        let mut case = random_case(&mut rng, if seed % 4 == 0 { 40 } else { 12 });
        if case.encoding != IndexEncoding::USUAL {
            continue;
        }
        case.encode(1);
        let target = internal_key(b"ab", 3, ValueType::Value);
        for at in 0..case.block.len() {
            for bit in 0..8 {
                let mut bad = case.block.clone();
                bad[at] ^= 1 << bit;
                search_partial(&bad, &target).unwrap();
            }
            search_partial(&case.block[..at], &target).unwrap();
        }
    }
}

/// Restart points that do not coincide with entry starts are not trusted.
#[pumice_test_macros::test]
fn partial_searches_see_wrong_restart_points() {
    let (mut found, mut left) = (0, 0);
    for seed in 0..1500 {
        let mut rng = Rng::new(11_000 + seed);
        let mut case = random_case(&mut rng, 120);
        let bytewise = matches!(case.cmp.user, Comparator::Bytewise);
        if case.encoding != IndexEncoding::USUAL || !bytewise || case.entries.len() < 20 {
            continue;
        }
        case.encode(1);
        let n = case.entries.len();
        let array = case.block.len() - 4 * (n + 1);
        for _ in 0..1 + rng.uniform(4) {
            let at = array + 4 * rng.uniform(n as u64) as usize;
            let other = array + 4 * rng.uniform(n as u64) as usize;
            match rng.uniform(3) {
                0 => case.block[at] = case.block[at].wrapping_add(1 + rng.uniform(20) as u8),
                1 => case.block.copy_within(other..other + 4, at),
                _ => case.block[at..at + 4].copy_from_slice(&rng.next_u32().to_le_bytes()),
            }
        }
        for entry in &case.entries {
            let want = case.entries.iter().find(|other| other.key >= entry.key);
            let target = internal_key(&entry.key, 3, ValueType::Value);
            let got = search_partial(&case.block, &target).unwrap();
            if got.is_some() {
                assert_eq!(got, want.map(|entry| entry.handle), "seed {seed}");
            }
            *(if got.is_some() { &mut found } else { &mut left }) += 1;
        }
    }
    assert!(found > 1000 && left > 1000, "{found} found, {left} left");
}

/// What a partition costs with keys like db_bench's: the reason for the columns.
#[pumice_test_macros::test]
fn an_entry_of_short_separators_takes_seven_bytes() {
    let cmp = InternalKeyComparator::default();
    let encoding = IndexEncoding { user_keys: true, delta_handles: true, first_keys: false };
    let mut rng = Rng::new(3);
    let mut at = 1 << 22;
    let entries: Vec<Entry> = (0..200u64)
        .map(|i| {
            let handle = BlockHandle::new(at, 4000 + rng.uniform(100));
            at = handle.end().unwrap();
            // Shortened separators differ in length.
            let len = 7 + (i % 2) as usize;
            let key = (0x1234_5600 + 300 * i).to_be_bytes()[..len].to_vec();
            Entry { key, handle, first: Vec::new() }
        })
        .collect();
    let mut case = Case { cmp, encoding, entries, block: Vec::new() };
    case.encode(1);
    let index = case.decode().unwrap();
    assert_eq!(index.bytes.len(), 200 * 7 + index.common_len as usize + 2);
}
