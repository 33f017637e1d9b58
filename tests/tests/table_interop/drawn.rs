//! The same random calls through both engines, range deletions among everything else, or single
//! deletions that break their contract. Every answer is compared; then each opens the other's
//! files.
//!
//! `PUMICE_DRAWN=N` takes N seeds (16; 40 of misuse). Skipped with a message where the library is
//! missing.

use std::path::Path;

use pumice_base::random::Rng;
use pumice_peer::Peer;
use pumice_testkit::seed;

use super::peer;

const KEYS: u64 = 40;
const OPERATIONS: u64 = 300;

/// Of cases of misuse: one file for each flush.
const WHOLE_FILES: &str = ";target_file_size_base=1048576;max_compaction_bytes=1048576";

/// What the calls are to show.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drawn {
    RangeDeletions,
    /// Single deletions of any key, mostly misuse, and deletions `deletes_one_in` times rarer; a
    /// case ends when misuse is found. There are no background compactions, since when one finds
    /// misuse depends on timing.
    Misuse {
        deletes_one_in: u64,
    },
}

/// Both engines' options, as text: files of a few entries, so that ranges are cut between them.
fn options(rng: &mut Rng, drawn: Drawn) -> String {
    let automatic = drawn == Drawn::RangeDeletions && rng.one_in(2);
    let mut text = format!(
        "create_if_missing=true;allow_fallocate=false;\
         disable_auto_compactions={};merge_operator=stringappend;\
         level0_file_num_compaction_trigger=2;write_buffer_size={};compression=kNoCompression;\
         target_file_size_base={};max_bytes_for_level_base=8192;num_levels={};\
         level_compaction_dynamic_level_bytes={};max_compaction_bytes={};\
         avoid_flush_during_shutdown={}",
        !automatic,
        if automatic { 65536 } else { 4 << 20 },
        [700, 3000, 1 << 20][rng.uniform(3) as usize],
        [3, 4, 7][rng.uniform(3) as usize],
        rng.one_in(2),
        [2000, 1 << 20][rng.uniform(2) as usize],
        rng.one_in(2),
    );
    if rng.one_in(3) {
        text.push_str(";compaction_style=kCompactionStyleUniversal");
    }
    if drawn != Drawn::RangeDeletions {
        text.push_str(WHOLE_FILES);
    }
    text
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let mut key = format!("k{:02}", rng.uniform(KEYS)).into_bytes();
    // Keys that are another's beginning.
    if rng.one_in(8) {
        key.push(0);
    }
    key
}

/// What a call answered: values, or the error's kind. Entries go forwards, then backwards.
#[derive(PartialEq, Eq, Debug)]
enum Answer {
    Done,
    Value(Option<String>),
    Entries(Vec<(String, String)>),
    Error(Kind),
}

/// An error's text, which equals another that begins alike: `Corruption: this` and `Corruption:
/// that` are both damage.
#[derive(Eq, Debug)]
struct Kind(String);

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.0.split(':').next() == other.0.split(':').next()
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn kind(text: &str) -> Answer {
    Answer::Error(Kind(text.to_string()))
}

#[derive(Clone, Debug)]
enum Call {
    Put(Vec<u8>, Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    SingleDelete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    Flush,
    Compact(Option<Vec<u8>>, Option<Vec<u8>>),
    Snapshot,
    Release(usize),
    /// At a snapshot, or now.
    Get(Option<usize>, Vec<u8>),
    /// At a snapshot or now, between bounds, from a key.
    Walk(Option<usize>, [Option<Vec<u8>>; 2], Vec<u8>),
    Reopen,
}

fn call(rng: &mut Rng, snapshots: usize, drawn: Drawn) -> Call {
    let at = |rng: &mut Rng| match snapshots {
        0 => None,
        some => rng.one_in(2).then(|| rng.uniform(some as u64) as usize),
    };
    let value = |rng: &mut Rng| {
        let len = 20 + rng.uniform(100) as usize;
        let start = format!("{}-", rng.next_u32());
        start.bytes().chain(std::iter::repeat(b'v')).take(len).collect::<Vec<u8>>()
    };
    let maybe = |rng: &mut Rng| rng.one_in(2).then(|| key(rng));
    match rng.uniform(40) {
        0..12 => Call::Put(key(rng), value(rng)),
        12..15 => Call::Merge(key(rng), b"m".to_vec()),
        15..17 => match drawn {
            Drawn::Misuse { deletes_one_in } if !rng.one_in(deletes_one_in) => {
                Call::Put(key(rng), value(rng))
            }
            _ => Call::Delete(key(rng)),
        },
        17..22 if drawn != Drawn::RangeDeletions && !rng.one_in(8) => Call::SingleDelete(key(rng)),
        17..22 => {
            // Ends in the wrong order are refused here, but end all writing in RocksDB.
            let mut ends = [key(rng), key(rng)];
            ends.sort();
            let [begin, end] = ends;
            Call::DeleteRange(begin, end)
        }
        22..25 => Call::Flush,
        25..27 => match (maybe(rng), maybe(rng)) {
            // What a range in the wrong order flushes and compacts is unspecified, but decides
            // whether misuse is found.
            (Some(begin), Some(end)) if drawn != Drawn::RangeDeletions && begin > end => {
                Call::Compact(Some(end), Some(begin))
            }
            (begin, end) => Call::Compact(begin, end),
        },
        27..29 => Call::Snapshot,
        29 if snapshots > 0 => Call::Release(rng.uniform(snapshots as u64) as usize),
        30..36 => Call::Get(at(rng), key(rng)),
        36..39 => Call::Walk(at(rng), [maybe(rng), maybe(rng)], key(rng)),
        _ if rng.one_in(4) => Call::Reopen,
        _ => Call::Walk(at(rng), [None, None], key(rng)),
    }
}

mod own {
    //! Pumice.

    use super::{Answer, Call, kind, shown};
    use pumice::{Db, DbIterator, FlushOptions, Options, ReadOptions, Snapshot, WriteOptions};
    use std::path::Path;

    pub struct Store {
        options: Options,
        db: Db,
        snapshots: Vec<Snapshot>,
    }

    fn answer<T>(result: pumice::Result<T>, good: impl FnOnce(T) -> Answer) -> Answer {
        result.map_or_else(|error| kind(&error.to_string()), good)
    }

    fn rest(iter: &mut DbIterator, forwards: bool, entries: &mut Vec<(String, String)>) {
        while iter.valid() {
            entries.push((shown(iter.key().unwrap()), shown(iter.value().unwrap())));
            if forwards { iter.next() } else { iter.prev() }
        }
    }

    impl Store {
        pub fn open(text: &str, path: &Path) -> Result<Self, String> {
            let mut options = Options::default();
            options.set_from_text(text).map_err(|e| e.to_string())?;
            // What misuse does depends on which deletions a flush writes: as RocksDB, all.
            let misused = text.ends_with(super::WHOLE_FILES);
            options.cf.min_tombstones_for_range_conversion = u32::from(!misused);
            let db = Db::open(&options, path).map_err(|e| e.to_string())?;
            Ok(Store { options, db, snapshots: Vec::new() })
        }
        pub fn close(self) -> Result<(), String> {
            drop(self.snapshots);
            self.db.close().map_err(|e| e.to_string())
        }
        pub fn reopen(self, path: &Path) -> Result<Self, String> {
            let options = self.options.clone();
            self.close()?;
            let db = Db::open(&options, path).map_err(|e| e.to_string())?;
            Ok(Store { options, db, snapshots: Vec::new() })
        }
        fn reading(&self, at: &Option<usize>) -> ReadOptions {
            let snapshot = at.map(|at| self.snapshots[at].clone());
            ReadOptions { snapshot, ..ReadOptions::default() }
        }
        pub fn run(&mut self, call: &Call) -> Answer {
            let (db, wo) = (&self.db, &WriteOptions::default());
            let done = |()| Answer::Done;
            match call {
                Call::Put(key, value) => answer(db.put_opt(wo, key, value), done),
                Call::Merge(key, value) => answer(db.merge_opt(wo, key, value), done),
                Call::Delete(key) => answer(db.delete_opt(wo, key), done),
                Call::SingleDelete(key) => answer(db.single_delete_opt(wo, key), done),
                Call::DeleteRange(begin, end) => answer(db.delete_range_opt(wo, begin, end), done),
                Call::Flush => answer(db.flush_opt(&FlushOptions::default()), done),
                // RocksDB's C library returns no error from this call.
                Call::Compact(begin, end) => {
                    let options = Default::default();
                    db.compact_range(&options, begin.as_deref(), end.as_deref()).ok();
                    Answer::Done
                }
                Call::Snapshot => {
                    self.snapshots.push(db.snapshot());
                    Answer::Done
                }
                Call::Release(at) => {
                    self.snapshots.remove(*at);
                    Answer::Done
                }
                Call::Get(at, key) => answer(db.get_opt(&self.reading(at), key), |value| {
                    Answer::Value(value.map(|value| shown(&value)))
                }),
                Call::Walk(at, [lower, upper], from) => {
                    let options = ReadOptions {
                        iterate_lower_bound: lower.clone(),
                        iterate_upper_bound: upper.clone(),
                        ..self.reading(at)
                    };
                    let walk = || {
                        let mut entries = Vec::new();
                        let mut iter = db.cursor_opt(&options)?;
                        iter.seek(from);
                        rest(&mut iter, true, &mut entries);
                        iter.status()?;
                        iter.seek_for_prev(from);
                        rest(&mut iter, false, &mut entries);
                        iter.status()?;
                        iter.seek_to_first();
                        rest(&mut iter, true, &mut entries);
                        iter.seek_to_last();
                        rest(&mut iter, false, &mut entries);
                        iter.status().map(|()| entries)
                    };
                    answer(walk(), Answer::Entries)
                }
                Call::Reopen => Answer::Done,
            }
        }
    }
}

mod rocksdb {
    //! RocksDB 10.10.1.

    use super::{Answer, Call, kind, shown};
    use pumice_peer::{
        CompactRangeSettings, Db, DbIterator, Options, Peer, ReadOptions, ReadSettings, Result,
        Snapshot, WriteOptions, WriteSettings,
    };
    use std::path::Path;

    pub struct Store {
        peer: Peer,
        options: Options,
        db: Db,
        wo: WriteOptions,
        snapshots: Vec<Snapshot>,
    }

    fn answer<T>(result: Result<T>, good: impl FnOnce(T) -> Answer) -> Answer {
        result.map_or_else(|error| kind(error.message()), good)
    }

    fn rest(iter: &mut DbIterator, forwards: bool, entries: &mut Vec<(String, String)>) {
        while iter.valid() {
            entries.push((shown(iter.key()), shown(iter.value())));
            if forwards { iter.next() } else { iter.prev() }
        }
    }

    impl Store {
        pub fn open(peer: &Peer, text: &str, path: &Path) -> std::result::Result<Self, String> {
            let mut options = Options::new(peer);
            options.set_many(text).map_err(|e| e.to_string())?;
            let db = Db::open(&options, path).map_err(|e| e.to_string())?;
            let wo = WriteOptions::new(peer, &WriteSettings::default());
            Ok(Store { peer: peer.clone(), options, db, wo, snapshots: Vec::new() })
        }
        pub fn reopen(self, path: &Path) -> std::result::Result<Self, String> {
            let Store { peer, options, db, wo, snapshots } = self;
            drop((snapshots, db));
            let db = Db::open(&options, path).map_err(|e| e.to_string())?;
            Ok(Store { peer, options, db, wo, snapshots: Vec::new() })
        }
        fn reading(&self, at: &Option<usize>) -> ReadSettings {
            let snapshot = at.map(|at| self.snapshots[at].clone());
            ReadSettings { snapshot, ..ReadSettings::default() }
        }
        pub fn run(&mut self, call: &Call) -> Answer {
            let (db, wo) = (&self.db, &self.wo);
            let cf = db.default_column_family();
            let done = |()| Answer::Done;
            match call {
                Call::Put(key, value) => answer(db.put(wo, cf, key, value), done),
                Call::Merge(key, value) => answer(db.merge(wo, cf, key, value), done),
                Call::Delete(key) => answer(db.delete(wo, cf, key), done),
                Call::SingleDelete(key) => answer(db.single_delete(wo, cf, key), done),
                Call::DeleteRange(begin, end) => answer(db.delete_range(wo, cf, begin, end), done),
                Call::Flush => answer(db.flush(cf), done),
                Call::Compact(begin, end) => {
                    let settings = CompactRangeSettings::default();
                    db.compact_range(cf, begin.as_deref(), end.as_deref(), &settings);
                    Answer::Done
                }
                Call::Snapshot => {
                    self.snapshots.push(db.snapshot());
                    Answer::Done
                }
                Call::Release(at) => {
                    self.snapshots.remove(*at);
                    Answer::Done
                }
                Call::Get(at, key) => {
                    let options = ReadOptions::new(&self.peer, &self.reading(at));
                    let mut value = Vec::new();
                    let found = db.get(&options, cf, key, &mut value);
                    answer(found, |found| Answer::Value(found.then(|| shown(&value))))
                }
                Call::Walk(at, [lower, upper], from) => {
                    let settings = ReadSettings {
                        iterate_lower_bound: lower.clone(),
                        iterate_upper_bound: upper.clone(),
                        ..self.reading(at)
                    };
                    let options = ReadOptions::new(&self.peer, &settings);
                    let walk = || {
                        let mut entries = Vec::new();
                        let mut iter = db.iter(&options, cf);
                        iter.seek(from);
                        rest(&mut iter, true, &mut entries);
                        iter.status()?;
                        iter.seek_for_prev(from);
                        rest(&mut iter, false, &mut entries);
                        iter.status()?;
                        iter.seek_to_first();
                        rest(&mut iter, true, &mut entries);
                        iter.seek_to_last();
                        rest(&mut iter, false, &mut entries);
                        iter.status().map(|()| entries)
                    };
                    answer(walk(), Answer::Entries)
                }
                Call::Reopen => Answer::Done,
            }
        }
    }
}

/// The result of a case.
#[derive(Default)]
struct Outcome {
    entries: u64,
    /// The step at which both returned Corruption.
    stopped: Option<u64>,
}

/// One case: the same calls through both, then each with the other's files.
fn run(peer: &Peer, seed: u64, drawn: Drawn) -> Result<Outcome, String> {
    let mut rng = Rng::new(seed);
    let text = options(&mut rng, drawn);
    let dir = crate::scratch();
    let paths = ["ours", "theirs"].map(|name| dir.path().join(name));
    let mut ours = own::Store::open(&text, &paths[0])?;
    let mut theirs = rocksdb::Store::open(peer, &text, &paths[1])?;
    let (mut snapshots, mut outcome) = (0, Outcome::default());
    for step in 0..OPERATIONS {
        let call = call(&mut rng, snapshots, drawn);
        match call {
            Call::Snapshot => snapshots += 1,
            Call::Release(_) => snapshots -= 1,
            _ => {}
        }
        let reopens = matches!(call, Call::Reopen);
        // A compaction that finds misuse returns no error there; the next write does.
        let call = if reopens { a_put() } else { call };
        let answer = ours.run(&call);
        let stops = drawn != Drawn::RangeDeletions && matches!(&answer, Answer::Error(_));
        outcome.entries +=
            same(step, &call, answer, theirs.run(&call)).map_err(|why| format!("{text}\n{why}"))?;
        if stops {
            outcome.stopped = Some(step);
            return Ok(outcome);
        }
        if reopens {
            snapshots = 0;
            (ours, theirs) = (ours.reopen(&paths[0])?, theirs.reopen(&paths[1])?);
        }
    }
    ours.close()?;
    drop(theirs);
    exchange(peer, &text, &paths).map_err(|why| format!("{text}\n{why}"))?;
    Ok(outcome)
}

fn a_put() -> Call {
    Call::Put(b"k20".to_vec(), Vec::new())
}

fn same(step: u64, call: &Call, ours: Answer, theirs: Answer) -> Result<u64, String> {
    if ours != theirs {
        return Err(format!("step {step}: {call:?}\nours   {ours:?}\ntheirs {theirs:?}"));
    }
    Ok(match ours {
        Answer::Entries(entries) => entries.len() as u64,
        _ => 0,
    })
}

/// Each engine opens what the other left, compacts it and shows the same.
fn exchange(
    peer: &Peer,
    text: &str,
    [ours, theirs]: &[std::path::PathBuf; 2],
) -> Result<(), String> {
    let all = Call::Walk(None, [None, None], b"k20".to_vec());
    let open = |path: &Path| rocksdb::Store::open(peer, text, path);
    let (mut it, mut its) = match (own::Store::open(text, theirs), open(ours)) {
        (Ok(it), Ok(its)) => (it, its),
        // A recovery that flushes finds misuse, too.
        (Err(it), Err(its)) if it == its && it.starts_with("Corruption") => return Ok(()),
        (it, its) => return Err(format!("open: ours {:?} theirs {:?}", it.err(), its.err())),
    };
    for call in [&all, &Call::Compact(None, None), &all] {
        same(OPERATIONS, call, it.run(call), its.run(call))?;
    }
    // The compaction may have found misuse.
    let put = a_put();
    same(OPERATIONS, &put, it.run(&put), its.run(&put))?;
    it.close().or_else(|text| if text.starts_with("Corruption") { Ok(()) } else { Err(text) })
}

fn run_seeds(count: u64, drawn: impl Fn(u64) -> Drawn, name: &str) -> Vec<Outcome> {
    let Some(peer) = peer() else { return Vec::new() };
    let wanted = std::env::var("PUMICE_DRAWN").ok();
    let count = wanted.map_or_else(|| seed::share(count), |text| text.parse().unwrap());
    let seeds = seed::wanted().map_or(0..count, |seed| seed..seed + 1);
    let hint = |seed| seed::replay_hint(name, seed);
    seeds
        .map(|seed| {
            run(&peer, seed, drawn(seed)).unwrap_or_else(|why| panic!("{why}\n{}", hint(seed)))
        })
        .collect()
}

#[pumice_test_macros::test]
fn range_deletions_answer_as_they_do_there() {
    let outcomes = run_seeds(16, |_| Drawn::RangeDeletions, "range_deletions_answer");
    let entries: u64 = outcomes.iter().map(|outcome| outcome.entries).sum();
    assert!(outcomes.is_empty() || entries > 100, "nothing was compared");
}

#[pumice_test_macros::test]
fn misused_single_deletions_stop_where_they_do_there() {
    let drawn = |seed: u64| Drawn::Misuse { deletes_one_in: [1, 4, 12, 40][seed as usize % 4] };
    let outcomes = run_seeds(40, drawn, "misused_single_deletions");
    let stopped: Vec<u64> = outcomes.iter().filter_map(|outcome| outcome.stopped).collect();
    eprintln!("{} of {} cases stopped, at steps {stopped:?}", stopped.len(), outcomes.len());
    assert!(outcomes.len() < 8 || !stopped.is_empty(), "no misuse was found");
}
