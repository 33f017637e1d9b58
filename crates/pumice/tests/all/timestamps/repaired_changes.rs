//! Repair of families that got timestamps, or lost them, between two opens: their tables have both
//! forms, their logs too, and no MANIFEST says which of them is the last. What a repair gives is
//! what an open gave before.
//!
//! Each database is drawn by a seed, written by either engine in turns, and read by both.
#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice::{
    Comparator, CustomComparator, Db, FileSystem, Options, PosixFs, RepairOutcome, WriteBatch,
};
use pumice_base::random::Rng;
use pumice_peer::{CompactRangeSettings, Peer, WriteOptions, WriteSettings};
use pumice_testkit::seed;

use super::sides::Walk;
use super::{sides, timed, unkept};
use crate::blobs::theirs::{Theirs, copy_dir, peer};
use crate::common::Scratch;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Bytes ascending under a name that no library knows.
struct Named(&'static str, usize);

impl CustomComparator for Named {
    fn name(&self) -> &str {
        self.0
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let number = |time: &[u8]| time.try_into().map_or(0, u64::from_le_bytes);
        let (a, a_time) = a.split_at(a.len().saturating_sub(self.1));
        let (b, b_time) = b.split_at(b.len().saturating_sub(self.1));
        a.cmp(b).then_with(|| number(b_time).cmp(&number(a_time)))
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
    fn timestamp_size(&self) -> usize {
        self.1
    }
}

/// How a database is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Engine {
    Ours,
    Theirs,
}

/// What is drawn of a database.
struct Draw {
    rng: Rng,
    /// Its orders have a name that no library knows.
    own_order: bool,
    clock: u64,
    /// The last update has a time and is in the log.
    timed_log: bool,
    keys: BTreeSet<Vec<u8>>,
}

const THEIRS: &str = "comparator=leveldb.BytewiseComparator.u64ts;\
                      persist_user_defined_timestamps=false;\
                      allow_concurrent_memtable_write=false";

impl Draw {
    fn options(&self, is_timed: bool) -> Options {
        let files: Arc<dyn FileSystem> = Arc::new(PosixFs);
        let mut options = if is_timed { unkept(&files) } else { timed(&files) };
        options.cf.disable_auto_compactions = true;
        options.cf.comparator = match (self.own_order, is_timed) {
            (true, true) => Comparator::Custom(Arc::new(Named("own.u64ts", 8))),
            (true, false) => Comparator::Custom(Arc::new(Named("own", 0))),
            (false, true) => return options,
            (false, false) => Comparator::Bytewise,
        };
        options
    }

    fn batch(&mut self, is_timed: bool) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.rng.uniform(6) {
            self.clock += 1;
            // Shorter and longer than a timestamp.
            let key = |rng: &mut Rng| match rng.uniform(3) {
                0 => format!("k{}", rng.uniform(20)).into_bytes(),
                1 => format!("key-{:012}", rng.uniform(20)).into_bytes(),
                _ => [&b"k"[..], &rng.uniform(9).to_le_bytes()].concat(),
            };
            let (begin, end) = (key(&mut self.rng), key(&mut self.rng));
            self.keys.insert(begin.clone());
            let value = format!("{}-", self.clock).repeat(1 + self.rng.uniform(20) as usize);
            let time = self.clock.to_le_bytes();
            match (self.rng.uniform(9), is_timed) {
                (0, true) => batch.delete_cf_with_ts(0, begin, time),
                (0, false) => batch.delete(begin),
                (1, true) => batch.merge_cf_with_ts(0, begin, time, value),
                (1, false) => batch.merge(begin, value),
                (2, true) if begin < end => batch.delete_range_cf_with_ts(0, begin, end, time),
                (2, false) if begin < end => batch.delete_range(begin, end),
                (_, true) => batch.put_cf_with_ts(0, begin, time, value),
                (_, false) => batch.put(begin, value),
            }
        }
        batch
    }

    /// Writes to the database in `path`, the `last` time with a copy of it, open or closed.
    fn phase(&mut self, peer: Option<&Peer>, path: &Path, (is_timed, last): (bool, Option<&Path>)) {
        let engine = match peer {
            Some(_) if self.rng.one_in(2) && !self.own_order => Engine::Theirs,
            _ => Engine::Ours,
        };
        let db = match (engine, peer) {
            (Engine::Theirs, Some(peer)) => {
                let text = if is_timed { THEIRS } else { "" };
                Open::Theirs(peer, Theirs::open(peer, path, text))
            }
            _ => Open::Ours(Db::open(&self.options(is_timed), path).unwrap()),
        };
        self.timed_log = false;
        let mut compacted = false;
        for _ in 0..self.rng.uniform(12) {
            db.write(&self.batch(is_timed));
            self.timed_log = is_timed;
            if self.rng.one_in(4) {
                db.flush();
                self.timed_log = false;
            }
            if self.rng.one_in(9) {
                db.compact();
                (self.timed_log, compacted) = (false, true);
            }
        }
        // Before its inputs are deleted a compaction would show what it has dropped.
        let is_open = self.rng.one_in(2) && !compacted;
        if is_open && let Some(copy) = last {
            db.sync();
            copy_open(path, copy);
        }
        match db {
            Open::Ours(db) => {
                crate::common::let_files_go(&db);
                db.close().unwrap();
            }
            theirs => drop(theirs),
        }
        if !is_open && let Some(copy) = last {
            copy_dir(path, copy);
        }
    }
}

enum Open<'p> {
    Ours(Db),
    Theirs(&'p Peer, Theirs<'p>),
}

impl Open<'_> {
    fn write(&self, batch: &WriteBatch) {
        match self {
            Open::Ours(db) => {
                db.write(&mut WriteBatch::from_data(batch.data()).unwrap()).unwrap();
            }
            Open::Theirs(peer, theirs) => {
                let write = WriteOptions::new(peer, &WriteSettings::default());
                let batch = pumice_peer::WriteBatch::from_data(peer, batch.data());
                theirs.db.write(&write, &batch).unwrap();
            }
        }
    }
    fn flush(&self) {
        match self {
            Open::Ours(db) => db.flush().unwrap(),
            Open::Theirs(_, theirs) => theirs.flush(),
        }
    }
    fn compact(&self) {
        match self {
            Open::Ours(db) => db.compact_range(&Default::default(), None, None).unwrap(),
            Open::Theirs(_, theirs) => {
                let forced = CompactRangeSettings { bottommost_level: 2, ..Default::default() };
                theirs.db.compact_range(theirs.db.default_column_family(), None, None, &forced);
            }
        }
    }
    fn sync(&self) {
        match self {
            Open::Ours(db) => db.flush_wal(true).unwrap(),
            Open::Theirs(_, theirs) => theirs.db.flush_wal(true).unwrap(),
        }
    }
}

/// What an open shows: the low of the history, and the rows at the low and at the end of times.
#[derive(Debug, PartialEq)]
struct Shown {
    low: Option<u64>,
    rows: Vec<Rows>,
}

fn shown(options: &Options, path: &Path, (is_timed, from): (bool, u64)) -> Shown {
    let db = Db::open(options, path).unwrap();
    let shown = read(&db, (is_timed, from));
    db.verify_checksum().unwrap();
    db.close().unwrap();
    shown
}

fn read(db: &Db, (is_timed, from): (bool, u64)) -> Shown {
    if !is_timed {
        let rows: Rows = db.range(..).unwrap().map(|row| row.unwrap()).collect();
        for (key, value) in &rows {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
        }
        return Shown { low: None, rows: vec![rows] };
    }
    let low = db.full_history_ts_low(db.default_column_family()).unwrap();
    let low = low.map(|low| u64::from_le_bytes(low.try_into().unwrap()));
    let rows = |time: u64| -> Rows {
        let rows: Rows = db.at(time).range(..).unwrap().map(|row| row.unwrap()).collect();
        for (key, value) in &rows {
            assert_eq!(db.at(time).get(key).unwrap().as_deref(), Some(&value[..]));
        }
        rows
    };
    let from = low.unwrap_or(0).max(from);
    Shown { low, rows: [from, u64::MAX].map(rows).to_vec() }
}

/// Copies a database that is open: files may go meanwhile, of those that it does not need.
fn copy_open(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match std::fs::copy(entry.path(), to.join(entry.file_name())) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
}

fn names(path: &Path, part: &str) -> Vec<PathBuf> {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let names = names.filter(|entry| entry.file_name().to_string_lossy().contains(part));
    names.map(|entry| entry.path()).collect()
}

/// Loses the MANIFEST as a whole, or damages it.
fn harm(rng: &mut Rng, path: &Path) -> bool {
    let manifests = names(path, "MANIFEST-");
    if rng.one_in(3) {
        for file in &manifests {
            let mut bytes = std::fs::read(file).unwrap();
            let at = rng.uniform(bytes.len() as u64) as usize;
            bytes[at] ^= 0x40;
            std::fs::write(file, bytes).unwrap();
        }
        return false;
    }
    manifests.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    if rng.one_in(2) {
        std::fs::remove_file(path.join("CURRENT")).unwrap();
    }
    true
}

fn one(seed: u64, peer: Option<&Peer>) {
    let what = seed::replay_hint("repaired_changes", seed);
    let mut rng = Rng::new(seed);
    let own_order = rng.one_in(4);
    let mut draw = Draw { rng, own_order, clock: 0, timed_log: false, keys: BTreeSet::new() };
    let dir = Scratch::new("repaired-changes");
    std::fs::create_dir_all(&dir.0).unwrap();
    let (made, copy) = (dir.0.join("made"), dir.0.join("copy"));
    let changes = 1 + draw.rng.uniform(3);
    let first = draw.rng.one_in(2);
    let mut is_timed = first;
    for change in 0..=changes {
        is_timed = first ^ (change % 2 == 1);
        let last = (change == changes).then_some(&*copy);
        draw.phase(peer, &made, (is_timed, last));
    }
    let options = draw.options(is_timed);
    let opened = dir.0.join("opened");
    copy_dir(&copy, &opened);
    let expected = shown(&options, &opened, (is_timed, 0));

    let is_lost = harm(&mut draw.rng, &copy);
    let asked = if draw.rng.one_in(3) { !is_timed } else { is_timed };
    let what = format!(
        "{what}: first {first} changes {changes} asked {asked} own {own_order} lost {is_lost}"
    );
    let report = match pumice::repair(&draw.options(asked), &copy) {
        Err(error) if error.to_string().contains("nothing but the options names its order") => {
            // Not even a table says how keys are ordered.
            assert!(!asked && names(&copy, ".sst").is_empty(), "{what}: {error}");
            return;
        }
        report => report.unwrap_or_else(|error| panic!("{what}: {error}")),
    };
    let what = format!("{what}: {report}");
    if report.outcome != RepairOutcome::Rebuilt {
        assert!(!is_lost, "{what}");
        return;
    }
    let again = pumice::repair(&draw.options(asked), &copy).unwrap();
    assert_eq!(again.outcome, RepairOutcome::Healthy, "{what}: {again}");
    if let Some(peer) = peer.filter(|_| !own_order) {
        let theirs = dir.0.join("theirs");
        copy_dir(&copy, &theirs);
        let rows: Rows = match is_timed {
            false => Theirs::open(peer, &theirs, "").contents(),
            true => {
                let text = "persist_user_defined_timestamps=false;\
                            allow_concurrent_memtable_write=false";
                let side = sides::Theirs::open(peer, &theirs, text);
                let rows = sides::Side::walk(&side, u64::MAX, &Walk::default()).unwrap();
                rows.into_iter().map(|(key, _, value)| (key, value)).collect()
            }
        };
        assert_eq!(&rows, expected.rows.last().unwrap(), "{what}: RocksDB");
    }
    let from = expected.low.unwrap_or(0);
    let db = Db::open(&options, &copy).unwrap();
    for compacted in [false, true] {
        let found = read(&db, (is_timed, from));
        assert_eq!(found.rows, expected.rows, "{what}: compacted {compacted}");
        assert!(found.low <= expected.low, "{what}: {:?} {:?}", found.low, expected.low);
        if draw.timed_log && asked_keeps_times(own_order, asked) {
            assert_eq!(found.low, expected.low, "{what}");
        }
        db.compact_range(&Default::default(), None, None).unwrap();
    }
    db.verify_checksum().unwrap();
    db.close().unwrap();
}

/// The order with timestamps can be had from what is asked for.
fn asked_keeps_times(own_order: bool, asked: bool) -> bool {
    asked || !own_order
}

// Plain #[test]: the engines work on real files, and RocksDB has its own threads.
#[test]
fn rebuilds_show_what_an_open_showed() {
    let peer = peer();
    for seed in seed::range(30) {
        one(seed, peer.as_ref());
    }
}
