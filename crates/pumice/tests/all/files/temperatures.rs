//! Temperatures: what a file system is told of the files that it creates and opens, and what the
//! database says of its tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, fill, flush, memory, options};
use pumice::{
    ColumnFamilyOptions, CompactFilesOptions, CompactRangeOptions, Db, FileSystem,
    IngestExternalFileOptions, LiveFilesStorageInfoOptions, Options, SstFileWriter, Temperature,
};
use pumice_env::filename::{FileType, parse};
use pumice_env::{FileOptions, FileSystemWrapper, RandomAccessFile, ReadFileOptions, WritableFile};
use pumice_port::sync::Mutex;

/// Temperatures by the names of files.
type Noted = Mutex<BTreeMap<String, Temperature>>;

/// Notes the temperature of each file that is created or opened for reads at any position.
struct Noting {
    inner: Arc<dyn FileSystem>,
    created: Noted,
    opened: Noted,
}

fn note(noted: &Noted, path: &Path, temperature: Temperature) {
    let name = path.file_name().unwrap().to_str().unwrap().to_string();
    noted.lock().insert(name, temperature);
}

impl FileSystemWrapper for Noting {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.inner
    }
    fn is_own(&self) -> bool {
        self.inner.is_own()
    }
    fn create(&self, path: &Path, how: &FileOptions) -> pumice::Result<Box<dyn WritableFile>> {
        note(&self.created, path, how.temperature);
        self.inner.create(path, how)
    }
    fn open_random_with(
        &self,
        path: &Path,
        how: &ReadFileOptions,
    ) -> pumice::Result<Arc<dyn RandomAccessFile>> {
        note(&self.opened, path, how.temperature);
        self.inner.open_random_with(path, how)
    }
}

/// A file system that notes, and options for it: hot tables, cold ones in the last of three levels,
/// warm metadata, logs of ice.
fn setup() -> (Arc<Noting>, Options) {
    let (_, inner) = memory();
    let fs = Noting { inner, created: Noted::default(), opened: Noted::default() };
    let fs = Arc::new(fs);
    let mut options = options(&(Arc::clone(&fs) as Arc<dyn FileSystem>));
    options.cf.num_levels = 3;
    options.cf.disable_auto_compactions = true;
    for (name, value) in [
        ("last_level_temperature", "kCold"),
        ("default_write_temperature", "kHot"),
        ("metadata_write_temperature", "kWarm"),
        ("wal_write_temperature", "kIce"),
    ] {
        options.set(name, value).unwrap();
    }
    (fs, options)
}

/// Temperatures of the tables, ascending by level and age.
fn tables(db: &Db) -> Vec<u8> {
    let mut files = db.live_files_metadata();
    files.sort_by_key(|file| (file.level, file.file_number));
    let info = db.live_files_storage_info(&LiveFilesStorageInfoOptions::default()).unwrap();
    for file in &files {
        let same = info.iter().find(|one| one.file_number == file.file_number).unwrap();
        assert_eq!(same.temperature, file.temperature);
    }
    for number in [0, 4, 8, 10, 12, 16] {
        let of_it = files.iter().filter(|file| file.temperature == number);
        let bytes: u64 = of_it.map(|file| file.size).sum();
        let property = format!("rocksdb.live-sst-files-size-at-temperature{number}");
        assert_eq!(db.property(&property).unwrap(), bytes.to_string());
    }
    files.iter().map(|file| file.temperature).collect()
}

fn flushed(db: &Db, value: &str) {
    fill(db, 0..20, value);
    flush(db);
}

#[pumice_test_macros::test]
fn each_file_is_created_with_the_temperature_of_its_kind() {
    let (fs, mut options) = setup();
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    let db = Db::open(&options, DIR).unwrap();
    flushed(&db, &"large".repeat(30));
    flushed(&db, "small");
    assert_eq!(tables(&db), [4, 4]);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(tables(&db), [12]);
    flushed(&db, "newer");
    db.set_options(&[("default_write_temperature", "kCool")]).unwrap();
    flushed(&db, "newest");
    assert_eq!(tables(&db), [4, 10, 12]);
    db.close().unwrap();
    let mut kinds = BTreeMap::<_, Vec<_>>::new();
    for (name, temperature) in &*fs.created.lock() {
        let kind = match parse(name) {
            Some((_, FileType::Table)) => "table",
            Some((_, FileType::Blob)) => "blob",
            Some((_, FileType::Wal)) => "log",
            Some((_, FileType::InfoLog)) => continue,
            _ => "other",
        };
        kinds.entry(kind).or_default().push(*temperature);
    }
    use Temperature::{Cold, Cool, Hot, Ice, Warm};
    assert_eq!(kinds["table"], [Hot, Hot, Cold, Hot, Cool]);
    assert_eq!(kinds["blob"], [Hot]);
    assert!(kinds["log"].iter().all(|one| *one == Ice), "{kinds:?}");
    // The identity, CURRENT, the MANIFEST and the options, the latter under temporary names.
    assert!(kinds["other"].len() > 3 && kinds["other"].iter().all(|one| *one == Warm), "{kinds:?}");

    // What a table is opened with, and what is kept, is what the MANIFEST says.
    options
        .set_from_text("last_level_temperature=kUnknown;default_write_temperature=kUnknown")
        .unwrap();
    fs.opened.lock().clear();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(tables(&db), [4, 10, 12]);
    assert_eq!(crate::common::contents(&db).len(), 20);
    let opened = fs.opened.lock().clone();
    let of_tables = opened.iter().filter(|(name, _)| name.ends_with(".sst"));
    let of_tables: Vec<_> = of_tables.map(|(_, temperature)| *temperature).collect();
    assert_eq!(of_tables, [Cold, Hot, Cool]);
    flushed(&db, "unknown");
    assert_eq!(tables(&db), [4, 10, 0, 12]);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn moves_keep_the_temperature_and_jobs_may_choose_it() {
    let (_, options) = setup();
    let db = Db::open(&options, DIR).unwrap();
    flushed(&db, "moved");
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let moved = db.live_files_metadata();
    assert_eq!((moved[0].level, tables(&db)), (2, vec![4]));
    let chosen = CompactFilesOptions {
        output_temperature_override: Temperature::Ice,
        ..CompactFilesOptions::default()
    };
    db.compact_files(&chosen, &[&moved[0].name], 2).unwrap();
    assert_eq!(tables(&db), [16]);
    // Another family has options of its own.
    let own =
        ColumnFamilyOptions { default_write_temperature: Temperature::Warm, ..options.cf.clone() };
    let other = db.create_column_family(&own, "other").unwrap();
    db.put_cf(&other, b"a", b"1").unwrap();
    db.flush_cf(&other).unwrap();
    let of_other = db.live_files_metadata().into_iter().find(|f| f.column_family_name == "other");
    assert_eq!(of_other.unwrap().temperature, 8);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn ingested_copies_have_a_temperature_and_links_none() {
    let (fs, options) = setup();
    let db = Db::open(&options, DIR).unwrap();
    let ingest = |name: &str, key: &str, how: IngestExternalFileOptions| {
        let path = Path::new("/outside").join(name);
        fs.inner.create_dir_all(Path::new("/outside")).unwrap();
        let mut writer = SstFileWriter::new(&options).unwrap();
        writer.open(&path).unwrap();
        writer.put(key.as_bytes(), b"1").unwrap();
        writer.finish().unwrap();
        db.ingest_external_file(&how, &[&path]).unwrap();
        let newest = db.live_files_metadata().into_iter().max_by_key(|file| file.file_number);
        newest.unwrap().temperature
    };
    let usual = IngestExternalFileOptions::default;
    assert_eq!(ingest("a.sst", "a", usual()), 4);
    let last = IngestExternalFileOptions { fail_if_not_bottommost_level: true, ..usual() };
    assert_eq!(ingest("b.sst", "b", last), 12);
    let linked = IngestExternalFileOptions { link_files: true, ..usual() };
    assert_eq!(ingest("c.sst", "c", linked), 0);
    let created = fs.created.lock().clone();
    for file in db.live_files_metadata().iter().filter(|file| file.temperature > 0) {
        assert_eq!(created[file.name.trim_matches('/')] as u8, file.temperature);
    }
    db.close().unwrap();
}
