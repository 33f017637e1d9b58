//! Opening read-only while another process writes: the reader sees a prefix of the writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pumice::{ColumnFamilyDescriptor, Db, MemFs};
use pumice_port::{sim, thread};

use super::simulate;
use crate::common::{DIR, SYNC, flush, get, key, options};

const SEEDS: u64 = 60;
const KEYS: usize = 150;
const OPENS: usize = 6;

/// Writes keys in their order, with many logs and many MANIFESTs.
fn write(db: &Db, acked: &AtomicUsize) {
    for n in 0..KEYS {
        db.put_opt(&SYNC, &key(n), b"value").unwrap();
        acked.store(n + 1, Ordering::Release);
        if sim::random_below(4) == 0 {
            flush(db);
        }
    }
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn who_opens_for_reading_sees_a_prefix() {
    for seed in 0..SEEDS {
        simulate(seed, "read only", move || {
            let mut options = options(&MemFs::new(seed).shared());
            options.db.max_manifest_file_size = 1000;
            // A log that was opened may be cleared before it is read.
            options.db.recycle_log_file_num = seed % 2;
            options.cf.disable_auto_compactions = true;
            let db = Db::open(&options, DIR).unwrap();
            let acked = Arc::new(AtomicUsize::new(0));
            thread::scope(|scope| {
                let writer = Arc::clone(&acked);
                let db = &db;
                scope.spawn(move || write(db, &writer));
                for _ in 0..OPENS {
                    thread::sleep(Duration::from_micros(sim::random_below(3000)));
                    let before = acked.load(Ordering::Acquire);
                    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
                    let (reader, _) =
                        Db::open_read_only(&options.db, DIR, &families, false).unwrap();
                    let seen: Vec<bool> =
                        (0..KEYS).map(|n| get(&reader, &key(n)).is_some()).collect();
                    let prefix = seen.iter().take_while(|seen| **seen).count();
                    let count = seen.iter().filter(|seen| **seen).count();
                    assert_eq!(prefix, count, "later keys without earlier ones");
                    assert!(count >= before, "{count} keys of {before}");
                    let names = Db::list_column_families(&options.db, DIR).unwrap();
                    assert_eq!(names, ["default"]);
                }
            });
            db.close().unwrap();
        });
    }
}
