//! Recovery of logs with timestamps: after closing, after a power cut at any point.
#![allow(clippy::unwrap_used)]

use pumice::{Db, MemFs, WriteOptions};
use pumice_base::random::Rng;
use pumice_env::mem::CrashMode;

use super::{message, text, timed};
use crate::common::{DIR, SYNC, flush};

/// A write that was acknowledged as durable is read at its time after any crash, and no time shows
/// what was never written.
#[pumice_test_macros::test]
fn a_power_cut_leaves_a_prefix_of_the_writes_at_their_times() {
    let mut recovered_logs = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let fs = MemFs::new(seed);
        let mut options = timed(&fs.shared());
        options.cf.write_buffer_size = 64 << 10;
        let db = Db::open(&options, DIR).unwrap();
        let plain = db.create_cf("plain", &Default::default()).unwrap();
        let mut durable = 0;
        let count = 20 + rng.uniform(200);
        for time in 1..=count {
            let sync = rng.one_in(5);
            let how = if sync { SYNC } else { WriteOptions::default() };
            let key = format!("k{}", time % 7);
            match rng.one_in(6) {
                true => db.at(time).writing(how).delete(&key).unwrap(),
                false => db.at(time).writing(how).put(&key, time.to_string()).unwrap(),
            }
            if rng.one_in(9) {
                db.put_cf(&plain, "plain", "value").unwrap();
            }
            if sync {
                durable = time;
            }
            if rng.one_in(40) {
                flush(&db);
                durable = time;
            }
        }
        let left = fs.crashed_copy(seed, CrashMode::UNSYNCED);
        let expected = |time: u64, n: u64| {
            // Replays the draws.
            let mut rng = Rng::new(seed);
            rng.uniform(200);
            let mut value = None;
            for at in 1..=time {
                let (_, deletes) = (rng.one_in(5), rng.one_in(6));
                let (_, _) = (rng.one_in(9), rng.one_in(40));
                if at % 7 == n {
                    value = (!deletes).then(|| at.to_string());
                }
            }
            value
        };
        db.close().unwrap();
        options.db.file_system = left.shared();
        let families = [("default", options.cf.clone()), ("plain", Default::default())];
        let families = families.map(|(name, cf)| pumice::ColumnFamilyDescriptor::new(name, cf));
        let (db, _) = Db::open_cf(&options.db, DIR, &families).unwrap();
        // The last write that is there.
        let newest =
            |time: u64| (0..7).all(|n| text(&db, time, &format!("k{n}")) == expected(time, n));
        for time in 1..=durable {
            assert!(newest(time), "seed {seed} time {time} of {durable} durable of {count}");
        }
        let reaches = (durable..=count).find(|last| {
            (0..7).all(|n| text(&db, u64::MAX, &format!("k{n}")) == expected(*last, n))
        });
        assert!(reaches.is_some(), "seed {seed}: no prefix of the history from {durable} on");
        recovered_logs += u64::from(durable > 0);
        db.close().unwrap();
    }
    assert!(recovered_logs > 40, "{recovered_logs}");
}

/// The log says how long timestamps are; a family that has others is not recovered from it.
#[pumice_test_macros::test]
fn a_log_with_timestamps_is_not_replayed_into_a_family_without() {
    let (fs, shared) = crate::common::memory();
    let options = timed(&shared);
    let db = Db::open(&options, DIR).unwrap();
    db.at(1).put("k", "v").unwrap();
    let copy = fs.crashed_copy(1, CrashMode::PROCESS);
    db.close().unwrap();
    let mut plain = crate::common::options(&copy.shared());
    let named = message(Db::open(&plain, DIR));
    assert!(named.contains("disable user-defined timestamps feature"), "{named}");
    // An order of that name without timestamps.
    struct Bare;
    impl pumice::CustomComparator for Bare {
        fn name(&self) -> &str {
            pumice::BYTEWISE_U64_TS
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.cmp(b)
        }
    }
    plain.cf.comparator = pumice::Comparator::Custom(std::sync::Arc::new(Bare));
    let sizes = message(Db::open(&plain, DIR));
    assert!(sizes.contains("timestamps of 8 bytes in the log and of 0"), "{sizes}");
}
