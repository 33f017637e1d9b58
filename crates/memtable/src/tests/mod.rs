//! The memtable against a sorted vector, under concurrency, and its accounts.
//! Size: one model checks every representation and every order.
#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use pumice_base::key::{CustomComparator, InternalKey, MAX_SEQUENCE, internal_key, pack, seek_key};
use pumice_base::random::Rng;
use pumice_base::{
    Comparator, ErrorKind, InternalIterator, InternalKeyComparator, UserKey, ValueType,
};
use pumice_cache::{Cache, CacheOptions};
use pumice_port::thread;

use crate::{BufferUser, MemTable, MemTableOptions, MemTableRep, StallWaiter, WriteBufferManager};

mod checked;
mod dead_ranges;

/// Shorter keys first.
struct ByLength;

impl CustomComparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

fn comparators() -> [Comparator; 3] {
    [Comparator::Bytewise, Comparator::ReverseBytewise, Comparator::Custom(Arc::new(ByLength))]
}

const SKIP_LIST: MemTableRep = MemTableRep::SKIP_LIST;
const VECTOR: MemTableRep = MemTableRep::Vector { reserve: 10 };

fn new_table(rep: MemTableRep, user: Comparator) -> Arc<MemTable> {
    let comparator = InternalKeyComparator::new(user);
    MemTable::new(MemTableOptions { rep, comparator, ..MemTableOptions::new(64 << 20) }, 1, 1)
}

/// Keys that are hard for prefixes: short, zero-padded, with common beginnings.
fn tricky_key(rng: &mut Rng) -> Vec<u8> {
    const BYTES: [u8; 4] = [0x00, b'a', b'b', 0xff];
    let head: &[u8] = if rng.one_in(3) { b"common__" } else { b"" };
    let tail = (0..rng.uniform(11)).map(|_| BYTES[rng.uniform(4) as usize]);
    head.iter().copied().chain(tail).collect()
}

/// Entries in internal-key order.
struct Model {
    comparator: InternalKeyComparator,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn new(user: Comparator) -> Self {
        Model { comparator: InternalKeyComparator::new(user), entries: Vec::new() }
    }
    fn sort(&mut self) {
        let order = &self.comparator;
        self.entries.sort_by(|a, b| order.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
    }
    fn order(&self, entry: &(Vec<u8>, Vec<u8>), ikey: &[u8]) -> Ordering {
        self.comparator.compare(InternalKey::new(&entry.0), InternalKey::new(ikey))
    }
    fn lower_bound(&self, ikey: &[u8]) -> usize {
        self.entries.partition_point(|e| self.order(e, ikey) == Ordering::Less)
    }
    fn upper_bound(&self, ikey: &[u8]) -> usize {
        self.entries.partition_point(|e| self.order(e, ikey) != Ordering::Greater)
    }

    /// Every query of `table` has the model's answer.
    fn check(&self, table: &Arc<MemTable>, rng: &mut Rng, context: &str) {
        let mut iter = table.iter();
        let at = |iter: &crate::MemTableIter| {
            iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()))
        };
        iter.seek_to_first();
        for entry in &self.entries {
            assert_eq!(at(&iter).as_ref(), Some(entry), "{context}: forward");
            iter.next();
        }
        assert!(!iter.valid(), "{context}: end");
        iter.seek_to_last();
        for entry in self.entries.iter().rev() {
            assert_eq!(at(&iter).as_ref(), Some(entry), "{context}: backward");
            iter.prev();
        }
        assert!(!iter.valid(), "{context}: before the start");
        for _ in 0..300 {
            let user_key = match self.entries.len() {
                n if n > 0 && !rng.one_in(3) => {
                    let (ikey, _) = &self.entries[rng.uniform(n as u64) as usize];
                    ikey[..ikey.len() - 8].to_vec()
                }
                _ => tricky_key(rng),
            };
            let seq = rng.uniform(self.entries.len() as u64 + 3);
            let target = seek_key(&user_key, seq);
            let from = self.lower_bound(&target);
            iter.seek(InternalKey::new(&target));
            assert_eq!(at(&iter).as_ref(), self.entries.get(from), "{context}: seek {target:?}");
            for exact in [&target, self.entries.get(from).map_or(&target, |entry| &entry.0)] {
                iter.seek_for_prev(InternalKey::new(exact));
                let expected = self.upper_bound(exact).checked_sub(1).map(|i| &self.entries[i]);
                assert_eq!(at(&iter).as_ref(), expected, "{context}: seek_for_prev {exact:?}");
            }
            let mut got = Vec::new();
            let stop_at = 1 + rng.uniform(3) as usize;
            table.get(&user_key, seq, &mut |seq, value_type, value| {
                got.push((internal_key(&user_key, seq, value_type), value.to_vec()));
                got.len() < stop_at
            });
            let same_key = |entry: &&(Vec<u8>, Vec<u8>)| entry.0[..entry.0.len() - 8] == user_key;
            let expected: Vec<_> =
                self.entries[from..].iter().take_while(same_key).take(stop_at).cloned().collect();
            assert_eq!(got, expected, "{context}: get {user_key:?}@{seq}");
        }
    }
}

/// Keys are drawn; those of all but the last tenth begin with `start`.
fn fill_and_check(seed: u64, rep: MemTableRep, user: Comparator, entries: u64, start: &[u8]) {
    let context = format!("seed {seed}, {rep:?}, {user:?}, {entries} entries");
    let mut rng = Rng::new(seed);
    let table = new_table(rep, user.clone());
    let mut model = Model::new(user);
    let mut seq = 0;
    let (mut ascending, mut descending) = (0u64, u64::MAX);
    while seq < entries {
        let kind = rng.uniform(5);
        for _ in 0..1 + rng.uniform(40) {
            seq += 1;
            let key = match kind {
                0 | 1 => tricky_key(&mut rng),
                2 => {
                    ascending += 1 + rng.uniform(1000);
                    ascending.to_be_bytes().to_vec()
                }
                3 => {
                    descending -= 1 + rng.uniform(1 << 40);
                    descending.to_be_bytes().to_vec()
                }
                _ => rng.next_u64().to_be_bytes()[rng.uniform(8) as usize..].to_vec(),
            };
            let start = if seq < entries - entries / 10 { start } else { &[] };
            let key = [start, &key].concat();
            let value = vec![seq as u8; rng.uniform(30) as usize];
            let value_type = if rng.one_in(4) { ValueType::Deletion } else { ValueType::Value };
            if kind == 1 {
                table.add_concurrent(seq, value_type, &key, &value).unwrap();
            } else {
                table.add(seq, value_type, &key, &value).unwrap();
            }
            model.entries.push((internal_key(&key, seq, value_type), value));
        }
    }
    let deletes = model.entries.iter().filter(|e| InternalKey::new(&e.0).tag() == 0).count();
    let bytes: usize = model.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!(table.num_entries(), seq, "{context}");
    assert_eq!(table.num_deletes(), deletes as u64, "{context}");
    assert_eq!(table.data_bytes(), bytes as u64, "{context}");
    assert_eq!((table.first_seq(), table.largest_seq()), (1, seq), "{context}");
    model.sort();
    model.check(&table, &mut rng, &context);
}

#[pumice_test_macros::test]
fn agrees_with_a_sorted_vector() {
    let sizes: &[u64] = if cfg!(miri) { &[1, 60] } else { &[1, 10, 200, 3000] };
    for seed in 0..if cfg!(miri) { 1 } else { 12 } {
        for user in comparators() {
            for &entries in sizes {
                fill_and_check(seed, SKIP_LIST, user.clone(), entries, b"");
                fill_and_check(seed, VECTOR, user.clone(), entries, b"");
            }
        }
    }
}

#[pumice_test_macros::test]
#[cfg_attr(miri, ignore = "needs many entries")]
fn agrees_with_a_sorted_vector_when_indexed() {
    for user in comparators() {
        for seed in 100..103 {
            // Longer than what the links distinguish, and keys without it come later.
            let start: &[u8] = if seed == 100 { b"" } else { b"the name of a table" };
            fill_and_check(seed, SKIP_LIST, user.clone(), 60_000, start);
        }
    }
}

#[pumice_test_macros::test]
fn empty_table_answers() {
    for rep in [SKIP_LIST, VECTOR] {
        let table = new_table(rep, Comparator::Bytewise);
        Model::new(Comparator::Bytewise).check(&table, &mut Rng::new(1), "empty");
        assert!(table.is_empty() && table.range_tombstones().is_none());
        assert_eq!((table.first_seq(), table.largest_seq(), table.earliest_seq()), (0, 0, 1));
    }
}

#[pumice_test_macros::test]
fn repeated_key_and_sequence_is_refused() {
    let table = new_table(SKIP_LIST, Comparator::Bytewise);
    for n in 0..50u64 {
        table.add(5, ValueType::Value, &n.to_be_bytes(), b"first").unwrap();
    }
    let bytes = table.data_bytes();
    for n in 0..50u64 {
        let key = n.to_be_bytes();
        let error = table.add(5, ValueType::Value, &key, b"second").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TryAgain);
        let error = table.add_concurrent(5, ValueType::Value, &key, b"third").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TryAgain);
        table.get_with(UserKey::new(&key), MAX_SEQUENCE, |_, _, value| {
            assert_eq!(value, b"first");
            true
        });
    }
    assert_eq!((table.num_entries(), table.data_bytes()), (50, bytes));
}

#[pumice_test_macros::test]
fn large_values_and_blocks() {
    let options = MemTableOptions { arena_block_bytes: 4096, ..MemTableOptions::new(64 << 20) };
    let table = MemTable::new(options, 1, 1);
    let mut written = 0;
    for n in 0..200u64 {
        let value = vec![n as u8; (n * 97) as usize % 9000];
        written += value.len();
        table.add(n + 1, ValueType::Value, &n.to_be_bytes(), &value).unwrap();
    }
    for n in 0..200u64 {
        let mut found = false;
        table.get_with(UserKey::new(&n.to_be_bytes()), MAX_SEQUENCE, |_, _, value| {
            found = value == vec![n as u8; (n * 97) as usize % 9000];
            true
        });
        assert!(found, "value {n}");
    }
    assert!(table.memory_bytes() > written && table.memory_bytes() < 2 * written);
}

/// The number of entries that a walk over the table finds.
fn count_entries(table: &Arc<MemTable>) -> u64 {
    let mut iter = table.iter();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next();
    }
    count
}

/// Fifty steps from `key` on ascend, and each entry has the value that belongs to its key.
fn check_walk(table: &Arc<MemTable>, comparator: &InternalKeyComparator, key: &[u8]) {
    let mut iter = table.iter();
    iter.seek(InternalKey::new(&seek_key(key, MAX_SEQUENCE)));
    let mut last: Option<Vec<u8>> = None;
    for _ in 0..50 {
        if !iter.valid() {
            break;
        }
        if let Some(last) = &last {
            let order = comparator.compare(InternalKey::new(last), iter.key());
            assert_eq!(order, Ordering::Less, "a walk ascends");
        }
        assert_eq!(iter.value(), &iter.key().as_bytes()[..8]);
        last = Some(iter.key().to_vec());
        iter.next();
    }
}

#[pumice_test_macros::test]
fn concurrent_inserts_and_readers() {
    const THREADS: u64 = 3;
    let per_thread: u64 = if cfg!(miri) { 40 } else { 30_000 };
    for user in comparators() {
        let table = new_table(SKIP_LIST, user.clone());
        let comparator = InternalKeyComparator::new(user);
        let done = Arc::new(AtomicBool::new(false));
        let progress: Arc<Vec<AtomicU64>> =
            Arc::new((0..THREADS).map(|_| AtomicU64::new(0)).collect());
        let key_of = |t: u64, i: u64| (i * THREADS + t).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let writers: Vec<_> = (0..THREADS)
            .map(|t| {
                let (table, progress) = (Arc::clone(&table), Arc::clone(&progress));
                thread::spawn("writer", move || {
                    for i in 0..per_thread {
                        let key = key_of(t, i).to_be_bytes();
                        let seq = 1 + i * THREADS + t;
                        table.add_concurrent(seq, ValueType::Value, &key, &key).unwrap();
                        progress[t as usize].store(i + 1, std::sync::atomic::Ordering::Release);
                    }
                })
            })
            .collect();
        let reader = {
            let (table, progress) = (Arc::clone(&table), Arc::clone(&progress));
            let done = Arc::clone(&done);
            thread::spawn("reader", move || {
                let mut rng = Rng::new(9);
                while !done.load(Relaxed) {
                    // On a fiber the writers may wait for this very loop.
                    pumice_port::fiber::maybe_yield();
                    let t = rng.uniform(THREADS);
                    let upto = progress[t as usize].load(std::sync::atomic::Ordering::Acquire);
                    let i = rng.uniform(upto.max(1));
                    let key = key_of(t, i).to_be_bytes();
                    let mut found = upto == 0;
                    table.get_with(UserKey::new(&key), MAX_SEQUENCE, |_, _, value| {
                        found = value == key;
                        false
                    });
                    assert!(found, "an entry whose insert ended is found");
                    check_walk(&table, &comparator, &key);
                }
            })
        };
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Relaxed);
        reader.join().unwrap();
        assert_eq!(table.num_entries(), THREADS * per_thread);
        assert_eq!(count_entries(&table), THREADS * per_thread);
        // An exclusive insert after concurrent ones does not trust its splice.
        for i in 0..50u64 {
            let key = (i << 55 | 1).to_be_bytes();
            table.add(MAX_SEQUENCE - i, ValueType::Value, &key, &key).unwrap();
            let mut found = false;
            table.get_with(UserKey::new(&key), MAX_SEQUENCE, |_, _, _| {
                found = true;
                false
            });
            assert!(found);
        }
    }
}

#[pumice_test_macros::test]
fn of_two_racing_inserts_of_one_key_one_wins() {
    let rounds: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let table = new_table(SKIP_LIST, Comparator::Bytewise);
    let wins: Vec<u64> = (0..2)
        .map(|_| {
            let table = Arc::clone(&table);
            thread::spawn("racer", move || {
                let add = |n: &u64| {
                    table.add_concurrent(7, ValueType::Value, &n.to_be_bytes(), b"v").is_ok()
                };
                (0..rounds).filter(add).count() as u64
            })
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|racer| racer.join().unwrap())
        .collect();
    assert_eq!(wins[0] + wins[1], rounds);
    assert_eq!(table.num_entries(), rounds);
}

#[pumice_test_macros::test]
fn range_tombstones_are_kept_apart() {
    let table = new_table(SKIP_LIST, Comparator::Bytewise);
    table.add(3, ValueType::RangeDeletion, b"b", b"d").unwrap();
    table.add(4, ValueType::Value, b"c", b"value").unwrap();
    let before = table.memory_bytes();
    let first = table.range_tombstones().unwrap();
    assert!(Arc::ptr_eq(&first, &table.range_tombstones().unwrap()), "kept until one is added");
    table.add_concurrent(9, ValueType::RangeDeletion, b"c", b"e").unwrap();
    let all = table.range_tombstones().unwrap();
    let covering =
        |key: &[u8]| all.max_covering_seq(&Comparator::Bytewise, UserKey::new(key), MAX_SEQUENCE);
    assert_eq!([covering(b"a"), covering(b"b"), covering(b"c"), covering(b"e")], [0, 3, 9, 0]);
    assert_eq!((table.num_entries(), table.num_range_deletes(), table.num_deletes()), (3, 2, 0));
    assert_eq!((table.first_seq(), table.largest_seq()), (3, 9));
    assert!(table.memory_bytes() > before);
    let mut iter = table.iter();
    iter.seek_to_first();
    assert_eq!(iter.key().as_bytes(), internal_key(b"c", 4, ValueType::Value));
    iter.next();
    assert!(!iter.valid());
}

/// A table holds about twice its content, however large its blocks may get.
#[pumice_test_macros::test]
fn a_table_grows_with_what_is_in_it() {
    for value_bytes in [1, 100, 1000, 30_000] {
        let table = new_table(SKIP_LIST, Comparator::Bytewise);
        let (mut bytes, value) = (0, vec![7; value_bytes]);
        for n in 0u64..(600_000 / value_bytes as u64).min(5000) {
            table.add(n + 1, ValueType::Value, &n.to_be_bytes(), &value).unwrap();
            // An entry has links, a sequence and lengths besides.
            bytes += value_bytes + 80;
            let held = table.memory_bytes();
            assert!(held <= 2 * bytes + 8192, "{held} for {bytes} in values of {value_bytes}");
        }
    }
}

/// The policy, restated: full when a new block would exceed the limit and the last is used up.
#[pumice_test_macros::test]
fn wants_a_flush_when_full() {
    const BLOCK: usize = 64 << 10;
    for limit in [256 << 10, 1 << 20] {
        let options = MemTableOptions { arena_block_bytes: BLOCK, ..MemTableOptions::new(limit) };
        let table = MemTable::new(options, 1, 1);
        let mut seq = 0u64;
        while !table.should_flush() {
            seq += 1;
            table.add(seq, ValueType::Value, &seq.to_be_bytes(), &[1; 100]).unwrap();
            assert!(table.memory_bytes() <= limit + BLOCK, "never asked for a flush");
        }
        let held = table.memory_bytes();
        assert!(held + BLOCK >= limit && held <= limit + BLOCK, "{held} of {limit}");
        assert!(table.data_bytes() as usize > held / 10 * 6, "flushed with much unused");
    }
}

/// Blocks of any size, also far larger than the memtable: it takes a good part of its size before
/// it is full, and not much more, from one writer and through the lanes of concurrent ones.
#[pumice_test_macros::test]
fn takes_its_size_in_blocks_of_any_size() {
    let powers = (10..usize::BITS).flat_map(|bit| [(1usize << bit) - 1, 1 << bit]);
    let blocks: Vec<usize> = powers.chain([0, 1, usize::MAX]).collect();
    for limit in [64 << 10, 1 << 20] {
        for (block, concurrent) in blocks.iter().flat_map(|block| [(*block, false), (*block, true)])
        {
            let options =
                MemTableOptions { arena_block_bytes: block, ..MemTableOptions::new(limit) };
            let table = MemTable::new(options, 1, 1);
            let mut seq = 0u64;
            while !table.should_flush() {
                seq += 1;
                let (key, value) = (seq.to_be_bytes(), [1; 1000]);
                if concurrent {
                    table.add_concurrent(seq, ValueType::Value, &key, &value).unwrap();
                } else {
                    table.add(seq, ValueType::Value, &key, &value).unwrap();
                }
                assert!(table.memory_bytes() <= limit * 2, "block {block}, {limit}: {seq}");
            }
            let bytes = table.data_bytes() as usize;
            assert!(bytes > limit / 3, "block {block}, {concurrent}: full with {bytes} of {limit}");
        }
    }
}

#[pumice_test_macros::test]
fn estimates_counts_between_keys() {
    for rep in [SKIP_LIST, VECTOR] {
        let table = new_table(rep, Comparator::Bytewise);
        let total: u64 = if cfg!(miri) { 200 } else { 50_000 };
        for n in 0..total {
            table.add(n + 1, ValueType::Value, &n.to_be_bytes(), &[0; 16]).unwrap();
        }
        let estimate = |from: u64, to: u64| {
            table.approximate_count_and_bytes(&from.to_be_bytes(), &to.to_be_bytes())
        };
        for (from, to) in [(0, total), (total / 4, total / 2), (10, 30), (5, 6)] {
            let (count, bytes) = estimate(from, to);
            let exact = to - from;
            assert!(count * 2 >= exact && count <= exact * 2, "{rep:?}: {count} for {exact}");
            assert_eq!(bytes, count * 32);
        }
        assert_eq!(estimate(20, 20), (0, 0));
        assert_eq!(estimate(30, 20), (0, 0));
    }
}

#[pumice_test_macros::test]
fn write_buffer_manager_counts_and_charges() {
    let cache = Cache::<u64>::new(CacheOptions::new(64 << 20));
    let manager = WriteBufferManager::new(8 << 20, Some(cache.clone()), false);
    let options = MemTableOptions {
        write_buffer_manager: Some(Arc::clone(&manager)),
        ..MemTableOptions::new(32 << 20)
    };
    let table = MemTable::new(options, 1, 1);
    let mut seq = 0u64;
    while !manager.should_flush() {
        seq += 1;
        table.add(seq, ValueType::Value, &seq.to_be_bytes(), &[1; 1000]).unwrap();
    }
    assert_eq!(manager.memory_usage(), table.memory_bytes());
    assert_eq!(manager.mutable_memtable_memory_usage(), table.memory_bytes());
    assert!(manager.memory_usage() > 7 << 20 && manager.memory_usage() <= 8 << 20);
    assert_eq!(cache.usage(), manager.memory_usage().next_multiple_of(256 << 10));
    assert_eq!(cache.pinned_usage(), manager.charged_to_cache());
    table.mark_immutable();
    table.mark_immutable();
    assert_eq!(manager.mutable_memtable_memory_usage(), 0);
    assert!(!manager.should_flush(), "nothing left to flush");
    drop(table);
    assert_eq!((manager.memory_usage(), cache.usage()), (0, 0));
}

struct Resumed(AtomicBool);

impl StallWaiter for Resumed {
    fn resume(&self) {
        self.0.store(true, Relaxed);
    }
}

#[pumice_test_macros::test]
fn write_buffer_manager_stalls_and_resumes() {
    let manager = WriteBufferManager::new(1000, None, true);
    let early = Arc::new(Resumed(AtomicBool::new(false)));
    manager.begin_stall(early.clone());
    assert!(early.0.load(Relaxed), "below the limit nobody waits");
    manager.reserve(1000);
    assert!(manager.should_stall());
    let waiter = Arc::new(Resumed(AtomicBool::new(false)));
    manager.begin_stall(waiter.clone());
    manager.schedule_free(1000);
    assert!(!waiter.0.load(Relaxed) && manager.should_stall());
    manager.free(1000, 0);
    assert!(waiter.0.load(Relaxed) && !manager.should_stall());
    manager.reserve(1500);
    assert!(manager.must_flush());
    manager.schedule_free(1000);
    assert!(!manager.must_flush());
    let waiter = Arc::new(Resumed(AtomicBool::new(false)));
    manager.begin_stall(waiter.clone());
    assert!(!waiter.0.load(Relaxed));
    manager.flushed(1000);
    assert!(waiter.0.load(Relaxed) && !manager.should_stall(), "held by readers alone");
    assert_eq!(manager.memory_usage(), 1500);
    manager.free(1000, 1000);
    assert_eq!(manager.memory_usage(), 500);
}

struct Idle(AtomicUsize);

impl BufferUser for Idle {
    fn relieve(&self) -> bool {
        self.0.fetch_add(1, Relaxed);
        true
    }
}

#[pumice_test_macros::test]
fn the_other_users_are_asked_for_memory() {
    let manager = WriteBufferManager::new(1000, None, true);
    let users = [(); 3].map(|()| Arc::new(Idle(AtomicUsize::new(0))));
    let weak = |user: &Arc<Idle>| Arc::downgrade(&(Arc::clone(user) as Arc<dyn BufferUser>));
    users.iter().for_each(|user| manager.add_user(weak(user)));
    assert!(manager.relieve_others(&weak(&users[1])));
    assert_eq!(users.each_ref().map(|user| user.0.load(Relaxed)), [1, 0, 1]);
    let [first, second, _] = users;
    drop((first, second));
    let alone = WriteBufferManager::new(1000, None, true);
    assert!(!alone.relieve_others(&(Weak::<Idle>::new() as Weak<dyn BufferUser>)));
}

#[pumice_test_macros::test]
fn iterator_outlives_the_other_owners() {
    for rep in [SKIP_LIST, VECTOR] {
        let table = new_table(rep, Comparator::Bytewise);
        table.add(1, ValueType::Merge, b"k", b"v").unwrap();
        let mut iter = table.iter();
        drop(table);
        iter.seek_to_first();
        assert_eq!((iter.key().len(), iter.value()), (9, &b"v"[..]));
        assert_eq!(iter.key().sequence_and_type(), (1, ValueType::Merge as u8));
        assert_eq!(iter.key().trailer(), pack(1, 2));
    }
}

/// Enough entries for an index, six or so of a prefix; lookups are prepared while others insert.
#[pumice_test_macros::test]
fn what_is_warmed_is_found_as_before() {
    const KEYS: u64 = 20_000;
    let name = |n: u64| format!("{:04}key:{n:08}", n % 3000).into_bytes();
    for user in comparators() {
        let table = new_table(SKIP_LIST, user);
        let insert = |numbers: std::ops::Range<u64>| {
            for n in numbers {
                table.add_concurrent(n + 1, ValueType::Value, &name(n * 2), &name(n)).unwrap();
            }
        };
        insert(0..KEYS);
        thread::scope(|scope| {
            scope.spawn(|| insert(KEYS..2 * KEYS));
            let mut rng = Rng::new(7);
            for count in (0..40).cycle().take(400) {
                let numbers: Vec<u64> = (0..count).map(|_| rng.uniform(2 * KEYS)).collect();
                let keys: Vec<Vec<u8>> = numbers.iter().map(|n| name(*n)).collect();
                table.warm(keys.iter().map(Vec::as_slice), KEYS);
                for (n, key) in numbers.iter().zip(&keys) {
                    let mut found = None;
                    table.get_with(UserKey::new(key), KEYS, |_, _, value| {
                        found = Some(value.to_vec());
                        false
                    });
                    assert_eq!(found, n.is_multiple_of(2).then(|| name(n / 2)), "{n}");
                }
            }
        });
    }
}
