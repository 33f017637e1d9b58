//! Less common read options: deadlines, `key_may_exist` without I/O, cursors that follow new
//! writes, prefix filters only where they do not change results.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::common::watched::{Counts, Watched};
use crate::common::{DIR, fill, key, memory, options};
use pumice::{
    Db, DbIterator, ErrorKind, FixedPrefix, Options, ReadOptions, Statistics, Ticker, WriteBatch,
};

/// A database without a block cache, keys 0 to 1999 in a table, the next hundred in the memtable.
fn uncached(change: impl FnOnce(&mut Options)) -> (Db, Arc<Counts>) {
    let (_, fs) = memory();
    let (fs, counts) = Watched::over(fs);
    let mut options = options(&fs);
    options.cf.table_factory.no_block_cache = true;
    change(&mut options);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..2000, "value");
    db.flush().unwrap();
    fill(&db, 2000..2100, "value");
    db.get(key(0)).unwrap(); // The table is open.
    (db, counts)
}

fn kind<T>(result: pumice::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[pumice_test_macros::test]
fn no_file_is_read_after_the_deadline() {
    let (db, counts) = uncached(|_| {});
    let late = ReadOptions { deadline_micros: 1, ..Default::default() };
    let hour = ReadOptions::within(3_600_000_000);
    counts.clear();
    let error = db.get_opt(&late, key(7)).unwrap_err();
    assert_eq!(error.to_string(), "Operation timed out: Deadline exceeded");
    let found = db.multi_get_opt(&late, &[key(1), key(500), key(2050)]);
    let kinds: Vec<_> = found.into_iter().map(kind).collect();
    let timed_out = Some(ErrorKind::TimedOut);
    assert_eq!(kinds, [timed_out, timed_out, None], "what is in memory is an answer");
    let last = db.iter_opt(&late).unwrap().last().unwrap();
    assert_eq!(kind(last), timed_out);
    assert_eq!(counts.reads.load(Relaxed), 0);
    assert!(db.get_opt(&late, key(2050)).unwrap().is_some());

    assert!(db.get_opt(&hour, key(7)).unwrap().is_some());
    assert_eq!(db.iter_opt(&hour).unwrap().filter(|entry| entry.is_ok()).count(), 2100);
    assert!(db.multi_get_opt(&hour, &[key(1), key(500)]).iter().all(Result::is_ok));
    assert!(counts.reads.load(Relaxed) > 0);
    // Cursors reach the deadline during a seek, and stay invalid.
    let mut cursor = db.cursor_opt(&late).unwrap();
    cursor.seek(&key(50));
    assert_eq!((cursor.valid(), kind(cursor.status())), (false, timed_out));
    drop(cursor);
    db.close().unwrap();
}

/// A read is not interrupted; the deadline is checked when it returns.
#[pumice_test_macros::test]
fn what_took_too_long_is_not_used() {
    let (db, counts) = uncached(|_| {});
    let limit = |io_timeout_micros| ReadOptions { io_timeout_micros, ..Default::default() };
    counts.read_micros.store(3000, Relaxed);
    let error = db.get_opt(&limit(1000), key(7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.message().contains("microseconds, its limit was 1000"), "{error}");
    let found = db.multi_get_opt(&limit(1000), &[key(1), key(1500)]);
    assert!(found.into_iter().all(|answer| kind(answer) == Some(ErrorKind::TimedOut)));
    // A deadline that comes while a read is under way.
    let error = db.get_opt(&ReadOptions::within(1000), key(7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(db.get_opt(&limit(3_600_000_000), key(7)).unwrap().is_some());
    counts.read_micros.store(0, Relaxed);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn keys_that_are_not_there_are_known_without_reads() {
    let (db, counts) = uncached(|options| {
        options.cf.table_factory.no_block_cache = false;
        options.set("table_factory.filter_policy", "bloomfilter:20").unwrap();
    });
    let absent = db.key_may_exist("key0000071").unwrap();
    assert!(!absent, "the filter knows");
    counts.clear();
    assert!(db.key_may_exist(key(1999)).unwrap(), "no block of it was read");
    let (exists, value) = db.key_may_exist_value(key(1999)).unwrap();
    assert!(exists && value.is_none());
    assert_eq!(counts.reads.load(Relaxed), 0);
    let (exists, value) = db.key_may_exist_value(key(2050)).unwrap();
    assert_eq!((exists, value.as_deref()), (true, Some(&b"value"[..])));
    db.delete(key(2050)).unwrap();
    assert!(!db.key_may_exist_cf(db.default_column_family(), key(2050)).unwrap());
    db.get(key(1999)).unwrap();
    let (exists, value) = db.key_may_exist_value(key(1999)).unwrap();
    assert_eq!((exists, value.as_deref()), (true, Some(&b"value"[..])), "it is cached now");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn files_inside_a_range_go() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), DIR).unwrap();
    for from in [0, 100, 200] {
        fill(&db, from..from + 100, "value");
        db.flush().unwrap();
        db.compact_range(&Default::default(), Some(&key(from)), Some(&key(from + 99))).unwrap();
    }
    db.delete_files_in_range(Some(&key(50)), Some(&key(199))).unwrap();
    assert_eq!(db.iter().unwrap().count(), 200, "only what lies wholly inside");
    assert!(db.get(key(150)).unwrap().is_none() && db.get(key(60)).unwrap().is_some());
    db.delete_files_in_range_cf(db.default_column_family(), None, None).unwrap();
    assert_eq!(db.iter().unwrap().count(), 0);
    db.close().unwrap();
}

fn forward(cursor: &mut DbIterator, from: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    cursor.seek(from);
    while let Some(key) = cursor.key() {
        keys.push(key.to_vec());
        cursor.next();
    }
    cursor.status().unwrap();
    keys
}

#[pumice_test_macros::test]
fn a_tailing_cursor_follows_the_writes() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.prefix_extractor = Some(Arc::new(FixedPrefix(3)));
    let db = Db::open(&options, DIR).unwrap();
    let tailing = ReadOptions { tailing: true, ..Default::default() };
    let mut cursor = db.cursor_opt(&tailing).unwrap();
    let plain = db.cursor().unwrap();
    assert!(forward(&mut cursor, b"").is_empty());
    let mut next = 0;
    // Memtables, immutable ones, tables of L0 and below come and go under it.
    for round in 0..40 {
        fill(&db, next..next + 3, "value");
        match round % 8 {
            3 => db.flush().unwrap(),
            5 => db.delete_range(key(next), key(next + 2)).unwrap(),
            6 => db.compact_range(&Default::default(), None, None).unwrap(),
            7 => {
                let mut batch = WriteBatch::new();
                (next..next + 2).for_each(|n| batch.delete(key(n)));
                db.write(&mut batch).unwrap();
            }
            _ => {}
        }
        let came = forward(&mut cursor, &key(next));
        let want: Vec<_> = match round % 8 {
            5 | 7 => vec![key(next + 2)],
            _ => (next..next + 3).map(key).collect(),
        };
        assert_eq!(came, want, "round {round}");
        cursor.seek_for_prev(&key(next + 2));
        assert_eq!(cursor.key(), Some(&*key(next + 2)));
        cursor.seek_to_last();
        assert_eq!(cursor.key(), Some(&*key(next + 2)));
        next += 3;
    }
    cursor.seek(&key(next - 1));
    fill(&db, next..next + 1, "value");
    cursor.next();
    assert_eq!(cursor.key(), Some(&*key(next)));
    let by_prefix = ReadOptions { prefix_same_as_start: true, ..tailing.clone() };
    let mut scoped = db.cursor_opt(&by_prefix).unwrap();
    db.put("kez", "value").unwrap();
    assert_eq!(forward(&mut scoped, &key(next)).len(), 1);
    let mut plain = plain;
    assert!(forward(&mut plain, b"").is_empty(), "others see what was there");

    let snapshot = ReadOptions { snapshot: Some(db.snapshot()), ..tailing };
    assert_eq!(kind(db.cursor_opt(&snapshot)), Some(ErrorKind::InvalidArgument));
    drop(snapshot);
    // It keeps its view after the database is closed, and does not prevent the close.
    db.close().unwrap();
    drop(db);
    assert_eq!(forward(&mut cursor, &key(next - 1)), [key(next - 1), key(next)]);
    let again = Db::open(&options, DIR).unwrap();
    again.close().unwrap();
}

/// With a bound in the same prefix filters may be used; that is an option, on by default like
/// `async_io`.
#[pumice_test_macros::test]
fn prefix_filters_are_asked_if_allowed() {
    let default = ReadOptions::default();
    assert!(default.auto_prefix_mode && default.async_io);
    let statistics = Arc::new(Statistics::new());
    let counted = Arc::clone(&statistics);
    let (db, _) = uncached(|options| {
        options.db.statistics = Some(counted);
        options.cf.prefix_extractor = Some(Arc::new(FixedPrefix(9)));
        options.set("table_factory.filter_policy", "bloomfilter:20").unwrap();
    });
    for (auto_prefix_mode, asked) in [(false, false), (true, true)] {
        let bounded = ReadOptions {
            iterate_upper_bound: Some(b"key00010ax".to_vec()),
            auto_prefix_mode,
            ..Default::default()
        };
        let mut cursor = db.cursor_opt(&bounded).unwrap();
        cursor.seek(b"key00010ab");
        assert!(!cursor.valid());
        let filtered = statistics.take_ticker(Ticker::NonLastLevelSeekFiltered);
        assert_eq!(filtered > 0, asked, "auto_prefix_mode {auto_prefix_mode}: {filtered}");
    }
    db.close().unwrap();
}

/// A step from what was the last key finds what was written since, wherever it lies by then; with a
/// bound or at an older key nothing changes.
#[pumice_test_macros::test]
fn a_tailing_cursor_goes_on_at_its_end() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    db.put("a", "1").unwrap();
    let tailing = ReadOptions { tailing: true, ..Default::default() };
    let mut cursor = db.cursor_opt(&tailing).unwrap();
    let mut plain = db.cursor().unwrap();
    cursor.seek_to_first();
    plain.seek_to_first();
    db.put("b", "2").unwrap();
    db.put("A", "before it").unwrap();
    cursor.next();
    assert_eq!(cursor.item(), Some((&b"b"[..], &b"2"[..])));
    plain.next();
    assert_eq!(plain.key(), None);
    db.put("c", "3").unwrap();
    db.flush().unwrap();
    db.delete("c").unwrap();
    db.put("d", "4").unwrap();
    cursor.next();
    assert_eq!(cursor.item(), Some((&b"d"[..], &b"4"[..])), "from a table and a new memtable");
    cursor.next();
    assert_eq!(cursor.key(), None);
    db.put("e", "5").unwrap();
    cursor.next();
    assert_eq!(cursor.key(), None, "only a seek leaves the end");
    let bounded =
        ReadOptions { tailing: true, iterate_upper_bound: Some(b"b".to_vec()), ..tailing };
    let mut cursor = db.cursor_opt(&bounded).unwrap();
    cursor.seek("a");
    db.put("bb", "outside").unwrap();
    cursor.next();
    assert_eq!(cursor.key(), None);
    cursor.status().unwrap();
    db.close().unwrap();
}
