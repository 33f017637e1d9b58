//! Several keys at once, which are one search: what each would be alone.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pumice::{Db, ReadOptions, Statistics, Ticker};

use super::{message, timed, unkept};
use crate::common::{DIR, flush};

fn at(time: u64) -> ReadOptions {
    ReadOptions { timestamp: Some(time.to_le_bytes().to_vec()), ..ReadOptions::default() }
}

#[pumice_test_macros::test]
fn several_keys_are_answered_as_each_alone() {
    for kept in [true, false] {
        let files = crate::common::memory().1;
        let mut options = if kept { timed(&files) } else { unkept(&files) };
        options.cf.table_factory.block_size = 64;
        options.cf.table_factory.no_block_cache = true;
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        let db = Db::open(&options, DIR).unwrap();
        let other = db.create_cf("other", &options.cf).unwrap();
        let families = [db.default_column_family().clone(), other];
        for time in 1..=6u64 {
            for n in 0..120u64 {
                let (key, cf) = (format!("k{n:03}"), &families[(n % 2) as usize]);
                let write = db.at(time).in_cf(cf);
                match (n + time) % 7 {
                    0 => write.delete(&key).unwrap(),
                    1 | 2 => write.merge(&key, format!("m{time}")).unwrap(),
                    3 => {}
                    _ => write.put(&key, format!("{time}")).unwrap(),
                }
            }
            if time == 3 {
                flush(&db);
                db.flush_cf(&families[1]).unwrap();
            }
        }
        let low = if kept { 0 } else { 4 };
        for time in low..8 {
            let keys: Vec<String> = (0..130).map(|n| format!("k{:03}", n * 7 % 130)).collect();
            let asked: Vec<_> = (keys.iter().enumerate())
                .map(|(n, key)| (&families[n % 2], key.as_bytes()))
                .chain([(&families[0], &b"k000"[..]), (&families[0], &b"k000"[..])])
                .collect();
            let calls = || statistics.ticker(Ticker::NumberMultigetCalls);
            let before = calls();
            let together = db.multi_get_with_timestamp(&at(time), &asked);
            assert_eq!((together.len(), calls()), (asked.len(), before + 1));
            for ((cf, key), found) in asked.iter().zip(together) {
                let alone = db.get_with_timestamp(&at(time), cf, key).unwrap();
                let parts = |found: Option<(pumice::PinnedSlice, Vec<u8>)>| {
                    found.map(|(value, time)| (value.to_vec(), time))
                };
                assert_eq!(parts(found.unwrap()), parts(alone), "{key:?} at {time}");
            }
        }
        if !kept {
            let early = db.multi_get_with_timestamp(&at(3), &[(&families[0], b"k000")]);
            let expected = message(db.get_with_timestamp(&at(3), &families[0], b"k000"));
            assert_eq!(message(early.into_iter().next().unwrap()), expected);
        }
        db.close().unwrap();
    }
}
