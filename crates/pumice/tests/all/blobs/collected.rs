//! Garbage collection: old blobs are written anew, and files without references go.

use std::path::PathBuf;
use std::sync::Arc;

use crate::blobs::theirs::{Theirs, blob_files, peer};
use crate::blobs::written::{compact, number, options};
use crate::common::{Scratch, contents, let_files_go};
use pumice::{ColumnFamilyDescriptor, CompactRangeOptions, Db, Statistics, Ticker};
use pumice_base::random::Rng;

#[pumice_test_macros::test]
fn old_blobs_are_written_anew_and_their_files_go() {
    let dir = Scratch::new("blob-gc");
    let mut options = options();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 0.5;
    options.cf.blob_compaction_readahead_size = 4096;
    let db = Db::open(&options, &dir.0).unwrap();
    for n in 0..4 {
        for key in 0..10 {
            db.put(format!("{n}{key}"), [b'a' + n; 50]).unwrap();
        }
        db.flush().unwrap();
    }
    let before = blob_files(&dir.0);
    assert_eq!(before.len(), 4);
    compact(&db);
    // The older two files became one.
    assert_eq!(statistics.ticker(Ticker::BlobDbGcNumKeysRelocated), 20);
    assert_eq!(statistics.ticker(Ticker::BlobDbGcBytesRelocated), 20 * 50);
    assert_eq!(number(&db, "num-blob-files"), 3);
    assert_eq!(number(&db, "live-blob-file-garbage-size"), 0);
    crate::common::let_files_go(&db);
    let after = blob_files(&dir.0);
    assert!(after.len() == 3 && after[..2] == before[2..], "{after:?}");
    // Values that are no longer large go to the tables.
    let all = contents(&db);
    db.set_options(&[("blob_garbage_collection_age_cutoff", "1.0"), ("min_blob_size", "51")])
        .unwrap();
    compact(&db);
    crate::common::let_files_go(&db);
    assert_eq!(blob_files(&dir.0), Vec::<PathBuf>::new());
    assert_eq!(contents(&db), all);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn nothing_is_left_after_all_keys_are_deleted() {
    let dir = Scratch::new("blob-gone");
    let mut options = options();
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    options.cf.blob_file_size = 2000;
    let db = Db::open(&options, &dir.0).unwrap();
    for n in 0..300 {
        db.put(format!("{n:03}"), vec![b'v'; 30 + n % 50]).unwrap();
        if n % 60 == 59 {
            db.flush().unwrap();
        }
    }
    let old = db.snapshot();
    for n in 0..300 {
        db.delete(format!("{n:03}")).unwrap();
    }
    compact(&db);
    assert!(number(&db, "num-blob-files") > 0, "a snapshot sees the values");
    let at = pumice::ReadOptions::at(&old);
    assert_eq!(db.get_opt(&at, "007").unwrap().unwrap().len(), 37);
    drop((at, old));
    compact(&db);
    crate::common::let_files_go(&db);
    assert_eq!(blob_files(&dir.0), Vec::<PathBuf>::new());
    db.close().unwrap();
}

/// The same operations and compactions, here and there, with old blobs relocated.
#[pumice_test_macros::test]
fn rocksdb_collects_the_same() {
    let Some(peer) = peer() else { return };
    for (seed, cutoff) in [(1, 0.25), (2, 0.6), (3, 1.0)] {
        println!("seed {seed}");
        let (ours, other) = (Scratch::new("gc-ours"), Scratch::new("gc-other"));
        let mut options = options();
        options.cf.blob_file_size = 3000;
        options.cf.enable_blob_garbage_collection = true;
        options.cf.blob_garbage_collection_age_cutoff = cutoff;
        let db = Db::open(&options, &ours.0).unwrap();
        let text = format!(
            "enable_blob_files=true;min_blob_size=30;blob_file_size=3000;\
             enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff={cutoff}"
        );
        let theirs = Theirs::open(&peer, &other.0, &text);
        let mut rng = Rng::new(seed);
        for n in 0..1000 {
            let key = format!("k{:03}", rng.uniform(150)).into_bytes();
            let value = vec![b'a' + rng.uniform(26) as u8; rng.uniform(100) as usize];
            match rng.uniform(10) {
                0 => {
                    db.delete(&key).unwrap();
                    theirs.delete(&key);
                }
                1 => {
                    db.merge(&key, &value).unwrap();
                    theirs.merge(&key, &value);
                }
                2 => {
                    let columns: [(&[u8], &[u8]); 2] = [(b"", &value), (b"n", &value)];
                    db.put_entity(&key, columns).unwrap();
                    theirs.put_entity(&key, &columns);
                }
                _ => {
                    db.put(&key, &value).unwrap();
                    theirs.put(&key, &value);
                }
            }
            if n % 125 == 124 {
                db.flush().unwrap();
                theirs.flush();
            }
            if n % 500 == 499 {
                compact(&db);
                theirs.compact();
                let stats = db.property("rocksdb.blob-stats").unwrap();
                assert_eq!(stats, theirs.property("rocksdb.blob-stats"), "after {n}");
            }
        }
        let expected = theirs.contents();
        assert_eq!(contents(&db), expected);
        db.close().unwrap();
        drop((db, theirs));
        let theirs = Theirs::open(&peer, &ours.0, &text);
        assert_eq!(theirs.contents(), expected);
    }
}

#[pumice_test_macros::test]
fn much_garbage_forces_compactions() {
    let dir = Scratch::new("blob-forced");
    let mut options = options();
    options.cf.disable_auto_compactions = false;
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 0.5;
    let db = Db::open(&options, &dir.0).unwrap();
    for file in 0..2 {
        for key in 0..10 {
            db.put(format!("{file}{key}"), [b'v'; 50]).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compact(&Default::default()).unwrap();
    }
    // Most of the first file becomes garbage, and its table still refers to the rest.
    for key in 0..8 {
        db.delete(format!("0{key}")).unwrap();
    }
    compact_without_collection(&db);
    assert_eq!(number(&db, "num-blob-files"), 2);
    assert_eq!(number(&db, "live-blob-file-garbage-size"), 8 * (32 + 2 + 50));
    db.wait_for_compact(&Default::default()).unwrap();
    assert_eq!(number(&db, "num-blob-files"), 2, "1.0 forces nothing");
    let before = contents(&db);
    db.set_options(&[("blob_garbage_collection_force_threshold", "0.7")]).unwrap();
    db.wait_for_compact(&Default::default()).unwrap();
    assert_eq!(number(&db, "live-blob-file-garbage-size"), 0, "the two were written anew");
    assert_eq!(contents(&db), before);
    db.close().unwrap();
}

fn compact_without_collection(db: &Db) {
    db.set_options(&[("enable_blob_garbage_collection", "false")]).unwrap();
    compact(db);
    db.set_options(&[("enable_blob_garbage_collection", "true")]).unwrap();
}

/// A caller decides for its compaction whether old blobs are written anew, and which are old.
#[pumice_test_macros::test]
fn a_manual_compaction_has_its_own_policy() {
    use pumice::{BlobGarbageCollectionPolicy as Policy, BottommostLevelCompaction};
    let old = |on: bool, policy: Policy, cutoff: f64| {
        let dir = Scratch::new("blob-policy");
        let mut options = options();
        options.cf.enable_blob_garbage_collection = on;
        options.cf.blob_garbage_collection_age_cutoff = 0.25;
        let db = Db::open(&options, &dir.0).unwrap();
        for n in 0..4 {
            db.put(format!("{n}"), [b'a' + n; 50]).unwrap();
            db.flush().unwrap();
        }
        let before = blob_files(&dir.0);
        assert_eq!(before.len(), 4);
        let how = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
            blob_garbage_collection_policy: policy,
            blob_garbage_collection_age_cutoff: cutoff,
            ..CompactRangeOptions::default()
        };
        db.compact_range(&how, None, None).unwrap();
        let_files_go(&db);
        assert_eq!(contents(&db).len(), 4);
        db.verify_checksum().unwrap();
        let after = blob_files(&dir.0);
        db.close().unwrap();
        before.iter().filter(|file| after.contains(file)).count()
    };
    assert_eq!(old(false, Policy::UseDefault, 1.0), 4);
    assert_eq!(old(true, Policy::UseDefault, -1.0), 3);
    assert_eq!(old(true, Policy::UseDefault, 0.5), 2);
    assert_eq!(old(true, Policy::Disable, 1.0), 4);
    assert_eq!(old(false, Policy::Force, -1.0), 3);
    assert_eq!(old(false, Policy::Force, 1.0), 0);
}

/// A secondary keeps what it shows open, blob files too, until it catches up.
#[pumice_test_macros::test]
fn a_secondary_reads_what_its_primary_deletes() {
    let dir = Scratch::new("blob-secondary");
    let beside = Scratch::new("blob-secondary-log");
    let mut options = options();
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    options.db.max_open_files = -1;
    let primary = Db::open(&options, &dir.0).unwrap();
    let (secondary, _) = Db::open_as_secondary(
        &options.db,
        &dir.0,
        &beside.0,
        &[ColumnFamilyDescriptor::new("default", options.cf.clone())],
    )
    .unwrap();
    primary.put("a", [b'v'; 100]).unwrap();
    primary.flush().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    let before = blob_files(&dir.0);
    compact(&primary);
    let_files_go(&primary);
    assert!(blob_files(&dir.0).iter().all(|file| !before.contains(file)), "it was relocated");
    assert_eq!(secondary.get("a").unwrap().as_deref(), Some(&[b'v'; 100][..]));
    secondary.close().unwrap();
    primary.close().unwrap();
}
