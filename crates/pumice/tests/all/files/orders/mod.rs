//! Key orders other than the bytewise one, through every call that opens tables: each column family
//! has a drawn one, its tables have many index entries, and what is opened, restored or repaired
//! holds what a model holds.

mod made;

use pumice_base::UserKey;
use std::collections::BTreeMap;

use pumice::backup::BackupEngine;
use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Comparator, Db, DbWithTtl,
    ErrorKind, FileFate, RepairOutcome,
};
use pumice_base::random::Rng;
use pumice_testkit::seed;

use crate::common::{DIR, memory, options};
use made::{Family, Made, hash_keys, ingest, make, orders, write};

const BESIDE: &str = "/beside";

fn each(check: impl Fn(Made, &mut Rng)) {
    for seed in seed::range(8) {
        eprintln!("{}", seed::replay_hint("orders", seed));
        check(make(seed), &mut Rng::new(seed));
    }
}

#[pumice_test_macros::test]
fn a_reopened_database_is_compacted_and_verified() {
    each(|made, _| {
        let (db, cfs) = made.open();
        made.check_all(&db, &cfs, "reopened");
        for cf in &cfs {
            db.compact_range_cf(&CompactRangeOptions::default(), cf, None, None).unwrap();
        }
        db.verify_checksum().unwrap();
        made.check_all(&db, &cfs, "compacted");
        db.close().unwrap();
    });
}

/// What is not opened may have any order, also one that this program does not know.
#[pumice_test_macros::test]
fn a_part_is_opened_for_reading() {
    each(|made, rng| {
        for _ in 0..3 {
            let part = made.some(rng);
            let descriptors = made.descriptors(&part);
            let (db, cfs) = Db::open_read_only(&made.options.db, DIR, &descriptors, false).unwrap();
            part.iter().zip(&cfs).for_each(|(f, cf)| f.check(&db, cf, "a part"));
            let last = db.latest_sequence_number();
            db.close().unwrap();

            let mut builder = Db::builder(DIR).options(made.options.clone());
            for family in &part {
                builder = builder.column_family(family.name, made.options_of(family));
            }
            let db = builder.at_sequence(last).open().unwrap();
            for family in &part {
                family.check(&db, &db.column_family(family.name).unwrap(), "at a sequence number");
            }
            db.close().unwrap();
        }
    });
}

#[pumice_test_macros::test]
fn a_secondary_follows_a_part_while_others_come_and_go() {
    each(|mut made, rng| {
        let (db, mut cfs) = made.open();
        let part = made.some(rng);
        let names: Vec<_> = part.iter().map(|family| family.name).collect();
        let descriptors = made.descriptors(&part);
        let (secondary, theirs) =
            Db::open_as_secondary(&made.options.db, DIR, BESIDE, &descriptors).unwrap();
        for round in 0..6 {
            for _ in 0..100 {
                let n = rng.uniform(3) as usize;
                write(&db, &cfs[n], &mut made.families[n], rng);
            }
            match rng.uniform(3) {
                0 => db.flush_all().unwrap(),
                1 => ingest(&mut made, &db, &cfs, rng.uniform(3) as usize, rng),
                _ => {}
            }
            if round == 1 || round == 3 {
                // One of the same name in another order.
                let n = 1 + rng.uniform(2) as usize;
                db.drop_column_family(&cfs[n]).unwrap();
                let order = orders()[rng.uniform(4) as usize].clone();
                let family = Family { name: made.families[n].name, order, held: BTreeMap::new() };
                let options = made.options_of(&family);
                cfs[n] = db.create_column_family(&options, family.name).unwrap();
                made.families[n] = family;
            }
            if round == 2 {
                let order = orders()[3].clone();
                let options = ColumnFamilyOptions { comparator: order, ..made.options.cf.clone() };
                db.create_column_family(&options, "fourth").unwrap();
            }
            secondary.try_catch_up_with_primary().unwrap();
            for (name, cf) in names.iter().zip(&theirs) {
                let n = made.families.iter().position(|family| family.name == *name).unwrap();
                if cfs[n].id() == cf.id() {
                    made.families[n].check(&secondary, cf, "followed");
                }
            }
        }
        secondary.close().unwrap();
        db.close().unwrap();
    });
}

#[pumice_test_macros::test]
fn a_copy_holds_the_same() {
    each(|made, _| {
        let (db, cfs) = made.open();
        db.checkpoint("/checkpoint").unwrap();
        let engine = BackupEngine::open(made.disk.shared(), "/backups").unwrap();
        engine.create_backup(&db, false, b"").unwrap();
        db.flush_all().unwrap();
        engine.create_backup(&db, true, b"").unwrap();
        engine.verify_backup(1, true).unwrap();
        engine.restore_backup(1, "/first", "/first").unwrap();
        engine.restore_latest_backup("/latest", "/latest").unwrap();
        db.close().unwrap();
        drop((db, cfs));
        for place in ["/checkpoint", "/first", "/latest"] {
            let descriptors = made.descriptors(&made.families);
            let (db, cfs) = Db::open_cf(&made.options.db, place, &descriptors).unwrap();
            made.check_all(&db, &cfs, place);
            db.close().unwrap();
        }
    });
}

fn repaired(made: &Made) -> pumice::RepairReport {
    let descriptors = made.descriptors(&made.families);
    pumice::repair_column_families(&made.options.db, DIR, &descriptors, None).unwrap()
}

#[pumice_test_macros::test]
fn a_repair_keeps_everything() {
    each(|made, _| {
        let report = repaired(&made);
        assert_eq!(report.outcome, RepairOutcome::Healthy, "{report}");
        assert!(report.is_complete(), "{report}");
        let (db, cfs) = made.open();
        made.check_all(&db, &cfs, "healthy");
        db.close().unwrap();
        drop((db, cfs));

        made.lose_manifest();
        let report = repaired(&made);
        assert_eq!(report.outcome, RepairOutcome::Rebuilt, "{report}");
        assert!(report.files.iter().all(|file| file.fate != FileFate::Lost), "{report}");
        let (db, cfs) = made.open();
        made.check_all(&db, &cfs, "rebuilt");
        db.close().unwrap();
    });
}

/// A table from outside may not say whose it is: without a MANIFEST it counts as the default
/// family's, and is set aside if that has another order.
#[pumice_test_macros::test]
fn a_table_of_no_family_and_another_order_is_set_aside() {
    let mut made = make(0);
    made.options.cf.disable_auto_compactions = true;
    let (db, cfs) = made.open();
    let order = made.families[0].order.name().to_string();
    let other = made.families.iter().position(|family| family.order.name() != order).unwrap();
    let mut options = made.options.clone();
    options.cf = made.options_of(&made.families[other]);
    let mut writer = pumice::SstFileWriter::new(&options).unwrap();
    writer.open("/nobody.sst").unwrap();
    writer.put("zzz", "value").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file_cf(&Default::default(), &cfs[other], &["/nobody.sst"]).unwrap();
    made.families[other].held.insert(b"zzz".to_vec(), b"value".to_vec());
    made.check_all(&db, &cfs, "ingested");
    db.close().unwrap();
    drop((db, cfs));
    made.lose_manifest();
    let report = repaired(&made);
    let mut unused = report.files.iter().filter(|file| file.fate == FileFate::NotUsed);
    assert_eq!(unused.next().unwrap().reason, "its column family has another comparator");
    made.families[other].held.remove(&b"zzz"[..]);
    let (db, cfs) = made.open();
    made.check_all(&db, &cfs, "rebuilt");
    db.close().unwrap();
}

/// Two tables have the same entry if its keys are equal to the order and its sequence numbers are
/// the same: the newest file's counts.
#[pumice_test_macros::test]
fn equal_keys_of_different_bytes_are_one_entry() {
    let (disk, shared) = memory();
    let mut options = options(&shared);
    options.cf.comparator = orders()[3].clone();
    let db = Db::open(&options, DIR).unwrap();
    db.put("key", "older").unwrap();
    db.flush().unwrap();
    let force = pumice::BottommostLevelCompaction::Force;
    let compact = CompactRangeOptions { bottommost_level_compaction: force, ..Default::default() };
    db.compact_range(&compact, None, None).unwrap(); // Its sequence number is 0 then.
    let mut writer = pumice::SstFileWriter::new(&options).unwrap();
    writer.open("/outside.sst").unwrap();
    writer.put("KEY", "newer").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&Default::default(), &["/outside.sst"]).unwrap();
    db.close().unwrap();
    drop(db);
    let made = Made { disk, options: options.clone(), families: Vec::new(), hashed: false };
    made.lose_manifest();
    pumice::repair(&options, DIR).unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(db.get("kEY").unwrap().as_deref(), Some(&b"newer"[..]));
    assert_eq!(db.iter().unwrap().count(), 1);
    db.close().unwrap();
}

/// A family whose order is built in is repaired without options of its own; one whose order is not
/// is refused by name.
#[pumice_test_macros::test]
fn a_repair_takes_the_order_from_the_files() {
    each(|made, _| {
        let mut options = made.options.clone();
        options.cf.comparator = Comparator::Bytewise;
        let custom = made.families.iter().find(|f| Comparator::builtin(f.order.name()).is_none());
        match (pumice::repair(&options, DIR), custom) {
            (Ok(report), None) => assert_eq!(report.outcome, RepairOutcome::Healthy, "{report}"),
            (Err(error), Some(_)) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(error.to_string().contains("test."), "{error}");
            }
            (other, _) => panic!("{other:?}"),
        }
        let (db, cfs) = made.open();
        made.check_all(&db, &cfs, "after a repair");
        db.close().unwrap();
    });
}

/// All but the block that is damaged is kept.
#[pumice_test_macros::test]
fn a_repair_loses_only_what_is_damaged() {
    each(|made, rng| {
        let fs = made.disk.shared();
        let names = fs.list(DIR.as_ref()).unwrap();
        let mut tables: Vec<_> = names.iter().filter(|name| name.ends_with(".sst")).collect();
        tables.sort();
        let table = tables[rng.uniform(tables.len() as u64) as usize];
        made.disk.damage(format!("{DIR}/{table}").as_ref(), |bytes| bytes[20] ^= 1).unwrap();
        let made = made.copy();
        let report = repaired(&made);
        assert_eq!(report.outcome, RepairOutcome::Repaired, "{report}");
        let file = report.files.iter().find(|file| file.name == *table).unwrap();
        assert_eq!(file.fate, FileFate::Rewritten, "{report}");
        let lost = file.entries_lost.unwrap();
        assert!(lost > 0 && file.entries > lost, "{report}");
        let (db, cfs) = made.open();
        for (family, cf) in made.families.iter().zip(&cfs) {
            let keys: Vec<_> = db.iter_cf(cf).unwrap().map(|entry| entry.unwrap().0).collect();
            assert!(keys.is_sorted_by(|a, b| {
                family.order.compare(UserKey::new(a), UserKey::new(b)).is_lt()
            }));
            if file.column_family != family.name {
                family.check(&db, cf, "not damaged");
            }
        }
        db.close().unwrap();
    });
}

/// Equal keys may have different hashes: what is looked up by them would not be found.
#[pumice_test_macros::test]
fn options_that_hash_keys_need_equal_bytes() {
    let (_, shared) = memory();
    let mut plain = options(&shared);
    plain.cf.comparator = orders()[3].clone();
    let prefixed = |o: &mut ColumnFamilyOptions| {
        o.prefix_extractor = Some(std::sync::Arc::new(pumice::FixedPrefix(1)));
    };
    let table = |o: &mut ColumnFamilyOptions, name: &str, value: &str| {
        o.table_factory.set(name, value).unwrap();
    };
    type Change<'a> = &'a dyn Fn(&mut ColumnFamilyOptions);
    let cases: [(&str, Change<'_>); 8] = [
        ("filter_policy", &|o| table(o, "filter_policy", "bloomfilter:10")),
        ("filter_policy", &|o| table(o, "filter_policy", "ribbonfilter:10")),
        ("filter_policy", &|o| {
            table(o, "filter_policy", "bloomfilter:10");
            table(o, "whole_key_filtering", "false");
            prefixed(o);
        }),
        ("memtable_prefix_bloom_size_ratio", &|o| {
            o.memtable_prefix_bloom_size_ratio = 0.1;
            o.memtable_whole_key_filtering = true;
        }),
        ("memtable_prefix_bloom_size_ratio", &|o| {
            o.memtable_prefix_bloom_size_ratio = 0.1;
            prefixed(o);
        }),
        ("index_type=kHashSearch", &|o| {
            table(o, "index_type", "kHashSearch");
            prefixed(o);
        }),
        ("data_block_index_type", &|o| {
            table(o, "data_block_index_type", "kDataBlockBinaryAndHash");
        }),
        ("filter_policy", &|o| hash_keys(o)),
    ];
    let db = Db::open(&plain, DIR).unwrap();
    db.put("Key", "value").unwrap();
    for (option, change) in cases {
        let mut hashing = plain.clone();
        change(&mut hashing.cf);
        let refused = Db::open(&hashing, "/other").err().unwrap();
        let created = db.create_column_family(&hashing.cf, "other").err().unwrap();
        for error in [refused, created] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let text = error.to_string();
            assert!(text.contains(option) && text.contains("test.AnyCase"), "{text}");
        }
        // The same for an order that says that equal is equal bytes.
        hashing.cf.comparator = orders()[2].clone();
        drop(db.create_column_family(&hashing.cf, "other").unwrap());
        db.drop_column_family(&db.column_family("other").unwrap()).unwrap();
    }
    let filter = [("block_based_table_factory", "{filter_policy=bloomfilter:10}")];
    let error = db.set_options(&filter).unwrap_err();
    assert!(error.to_string().contains("test.AnyCase"), "{error}");
    assert_eq!(db.get("kEY").unwrap().as_deref(), Some(&b"value"[..]));
    db.close().unwrap();
}

/// Tables that have filters all the same, as RocksDB makes them, are read without.
#[pumice_test_macros::test]
fn filters_of_such_tables_are_not_asked() {
    let (_, shared) = memory();
    let mut hashing = options(&shared);
    hashing.cf.set_comparator("test.AnyCase", |a: &[u8], b: &[u8]| {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    });
    let mut lying = hashing.clone();
    lying.cf.comparator = Comparator::Custom(std::sync::Arc::new(made::Lying));
    hash_keys(&mut lying.cf);
    let db = Db::open(&lying, DIR).unwrap();
    (0..200).for_each(|n| db.put(format!("key{n:03}"), "value").unwrap());
    db.close().unwrap();
    drop(db);
    let db = Db::open(&hashing, DIR).unwrap();
    for n in 0..200 {
        assert!(db.get(format!("KEY{n:03}")).unwrap().is_some(), "{n}");
    }
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn values_that_expire_are_found_in_any_order() {
    for (n, order) in orders().into_iter().enumerate() {
        let made = Made { families: Vec::new(), ..make(n as u64) };
        let mut options = made.options.clone();
        options.cf.comparator = order.clone();
        let families = [(ColumnFamilyDescriptor::new("default", options.cf.clone()), 1000)];
        let key = |n: u64| format!("k{n}{}", "x".repeat((n % 7) as usize)).into_bytes();
        let mut keys: Vec<_> = (0..300).map(key).collect();
        keys.sort_by(|a, b| order.compare(UserKey::new(a), UserKey::new(b)));
        for round in 0..2 {
            let (db, cfs) = DbWithTtl::open_cf(&options.db, "/ttl", &families).unwrap();
            if round == 0 {
                for key in &keys {
                    db.put_cf(&cfs[0], key, b"value").unwrap();
                }
                db.db().flush().unwrap();
                db.db().compact_range(&CompactRangeOptions::default(), None, None).unwrap();
            }
            let found = db.iter_cf_opt(&Default::default(), &cfs[0]).unwrap();
            let found: Vec<_> = found.map(|entry| entry.unwrap().0).collect();
            assert!(found == keys, "{order:?}");
            assert!(keys.iter().all(|key| db.get_cf(&cfs[0], key).unwrap().is_some()));
            db.db().close().unwrap();
        }
    }
}
