//! Snapshots and compaction filters: what a snapshot has shown it shows until it is released, also
//! if it was taken while a filter was at work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions, CompactionFilter, Db, DbWithTtl,
    FilterDecision, Options, ReadOptions, Snapshot,
};
use pumice_base::random::Rng;
use pumice_port::sync::Event;
use pumice_port::{sim, thread};
use pumice_testkit::seed;

use crate::common::{DIR, key, memory, options};

/// Removes every value, and waits at the first one.
#[derive(Default)]
struct Gate {
    reached: Event,
    open: Event,
}

impl CompactionFilter for Gate {
    fn name(&self) -> &str {
        "gate"
    }
    fn filter(&self, _: i32, _: &[u8], _: &[u8]) -> FilterDecision {
        self.reached.set();
        self.open.wait();
        FilterDecision::Remove
    }
}

fn at(snapshot: &Snapshot) -> ReadOptions {
    ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() }
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn seen(db: &Db, cf: &ColumnFamily, snapshot: &Snapshot) -> Contents {
    db.iter_cf_opt(&at(snapshot), cf).unwrap().map(|entry| entry.unwrap()).collect()
}

#[pumice_test_macros::test]
fn a_snapshot_taken_while_a_filter_runs_keeps_what_it_saw() {
    let (_, fs) = memory();
    let gate = Arc::new(Gate::default());
    let mut options = options(&fs);
    options.db.create_missing_column_families = true;
    options.cf.compaction_filter = Some(Arc::clone(&gate) as Arc<dyn CompactionFilter>);
    let plain = Options::default().cf;
    let families = [("default", options.cf.clone()), ("plain", plain)]
        .map(|(name, options)| ColumnFamilyDescriptor::new(name, options));
    let (db, cfs) = Db::open_cf(&options.db, DIR, &families).unwrap();
    for cf in &cfs {
        (0..9).for_each(|n| db.put_cf(cf, key(n), "value").unwrap());
        db.flush_cf(cf).unwrap();
    }
    let compact = || db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    thread::scope(|scope| {
        let job = scope.spawn(compact);
        gate.reached.wait();
        let snapshot = db.snapshot();
        let clone = snapshot.clone();
        db.put(key(3), "newer").unwrap();
        db.put_cf(&cfs[1], key(3), "newer").unwrap();
        let read = |when: &str| {
            for n in 0..9 {
                let found = db.get_opt(&at(&clone), key(n)).unwrap();
                assert_eq!(found.as_deref(), Some(&b"value"[..]), "{n} {when}");
            }
            let wanted: Vec<_> = cfs.iter().map(|cf| (cf, key(3))).collect();
            let found = db.multi_get_cf_opt(&at(&clone), &wanted);
            assert!(found.into_iter().all(|v| v.unwrap().as_deref() == Some(&b"value"[..])));
            cfs.iter().for_each(|cf| assert_eq!(seen(&db, cf, &clone).len(), 9, "{when}"));
        };
        drop(snapshot);
        read("while it runs");
        gate.open.set();
        job.join().unwrap();
        read("after it");
        // The next one finds the snapshot.
        db.flush().unwrap();
        compact();
        read("after the next");
    });
    compact();
    assert_eq!(db.iter().unwrap().count(), 0, "the snapshot is gone");
    db.close().unwrap();
}

/// Removes and changes what it is told to by the value, slowly.
struct Drawn;

impl CompactionFilter for Drawn {
    fn name(&self) -> &str {
        "drawn"
    }
    fn filter(&self, _: i32, _: &[u8], value: &[u8]) -> FilterDecision {
        if value.last() == Some(&b'7') {
            thread::sleep(Duration::from_millis(2));
        }
        match value.first() {
            Some(b'1') => FilterDecision::Remove,
            Some(b'2') => FilterDecision::ChangeValue(b"changed".to_vec()),
            _ => FilterDecision::Keep,
        }
    }
    fn filter_merge_operand(&self, _: i32, _: &[u8], operand: &[u8]) -> bool {
        operand.first() == Some(&b'1')
    }
}

/// Snapshots that were taken, and those whose view would differ without what they keep.
#[derive(Default)]
struct Counts {
    taken: AtomicU64,
    filtered: AtomicU64,
}

fn write(db: &Db, cfs: &[ColumnFamily], rng: &mut Rng) {
    for _ in 0..250 {
        let cf = &cfs[rng.uniform(2) as usize];
        let key = key(rng.uniform(60) as usize);
        let value = rng.uniform(1 << 20).to_string();
        match rng.uniform(12) {
            0 => db.delete_cf(cf, key).unwrap(),
            1 | 2 => db.merge_cf(cf, key, value).unwrap(),
            _ => db.put_cf(cf, key, value).unwrap(),
        }
        match rng.uniform(30) {
            0 => db.flush_all().unwrap(),
            1 => db.compact_range_cf(&CompactRangeOptions::default(), cf, None, None).unwrap(),
            2 => thread::sleep(Duration::from_millis(rng.uniform(5))),
            _ => {}
        }
    }
}

/// Takes snapshots, and reads each again and again.
fn watch(db: &Db, cfs: &[ColumnFamily], over: &AtomicBool, rng: &mut Rng, counts: &Counts) {
    while !over.load(SeqCst) {
        thread::sleep(Duration::from_micros(rng.skewed(16)));
        let snapshot = db.snapshot();
        let first: Vec<_> = cfs.iter().map(|cf| seen(db, cf, &snapshot)).collect();
        counts.taken.fetch_add(1, SeqCst);
        for _ in 0..1 + rng.uniform(3) {
            thread::sleep(Duration::from_micros(rng.skewed(14)));
            for (cf, first) in cfs.iter().zip(&first) {
                assert!(seen(db, cf, &snapshot) == *first, "a scan has changed");
                for n in 0..60 {
                    let key = key(n);
                    let found = db.get_cf_opt(&at(&snapshot), cf, &key).unwrap();
                    assert_eq!(found.as_deref(), first.get(&key).map(Vec::as_slice));
                }
            }
            let doomed = |value: &Vec<u8>| value.first() == Some(&b'1');
            let now: Contents = db.iter().unwrap().map(|entry| entry.unwrap()).collect();
            let gone = first[0].iter().filter(|(key, v)| doomed(v) && !now.contains_key(*key));
            counts.filtered.fetch_add(gone.count() as u64, SeqCst);
        }
    }
}

fn live(seed: u64, counts: &Counts) {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.db.create_missing_column_families = true;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.merge_operator = pumice::options::merge_operator_by_name("stringappend");
    options.cf.compaction_filter = Some(Arc::new(Drawn));
    let families =
        ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let (db, cfs) = Db::open_cf(&options.db, DIR, &families).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            write(&db, &cfs, &mut Rng::new(seed));
            over.store(true, SeqCst);
        });
        scope.spawn(|| watch(&db, &cfs, &over, &mut Rng::new(seed ^ (1 << 40)), counts));
    });
    db.close().unwrap();
}

/// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn what_a_snapshot_shows_never_changes() {
    let counts = Arc::new(Counts::default());
    for seed in seed::range(20) {
        let shared = Arc::clone(&counts);
        let (report, outcome) = sim::run(&sim::Options::new(seed), move || live(seed, &shared));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        let hint = seed::replay_hint("what_a_snapshot_shows_never_changes", seed);
        assert!(outcome.is_ok(), "{outcome:?}\n{stuck}\n{hint}");
    }
    let (taken, filtered) = (counts.taken.load(SeqCst), counts.filtered.load(SeqCst));
    eprintln!("{taken} snapshots, {filtered} values filtered under them");
    assert!(taken > 0 && (filtered > 0 || seed::wanted().is_some()));
}

/// Values that expire are dropped by a filter too. Plain #[test]: a simulation is a runtime of its
/// own. Its clock is virtual.
#[test]
fn values_expire_under_no_snapshot() {
    for seed in seed::range(10) {
        let (report, outcome) = sim::run(&sim::Options::new(seed), move || {
            let (_, fs) = memory();
            let mut options = options(&fs);
            options.cf.level0_file_num_compaction_trigger = 2;
            // Called for values that are young enough: compactions take their time.
            options.cf.compaction_filter = Some(Arc::new(Drawn));
            let db = DbWithTtl::open(&options, DIR, 5).unwrap();
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    for n in 0..400 {
                        db.put(key(n % 150), "value 7").unwrap();
                        match n % 40 {
                            10 => db.db().flush().unwrap(),
                            20 => thread::sleep(Duration::from_secs(3)),
                            30 => db.db().compact_range(&Default::default(), None, None).unwrap(),
                            _ => {}
                        }
                    }
                    over.store(true, SeqCst);
                });
                let mut rng = Rng::new(seed);
                while !over.load(SeqCst) {
                    thread::sleep(Duration::from_micros(rng.skewed(20)));
                    let snapshot = db.db().snapshot();
                    let scan = || db.iter_opt(&at(&snapshot)).unwrap().map(|e| e.unwrap());
                    let first: Contents = scan().collect();
                    for _ in 0..3 {
                        thread::sleep(Duration::from_micros(rng.skewed(22)));
                        assert!(scan().collect::<Contents>() == first, "a scan has changed");
                    }
                }
            });
            db.db().close().unwrap();
        });
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        let hint = seed::replay_hint("values_expire_under_no_snapshot", seed);
        assert!(outcome.is_ok(), "{outcome:?}\n{stuck}\n{hint}");
    }
}
