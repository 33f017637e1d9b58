//! Databases with blob files of RocksDB 11.8.1's: opened, read in every way, compacted, written and
//! given back. Garbage is counted as RocksDB counts it on a copy of the same files.

use std::path::Path;

use crate::blobs::theirs::{Contents, Theirs, blob_files, copy_dir, peer};
use crate::common::Scratch;
use pumice::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactRangeOptions, Db, ErrorKind,
    ExportImportFilesMetadata, ImportColumnFamilyOptions, IngestExternalFileOptions, Options,
    PosixFs, ReadOptions,
};
use pumice_base::random::Rng;
use pumice_peer::Peer;

const BLOBS: &str = "enable_blob_files=true;min_blob_size=30;blob_file_size=8000";

fn options() -> Options {
    let mut options = Options::new();
    options.set("merge_operator", "stringappend").unwrap();
    options.cf.disable_auto_compactions = true;
    options.cf.table_factory.format_version = 5;
    options
}

fn compact(db: &Db) {
    let forced = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&forced, None, None).unwrap();
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:04}").into_bytes()
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = rng.uniform(120) as usize;
    let byte = b'a' + rng.uniform(20) as u8;
    // Half of it can be compressed.
    (0..len).map(|at| if at % 2 == 0 { byte } else { b'a' + rng.uniform(26) as u8 }).collect()
}

/// Writes `ops` operations drawn from `rng`, flushed now and then.
fn write_theirs(theirs: &Theirs<'_>, rng: &mut Rng, ops: u64) {
    for n in 0..ops {
        let at = key(rng.uniform(300));
        match rng.uniform(20) {
            0..=11 => theirs.put(&at, &value(rng)),
            12..=13 => theirs.delete(&at),
            14..=16 => theirs.merge(&at, &value(rng)),
            17 => theirs.delete_range(&at, &key(rng.uniform(300)).max(at.clone())),
            _ => {
                let (one, two) = (value(rng), value(rng));
                let columns: [(&[u8], &[u8]); 2] = [(b"", &one), (b"n", &two)];
                theirs.put_entity(&at, &columns[rng.uniform(2) as usize..]);
            }
        }
        if n % 170 == 169 {
            theirs.flush();
        }
    }
    theirs.flush();
}

/// Reads everything in every way.
fn check(db: &Db, expected: &Contents) {
    let all = |result: pumice::Result<Vec<_>>| result.unwrap();
    let forward: Contents = all(db.iter().unwrap().collect());
    assert_eq!(&forward, expected);
    let mut cursor = db.cursor().unwrap();
    cursor.seek_to_last();
    for (key, value) in expected.iter().rev() {
        assert_eq!(cursor.item(), Some((&key[..], &value[..])));
        cursor.prev();
    }
    assert!(!cursor.valid());
    cursor.status().unwrap();
    let keys: Vec<Vec<u8>> = (0..300).map(key).collect();
    let found = db.multi_get(&keys);
    for (key, together) in keys.iter().zip(found) {
        let known = expected.iter().find(|(known, _)| known == key).map(|(_, value)| value);
        let one = db.get(key).unwrap();
        assert_eq!(one.as_deref(), known.map(Vec::as_slice));
        assert_eq!(together.unwrap().as_deref(), known.map(Vec::as_slice));
        let columns = db.get_entity(key).unwrap();
        let default = columns.as_ref().map(|found| found.get("").unwrap_or_default());
        assert_eq!(default, known.map(Vec::as_slice));
        cursor.seek(key);
        if let Some(known) = known {
            assert_eq!(cursor.value(), Some(&known[..]));
        }
    }
}

fn made(peer: &Peer, dir: &Path, seed: u64, extra: &str) -> Contents {
    let theirs = Theirs::open(peer, dir, &format!("{BLOBS};{extra}"));
    write_theirs(&theirs, &mut Rng::new(seed), 1500);
    theirs.contents()
}

#[pumice_test_macros::test]
fn databases_of_rocksdb_are_read_compacted_and_given_back() {
    let Some(peer) = peer() else { return };
    for (seed, extra) in
        [(1, "compression=kNoCompression"), (2, "blob_compression_type=kLZ4Compression")]
    {
        println!("seed {seed}");
        let (dir, copy) = (Scratch::new("foreign"), Scratch::new("foreign-copy"));
        let expected = made(&peer, &dir.0, seed, extra);
        copy_dir(&dir.0, &copy.0);
        let blobs = blob_files(&dir.0);
        assert!(blobs.len() > 5, "{blobs:?}");

        let db = Db::open(&options(), &dir.0).unwrap();
        check(&db, &expected);
        let before = db.property("rocksdb.blob-stats").unwrap();
        compact(&db);
        check(&db, &expected);
        let ours = db.property("rocksdb.blob-stats").unwrap();
        assert_ne!(before, ours, "the compaction dropped references");
        db.put("new", "n").unwrap();
        db.close().unwrap();
        drop(db);

        // The same files, compacted by RocksDB.
        let theirs = Theirs::open(&peer, &copy.0, extra);
        theirs.compact();
        assert_eq!(theirs.property("rocksdb.blob-stats"), ours);
        drop(theirs);

        let theirs = Theirs::open(&peer, &dir.0, extra);
        let mut with_new = expected.clone();
        with_new.push((b"new".to_vec(), b"n".to_vec()));
        assert_eq!(theirs.contents(), with_new);
        assert_eq!(theirs.property("rocksdb.blob-stats"), ours);
        theirs.compact();
        assert_eq!(theirs.contents(), with_new);
        drop(theirs);

        // Without a reference no file is left.
        let db = Db::open(&options(), &dir.0).unwrap();
        check(&db, &with_new);
        db.delete_range("", "zzz").unwrap();
        compact(&db);
        db.close().unwrap();
        assert_eq!(blob_files(&dir.0), Vec::<std::path::PathBuf>::new());
    }
}

/// What a filter sees, and what a transaction and a batch over the database read.
#[pumice_test_macros::test]
fn merges_and_filters_see_the_values() {
    let Some(peer) = peer() else { return };
    let dir = Scratch::new("foreign-filter");
    let long = "v".repeat(50);
    {
        let theirs = Theirs::open(&peer, &dir.0, BLOBS);
        for name in ["a", "b", "c"] {
            theirs.put(name.as_bytes(), long.as_bytes());
        }
        theirs.flush();
        theirs.merge(b"b", b"1");
        theirs.flush();
    }
    let mut options = options();
    options.cf.compaction_filter = Some(std::sync::Arc::new(DropsLong(b"c".to_vec())));
    let db = Db::open(&options, &dir.0).unwrap();
    assert_eq!(db.get("b").unwrap().unwrap(), format!("{long},1").into_bytes());
    compact(&db);
    let read = |key: &str| db.get(key).unwrap().map(|value| value.into_vec());
    assert_eq!(read("a"), Some(long.clone().into_bytes()));
    assert_eq!(read("b"), Some(format!("{long},1").into_bytes()));
    assert_eq!(read("c"), None);
    let text = db.property("rocksdb.live-blob-file-garbage-size").unwrap();
    assert_eq!(text, (2 * (32 + 1 + 50)).to_string());
    db.close().unwrap();
}

#[derive(Debug)]
struct DropsLong(Vec<u8>);

impl pumice::CompactionFilter for DropsLong {
    fn name(&self) -> &str {
        "drops-long"
    }
    fn filter(&self, _: i32, key: &[u8], value: &[u8]) -> pumice::FilterDecision {
        assert!(value.starts_with(b"vvv"), "{value:?}");
        match key == self.0 {
            true => pumice::FilterDecision::Remove,
            false => pumice::FilterDecision::Keep,
        }
    }
}

#[pumice_test_macros::test]
fn a_missing_or_damaged_file_is_named_and_other_keys_are_read() {
    let Some(peer) = peer() else { return };
    let dir = Scratch::new("foreign-damage");
    {
        let theirs = Theirs::open(&peer, &dir.0, BLOBS);
        for name in ["a", "b"] {
            theirs.put(name.as_bytes(), name.repeat(60).as_bytes());
            theirs.flush();
        }
    }
    let blobs = blob_files(&dir.0);
    assert_eq!(blobs.len(), 2);
    let (first, whole) = (&blobs[0], std::fs::read(&blobs[0]).unwrap());
    let name = first.file_name().unwrap().to_str().unwrap().to_string();
    let refused = |contents: Option<&[u8]>| {
        match contents {
            Some(contents) => std::fs::write(first, contents).unwrap(),
            None => std::fs::remove_file(first).unwrap(),
        }
        Db::open(&options(), &dir.0).err().map(|error| error.to_string())
    };
    for contents in [None, Some(&whole[..whole.len() - 1]), Some(&whole[..10])] {
        let error = refused(contents).unwrap();
        assert!(error.contains(&name), "{error}");
        let mut lax = options();
        lax.db.paranoid_checks = false;
        lax.db.max_open_files = 100;
        let db = Db::open(&lax, &dir.0).unwrap();
        let error = db.get("a").err().unwrap().to_string();
        assert!(error.contains(&name), "{error}");
        assert_eq!(db.get("b").unwrap().unwrap(), "b".repeat(60).into_bytes());
        let both = db.multi_get(&["a", "b"]);
        assert!(both[0].is_err() && both[1].is_ok());
        db.close().unwrap();
        std::fs::write(first, &whole).unwrap();
    }
    // A byte of the value, of the record's header, of the file's header and of its footer.
    for at in [30 + 32 + 1 + 20, 30 + 3, 20, whole.len() - 3] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert_eq!(refused(Some(&changed)), None, "{at}");
        let db = Db::open(&options(), &dir.0).unwrap();
        let error = db.get("a").err().unwrap();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(text.contains(&name) && text.contains("offset"), "{text}");
        let mut cursor = db.cursor().unwrap();
        cursor.seek("a");
        assert!(!cursor.valid() && cursor.status().is_err());
        let text = db.verify_checksum().err().unwrap().to_string();
        assert!(text.contains(&name), "{text}");
        cursor.seek("b");
        assert_eq!(cursor.value(), Some("b".repeat(60).as_bytes()));
        db.close().unwrap();
    }
    let mut changed = whole.clone();
    changed[30 + 32 + 1 + 20] ^= 1;
    std::fs::write(first, &changed).unwrap();
    let db = Db::open(&options(), &dir.0).unwrap();
    let unchecked = ReadOptions { verify_checksums: false, ..ReadOptions::default() };
    assert_eq!(db.get_opt(&unchecked, "a").unwrap().unwrap().len(), 60);
    let cached = ReadOptions { cache_only: true, ..ReadOptions::default() };
    assert_eq!(db.get_opt(&cached, "b").err().unwrap().kind(), ErrorKind::Incomplete);
    db.close().unwrap();
    std::fs::write(first, &whole).unwrap();
    let db = Db::open(&options(), &dir.0).unwrap();
    db.verify_checksum().unwrap();
    db.close().unwrap();
}

/// Tables that refer to blob files cannot go elsewhere by themselves.
#[pumice_test_macros::test]
fn tables_with_indexes_are_not_exported_ingested_or_imported() {
    let Some(peer) = peer() else { return };
    let (dir, other) = (Scratch::new("foreign-export"), Scratch::new("foreign-ingest"));
    {
        let theirs = Theirs::open(&peer, &dir.0, BLOBS);
        theirs.put(b"a", &[b'v'; 60]);
        theirs.flush();
    }
    let db = Db::open(&options(), &dir.0).unwrap();
    let file = db.live_files_metadata().remove(0);
    let table = file.directory.join(&file.name[1..]);
    let db_comparator_name = "leveldb.BytewiseComparator".to_string();
    let described = ExportImportFilesMetadata { db_comparator_name, files: vec![file] };
    let family = db.column_family("default").unwrap();
    let error = db.export_column_family(&family, dir.0.join("export")).err().unwrap();
    assert!(error.to_string().contains(".blob"), "{error}");
    db.close().unwrap();
    let mut plain = options();
    plain.db.create_if_missing = true;
    let db = Db::open(&plain, &other.0).unwrap();
    let how = IngestExternalFileOptions { allow_db_generated_files: true, ..Default::default() };
    let error = db.ingest_external_file(&how, &[&table]).err().unwrap();
    assert!(error.to_string().contains("blob files"), "{error}");
    let how = ImportColumnFamilyOptions::default();
    let import = db.create_column_family_with_import(&plain.cf, "to", &how, &[&described]);
    let error = import.err().unwrap();
    assert!(error.to_string().contains("blob files"), "{error}");
    db.close().unwrap();
}

/// Copies have the blob files.
#[pumice_test_macros::test]
fn checkpoints_backups_and_readers_have_the_files() {
    let Some(peer) = peer() else { return };
    let dir = Scratch::new("foreign-copies");
    std::fs::create_dir_all(&dir.0).unwrap();
    let expected = made(&peer, &dir.0.join("db"), 5, "");
    let options = options();
    let path = |name: &str| dir.0.join(name);
    {
        let db = Db::open(&options, path("db")).unwrap();
        db.checkpoint(path("checkpoint")).unwrap();
        let backups = pumice::backup::BackupEngine::open(PosixFs::shared(), path("backups"));
        let backups = backups.unwrap();
        for _ in 0..2 {
            backups.create_backup(&db, true, b"").unwrap();
        }
        let shared = std::fs::read_dir(path("backups").join("shared_checksum")).unwrap();
        let blobs = shared.filter(|entry| {
            entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".blob")
        });
        assert_eq!(blobs.count(), blob_files(&path("db")).len());
        backups.restore_latest_backup(path("restored"), path("restored")).unwrap();
        let family = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
        let (secondary, _) =
            Db::open_as_secondary(&options.db, path("db"), path("second"), &family).unwrap();
        check(&secondary, &expected);
        db.close().unwrap();
    }
    for copy in ["checkpoint", "restored"] {
        let family = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
        let (reader, _) = Db::open_read_only(&options.db, path(copy), &family, false).unwrap();
        check(&reader, &expected);
        drop(reader);
        let db = Db::open(&options, path(copy)).unwrap();
        check(&db, &expected);
        db.close().unwrap();
        let theirs = Theirs::open(&peer, &path(copy), "");
        assert_eq!(theirs.contents(), expected);
    }
    std::fs::remove_dir_all(&dir.0).unwrap();
}
