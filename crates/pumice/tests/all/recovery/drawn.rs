//! `best_efforts_recovery` against a model: databases of two families, with all that their
//! MANIFEST ever named, of which drawn files are missing or cut, and the MANIFEST ends after any of
//! its records. The model knows what each change made of the files and what was in the database
//! then; it says which moment has to be found. RocksDB 11.8.1, where it is installed, is asked too.
//!
//! The suite looks at real files, as RocksDB does.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pumice::{ColumnFamilyDescriptor, Db, Options, PosixFs};
use pumice_base::random::Rng;
use pumice_env::FileSystem;
use pumice_manifest::VersionEdit;
use pumice_peer::Peer;
use pumice_testkit::seed;
use pumice_wal::{LogReader, LogReaderOptions};

use super::best_efforts::{FAMILIES, Made, UNREADABLE, files, ours, theirs};
use crate::blobs::theirs::copy_dir;
use crate::common::Scratch;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A database and what is known of it.
struct Known {
    /// Of each family, what was in it after so many flushes.
    contents: [Vec<Rows>; 2],
    /// After how many flushes of its family a table was written.
    flushes: BTreeMap<u64, usize>,
    /// The edits of the MANIFEST and where each ends.
    edits: Vec<(VersionEdit, u64)>,
    made: Made,
}

const MADE: [Made; 3] = [
    Made { name: "plain", options: "", atomic: false },
    Made { name: "atomic", options: "atomic_flush=true", atomic: true },
    Made { name: "blobs", options: "enable_blob_files=true;min_blob_size=20", atomic: false },
];

fn rows(db: &Db, family: &pumice::ColumnFamily) -> Rows {
    let rows = db.iter_cf(family).unwrap().map(|row| row.unwrap());
    rows.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// Flushes and compactions, after which no file is deleted.
fn make(dir: &Path, rng: &mut Rng, made: Made) -> Known {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.atomic_flush = made.atomic;
    options.db.avoid_flush_during_shutdown = true;
    options.cf.disable_auto_compactions = true;
    if made.name == "blobs" {
        (options.cf.enable_blob_files, options.cf.min_blob_size) = (true, 20);
        options.cf.enable_blob_garbage_collection = true;
        options.cf.blob_garbage_collection_age_cutoff = 0.5;
    }
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let (db, handles) = Db::open_cf(&options.db, dir, &families).unwrap();
    db.disable_file_deletions();
    let mut contents = [vec![Rows::new()], vec![Rows::new()]];
    let mut flushes = BTreeMap::new();
    for step in 0..12 {
        let one = rng.uniform(2) as usize;
        let which = if made.atomic || rng.one_in(3) { 0..2 } else { one..one + 1 };
        if step > 0 && rng.one_in(4) {
            for at in which.clone() {
                db.compact_range_cf(&Default::default(), &handles[at], None, None).unwrap();
            }
        } else {
            for at in which.clone() {
                for _ in 0..1 + rng.uniform(20) {
                    let (key, value) = (format!("k{:02}", rng.uniform(40)), rng.uniform(9000));
                    if rng.one_in(6) {
                        db.delete_cf(&handles[at], key).unwrap();
                    }
                    let key = format!("k{:02}", rng.uniform(40));
                    db.put_cf(&handles[at], key, format!("{step}-{value:025}")).unwrap();
                }
            }
            match made.atomic {
                true => db.flush_cfs(&handles.iter().collect::<Vec<_>>()).unwrap(),
                false => which.clone().for_each(|at| db.flush_cf(&handles[at]).unwrap()),
            }
            which.for_each(|at| contents[at].push(rows(&db, &handles[at])));
        }
        for file in db.live_files_metadata() {
            let at = FAMILIES.iter().position(|name| *name == file.column_family_name).unwrap();
            flushes.entry(file.file_number).or_insert(contents[at].len() - 1);
        }
    }
    db.put_cf(&handles[0], "logged", "v").unwrap();
    db.close().unwrap();
    drop((db, handles));
    let [manifest] = &files(dir, "MANIFEST")[..] else { panic!() };
    let file = PosixFs.open_sequential(&dir.join(manifest)).unwrap();
    let mut reader = LogReader::new(file, LogReaderOptions::manifest(), None);
    let (mut edits, mut record) = (Vec::new(), Vec::new());
    while let Some(info) = reader.read_record(&mut record).unwrap() {
        edits.push((VersionEdit::decode(&record).unwrap(), info.end));
    }
    Known { contents, flushes, edits, made }
}

/// The files of a family.
#[derive(Default)]
struct Files {
    /// Level, epoch, oldest blob file and the edit that added it.
    tables: BTreeMap<u64, (usize, u64, u64, usize)>,
    /// The edit that added it.
    blobs: BTreeMap<u64, usize>,
}

impl Known {
    /// After how many of its flushes a family is found, if all is there that this takes.
    fn visible(&self, files: &Files, missing: &BTreeSet<u64>) -> Option<usize> {
        let mut level0: Vec<_> = files.tables.iter().filter(|(_, held)| held.0 == 0).collect();
        level0.sort_by_key(|(_, held)| std::cmp::Reverse(held.1));
        let gone = level0.iter().take_while(|(number, _)| missing.contains(number)).count();
        let left_out: BTreeSet<u64> = level0[..gone].iter().map(|(number, _)| **number).collect();
        let left = files.tables.iter().filter(|(number, _)| !left_out.contains(number));
        if self.made.atomic && gone > 0 || left.clone().any(|(number, _)| missing.contains(number))
        {
            return None;
        }
        let is_needed = |(number, added): (&u64, &usize)| {
            missing.contains(number)
                && left.clone().any(|(_, (_, _, oldest, table))| {
                    *oldest != 0 && oldest <= number && table >= added
                })
        };
        if files.blobs.iter().any(is_needed) {
            return None;
        }
        let newest = left.map(|(number, _)| self.flushes[number]).max();
        Some(newest.unwrap_or(0))
    }

    /// What has to be found of each family without the `missing` files and with the edits of the
    /// MANIFEST that end by `cut`; None if there is nothing to open.
    fn expected(&self, missing: &BTreeSet<u64>, cut: u64) -> Option<Vec<Rows>> {
        let mut known = [false; 3];
        let mut families: BTreeMap<u32, Files> = BTreeMap::from([(0, Files::default())]);
        // By family the last moment that counts, and by moment the families that have it.
        let mut found = [0usize; 2];
        let mut together: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
        let (mut is_in_group, mut group) = (false, 0);
        let edits: Vec<_> = self.edits.iter().take_while(|(_, end)| *end <= cut).collect();
        let last_whole = edits.iter().rposition(|(edit, _)| {
            edit.atomic_group_remaining.is_none_or(|remaining| remaining == 0)
        });
        for (at, (edit, _)) in edits.iter().enumerate().take(last_whole.map_or(0, |at| at + 1)) {
            let says = [edit.log_number, edit.next_file_number, edit.last_sequence];
            known.iter_mut().zip(says).for_each(|(known, says)| *known |= says.is_some());
            if edit.add_column_family.is_some() {
                families.insert(edit.column_family, Files::default());
            }
            let files = families.get_mut(&edit.column_family).unwrap();
            edit.deleted_files.iter().for_each(|(_, number)| _ = files.tables.remove(number));
            for (level, file) in &edit.new_files {
                let held = (*level, file.epoch_number, file.oldest_blob_file_number, at);
                files.tables.insert(file.number, held);
            }
            files.blobs.extend(edit.blob_additions.iter().map(|file| (file.number, at)));
            group += usize::from(edit.atomic_group_remaining.is_some() && !is_in_group);
            is_in_group = edit.atomic_group_remaining.is_some_and(|remaining| remaining > 0);
            if is_in_group {
                continue;
            }
            for (id, files) in &families {
                if let Some(visible) = self.visible(files, missing) {
                    found[*id as usize] = visible;
                    together.entry(group).or_default().insert(*id);
                }
            }
        }
        if known != [true; 3] || families.len() < 2 {
            return None;
        }
        if self.made.atomic {
            // The families were always flushed together.
            let group = together.iter().rev().find(|(_, whole)| whole.len() == 2);
            found = [group.map_or(0, |(group, _)| *group); 2];
        }
        let of_family = |at: usize| self.contents[at][found[at]].clone();
        Some(vec![of_family(0), of_family(1)])
    }
}

/// What is done to a copy.
#[derive(Debug)]
struct Damage {
    removed: Vec<String>,
    halved: Vec<String>,
    /// Bytes of the MANIFEST that are left.
    cut: u64,
    current: bool,
}

impl Damage {
    fn draw(rng: &mut Rng, dir: &Path, known: &Known, cut: Option<u64>) -> Self {
        let mut any = files(dir, ".sst");
        any.extend(files(dir, ".blob"));
        let mut some = |most: u64| -> Vec<String> {
            let count = rng.uniform(most + 1);
            (0..count).map(|_| any[rng.uniform(any.len() as u64) as usize].clone()).collect()
        };
        let (mut removed, halved) = (some(4), some(1));
        removed.retain(|name| !halved.contains(name));
        removed.sort();
        removed.dedup();
        let whole = known.edits.last().unwrap().1;
        let cut = cut.unwrap_or_else(|| if rng.one_in(2) { whole } else { rng.uniform(whole) });
        Damage { removed, halved, cut, current: !rng.one_in(3) }
    }

    fn apply(&self, dir: &Path) {
        self.removed.iter().for_each(|name| std::fs::remove_file(dir.join(name)).unwrap());
        for name in &self.halved {
            let bytes = std::fs::read(dir.join(name)).unwrap();
            std::fs::write(dir.join(name), &bytes[..bytes.len() / 2]).unwrap();
        }
        let manifest = dir.join(&files(dir, "MANIFEST")[0]);
        let bytes = std::fs::read(&manifest).unwrap();
        let cut = (self.cut as usize).min(bytes.len());
        std::fs::write(&manifest, &bytes[..cut]).unwrap();
        if !self.current {
            std::fs::remove_file(dir.join("CURRENT")).unwrap();
        }
    }

    /// Blob files are missing, too.
    fn has_blobs(&self) -> bool {
        self.removed.iter().chain(&self.halved).any(|name| name.ends_with(".blob"))
    }

    fn missing(&self) -> BTreeSet<u64> {
        let names = self.removed.iter().chain(&self.halved);
        names.map(|name| name.split('.').next().unwrap().parse().unwrap()).collect()
    }
}

/// Opens a damaged copy with both engines; says how much of the database was found.
fn judge(peer: Option<&Peer>, dir: &Path, known: &Known, damage: &Damage, what: &str) -> usize {
    let copies = [Scratch::new("best-efforts-drawn-a"), Scratch::new("best-efforts-drawn-b")];
    let what = format!("{what}: {} with {damage:?}", known.made.name);
    copy_dir(dir, &copies[0].0);
    damage.apply(&copies[0].0);
    let mine = ours(&copies[0].0, true);
    let expected = known.expected(&damage.missing(), damage.cut);
    match (&mine, &expected) {
        (Ok(mine), Some(expected)) => assert_eq!(mine, expected, "{what}"),
        (Err(_), None) => {}
        _ => panic!("{what}: {mine:?} and {expected:?}"),
    }
    if mine.is_ok() {
        assert_eq!(ours(&copies[0].0, false), mine, "{what}");
    }
    if let Some(peer) = peer {
        copy_dir(dir, &copies[1].0);
        damage.apply(&copies[1].0);
        match (&mine, theirs(peer, &copies[1].0, known.made)) {
            // RocksDB knows no more of a blob file than which tables have it as their oldest.
            (Ok(_), Ok(_)) if damage.has_blobs() => {}
            (Ok(mine), Ok(other)) => assert_eq!(*mine, other, "{what}: RocksDB"),
            (Ok(_), Err(error)) if error.starts_with(UNREADABLE) => {
                assert_eq!(known.made.name, "blobs", "{what}: {error}");
            }
            (Err(_), Err(_)) => {}
            (mine, other) => panic!("{what}: {mine:?} and {other:?}"),
        }
    }
    mine.map_or(0, |families| families.iter().map(Vec::len).sum())
}

// Plain #[test]: RocksDB works on real files and has its own threads.
#[test]
fn the_newest_whole_moment_is_found() {
    let peer = pumice_peer::installed_11_8().map(|library| Peer::load(library).unwrap());
    for seed in seed::range(3) {
        let what = seed::replay_hint("the_newest_whole_moment_is_found", seed);
        let mut rng = Rng::new(seed);
        let dir = Scratch::new("best-efforts-drawn");
        let known = make(&dir.0, &mut rng, MADE[seed as usize % 3]);
        let mut sizes = BTreeSet::new();
        for _ in 0..12 {
            let damage = Damage::draw(&mut rng, &dir.0, &known, None);
            sizes.insert(judge(peer.as_ref(), &dir.0, &known, &damage, &what));
        }
        assert!(sizes.len() > 4, "{what}: {sizes:?}");
        // After each record, and in it, alone and with something missing.
        for (_, end) in &known.edits {
            let cut = *end - rng.uniform(2);
            let whole = Damage { removed: vec![], halved: vec![], cut, current: true };
            let damage = match rng.one_in(3) {
                true => Damage::draw(&mut rng, &dir.0, &known, Some(cut)),
                false => whole,
            };
            let peer = peer.as_ref().filter(|_| rng.one_in(2));
            judge(peer, &dir.0, &known, &damage, &what);
        }
    }
}
