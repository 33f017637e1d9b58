//! `scan --get_write_unix_time`: when entries were written.

use std::path::Path;

use super::ours;
use pumice::{Db, Options};

/// A database with a table and a log, and when its keys were written, as a cursor says.
fn made(dir: &Path, kept: u64) -> [Option<u64>; 2] {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.preserve_internal_time_seconds = kept;
    let db = Db::open(&options, dir.join("d")).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.put("b", "2").unwrap();
    let times = ["a", "b"].map(|key| {
        let mut cursor = db.cursor().unwrap();
        cursor.seek(key);
        cursor.write_time().unwrap()
    });
    db.close().unwrap();
    times
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn scans_print_when_entries_were_written() {
    for kept in [0, 3600] {
        let dir = tempfile::tempdir().unwrap();
        let times = made(dir.path(), kept);
        assert_eq!(times.map(|time| time.is_some()), [kept > 0; 2]);
        let line = |time: Option<u64>| {
            let time = time.unwrap_or(u64::MAX);
            format!("  write unix time: {time}\n")
        };
        // Memtables of what is in the log do not know it, as in RocksDB.
        let (a, b) = (line(times[0]), line(None));
        for (words, text) in [
            ("", format!("a : 1\n{a}b : 2\n{b}")),
            ("--no_value", format!("a\n{a}b\n{b}")),
            ("--max_keys=1", format!("a : 1\n{a}")),
        ] {
            let words = format!("--db=d scan --get_write_unix_time {words}");
            assert_eq!(ours(dir.path(), &words, ""), (Some(0), text, String::new()), "{kept}");
        }
        let plain = ours(dir.path(), "--db=d scan --get_write_unix_time=false", "");
        assert_eq!(plain.1, "a : 1\nb : 2\n");
    }
}
