//! The replayer: the same database again, errors, and the pace.

use std::sync::atomic::{AtomicUsize, Ordering};

use pumice::trace::{TraceOptions, TraceReader};
use pumice::{ColumnFamilyOptions, Db, ErrorKind, ReplayOptions, TraceResult, WriteBatch};
use pumice::{TransactionDb, TransactionDbOptions, TransactionOptions, WriteOptions};
use pumice_base::random::Rng;
use pumice_port::time::now_micros;

use super::{TRACE, database, queries, reader, writer};
use crate::common::{DIR, memory, options};

const FAST: ReplayOptions = ReplayOptions { num_threads: 1, fast_forward: 1e9 };

fn contents(db: &Db, family: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let family = db.column_family(family).unwrap();
    db.iter_cf(&family).unwrap().map(Result::unwrap).collect()
}

/// Calls of all kinds; returns how many.
fn work(db: &Db, seed: u64) -> usize {
    let mut random = Rng::new(seed);
    let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    let default = db.default_column_family().clone();
    let mut cursor = db.cursor().unwrap();
    for number in 0..500u64 {
        let family = if random.uniform(3) == 0 { &other } else { &default };
        let key = random.uniform(60).to_be_bytes();
        match random.uniform(7) {
            0 | 1 => db.put_cf(family, key, number.to_be_bytes()).unwrap(),
            2 => db.delete_cf(family, key).unwrap(),
            3 => {
                let mut batch = WriteBatch::new();
                batch.put_cf(family.id(), &key, b"batch");
                batch.put_cf(default.id(), &number.to_be_bytes(), b"two");
                db.write(&mut batch).unwrap();
            }
            4 => drop(db.get_cf(family, key).unwrap()),
            5 => drop(db.multi_get_cf(&[(family, key), (&other, key)])),
            _ => cursor.seek(key),
        }
    }
    500
}

#[pumice_test_macros::test]
fn a_replay_makes_the_same_database() {
    for threads in [0, 1, 4] {
        let seed = 0x7ace + u64::from(threads);
        println!("seed {seed}");
        let (db, fs) = database();
        db.start_trace(&TraceOptions::default(), writer(&fs)).unwrap();
        let calls = work(&db, seed);
        db.end_trace().unwrap();

        let (again, _) = database();
        let other = again.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
        let families = [again.default_column_family().clone(), other];
        let mut replayer = again.new_default_replayer(&families, reader(&fs, TRACE)).unwrap();
        let early = replayer.replay(&FAST).unwrap_err();
        assert_eq!((early.kind(), early.message()), (ErrorKind::Incomplete, "Not prepared!"));
        replayer.prepare().unwrap();
        assert!(replayer.header_timestamp() > 0);
        let made = AtomicUsize::new(0);
        let told = |_: &_, result: &pumice::Result<TraceResult>| {
            assert!(result.is_ok());
            made.fetch_add(1, Ordering::Relaxed);
        };
        let options = ReplayOptions { num_threads: threads, ..FAST };
        replayer.replay_with(&options, &told).unwrap();
        assert_eq!(made.into_inner(), calls);
        if threads <= 1 {
            for family in ["default", "other"] {
                assert_eq!(contents(&again, family), contents(&db, family), "{family}");
            }
        }
        let late = replayer.next().unwrap_err();
        assert_eq!((late.kind(), late.message()), (ErrorKind::Incomplete, "Trace end."));
        // Once more from the start.
        replayer.prepare().unwrap();
        assert!(replayer.next().is_ok());
        db.close().unwrap();
        again.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn bad_requests_are_refused() {
    let (db, fs) = database();
    let (stranger, _) = database();
    let own = db.default_column_family().clone();
    let foreign = stranger.default_column_family().clone();
    db.start_trace(&TraceOptions::default(), writer(&fs)).unwrap();
    let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    db.get_cf(&other, "key").unwrap();
    db.get("key").unwrap();
    db.end_trace().unwrap();
    assert!(db.new_default_replayer(&[], reader(&fs, TRACE)).is_err());
    assert!(db.new_default_replayer(&[foreign], reader(&fs, TRACE)).is_err());
    let mut replayer = db.new_default_replayer(&[own], reader(&fs, TRACE)).unwrap();
    replayer.prepare().unwrap();
    for fast_forward in [0.0, -1.0, f64::NAN] {
        let error = replayer.replay(&ReplayOptions { fast_forward, ..FAST }).unwrap_err();
        assert_eq!(error.message(), "Wrong fast forward speed!");
    }
    let error = replayer.replay(&FAST).unwrap_err();
    assert_eq!(error.to_string(), "Corruption: Invalid Column Family ID.");
    pumice::FileSystem::exists(&*fs, "/db/CURRENT".as_ref()).unwrap();
    let current = reader(&fs, "/db/CURRENT");
    let mut replayer = db.new_default_replayer(&[other], current).unwrap();
    assert_eq!(replayer.prepare().unwrap_err().kind(), ErrorKind::Corruption);
    db.close().unwrap();
    stranger.close().unwrap();
}

/// Commits are writes; sections that are prepared, and what is taken back, are none.
#[pumice_test_macros::test]
fn transactions_are_replayed_by_their_commits() {
    let (_, fs) = memory();
    let db = TransactionDb::open(&options(&fs), &TransactionDbOptions::default(), DIR).unwrap();
    db.db().start_trace(&TraceOptions::default(), writer(&fs)).unwrap();
    for commits in [true, false] {
        let transaction =
            db.transaction_opt(&WriteOptions::default(), &TransactionOptions::default());
        let name = format!("commits: {commits}");
        transaction.set_name(&name).unwrap();
        transaction.put(&name, "v").unwrap();
        transaction.prepare().unwrap();
        match commits {
            true => transaction.commit().unwrap(),
            false => transaction.rollback().unwrap(),
        }
    }
    db.put("plain", "v").unwrap();
    db.db().end_trace().unwrap();
    assert_eq!(queries(&fs, TRACE).len(), 2);

    let (again, _) = database();
    let families = [again.default_column_family().clone()];
    let mut replayer = again.new_default_replayer(&families, reader(&fs, TRACE)).unwrap();
    replayer.prepare().unwrap();
    replayer.replay(&FAST).unwrap();
    let found = contents(&again, "default");
    assert_eq!(found, contents(db.db(), "default"));
    assert_eq!(found.len(), 2);
}

/// A trace whose calls come at other times: the nth at the beginning and n times `step`.
struct Shifted {
    inner: Box<dyn TraceReader>,
    began: u64,
    calls: u64,
    step: u64,
}

impl TraceReader for Shifted {
    fn read(&mut self) -> pumice::Result<Vec<u8>> {
        let mut record = self.inner.read()?;
        let time = u64::from_le_bytes(record[..8].try_into().unwrap());
        match self.calls {
            0 => self.began = time,
            n => {
                let at = self.began.saturating_add((n - 1).saturating_mul(self.step));
                record[..8].copy_from_slice(&at.to_le_bytes());
            }
        }
        self.calls += 1;
        Ok(record)
    }
    fn reset(&mut self) -> pumice::Result<()> {
        self.calls = 0;
        self.inner.reset()
    }
}

/// A replay of two puts that are `step` microseconds apart: what it gives, and how long it takes.
fn paced(step: u64, fast_forward: f64) -> (pumice::Result<()>, u64) {
    let (db, fs) = database();
    db.start_trace(&TraceOptions::default(), writer(&fs)).unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    db.end_trace().unwrap();
    let (again, _) = database();
    let families = [again.default_column_family().clone()];
    let trace = Shifted { inner: reader(&fs, TRACE), began: 0, calls: 0, step };
    let mut replayer = again.new_default_replayer(&families, Box::new(trace)).unwrap();
    replayer.prepare().unwrap();
    let started = now_micros();
    let replayed = replayer.replay(&ReplayOptions { num_threads: 1, fast_forward });
    (replayed, now_micros() - started)
}

#[pumice_test_macros::test]
fn calls_wait_for_their_times() {
    let (replayed, took) = paced(300_000, 2.0);
    replayed.unwrap();
    assert!(took >= 150_000, "{took}");
    // A minute of the trace, of which nothing is waited for: else this test would take it.
    paced(60_000_000, 1e9).0.unwrap();
}

/// Nobody waits for a time that damage has made.
#[pumice_test_macros::test]
fn a_damaged_time_is_corruption() {
    let (replayed, _) = paced(u64::MAX / 2, 1.0);
    let error = replayed.unwrap_err();
    assert_eq!(error.message(), "trace record has a time over a year after the beginning");
}
