//! Universal compaction of old files, in a database that does nothing else.
//!
//! Plain #[test]: a simulation is a runtime of its own. Its clock is virtual, so days cost nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, contents, fill, flush, memory, options};
use pumice::options::CompactionStyle;
use pumice::stats::listener::{CompactionJobInfo, CompactionReason};
use pumice::{Db, EventListener};
use pumice_port::sim;
use pumice_port::sync::Mutex;
use pumice_port::thread::sleep;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

#[derive(Default)]
struct Reasons(Mutex<Vec<(CompactionReason, i32, usize)>>);

impl EventListener for Reasons {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let files = info.input_files.iter().map(|(_, files)| files.len()).sum();
        self.0.lock().push((info.compaction_reason, info.output_level, files));
    }
}

/// `ttl` and `periodic_compaction_seconds`: the smaller that is set is the age at which everything
/// is rewritten, also if it is a single file that could move.
#[test]
fn everything_is_rewritten_once_a_file_is_too_old() {
    let test = || {
        for (ttl, periodic) in [(0, DAY), (DAY, 0), (DAY, 3 * DAY), (3 * DAY, DAY)] {
            let (_, fs) = memory();
            let reasons = Arc::new(Reasons::default());
            let mut options = options(&fs);
            options.cf.compaction_style = CompactionStyle::Universal;
            options.cf.num_levels = 4;
            options.cf.ttl = ttl;
            options.cf.periodic_compaction_seconds = periodic;
            options.db.listeners = vec![Arc::clone(&reasons) as Arc<dyn EventListener>];
            let db = Db::open(&options, DIR).unwrap();
            fill(&db, 0..10, "old");
            flush(&db);
            sleep(Duration::from_secs(20 * HOUR));
            fill(&db, 0..10, "new");
            flush(&db);
            sleep(Duration::from_secs(3 * HOUR));
            assert!(reasons.0.lock().is_empty());
            sleep(Duration::from_secs(2 * HOUR));
            let both = (CompactionReason::PeriodicCompaction, 3, 2);
            assert_eq!(*reasons.0.lock(), [both]);
            // What was written then is old a day later.
            sleep(Duration::from_secs(DAY));
            let again = (CompactionReason::PeriodicCompaction, 3, 1);
            assert_eq!(*reasons.0.lock(), [both, again]);
            assert_eq!(contents(&db).len(), 10);
            db.close().unwrap();
        }
    };
    for seed in 0..3 {
        let options = sim::Options {
            max_virtual_nanos: 200 * DAY * 1_000_000_000,
            ..sim::Options::new(seed)
        };
        let (report, outcome) = sim::run(&options, test);
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}
