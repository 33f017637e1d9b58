//! Samples of the statistics, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, fill, memory, options};
use pumice::{Db, Options, Statistics, Ticker};
use pumice_port::sim;
use pumice_port::time::wall_seconds;

fn simulate(test: fn()) {
    for seed in 0..3 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), test);
        assert!(outcome.is_ok() && report.stuck.is_none(), "seed {seed}: {outcome:?}");
    }
}

fn with_statistics() -> Options {
    let mut options = options(&memory().1);
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.db.stats_dump_period_sec = 0;
    options
}

fn sleep(seconds: u64) {
    pumice_port::thread::sleep(Duration::from_secs(seconds));
}

/// When the samples were taken, and how many keys had been written since the ones before.
fn written(db: &Db, start: u64, end: u64) -> Vec<(u64, u64)> {
    let samples = db.get_stats_history(start, end).into_iter();
    samples.map(|s| (s.time, s.stats[Ticker::NumberKeysWritten.name()])).collect()
}

// A simulation is a runtime of its own.
#[test]
fn statistics_are_sampled_when_due() {
    simulate(|| {
        let mut options = with_statistics();
        options.db.stats_persist_period_sec = 10;
        // What was counted before the open is in no sample.
        options.db.statistics.as_ref().unwrap().record_tick(Ticker::NumberKeysWritten, 1000);
        let db = Db::open(&options, DIR).unwrap();
        let begin = wall_seconds();
        fill(&db, 0..3, "v");
        sleep(9);
        assert_eq!(written(&db, 0, u64::MAX), []);
        sleep(2);
        fill(&db, 0..5, "v");
        sleep(20);
        let counts = |samples: Vec<(u64, u64)>| samples.iter().map(|s| s.1).collect::<Vec<_>>();
        let all = written(&db, 0, u64::MAX);
        assert_eq!(counts(all.clone()), [3, 5, 0]);
        for (at, (time, _)) in all.iter().enumerate() {
            let due = begin + 10 * (at as u64 + 1);
            assert!((due..=due + 1).contains(time), "{all:?} from {begin}");
        }
        // From the start to before the end.
        assert_eq!(written(&db, all[0].0, all[1].0), all[..1]);
        assert_eq!(written(&db, all[0].0 + 1, all[2].0 + 1), all[1..]);
        assert_eq!(written(&db, all[2].0 + 1, u64::MAX), []);
        // A new period applies at once, and 0 means none.
        db.set_db_options(&[("stats_persist_period_sec", "0")]).unwrap();
        sleep(3600);
        assert_eq!(written(&db, 0, u64::MAX).len(), 3);
        fill(&db, 0..7, "v");
        db.set_db_options(&[("stats_persist_period_sec", "2")]).unwrap();
        sleep(1);
        assert_eq!(counts(written(&db, 0, u64::MAX)), [3, 5, 0, 7]);
        db.close().unwrap();
    });
}

// A simulation is a runtime of its own.
#[test]
fn the_oldest_samples_make_room() {
    simulate(|| {
        let mut options = with_statistics();
        options.db.stats_persist_period_sec = 1;
        let db = Db::open(&options, DIR).unwrap();
        sleep(50);
        let all = written(&db, 0, u64::MAX);
        assert!((49..=50).contains(&all.len()), "{}", all.len());
        // Room for a few: a sample has eight bytes of each ticker, and little more.
        let few = (10 * 8 * Ticker::COUNT).to_string();
        db.set_db_options(&[("stats_history_buffer_size", &few)]).unwrap();
        sleep(5);
        let left = written(&db, 0, u64::MAX);
        assert!((5..10).contains(&left.len()), "{}", left.len());
        assert!(left[0].0 > all[40].0);
        db.close().unwrap();
    });
}

// A simulation is a runtime of its own.
#[test]
fn without_statistics_there_is_no_history_and_no_task_that_waits_for_it() {
    simulate(|| {
        let mut options = with_statistics();
        options.db.statistics = None;
        options.db.stats_persist_period_sec = 1;
        let db = Db::open(&options, DIR).unwrap();
        sleep(10);
        assert_eq!(db.get_stats_history(0, u64::MAX), []);
        db.close().unwrap();
        let mut kept = with_statistics();
        // Has no effect, also where there are statistics.
        kept.set("persist_stats_to_disk", "true").unwrap();
        Db::open(&kept, DIR).unwrap().close().unwrap();
        let families = Db::list_column_families(&kept.db, DIR).unwrap();
        assert_eq!(families, ["default"]);
    });
}
