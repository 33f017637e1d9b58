//! Forged external files, with right checksums and wrong metadata. They are refused, or the rest of
//! the database is not affected: it answers, compacts or reports the cause, and opens again.

use std::path::PathBuf;

use pumice::{Db, ErrorKind, IngestExternalFileOptions, MemFs, Options, ReadOptions};
use pumice_base::ValueType;
use pumice_base::key::internal_key;

use super::forge::{Forge, entry_block, index_block, varint};
use super::support::{DIR, assert_no_litter, contents, fresh, get, put, write_table};

const VERSION: &str = "rocksdb.external_sst_file.version";
const SEQNO: &str = "rocksdb.external_sst_file.global_seqno";

/// An entry of a forged file.
type Entry = (Vec<u8>, &'static str);

fn entry(user: &str, value: &'static str) -> Entry {
    (internal_key(user.as_bytes(), 0, ValueType::Value), value)
}

/// A file that would be ingested: keys a, b, c.
fn plain() -> (Forge, Vec<Vec<Entry>>) {
    let mut forge = Forge::new();
    forge.set(VERSION, [2, 0, 0, 0]);
    forge.set(SEQNO, [0; 8]);
    forge.set("rocksdb.num.entries", varint(3));
    (forge, vec![vec![entry("a", "1"), entry("b", "2")], vec![entry("c", "3")]])
}

/// Writes `forge` with these data blocks under separators a0, a1, .. z.
fn write(options: &Options, name: &str, mut forge: Forge, blocks: &[Vec<Entry>]) -> PathBuf {
    let handles: Vec<_> = blocks.iter().map(|block| forge.block(&entry_block(block))).collect();
    let separators: Vec<Vec<u8>> = (0..blocks.len())
        .map(|i| if i + 1 == blocks.len() { b"z".to_vec() } else { format!("b{i}").into_bytes() })
        .collect();
    let entries: Vec<_> = separators.into_iter().zip(handles).collect();
    let index = forge.block(&index_block(&entries));
    let path = PathBuf::from(name);
    let bytes = forge.finish(index);
    pumice_env::write_file(&*options.db.file_system, &path, &bytes, false).unwrap();
    path
}

fn verifying() -> IngestExternalFileOptions {
    IngestExternalFileOptions { verify_checksums_before_ingest: true, ..Default::default() }
}

/// A database that holds k and nothing else.
fn database() -> (MemFs, Options, Db) {
    let (fs, options, db) = fresh();
    db.put_opt(&Default::default(), b"k", b"own").unwrap();
    (fs, options, db)
}

/// The database gives the same answers as before, now and after a reopen.
fn stays(options: &Options, db: Db) {
    assert_eq!(get(&db, b"k").unwrap(), b"own");
    db.close().unwrap();
    let db = Db::open(options, DIR).unwrap();
    assert_eq!(get(&db, b"k").unwrap(), b"own");
}

/// How a forgery differs from `plain`, and what refuses it.
struct Lie {
    name: &'static str,
    tell: fn(&mut Forge, &mut Vec<Vec<Entry>>),
    kind: ErrorKind,
    text: &'static str,
}

/// What is refused whether blocks are verified or not.
const REFUSED: [Lie; 9] = [
    Lie {
        name: "another order",
        tell: |forge, _| forge.set("rocksdb.comparator", "some.Order"),
        kind: ErrorKind::InvalidArgument,
        text: "leveldb.BytewiseComparator: does not match existing comparator some.Order",
    },
    Lie {
        name: "smallest above largest",
        tell: |_, blocks| blocks.reverse(),
        kind: ErrorKind::Corruption,
        text: "keys out of order",
    },
    Lie {
        name: "no entries",
        tell: |forge, _| forge.set("rocksdb.num.entries", varint(0)),
        kind: ErrorKind::InvalidArgument,
        text: "File contain no entries",
    },
    Lie {
        name: "entries that are not there",
        tell: |_, blocks| blocks.clear(),
        kind: ErrorKind::Corruption,
        text: "Generated table have corrupted keys",
    },
    Lie {
        name: "a sequence number of its own",
        tell: |forge, _| forge.set(SEQNO, [9, 0, 0, 0, 0, 0, 0, 0]),
        kind: ErrorKind::Corruption,
        text: "global seqno 9",
    },
    Lie {
        name: "half a sequence number",
        tell: |forge, _| forge.set(SEQNO, [0; 4]),
        kind: ErrorKind::Corruption,
        text: "External file global sequence number not found",
    },
    Lie {
        name: "another version",
        tell: |forge, _| forge.set(VERSION, [3, 0, 0, 0]),
        kind: ErrorKind::Corruption,
        text: "unknown external file version 3",
    },
    Lie {
        name: "entries with sequence numbers",
        tell: |forge, _| forge.set("rocksdb.key.largest.seqno", varint(5)),
        kind: ErrorKind::Corruption,
        text: "External file has non zero largest sequence number 5",
    },
    Lie {
        name: "an unknown type",
        tell: |_, blocks| blocks[0][0].0[1] = 0x55,
        kind: ErrorKind::Corruption,
        text: "",
    },
];

#[pumice_test_macros::test]
fn lies_that_are_always_noticed() {
    for check in [IngestExternalFileOptions::default(), verifying()] {
        for lie in &REFUSED {
            let (_fs, options, db) = database();
            let (mut forge, mut blocks) = plain();
            (lie.tell)(&mut forge, &mut blocks);
            let path = write(&options, "/in/lie.sst", forge, &blocks);
            let error = db.ingest_external_file(&check, &[&path]).expect_err(lie.name);
            assert_eq!(error.kind(), lie.kind, "{}: {error}", lie.name);
            assert!(error.to_string().contains(lie.text), "{}: {error}", lie.name);
            assert_no_litter(&options.db.file_system, &db);
            stays(&options, db);
        }
    }
}

/// Lies that only verification of every block finds. Without it the file is ingested, and the
/// damage is limited to its own keys.
const VERIFIED: [Lie; 5] = [
    Lie {
        name: "keys out of order",
        tell: |_, blocks| blocks[0].swap(0, 1),
        kind: ErrorKind::Corruption,
        text: "keys out of order",
    },
    Lie {
        name: "a key twice",
        tell: |_, blocks| blocks[0][1] = entry("a", "4"),
        kind: ErrorKind::Corruption,
        text: "keys out of order",
    },
    Lie {
        name: "too many entries",
        tell: |forge, _| forge.set("rocksdb.num.entries", varint(u64::MAX)),
        kind: ErrorKind::Corruption,
        text: "External file has 3 entries",
    },
    Lie {
        name: "more range deletions than entries",
        tell: |forge, _| forge.set("rocksdb.num.range-deletions", varint(u64::MAX)),
        kind: ErrorKind::Corruption,
        text: "External file has 3 entries",
    },
    Lie {
        name: "sizes without bound",
        tell: |forge, _| {
            for name in ["raw.key.size", "raw.value.size", "data.size", "index.size"] {
                forge.set(&format!("rocksdb.{name}"), varint(u64::MAX));
            }
            forge.set("rocksdb.deleted.keys", varint(u64::MAX));
            forge.set("rocksdb.tail.start.offset", varint(1 << 60));
            forge.set("rocksdb.num.entries", varint(u64::MAX - 1));
        },
        kind: ErrorKind::Corruption,
        text: "External file has 3 entries",
    },
];

#[pumice_test_macros::test]
fn lies_that_a_verification_notices() {
    for lie in &VERIFIED {
        let (_fs, options, db) = database();
        let (mut forge, mut blocks) = plain();
        (lie.tell)(&mut forge, &mut blocks);
        let path = write(&options, "/in/lie.sst", forge, &blocks);
        let error = db.ingest_external_file(&verifying(), &[&path]).expect_err(lie.name);
        assert_eq!(error.kind(), lie.kind, "{}: {error}", lie.name);
        assert!(error.to_string().contains(lie.text), "{}: {error}", lie.name);
        assert_no_litter(&options.db.file_system, &db);
        // Twice, so that sums over files would overflow.
        for _ in 0..2 {
            db.ingest_external_file(&Default::default(), &[&path]).expect(lie.name);
        }
        use_up(&db, lie.name);
        stays(&options, db);
    }
}

/// Properties that sum up the numbers of files.
const PROPERTIES: [&str; 10] = [
    "estimate-num-keys",
    "aggregated-table-properties",
    "aggregated-table-properties-at-level6",
    "compression-ratio-at-level0",
    "compression-ratio-at-level6",
    "estimate-live-data-size",
    "estimate-table-readers-mem",
    "sstables",
    "stats",
    "levelstats",
];

/// Everything that reads files or sums up their numbers. The only allowed error is Corruption.
fn use_up(db: &Db, name: &str) {
    for property in PROPERTIES {
        assert!(db.property(&format!("rocksdb.{property}")).is_some(), "{name}: {property}");
    }
    let keys: Vec<&[u8]> = vec![b"a", b"b", b"c", b"d", b"k"];
    for (key, got) in keys.iter().zip(db.multi_get_opt(&ReadOptions::default(), &keys)) {
        if let Ok(Some(value)) = got {
            assert!(["1", "2", "3", "4", "own"].iter().any(|v| v.as_bytes() == &*value), "{key:?}");
        }
    }
    if let Err(error) = db.compact_range(&Default::default(), None, None) {
        assert!(error.is_corruption(), "{name}: {error}");
    }
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() && count < 100 {
        count += 1;
        iter.next();
    }
    assert!(count < 100, "{name}: endless");
}

/// Properties that are only told.
const TOLD: [&str; 34] = [
    "column.family.name",
    "compression",
    "compression_options",
    "creating.db.identity",
    "creating.host.identity",
    "creating.session.identity",
    "creation.time",
    "data.block.restart.interval",
    "data.size",
    "deleted.keys",
    "file.creation.time",
    "filter.policy",
    "filter.size",
    "fixed.key.length",
    "format.version",
    "index.block.restart.interval",
    "index.partitions",
    "index.size",
    "key.smallest.seqno",
    "merge.operands",
    "merge.operator",
    "newest.key.time",
    "num.data.blocks",
    "num.entries",
    "num.filter_entries",
    "num.range-deletions",
    "oldest.key.time",
    "original.file.number",
    "prefix.extractor.name",
    "raw.key.size",
    "raw.value.size",
    "sample_for_compression.slow.data.size",
    "seqno.time.map",
    "tail.start.offset",
];

/// Whatever they tell, the file is refused, or its entries and the others are there, also after a
/// compaction, which may fail, and a reopen.
#[pumice_test_macros::test]
fn what_is_only_told_hurts_nothing() {
    let values = [
        varint(0),
        varint(1 << 63),
        varint(u64::MAX),
        vec![0x80; 3],
        vec![0xff; 11],
        vec![],
        vec![b'x'; 1 << 20],
    ];
    for name in TOLD {
        for value in &values {
            let told = format!("{name} = {:02x?}", &value[..value.len().min(11)]);
            let (_fs, options, db) = database();
            let (mut forge, blocks) = plain();
            forge.set(&format!("rocksdb.{name}"), value);
            let path = write(&options, "/in/lie.sst", forge, &blocks);
            // Twice, so that sums over files would overflow.
            let ingested =
                (0..2).all(|_| match db.ingest_external_file(&Default::default(), &[&path]) {
                    Ok(()) => true,
                    Err(error) => {
                        let refused = [ErrorKind::Corruption, ErrorKind::InvalidArgument];
                        assert!(refused.contains(&error.kind()), "{told}: {error}");
                        false
                    }
                });
            let expected = if ingested { ["1", "2", "3", "own"].to_vec() } else { vec!["own"] };
            let right = |db: &Db| {
                let found: Vec<_> = contents(db).into_iter().map(|(_, value)| value).collect();
                assert_eq!(
                    found,
                    expected.iter().map(|v| v.as_bytes()).collect::<Vec<_>>(),
                    "{told}"
                );
            };
            right(&db);
            use_up(&db, &told);
            right(&db);
            db.close().unwrap();
            right(&Db::open(&options, DIR).unwrap());
        }
    }
}

/// A compaction that reads another number of entries than its files state fails, and nothing
/// changes; an option turns the check off.
#[pumice_test_macros::test]
fn a_compaction_counts_what_it_reads() {
    for counted in [true, false] {
        let (_fs, mut options, db) = database();
        db.close().unwrap();
        options.db.compaction_verify_record_count = counted;
        let db = Db::open(&options, DIR).unwrap();
        let (mut forge, blocks) = plain();
        forge.set("rocksdb.num.entries", varint(5));
        let path = write(&options, "/in/lie.sst", forge, &blocks);
        db.ingest_external_file(&Default::default(), &[&path]).unwrap();
        db.put("b", "newer").unwrap();
        let before = contents(&db);
        assert_eq!((before.len(), get(&db, b"b").unwrap()), (4, b"newer".to_vec()));
        let files = db.live_files_metadata().len();
        let compacted = db.compact_range(&Default::default(), None, None);
        if counted {
            let error = compacted.unwrap_err();
            assert!(error.is_corruption(), "{error}");
            let text = "Compaction number of input keys does not match number of keys processed";
            assert!(error.to_string().contains(text), "{error}");
            // The flush came first.
            assert!(db.live_files_metadata().len() > files);
        } else {
            compacted.unwrap();
            assert_eq!(db.live_files_metadata().len(), 1);
        }
        assert_eq!(contents(&db), before);
        drop(db.close());
        assert_eq!(contents(&Db::open(&options, DIR).unwrap()), before);
    }
}

/// The offset of the sequence number is unknown if the property has another length.
#[pumice_test_macros::test]
fn no_place_for_the_sequence_number() {
    let (_fs, options, db) = database();
    let (mut forge, blocks) = plain();
    forge.set(SEQNO, [0; 9]);
    let path = write(&options, "/in/lie.sst", forge, &blocks);
    let over = write_table(&options, "/in/below.sst", &[put("b", "below")]).unwrap();
    db.ingest_external_file(&Default::default(), &[&over]).unwrap();
    let how = IngestExternalFileOptions { write_global_seqno: true, ..Default::default() };
    let error = db.ingest_external_file(&how, &[&path]).unwrap_err();
    assert!(error.to_string().contains("don't have a global seqno field"), "{error}");
    assert_no_litter(&options.db.file_system, &db);
    assert_eq!(contents(&db).len(), 2);
    stays(&options, db);
}

/// A sequence number of an entry is replaced by that of the file, as all are.
#[pumice_test_macros::test]
fn the_plain_forgery_is_ingested() {
    let (_fs, options, db) = database();
    let (forge, mut blocks) = plain();
    blocks[0][1].0 = internal_key(b"b", 1 << 40, ValueType::Value);
    let path = write(&options, "/in/plain.sst", forge, &blocks);
    db.ingest_external_file(&verifying(), &[&path]).unwrap();
    assert_eq!((contents(&db).len(), get(&db, b"b").unwrap()), (4, b"2".to_vec()));
    db.put_opt(&Default::default(), b"b", b"newer").unwrap();
    db.compact_range(&Default::default(), None, None).unwrap();
    assert_eq!((contents(&db).len(), get(&db, b"b").unwrap()), (4, b"newer".to_vec()));
    stays(&options, db);
}
