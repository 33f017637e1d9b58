//! The filter alone, and memtables with filters against a sorted map.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use pumice_base::extension::SliceTransform;
use pumice_base::extractor::Extractor;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, seek_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalIterator, InternalKeyComparator, UserKey, ValueType};
use pumice_port::thread;

use super::{Bloom, BloomOptions};
use crate::{MemTable, MemTableOptions, MemTableRep, WriteBufferManager};

fn of_whole_keys(bytes: usize) -> BloomOptions {
    BloomOptions { bytes, prefix: None, whole_keys: true }
}

#[pumice_test_macros::test]
fn nothing_to_hold_or_no_room_is_no_filter() {
    let prefix = Some(Extractor::Fixed(2));
    assert!(Bloom::new(BloomOptions::default()).is_none());
    assert!(Bloom::new(BloomOptions { bytes: 64, ..BloomOptions::default() }).is_none());
    assert!(Bloom::new(of_whole_keys(0)).is_none());
    assert!(
        Bloom::new(BloomOptions { bytes: 0, prefix: prefix.clone(), whole_keys: true }).is_none()
    );
    for (bytes, held) in [(1, 64), (64, 64), (65, 128), (1000, 1024)] {
        assert_eq!(Bloom::new(of_whole_keys(bytes)).unwrap().bytes(), held);
    }
    let bloom = Bloom::new(BloomOptions { bytes: 64, prefix, whole_keys: false }).unwrap();
    assert!(!bloom.may_hold(b"ab") && !bloom.may_hold_prefix(b"abc"), "nothing is in it");
    assert!(bloom.may_hold(b"a") && bloom.may_hold_prefix(b""), "keys without a prefix");
    assert!(bloom.has_prefixes_of(&Extractor::Fixed(2)));
    assert!(!bloom.has_prefixes_of(&Extractor::Fixed(3)));
}

#[pumice_test_macros::test]
fn few_absent_keys_pass() {
    let keys: u64 = if cfg!(miri) { 300 } else { 100_000 };
    // (bits a key, false positives of ten thousand at most). A filter without lines of 64 bytes
    // and without pairs of bits in a word has 84 at ten bits.
    for (bits, limit) in [(10, 150), (20, 12), (6, 700)] {
        let bloom = Bloom::new(of_whole_keys((keys * bits / 8) as usize)).unwrap();
        for n in 0..keys {
            bloom.add(&n.to_be_bytes());
        }
        assert!((0..keys).all(|n| bloom.may_hold(&n.to_be_bytes())));
        let passed = (keys..2 * keys).filter(|n| bloom.may_hold(&n.to_be_bytes())).count() as u64;
        if !cfg!(miri) {
            assert!(passed * 10_000 < limit * keys, "{bits} bits: {passed} of {keys}");
        }
    }
}

#[pumice_test_macros::test]
fn concurrent_additions_lose_no_bit() {
    const THREADS: u64 = 3;
    let per_thread: u64 = if cfg!(miri) { 50 } else { 20_000 };
    // Few lines, so that threads collide in words.
    let bytes = (THREADS * per_thread) as usize;
    let bloom: Arc<Bloom> = Bloom::new(of_whole_keys(bytes)).unwrap().into();
    let alone = Bloom::new(of_whole_keys(bytes)).unwrap();
    let threads: Vec<_> = (0..THREADS)
        .map(|t| {
            let bloom = Arc::clone(&bloom);
            thread::spawn("adder", move || {
                for n in 0..per_thread {
                    let key = (n * THREADS + t).to_be_bytes();
                    bloom.add_concurrent(&key);
                    assert!(bloom.may_hold(&key));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for n in 0..THREADS * per_thread {
        alone.add(&n.to_be_bytes());
        assert!(bloom.may_hold(&n.to_be_bytes()), "{n}");
    }
    // Neither has a bit that the other lacks.
    let agree = |n: u64| bloom.may_hold(&n.to_be_bytes()) == alone.may_hold(&n.to_be_bytes());
    assert!((0..4 * THREADS * per_thread).all(agree));
}

/// Shorter keys have no prefix.
struct BehindFirst;

impl SliceTransform for BehindFirst {
    fn name(&self) -> String {
        "BehindFirst".to_string()
    }
    fn in_domain(&self, key: &[u8]) -> bool {
        key.len() >= 3
    }
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        &key[..2]
    }
}

fn extractors() -> [Option<Extractor>; 5] {
    let own: Arc<dyn SliceTransform> = Arc::new(BehindFirst);
    [
        None,
        Some(Extractor::Fixed(2)),
        Some(Extractor::Capped(3)),
        Some(Extractor::Noop),
        Some(Extractor::Other(own)),
    ]
}

fn key(rng: &mut Rng) -> Vec<u8> {
    (0..rng.uniform(6)).map(|_| b'a' + rng.uniform(6) as u8).collect()
}

/// One memtable and the entries it must have: by user key, the newest first.
struct Test {
    rng: Rng,
    table: Arc<MemTable>,
    extractor: Option<Extractor>,
    model: BTreeMap<Vec<u8>, Vec<(u64, ValueType)>>,
    context: String,
}

impl Test {
    fn fill(&mut self) {
        const KINDS: [ValueType; 4] =
            [ValueType::Value, ValueType::Deletion, ValueType::SingleDeletion, ValueType::Merge];
        for seq in 1..=200 {
            let kind = KINDS[self.rng.uniform(4) as usize];
            let key = key(&mut self.rng);
            if self.rng.one_in(2) {
                self.table.add(seq, kind, &key, b"v").unwrap();
            } else {
                self.table.add_concurrent(seq, kind, &key, b"v").unwrap();
            }
            self.model.entry(key).or_default().insert(0, (seq, kind));
        }
    }

    /// Every entry is found, and no other.
    fn check_get(&mut self, key: &[u8]) {
        let seq = 1 + self.rng.uniform(200);
        let mut found = Vec::new();
        self.table.get_with(UserKey::new(key), seq, |seq, kind, _| {
            found.push((seq, kind));
            true
        });
        let entries = self.model.get(key).map_or(&[][..], |entries| &entries[..]);
        let wanted: Vec<_> = entries.iter().copied().filter(|entry| entry.0 <= seq).collect();
        assert_eq!(found, wanted, "{}: get {key:?}@{seq}", self.context);
    }

    /// A scoped seek finds what an iterator that stays within the target's prefix may show.
    fn check_seek(&mut self, key: &[u8]) {
        let Some(extractor) = self.extractor.clone() else { return };
        let mut iter = self.table.iter();
        iter.scope_to_prefix(Some(&extractor));
        let prefix = extractor.prefix(key).map(<[u8]>::to_vec);
        let shown = |iter: &crate::MemTableIter| {
            let key = iter.valid().then(|| iter.key().user_key().to_vec());
            key.filter(|key| prefix.is_none() || extractor.prefix(key) == prefix.as_deref())
        };
        let alike = |found: Option<(&Vec<u8>, _)>| {
            let found = found.map(|(key, _): (_, &Vec<(u64, ValueType)>)| key.clone());
            found.filter(|key| prefix.is_none() || extractor.prefix(key) == prefix.as_deref())
        };
        iter.seek(InternalKey::new(&seek_key(key, MAX_SEQUENCE)));
        let wanted = alike(self.model.range(key.to_vec()..).next());
        assert_eq!(shown(&iter), wanted, "{}: seek {key:?}", self.context);
        iter.seek_for_prev(InternalKey::new(&seek_key(key, 0)));
        let wanted = alike(self.model.range(..=key.to_vec()).next_back());
        assert_eq!(shown(&iter), wanted, "{}: seek_for_prev {key:?}", self.context);
        iter.scope_to_prefix(None);
        iter.seek(InternalKey::new(&seek_key(key, MAX_SEQUENCE)));
        let found = iter.valid().then(|| iter.key().user_key().to_vec());
        let wanted = self.model.range(key.to_vec()..).next().map(|(key, _)| key.clone());
        assert_eq!(found, wanted, "{}: unscoped seek {key:?}", self.context);
    }
}

#[pumice_test_macros::test]
fn a_filtered_memtable_denies_no_entry() {
    let reps = [MemTableRep::SkipList { lookahead: 0 }, MemTableRep::Vector { reserve: 0 }];
    for seed in 0..if cfg!(miri) { 1 } else { 10 } {
        for (rep, extractor) in reps.into_iter().flat_map(|rep| extractors().map(|e| (rep, e))) {
            for whole_keys in [false, true] {
                let prefix = extractor.clone();
                // Large enough for the filter to deny most of what is absent.
                let bloom = BloomOptions { bytes: 1 << 10, prefix, whole_keys };
                let name = extractor.as_ref().map(|e| e.prefix(b"abcdef").map(<[u8]>::len));
                let context = format!("seed {seed}, {rep:?}, prefix {name:?}, whole {whole_keys}");
                let options = MemTableOptions { rep, bloom, ..MemTableOptions::new(64 << 20) };
                let table = MemTable::new(options, 1, 1);
                let (rng, extractor) = (Rng::new(seed), extractor.clone());
                let mut test = Test { rng, table, extractor, model: BTreeMap::new(), context };
                test.fill();
                for _ in 0..300 {
                    let key = key(&mut test.rng);
                    test.check_get(&key);
                    test.check_seek(&key);
                }
            }
        }
    }
}

/// Compares, and counts.
struct Counting(std::sync::atomic::AtomicU64);

impl pumice_base::key::CustomComparator for Counting {
    fn name(&self) -> &str {
        "test.Counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        self.0.fetch_add(1, super::Relaxed);
        a.cmp(b)
    }
}

/// Keys that the filter denies are not searched for: no key is compared.
#[pumice_test_macros::test]
fn a_denied_key_costs_no_comparison() {
    let counting = Arc::new(Counting(Default::default()));
    let order = Comparator::Custom(Arc::clone(&counting) as Arc<_>);
    let compared = || counting.0.load(super::Relaxed);
    let options = |whole_keys, prefix: Option<usize>| MemTableOptions {
        comparator: InternalKeyComparator::new(order.clone()),
        bloom: BloomOptions { bytes: 4 << 10, prefix: prefix.map(Extractor::Fixed), whole_keys },
        ..MemTableOptions::new(64 << 20)
    };
    for (whole_keys, prefix) in [(true, None), (false, Some(3)), (true, Some(3))] {
        let table = MemTable::new(options(whole_keys, prefix), 1, 1);
        for n in 0..100u64 {
            table.add(n + 1, ValueType::Value, format!("{n:03}").as_bytes(), b"").unwrap();
        }
        let mut iter = table.iter();
        iter.scope_to_prefix(prefix.map(Extractor::Fixed).as_ref());
        let (mut gets, mut seeks) = (0, 0);
        for n in 200..300u64 {
            let key = format!("{n:03}");
            let before = compared();
            table.get_with(UserKey::new(key.as_bytes()), MAX_SEQUENCE, |_, _, _| true);
            gets += u64::from(compared() == before);
            let before = compared();
            iter.seek(InternalKey::new(&seek_key(key.as_bytes(), MAX_SEQUENCE)));
            assert!(!iter.valid());
            seeks += u64::from(compared() == before);
            iter.seek_for_prev(InternalKey::new(&seek_key(key.as_bytes(), 0)));
            assert_eq!(iter.valid(), prefix.is_none() || compared() != before);
        }
        assert!(gets > 95, "{gets} of 100 gets, whole keys {whole_keys}, prefix {prefix:?}");
        assert_eq!(seeks > 95, prefix.is_some(), "{seeks} of 100 seeks, prefix {prefix:?}");
        // The filter does not have another extractor's prefixes.
        iter.scope_to_prefix(Some(&Extractor::Fixed(2)));
        iter.seek(InternalKey::new(&seek_key(b"05x", MAX_SEQUENCE)));
        assert_eq!(iter.key().user_key().as_bytes(), b"060");
    }
}

#[pumice_test_macros::test]
fn a_filter_is_memory_of_the_memtable() {
    let manager = WriteBufferManager::new(1 << 20, None, false);
    let options = |bytes| MemTableOptions {
        bloom: of_whole_keys(bytes),
        write_buffer_manager: Some(Arc::clone(&manager)),
        ..MemTableOptions::new(1 << 20)
    };
    let plain = MemTable::new(options(0), 1, 1);
    let before = manager.memory_usage();
    let filtered = MemTable::new(options(100_000), 2, 1);
    let filter = 100_000usize.next_multiple_of(64);
    assert_eq!(filtered.memory_bytes(), plain.memory_bytes() + filter);
    assert_eq!(manager.memory_usage() - before, filtered.memory_bytes());
    let fill = |table: &MemTable| {
        let mut entries = 0u64;
        while !table.should_flush() {
            entries += 1;
            table.add(entries, ValueType::Value, &entries.to_be_bytes(), &[0; 100]).unwrap();
        }
        entries
    };
    // A tenth of the memtable is the filter, so it is full a tenth earlier, give or take a block.
    let (all, less) = (fill(&plain), fill(&filtered));
    assert!(less < all && less > all / 2, "{less} of {all}");
    drop((plain, filtered));
    assert_eq!(manager.memory_usage(), 0);
}
