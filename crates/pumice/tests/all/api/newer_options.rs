//! What docs/compatibility.md says of the options that RocksDB gained since 11.0.

use pumice::options::row::{OptionRow, OptionSet, RowKind};
use pumice::options::{ColumnFamilyOptions, DbOptions};
use pumice::{BlockCache, CacheOptions, Db, ErrorKind, MemFs, Options};
use pumice_base::random::Rng;

const PAGE: &str = include_str!("../../../../../docs/compatibility.md");

/// What a row does with values, in the words of the page.
fn kind<S: OptionSet>(row: &OptionRow<S>) -> &'static str {
    match row.kind {
        RowKind::Field { .. } => "built",
        RowKind::Hint { .. } => "accepted without effect",
        RowKind::Unsupported { .. } => "refused",
    }
}

#[pumice_test_macros::test]
fn the_table_of_newer_options_is_so() {
    let (_, table) = PAGE.split_once("## What RocksDB gained since 11.0").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut options = 0;
    for row in rows {
        let (name, rest) = row.split_once("` | ").unwrap();
        let (said, why) = rest.split_once(" | ").unwrap_or((rest, ""));
        let found = DbOptions::row(name).map(kind);
        let Some(found) = found.or_else(|| ColumnFamilyOptions::row(name).map(kind)) else {
            // A field of requests.
            assert!(name.contains("Options::"), "{name}");
            continue;
        };
        options += 1;
        assert_eq!(found, said, "{name}");
        let mut changed = Options::default();
        let value = if name.ends_with("seconds") || name.contains("bytes") { "8" } else { "1" };
        match changed.set(name, value) {
            Ok(()) => assert_ne!(said, "refused", "{name}"),
            Err(error) => {
                assert_eq!((said, error.kind()), ("refused", ErrorKind::NotSupported), "{name}");
                assert!(error.message().contains(name), "{error}");
                assert!(why.len() > 10, "{name} is refused without a reason");
            }
        }
    }
    assert_eq!(options, 12);
}

/// Tables that are opened with the option have a checksum for each data block in the cache.
#[pumice_test_macros::test]
fn protected_blocks_have_checksums() {
    let usage = |bytes: &str| {
        let cache = BlockCache::new(CacheOptions::new(8 << 20));
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        options.tables().block_cache = Some(cache.clone());
        options.tables().block_size = 512;
        options.set("block_protection_bytes_per_key", bytes).unwrap();
        let db = Db::open(&options, "/db").unwrap();
        for n in 0..1000 {
            db.put(format!("{n:04}"), [b'v'; 40]).unwrap();
        }
        db.flush().unwrap();
        for n in 0..1000 {
            assert_eq!(db.get(format!("{n:04}")).unwrap().unwrap(), [b'v'; 40]);
        }
        assert_eq!(db.iter().unwrap().count(), 1000);
        let usage = cache.usage();
        db.close().unwrap();
        usage
    };
    let plain = usage("0");
    for bytes in ["1", "2", "4", "8"] {
        assert!(usage(bytes) >= plain + 100 * 8, "{bytes}: {} and {plain}", usage(bytes));
    }
    let mut options = Options::default();
    options.set("block_protection_bytes_per_key", "3").unwrap();
    options.db.file_system = MemFs::new(1).shared();
    options.db.create_if_missing = true;
    let error = Db::open(&options, "/db").map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.message().contains("only supports 0, 1, 2, 4 or 8 bytes"), "{error}");
}

/// Values of memtables with checksums are read, merged and flushed without them.
#[pumice_test_macros::test]
fn guarded_memtables_show_their_values() {
    for (bytes, rep) in [("1", "skip_list"), ("8", "skip_list"), ("4", "vector")] {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        options.db.allow_concurrent_memtable_write = rep == "skip_list";
        options.set("memtable_factory", rep).unwrap();
        options.set("merge_operator", "stringappend").unwrap();
        options.set("memtable_protection_bytes_per_key", bytes).unwrap();
        let db = Db::open(&options, "/db").unwrap();
        let (mut expected, mut rng) = (std::collections::BTreeMap::new(), Rng::new(3));
        for n in 0..600 {
            let (key, value) = (format!("{:03}", rng.uniform(90)), format!("v{n}"));
            match rng.uniform(8) {
                0 => {
                    db.delete(&key).unwrap();
                    expected.remove(&key);
                }
                1 | 2 => {
                    db.merge(&key, &value).unwrap();
                    let merged = expected.entry(key).or_insert_with(String::new);
                    if !merged.is_empty() {
                        merged.push(',');
                    }
                    merged.push_str(&value);
                }
                _ => {
                    db.put(&key, &value).unwrap();
                    expected.insert(key, value);
                }
            }
            if n % 200 == 100 {
                db.flush().unwrap();
            }
        }
        for reopened in [false, true] {
            let db = match reopened {
                false => db.clone(),
                true => {
                    db.close().unwrap();
                    Db::open(&options, "/db").unwrap()
                }
            };
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            let all = db.iter().unwrap().map(|entry| entry.unwrap());
            let all: Vec<_> = all.map(|(key, value)| (text(key), text(value))).collect();
            assert_eq!(all, expected.clone().into_iter().collect::<Vec<_>>(), "{bytes} {rep}");
            let mut back: Vec<_> = db.iter().unwrap().rev().map(|entry| entry.unwrap().0).collect();
            back.reverse();
            assert_eq!(back.len(), expected.len());
            let keys: Vec<String> = (0..90).map(|n| format!("{n:03}")).collect();
            for (key, found) in keys.iter().zip(db.multi_get(&keys)) {
                let known = expected.get(key).map(String::as_bytes);
                assert_eq!(found.unwrap().as_deref(), known);
                assert_eq!(db.get(key).unwrap().as_deref(), known);
            }
        }
    }
}
