//! What the rate limiter charges, with what priority, and how long it takes: in virtual time.

use std::sync::Arc;

use crate::common::{DIR, fill, flush, get, key, options};
use pumice::{
    BottommostLevelCompaction, CompactRangeOptions, Db, FlushOptions, HistogramKind, IoPriority,
    MemFs, Options, RateLimiter, RateLimiterMode, RateLimiterOptions, ReadOptions, Statistics,
    Ticker, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use pumice_env::filename::{self, FileType};
use pumice_port::sim;
use pumice_port::time::now_micros;

const MIB: u64 = 1 << 20;

fn simulate(test: fn()) {
    for seed in 0..4 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), test);
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

/// Options with a limiter of `mode` at `rate`, on a disk of their own.
fn limited(rate: u64, mode: RateLimiterMode) -> (Options, Arc<RateLimiter>) {
    let mut options = options(&MemFs::new(7).shared());
    let settings = RateLimiterOptions { mode, ..RateLimiterOptions::new(rate) };
    let limiter = Arc::new(RateLimiter::new(&settings).unwrap());
    options.db.rate_limiter = Some(Arc::clone(&limiter));
    options.db.background_policy = pumice::options::BackgroundPolicy::Static;
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.cf.compression = pumice::CompressionType::None;
    options.cf.write_buffer_size = 64 << 20;
    (options, limiter)
}

fn charged(limiter: &RateLimiter) -> [u64; 4] {
    IoPriority::ALL.map(|priority| limiter.total_bytes_through(Some(priority)))
}

fn table_bytes(db: &Db) -> u64 {
    db.live_files_metadata().iter().map(|file| file.size).sum()
}

// A simulation is a runtime of its own.
#[test]
fn flushes_are_charged_at_high_and_compactions_at_low() {
    simulate(|| {
        let (options, limiter) = limited(MIB, RateLimiterMode::WritesOnly);
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..3000, &"v".repeat(1000));
        assert_eq!(charged(&limiter), [0; 4], "the log is free");
        let start = now_micros();
        flush(&db);
        let flushed = table_bytes(&db);
        assert_eq!(charged(&limiter), [0, 0, flushed, 0]);
        let seconds = (now_micros() - start) as f64 / 1e6;
        // The first refill is there at once.
        let due = (flushed as f64 - 0.1 * MIB as f64) / MIB as f64;
        assert!((due * 0.99..due + 0.5).contains(&seconds), "{seconds} s for {flushed} bytes");
        fill(&db, 0..3000, &"w".repeat(1000));
        flush(&db);
        let before = charged(&limiter);
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        let after = charged(&limiter);
        assert_eq!(after[0], table_bytes(&db));
        assert_eq!(after[1..], before[1..]);
        let statistics = options.db.statistics.as_ref().unwrap();
        let ticker = |ticker| statistics.ticker(ticker);
        assert_eq!(ticker(Ticker::RateLimiterBytesWrite), after.iter().sum::<u64>());
        assert_eq!(ticker(Ticker::RateLimiterRequestsWrite), limiter.total_requests(None));
        assert_eq!(ticker(Ticker::NumberRateLimiterDrains), limiter.total_drains());
        assert!(ticker(Ticker::RateLimiterDelayedRequestsWrite) > 0);
        assert!(ticker(Ticker::RateLimiterTotalWaitMicrosWrite) > 1_000_000);
        let waits = statistics.histogram(HistogramKind::RateLimiterWaitMicrosWrite);
        assert_eq!(waits.count(), ticker(Ticker::RateLimiterDelayedRequestsWrite));
        assert_eq!(ticker(Ticker::RateLimiterBytesRead), 0);
        db.close().unwrap();
    });
}

// A simulation is a runtime of its own.
#[test]
fn while_writes_are_delayed_all_are_as_urgent_as_users() {
    simulate(|| {
        let (mut options, limiter) = limited(100_000, RateLimiterMode::WritesOnly);
        options.cf.level0_file_num_compaction_trigger = 2;
        options.cf.level0_slowdown_writes_trigger = 2;
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..1000, &"v".repeat(1000));
        flush(&db);
        fill(&db, 0..1000, &"w".repeat(1000));
        flush(&db);
        // The second file delays writes; the compaction that ends that takes ten seconds.
        let [low, _, high, user] = charged(&limiter);
        assert_eq!((low, high), (0, table_bytes(&db)));
        db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
        flush(&db);
        assert_eq!(limiter.total_bytes_through(Some(IoPriority::High)), high);
        assert!(limiter.total_bytes_through(Some(IoPriority::User)) > user);
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        let [low, _, _, user] = charged(&limiter);
        assert!(low == 0 && user > 1_000_000, "{low} {user}");
        db.close().unwrap();
    });
}

/// Under the adaptive policy compactions of L0 precede others, and capped writes raise no priority.
// A simulation is a runtime of its own.
#[test]
fn under_the_adaptive_policy_compactions_of_l0_are_more_urgent_than_others() {
    simulate(|| {
        let (mut options, limiter) = limited(MIB, RateLimiterMode::WritesOnly);
        options.db.background_policy = pumice::options::BackgroundPolicy::Adaptive;
        options.cf.level0_file_num_compaction_trigger = 2;
        options.cf.level0_slowdown_writes_trigger = 2;
        let db = Db::open(&options, DIR).unwrap();
        for value in ["v", "w"] {
            fill(&db, 0..1000, &value.repeat(1000));
            flush(&db);
        }
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        // RocksDB's rules would have delayed writes at two files: all would be as urgent as users.
        let [low, mid, high, user] = charged(&limiter);
        assert_eq!((low, mid, user), (0, table_bytes(&db), 0), "{high}");
        let bottommost_level_compaction = BottommostLevelCompaction::Force;
        let again = CompactRangeOptions { bottommost_level_compaction, ..Default::default() };
        db.compact_range(&again, None, None).unwrap();
        assert_eq!(charged(&limiter), [table_bytes(&db), mid, high, 0]);
        db.close().unwrap();
    });
}

// A simulation is a runtime of its own.
#[test]
fn reads_are_counted_apart() {
    simulate(|| {
        let (mut options, limiter) = limited(MIB, RateLimiterMode::ReadsOnly);
        options.cf.table_factory.no_block_cache = true;
        let db = Db::open(&options, DIR).unwrap();
        for value in ["v", "w"] {
            fill(&db, 0..2000, &value.repeat(1000));
            flush(&db);
        }
        let start = now_micros();
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        let bytes = limiter.total_bytes_through(Some(IoPriority::Low));
        let seconds = (now_micros() - start) as f64 / 1e6;
        let due = (bytes as f64 - 0.1 * MIB as f64) / MIB as f64;
        assert!((due * 0.99..due + 0.5).contains(&seconds), "{seconds} s for {bytes} bytes");
        let statistics = options.db.statistics.as_ref().unwrap();
        assert_eq!(statistics.ticker(Ticker::RateLimiterBytesRead), bytes);
        assert_eq!(
            statistics.ticker(Ticker::RateLimiterRequestsRead),
            limiter.total_requests(None)
        );
        let delayed = statistics.ticker(Ticker::RateLimiterDelayedRequestsRead);
        let waits = statistics.histogram(HistogramKind::RateLimiterWaitMicrosRead);
        assert!(delayed > 0 && waits.count() == delayed);
        assert!(statistics.ticker(Ticker::RateLimiterTotalWaitMicrosRead) > 1_000_000);
        assert_eq!(statistics.ticker(Ticker::RateLimiterBytesWrite), 0);
        db.close().unwrap();
    });
}

/// Gets, multi-gets, iterators and compactions, by priority.
// A simulation is a runtime of its own.
#[test]
fn reads_are_charged_when_the_mode_has_them() {
    simulate(|| {
        for (mode, limits) in [
            (RateLimiterMode::ReadsOnly, true),
            (RateLimiterMode::AllIo, true),
            (RateLimiterMode::WritesOnly, false),
        ] {
            let (mut options, limiter) = limited(64 * MIB, mode);
            options.cf.table_factory.no_block_cache = true;
            let db = Db::open(&options, DIR).unwrap();
            for value in ["v", "w"] {
                fill(&db, 0..3000, &value.repeat(1000));
                flush(&db);
            }
            // Files are opened by their first read, which is not charged.
            get(&db, &key(0)).unwrap();
            let user = || limiter.total_bytes_through(Some(IoPriority::User));
            assert_eq!(user(), 0, "reads without a priority are free");
            let paced = ReadOptions {
                rate_limiter_priority: Some(IoPriority::User),
                ..ReadOptions::default()
            };
            let mut last = 0;
            let mut grew = |what: &str| {
                let now = user();
                assert_eq!(now > last, limits, "{what} with {mode:?}");
                last = now;
            };
            db.get_opt(&paced, &key(1500)).unwrap().unwrap();
            grew("get");
            let keys: Vec<Vec<u8>> = (0..20).map(|n| key(n * 100)).collect();
            for value in db.multi_get_opt(&paced, &keys) {
                value.unwrap().unwrap();
            }
            grew("multi_get");
            let mut iter = db.cursor_opt(&paced).unwrap();
            iter.seek(&key(700));
            grew("seek");
            (0..500).for_each(|_| iter.next());
            assert!(iter.valid());
            grew("next");
            drop(iter);
            let low = limiter.total_bytes_through(Some(IoPriority::Low));
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
            let read = limiter.total_bytes_through(Some(IoPriority::Low)) - low;
            match mode {
                RateLimiterMode::ReadsOnly => assert!(read > 2 * 3000 * 1000, "{read}"),
                RateLimiterMode::AllIo => assert!(read > 3 * 3000 * 1000, "{read}"),
                RateLimiterMode::WritesOnly => assert_eq!(read, table_bytes(&db)),
            }
            db.close().unwrap();
        }
    });
}

// A simulation is a runtime of its own.
#[test]
fn a_write_pays_for_its_log_when_it_asks_to() {
    simulate(|| {
        let (mut options, limiter) = limited(MIB, RateLimiterMode::WritesOnly);
        let db = Db::open(&options, DIR).unwrap();
        let paced = WriteOptions {
            rate_limiter_priority: Some(IoPriority::User),
            ..WriteOptions::default()
        };
        let start = now_micros();
        for n in 0..40 {
            db.put_opt(&paced, &key(n), &[b'v'; 100_000]).unwrap();
        }
        let paid = limiter.total_bytes_through(Some(IoPriority::User));
        assert!((4_000_000..4_010_000).contains(&paid), "{paid}");
        let seconds = (now_micros() - start) as f64 / 1e6;
        assert!((3.6..4.0).contains(&seconds), "{seconds} s for 3.8 MiB at 1 MiB/s");
        for priority in [IoPriority::Low, IoPriority::Mid, IoPriority::High] {
            let wrong = WriteOptions { rate_limiter_priority: Some(priority), ..paced };
            let error = db.put_opt(&wrong, b"k", b"v").unwrap_err().to_string();
            assert!(error.contains("only allows Env::IO_TOTAL and Env::IO_USER"), "{error}");
        }
        let unlogged = WriteOptions { disable_wal: true, ..paced };
        let error = db.write_opt(&unlogged, &mut WriteBatch::new()).unwrap_err().to_string();
        assert!(error.contains("automatic WAL flush"), "{error}");
        db.close().unwrap();
        options.db.manual_wal_flush = true;
        let db = Db::open(&options, DIR).unwrap();
        let error = db.put_opt(&paced, b"k", b"v").unwrap_err().to_string();
        assert!(error.contains("automatic WAL flush"), "{error}");
        db.close().unwrap();
    });
}

// A simulation is a runtime of its own.
#[test]
fn two_databases_share_one_limiter() {
    simulate(|| {
        let (options, limiter) = limited(MIB, RateLimiterMode::WritesOnly);
        let start = now_micros();
        let dbs = ["/a", "/b"].map(|dir| Db::open(&options, dir).unwrap());
        for db in &dbs {
            fill(db, 0..2000, &"v".repeat(1000));
            db.flush_opt(&FlushOptions { wait: false, ..FlushOptions::default() }).unwrap();
        }
        dbs.iter().for_each(flush);
        let bytes: u64 = dbs.iter().map(table_bytes).sum();
        assert_eq!(limiter.total_bytes_through(Some(IoPriority::High)), bytes);
        let seconds = (now_micros() - start) as f64 / 1e6;
        let due = (bytes as f64 - 0.1 * MIB as f64) / MIB as f64;
        assert!((due * 0.99..due + 0.5).contains(&seconds), "{seconds} s for {bytes} bytes");
        for db in dbs {
            db.close().unwrap();
        }
    });
}

// Text of options, nothing waits.
#[test]
fn the_limiter_is_an_option() {
    let mut options = Options::default();
    options.set("rate_limiter_bytes_per_sec", "5MB").unwrap();
    let limiter = options.db.rate_limiter.clone().unwrap();
    assert_eq!(limiter.bytes_per_second(), 5 * MIB);
    assert_eq!(options.db.get("rate_limiter").unwrap(), (5 * MIB).to_string());
    limiter.set_bytes_per_second(3 * MIB).unwrap();
    options.set("rate_limiter", &(3 * MIB).to_string()).unwrap();
    assert!(Arc::ptr_eq(&limiter, options.db.rate_limiter.as_ref().unwrap()), "set by hand, kept");
    options.set("rate_limiter", "nullptr").unwrap();
    assert!(options.db.rate_limiter.is_none());
    assert!(options.set("rate_limiter_bytes_per_sec", "-1").is_err());
}

/// With a limiter and otherwise default options, delayed writes start at its rate, and files are
/// synced each MiB; OPTIONS does not have the limiter, so RocksDB never sees it.
#[pumice_test_macros::test]
fn a_limiter_sets_what_depends_on_it() {
    let (options, _) = limited(3 * MIB, RateLimiterMode::WritesOnly);
    let fs = Arc::clone(&options.db.file_system);
    let db = Db::open(&options, DIR).unwrap();
    db.close().unwrap();
    let names = fs.list(DIR.as_ref()).unwrap();
    let files: Vec<_> = names
        .iter()
        .filter(|n| filename::parse(n).is_some_and(|(_, kind)| kind == FileType::Options))
        .collect();
    let text = fs.read_file(&std::path::Path::new(DIR).join(files.last().unwrap())).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains("rate_limiter"), "{text}");
    assert!(text.contains("  bytes_per_sync=1048576"), "{text}");
    assert!(text.contains(&format!("  delayed_write_rate={}", 3 * MIB)), "{text}");
}
