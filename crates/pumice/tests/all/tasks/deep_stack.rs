//! Code of the user's has the stack that its caller has: what needs a few hundred kilobytes, or
//! megabytes, runs wherever a thread calls.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::common::{self, flush, key, memory};
use pumice::{
    CompactRangeOptions, Comparator, CustomComparator, Db, MergeOperator, Options, ReadOptions,
    Runtime, WriteOptions,
};
use pumice_port::testing::block_on;

/// Uses `bytes` of stack.
#[inline(never)]
fn dig(bytes: usize) -> u64 {
    #[inline(never)]
    fn down(top: usize, bytes: usize) -> u64 {
        let mut frame = [0u8; 2048];
        let frame = std::hint::black_box(&mut frame);
        if top.abs_diff(frame.as_ptr().addr()) >= bytes {
            return u64::from(frame[0]);
        }
        down(top, bytes) + u64::from(frame[2047])
    }
    let top = 0u8;
    down(std::ptr::from_ref(&top).addr(), bytes)
}

/// Uses `bytes` of stack in every seventh call.
#[derive(Default)]
struct Deep {
    bytes: AtomicUsize,
    deep_calls: AtomicU64,
    calls: AtomicU64,
}

impl Deep {
    fn step(&self) {
        // Every call would take minutes.
        if self.calls.fetch_add(1, Relaxed).is_multiple_of(7) {
            self.deep_calls.fetch_add(1 + dig(self.bytes.load(Relaxed)), Relaxed);
        }
    }
}

impl MergeOperator for Deep {
    fn name(&self) -> &str {
        "deep"
    }
    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, all: &[&[u8]]) -> Option<Vec<u8>> {
        self.step();
        Some([existing.unwrap_or_default(), &all.concat()].concat())
    }
}

impl CustomComparator for Deep {
    fn name(&self) -> &str {
        "deep"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.step();
        a.cmp(b)
    }
}

const KEYS: usize = 200;

/// Reads of every kind, each key a value and an operand in different tables.
fn read_all(db: &Db, deep_calls: &dyn Fn() -> u64) {
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let check = |found: Vec<pumice::Result<Option<pumice::PinnedSlice>>>| {
        for (n, found) in found.into_iter().enumerate() {
            assert_eq!(found.unwrap().as_deref(), Some(format!("{n}+").as_bytes()));
        }
    };
    for fill_cache in [false, true] {
        let read = ReadOptions { fill_cache, ..ReadOptions::default() };
        let before = deep_calls();
        check(db.multi_get_opt(&read, &keys));
        assert!(deep_calls() > before, "no call went deep");
        assert_eq!(db.get_opt(&read, &keys[7]).unwrap().as_deref(), Some(&b"7+"[..]));
        let mut iter = db.cursor_opt(&read).unwrap();
        iter.seek_to_first();
        iter.next();
        assert_eq!(iter.value().unwrap(), b"1+");
        iter.prev();
        assert_eq!(iter.value().unwrap(), b"0+");
        check(block_on(db.multi_get_opt_async(&read, keys.clone())));
    }
}

fn write_and_read(bytes: usize, set: impl Fn(&mut Options, &Arc<Deep>)) {
    for cached in [true, false] {
        let (_, fs) = memory();
        let deep = Arc::new(Deep::default());
        let mut options = common::options(&fs);
        options.db.runtime = Some(Arc::new(
            Runtime::builder().loops(1).stack_bytes(bytes + (256 << 10)).build().unwrap(),
        ));
        options.cf.table_factory.no_block_cache = !cached;
        options.cf.table_factory.cache_index_and_filter_blocks = cached;
        options.cf.merge_operator = Some(Arc::clone(&deep) as Arc<dyn MergeOperator>);
        options.cf.table_factory.block_size = 512;
        set(&mut options, &deep);
        let db = Db::open(&options, common::DIR).unwrap();
        for n in 0..KEYS {
            db.put_opt(&WriteOptions::default(), &key(n), format!("{n}").as_bytes()).unwrap();
        }
        flush(&db);
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        for n in 0..KEYS {
            db.merge_opt(&WriteOptions::default(), &key(n), b"+").unwrap();
        }
        flush(&db);
        deep.bytes.store(bytes, Relaxed);
        read_all(&db, &|| deep.deep_calls.load(Relaxed));
        db.close().unwrap();
    }
}

fn operator(_: &mut Options, _: &Arc<Deep>) {}

fn comparator(options: &mut Options, deep: &Arc<Deep>) {
    let order = Arc::clone(deep) as Arc<dyn CustomComparator>;
    options.cf.comparator = Comparator::Custom(order);
    // With decoding of the index through the cache.
    options.cf.table_factory.index_type = pumice::options::IndexType::TwoLevel;
}

// Plain #[test]: it is about callers that are threads.
#[test]
fn reads_of_a_thread_have_its_stack() {
    for (name, stack, bytes) in [("usual", 2 << 20, 400 << 10), ("large", 64 << 20, 6 << 20)] {
        let caller = std::thread::Builder::new().name(name.to_string()).stack_size(stack);
        let caller = caller.spawn(move || {
            write_and_read(bytes, operator);
            write_and_read(bytes, comparator);
        });
        caller.unwrap().join().unwrap();
    }
}
