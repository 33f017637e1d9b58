//! `best_efforts_recovery`: damaged copies of a database of RocksDB's are opened here and by
//! RocksDB 11.8.1, which find the same.
//!
//! RocksDB works on real files, which the suite looks at as it does.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use crate::blobs::theirs::copy_dir;
use crate::common::Scratch;
use pumice::{ColumnFamilyDescriptor, Db, Options};
use pumice_base::random::Rng;
use pumice_peer::{Peer, ReadOptions, ReadSettings, WriteOptions, WriteSettings};

/// Keys and values of each family; or why there is no database.
pub type Found = Result<Vec<Vec<(Vec<u8>, Vec<u8>)>>, String>;

/// RocksDB has opened a state that cannot be read: it lacks a blob file, and looks only at the
/// oldest one of each table.
pub const UNREADABLE: &str = "reading";

pub const FAMILIES: [&str; 2] = ["default", "other"];

/// How a database is made, as text of options.
#[derive(Clone, Copy)]
pub struct Made {
    pub name: &'static str,
    pub options: &'static str,
    /// Families are flushed in one atomic group.
    pub atomic: bool,
}

const ALL: [Made; 3] = [
    Made { name: "plain", options: "", atomic: false },
    // RocksDB's C interface flushes no two families at once: this one is made here.
    Made { name: "atomic", options: "atomic_flush=true", atomic: true },
    Made {
        name: "blobs",
        options: "enable_blob_files=true;min_blob_size=20;enable_blob_garbage_collection=true;\
                  blob_garbage_collection_age_cutoff=0.5",
        atomic: false,
    },
];

fn their_options(peer: &Peer, text: &str) -> pumice_peer::Options {
    let mut options = pumice_peer::Options::new(peer);
    let base = "disable_auto_compactions=true;avoid_flush_during_shutdown=true";
    options.set_many(base).unwrap();
    options.set_many(text).unwrap();
    options
}

/// As `make`, by Pumice, with flushes of both families in atomic groups.
fn make_atomic(dir: &Path) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.atomic_flush = true;
    options.db.avoid_flush_during_shutdown = true;
    options.cf.disable_auto_compactions = true;
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let (db, handles) = Db::open_cf(&options.db, dir, &families).unwrap();
    let mut rng = Rng::new(7);
    for step in 0..7 {
        for family in &handles {
            for _ in 0..30 {
                let key = format!("k{:03}", rng.uniform(60));
                db.put_cf(family, key, format!("{step}-{:020}", rng.uniform(1000))).unwrap();
            }
        }
        if step < 6 {
            db.flush_cfs(&handles.iter().collect::<Vec<_>>()).unwrap();
        }
    }
    db.close().unwrap();
}

/// A database with a history of flushes and compactions, and some writes in a log.
fn make(peer: &Peer, dir: &Path, made: Made) {
    if made.atomic {
        return make_atomic(dir);
    }
    let text =
        format!("create_if_missing=true;create_missing_column_families=true;{}", made.options);
    let options = their_options(peer, &text);
    let families = FAMILIES.map(|name| (name, &options));
    let (db, handles) = pumice_peer::Db::open_cf(&options, dir, &families, false).unwrap();
    let write = WriteOptions::new(peer, &WriteSettings::default());
    let mut rng = Rng::new(7);
    for step in 0..7 {
        for family in &handles {
            for _ in 0..30 {
                let key = format!("k{:03}", rng.uniform(60));
                let value = format!("{step}-{:020}", rng.uniform(1000));
                db.put(&write, family, key.as_bytes(), value.as_bytes()).unwrap();
            }
        }
        // The rest stays in the log.
        if step < 6 {
            handles.iter().for_each(|family| db.flush(family).unwrap());
        }
        if step == 2 {
            let forced =
                pumice_peer::CompactRangeSettings { bottommost_level: 3, ..Default::default() };
            db.compact_range(&handles[0], None, None, &forced);
        }
    }
}

pub fn theirs(peer: &Peer, dir: &Path, made: Made) -> Found {
    let options = their_options(peer, &format!("best_efforts_recovery=true;{}", made.options));
    let families = FAMILIES.map(|name| (name, &options));
    let opened = pumice_peer::Db::open_cf(&options, dir, &families, false);
    let (db, handles) = opened.map_err(|error| error.to_string())?;
    let read = ReadOptions::new(peer, &ReadSettings::default());
    let contents = |family| {
        let mut iter = db.iter(&read, family);
        let mut all = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            all.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status().map(|()| all).map_err(|error| format!("{UNREADABLE}: {error}"))
    };
    handles.iter().map(contents).collect()
}

pub fn ours(dir: &Path, best_efforts: bool) -> Found {
    let mut options = Options::default();
    options.db.best_efforts_recovery = best_efforts;
    options.cf.disable_auto_compactions = true;
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let opened = Db::open_cf(&options.db, dir, &families);
    let (db, handles) = opened.map_err(|error| error.to_string())?;
    let contents = |family| -> Vec<_> {
        let iter = db.iter_cf(family).unwrap();
        iter.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
            .collect()
    };
    let found = handles.iter().map(contents).collect();
    db.verify_checksum().unwrap();
    db.close().unwrap();
    Ok(found)
}

pub fn files(dir: &Path, ends: &str) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(ends) || name.starts_with(ends));
    names.sort();
    names
}

/// Damages a copy and opens it with both; returns what is found.
fn judge(peer: &Peer, from: &Path, made: Made, what: &str, damage: &dyn Fn(&Path)) -> Found {
    let copies = [Scratch::new("best-efforts-a"), Scratch::new("best-efforts-b")];
    for copy in &copies {
        copy_dir(from, &copy.0);
        damage(&copy.0);
    }
    let (mine, other) = (ours(&copies[0].0, true), theirs(peer, &copies[1].0, made));
    let what = format!("{}: {what}", made.name);
    match (&mine, &other) {
        (Ok(mine), Ok(other)) => assert_eq!(mine, other, "{what}"),
        (Ok(_), Err(error)) if made.name == "blobs" && error.starts_with(UNREADABLE) => {}
        (Err(_), Err(_)) => {}
        _ => panic!("{what}: {mine:?} and {other:?}"),
    }
    if mine.is_ok() {
        // It is whole now, and what was in the log does not come back.
        assert_eq!(ours(&copies[0].0, false), mine, "{what}");
    }
    mine
}

fn remove(names: &[&String]) -> impl Fn(&Path) {
    let names: Vec<String> = names.iter().map(|name| (*name).clone()).collect();
    move |dir| names.iter().for_each(|name| std::fs::remove_file(dir.join(name)).unwrap())
}

#[pumice_test_macros::test]
fn what_is_left_is_what_rocksdb_finds() {
    let Some(library) = pumice_peer::installed_11_8() else { return };
    let peer = Peer::load(library).unwrap();
    for made in ALL {
        let dir = Scratch::new("best-efforts");
        make(&peer, &dir.0, made);
        let all = judge(&peer, &dir.0, made, "nothing", &|_| {}).unwrap();
        assert!(all.iter().all(|family| family.len() > 40), "{}", made.name);
        let (tables, blobs) = (files(&dir.0, ".sst"), files(&dir.0, ".blob"));
        assert!(tables.len() >= 9, "{tables:?}");
        let mut results = std::collections::BTreeSet::new();
        for (at, name) in tables.iter().chain(&blobs).enumerate() {
            let found = judge(&peer, &dir.0, made, name, &remove(&[name])).unwrap();
            assert_ne!(found, all, "{name}");
            results.insert(found);
            if at % 4 > 0 {
                continue;
            }
            let cut = |dir: &Path| {
                let bytes = std::fs::read(dir.join(name)).unwrap();
                std::fs::write(dir.join(name), &bytes[..bytes.len() / 2]).unwrap();
            };
            judge(&peer, &dir.0, made, &format!("{name} is cut"), &cut).unwrap();
        }
        assert!(results.len() >= 4, "{} different states", results.len());
        // Two and three at a time, by seed.
        let mut rng = Rng::new(11);
        let any: Vec<&String> = tables.iter().chain(&blobs).collect();
        for _ in 0..5 {
            let mut names: Vec<&String> = (0..2 + rng.uniform(2))
                .map(|_| any[rng.uniform(any.len() as u64) as usize])
                .collect();
            names.sort();
            names.dedup();
            let what = format!("without {names:?}");
            judge(&peer, &dir.0, made, &what, &remove(&names)).unwrap();
        }
    }
}

#[pumice_test_macros::test]
fn other_files_may_be_missing() {
    let Some(library) = pumice_peer::installed_11_8() else { return };
    let peer = Peer::load(library).unwrap();
    let (dir, made) = (Scratch::new("best-efforts-other"), ALL[0]);
    make(&peer, &dir.0, made);
    let all = judge(&peer, &dir.0, made, "nothing", &|_| {}).unwrap();
    let whole = |what: &str, damage: &dyn Fn(&Path)| {
        assert_eq!(judge(&peer, &dir.0, made, what, damage), Ok(all.clone()), "{what}");
    };
    let write = |name: &'static str, text: &'static str| {
        move |dir: &Path| std::fs::write(dir.join(name), text).unwrap()
    };
    whole("no CURRENT", &remove(&[&"CURRENT".to_string()]));
    whole("no IDENTITY", &remove(&[&"IDENTITY".to_string()]));
    whole("a CURRENT that names nothing", &write("CURRENT", "MANIFEST-000999\n"));
    whole("a damaged CURRENT", &write("CURRENT", "nonsense"));
    // A newer MANIFEST that cannot be used is passed over.
    whole("an empty MANIFEST", &write("MANIFEST-000900", ""));
    whole(
        "a MANIFEST of garbage",
        &write("MANIFEST-000900", "no record at all, whatever it may be"),
    );
    let manifest = files(&dir.0, "MANIFEST").remove(0);
    judge(&peer, &dir.0, made, "no MANIFEST", &remove(&[&manifest])).unwrap_err();
    // An incomplete copy of the MANIFEST: an older state of files that are there.
    let bytes = std::fs::read(dir.0.join(&manifest)).unwrap();
    let mut states = std::collections::BTreeSet::new();
    for cut in (0..bytes.len()).step_by(bytes.len() / 13) {
        let damage = |dir: &Path| std::fs::write(dir.join(&manifest), &bytes[..cut]).unwrap();
        states.extend(judge(&peer, &dir.0, made, &format!("MANIFEST cut at {cut}"), &damage));
    }
    assert!(states.len() > 3, "{}", states.len());
}

/// What is left out can be found in the archive, and a reader changes nothing.
#[pumice_test_macros::test]
fn what_is_left_out_is_archived() {
    let dir = Scratch::new("best-efforts-archive");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_shutdown = true;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, &dir.0).unwrap();
    for step in 0..3 {
        db.put(format!("k{step}"), "v").unwrap();
        db.flush().unwrap();
    }
    db.put("logged", "v").unwrap();
    db.close().unwrap();
    drop(db);
    let tables = files(&dir.0, ".sst");
    std::fs::remove_file(dir.0.join(&tables[1])).unwrap();
    options.db.best_efforts_recovery = true;
    let before = files(&dir.0, "");
    let family = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (reader, _) = Db::open_read_only(&options.db, &dir.0, &family, false).unwrap();
    let keys = |db: &Db| -> Vec<Vec<u8>> {
        db.iter().unwrap().map(|entry| entry.unwrap().0.to_vec()).collect()
    };
    assert_eq!(keys(&reader), [b"k0"]);
    drop(reader);
    assert_eq!(files(&dir.0, ""), before);
    let logs = files(&dir.0, ".log");
    let db = Db::open(&options, &dir.0).unwrap();
    assert_eq!(keys(&db), [b"k0"]);
    let archived = files(&dir.0.join("archive"), "");
    assert!(archived.contains(&tables[2]), "{archived:?}");
    assert!(logs.iter().all(|log| archived.contains(log)), "{archived:?} {logs:?}");
    db.put("new", "v").unwrap();
    db.close().unwrap();
    drop(db);
    options.db.best_efforts_recovery = false;
    let db = Db::open(&options, &dir.0).unwrap();
    assert_eq!(keys(&db), [&b"k0"[..], b"new"]);
    db.close().unwrap();
}

/// Without a MANIFEST nothing says which tables belong to it: it is not replaced by an empty one.
#[pumice_test_macros::test]
fn tables_without_a_manifest_are_not_deleted() {
    let dir = Scratch::new("best-efforts-none");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir.0).unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    for name in files(&dir.0, "MANIFEST") {
        std::fs::remove_file(dir.0.join(name)).unwrap();
    }
    options.db.best_efforts_recovery = true;
    let error = Db::open(&options, &dir.0).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let family = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let error = Db::open_read_only(&options.db, &dir.0, &family, false).map(drop).unwrap_err();
    assert!(error.to_string().contains("Cannot locate MANIFEST file in"), "{error}");
    pumice::repair(&options, &dir.0).unwrap();
    let db = Db::open(&options, &dir.0).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), b"v");
    db.close().unwrap();
}

/// A MANIFEST whose beginning alone is there, since the machine stopped while it was made, names
/// some of the column families: the one before it has them all.
#[pumice_test_macros::test]
fn a_manifest_that_was_only_begun_is_passed_over() {
    let dir = Scratch::new("best-efforts-begun");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.cf.disable_auto_compactions = true;
    let family = |name: &str| ColumnFamilyDescriptor::new(name, options.cf.clone());
    let families = [family(FAMILIES[0]), family(FAMILIES[1])];
    let (db, handles) = Db::open_cf(&options.db, &dir.0, &families).unwrap();
    for cf in &handles {
        db.put_cf(cf, "k", "v").unwrap();
        db.flush_cf(cf).unwrap();
    }
    db.close().unwrap();
    drop((db, handles));
    let kept = files(&dir.0, "MANIFEST");
    let old = std::fs::read(dir.0.join(&kept[0])).unwrap();
    let current = std::fs::read(dir.0.join("CURRENT")).unwrap();
    let (db, handles) = Db::open_cf(&options.db, &dir.0, &families).unwrap();
    db.close().unwrap();
    drop((db, handles));
    let new = files(&dir.0, "MANIFEST").pop().unwrap();
    let whole = std::fs::read(dir.0.join(&new)).unwrap();
    assert_ne!(kept[0], new);
    options.db.best_efforts_recovery = true;
    for len in (0..whole.len()).step_by(5).chain([whole.len()]) {
        let copy = Scratch::new("best-efforts-begun-copy");
        copy_dir(&dir.0, &copy.0);
        std::fs::write(copy.0.join(&kept[0]), &old).unwrap();
        std::fs::write(copy.0.join("CURRENT"), &current).unwrap();
        std::fs::write(copy.0.join(&new), &whole[..len]).unwrap();
        let (db, handles) = Db::open_cf(&options.db, &copy.0, &families).unwrap();
        for cf in &handles {
            assert_eq!(db.get_cf(cf, "k").unwrap().as_deref(), Some(&b"v"[..]), "{len}");
        }
        db.close().unwrap();
    }
}
