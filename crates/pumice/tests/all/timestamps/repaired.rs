//! Repair of databases whose keys have timestamps, kept in tables or not, with blob files or
//! without: what a repair gives is read at every time, here and by RocksDB.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice::{CompressionType, Db, FileSystem, Options, PosixFs, ReadOptions, RepairOutcome};

use super::sides::{Side, Theirs, Walk};
use super::{timed, unkept};
use crate::blobs::theirs::{copy_dir, peer};
use crate::common::{SYNC, Scratch, flush};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The low that is set, and the end of all times.
const LOW: u64 = 15;
const END: u64 = 41;

/// Values of entries that get damaged, each alone in its block or in its record.
const TORN: [&str; 2] = ["TORNTABLE", "TORNLOG"];

fn options(keeps: bool, blobs: bool) -> Options {
    let files: Arc<dyn FileSystem> = Arc::new(PosixFs);
    let mut options = if keeps { timed(&files) } else { unkept(&files) };
    options.cf.disable_auto_compactions = true;
    options.cf.table_factory.block_size = 1;
    options.cf.table_factory.format_version = 5;
    options.cf.compression = CompressionType::None;
    if blobs {
        super::blobs::separate(&mut options.cf, 20, false);
    }
    options
}

/// Tables in several levels, history that has gone, and a log.
fn fill(options: &Options, path: &Path) -> Db {
    let db = Db::open(options, path).unwrap();
    for time in 1..END {
        let value = format!("{time}-").repeat(1 + time as usize % 12);
        db.at(time).put(format!("k{}", time % 9), &value).unwrap();
        db.at(time).put(format!("j{time}"), &value).unwrap();
        db.at(time).put("l", "between").unwrap();
        if time % 5 == 0 {
            db.at(time).delete(format!("k{}", time % 7)).unwrap();
            db.at(time).merge(format!("m{}", time % 3), &value).unwrap();
            db.at(time).delete_range(format!("j{}", time - 3), format!("j{}", time - 1)).unwrap();
        }
        match time {
            12 => db.at(time).put("torn-table", TORN[0]).unwrap(),
            33 => {
                db.at(time).put("torn-log", TORN[1]).unwrap();
                // The rest of its block goes with it.
                db.at(time).writing(SYNC).put("torn-rest", [b'r'; 40_000]).unwrap();
            }
            10 | 30 => flush(&db),
            20 => {
                flush(&db);
                if options.cf.persist_user_defined_timestamps {
                    let family = db.default_column_family();
                    db.increase_full_history_ts_low(family, LOW).unwrap();
                }
                db.compact_range(&Default::default(), None, None).unwrap();
            }
            _ => {}
        }
    }
    db.at(END - 1).writing(SYNC).put("last", "v").unwrap();
    db
}

/// All that each time sees, but for what was damaged; and the versions of keys without operands.
fn answers(db: &Db, from: u64, keeps: bool) -> (Vec<Rows>, Rows) {
    let rows = |time: u64| -> Rows {
        let rows = db.at(time).range(..).unwrap().map(|row| row.unwrap());
        let rows: Rows = rows.filter(|row| !row.0.starts_with(b"torn")).collect();
        for (key, value) in &rows {
            assert_eq!(db.at(time).get(key).unwrap().as_deref(), Some(&value[..]));
        }
        rows
    };
    let mut versions = Rows::new();
    if keeps {
        let options = ReadOptions {
            iter_start_ts: Some(from.to_le_bytes().to_vec()),
            iterate_upper_bound: Some(b"l".to_vec()),
            ..db.at(END).read_options()
        };
        let mut cursor = db.cursor_opt(&options).unwrap();
        cursor.seek_to_first();
        while let Some((key, value)) = cursor.item() {
            versions.push((key[..key.len() - 8].to_vec(), value.to_vec()));
            cursor.next();
        }
        cursor.status().unwrap();
    }
    ((from..END + 2).map(rows).collect(), versions)
}

fn files(path: &Path, ending: &str) -> Vec<PathBuf> {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = names.filter(|path| path.to_string_lossy().contains(ending)).collect();
    found.sort();
    found
}

/// Changes a byte of `text` in the only file that has it.
fn damage(path: &Path, ending: &str, text: &str) {
    let mut found = 0;
    for file in files(path, ending) {
        let mut bytes = std::fs::read(&file).unwrap();
        let at = bytes.windows(text.len()).position(|part| part == text.as_bytes());
        if let Some(at) = at {
            bytes[at] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            found += 1;
        }
    }
    assert_eq!(found, 1, "{text}");
}

/// What happens to a database, and what a repair makes of it.
fn harm(path: &Path, case: usize) -> RepairOutcome {
    match case {
        0 => return RepairOutcome::Healthy,
        1 => {
            std::fs::remove_file(path.join("CURRENT")).unwrap();
            return RepairOutcome::CurrentRestored;
        }
        2 => damage(path, ".sst", TORN[0]),
        3 => damage(path, ".log", TORN[1]),
        _ => {
            files(path, "MANIFEST-").iter().for_each(|file| std::fs::remove_file(file).unwrap());
            return RepairOutcome::Rebuilt;
        }
    }
    RepairOutcome::Repaired
}

// Plain #[test]: RocksDB works on real files and has its own threads.
#[test]
fn what_is_left_of_a_database_is_read_at_every_time() {
    let peer = peer();
    for (keeps, blobs) in [(true, false), (false, false), (true, true), (false, true)] {
        let dir = Scratch::new("timed-repair");
        std::fs::create_dir_all(&dir.0).unwrap();
        let (made, options) = (dir.0.join("made"), options(keeps, blobs));
        let db = fill(&options, &made);
        // What a recovery leaves: times of the log are lost where tables have none.
        let from = if keeps { LOW } else { END };
        let expected = answers(&db, from, keeps);
        assert!(expected.0.iter().all(|rows| rows.len() > 10));
        db.close().unwrap();
        for case in 0..5 {
            let what = format!("keeps {keeps} blobs {blobs} case {case}");
            let path = dir.0.join(format!("case{case}"));
            copy_dir(&made, &path);
            let outcome = harm(&path, case);
            let report = pumice::repair(&options, &path).unwrap();
            assert_eq!(report.outcome, outcome, "{what}: {report}");
            let again = pumice::repair(&options, &path).unwrap();
            assert_eq!(again.outcome, RepairOutcome::Healthy, "{what}: {again}");
            let db = Db::open(&options, &path).unwrap();
            let low = db.full_history_ts_low(db.default_column_family()).unwrap();
            let low = low.map(|low| u64::from_le_bytes(low.try_into().unwrap()));
            // Of a database without a MANIFEST that is not known.
            let known = !(keeps && outcome == RepairOutcome::Rebuilt);
            assert_eq!(low, known.then_some(from), "{what}");
            let found = answers(&db, from, keeps);
            for (time, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
                assert_eq!(found, expected, "{what} at {time}");
            }
            assert_eq!(found.1, expected.1, "{what}: versions");
            for (key, is_torn) in [("torn-table", case == 2), ("torn-log", case == 3)] {
                assert_eq!(db.at(END).get(key).unwrap().is_none(), is_torn, "{what}: {key}");
            }
            db.verify_checksum().unwrap();
            db.compact_range(&Default::default(), None, None).unwrap();
            let compacted = answers(&db, from, keeps);
            assert!(compacted.0 == expected.0, "{what}");
            db.close().unwrap();
            let Some(peer) = &peer else { continue };
            let text = match keeps {
                true => "",
                false => {
                    "persist_user_defined_timestamps=false;\
                          allow_concurrent_memtable_write=false"
                }
            };
            let theirs = Theirs::open(peer, &path, text);
            let rows = theirs.walk(END, &Walk::default()).unwrap();
            let rows: Rows = rows.into_iter().map(|(key, _, value)| (key, value)).collect();
            let rows: Rows = rows.into_iter().filter(|r| !r.0.starts_with(b"torn")).collect();
            assert!(rows == expected.0[(END - from) as usize], "{what}: RocksDB");
        }
        std::fs::remove_dir_all(&dir.0).unwrap();
    }
}

/// Without a MANIFEST and without tables the options say whether tables have timestamps.
#[pumice_test_macros::test]
fn logs_alone_become_tables_of_the_options() {
    for keeps in [true, false] {
        let files = crate::common::memory().1;
        let options = if keeps { timed(&files) } else { unkept(&files) };
        let db = Db::open(&options, crate::common::DIR).unwrap();
        for time in 1..5 {
            db.at(time).writing(SYNC).put("k", time.to_string()).unwrap();
        }
        db.at(5).writing(SYNC).delete_range("a", "b").unwrap();
        db.close().unwrap();
        for name in crate::common::names(&files, crate::common::DIR) {
            if name.starts_with("MANIFEST") || name == "CURRENT" {
                files.remove(&Path::new(crate::common::DIR).join(name)).unwrap();
            }
        }
        let report = pumice::repair(&options, crate::common::DIR).unwrap();
        assert_eq!(report.outcome, RepairOutcome::Rebuilt);
        let db = Db::open(&options, crate::common::DIR).unwrap();
        assert_eq!(super::text(&db, 9, "k").as_deref(), Some("4"));
        match keeps {
            true => assert_eq!(super::text(&db, 2, "k").as_deref(), Some("2")),
            false => assert!(super::message(db.at(2).get("k")).contains("full_history_ts_low: 6")),
        }
        db.close().unwrap();
    }
}

/// The head of a log says how long timestamps are: without it keys keep theirs, and nobody's order
/// but the database's takes them off.
#[pumice_test_macros::test]
fn a_log_with_a_damaged_head_gives_the_keys_that_were_written() {
    for keeps in [true, false] {
        let (fs, files) = crate::common::memory();
        let options = if keeps { timed(&files) } else { unkept(&files) };
        let db = Db::open(&options, crate::common::DIR).unwrap();
        db.at(1).put("k", "1").unwrap();
        db.at(1).put("rest-of-the-block", [b'r'; 40_000]).unwrap();
        db.at(2).writing(SYNC).put("k", "2").unwrap();
        db.close().unwrap();
        let names = crate::common::names(&files, crate::common::DIR);
        let dir = Path::new(crate::common::DIR);
        let log = names.iter().find(|name| name.ends_with(".log")).unwrap();
        fs.damage(&dir.join(log), |bytes| bytes[0] ^= 1).unwrap();
        let report = pumice::repair(&options, dir).unwrap();
        assert_eq!(report.outcome, RepairOutcome::Repaired);
        let db = Db::open(&options, dir).unwrap();
        let rows: Rows = db.at(9).range(..).unwrap().map(|row| row.unwrap()).collect();
        assert_eq!(rows, [(b"k".to_vec(), b"2".to_vec())], "{keeps}");
        db.at(3).writing(SYNC).put("k", "3").unwrap();
        db.close().unwrap();
        drop(db);
        for name in crate::common::names(&files, crate::common::DIR) {
            if name.starts_with("MANIFEST") || name == "CURRENT" || name.ends_with(".sst") {
                files.remove(&dir.join(name)).unwrap();
            }
        }
        let refused = super::message(pumice::repair(&crate::common::options(&files), dir));
        assert!(refused.contains("timestamps of 8 bytes"), "{refused}");
        pumice::repair(&options, dir).unwrap();
        let db = Db::open(&options, dir).unwrap();
        assert_eq!(super::text(&db, 9, "k").as_deref(), Some("3"));
        db.close().unwrap();
    }
}
