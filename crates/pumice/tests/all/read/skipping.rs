//! What reads pay for entries that they do not show, counted in entries, whichever way they move;
//! and that they show everything else.

use std::sync::Arc;

use crate::common::{DIR, contents, fill, flush, key, memory, options};
use pumice::options::merge_operator_by_name;
use pumice::perf::{self, PerfContext, PerfLevel, PerfMetric};
use pumice::{
    CompactFilesOptions, CompactRangeOptions, Db, FilterDecision, IngestExternalFileOptions,
    Options, ReadOptions, SstFileWriter, Statistics, Ticker, WriteOptions,
};

/// What `call` counted.
fn counted<T>(call: impl FnOnce() -> T) -> (T, PerfContext) {
    perf::set_level(PerfLevel::EnableCount);
    perf::reset();
    let result = call();
    let context = perf::context();
    perf::set_level(PerfLevel::Disable);
    (result, context)
}

/// Entries that were met and not shown.
fn skipped(context: &PerfContext) -> u64 {
    [
        PerfMetric::InternalKeySkippedCount,
        PerfMetric::InternalDeleteSkippedCount,
        PerfMetric::InternalRecentSkippedCount,
    ]
    .into_iter()
    .map(|metric| context.get(metric))
    .sum()
}

/// The key under a cursor that `go` has moved, and what it means to be there.
fn shown(
    db: &Db,
    at: &ReadOptions,
    go: impl FnOnce(&mut pumice::DbIterator),
) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut iter = db.cursor_opt(at).unwrap();
    go(&mut iter);
    iter.status().unwrap();
    iter.item().map(|(key, value)| (key.to_vec(), value.to_vec()))
}

/// A key that was overwritten very often costs a seek, not a step for each version, forwards and
/// backwards alike, whatever its newest version is and at any snapshot.
#[pumice_test_macros::test]
fn moving_back_over_many_versions_costs_a_seek() {
    for newest in ["put", "merge", "delete", "range"] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.cf.write_buffer_size = 64 << 20;
        options.cf.merge_operator = merge_operator_by_name("stringappend");
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        let db = Db::open(&options, DIR).unwrap();
        let to = WriteOptions::default();
        let put = |key: &[u8], value: &[u8]| db.put_opt(&to, key, value).unwrap();
        put(b"a", b"first");
        put(b"m", b"old");
        let early = db.snapshot();
        (0..5000).for_each(|_| put(b"m", b"x"));
        put(b"m", b"middle");
        let middle = db.snapshot();
        (0..5000).for_each(|_| put(b"m", b"y"));
        let last = match newest {
            "put" => Some("y"),
            "merge" => {
                db.merge_opt(&to, b"m", b"z").unwrap();
                Some("y,z")
            }
            "delete" => {
                db.delete_opt(&to, b"m").unwrap();
                None
            }
            _ => {
                db.delete_range_opt(&to, b"b", b"n").unwrap();
                None
            }
        };
        put(b"z", b"last");
        let now = ReadOptions::default();
        let at = |snapshot| ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
        let cases = [(now, last), (at(middle), Some("middle")), (at(early), Some("old"))];
        for (read, value) in cases {
            let text =
                |key: &str, value: &str| Some((key.as_bytes().to_vec(), value.as_bytes().to_vec()));
            let expected = value.map_or(text("a", "first"), |value| text("m", value));
            let reseeks = statistics.ticker(Ticker::NumberOfReseeksInIteration);
            let (found, context) = counted(|| {
                let one = shown(&db, &read, |iter| iter.seek_for_prev(b"n"));
                let two = shown(&db, &read, |iter| iter.seek_for_prev(b"m"));
                let three = shown(&db, &read, |iter| {
                    iter.seek(b"n");
                    if iter.valid() { iter.prev() } else { iter.seek_to_last() }
                });
                let four =
                    db.range_opt(&read, ..&b"n"[..]).unwrap().next_back().transpose().unwrap();
                [one, two, three, four]
            });
            assert!(found.iter().all(|one| *one == expected), "{newest}: {found:?}");
            let steps = context.get(PerfMetric::PrevOnMemtableCount)
                + context.get(PerfMetric::NextOnMemtableCount);
            assert!(steps < 120, "{newest}: {steps} steps");
            assert!(statistics.ticker(Ticker::NumberOfReseeksInIteration) >= reseeks + 4);
        }
        // And past the key, to the one before it.
        let before = shown(&db, &ReadOptions::default(), |iter| {
            iter.seek_to_last();
            while iter.key().is_some_and(|key| key > &b"a"[..]) {
                iter.prev();
            }
        });
        assert_eq!(before.unwrap().0, b"a");
        db.close().unwrap();
    }
}

/// Keys of a queue: at the back one more in each round, from the front one less.
struct Queue {
    options: Options,
    db: Db,
    front: u64,
    back: u64,
    /// Entries go the other way round: the newest has the smallest key.
    downwards: bool,
}

impl Queue {
    const LEN: u64 = 100;

    fn new(downwards: bool) -> Self {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.cf.write_buffer_size = 256 << 10;
        let db = Db::open(&options, DIR).unwrap();
        let mut queue = Queue { options, db, front: 0, back: 0, downwards };
        (0..Self::LEN).for_each(|_| queue.push());
        queue
    }

    fn key(&self, number: u64) -> [u8; 8] {
        (if self.downwards { u64::MAX - number } else { number }).to_be_bytes()
    }

    fn push(&mut self) {
        let key = self.key(self.back);
        self.db.put_opt(&WriteOptions::default(), &key, &[7; 50]).unwrap();
        self.back += 1;
    }

    /// Returns what finding the front skipped.
    fn round(&mut self) -> u64 {
        self.push();
        let downwards = self.downwards;
        let (found, context) = counted(|| {
            shown(&self.db, &ReadOptions::default(), |iter| match downwards {
                true => iter.seek_to_last(),
                false => iter.seek_to_first(),
            })
        });
        assert_eq!(found.unwrap().0, self.key(self.front));
        self.db.delete_opt(&WriteOptions::default(), self.key(self.front)).unwrap();
        self.front += 1;
        // Going backwards, dead keys are no entries "skipped" but steps.
        skipped(&context) + context.get(PerfMetric::PrevOnMemtableCount)
    }

    fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = Db::open(&self.options, DIR).unwrap();
    }
}

/// `PUMICE_QUEUE_ROUNDS=1000000` for the long form.
#[pumice_test_macros::test]
fn a_queue_of_keys_costs_the_same_after_any_number_of_rounds() {
    const WINDOW: u64 = 1000;
    let rounds = std::env::var("PUMICE_QUEUE_ROUNDS").map_or(12_000, |text| text.parse().unwrap());
    for downwards in [false, true] {
        let mut queue = Queue::new(downwards);
        let mut windows = Vec::new();
        for window in 0..rounds / WINDOW {
            if window % 4 == 3 {
                queue.reopen();
            }
            windows.push((0..WINDOW).map(|_| queue.round()).sum::<u64>());
        }
        let most = *windows.iter().max().unwrap();
        println!("downwards {downwards}: first {} most {most} of {}", windows[0], windows.len());
        assert!(most <= 2 * windows[0].max(WINDOW), "{windows:?}");
        assert_eq!(contents(&queue.db).len() as u64, Queue::LEN);
        queue.db.close().unwrap();
    }
}

/// A database with a thousand keys, of which those in the middle were deleted, and a reader has
/// said so.
fn hollow(options: &Options) -> Db {
    let db = Db::open(options, DIR).unwrap();
    fill(&db, 0..1000, "old");
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    for n in 100..900 {
        db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
    }
    let (all, first) = counted(|| contents(&db).len());
    let (again, second) = counted(|| contents(&db).len());
    assert_eq!((all, again), (200, 200));
    // A step from a key that is shown counts too.
    let (first, second) = (skipped(&first) - 200, skipped(&second) - 200);
    assert!(first > 800 && second < 40, "{first} then {second}");
    db
}

/// A range in which nothing was visible is no longer one once something is written there, by any
/// way of writing; and before, older snapshots read it.
#[pumice_test_macros::test]
fn what_is_written_where_nothing_was_visible_is_shown() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.merge_operator = merge_operator_by_name("stringappend");
    let table = "/in.sst";
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open(table).unwrap();
    writer.put(&key(500), b"ingested").unwrap();
    writer.finish().unwrap();
    for how in ["put", "merge", "ingest", "flushed", "delete files"] {
        let (_, fs) = memory();
        let mut options = options.clone();
        if how != "ingest" {
            options.db.file_system = fs;
        }
        let db = hollow(&options);
        let to = WriteOptions::default();
        let expected = match how {
            "put" => db.put_opt(&to, &key(500), b"new").map(|()| 201),
            "merge" => db.merge_opt(&to, &key(500), b"new").map(|()| 201),
            "ingest" => {
                let how = IngestExternalFileOptions::default();
                db.ingest_external_file(&how, &[table]).map(|()| 201)
            }
            "flushed" => {
                flush(&db);
                assert_eq!(contents(&db).len(), 200);
                db.put_opt(&to, &key(899), b"new").map(|()| 201)
            }
            // Whether deleted keys come back is not said; that all readers find the same is.
            _ => db.delete_files_in_ranges(&[(None, None)], true).map(|()| 0),
        };
        let expected = expected.unwrap();
        for _ in 0..3 {
            assert_eq!(contents(&db).len(), expected, "{how}");
            let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
            iter.seek_to_last();
            let mut count = 0;
            while iter.valid() {
                count += 1;
                iter.prev();
            }
            assert_eq!(count, expected, "{how}");
        }
        db.close().unwrap();
        Db::destroy(&options, DIR).unwrap();
    }
}

/// Snapshots from before a range died read all that they should, before and after it was flushed as
/// a range tombstone.
#[pumice_test_macros::test]
fn snapshots_read_what_died_later() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..1000, "old");
    flush(&db);
    let before = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    for n in 100..500 {
        db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
    }
    let halfway = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    for n in 500..900 {
        db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
    }
    let count = |read: &ReadOptions| db.iter_opt(read).unwrap().count();
    let counts = || [count(&ReadOptions::default()), count(&halfway), count(&before)];
    for _ in 0..2 {
        assert_eq!(counts(), [200, 600, 1000]);
    }
    flush(&db);
    assert_eq!(counts(), [200, 600, 1000]);
    let properties = db.property("rocksdb.aggregated-table-properties").unwrap();
    assert!(properties.contains("# range deletions=1;"), "{properties}");
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(counts(), [200, 600, 1000]);
    db.close().unwrap();
}

/// A flush does not write deletions of which no table has anything, but those that hide something.
#[pumice_test_macros::test]
fn deletions_of_what_is_nowhere_are_not_written() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..100, "old");
    flush(&db);
    fill(&db, 200..300, "new");
    for n in (0..100).step_by(2).chain(200..290) {
        db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
    }
    flush(&db);
    let properties = db.property("rocksdb.aggregated-table-properties").unwrap();
    assert!(properties.contains("# deletions=50;"), "{properties}");
    assert_eq!(contents(&db).len(), 60);
    db.close().unwrap();
}

/// A filter removes a key among deleted ones. Who reads afterwards finds nothing there and says so;
/// a cursor and a snapshot from before still show the key, also when the memtable is sealed.
#[pumice_test_macros::test]
fn what_a_filter_removed_stays_for_older_readers() {
    for written in [false, true] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.cf.disable_auto_compactions = true;
        options.cf.min_tombstones_for_range_conversion = 4;
        let removes = |_: i32, key: &[u8], _: &[u8]| match key {
            b"k050x" => FilterDecision::Remove,
            _ => FilterDecision::Keep,
        };
        options.cf.set_compaction_filter("removes", removes);
        let db = Db::open(&options, DIR).unwrap();
        let keys: Vec<String> = (0..100).map(|n| format!("k{n:03}")).collect();
        keys.iter().for_each(|key| db.put(key, "v").unwrap());
        db.put("k050x", "kept").unwrap();
        db.flush().unwrap();
        keys.iter().for_each(|key| db.delete(key).unwrap());
        let mut old = db.cursor().unwrap();
        let files: Vec<String> =
            db.live_files_metadata().iter().map(|file| file.name.clone()).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        db.compact_files(&CompactFilesOptions::default(), &files, 1).unwrap();
        let mut new = db.cursor().unwrap();
        new.seek_to_first();
        assert!(new.key().is_none(), "{written}");
        if written {
            db.flush().unwrap();
        }
        old.seek_to_first();
        assert_eq!(old.item(), Some((&b"k050x"[..], &b"kept"[..])), "{written}");
        old.seek_to_last();
        assert_eq!(old.key(), Some(&b"k050x"[..]), "{written}");
    }
}

/// A snapshot that is older than the memtable finds a range empty in which another key was written
/// before the memtable began: later readers see that key.
#[pumice_test_macros::test]
fn an_old_snapshot_says_nothing_about_what_came_before_the_memtable() {
    for flushed in [false, true] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.cf.disable_auto_compactions = true;
        options.cf.min_tombstones_for_range_conversion = 4;
        let db = Db::open(&options, DIR).unwrap();
        let keys: Vec<String> = (0..100).map(|n| format!("k{n:03}")).collect();
        keys.iter().for_each(|key| db.put(key, "v").unwrap());
        keys.iter().for_each(|key| db.delete(key).unwrap());
        let old = db.snapshot();
        db.put("k050", "new").unwrap();
        // Another memtable begins, after a flush or because the first is full.
        if flushed {
            db.flush().unwrap();
        } else {
            db.set_options(&[("write_buffer_size", "65536")]).unwrap();
            db.put("a", vec![b'x'; 70_000]).unwrap();
            db.put("b", "y").unwrap();
        }
        let at = ReadOptions { snapshot: Some(old.clone()), ..ReadOptions::default() };
        assert_eq!(shown(&db, &at, |iter| iter.seek(b"c")), None, "{flushed}");
        assert_eq!(shown(&db, &at, |iter| iter.seek_to_last()), None, "{flushed}");
        let now = ReadOptions::default();
        let wanted = Some((b"k050".to_vec(), b"new".to_vec()));
        assert_eq!(shown(&db, &now, |iter| iter.seek(b"c")), wanted, "{flushed}");
        assert_eq!(shown(&db, &now, |iter| iter.seek_to_last()), wanted, "{flushed}");
    }
}
