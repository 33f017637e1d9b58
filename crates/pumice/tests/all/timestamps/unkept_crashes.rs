//! Power cuts in families whose tables lack timestamps, at operations that are drawn: between the
//! files of a flush and the MANIFEST that names them, in recoveries, and where a family gets
//! timestamps and loses them again; also with blob files.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use pumice::{Comparator, Db, MemFs, Options, WriteOptions};
use pumice_base::random::Rng;
use pumice_env::mem::CrashMode;
use pumice_testkit::seed;

use super::{text, timed, unkept};
use crate::common::{DIR, SYNC, flush};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What is done before the power goes.
#[derive(Clone, Copy, Debug)]
enum Story {
    /// The family has timestamps, loses them, and gets them again.
    Toggles,
    /// There are blob files, which compactions write anew.
    Blobs { keeps: bool },
    /// Logs of several memtables are recovered.
    Logs,
}

const STORIES: [Story; 4] =
    [Story::Toggles, Story::Blobs { keeps: false }, Story::Blobs { keeps: true }, Story::Logs];

impl Story {
    /// Whether keys have timestamps in this round.
    fn has_times(self, round: u8) -> bool {
        !matches!(self, Story::Toggles) || round.is_multiple_of(2)
    }

    fn options(self, fs: &MemFs, round: u8) -> Options {
        let keeps = matches!(self, Story::Blobs { keeps: true });
        let fs = fs.shared();
        let mut options = if keeps { timed(&fs) } else { unkept(&fs) };
        if !self.has_times(round) {
            options.cf.comparator = Comparator::Bytewise;
        }
        if matches!(self, Story::Blobs { .. }) {
            super::blobs::separate(&mut options.cf, 20, true);
            options.cf.blob_file_size = 300;
        }
        if matches!(self, Story::Logs) {
            (options.cf.write_buffer_size, options.cf.max_write_buffer_number) = (64 << 10, 6);
        }
        options
    }

    /// Writes in three rounds, with an open before each, until something fails. `done` has what was
    /// acknowledged, `tried` also the write that failed.
    fn work(self, fs: &MemFs, done: &mut Model, tried: &mut Model) -> pumice::Result<()> {
        let bytes = if matches!(self, Story::Logs) { 20_000 } else { 30 };
        for round in 0..3u8 {
            let db = Db::open(&self.options(fs, round), DIR)?;
            for n in 0..8u8 {
                let (key, value) = (vec![b'k', n], vec![b'a' + round; bytes + usize::from(n)]);
                tried.insert(key.clone(), value.clone());
                let time = 10 * u64::from(round) + u64::from(n);
                match self.has_times(round) {
                    true => db.at(time).writing(SYNC).put(&key, &value)?,
                    false => db.put_opt(&SYNC, &key, &value)?,
                }
                done.insert(key, value);
                if n == 4 && round != 1 {
                    db.flush()?;
                }
            }
            if round == 2 {
                db.compact_range(&Default::default(), None, None)?;
            }
            db.close()?;
        }
        Ok(())
    }
}

fn contents(db: &Db) -> Model {
    db.at(u64::MAX).range(..).unwrap().map(|row| row.unwrap()).collect()
}

/// The power goes at change `i` of the disk.
fn happen(story: Story, i: u64, mode: CrashMode) {
    let what = format!("{story:?}, change {i}, {mode:?}");
    let fs = MemFs::new(i);
    let (mut done, mut tried) = (Model::new(), Model::new());
    fs.halt_after(i);
    drop(story.work(&fs, &mut done, &mut tried)); // Whether it fails depends on `i`.
    fs.crash(i, mode);
    for _ in 0..2 {
        let db = Db::open(&story.options(&fs, 2), DIR).unwrap_or_else(|e| panic!("{what}: {e}"));
        let found = contents(&db);
        assert!(found == done || found == tried, "{what}");
        db.verify_checksum().unwrap_or_else(|error| panic!("{what}: {error}"));
        for (key, value) in &found {
            let read = db.at(u64::MAX).get(key).unwrap();
            assert_eq!(read.as_deref(), Some(&value[..]), "{what}");
        }
        db.close().unwrap();
    }
}

/// Points of each story at which the power goes.
const POINTS: u64 = 10;

#[pumice_test_macros::test]
fn power_cuts_leave_what_was_acknowledged() {
    for story in STORIES {
        let fs = MemFs::new(0);
        let before = fs.change_count();
        story.work(&fs, &mut Model::new(), &mut Model::new()).unwrap();
        let changes = fs.change_count() - before;
        let names = crate::common::names(&fs.shared(), DIR);
        let has_blobs = names.iter().any(|name| name.ends_with(".blob"));
        assert_eq!(has_blobs, matches!(story, Story::Blobs { .. }), "{names:?}");
        for point in seed::range(POINTS) {
            println!("point {point}");
            let i = Rng::new(point).uniform(changes);
            happen(story, i, CrashMode::UNSYNCED);
            happen(story, i, CrashMode::MIXED);
        }
    }
}

/// A prefix of the writes is left, at the times that the low of the history still shows.
#[pumice_test_macros::test]
fn times_in_logs_are_read_after_a_power_cut() {
    let mut below = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let fs = MemFs::new(seed);
        let mut options = unkept(&fs.shared());
        options.db.avoid_flush_during_recovery = seed % 4 > 0;
        let db = Db::open(&options, DIR).unwrap();
        let (mut durable, mut history) = (0, vec![Model::new()]);
        for time in 1..=20 + rng.uniform(60) {
            let sync = rng.one_in(5);
            let how = if sync { SYNC } else { WriteOptions::default() };
            let key = format!("k{}", rng.uniform(6));
            let mut model = history.last().unwrap().clone();
            match rng.one_in(6) {
                true => {
                    db.at(time).writing(how).delete(&key).unwrap();
                    model.remove(key.as_bytes());
                }
                false => {
                    db.at(time).writing(how).put(&key, time.to_string()).unwrap();
                    model.insert(key.into_bytes(), time.to_string().into_bytes());
                }
            }
            history.push(model);
            if rng.one_in(30) {
                flush(&db);
                durable = time;
            }
            durable = if sync { time } else { durable };
        }
        let left = fs.crashed_copy(seed, CrashMode::UNSYNCED);
        db.close().unwrap();
        options.db.file_system = left.shared();
        let db = Db::open(&options, DIR).unwrap();
        let last = contents(&db);
        let end = (durable as usize..history.len()).find(|end| history[*end] == last);
        assert!(end.is_some(), "seed {seed}: no prefix of the history from {durable} on");
        let low = db.full_history_ts_low(db.default_column_family()).unwrap();
        let low = low.map_or(1, |low| u64::from_le_bytes(low.try_into().unwrap()));
        for time in low..=durable {
            below += 1;
            for n in 0..6 {
                let key = format!("k{n}");
                let expected = history[time as usize].get(key.as_bytes());
                let expected = expected.map(|value| String::from_utf8(value.clone()).unwrap());
                assert_eq!(text(&db, time, &key), expected, "seed {seed} time {time} of {durable}");
            }
        }
        db.close().unwrap();
    }
    assert!(below > 100, "{below}");
}
