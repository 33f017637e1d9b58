//! Counts of what the same calls do in both engines: files opened by the first seek after each
//! flush while few may stay open, flushes after `write_buffer_size` became smaller, files that the
//! compaction of a range takes. Counts are asserted, times are printed (`-- --nocapture`). Their
//! figures are in docs/defects.md. Skipped with a message where the library is missing.

use std::path::Path;
use std::sync::Arc;

use pumice::{FlushOptions, ReadOptions, Statistics, Ticker, WriteOptions};
use pumice_peer::{ReadSettings, WriteSettings};
use pumice_port::time::now_micros;

use crate::peer;

/// The calls of a case, in either engine.
trait Engine {
    fn put(&self, key: &[u8], value: &[u8]);
    fn flush(&self);
    fn seek(&self, key: &[u8]);
    fn opens(&self) -> u64;
    fn set(&self, name: &str, value: &str);
    fn settle(&self);
    fn compact(&self, range: Option<(&[u8], &[u8])>);
    fn tables(&self) -> usize;
}

struct Ours {
    db: pumice::Db,
    statistics: Arc<Statistics>,
}

impl Ours {
    fn open(text: &str, path: &Path) -> Self {
        let statistics = Arc::new(Statistics::new());
        let mut options = pumice::Options::default();
        options.set_from_text(text).unwrap();
        options.db.statistics = Some(Arc::clone(&statistics));
        Ours { db: pumice::Db::open(&options, path).unwrap(), statistics }
    }
}

impl Engine for Ours {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put_opt(&WriteOptions::default(), key, value).unwrap();
    }
    fn flush(&self) {
        self.db.flush_opt(&FlushOptions::default()).unwrap();
    }
    fn seek(&self, key: &[u8]) {
        let mut iter = self.db.cursor_opt(&ReadOptions::default()).unwrap();
        iter.seek(key);
        assert!(iter.valid());
    }
    fn opens(&self) -> u64 {
        self.statistics.ticker(Ticker::NoFileOpens)
    }
    fn set(&self, name: &str, value: &str) {
        self.db.set_options(&[(name, value)]).unwrap();
    }
    fn settle(&self) {
        self.db.wait_for_compact(&pumice::WaitForCompactOptions::default()).unwrap();
    }
    fn compact(&self, range: Option<(&[u8], &[u8])>) {
        let (begin, end) = range.unzip();
        self.db.compact_range(&pumice::CompactRangeOptions::default(), begin, end).unwrap();
    }
    fn tables(&self) -> usize {
        self.db.live_files_metadata().len()
    }
}

struct Theirs {
    db: pumice_peer::Db,
    options: pumice_peer::Options,
    read: pumice_peer::ReadOptions,
    write: pumice_peer::WriteOptions,
}

impl Theirs {
    fn open(peer: &pumice_peer::Peer, text: &str, path: &Path) -> Self {
        let mut options = pumice_peer::Options::new(peer);
        options.set_many(text).unwrap();
        options.enable_statistics();
        let db = pumice_peer::Db::open(&options, path).unwrap();
        let read = pumice_peer::ReadOptions::new(peer, &ReadSettings::default());
        let write = pumice_peer::WriteOptions::new(peer, &WriteSettings::default());
        Theirs { db, options, read, write }
    }
}

impl Engine for Theirs {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put(&self.write, self.db.default_column_family(), key, value).unwrap();
    }
    fn flush(&self) {
        self.db.flush(self.db.default_column_family()).unwrap();
    }
    fn seek(&self, key: &[u8]) {
        let mut iter = self.db.iter(&self.read, self.db.default_column_family());
        iter.seek(key);
        assert!(iter.valid());
    }
    fn opens(&self) -> u64 {
        self.options.ticker("rocksdb.no.file.opens").unwrap()
    }
    fn set(&self, name: &str, value: &str) {
        self.db.set_options(self.db.default_column_family(), &[(name, value)]).unwrap();
    }
    fn settle(&self) {
        self.db.wait_for_compact(false).unwrap();
    }
    fn compact(&self, range: Option<(&[u8], &[u8])>) {
        let settings = pumice_peer::CompactRangeSettings::default();
        let (begin, end) = range.unzip();
        self.db.compact_range(self.db.default_column_family(), begin, end, &settings);
    }
    fn tables(&self) -> usize {
        self.db.live_files().len()
    }
}

/// More than may be open.
const FILES: u32 = 500;
const ROUNDS: u32 = 20;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Files opened and the median of microseconds, of the first seek after each of some flushes above
/// a last level of many files.
fn first_seeks(engine: &impl Engine) -> (u64, u64) {
    let mut micros = Vec::new();
    let mut opens = 0;
    for round in 0..ROUNDS {
        engine.put(&key(round * 7), b"newer");
        engine.flush();
        let (before, start) = (engine.opens(), now_micros());
        engine.seek(&key(FILES * 50));
        micros.push(now_micros() - start);
        opens += engine.opens() - before;
    }
    micros.sort_unstable();
    (opens, micros[micros.len() / 2])
}

/// Twenty megabytes after the limit fell from 64 to one: tables then.
fn flushes_of_a_smaller_limit(engine: &impl Engine) -> usize {
    engine.put(b"first", b"value");
    engine.set("write_buffer_size", "1048576");
    for n in 0..20_000 {
        engine.put(&key(n), &[b'v'; 1000]);
        if n % 250 == 0 {
            engine.settle(); // One flush takes all waiting memtables.
        }
    }
    engine.settle();
    engine.tables()
}

#[pumice_test_macros::test]
fn a_first_seek_opens_no_more_files_than_there() {
    let Some(peer) = peer() else { return };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let text = "create_if_missing=true;allow_fallocate=false;\
                disable_auto_compactions=true;max_open_files=50;\
                level0_slowdown_writes_trigger=9999;level0_stop_writes_trigger=9999;\
                target_file_size_base=100000;compression=kNoCompression";
    let fill = |engine: &dyn Engine| {
        for n in 0..FILES * 110 {
            engine.put(&key(n), &[b'v'; 1000]);
        }
        engine.flush();
        // Of two files that overlap the compaction moves neither.
        engine.put(&key(0), b"value");
        engine.put(&key(FILES * 110), b"value");
        engine.flush();
        engine.compact(None);
        assert!(engine.tables() > FILES as usize, "{} files", engine.tables());
    };
    let ours = Ours::open(text, &dir.path().join("ours"));
    fill(&ours);
    let theirs = Theirs::open(&peer, text, &dir.path().join("theirs"));
    fill(&theirs);
    let (mine, other) = (first_seeks(&ours), first_seeks(&theirs));
    println!("{ROUNDS} first seeks among {FILES} files, max_open_files=50:");
    println!("Pumice  {} opens, median {} us", mine.0, mine.1);
    println!("RocksDB {} opens, median {} us", other.0, other.1);
    assert!(mine.0 <= other.0 + u64::from(ROUNDS), "{mine:?} {other:?}");
}

#[pumice_test_macros::test]
fn a_smaller_write_buffer_flushes_as_often_as_there() {
    let Some(peer) = peer() else { return };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let text = "create_if_missing=true;allow_fallocate=false;\
                disable_auto_compactions=true;write_buffer_size=67108864;\
                level0_slowdown_writes_trigger=9999;level0_stop_writes_trigger=9999";
    let ours = flushes_of_a_smaller_limit(&Ours::open(text, &dir.path().join("ours")));
    let theirs = Theirs::open(&peer, text, &dir.path().join("theirs"));
    let theirs = flushes_of_a_smaller_limit(&theirs);
    println!("20 MB after write_buffer_size went from 64 MiB to 1 MiB:");
    println!("flushes: Pumice {ours}, RocksDB {theirs}");
    // Blocks of a memtable differ in size, so each is full at another entry.
    assert!((20..=30).contains(&ours) && (20..=30).contains(&theirs), "{ours} {theirs}");
}

/// Files after compactions of ranges with a key of a file and without one.
fn compacted_ranges(engine: &impl Engine) -> Vec<usize> {
    for keys in [[1, 9], [2, 8], [3, 5]] {
        for n in keys {
            engine.put(&key(n), b"value");
        }
        engine.flush();
    }
    let ranges = [(6, 7), (4, 4), (8, 8), (6, 6), (2, 2)];
    let files = ranges.map(|(begin, end)| {
        let (begin, end) = (key(begin), key(end));
        engine.compact(Some((&begin[..], &end[..])));
        engine.tables()
    });
    files.to_vec()
}

/// A range that lies between the keys of files is no reason to rewrite them.
#[pumice_test_macros::test]
fn a_compaction_of_a_range_takes_the_files_that_it_takes_there() {
    let Some(peer) = peer() else { return };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let text =
        "create_if_missing=true;allow_fallocate=false;disable_auto_compactions=true;num_levels=4";
    let ours = compacted_ranges(&Ours::open(text, &dir.path().join("ours")));
    let theirs = compacted_ranges(&Theirs::open(&peer, text, &dir.path().join("theirs")));
    assert_eq!(ours, theirs);
    assert_eq!(ours[..3], [3, 3, 1]);
}
