//! Statistics and perf context: both engines run the same calls, and count the same. Differences
//! are in docs/statistics.md, each name with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pumice::perf::{self, PerfLevel};
use pumice::stats::StatsLevel;
use pumice::{HistogramKind, Statistics, Ticker};
use pumice_peer::{Options as PeerOptions, Peer, PerfContext};
use pumice_testkit::store::{CursorSpec, Step, WriteMode};
use pumice_testkit::{Engine, Op};
use pumice_tests::stores::Settings;
use pumice_tests::stores::pumice::Pumice;
use pumice_tests::stores::rocksdb::RocksDb;

use crate::peer;

/// What docs/statistics.md says.
const DOCS: &str = include_str!("../../../docs/statistics.md");

const OPTIONS: &str = "create_if_missing=true;allow_fallocate=false;compression=kNoCompression;\
    disable_auto_compactions=true;level_compaction_dynamic_level_bytes=false;\
    merge_operator=stringappend;max_sequential_skip_in_iterations=8;num_levels=4";
const TABLE: &str = "filter_policy=bloomfilter:10:false;cache_index_and_filter_blocks=false";
const KEYS: u64 = 3000;

/// The settings of both engines: counters are on, and Pumice's counts are RocksDB's.
fn settings((text, table): (&str, &str)) -> Settings {
    let settings = Settings::of(text, table).counted();
    // As RocksDB 10.10.
    settings.with_own("min_tombstones_for_range_conversion", "0")
}

fn delete(db: &mut dyn Engine, n: u64) {
    db.write(&[Op::Delete { cf: 0, key: key(n) }]).unwrap();
}

fn merge(db: &mut dyn Engine, n: u64) {
    db.write(&[Op::Merge { cf: 0, key: key(n), operand: b"operand".into() }]).unwrap();
}

fn delete_range(db: &mut dyn Engine, begin: u64, end: u64) {
    db.write(&[Op::DeleteRange { cf: 0, begin: key(begin), end: key(end) }]).unwrap();
}

fn put(key: Vec<u8>, value: Vec<u8>) -> Op {
    Op::Put { cf: 0, key, value }
}

fn get(db: &mut dyn Engine, n: u64) -> bool {
    db.get(0, &key(n), None).unwrap().is_some()
}

/// How many of these keys there are.
fn multi_get(db: &mut dyn Engine, keys: impl Iterator<Item = u64>) -> usize {
    let keys: Vec<_> = keys.map(key).collect();
    db.multi_get(0, &keys, None).unwrap().iter().flatten().count()
}

fn key(i: u64) -> Vec<u8> {
    format!("key{i:07}").into_bytes()
}

fn value(i: u64) -> Vec<u8> {
    vec![b'a' + (i % 26) as u8; 80]
}

/// Writes of every sort, and point reads of each memtable answer.
fn write(db: &mut dyn Engine) {
    (0..KEYS).for_each(|i| db.put(&key(i), &value(i)).unwrap());
    let durable = WriteMode { sync: true, ..WriteMode::default() };
    db.write_as(&[put(key(1), value(2))], durable).unwrap();
    let many: Vec<_> = (0..50).map(|i| put(key(KEYS + i), value(i))).collect();
    db.write(&many).unwrap();
    (0..100).for_each(|i| delete(db, 10 * i));
    // Many versions of one key: an iterator seeks past them.
    (0..20).for_each(|i| db.put(&key(77), &value(i)).unwrap());
    (0..10).for_each(|i| merge(db, 5000 + i % 2));
    assert!(get(db, 1) && !get(db, 10) && !get(db, 9999));
    assert!(get(db, 5000));
}

fn read(db: &mut dyn Engine) {
    for i in (0..KEYS).step_by(7) {
        get(db, i);
    }
    (0..50).for_each(|i| assert!(!get(db, 7000 + i)));
    assert!(get(db, 5000));
    let found = multi_get(db, (0..40).map(|i| i * 13));
    assert!(found > 20 && found < 40, "{found}");
}

fn walk(db: &mut dyn Engine) {
    use Step::{First, Last, Seek, SeekForPrev};
    let next = |count| vec![Step::Next; count];
    let prev = |count| vec![Step::Prev; count];
    let walks = [
        [vec![First], next(500), vec![Seek(key(70))], next(20)].concat(),
        [vec![Last], prev(10), vec![SeekForPrev(key(75))], next(3)].concat(),
        [vec![Seek(key(9999)), Seek(key(4999))], next(1)].concat(),
        Vec::new(),
    ];
    for steps in walks {
        db.walk(&CursorSpec::default(), &steps).unwrap();
    }
}

/// The whole run: from memtables, from L0, from L1.
fn work(db: &mut dyn Engine) {
    write(db);
    read(db);
    walk(db);
    db.flush(0).unwrap();
    read(db);
    walk(db);
    (0..KEYS).step_by(3).for_each(|i| db.put(&key(i), &value(i + 1)).unwrap());
    delete_range(db, 100, 200);
    read(db);
    db.flush(0).unwrap();
    read(db);
    walk(db);
    compact(db);
    read(db);
    walk(db);
}

fn compact(db: &mut dyn Engine) {
    db.compact(0, None, None).unwrap();
    db.settle().unwrap();
}

/// Tickers by name, and the counts of histograms.
type Counters = BTreeMap<String, u64>;

fn ours(statistics: &Statistics) -> Counters {
    let tickers = Ticker::ALL.iter().map(|t| (t.name().to_owned(), statistics.ticker(*t)));
    let count = |kind: &HistogramKind| statistics.histogram(*kind).count();
    let histograms = HistogramKind::ALL.iter().map(|kind| (kind.name().to_owned(), count(kind)));
    tickers.chain(histograms).collect()
}

fn theirs(options: &PeerOptions) -> Counters {
    let text = options.statistics_text().unwrap();
    let counter = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let (_, count) = rest.split_once("COUNT : ")?;
        let count = count.split(' ').next()?.parse().ok()?;
        Some((name.to_owned(), count))
    };
    text.lines().filter_map(counter).collect()
}

/// The names in backquotes after the heading, up to the next one.
fn names_under(heading: &str) -> BTreeSet<&'static str> {
    let (_, rest) = DOCS.split_once(heading).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    section.split('`').skip(1).step_by(2).filter(|word| word.starts_with("rocksdb.")).collect()
}

/// What both engines counted in a run, by name; None where this engine has no such name.
type Pairs = BTreeMap<String, (Option<u64>, u64)>;

fn counted(peer: &Peer, texts: (&str, &str), work: fn(&mut dyn Engine)) -> Pairs {
    let dir = tempfile::tempdir().unwrap();
    // RocksDB's rules of when writes wait.
    let settings = settings(texts).with_own("background_policy", "static");
    let mut db = Pumice::open(&dir.path().join("ours"), &settings).unwrap();
    let statistics = Arc::clone(db.statistics());
    assert_eq!(statistics.level(), StatsLevel::ExceptDetailedTimers, "as RocksDB's default");
    work(&mut db);
    db.close().unwrap();

    let mut db = RocksDb::open(peer, &dir.path().join("theirs"), &settings).unwrap();
    work(&mut db);
    let options = db.options().clone();
    drop(db);

    let (ours, theirs) = (ours(&statistics), theirs(&options));
    theirs
        .into_iter()
        .map(|(name, their)| (name.clone(), (ours.get(&name).copied(), their)))
        .collect()
}

/// The settings of the second run: compactions when they are due, compressed tables, and their
/// indexes and filters in the cache.
const LIVED: &str = "create_if_missing=true;allow_fallocate=false;\
                     compression=kLZ4Compression;num_levels=5;\
    level0_file_num_compaction_trigger=3;merge_operator=stringappend;max_subcompactions=1";
const LIVED_TABLE: &str = "filter_policy=bloomfilter:10:false;cache_index_and_filter_blocks=true;\
    block_size=1024";

/// Rounds of writes, reads and flushes; compactions run when they are due.
fn live(db: &mut dyn Engine) {
    for round in 0..8 {
        for i in 0..1000 {
            let mode = WriteMode { disable_wal: i % 10 == 0, ..WriteMode::default() };
            let op = put(key((i * 7 + round * 131) % KEYS), value(i + round));
            db.write_as(&[op], mode).unwrap();
        }
        db.put(&key(9000 + round), &value(round)).unwrap();
        db.write(&[Op::SingleDelete { cf: 0, key: key(9000 + round) }]).unwrap();
        (0..20).for_each(|i| delete(db, i * 31 + round));
        (0..20).for_each(|i| merge(db, 6000 + i));
        delete_range(db, 40 * round, 40 * round + 10);
        read_some(db);
        db.flush(0).unwrap();
        db.settle().unwrap();
        read_some(db);
    }
    compact(db);
    read_some(db);
}

fn read_some(db: &mut dyn Engine) {
    for i in (0..KEYS).step_by(11) {
        get(db, i);
    }
    (0..20).for_each(|i| assert!(!get(db, 7000 + i)));
    assert!(multi_get(db, (0..30).map(|i| i * 41)) > 10);
    walk(db);
}

// Plain #[test]: RocksDB blocks its thread.
#[test]
fn both_engines_count_the_same() {
    let Some(peer) = peer() else { return };
    let runs = [counted(&peer, (OPTIONS, TABLE), work), counted(&peer, (LIVED, LIVED_TABLE), live)];
    let otherwise = names_under("## Counted otherwise than by RocksDB");
    let uncounted = names_under("## Listed, not counted");
    let unlisted = names_under("## Not listed");
    let mut wrong = Vec::new();
    for (name, (ours, their)) in runs.iter().flatten() {
        match (*ours, *their) {
            (Some(ours), their) if ours == their => {}
            (Some(_), _) if otherwise.contains(name.as_str()) => {}
            (Some(0), _) if uncounted.contains(name.as_str()) => {}
            (None, their) if their == 0 || unlisted.contains(name.as_str()) => {}
            (ours, their) => wrong.push(format!("{name}: ours {ours:?}, RocksDB's {their}")),
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));

    // The page says how many, and its lists have no name that could be removed.
    let in_some_run = |name: &str, holds: fn(&(Option<u64>, u64)) -> bool| {
        runs.iter().any(|run| run.get(name).is_some_and(holds))
    };
    let stale: Vec<_> = otherwise
        .iter()
        .filter(|name| !in_some_run(name, |(ours, their)| *ours != Some(*their)))
        .collect();
    assert!(stale.is_empty(), "equal in every run: {stale:?}");
    let both: Vec<&String> =
        runs[0].iter().filter(|(_, pair)| pair.0.is_some()).map(|p| p.0).collect();
    let free = |name: &str| !otherwise.contains(name) && !uncounted.contains(name);
    let equal: Vec<_> = both.iter().filter(|name| free(name)).collect();
    let moved = equal.iter().filter(|name| in_some_run(name, |(_, their)| *their > 0)).count();
    let counts = |names: &BTreeSet<&'static str>| {
        let counted = names.iter().filter(|name| in_some_run(name, |(_, their)| *their > 0));
        let counted: Vec<_> = counted.collect();
        println!("not counted here: {counted:?}");
        counted.len()
    };
    let line = format!(
        "Of {} names that both print, {} are equal in both runs ({moved} of them above 0), {} are \
         counted otherwise; of those that stay 0 here RocksDB counts {}, of those that are not \
         listed {}.",
        both.len(),
        equal.len(),
        otherwise.len(),
        counts(&uncounted),
        counts(&unlisted),
    );
    println!("{line}");
    let page = DOCS.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&line), "docs/statistics.md lacks: {line}");
}

/// Counts of the perf context that must be the same. Others depend on how tables are read (blocks,
/// caches), compare keys, or are listed under "Perf context" in the page as counted differently.
const SAME_IN_PERF_CONTEXTS: &[&str] = &[
    "get_read_bytes",
    "multiget_read_bytes",
    "iter_read_bytes",
    "internal_delete_skipped_count",
    "internal_recent_skipped_count",
    "internal_merge_count",
    "internal_merge_point_lookup_count",
    "bloom_memtable_hit_count",
    "bloom_memtable_miss_count",
    "iter_next_count",
    "iter_prev_count",
    "iter_seek_count",
];

/// Counts of a report.
fn parsed(report: &str) -> Counters {
    let pairs = report.split(", ").filter_map(|pair| pair.split_once(" = "));
    pairs.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
}

/// What point reads, walks from memtables and walks from tables count, engine by engine.
fn perf_work(db: &mut dyn Engine, reset: &dyn Fn(), report: &dyn Fn() -> String) -> Vec<Counters> {
    write(db);
    let mut all = Vec::new();
    let mut measure = |db: &mut dyn Engine, work: fn(&mut dyn Engine)| {
        reset();
        work(db);
        all.push(parsed(&report()));
    };
    measure(db, read);
    measure(db, walk);
    db.flush(0).unwrap();
    measure(db, read);
    measure(db, walk);
    measure(db, read_within);
    measure(db, read_beyond);
    all
}

/// Gets of keys between the first and the last of the table.
fn read_within(db: &mut dyn Engine) {
    for i in (0..=5000).step_by(7) {
        get(db, i);
    }
}

/// How many keys `read_beyond` reads.
const BEYOND: u64 = 500;

/// Gets of keys after the last of the table.
fn read_beyond(db: &mut dyn Engine) {
    (0..BEYOND).for_each(|i| assert!(!get(db, 7000 + i)));
}

/// For keys within a table's range filters get the same queries. RocksDB also queries them for keys
/// beyond it while there are few tables, as docs/statistics.md says.
fn check_filters(ours: &[Counters], theirs: &[Counters]) {
    let asked =
        |counters: &Counters| (counters["bloom_sst_hit_count"], counters["bloom_sst_miss_count"]);
    let (within, beyond) = (4, 5);
    assert_eq!(asked(&ours[within]), asked(&theirs[within]));
    assert!(asked(&ours[within]).0 > 300 && asked(&ours[within]).1 > 200);
    assert_eq!(asked(&ours[beyond]), (0, 0));
    let (hits, misses) = asked(&theirs[beyond]);
    assert_eq!(hits + misses, BEYOND);
}

// Plain #[test]: RocksDB blocks its thread, whose perf context it is.
#[test]
fn both_perf_contexts_count_the_same() {
    let Some(peer) = peer() else { return };
    let dir = tempfile::tempdir().unwrap();
    // Without statistics RocksDB's iterators count no bytes of steps.
    let settings = settings((OPTIONS, TABLE));
    let mut db = Pumice::open(&dir.path().join("ours"), &settings).unwrap();
    perf::set_level(PerfLevel::EnableCount);
    let ours = perf_work(&mut db, &perf::reset, &|| perf::context().report(false));
    perf::set_level(PerfLevel::Disable);
    db.close().unwrap();

    let mut db = RocksDb::open(&peer, &dir.path().join("theirs"), &settings).unwrap();
    let context = PerfContext::new(&peer);
    let theirs = perf_work(&mut db, &|| context.reset(), &|| context.report(false));
    let mut wrong = Vec::new();
    for (part, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        // What this RocksDB has no name for is newer.
        assert!(theirs.keys().all(|name| ours.contains_key(name)), "{theirs:?}");
        for &name in SAME_IN_PERF_CONTEXTS {
            let (ours, theirs) = (ours[name], theirs[name]);
            if ours != theirs {
                wrong.push(format!("part {part}, {name}: ours {ours}, RocksDB's {theirs}"));
            }
        }
    }
    let read = ["get_read_bytes", "iter_read_bytes", "internal_delete_skipped_count"];
    assert!(read.iter().all(|name| ours.iter().any(|part| part[*name] > 0)));
    check_filters(&ours, &theirs);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
