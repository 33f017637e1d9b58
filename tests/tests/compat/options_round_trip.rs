//! Options that RocksDB got after 7.8: the OPTIONS file keeps them, each RocksDB opens the database
//! by that file, and the options that it knows are still in the file that it writes.
//!
//! The libraries say which options these are: those that 10.10.1 takes and 7.8.3 does not. And
//! those of RocksDB 11, which 11.8.1 takes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pumice::options::row::{OptionRow, RowKind, Saved};
use pumice::options::{
    BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, FileRules, LoadedOptions, OptionSet,
    load_latest_options,
};
use pumice_peer::AnyVersion;

use crate::child;
use crate::stores::temp_folder;

/// Debian's RocksDB 7.8.3, which `rocksdb-tools` brings.
const OLDEST: &str = "librocksdb.so.7.8";
const QUESTIONS: &str = "questions";
const ANSWERS: &str = "answers";
const KEY: &[u8] = b"key";

/// An option, of the section that takes it, and a value that is not its default.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Changed {
    table: bool,
    name: String,
    value: String,
}

impl Changed {
    /// As `get_options_from_string` takes it.
    fn question(&self) -> String {
        let Changed { table, name, value } = self;
        match (table, name.split_once('.')) {
            (true, _) => format!("block_based_table_factory={{{name}={value};}}"),
            (false, Some((option, member))) => format!("{option}={{{member}={value};}}"),
            (false, None) => format!("{name}={value}"),
        }
    }

    /// When our files have it; members are there if they are not the default.
    fn saved(&self) -> Saved {
        let saved = match self.table {
            true => BlockBasedTableOptions::row(&self.name).map(|row| row.saved),
            false => DbOptions::row(&self.name)
                .map(|row| row.saved)
                .or_else(|| ColumnFamilyOptions::row(&self.name).map(|row| row.saved)),
        };
        saved.unwrap_or(Saved::Newer)
    }

    fn found_in(&self, loaded: &LoadedOptions, family: usize) -> String {
        let cf = &loaded.column_families[family].options;
        match self.name.split_once('.') {
            None if self.table => cf.table_factory.get(&self.name).unwrap(),
            None if DbOptions::row(&self.name).is_some() => loaded.db.get(&self.name).unwrap(),
            None => cf.get(&self.name).unwrap(),
            Some((option, member)) => {
                let text = cf.get(option).unwrap();
                let members = text.trim_matches(['{', '}']).split(';');
                let of = members.filter_map(|m| m.split_once('='));
                let found = of.filter(|(name, _)| *name == member).map(|(_, v)| v.to_string());
                found.collect()
            }
        }
    }
}

/// A value of the row's type that is not its default, if the type is a plain one.
fn other_value<S: OptionSet>(row: &OptionRow<S>) -> Option<String> {
    let default = row.get(&S::default());
    let value = match (row.name, row.type_name) {
        ("daily_offpeak_time_utc", _) => "23:00-01:00",
        ("super_block_alignment_size", _) => "65536",
        // Only with a factory of such indexes.
        ("use_udi_as_primary_index", _) => return None,
        (name, _) if name.ends_with("temperature") => "kWarm",
        (name, _) if name.ends_with("protection_bytes_per_key") => "8",
        (_, "bool") if default == "true" => "false",
        (_, "bool") => "true",
        (_, "i32" | "u32" | "i64" | "u64" | "usize") => "7",
        _ => return None,
    };
    (!matches!(row.kind, RowKind::Unsupported { .. })).then(|| value.to_string())
}

fn candidates() -> Vec<Changed> {
    fn of<S: OptionSet>(table: bool) -> impl Iterator<Item = Changed> {
        S::rows().iter().filter_map(move |row| {
            let value = other_value(row)?;
            Some(Changed { table, name: row.name.to_string(), value })
        })
    }
    let members = [
        ("compression_opts.checksum", "true"),
        ("compression_opts.max_compressed_bytes_per_kb", "700"),
        ("compaction_options_universal.max_read_amp", "9"),
        ("compaction_options_universal.reduce_file_locking", "true"),
    ];
    let members = members.map(|(name, value)| (name.to_string(), value.to_string()));
    let members = members.map(|(name, value)| Changed { table: false, name, value });
    let rows = of::<DbOptions>(false).chain(of::<ColumnFamilyOptions>(false));
    rows.chain(of::<BlockBasedTableOptions>(true)).chain(members).collect()
}

/// Child job `takes LIBRARY`: which texts of the folder's `questions` the library takes. Child job
/// `reopen LIBRARY`: it opens the database by its OPTIONS.
pub fn run(folder: &Path, argument: &str) -> Result<(), String> {
    let (what, library) = argument.split_once(' ').ok_or("two words are expected")?;
    let other = AnyVersion::load(library).map_err(|e| e.to_string())?;
    if what == "takes" {
        let read = std::fs::read_to_string(folder.join(QUESTIONS)).map_err(|e| e.to_string())?;
        let taken = read.lines().filter(|line| other.takes(line).is_ok_and(|taken| taken));
        let taken = taken.collect::<Vec<_>>().join("\n");
        return std::fs::write(folder.join(ANSWERS), taken).map_err(|e| e.to_string());
    }
    // 7.8.3 and 9.8.4 are told to ignore unknown options; 10.10.1 knows all of them.
    let lenient = what == "reopen-leniently";
    let names = other.reopen(&folder.join("db"), lenient, KEY).map_err(|e| e.to_string())?;
    assert_eq!(names, ["default", "other"]);
    Ok(())
}

fn taken_by(library: &str, questions: &[Changed]) -> BTreeSet<Changed> {
    let folder = temp_folder();
    let text: Vec<_> = questions.iter().map(Changed::question).collect();
    std::fs::write(folder.path().join(QUESTIONS), text.join("\n")).unwrap();
    child::run("rocksdb-options-round-trip", folder.path(), &format!("takes {library}")).unwrap();
    let answers = std::fs::read_to_string(folder.path().join(ANSWERS)).unwrap();
    let answers: BTreeSet<_> = answers.lines().collect();
    questions.iter().filter(|q| answers.contains(q.question().as_str())).cloned().collect()
}

fn pumice_creates(path: &Path, changed: &BTreeSet<Changed>) {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.table_factory.set("format_version", "5").unwrap(); // The newest that 7.8.3 reads.
    for Changed { table, name, value } in changed {
        match table {
            true => options.cf.table_factory.set(name, value).unwrap(),
            false => options.set(name, value).unwrap(),
        }
    }
    let db = pumice::Db::open(&options, path).unwrap();
    drop(db.create_column_family(&options.cf, "other").unwrap());
    db.put_opt(&pumice::WriteOptions::default(), b"first", b"value").unwrap();
    db.close().unwrap();
}

fn load(path: &Path) -> LoadedOptions {
    let fs = pumice::PosixFs::shared();
    load_latest_options(&*fs, path, FileRules::default()).unwrap().unwrap()
}

/// Panics if one of `expected` is not in the database's OPTIONS, in each of its families.
fn assert_kept(path: &Path, expected: &BTreeSet<Changed>, who: &str) {
    let loaded = load(path);
    assert_eq!(loaded.column_families.len(), 2, "{who}");
    for option in expected {
        for family in 0..2 {
            let found = option.found_in(&loaded, family).replace('\\', "");
            assert_eq!(found, option.value, "{who}: {option:?}");
        }
    }
}

fn round_trip(library: &str, how: &str, newer: &BTreeSet<Changed>) {
    let folder = temp_folder();
    let path = folder.path().join("db");
    pumice_creates(&path, newer);
    assert_kept(&path, newer, "Pumice");
    child::run("rocksdb-options-round-trip", folder.path(), &format!("{how} {library}")).unwrap();
    let all: Vec<_> = newer.iter().cloned().collect();
    let known = taken_by(library, &all);
    assert_kept(&path, &known, library);
    // Pumice continues on RocksDB's database.
    let loaded = load(&path);
    let family = |cf: &pumice::options::ColumnFamilyEntry| {
        pumice::ColumnFamilyDescriptor::new(&cf.name, cf.options.clone())
    };
    let families: Vec<_> = loaded.column_families.iter().map(family).collect();
    let (db, _) = pumice::Db::open_cf(&loaded.db, &path, &families).unwrap();
    let read = pumice::ReadOptions::default();
    for key in [KEY, b"first"] {
        assert!(db.get_opt(&read, key).unwrap().is_some(), "{library}");
    }
    db.close().unwrap();
    assert_kept(&path, &known, "Pumice again");
}

/// The libraries, from old to new; the one between only where it is installed.
fn libraries() -> Vec<String> {
    let newest = pumice_peer::installed_library().expect("`cargo xtask peers` installs it");
    let between: Option<PathBuf> = pumice_peer::installed_9_8();
    let installed = between.into_iter().chain([newest]).map(|path| path.display().to_string());
    [OLDEST.to_string()].into_iter().chain(installed).collect()
}

#[pumice_test_macros::test]
fn what_rocksdb_learnt_after_7_8_is_kept() {
    let libraries = libraries();
    let (newest, older) = libraries.split_last().unwrap();
    let candidates = candidates();
    let (old, all) = (taken_by(OLDEST, &candidates), taken_by(newest, &candidates));
    assert!(old.len() > 60, "7.8.3 takes {} of {}", old.len(), candidates.len());
    let newer: BTreeSet<_> = all.difference(&old).cloned().collect();
    assert!(newer.len() > 20, "{newer:?}");
    round_trip(newest, "reopen", &newer);
    older.iter().for_each(|library| round_trip(library, "reopen-leniently", &newer));
}

#[pumice_test_macros::test]
fn a_name_is_saved_only_for_those_who_know_it() {
    let candidates = candidates();
    let libraries = libraries();
    for (at, library) in libraries.iter().enumerate() {
        let taken = taken_by(library, &candidates);
        let newest = at + 1 == libraries.len();
        let refused = candidates.iter().filter(|option| match option.saved() {
            Saved::Always => !taken.contains(option),
            Saved::Newer => newest && !taken.contains(option),
            Saved::Newest => taken.contains(option),
            Saved::Never => taken.contains(option),
        });
        assert_eq!(refused.collect::<Vec<_>>(), [] as [&Changed; 0], "{library}");
        // A database of default options needs no lenient reader.
        round_trip(library, "reopen", &BTreeSet::new());
    }
}

/// As above, for options of RocksDB 11: 10.10.1 passes over them.
#[pumice_test_macros::test]
fn what_rocksdb_learnt_after_10_10_is_kept() {
    let Some(library) = pumice_peer::installed_11_8() else { return };
    let newest = candidates().into_iter().filter(|option| option.saved() == Saved::Newest);
    let newest: BTreeSet<_> = newest.collect();
    assert!(newest.iter().any(|option| option.name == "separate_key_value_in_data_block"));
    let library = library.display().to_string();
    let all: Vec<_> = newest.iter().cloned().collect();
    assert_eq!(taken_by(&library, &all), newest);
    round_trip(&library, "reopen", &newest);
    libraries().iter().for_each(|older| round_trip(older, "reopen-leniently", &newest));
}
