//! Names of column families and OPTIONS files are bytes of any kind, as from RocksDB's C and Java
//! interfaces: every call takes them and files keep them.

use std::collections::BTreeSet;
use std::path::Path;

use pumice::backup::BackupEngine;
use pumice::options::{FileRules, load_latest_options, options_file_bytes, parse_options_file};
use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, ErrorKind, Options,
    column_family_name,
};
use pumice_base::random::Rng;
use pumice_testkit::seed;

use crate::common::{DIR, memory, names, options};

/// Some names, no two alike, of bytes that mean something to somebody.
fn drawn_names(rng: &mut Rng) -> Vec<Vec<u8>> {
    let alphabet = b"a\\x5CE9#:\"'[] \n\t\xc3\xa9\xe9\xff\x80";
    let mut all = BTreeSet::from([b"caf\xe9".to_vec(), b"caf\\xE9".to_vec(), "café".into()]);
    while all.len() < 8 {
        let len = 1 + rng.uniform(6);
        let letter = |_| alphabet[rng.uniform(alphabet.len() as u64) as usize];
        all.insert((0..len).map(letter).collect());
    }
    all.into_iter().collect()
}

/// All that were made are there, with their data.
fn check(options: &Options, dir: &str, made: &[Vec<u8>], what: &str) {
    let listed = Db::list_column_families(&options.db, dir).unwrap();
    let expected: Vec<_> = made.iter().map(|name| column_family_name(name)).collect();
    assert_eq!(listed[1..], expected, "{what}");
    let descriptor = |name: &String| ColumnFamilyDescriptor::new(name, options.cf.clone());
    let descriptors: Vec<_> = listed.iter().map(descriptor).collect();
    let (db, cfs) = Db::open_cf(&options.db, dir, &descriptors).unwrap();
    for (cf, name) in cfs[1..].iter().zip(made) {
        assert_eq!(&*cf.name_bytes(), name, "{what}");
        assert_eq!(db.get_cf(cf, "name").unwrap().as_deref(), Some(&name[..]), "{what}");
        assert_eq!(db.column_family(cf.name()).unwrap(), *cf);
    }
    db.close().unwrap();
    drop((db, cfs));
    let loaded =
        load_latest_options(&*options.db.file_system, Path::new(dir), FileRules::default());
    let loaded = loaded.unwrap().unwrap();
    let named: Vec<_> = loaded.column_families.iter().map(|entry| &entry.name).collect();
    assert_eq!(named, listed.iter().collect::<Vec<_>>(), "{what}");
    drop(Db::builder(dir).options(options.clone()).open_latest().unwrap());
}

#[pumice_test_macros::test]
fn a_name_is_any_bytes() {
    for seed in seed::range(6) {
        let rng = &mut Rng::new(seed);
        eprintln!("{}", seed::replay_hint("a_name_is_any_bytes", seed));
        let (fs, shared) = memory();
        let options = options(&shared);
        let mut made = drawn_names(rng);
        rng.shuffle(&mut made);
        let db = Db::open(&options, DIR).unwrap();
        for name in &made {
            let cf = db.create_column_family(&options.cf, &column_family_name(name)).unwrap();
            db.put_cf(&cf, "name", name).unwrap();
            let again = db.create_column_family(&options.cf, &column_family_name(name));
            assert!(again.unwrap_err().to_string().contains("already exists"));
        }
        db.flush_all().unwrap();
        let gone = made.remove(rng.uniform(made.len() as u64) as usize);
        db.drop_column_family(&db.column_family(&column_family_name(&gone)).unwrap()).unwrap();
        db.checkpoint("/checkpoint").unwrap();
        let backups = BackupEngine::open(fs.shared(), "/backups").unwrap();
        backups.create_backup(&db, true, b"").unwrap();
        backups.restore_latest_backup("/restored", "/restored").unwrap();
        db.close().unwrap();
        drop(db);
        check(&options, DIR, &made, "reopened");
        check(&options, "/checkpoint", &made, "checkpoint");
        check(&options, "/restored", &made, "restored");
        let report = pumice::repair(&options, DIR).unwrap();
        assert!(report.is_complete(), "{report}");
        for name in names(&shared, DIR) {
            // Then tables alone have the names.
            if name.starts_with("MANIFEST") || name == "CURRENT" {
                shared.remove(&Path::new(DIR).join(name)).unwrap();
            }
        }
        pumice::repair(&options, DIR).unwrap();
        check(&options, DIR, &made, "rebuilt");
    }
}

#[pumice_test_macros::test]
fn an_options_file_is_bytes() {
    let cf = ColumnFamilyOptions::default();
    let odd = column_family_name(b"caf\xe9 #1");
    let text = options_file_bytes(&DbOptions::default(), &[("default", &cf), (&odd, &cf)]);
    let find = |bytes: &[u8], wanted: &[u8]| bytes.windows(wanted.len()).any(|w| w == wanted);
    assert!(find(&text, b"[CFOptions \"caf\xe9 \\#1\"]"));
    let commented = [b"# caf\xe9\n", &text[..], b"  # \xff"].concat();
    for text in [text, commented] {
        let loaded = parse_options_file(&text, FileRules::default()).unwrap();
        assert_eq!(loaded.column_families[1].name, odd);
    }
    // A value cannot be kept.
    let value = b"[DBOptions]\n  wal_dir=/caf\xe9\n[CFOptions \"default\"]\n";
    let error = parse_options_file(&value[..], FileRules::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    let text = error.to_string();
    assert!(
        text.contains("line 2") && text.contains("wal_dir") && text.contains("UTF-8"),
        "{text}"
    );
}

#[pumice_test_macros::test]
fn a_name_has_one_text_and_other_spellings() {
    let (_, shared) = memory();
    let options = options(&shared);
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.create_column_family(&options.cf, "\\xC3\\xA9").unwrap();
    assert_eq!((cf.name(), &*cf.name_bytes()), ("é", "é".as_bytes()));
    assert_eq!(db.column_family("é"), db.column_family("\\xC3\\xA9"));
    db.close().unwrap();
}
