//! Counts of what the same calls do in both engines: files opened by the first seek after each
//! flush while few may stay open, flushes after `write_buffer_size` became smaller, files that the
//! compaction of a range takes. Counts are asserted, times are printed (`-- --nocapture`). Their
//! figures are in docs/defects.md. Skipped with a message where the library is missing.

use std::path::Path;

use pumice_peer::Peer;
use pumice_port::time::now_micros;
use pumice_testkit::Engine;
use pumice_testkit::store::{CursorSpec, Step};
use pumice_tests::stores::Settings;
use pumice_tests::stores::pumice::Pumice;
use pumice_tests::stores::rocksdb::RocksDb;

use crate::peer;

fn ours(text: &str, dir: &Path) -> Pumice {
    Pumice::open(&dir.join("ours"), &Settings::of(text, "").counted()).unwrap()
}

fn theirs(peer: &Peer, text: &str, dir: &Path) -> RocksDb {
    RocksDb::open(peer, &dir.join("theirs"), &Settings::of(text, "").counted()).unwrap()
}

/// Files opened so far.
fn opens(engine: &mut dyn Engine) -> u64 {
    engine.ticker("rocksdb.no.file.opens").unwrap()
}

/// More than may be open.
const FILES: u32 = 500;
const ROUNDS: u32 = 20;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Files opened and the median of microseconds, of the first seek after each of some flushes above
/// a last level of many files.
fn first_seeks(engine: &mut dyn Engine) -> (u64, u64) {
    let mut micros = Vec::new();
    let mut opened = 0;
    for round in 0..ROUNDS {
        engine.put(&key(round * 7), b"newer").unwrap();
        engine.flush(0).unwrap();
        let (before, start) = (opens(engine), now_micros());
        let at = engine.walk(&CursorSpec::default(), &[Step::Seek(key(FILES * 50))]).unwrap();
        micros.push(now_micros() - start);
        assert!(at.is_some());
        opened += opens(engine) - before;
    }
    micros.sort_unstable();
    (opened, micros[micros.len() / 2])
}

/// Twenty megabytes after the limit fell from 64 to one: tables then.
fn flushes_of_a_smaller_limit(engine: &mut dyn Engine) -> usize {
    engine.put(b"first", b"value").unwrap();
    engine.set_options(0, &[("write_buffer_size", "1048576")]).unwrap();
    for n in 0..20_000 {
        engine.put(&key(n), &[b'v'; 1000]).unwrap();
        if n % 250 == 0 {
            engine.settle().unwrap(); // One flush takes all waiting memtables.
        }
    }
    engine.settle().unwrap();
    engine.files().len()
}

#[pumice_test_macros::test]
fn a_first_seek_opens_no_more_files_than_there() {
    let Some(peer) = peer() else { return };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let text = "create_if_missing=true;allow_fallocate=false;\
                disable_auto_compactions=true;max_open_files=50;\
                level0_slowdown_writes_trigger=9999;level0_stop_writes_trigger=9999;\
                target_file_size_base=100000;compression=kNoCompression";
    let fill = |engine: &mut dyn Engine| {
        for n in 0..FILES * 110 {
            engine.put(&key(n), &[b'v'; 1000]).unwrap();
        }
        engine.flush(0).unwrap();
        // Of two files that overlap the compaction moves neither.
        engine.put(&key(0), b"value").unwrap();
        engine.put(&key(FILES * 110), b"value").unwrap();
        engine.flush(0).unwrap();
        engine.compact(0, None, None).unwrap();
        assert!(engine.files().len() > FILES as usize, "{} files", engine.files().len());
    };
    let mut ours = ours(text, dir.path());
    fill(&mut ours);
    let mut theirs = theirs(&peer, text, dir.path());
    fill(&mut theirs);
    let (mine, other) = (first_seeks(&mut ours), first_seeks(&mut theirs));
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
    let ours = flushes_of_a_smaller_limit(&mut ours(text, dir.path()));
    let theirs = flushes_of_a_smaller_limit(&mut theirs(&peer, text, dir.path()));
    println!("20 MB after write_buffer_size went from 64 MiB to 1 MiB:");
    println!("flushes: Pumice {ours}, RocksDB {theirs}");
    // Blocks of a memtable differ in size, so each is full at another entry.
    assert!((20..=30).contains(&ours) && (20..=30).contains(&theirs), "{ours} {theirs}");
}

/// Files after compactions of ranges with a key of a file and without one.
fn compacted_ranges(engine: &mut dyn Engine) -> Vec<usize> {
    for keys in [[1, 9], [2, 8], [3, 5]] {
        for n in keys {
            engine.put(&key(n), b"value").unwrap();
        }
        engine.flush(0).unwrap();
    }
    let ranges = [(6, 7), (4, 4), (8, 8), (6, 6), (2, 2)];
    let files = ranges.map(|(begin, end)| {
        let (begin, end) = (key(begin), key(end));
        engine.compact(0, Some(&begin), Some(&end)).unwrap();
        engine.files().len()
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
    let ours = compacted_ranges(&mut ours(text, dir.path()));
    let theirs = compacted_ranges(&mut theirs(&peer, text, dir.path()));
    assert_eq!(ours, theirs);
    assert_eq!(ours[..3], [3, 3, 1]);
}
