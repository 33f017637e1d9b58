//! When entries were written (`preserve_internal_time_seconds`): what tables and cursors say of it,
//! alone and with RocksDB's 11.8.1.
//!
//! Plain #[test]: a simulation is a runtime of its own. Its clock is virtual, so that days cost
//! nothing and every moment is exact. RocksDB has the real clock and its own threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, Scratch, flush, memory, options};
use pumice::options::CompactionStyle;
use pumice::stats::listener::CompactionJobInfo;
use pumice::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions,
    Db, EventListener, FileSystem, Options, PosixFs, SstFileReader,
};
use pumice_base::random::Rng;
use pumice_peer::{CompactRangeSettings, Peer, WriteSettings};
use pumice_port::sim;
use pumice_port::sync::Mutex;
use pumice_port::thread::sleep;
use pumice_port::time::wall_seconds;
use pumice_table::SeqnoToTimeMapping;

const DAY: u64 = 24 * 3600;

fn simulate(seeds: std::ops::Range<u64>, test: impl Fn(u64) + Send + Sync + Clone + 'static) {
    for seed in seeds {
        println!("seed {seed}");
        let options = sim::Options {
            max_virtual_nanos: 200 * DAY * 1_000_000_000,
            ..sim::Options::new(seed)
        };
        let test = test.clone();
        let (report, outcome) = sim::run(&options, move || test(seed));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds));
}

/// Keeps times for as many seconds.
fn keeping(fs: &Arc<dyn FileSystem>, seconds: u64) -> Options {
    let mut options = options(fs);
    options.cf.preserve_internal_time_seconds = seconds;
    options.cf.set_merge_operator_associative("joined", |_, old, operands| {
        let all: Vec<&[u8]> = old.into_iter().chain(operands.iter().copied()).collect();
        Some(all.join(&b","[..]))
    });
    options
}

/// Rewrites everything.
fn rewrite(db: &Db) {
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&force, None, None).unwrap();
}

/// What a cursor says of each key, in both directions.
fn write_times(db: &Db) -> BTreeMap<String, Option<u64>> {
    let mut cursor = db.cursor().unwrap();
    assert_eq!(cursor.write_time().unwrap(), None, "it is nowhere");
    let (mut forward, mut backward) = (BTreeMap::new(), BTreeMap::new());
    let text = |key: Option<&[u8]>| String::from_utf8(key.unwrap().to_vec()).unwrap();
    cursor.seek_to_first();
    while cursor.valid() {
        forward.insert(text(cursor.key()), cursor.write_time().unwrap());
        cursor.next();
    }
    cursor.seek_to_last();
    while cursor.valid() {
        backward.insert(text(cursor.key()), cursor.write_time().unwrap());
        cursor.prev();
    }
    cursor.status().unwrap();
    assert_eq!(forward, backward);
    forward
}

/// The time lies between that of the write before it and its own.
#[track_caller]
fn assert_written(db: &Db, key: &str, within: std::ops::RangeInclusive<u64>) {
    let said = write_times(db)[key].unwrap_or_else(|| panic!("nothing is known of {key}"));
    assert!(within.contains(&said), "{key}: {said}, and not {within:?}");
}

/// The samples in the tables.
fn samples(db: &Db, fs: &Arc<dyn FileSystem>, dir: &Path) -> Vec<SeqnoToTimeMapping> {
    let mut own = Options::default();
    own.db.file_system = Arc::clone(fs);
    let read = |name: String| {
        let mut reader = SstFileReader::new(&own).unwrap();
        reader.open(dir.join(name.trim_start_matches('/'))).unwrap();
        let stored = &reader.table_properties().unwrap().seqno_time_map;
        let times = SeqnoToTimeMapping::decode(stored).unwrap();
        assert_eq!(times.encode(), *stored);
        times
    };
    db.live_files_metadata().into_iter().map(|file| read(file.name)).collect()
}

#[test]
fn tables_know_when_young_entries_were_written() {
    simulate(0..3, |_| {
        let (_, fs) = memory();
        let options = keeping(&fs, 1000); // A sample every ten seconds.
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(db.latest_sequence_number(), 100, "as in RocksDB");
        let begin = wall_seconds();
        db.put("a", "1").unwrap();
        assert_written(&db, "a", begin..=begin);
        pass(480);
        db.put("b", "1").unwrap();
        assert_written(&db, "b", begin..=begin + 10);
        pass(25); // Nothing else is written, and a sample is taken.
        db.put("c", "1").unwrap();
        let [of_b, of_c] = [begin..=begin + 10, begin + 480..=begin + 490];
        assert_written(&db, "c", of_c.clone());
        flush(&db);
        rewrite(&db);
        assert_written(&db, "a", begin..=begin);
        assert_written(&db, "b", of_b.clone());
        assert_written(&db, "c", of_c.clone());
        pass(695);
        db.put("d", "1").unwrap();
        flush(&db);
        rewrite(&db);
        assert_eq!(write_times(&db)["a"], Some(0), "twenty minutes old");
        assert_written(&db, "b", of_b);
        assert_written(&db, "c", of_c.clone());
        assert_written(&db, "d", begin + 505..=begin + 515);
        db.close().unwrap();
        let db = Db::open(&options, DIR).unwrap();
        assert_written(&db, "c", of_c);
        assert!(samples(&db, &fs, Path::new(DIR)).iter().all(|times| !times.is_empty()));
        // Without the option nothing is kept.
        db.set_options(&[("preserve_internal_time_seconds", "0")]).unwrap();
        db.put("e", "1").unwrap();
        assert_eq!(write_times(&db)["e"], None);
        rewrite(&db);
        let zeroed = ["a", "b", "c", "d", "e"].map(|key| (key.to_string(), Some(0)));
        assert_eq!(write_times(&db), BTreeMap::from(zeroed));
        assert!(samples(&db, &fs, Path::new(DIR)).iter().all(SeqnoToTimeMapping::is_empty));
        // And with it again, from then on.
        db.set_options(&[("preserve_internal_time_seconds", "100")]).unwrap();
        let now = wall_seconds();
        pass(3);
        db.put("f", "1").unwrap();
        assert_written(&db, "f", now..=now);
        db.close().unwrap();
    });
}

/// Of a merged value it is the time of what the value begins with.
#[test]
fn a_value_of_many_records_is_as_old_as_the_first() {
    simulate(0..2, |_| {
        let (_, fs) = memory();
        let db = Db::open(&keeping(&fs, 1000), DIR).unwrap();
        let begin = wall_seconds();
        for key in ["based", "cut", "covered"] {
            db.put(key, "0").unwrap();
        }
        db.merge("unbased", "0").unwrap();
        flush(&db);
        pass(100);
        db.delete("cut").unwrap();
        db.delete_range("covered", "covered2").unwrap();
        flush(&db);
        pass(100);
        for key in ["based", "unbased", "cut", "covered"] {
            db.merge(key, "1").unwrap();
        }
        for flushed in [false, true] {
            if flushed {
                flush(&db);
            }
            assert_written(&db, "based", begin..=begin);
            assert_written(&db, "unbased", begin..=begin);
            assert_written(&db, "cut", begin + 100..=begin + 110);
            assert_written(&db, "covered", begin + 100..=begin + 110);
        }
        // Merged by a compaction, the value has the number of its newest record.
        rewrite(&db);
        assert_written(&db, "based", begin + 100..=begin + 110);
        db.close().unwrap();
    });
}

#[derive(Default)]
struct Count(Mutex<u64>);

impl EventListener for Count {
    fn on_compaction_completed(&self, _: &CompactionJobInfo) {
        *self.0.lock() += 1;
    }
}

/// A snapshot that goes leaves files to clean. Rewriting what is young cleans nothing but
/// tombstones: it is not done again and again.
#[test]
fn young_files_are_not_rewritten_for_ever() {
    simulate(0..3, |_| {
        let (_, fs) = memory();
        let count = Arc::new(Count::default());
        let mut options = keeping(&fs, 10 * DAY);
        options.db.listeners = vec![Arc::clone(&count) as Arc<dyn EventListener>];
        let db = Db::open(&options, DIR).unwrap();
        for round in 0..2 {
            db.put("kept", format!("{round}")).unwrap();
            db.put(format!("deleted{round}"), "1").unwrap();
            let snapshot = db.snapshot();
            db.put("kept", format!("{round}+")).unwrap();
            db.delete(format!("deleted{round}")).unwrap();
            flush(&db);
            rewrite(&db);
            let before = *count.0.lock();
            drop(snapshot);
            pass(DAY);
            let more = *count.0.lock() - before;
            assert!(more <= 2, "{more} compactions in a day");
        }
        let entries: u64 = db.live_files_metadata().iter().map(|file| file.num_entries).sum();
        assert_eq!(entries, 1, "the tombstones and what they hid are gone");
        db.close().unwrap();
    });
}

/// What a model knows of a key.
struct Written {
    at: u64,
    /// When the write before it was.
    after: u64,
    /// The longest time between samples since.
    period: u64,
    /// The shortest time that was kept since.
    kept: u64,
    /// It may have been recovered from a log: such tables have no times, as in RocksDB.
    logged: bool,
}

impl Written {
    fn check(&self, key: &str, said: Option<u64>) {
        let Written { at, after, period, kept, logged } = *self;
        let Some(said) = said else { return assert!(logged, "{key} is unknown") };
        assert!(said <= at, "{key} at {said}, and not {at}");
        if logged {
            return;
        }
        match said {
            0 => assert!(wall_seconds() - at > kept, "{key} of {at} is forgotten"),
            _ => assert!(said + 4 * period + 1 >= after, "{key} at {said}, and not {after}"),
        }
    }
}

/// Writes, flushes, compactions, opens and changes of the option, drawn, against the moments at
/// which keys were written.
#[test]
fn drawn_writes_are_never_said_to_be_younger_than_they_are() {
    simulate(0..12, |seed| {
        let mut rng = Rng::new(seed);
        let (_, fs) = memory();
        let mut kept = 200 + rng.uniform(5000);
        let mut options = keeping(&fs, kept);
        options.cf.level0_file_num_compaction_trigger = 3;
        if rng.one_in(3) {
            options.cf.compaction_style = CompactionStyle::Universal;
        }
        let mut db = Db::open(&options, DIR).unwrap();
        let mut model: BTreeMap<String, Written> = BTreeMap::new();
        let (mut snapshot, mut last) = (None, wall_seconds());
        for _ in 0..150 {
            let key = format!("{:02}", rng.uniform(40));
            match rng.uniform(12) {
                0..5 => {
                    db.put(&key, "value").unwrap();
                    let now = wall_seconds();
                    let period = kept.div_ceil(100);
                    model
                        .insert(key, Written { at: now, after: last, period, kept, logged: false });
                    last = now;
                }
                5 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                    last = wall_seconds();
                }
                6 => flush(&db),
                7 => rewrite(&db),
                8 => {
                    let is_held = snapshot.is_some();
                    snapshot = (!is_held).then(|| db.snapshot());
                }
                9 if rng.one_in(3) => {
                    kept = kept / 2 + rng.uniform(kept);
                    let value = kept.to_string();
                    db.set_options(&[("preserve_internal_time_seconds", &value)]).unwrap();
                    for written in model.values_mut() {
                        written.period = written.period.max(kept.div_ceil(100));
                        written.kept = written.kept.min(kept);
                    }
                }
                10 if rng.one_in(4) => {
                    snapshot = None;
                    match rng.one_in(2) {
                        true => flush(&db),
                        false => model.values_mut().for_each(|written| written.logged = true),
                    }
                    db.close().unwrap();
                    options.cf.preserve_internal_time_seconds = kept;
                    db = Db::open(&options, DIR).unwrap();
                }
                _ => pass(rng.uniform(kept / 8)),
            }
            let said = write_times(&db);
            assert!(said.keys().eq(model.keys()), "{said:?}");
            model.iter().for_each(|(key, written)| written.check(key, said[key]));
        }
        drop(snapshot);
        db.close().unwrap();
    });
}

/// Samples are taken for the family that keeps times for the shortest time: every second.
const FAMILIES: [(&str, u64); 2] = [("default", 100_000), ("often", 100)];

fn peer() -> Option<Peer> {
    pumice_peer::installed_11_8().map(|library| Peer::load(library).unwrap())
}

fn theirs(peer: &Peer, path: &Path) -> pumice_peer::Db {
    let [default, often] = FAMILIES.map(|(_, seconds)| {
        let mut options = pumice_peer::Options::new(peer);
        let create = "create_if_missing=true;create_missing_column_families=true";
        let text = format!("{create};preserve_internal_time_seconds={seconds}");
        options.set_many(&text).unwrap();
        options
    });
    let families = [("default", &default), ("often", &often)];
    pumice_peer::Db::open_cf(&default, path, &families, false).unwrap().0
}

/// Writes some keys, one table, in RocksDB.
fn fill_theirs(db: &pumice_peer::Db, round: u64) {
    let wo = pumice_peer::WriteOptions::new(db.peer(), &WriteSettings::default());
    for n in 0..5 {
        let key = format!("t{round}-{n}");
        db.put(&wo, db.default_column_family(), key.as_bytes(), b"value").unwrap();
    }
    db.flush(db.default_column_family()).unwrap();
}

fn compact_theirs(db: &pumice_peer::Db) {
    let force = CompactRangeSettings { bottommost_level: 2, ..CompactRangeSettings::default() };
    db.compact_range(db.default_column_family(), None, None, &force);
}

/// Tables of either engine keep their times in the other's compactions.
#[test]
fn both_engines_read_and_keep_the_times_of_the_other() {
    let Some(peer) = peer() else { return };
    let (dir, fs) = (Scratch::new("write-times"), Arc::new(PosixFs) as Arc<dyn FileSystem>);
    let ours = || {
        let mut options = keeping(&fs, 0);
        options.cf.disable_auto_compactions = true;
        let families = FAMILIES.map(|(name, seconds)| {
            let preserve_internal_time_seconds = seconds;
            let own = ColumnFamilyOptions { preserve_internal_time_seconds, ..options.cf.clone() };
            ColumnFamilyDescriptor::new(name, own)
        });
        Db::open_cf(&options.db, &dir.0, &families).unwrap().0
    };
    let begin = wall_seconds();
    let db = theirs(&peer, &dir.0);
    assert_eq!(db.latest_sequence_number(), 100);
    for round in 0..3 {
        fill_theirs(&db, round);
        pass(1);
    }
    drop(db);
    let db = ours();
    let all = |db: &Db| SeqnoToTimeMapping::merged(samples(db, &fs, &dir.0).iter());
    let known = all(&db);
    let first = write_times(&db);
    assert_eq!(first.len(), 15);
    for (key, said) in &first {
        let said = said.unwrap();
        assert!((begin..=wall_seconds()).contains(&said), "{key} {said} {begin}");
    }
    let said = |round: u64| first[&format!("t{round}-0")].unwrap();
    assert!(said(0) <= said(1) && said(1) <= said(2), "{first:?}");
    // Ours compacts what is theirs, and they compact it again with what is ours.
    rewrite(&db);
    assert_eq!(write_times(&db), first);
    assert_eq!(all(&db), known);
    db.put("o", "value").unwrap();
    flush(&db);
    let second = write_times(&db);
    assert!((begin..=wall_seconds()).contains(&second["o"].unwrap()));
    let known = all(&db);
    db.close().unwrap();
    let db = theirs(&peer, &dir.0);
    compact_theirs(&db);
    let ro = pumice_peer::ReadOptions::new(&peer, &Default::default());
    let mut cursor = db.iter(&ro, db.default_column_family());
    cursor.seek_to_first();
    let mut count = 0;
    while cursor.valid() {
        count += 1;
        cursor.next();
    }
    assert_eq!(count, 16);
    drop(cursor);
    drop(db);
    let db = ours();
    assert_eq!(db.live_files_metadata().len(), 1);
    assert_eq!(all(&db), known);
    assert_eq!(write_times(&db), second);
    assert_eq!(db.live_files_metadata()[0].smallest_seq, 101);
    db.close().unwrap();
}
