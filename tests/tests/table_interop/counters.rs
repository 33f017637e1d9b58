//! Statistics and perf context: both engines run the same calls, and count the same. Differences
//! are in docs/statistics.md, each name with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pumice::options::BackgroundPolicy;
use pumice::perf::{self, PerfLevel};
use pumice::stats::StatsLevel;
use pumice::{Db, HistogramKind, Statistics, Ticker};
use pumice_peer::{
    CompactRangeSettings, Db as PeerDb, Options as PeerOptions, Peer, PerfContext, ReadOptions,
    ReadSettings, WriteBatch as PeerBatch, WriteOptions, WriteSettings,
};

use crate::peer;

/// What docs/statistics.md says.
const DOCS: &str = include_str!("../../../docs/statistics.md");

const OPTIONS: &str = "create_if_missing=true;allow_fallocate=false;compression=kNoCompression;\
    disable_auto_compactions=true;level_compaction_dynamic_level_bytes=false;\
    merge_operator=stringappend;max_sequential_skip_in_iterations=8;num_levels=4";
const TABLE: &str = "filter_policy=bloomfilter:10:false;cache_index_and_filter_blocks=false";
const KEYS: u64 = 3000;

/// What the test does to a database of either engine. Values and answers are not compared here.
pub(crate) trait Engine {
    fn put(&self, key: &[u8], value: &[u8], sync: bool);
    fn put_logged_or_not(&self, key: &[u8], value: &[u8], unlogged: bool);
    fn single_delete(&self, key: &[u8]);
    fn delete(&self, key: &[u8]);
    fn merge(&self, key: &[u8], operand: &[u8]);
    fn delete_range(&self, begin: &[u8], end: &[u8]);
    fn put_many(&self, entries: &[(Vec<u8>, Vec<u8>)]);
    fn get(&self, key: &[u8]) -> bool;
    fn multi_get(&self, keys: &[Vec<u8>]) -> usize;
    fn flush(&self);
    fn compact(&self);
    /// Waits for flushes and compactions that are due.
    fn settle(&self);
    fn walk(&self, steps: &[Step]);
}

/// A move of an iterator.
pub(crate) enum Step {
    First,
    Last,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    Next(u64),
    Prev(u64),
}

pub(crate) struct Ours(pub Db);

impl Engine for Ours {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) {
        let options = pumice::WriteOptions { sync, ..Default::default() };
        self.0.put_opt(&options, key, value).unwrap();
    }
    fn put_logged_or_not(&self, key: &[u8], value: &[u8], unlogged: bool) {
        let options = pumice::WriteOptions { disable_wal: unlogged, ..Default::default() };
        self.0.put_opt(&options, key, value).unwrap();
    }
    fn single_delete(&self, key: &[u8]) {
        self.0.single_delete(key).unwrap();
    }
    fn delete(&self, key: &[u8]) {
        self.0.delete(key).unwrap();
    }
    fn merge(&self, key: &[u8], operand: &[u8]) {
        self.0.merge(key, operand).unwrap();
    }
    fn delete_range(&self, begin: &[u8], end: &[u8]) {
        self.0.delete_range(begin, end).unwrap();
    }
    fn put_many(&self, entries: &[(Vec<u8>, Vec<u8>)]) {
        let mut batch = pumice::WriteBatch::new();
        entries.iter().for_each(|(key, value)| batch.put(key, value));
        self.0.write(&mut batch).unwrap();
    }
    fn get(&self, key: &[u8]) -> bool {
        self.0.get(key).unwrap().is_some()
    }
    fn multi_get(&self, keys: &[Vec<u8>]) -> usize {
        self.0.multi_get(keys).into_iter().filter(|value| value.as_ref().unwrap().is_some()).count()
    }
    fn flush(&self) {
        self.0.flush().unwrap();
    }
    fn compact(&self) {
        self.0.compact_range(&Default::default(), None, None).unwrap();
    }
    fn settle(&self) {
        self.0.wait_for_compact(&Default::default()).unwrap();
    }
    fn walk(&self, steps: &[Step]) {
        let mut iter = self.0.cursor_opt(&Default::default()).unwrap();
        for step in steps {
            match step {
                Step::First => iter.seek_to_first(),
                Step::Last => iter.seek_to_last(),
                Step::Seek(key) => iter.seek(key),
                Step::SeekForPrev(key) => iter.seek_for_prev(key),
                Step::Next(count) => (0..*count).for_each(|_| iter.next()),
                Step::Prev(count) => (0..*count).for_each(|_| iter.prev()),
            }
        }
        iter.status().unwrap();
    }
}

pub(crate) struct Theirs {
    pub db: PeerDb,
    peer: Peer,
    read: ReadOptions,
    write: WriteOptions,
    sync: WriteOptions,
    unlogged: WriteOptions,
}

impl Theirs {
    pub fn open(peer: &Peer, options: &PeerOptions, path: &Path) -> Self {
        Theirs {
            db: PeerDb::open(options, path).unwrap(),
            peer: peer.clone(),
            read: ReadOptions::new(peer, &ReadSettings::default()),
            write: WriteOptions::new(peer, &WriteSettings::default()),
            sync: WriteOptions::new(peer, &WriteSettings { sync: true, ..Default::default() }),
            unlogged: WriteOptions::new(
                peer,
                &WriteSettings { disable_wal: true, ..Default::default() },
            ),
        }
    }
}

impl Engine for Theirs {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) {
        let options = if sync { &self.sync } else { &self.write };
        self.db.put(options, self.db.default_column_family(), key, value).unwrap();
    }
    fn put_logged_or_not(&self, key: &[u8], value: &[u8], unlogged: bool) {
        let options = if unlogged { &self.unlogged } else { &self.write };
        self.db.put(options, self.db.default_column_family(), key, value).unwrap();
    }
    fn single_delete(&self, key: &[u8]) {
        self.db.single_delete(&self.write, self.db.default_column_family(), key).unwrap();
    }
    fn delete(&self, key: &[u8]) {
        self.db.delete(&self.write, self.db.default_column_family(), key).unwrap();
    }
    fn merge(&self, key: &[u8], operand: &[u8]) {
        self.db.merge(&self.write, self.db.default_column_family(), key, operand).unwrap();
    }
    fn delete_range(&self, begin: &[u8], end: &[u8]) {
        self.db.delete_range(&self.write, self.db.default_column_family(), begin, end).unwrap();
    }
    fn put_many(&self, entries: &[(Vec<u8>, Vec<u8>)]) {
        let mut batch = PeerBatch::new(&self.peer);
        let cf = self.db.default_column_family();
        entries.iter().for_each(|(key, value)| batch.put(cf, key, value));
        self.db.write(&self.write, &batch).unwrap();
    }
    fn get(&self, key: &[u8]) -> bool {
        // Room enough, else the get is done twice.
        let mut value = Vec::with_capacity(1 << 12);
        self.db.get(&self.read, self.db.default_column_family(), key, &mut value).unwrap()
    }
    fn multi_get(&self, keys: &[Vec<u8>]) -> usize {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut found = 0;
        let cf = self.db.default_column_family();
        self.db.multi_get(&self.read, cf, &keys, |_, _| found += 1).unwrap();
        found
    }
    fn flush(&self) {
        self.db.flush(self.db.default_column_family()).unwrap();
    }
    fn compact(&self) {
        let settings = CompactRangeSettings::default();
        self.db.compact_range(self.db.default_column_family(), None, None, &settings);
        self.settle();
    }
    fn settle(&self) {
        self.db.wait_for_compact(false).unwrap();
    }
    fn walk(&self, steps: &[Step]) {
        let mut iter = self.db.iter(&self.read, self.db.default_column_family());
        for step in steps {
            match step {
                Step::First => iter.seek_to_first(),
                Step::Last => iter.seek_to_last(),
                Step::Seek(key) => iter.seek(key),
                Step::SeekForPrev(key) => iter.seek_for_prev(key),
                Step::Next(count) => (0..*count).for_each(|_| iter.next()),
                Step::Prev(count) => (0..*count).for_each(|_| iter.prev()),
            }
        }
        iter.status().unwrap();
    }
}

fn key(i: u64) -> Vec<u8> {
    format!("key{i:07}").into_bytes()
}

fn value(i: u64) -> Vec<u8> {
    vec![b'a' + (i % 26) as u8; 80]
}

/// Writes of every sort, and point reads of each memtable answer.
fn write(db: &dyn Engine) {
    (0..KEYS).for_each(|i| db.put(&key(i), &value(i), false));
    db.put(&key(1), &value(2), true);
    let many: Vec<_> = (0..50).map(|i| (key(KEYS + i), value(i))).collect();
    db.put_many(&many);
    (0..100).for_each(|i| db.delete(&key(10 * i)));
    // Many versions of one key: an iterator seeks past them.
    (0..20).for_each(|i| db.put(&key(77), &value(i), false));
    (0..10).for_each(|i| db.merge(&key(5000 + i % 2), b"operand"));
    assert!(db.get(&key(1)) && !db.get(&key(10)) && !db.get(&key(9999)));
    assert!(db.get(&key(5000)));
}

fn read(db: &dyn Engine) {
    for i in (0..KEYS).step_by(7) {
        db.get(&key(i));
    }
    (0..50).for_each(|i| assert!(!db.get(&key(7000 + i))));
    assert!(db.get(&key(5000)));
    let keys: Vec<_> = (0..40).map(|i| key(i * 13)).collect();
    let found = db.multi_get(&keys);
    assert!(found > 20 && found < 40, "{found}");
}

fn walk(db: &dyn Engine) {
    use Step::{First, Last, Next, Prev, Seek, SeekForPrev};
    db.walk(&[First, Next(500), Seek(key(70)), Next(20)]);
    db.walk(&[Last, Prev(10), SeekForPrev(key(75)), Next(3)]);
    db.walk(&[Seek(key(9999)), Seek(key(4999)), Next(1)]);
    db.walk(&[]);
}

/// The whole run: from memtables, from L0, from L1.
fn work(db: &dyn Engine) {
    write(db);
    read(db);
    walk(db);
    db.flush();
    read(db);
    walk(db);
    (0..KEYS).step_by(3).for_each(|i| db.put(&key(i), &value(i + 1), false));
    db.delete_range(&key(100), &key(200));
    read(db);
    db.flush();
    read(db);
    walk(db);
    db.compact();
    read(db);
    walk(db);
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

fn counted(peer: &Peer, (text, table): (&str, &str), work: fn(&dyn Engine)) -> Pairs {
    let dir = tempfile::tempdir().unwrap();
    let statistics = Arc::new(Statistics::new());
    assert_eq!(statistics.level(), StatsLevel::ExceptDetailedTimers, "as RocksDB's default");
    let mut options = pumice::Options::default();
    options.set_from_text(text).unwrap();
    options.cf.min_tombstones_for_range_conversion = 0; // As RocksDB 10.10.
    options.set("block_based_table_factory", &format!("{{{table}}}")).unwrap();
    options.db.statistics = Some(Arc::clone(&statistics));
    // RocksDB's rules of when writes wait.
    options.db.background_policy = BackgroundPolicy::Static;
    let db = Ours(Db::open(&options, dir.path().join("ours")).unwrap());
    work(&db);
    db.0.close().unwrap();
    drop(db);

    let mut options = PeerOptions::new(peer);
    options.set_many(text).unwrap();
    options.set_table(table).unwrap();
    options.enable_statistics();
    let db = Theirs::open(peer, &options, &dir.path().join("theirs"));
    work(&db);
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
fn live(db: &dyn Engine) {
    for round in 0..8 {
        for i in 0..1000 {
            db.put_logged_or_not(
                &key((i * 7 + round * 131) % KEYS),
                &value(i + round),
                i % 10 == 0,
            );
        }
        db.put(&key(9000 + round), &value(round), false);
        db.single_delete(&key(9000 + round));
        (0..20).for_each(|i| db.delete(&key(i * 31 + round)));
        (0..20).for_each(|i| db.merge(&key(6000 + i), b"operand"));
        db.delete_range(&key(40 * round), &key(40 * round + 10));
        read_some(db);
        db.flush();
        db.settle();
        read_some(db);
    }
    db.compact();
    read_some(db);
}

fn read_some(db: &dyn Engine) {
    for i in (0..KEYS).step_by(11) {
        db.get(&key(i));
    }
    (0..20).for_each(|i| assert!(!db.get(&key(7000 + i))));
    assert!(db.multi_get(&(0..30).map(|i| key(i * 41)).collect::<Vec<_>>()) > 10);
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
fn perf_work(db: &dyn Engine, reset: &dyn Fn(), report: &dyn Fn() -> String) -> Vec<Counters> {
    write(db);
    let mut all = Vec::new();
    let mut measure = |work: &dyn Fn()| {
        reset();
        work();
        all.push(parsed(&report()));
    };
    measure(&|| read(db));
    measure(&|| walk(db));
    db.flush();
    measure(&|| read(db));
    measure(&|| walk(db));
    measure(&|| read_within(db));
    measure(&|| read_beyond(db));
    all
}

/// Gets of keys between the first and the last of the table.
fn read_within(db: &dyn Engine) {
    for i in (0..=5000).step_by(7) {
        db.get(&key(i));
    }
}

/// How many keys `read_beyond` reads.
const BEYOND: u64 = 500;

/// Gets of keys after the last of the table.
fn read_beyond(db: &dyn Engine) {
    (0..BEYOND).for_each(|i| assert!(!db.get(&key(7000 + i))));
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
    let mut options = pumice::Options::default();
    options.set_from_text(OPTIONS).unwrap();
    options.cf.min_tombstones_for_range_conversion = 0; // As RocksDB 10.10.
    options.set("block_based_table_factory", &format!("{{{TABLE}}}")).unwrap();
    let db = Ours(Db::open(&options, dir.path().join("ours")).unwrap());
    perf::set_level(PerfLevel::EnableCount);
    let ours = perf_work(&db, &perf::reset, &|| perf::context().report(false));
    perf::set_level(PerfLevel::Disable);
    db.0.close().unwrap();

    let mut options = PeerOptions::new(&peer);
    options.set_many(OPTIONS).unwrap();
    options.set_table(TABLE).unwrap();
    // Without statistics RocksDB's iterators count no bytes of steps.
    options.enable_statistics();
    let db = Theirs::open(&peer, &options, &dir.path().join("theirs"));
    let context = PerfContext::new(&peer);
    let theirs = perf_work(&db, &|| context.reset(), &|| context.report(false));
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
