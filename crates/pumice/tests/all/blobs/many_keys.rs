//! A large database of RocksDB 11.8.1's with blob files goes back and forth: overwrites, deletions,
//! merges and entities on both sides, compactions with garbage collection, all against a model.
//!
//! Size: 4,000 keys; `PUMICE_BLOB_KEYS=200000` sets another number.

use std::collections::BTreeMap;

use crate::blobs::theirs::{Contents, Theirs, blob_files, peer};
use crate::common::Scratch;
use pumice::{CompactRangeOptions, Db, Options};
use pumice_base::random::Rng;

const BLOBS: &str = "enable_blob_files=true;min_blob_size=200;blob_file_size=2000000;\
                     blob_compression_type=kLZ4Compression;enable_blob_garbage_collection=true;\
                     blob_garbage_collection_age_cutoff=0.5;write_buffer_size=4000000";

/// What the database holds: the values of plain keys, and default columns of entities.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

enum Step {
    Put(Vec<u8>),
    Entity(Vec<u8>, Vec<u8>),
    Merge(Vec<u8>),
    Delete,
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:07}").into_bytes()
}

/// Mostly below a kilobyte, a few of 20.
fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.uniform(50) {
        0 => rng.uniform(20_000),
        _ => rng.uniform(700),
    };
    let mut value = vec![b'a' + rng.uniform(26) as u8; len as usize];
    for at in (0..value.len()).step_by(3) {
        value[at] = rng.uniform(256) as u8;
    }
    value
}

/// The next step about a key, which the model takes.
fn step(rng: &mut Rng, model: &mut Model, at: &[u8]) -> Step {
    match rng.uniform(20) {
        0..=12 => {
            let value = value(rng);
            model.insert(at.to_vec(), value.clone());
            Step::Put(value)
        }
        13..=14 => {
            let (default, other) = (value(rng), value(rng));
            model.insert(at.to_vec(), default.clone());
            Step::Entity(default, other)
        }
        15..=16 => {
            let operand = value(rng);
            let before = model.entry(at.to_vec());
            before
                .and_modify(|value| {
                    value.push(b',');
                    value.extend_from_slice(&operand);
                })
                .or_insert_with(|| operand.clone());
            Step::Merge(operand)
        }
        _ => {
            model.remove(at);
            Step::Delete
        }
    }
}

/// `count` steps about random keys, and one about each key before that if `all`.
fn steps(keys: u64, count: u64, all: bool, rng: &mut Rng, each: &mut dyn FnMut(u64, &mut Rng)) {
    if all {
        (0..keys).for_each(|n| each(n, rng));
    }
    for _ in 0..count {
        let n = rng.uniform(keys);
        each(n, rng);
    }
}

fn write_theirs(theirs: &Theirs<'_>, model: &mut Model, (keys, count): (u64, u64), rng: &mut Rng) {
    let all = model.is_empty();
    steps(keys, count, all, rng, &mut |n, rng| {
        let at = key(n);
        match step(rng, model, &at) {
            Step::Put(value) => theirs.put(&at, &value),
            Step::Entity(default, other) => {
                theirs.put_entity(&at, &[(b"", &default), (b"other", &other)]);
            }
            Step::Merge(operand) => theirs.merge(&at, &operand),
            Step::Delete => theirs.delete(&at),
        }
    });
    theirs.flush();
}

fn write_ours(db: &Db, model: &mut Model, (keys, count): (u64, u64), rng: &mut Rng) {
    steps(keys, count, false, rng, &mut |n, rng| {
        let at = key(n);
        match step(rng, model, &at) {
            Step::Put(value) => db.put(&at, value).unwrap(),
            Step::Entity(default, other) => {
                db.put_entity(&at, [("", default), ("other", other)]).unwrap();
            }
            Step::Merge(operand) => db.merge(&at, operand).unwrap(),
            Step::Delete => db.delete(&at).unwrap(),
        }
    });
    db.flush().unwrap();
}

fn assert_same(found: &Contents, model: &Model) {
    assert_eq!(found.len(), model.len());
    for ((key, value), (known, expected)) in found.iter().zip(model) {
        // Not the values themselves: they are long.
        let name = String::from_utf8_lossy(known);
        assert!(key == known && value == expected, "{name}: {} bytes", value.len());
    }
}

fn ours(db: &Db) -> Contents {
    db.iter().unwrap().map(|entry| entry.unwrap()).collect()
}

#[pumice_test_macros::test]
fn a_large_database_goes_back_and_forth() {
    let Some(peer) = peer() else { return };
    let keys = std::env::var("PUMICE_BLOB_KEYS");
    let keys: u64 = keys.map_or(4000, |text| text.parse().expect("PUMICE_BLOB_KEYS: a number"));
    println!("seed 61, {keys} keys");
    let dir = Scratch::new("blob-many");
    let (mut rng, mut model) = (Rng::new(61), Model::new());
    let theirs = Theirs::open(&peer, &dir.0, BLOBS);
    write_theirs(&theirs, &mut model, (keys, keys), &mut rng);
    assert_same(&theirs.contents(), &model);
    drop(theirs);

    let mut options = Options::new();
    options.set("merge_operator", "stringappend").unwrap();
    options.set_from_text(BLOBS).unwrap();
    options.cf.table_factory.format_version = 5;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, &dir.0).unwrap();
    assert_same(&ours(&db), &model);
    for round in 0..2 {
        write_ours(&db, &mut model, (keys, keys / 4), &mut rng);
        assert_same(&ours(&db), &model);
        if round == 1 {
            let everything = CompactRangeOptions {
                bottommost_level_compaction: pumice::BottommostLevelCompaction::ForceOptimized,
                blob_garbage_collection_policy: pumice::BlobGarbageCollectionPolicy::Force,
                blob_garbage_collection_age_cutoff: 1.0,
                ..CompactRangeOptions::default()
            };
            db.compact_range(&everything, None, None).unwrap();
            assert_eq!(db.property_int("rocksdb.live-blob-file-garbage-size"), Some(0));
            assert_same(&ours(&db), &model);
        }
    }
    for (key, value) in model.iter().step_by(17) {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    db.verify_checksum().unwrap();
    db.close().unwrap();
    drop(db);
    assert!(!blob_files(&dir.0).is_empty());

    let theirs = Theirs::open(&peer, &dir.0, BLOBS);
    assert_same(&theirs.contents(), &model);
    write_theirs(&theirs, &mut model, (keys, keys / 4), &mut rng);
    theirs.compact();
    assert_same(&theirs.contents(), &model);
    drop(theirs);

    let db = Db::open(&options, &dir.0).unwrap();
    db.verify_checksum().unwrap();
    assert_same(&ours(&db), &model);
    db.close().unwrap();
}

/// Logs have the values themselves.
#[pumice_test_macros::test]
fn updates_since_a_number_have_their_values() {
    let dir = Scratch::new("blob-updates");
    let mut options = crate::blobs::written::options();
    options.set("WAL_ttl_seconds", "3600").unwrap();
    let db = Db::open(&options, &dir.0).unwrap();
    let large = |n: u8| vec![b'a' + n; 5000];
    let start = db.latest_sequence_number() + 1;
    for n in 0..6 {
        db.put([n], large(n)).unwrap();
        if n % 2 == 1 {
            db.flush().unwrap();
        }
    }
    crate::blobs::written::compact(&db);
    assert!(crate::blobs::written::number(&db, "num-blob-files") > 0);
    let mut found = Vec::new();
    for batch in db.get_updates_since(start).unwrap() {
        let (sequence, batch) = batch.unwrap();
        for record in batch.iter() {
            let pumice::BatchRecord::Entry { key, value, .. } = record.unwrap() else { continue };
            found.push((sequence, key.to_vec(), value.to_vec()));
        }
    }
    let expected: Vec<_> = (0..6).map(|n| (start + u64::from(n), vec![n], large(n))).collect();
    assert_eq!(found, expected);
    // Written to another database they are in its blob files.
    let copy = Scratch::new("blob-updates-copy");
    let other = Db::open(&options, &copy.0).unwrap();
    for batch in db.get_updates_since(start).unwrap() {
        other.write(&mut batch.unwrap().1).unwrap();
    }
    other.flush().unwrap();
    assert_eq!(ours(&other), ours(&db));
    assert_eq!(crate::blobs::written::number(&other, "num-blob-files"), 1);
    db.close().unwrap();
    other.close().unwrap();
}
