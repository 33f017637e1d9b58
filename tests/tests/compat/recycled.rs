//! Logs over the files of older ones (`recycle_log_file_num`), as a kill leaves them: RocksDB opens
//! the database in every recovery mode, and finds every write and none of an older log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pumice::ColumnFamilyDescriptor;
use pumice_base::random::Rng;
use pumice_peer::{AnyVersion, installed_9_8, installed_11_8, installed_library};

use crate::child;
use crate::stores::temp_folder;

const MODES: [&str; 4] = [
    "kTolerateCorruptedTailRecords",
    "kAbsoluteConsistency",
    "kPointInTimeRecovery",
    "kSkipAnyCorruptedRecords",
];
const FAMILIES: [&str; 2] = ["default", "other"];
const MOMENTS: usize = 4;
/// Debian's 7.8.3, found by the loader's own search.
const OLDEST: &str = "librocksdb.so.7.8";
/// The key that RocksDB puts.
const PUT: &str = "put";

/// Text of what each family has: keys, and the lengths and first bytes of values.
fn text<'e>(entries: impl Iterator<Item = (usize, &'e [u8], &'e [u8])>) -> String {
    let mut text = String::new();
    for (family, key, value) in entries {
        let (key, first) = (String::from_utf8_lossy(key), value.first());
        text += &format!("{family} {key} {} {first:?}\n", value.len());
    }
    text
}

fn image(folder: &Path, moment: usize, name: &str) -> PathBuf {
    folder.join(format!("{moment}-{name}"))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Writes a database whose logs take over each other's files; `at` sees it at each moment, while it
/// is open and nothing runs.
fn write(path: &Path, mut at: impl FnMut(usize, String)) {
    let mut options = pumice::Options::default();
    (options.db.create_if_missing, options.db.recycle_log_file_num) = (true, 2);
    options.cf.disable_auto_compactions = true;
    options.cf.table_factory.set("format_version", "5").unwrap(); // The newest that 7.8.3 reads.
    let db = pumice::Db::open(&options, path).unwrap();
    let family = |name: &str| match name {
        "default" => db.default_column_family().clone(),
        _ => db.create_column_family(&options.cf, name).unwrap(),
    };
    let families = FAMILIES.map(family);
    let mut rng = Rng::new(7);
    let mut model: BTreeMap<(usize, String), Vec<u8>> = BTreeMap::new();
    for moment in 0..MOMENTS {
        for round in 0..3 {
            for _ in 0..60 {
                let (cf, key) = (rng.uniform(2) as usize, format!("key{:02}", rng.uniform(50)));
                let value = vec![rng.next_u64() as u8 | 1; rng.skewed(15) as usize];
                db.put_cf(&families[cf], &key, &value).unwrap();
                model.insert((cf, key), value);
                if round == 2 && rng.one_in(40) {
                    break; // The last log is shorter than the file that it has.
                }
            }
            if round < 2 {
                families.iter().for_each(|cf| db.flush_cf(cf).unwrap());
                db.disable_file_deletions();
                db.enable_file_deletions();
            }
        }
        at(moment, text(model.iter().map(|((cf, key), value)| (*cf, key.as_bytes(), &value[..]))));
    }
    db.close().unwrap();
}

/// Child job: RocksDB opens the images by their OPTIONS, puts a key and closes them.
pub fn run(folder: &Path, library: &str) -> Result<(), String> {
    let library_api = AnyVersion::load(library).map_err(|e| e.to_string())?;
    for (moment, mode) in (0..MOMENTS).flat_map(|moment| MODES.map(|mode| (moment, mode))) {
        let opened = library_api.reopen(&image(folder, moment, mode), true, PUT.as_bytes());
        opened.map_err(|e| format!("moment {moment}, {mode}: {e}"))?;
    }
    Ok(())
}

/// Has the database open in `mode`.
fn set_mode(path: &Path, mode: &str) {
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let is_options = |path: &PathBuf| path.to_string_lossy().contains("/OPTIONS-");
    for file in files.filter(is_options) {
        let text = std::fs::read_to_string(&file).unwrap();
        let changed = text.replace(
            "wal_recovery_mode=kPointInTimeRecovery",
            &format!("wal_recovery_mode={mode}"),
        );
        assert!(changed != text || mode == "kPointInTimeRecovery");
        std::fs::write(&file, changed).unwrap();
    }
}

fn contents(path: &Path) -> String {
    let options = pumice::Options::default();
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let (db, cfs) = pumice::Db::open_cf(&options.db, path, &families).unwrap();
    let mut entries = Vec::new();
    for (number, cf) in cfs.iter().enumerate() {
        let all = db.iter_cf(cf).unwrap().map(|entry| entry.unwrap());
        entries.extend(all.map(|(key, value)| (number, key.to_vec(), value.to_vec())));
    }
    drop(cfs);
    db.close().unwrap();
    entries.retain(|(_, key, _)| key != PUT.as_bytes());
    text(entries.iter().map(|(cf, key, value)| (*cf, &key[..], &value[..])))
}

#[pumice_test_macros::test]
fn rocksdb_finds_all_after_a_kill_in_every_mode() {
    let newer = [installed_9_8(), installed_library(), installed_11_8()];
    let newer = newer.into_iter().flatten().map(|path| path.display().to_string());
    for library in [OLDEST.to_string()].into_iter().chain(newer) {
        let folder = temp_folder();
        let path = folder.path().join("db");
        let (mut longer, mut expected) = (0, Vec::new());
        write(&path, |moment, text| {
            expected.push(text);
            for mode in MODES {
                let image = image(folder.path(), moment, mode);
                copy(&path, &image);
                set_mode(&image, mode);
            }
            longer += usize::from(ends_with_zeros(&path));
        });
        assert!(longer > MOMENTS / 2, "{longer} logs have zeros after their records");
        child::run("rocksdb-recycled", folder.path(), &library)
            .unwrap_or_else(|error| panic!("{library}: {error}"));
        for (moment, expected) in expected.iter().enumerate() {
            for mode in MODES {
                let found = contents(&image(folder.path(), moment, mode));
                assert!(found == *expected, "{library}, moment {moment}, {mode}:\n{found}");
            }
        }
    }
}

/// The newest log has zeros after its last record.
fn ends_with_zeros(path: &Path) -> bool {
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let newest = files.filter(|path| path.extension().is_some_and(|e| e == "log")).max();
    let bytes = std::fs::read(newest.unwrap()).unwrap();
    bytes.windows(300).any(|window| window.iter().all(|byte| *byte == 0))
}
