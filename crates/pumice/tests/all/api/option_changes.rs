//! Options that act file by file, and when they are changed while the database is open.

use std::path::Path;
use std::sync::Arc;

use crate::common::watched::Watched;
use crate::common::{DIR, key, memory, options};
use pumice::{Db, FlushOptions, Options, WriteOptions};

/// Calls of `range_sync`: (offset, bytes, wait), of one kind of files.
type Calls = Arc<pumice_port::sync::Mutex<Vec<(u64, u64, bool)>>>;

fn filled(db: &Db, mebibytes: usize) {
    for n in 0..mebibytes * 16 {
        db.put_opt(&WriteOptions::default(), &key(n), &[b'v'; 64 << 10]).unwrap();
    }
}

/// Opens with `text`, writes 8 MiB, makes the change in between if there is one, and flushes.
/// Returns the calls for logs, and those for tables.
fn range_syncs(text: &str, change: &[(&str, &str)]) -> [Vec<(u64, u64, bool)>; 2] {
    let (_, fs) = memory();
    let calls = [Calls::default(), Calls::default()];
    let mut options: Options = options(&fs);
    let seen = calls.clone();
    options.db.file_system = Arc::new(Watched {
        inner: fs,
        range_synced: Arc::new(move |path: &Path, from, bytes, wait| {
            let kind = usize::from(path.extension().is_some_and(|e| e == "sst"));
            seen[kind].lock().push((from, bytes, wait));
        }),
        looked: Arc::new(|_| {}),
        counts: Arc::default(),
    });
    options.set_from_text(text).unwrap();
    options.cf.write_buffer_size = 64 << 20;
    options.cf.compression = pumice::CompressionType::None;
    let db = Db::open(&options, DIR).unwrap();
    filled(&db, 4);
    if !change.is_empty() {
        db.set_db_options(change).unwrap();
    }
    filled(&db, 4);
    db.flush_opt(&FlushOptions::default()).unwrap();
    db.close().unwrap();
    calls.map(|calls| calls.lock().clone())
}

const MIB: u64 = 1 << 20;

#[pumice_test_macros::test]
fn files_go_to_the_device_step_by_step() {
    let [logs, tables] = range_syncs("", &[]);
    assert!(logs.is_empty() && tables.is_empty());
    let [logs, tables] = range_syncs("bytes_per_sync=1M", &[]);
    assert!(logs.is_empty() && tables.len() > 2, "{tables:?}");
    let [logs, tables] = range_syncs("wal_bytes_per_sync=2M", &[]);
    assert!(logs.len() > 2 && tables.is_empty(), "{logs:?}");
    assert!(logs.iter().all(|(_, bytes, wait)| *bytes >= 2 * MIB && !wait), "{logs:?}");
    let [logs, tables] =
        range_syncs("bytes_per_sync=1M;wal_bytes_per_sync=2M;strict_bytes_per_sync=true", &[]);
    for calls in [logs, tables] {
        assert!(calls.len() > 2 && calls.iter().all(|(from, _, wait)| *from == 0 && *wait));
    }
}

#[pumice_test_macros::test]
fn a_change_of_the_step_counts_for_the_log_that_is_written() {
    let [logs, _] = range_syncs("", &[("wal_bytes_per_sync", "1048576")]);
    assert!(logs.len() >= 3, "{logs:?}");
    let [logs, _] = range_syncs("wal_bytes_per_sync=1M", &[("wal_bytes_per_sync", "0")]);
    assert!((2..=3).contains(&logs.len()), "{logs:?}");
    let change = [("strict_bytes_per_sync", "true")];
    let [logs, _] = range_syncs("wal_bytes_per_sync=1M", &change);
    assert!(!logs[0].2 && logs.last().unwrap().2, "{logs:?}");
}
