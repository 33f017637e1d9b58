//! Values in blob files of keys with timestamps: what either engine writes is read by the other,
//! garbage is counted the same, and copies of a database have them.
//!
//! RocksDB 11.8.1 does not read all that it writes: an entry of old history loses its timestamp in
//! the last level and the record of its blob does not, and a cursor that goes backwards asks for
//! the base of a merge with the wrong timestamp. Both are Corruption there. Pumice reads the
//! former.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice::backup::BackupEngine;
use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, FileSystem, GetMergeOperandsOptions, Options,
    PosixFs, WriteBatch,
};
use pumice_base::random::Rng;

use super::sides::{Ours, Row, Side, Theirs, VersionRow, Walk};
use super::{message, text, timed, unkept};
use crate::blobs::theirs::{blob_files, copy_dir, peer};
use crate::common::{DIR, Scratch, flush, let_files_go};

const BLOBS: &str = "enable_blob_files=true;min_blob_size=20;blob_file_size=3000;\
                     disable_auto_compactions=true";
const UNKEPT: &str = ";persist_user_defined_timestamps=false;allow_concurrent_memtable_write=false";

/// Values of `min` bytes and more go to small blob files, of which old ones are written anew.
pub fn separate(cf: &mut ColumnFamilyOptions, min: u64, collects: bool) {
    (cf.enable_blob_files, cf.min_blob_size, cf.blob_file_size) = (true, min, 3000);
    cf.enable_blob_garbage_collection = collects;
    cf.blob_garbage_collection_age_cutoff = 0.5;
}

fn options(fs: &Arc<dyn FileSystem>, keeps: bool) -> Options {
    let mut options = if keeps { timed(fs) } else { unkept(fs) };
    separate(&mut options.cf, 20, false);
    options.cf.disable_auto_compactions = true;
    options
}

fn ours(path: &Path, keeps: bool, collects: bool) -> Ours {
    let mut options = options(&(Arc::new(PosixFs) as _), keeps);
    options.cf.enable_blob_garbage_collection = collects;
    Ours::open(options, path)
}

/// Writes at these times: long and short values, deletions, and operands with `merges`.
fn write(side: &mut dyn Side, (rng, merges): (&mut Rng, bool), times: std::ops::Range<u64>) {
    for time in times {
        let mut batch = WriteBatch::new();
        // Between keys without operands and those with some, which versions are not shown of.
        batch.put_cf_with_ts(0, "l", time.to_le_bytes(), "between");
        for _ in 0..8 {
            let key = format!("key{:02}", rng.uniform(40));
            let value = format!("{time}-").repeat(1 + rng.uniform(20) as usize);
            match rng.uniform(8) {
                0 => batch.delete_cf_with_ts(0, key, time.to_le_bytes()),
                1 if merges => {
                    batch.merge_cf_with_ts(0, format!("m{key}"), time.to_le_bytes(), value)
                }
                2 => batch.put_cf_with_ts(0, format!("m{key}"), time.to_le_bytes(), value),
                _ => batch.put_cf_with_ts(0, key, time.to_le_bytes(), value),
            }
        }
        side.write(&batch);
        if time % 4 == 0 {
            side.flush();
        }
    }
    side.flush();
}

/// Rows of two walks, and versions.
type Answers = (Vec<Row>, Vec<VersionRow>);

/// All that can be read at `times`.
fn answers(side: &dyn Side, times: std::ops::Range<u64>) -> Vec<Answers> {
    let bare = Walk { upper: Some(b"l".to_vec()), ..Walk::default() };
    let read = |time| {
        let rows = side.walk(time, &Walk::default()).unwrap();
        for (key, at, value) in &rows {
            let (found, found_at) = side.get(time, key).unwrap().unwrap();
            assert_eq!(found, *value);
            // RocksDB gives merged values the time of their base.
            assert!(found_at == *at || side.name() == "RocksDB");
        }
        let mut back = side.walk(time, &Walk { backward: true, ..bare.clone() }).unwrap();
        back.reverse();
        let plain: Vec<_> = rows.iter().filter(|row| row.0[0] == b'k').cloned().collect();
        assert_eq!(plain, back, "{}", side.name());
        if side.name() == "Pumice" {
            let all = Walk { backward: true, ..Walk::default() };
            let mut back = side.walk(time, &all).unwrap();
            back.reverse();
            assert_eq!(rows, back);
        }
        (rows, side.versions(0, time, &bare).unwrap())
    };
    times.map(read).collect()
}

/// The same answers; without the times and versions of entries if these may be `gone`.
fn check(found: &[Answers], expected: &[Answers], gone: bool) {
    assert_eq!(found.len(), expected.len());
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        let rows = |(rows, _): &Answers| {
            let timeless = |r: &Row| (r.0.clone(), if gone { 0 } else { r.1 }, r.2.clone());
            rows.iter().map(timeless).collect::<Vec<_>>()
        };
        same(&rows(found), &rows(expected), n);
        if !gone {
            // Deletions that have lost their time may be gone.
            let versions = |(_, versions): &Answers| {
                let stays = |v: &&VersionRow| v.1 > 0 || v.2.is_some();
                versions.iter().filter(stays).cloned().collect::<Vec<_>>()
            };
            same(&versions(found), &versions(expected), n);
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T], n: usize) {
    let other = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert!(other.is_none(), "time {n}: {other:?}");
    assert_eq!(found.len(), expected.len(), "time {n}");
}

fn stats(db: &Db) -> String {
    db.property("rocksdb.blob-stats").unwrap()
}

fn their_stats(theirs: &Theirs<'_>) -> String {
    let family = theirs.db().default_column_family();
    theirs.db().property(family, "rocksdb.blob-stats").unwrap()
}

// Plain #[test]: the engines work on real files, and RocksDB has its own threads.
#[test]
fn databases_with_blobs_go_from_one_engine_to_the_other() {
    let Some(peer) = peer() else { return };
    for (seed, keeps, merges) in [(1, true, false), (2, false, true), (3, true, true)] {
        println!("seed {seed}");
        let (dir, copy) = (Scratch::new("timed-blobs"), Scratch::new("timed-blobs-copy"));
        let mut rng = Rng::new(seed);
        let text = format!("{BLOBS}{}", if keeps { "" } else { UNKEPT });
        let times = |end: u64| if keeps { 1..end } else { end..end + 2 };
        // What each leaves, the other reads, and writes on.
        let mut side = Theirs::open(&peer, &dir.0, &text);
        write(&mut side, (&mut rng, merges), 1..10);
        let before = answers(&side, times(10));
        drop(side);
        assert!(blob_files(&dir.0).len() > 2);
        let mut side = ours(&dir.0, keeps, false);
        check(&answers(&side, times(10)), &before, false);
        write(&mut side, (&mut rng, merges), 10..19);
        let before = answers(&side, times(19));
        side.db().verify_checksum().unwrap();
        drop(side);
        let side = Theirs::open(&peer, &dir.0, &text);
        check(&answers(&side, times(19)), &before, false);
        drop(side);

        // The same files, compacted by either, have the same garbage.
        copy_dir(&dir.0, &copy.0);
        let side = Theirs::open(&peer, &copy.0, &text);
        side.compact(None);
        check(&answers(&side, times(19)), &before, false);
        let expected = their_stats(&side);
        assert!(keeps || !expected.contains("garbage in blob files: 0"), "{expected}");
        drop(side);
        let side = ours(&dir.0, keeps, false);
        side.compact(None);
        check(&answers(&side, times(19)), &before, false);
        // Only here the last operand of a key becomes a value while all times are kept.
        if !(keeps && merges) {
            assert_eq!(stats(side.db()), expected);
        }
        drop(side);
        check(&answers(&Theirs::open(&peer, &dir.0, &text), times(19)), &before, false);
        check(&answers(&ours(&copy.0, keeps, false), times(19)), &before, false);

        // Old blobs are written anew, by either.
        let collecting = format!(
            "{text};enable_blob_garbage_collection=true;\
                                  blob_garbage_collection_age_cutoff=0.5"
        );
        let side = Theirs::open(&peer, &copy.0, &collecting);
        side.compact(None);
        let expected = their_stats(&side);
        drop(side);
        let side = ours(&dir.0, keeps, true);
        side.compact(None);
        if !(keeps && merges) {
            assert_eq!(stats(side.db()), expected);
        }
        side.db().verify_checksum().unwrap();
        drop(side);
        check(&answers(&Theirs::open(&peer, &dir.0, &text), times(19)), &before, false);
        check(&answers(&ours(&copy.0, keeps, false), times(19)), &before, false);
    }
}

/// History that goes: RocksDB reads what is left here, and what it cannot read of its own is read
/// here.
// Plain #[test]: the engines work on real files, and RocksDB has its own threads.
#[test]
fn what_loses_its_timestamp_keeps_its_value() {
    let Some(peer) = peer() else { return };
    // What RocksDB's compactions make of operands is another thing.
    for (collects, merges) in [(false, false), (true, false), (false, true), (true, true)] {
        let (dir, copy) = (Scratch::new("old-blobs"), Scratch::new("old-blobs-copy"));
        let mut side = ours(&dir.0, true, collects);
        write(&mut side, (&mut Rng::new(5), merges), 1..20);
        let before = answers(&side, 15..21);
        drop(side);
        copy_dir(&dir.0, &copy.0);
        let collecting = if collects { ";enable_blob_garbage_collection=true" } else { "" };
        let text = format!("{BLOBS}{collecting}");

        if !merges {
            compacted_there(&Theirs::open(&peer, &copy.0, &text));
            let mut side = ours(&copy.0, true, collects);
            for _ in 0..2 {
                check(&answers(&side, 15..21), &before, true);
                side.db().verify_checksum().unwrap();
                side.compact(None);
                side.reopen();
            }
        }
        let mut side = ours(&dir.0, true, collects);
        side.raise(15).unwrap();
        side.compact(None);
        for _ in 0..2 {
            check(&answers(&side, 15..21), &before, true);
            side.db().verify_checksum().unwrap();
            side.reopen();
        }
        drop(side);
        let side = Theirs::open(&peer, &dir.0, &text);
        check(&answers(&side, 15..21), &before, true);
    }
}

/// Takes timestamps from entries, and leaves them in the records of their blobs.
fn compacted_there(side: &Theirs<'_>) {
    side.raise(15).unwrap();
    side.compact(None);
    let error = side.walk(20, &Walk::default()).unwrap_err();
    assert_eq!(error, "Corruption: Key mismatch when reading blob");
}

/// An order that comes or goes would change the keys of records: RocksDB opens such a database, and
/// cannot read the values.
#[pumice_test_macros::test]
fn blob_files_keep_a_family_from_gaining_or_losing_timestamps() {
    let fs = crate::common::memory().1;
    let mut plain = crate::common::options(&fs);
    separate(&mut plain.cf, 20, false);
    let long = "v".repeat(50);
    let db = Db::open(&plain, DIR).unwrap();
    db.put("k", &long).unwrap();
    flush(&db);
    db.close().unwrap();
    let mut with_times = unkept(&fs);
    for separates in [false, true] {
        with_times.cf.enable_blob_files = separates;
        let named = message(Db::open(&with_times, DIR));
        assert!(named.contains("blob files"), "{named}");
    }
    // Without blob files it may.
    plain.cf.enable_blob_files = false;
    let db = Db::open(&plain, DIR).unwrap();
    db.set_options(&[
        ("enable_blob_garbage_collection", "true"),
        ("blob_garbage_collection_age_cutoff", "1.0"),
    ])
    .unwrap();
    crate::blobs::written::compact(&db);
    db.close().unwrap();
    separate(&mut with_times.cf, 20, false);
    let db = Db::open(&with_times, DIR).unwrap();
    assert_eq!(text(&db, 1, "k").as_deref(), Some(&long[..]));
    db.at(2).put("k", long.repeat(2)).unwrap();
    flush(&db);
    assert_eq!(text(&db, 3, "k"), Some(long.repeat(2)));
    db.close().unwrap();
    let named = message(Db::open(&plain, DIR));
    assert!(named.contains("blob files"), "{named}");
    let db = Db::open(&with_times, DIR).unwrap();
    assert_eq!(text(&db, 3, "k"), Some(long.repeat(2)));
    db.close().unwrap();
}

/// Checkpoints, backups and followers have the values; without a reference no file is left.
#[pumice_test_macros::test]
fn copies_have_the_values_and_no_file_is_left_without_references() {
    for keeps in [true, false] {
        let dir = Scratch::new("timed-blob-copies");
        let path = |name: &str| -> PathBuf { dir.0.join(name) };
        let mut side = ours(&path("db"), keeps, true);
        write(&mut side, (&mut Rng::new(7), true), 1..16);
        let times = if keeps { 1..17 } else { 16..18 };
        let expected = answers(&side, times.clone());
        let options = options(&(Arc::new(PosixFs) as _), keeps);
        side.db().checkpoint(path("checkpoint")).unwrap();
        check(&answers(&ours(&path("checkpoint"), keeps, false), times.clone()), &expected, false);

        let backups = BackupEngine::open(Arc::new(PosixFs), path("backups")).unwrap();
        backups.create_backup(side.db(), false, b"").unwrap();
        let restored = path("restored");
        backups.restore_latest_backup(&restored, &restored).unwrap();
        check(&answers(&ours(&restored, keeps, false), times.clone()), &expected, false);

        let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
        let follower = path("follower");
        let (follower, _) =
            Db::open_as_secondary(&options.db, path("db"), follower, &families).unwrap();
        for (key, _, value) in &expected.last().unwrap().0 {
            let found = follower.at(16).get(key).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]));
        }
        follower.close().unwrap();

        let mut batch = WriteBatch::new();
        batch.delete_range_cf_with_ts(0, "k", "z", 20u64.to_le_bytes());
        side.write(&batch);
        side.flush();
        if keeps {
            side.raise(21).unwrap();
        }
        side.compact(None);
        assert_eq!(side.walk(21, &Walk::default()).unwrap(), []);
        let_files_go(side.db());
        assert_eq!(blob_files(&path("db")), Vec::<PathBuf>::new());
    }
}

/// Reads, and writes that read, of operands over a value of an earlier time in a blob file.
#[pumice_test_macros::test]
fn reads_below_operands_find_the_blob_of_an_earlier_time() {
    for (keeps, resolves) in [(true, false), (false, false), (true, true)] {
        let mut options = options(&crate::common::memory().1, keeps);
        options.cf.max_successive_merges = usize::from(resolves);
        options.cf.strict_max_successive_merges = true;
        let db = Db::open(&options, DIR).unwrap();
        let base = "b".repeat(40);
        db.at(1).put("m", &base).unwrap();
        flush(&db);
        db.at(3).merge("m", "3").unwrap();
        db.at(3).merge("m", "4").unwrap();
        let whole = format!("{base},3,4");
        assert_eq!(text(&db, 9, "m").as_ref(), Some(&whole));
        let rows: Vec<_> = db.at(9).range(..).unwrap().map(|row| row.unwrap().1).collect();
        assert_eq!(rows, [whole.as_bytes()]);
        let rows: Vec<_> = db.at(9).range(..).unwrap().rev().map(|row| row.unwrap().1).collect();
        assert_eq!(rows, [whole.as_bytes()]);
        let (family, mut count) = (db.default_column_family(), 0);
        let (read, how) = (db.at(9).read_options(), GetMergeOperandsOptions::at_most(5));
        let found = db.get_merge_operands_cf_opt(&read, family, "m", &how, &mut count).unwrap();
        let found: Vec<&[u8]> = found.iter().map(|operand| &operand[..]).collect();
        match resolves {
            // Each was merged as it was written.
            true => assert_eq!(found, [whole.as_bytes()]),
            false => assert_eq!(found, [base.as_bytes(), b"3", b"4"]),
        }
        db.close().unwrap();
    }
}

/// An entry of old history has the sequence number 0 in the last level, so that nothing has its
/// file compacted again.
#[pumice_test_macros::test]
fn old_entries_keep_their_time_and_lose_their_sequence_number() {
    let files = crate::common::memory().1;
    let side = Ours::open(options(&files, true), DIR.as_ref());
    let db = side.db();
    for time in 1..4 {
        db.at(time).put("k", "v".repeat(20 + time as usize)).unwrap();
        flush(db);
    }
    side.raise(10).unwrap();
    side.compact(None);
    let found = side.get(20, b"k").unwrap();
    assert_eq!(found, Some(("v".repeat(23).into_bytes(), 3)));
    let metadata = db.live_files_metadata();
    assert_eq!((metadata.len(), metadata[0].num_entries, metadata[0].largest_seq), (1, 1, 0));
    db.verify_checksum().unwrap();
}
