//! Tables that this engine cannot read: of a newer format, with a checksum or a codec it lacks,
//! with an unknown comparator. Every call that meets them returns an error that says so, and
//! nothing changes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pumice::{CompactRangeOptions, Db, Error, IngestExternalFileOptions, MemFs, Options};

use super::forge::{Forge, entry_block, index_block, key, varint};
use super::support::{DIR, assert_no_litter, contents, flush, fresh, get, ingest};

/// What is foreign about a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreign {
    Format,
    Checksum,
    /// By compression type: a codec of RocksDB on another system, and none at all.
    Codec(u8),
    Order,
}

const ALL: [Foreign; 5] =
    [Foreign::Format, Foreign::Checksum, Foreign::Codec(6), Foreign::Codec(0x33), Foreign::Order];

impl Foreign {
    fn is_named_by(self, error: &Error) -> bool {
        let text = error.to_string();
        match self {
            Foreign::Format => text.contains("version") && text.contains("99"),
            Foreign::Checksum => text.contains("checksum type"),
            Foreign::Codec(6) => text.contains("Xpress compression"),
            Foreign::Codec(_) => text.contains("compression"),
            Foreign::Order => text.contains("leveldb.AnotherComparator_"),
        }
    }
    /// The table opens; readers fail on its blocks, or do not check its comparator.
    fn opens(self) -> bool {
        matches!(self, Foreign::Codec(_) | Foreign::Order)
    }
}

/// An external file with keys a, b, c in two blocks; always of one length.
fn table(foreign: Option<Foreign>) -> Vec<u8> {
    let mut forge = Forge::new();
    forge.set("rocksdb.external_sst_file.version", [2, 0, 0, 0]);
    forge.set("rocksdb.external_sst_file.global_seqno", [0; 8]);
    forge.set("rocksdb.num.entries", varint(3));
    if foreign == Some(Foreign::Order) {
        forge.set("rocksdb.comparator", "leveldb.AnotherComparator_");
    }
    let kind = match foreign {
        Some(Foreign::Codec(kind)) => kind,
        _ => 0,
    };
    let first = entry_block(&[(key("a", 0), "1"), (key("b", 0), "2")]);
    let first = forge.packed(kind, &first);
    let last = forge.block(&entry_block(&[(key("c", 0), "3")]));
    let index = forge.block(&index_block(&[("b", first), ("c", last)]));
    let mut bytes = forge.finish(index);
    let end = bytes.len();
    match foreign {
        // The last twelve bytes are the version and the magic number.
        Some(Foreign::Format) => bytes[end - 12..end - 8].copy_from_slice(&[99, 0, 0, 0]),
        Some(Foreign::Checksum) => bytes[end - 53] = 77,
        _ => {}
    }
    bytes
}

fn write(options: &Options, path: &str, bytes: &[u8]) -> PathBuf {
    let fs = &*options.db.file_system;
    pumice_env::write_file(fs, path.as_ref(), bytes, false).unwrap();
    path.into()
}

/// The tables in the directory by name.
fn tables(fs: &MemFs) -> BTreeMap<String, Vec<u8>> {
    let shared = fs.shared();
    let names = super::support::names(&shared, DIR).into_iter().filter(|n| n.ends_with(".sst"));
    names.map(|n| (n.clone(), shared.read_file(format!("{DIR}/{n}").as_ref()).unwrap())).collect()
}

#[pumice_test_macros::test]
fn foreign_files_are_not_ingested() {
    for foreign in ALL {
        for verify in [false, true] {
            let (fs, options, db) = fresh();
            db.put(b"k", b"own").unwrap();
            flush(&db);
            let before = tables(&fs);
            let path = write(&options, "/in/1.sst", &table(Some(foreign)));
            let how = IngestExternalFileOptions {
                verify_checksums_before_ingest: verify,
                ..Default::default()
            };
            let error = db.ingest_external_file(&how, &[&path]).unwrap_err();
            assert!(foreign.is_named_by(&error), "{foreign:?}: {error}");
            assert_no_litter(&options.db.file_system, &db);
            assert_eq!(tables(&fs), before, "{foreign:?}");
            db.put(b"l", b"own").unwrap();
            assert_eq!(contents(&db).len(), 2, "{foreign:?}");
            // The same file as it should be.
            let path = write(&options, "/in/2.sst", &table(None));
            ingest(&db, &[&path]).unwrap();
            assert_eq!(contents(&db).len(), 5);
        }
    }
}

/// A database one of whose tables turns out to be foreign, with the rest of its data in another
/// table.
fn spoilt(foreign: Foreign) -> (MemFs, Options, String) {
    let (fs, options, db) = fresh();
    let path = write(&options, "/in/1.sst", &table(None));
    ingest(&db, &[&path]).unwrap();
    let name = tables(&fs).into_keys().next().unwrap();
    db.put(b"b", b"newer").unwrap();
    db.put(b"k", b"own").unwrap();
    flush(&db);
    db.close().unwrap();
    fs.damage(format!("{DIR}/{name}").as_ref(), |bytes| *bytes = table(Some(foreign))).unwrap();
    (fs, options, name)
}

#[pumice_test_macros::test]
fn foreign_tables_of_a_database_are_errors_and_stay() {
    for foreign in ALL {
        for max_open_files in [-1, 20] {
            let (fs, mut options, name) = spoilt(foreign);
            options.db.max_open_files = max_open_files;
            let before = tables(&fs);
            let check = |error: &Error| {
                assert!(foreign.is_named_by(error), "{foreign:?} {max_open_files}: {error}");
            };
            if let Some(db) = opened(&options, foreign, &check) {
                assert_eq!(get(&db, b"k").unwrap(), b"own");
                if foreign != Foreign::Order {
                    check(&db.get(b"a").unwrap_err());
                    let mut iter = db.cursor_opt(&Default::default()).unwrap();
                    iter.seek_to_first();
                    assert!(!iter.valid());
                    check(&iter.status().unwrap_err());
                    drop(iter);
                    let compact = CompactRangeOptions::default();
                    check(&db.compact_range(&compact, None, None).unwrap_err());
                }
                assert_eq!(tables(&fs), before, "{foreign:?}");
                drop(db);
            }
            assert_eq!(tables(&fs), before, "{foreign:?}");
            // With the table as it was all is there.
            fs.damage(format!("{DIR}/{name}").as_ref(), |bytes| *bytes = table(None)).unwrap();
            let db = Db::open(&options, DIR).unwrap();
            let all = contents(&db);
            assert_eq!(all.len(), 4, "{foreign:?}");
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
            assert_eq!(contents(&db), all);
            db.close().unwrap();
        }
    }
}

/// Opens the database; None if the error named what is foreign.
fn opened(options: &Options, foreign: Foreign, check: &dyn Fn(&Error)) -> Option<Db> {
    match Db::open(options, DIR) {
        Ok(db) => Some(db),
        Err(error) => {
            assert!(!foreign.opens(), "{foreign:?}: {error}");
            check(&error);
            None
        }
    }
}
