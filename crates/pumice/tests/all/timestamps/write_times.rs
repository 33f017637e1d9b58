//! When entries were written (`preserve_internal_time_seconds`): what tables and cursors say of it,
//! alone and with RocksDB's 11.8.1.
//!
//! Plain #[test]: a simulation is a runtime of its own. Its clock is virtual, so that days cost
//! nothing and every moment is exact. RocksDB has the real clock and its own threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::timed;
use crate::common::virtual_time::{DAY, pass, simulate};
use crate::common::{DIR, Scratch, flush, memory, options};
use pumice::options::{CompactionStyle, FileRules, load_latest_options};
use pumice::stats::listener::CompactionJobInfo;
use pumice::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions,
    Db, EventListener, FileSystem, Options, PosixFs, ReadOptions, SstFileReader,
};
use pumice_base::random::Rng;
use pumice_peer::{CompactRangeSettings, Peer, WriteSettings};
use pumice_port::sync::Mutex;
use pumice_port::time::wall_seconds;
use pumice_table::SeqnoToTimeMapping;

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
        for _ in 0..2 {
            let db = Db::open(&options, DIR).unwrap();
            assert_eq!(db.latest_sequence_number(), 100, "as in RocksDB");
            db.close().unwrap();
        }
        pass(1);
        let db = Db::open(&options, DIR).unwrap();
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

/// Nothing but a family that asks for them starts the samples.
#[test]
fn a_family_that_is_created_later_has_times() {
    simulate(0..2, |_| {
        let (_, fs) = memory();
        let db = Db::open(&keeping(&fs, 0), DIR).unwrap();
        pass(100);
        let family = db.create_column_family(&keeping(&fs, 1000).cf, "later").unwrap();
        for key in ["a", "b", "c"] {
            pass(200);
            db.put_cf(&family, key, "1").unwrap();
        }
        let now = wall_seconds();
        let mut cursor = db.cursor_cf_opt(&ReadOptions::default(), &family).unwrap();
        cursor.seek("c");
        let said = cursor.write_time().unwrap().unwrap();
        assert!((now - 200..=now).contains(&said), "{said}, and it is {now}");
        drop(cursor);
        drop(family);
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

#[test]
fn entities_and_blobs_have_times() {
    simulate(0..2, |_| {
        let (_, fs) = memory();
        let mut options = keeping(&fs, 1000);
        (options.cf.enable_blob_files, options.cf.min_blob_size) = (true, 20);
        let db = Db::open(&options, DIR).unwrap();
        let begin = wall_seconds();
        db.put_entity("entity", [("n", "1"), ("", "d")]).unwrap();
        pass(100); // Nothing else is written.
        db.put("blob", "b".repeat(100)).unwrap();
        let steps: [fn(&Db); 3] = [|_| {}, flush, rewrite];
        for step in steps {
            step(&db);
            assert_written(&db, "entity", begin..=begin);
            assert_written(&db, "blob", begin..=begin + 10);
        }
        db.close().unwrap();
    });
}

/// A batch with RocksDB's TimedPut of one key.
fn timed_put(key: &str, value: &str, time: u64) -> Vec<u8> {
    let value = [value.as_bytes(), &time.to_le_bytes()].concat();
    let len = |bytes: usize| u8::try_from(bytes).unwrap();
    let head = [&[0; 8][..], &1u32.to_le_bytes(), &[0x18, len(key.len())]].concat();
    [&head, key.as_bytes(), &[len(value.len())], &value].concat()
}

/// RocksDB would take a time in a table for a sequence number, and never show the value again.
#[test]
fn a_timed_put_of_rocksdbs_log_survives_its_compactions() {
    let Some(peer) = peer() else { return };
    let (dir, fs) = (Scratch::new("timed-put"), Arc::new(PosixFs) as Arc<dyn FileSystem>);
    let mut own = pumice_peer::Options::new(&peer);
    own.set("create_if_missing", "true").unwrap();
    let wo = pumice_peer::WriteOptions::new(&peer, &WriteSettings::default());
    let db = pumice_peer::Db::open(&own, &dir.0).unwrap();
    let data = timed_put("k", "value", 1_700_000_000);
    db.write(&wo, &pumice_peer::WriteBatch::from_data(&peer, &data)).unwrap();
    drop(db);
    let mut options = keeping(&fs, 0);
    options.db.avoid_flush_during_recovery = true;
    let db = Db::open(&options, &dir.0).unwrap();
    assert_eq!(write_times(&db)["k"], Some(1_700_000_000), "it says so itself");
    flush(&db);
    assert_eq!(&*db.get("k").unwrap().unwrap(), b"value");
    db.close().unwrap();
    // Without it the value would lose its sequence number, whatever that is.
    own.set("preserve_internal_time_seconds", "1000").unwrap();
    let db = pumice_peer::Db::open(&own, &dir.0).unwrap();
    compact_theirs(&db);
    let ro = pumice_peer::ReadOptions::new(&peer, &Default::default());
    let mut value = Vec::new();
    assert!(db.get(&ro, db.default_column_family(), b"k", &mut value).unwrap());
    assert_eq!(value, b"value");
}

/// Each version of a key with timestamps has its own, as long as its sequence number is kept.
#[test]
fn keys_with_timestamps_have_times() {
    simulate(0..2, |_| {
        let (_, fs) = memory();
        let mut options = timed(&fs);
        options.cf.preserve_internal_time_seconds = 1000;
        let db = Db::open(&options, DIR).unwrap();
        let said = |time: u64| {
            let timestamp = Some(time.to_le_bytes().to_vec());
            let read = ReadOptions { timestamp, ..ReadOptions::default() };
            let mut cursor = db.cursor_opt(&read).unwrap();
            cursor.seek("a");
            cursor.write_time().unwrap()
        };
        let begin = wall_seconds();
        db.at(1).put("a", "1").unwrap();
        pass(100); // Nothing else is written.
        db.at(2).put("a", "2").unwrap();
        let of_second = begin + 1..=begin + 10;
        for flushed in [false, true] {
            if flushed {
                flush(&db);
            }
            assert_eq!((said(0), said(1)), (None, Some(begin)));
            assert!(of_second.contains(&said(2).unwrap()), "{:?}", said(2));
        }
        // History ends; what is left of it is young.
        db.increase_full_history_ts_low(db.default_column_family(), 9u64).unwrap();
        rewrite(&db);
        assert!(of_second.contains(&said(9).unwrap()), "{:?}", said(9));
        pass(2000);
        db.at(10).put("b", "1").unwrap();
        flush(&db);
        rewrite(&db);
        assert_eq!(said(10), Some(0), "it is old");
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
    /// When the last write was that a sample before it knows. What is written between the same two
    /// samples is told apart from nothing.
    after: u64,
    /// The longest time between samples since.
    period: u64,
    /// The shortest time that was kept since.
    kept: u64,
    /// It may have been recovered from a log: such tables have no times, as in RocksDB. Or it was
    /// written in the second of an open, before which there may be no sample.
    unsure: bool,
}

impl Written {
    fn check(&self, key: &str, said: Option<u64>) {
        let Written { at, after, period, kept, unsure } = *self;
        let Some(said) = said else { return assert!(unsure, "{key} is unknown") };
        assert!(said <= at, "{key} at {said}, and not {at}");
        if unsure {
            return;
        }
        let now = wall_seconds();
        match said {
            0 => assert!(now - at >= kept, "{key} of {at} is forgotten at {now}, kept {kept}"),
            _ => assert!(said + 4 * period + 1 >= after, "{key} of {at} at {said}, not {after}"),
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
        let mut opened = wall_seconds();
        let (mut snapshot, mut writes) = (None, vec![opened]);
        for _ in 0..150 {
            let key = format!("{:02}", rng.uniform(40));
            match rng.uniform(12) {
                0..5 => {
                    db.put(&key, "value").unwrap();
                    let now = wall_seconds();
                    let period = kept.div_ceil(100);
                    let sampled = writes.iter().rev().find(|at| **at + period + 1 < now);
                    let after = sampled.copied().unwrap_or(0);
                    model.insert(
                        key,
                        Written { at: now, after, period, kept, unsure: now == opened },
                    );
                    writes.push(now);
                }
                5 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                    writes.push(wall_seconds());
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
                        false => model.values_mut().for_each(|written| written.unsure = true),
                    }
                    db.close().unwrap();
                    options.cf.preserve_internal_time_seconds = kept;
                    db = Db::open(&options, DIR).unwrap();
                    opened = wall_seconds();
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

/// What the samples say of those keys.
fn said_by(known: &SeqnoToTimeMapping) -> BTreeMap<String, Option<u64>> {
    let keys = (0..15).map(|n| (format!("t{}-{}", n / 5, n % 5), Some(known.time_before(101 + n))));
    keys.collect()
}

fn compact_theirs(db: &pumice_peer::Db) {
    let force = CompactRangeSettings { bottommost_level: 2, ..CompactRangeSettings::default() };
    db.compact_range(db.default_column_family(), None, None, &force);
}

/// What our readers find in RocksDB's OPTIONS file.
fn assert_read(dir: &Path) {
    let loaded = load_latest_options(&PosixFs, dir, FileRules::default()).unwrap().unwrap();
    let families = loaded.column_families.iter();
    let kept = families.map(|cf| (&*cf.name, cf.options.preserve_internal_time_seconds));
    assert_eq!(kept.collect::<Vec<_>>(), FAMILIES);
}

/// RocksDB's database with the options of our OPTIONS file.
fn theirs_as_ours(peer: &Peer, path: &Path) -> pumice_peer::Db {
    let (options, families) = pumice_peer::Options::latest(peer, path).unwrap();
    let families: Vec<_> = families.iter().map(|(name, own)| (&**name, own)).collect();
    pumice_peer::Db::open_cf(&options, path, &families, false).unwrap().0
}

/// Tables of either engine keep their times in the other's compactions, and so do OPTIONS files.
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
    assert_read(&dir.0);
    let db = ours();
    let all = |db: &Db| SeqnoToTimeMapping::merged(samples(db, &fs, &dir.0).iter());
    let known = all(&db);
    let first = write_times(&db);
    assert_eq!(first.len(), 15);
    for (key, said) in &first {
        let said = said.unwrap();
        // The last of the samples for the time before the database was 1011 seconds old.
        assert!((begin - 1011..=wall_seconds()).contains(&said), "{key} {said} {begin}");
    }
    // Ours compacts what is theirs, and they compact it again with what is ours.
    rewrite(&db);
    assert_eq!(all(&db), known);
    assert_eq!(write_times(&db), said_by(&known));
    db.put("o", "value").unwrap();
    flush(&db);
    assert!((begin..=wall_seconds()).contains(&write_times(&db)["o"].unwrap()));
    let known = all(&db);
    db.close().unwrap();
    let db = theirs_as_ours(&peer, &dir.0);
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
    let mut said = said_by(&known);
    said.insert("o".to_string(), Some(known.time_before(116)));
    assert_eq!(write_times(&db), said);
    assert_eq!(db.live_files_metadata()[0].smallest_seq, 101);
    db.close().unwrap();
}
