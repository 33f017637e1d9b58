//! Dead ranges: merged, cut, and true while a writer inserts.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Release},
};

use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalIterator, UserKey, ValueType};
use pumice_port::thread;

use super::{SKIP_LIST, new_table};
use crate::{DeadRange, MemTable};

/// Entries of `table` in the range that a reader at `seq` sees; deletions hide all that is older.
fn visible_in(table: &Arc<MemTable>, range: &DeadRange, seq: u64) -> Vec<Vec<u8>> {
    let (mut iter, mut seen, mut visible) = (table.iter(), Vec::new(), Vec::new());
    iter.seek(InternalKey::new(&internal_key(&range.start, MAX_SEQUENCE, ValueType::Value)));
    while iter.valid() && iter.key().user_key().as_bytes() < &range.end[..] {
        let (at, tag) = iter.key().sequence_and_type();
        let key = iter.key().user_key().to_vec();
        if at <= seq && seen != key {
            if tag != ValueType::Deletion as u8 {
                visible.push(key.clone());
            }
            seen = key;
        }
        iter.next();
    }
    visible
}

#[pumice_test_macros::test]
fn dead_ranges_merge_and_are_cut() {
    let table = new_table(SKIP_LIST, Comparator::Bytewise);
    let note = |start: &str, end: &str, seq| {
        let (start, end) = (start.as_bytes().to_vec(), end.as_bytes().to_vec());
        table.note_dead_range(DeadRange { start, end, seq, tombstones: 5, removals: 2 });
    };
    let over = |key: &str, seq| {
        let range = table.dead_range_over(UserKey::new(key.as_bytes()), seq, 2)?;
        let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
        Some((text(range.start), text(range.end), range.seq, range.tombstones))
    };
    let range = |start: &str, end: &str, seq, n| Some((start.to_string(), end.to_string(), seq, n));
    note("d", "f", 10);
    assert_eq!([over("c", 99), over("f", 99), over("e", 9)], [None, None, None]);
    assert_eq!(over("d", 10), range("d", "f", 10, 5));
    assert_eq!(table.dead_range_over(UserKey::new(b"d"), 10, 1), None, "an older view");
    note("h", "k", 12);
    note("f", "g", 11);
    assert_eq!(over("f", 20), range("d", "g", 11, 10));
    note("e", "i", 13);
    assert_eq!(over("e", 20), range("d", "k", 13, 20));
    // A deletion shows nothing, another entry does.
    table.add(14, ValueType::Deletion, b"e", b"").unwrap();
    assert_eq!(over("e", 20), range("d", "k", 13, 20));
    table.add(15, ValueType::Value, b"e", b"new").unwrap();
    assert_eq!([over("d", 20), over("e", 20)], [range("d", "e", 13, 20), None]);
    table.add_concurrent(16, ValueType::Merge, b"d", b"new").unwrap();
    assert_eq!(over("d", 20), None);
    // What was inserted after the reader began counts too.
    note("a", "z", 14);
    assert_eq!([over("b", 20), over("d", 20)], [range("a", "d", 14, 5), None]);
    table.forget_dead_ranges();
    note("a", "c", 20);
    assert_eq!(over("b", 20), None);
}

/// A reader that walks and tells while another task writes: what it later finds told is true.
#[pumice_test_macros::test]
fn dead_ranges_are_true_while_entries_are_inserted() {
    let rounds: u64 = if cfg!(miri) { 60 } else { 40_000 };
    for concurrent in [false, true] {
        let table = new_table(SKIP_LIST, Comparator::Bytewise);
        let (last, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let reader = {
            let (table, last, done) = (Arc::clone(&table), Arc::clone(&last), Arc::clone(&done));
            thread::spawn("reader", move || {
                let (mut rng, mut told, mut checked) = (Rng::new(5), 0u64, 0u64);
                while !done.load(Acquire) {
                    pumice_port::fiber::maybe_yield();
                    let seq = last.load(Acquire);
                    let from = rng.uniform(64);
                    let (start, end) = (vec![from as u8], vec![(from + 1 + rng.uniform(12)) as u8]);
                    let range = DeadRange { start, end, seq, tombstones: 1, removals: 0 };
                    if visible_in(&table, &range, seq).is_empty() {
                        told += 1;
                        table.note_dead_range(range);
                    }
                    let seq = last.load(Acquire);
                    if let Some(range) =
                        table.dead_range_over(UserKey::new(&[rng.uniform(64) as u8]), seq, 0)
                    {
                        checked += 1;
                        assert_eq!(
                            visible_in(&table, &range, seq),
                            [[0u8; 0]; 0],
                            "{range:?} at {seq}"
                        );
                    }
                }
                (told, checked)
            })
        };
        let mut rng = Rng::new(6);
        for seq in 1..=rounds {
            let key = [rng.uniform(64) as u8];
            let t = if rng.uniform(8) == 0 { ValueType::Value } else { ValueType::Deletion };
            match concurrent {
                true => table.add_concurrent(seq, t, &key, b"").unwrap(),
                false => table.add(seq, t, &key, b"").unwrap(),
            }
            last.store(seq, Release);
            if seq % 64 == 0 {
                thread::yield_now();
            }
        }
        done.store(true, Release);
        let (told, checked) = reader.join().unwrap();
        println!("concurrent {concurrent}: {told} told, {checked} checked");
    }
}
