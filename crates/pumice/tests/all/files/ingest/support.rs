//! Making external files, and looking at where they went.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice::{
    ColumnFamily, Db, FileSystem, IngestExternalFileOptions, LiveFile, MemFs, Options, Result,
    SstFileWriter,
};

pub use crate::common::{DIR, contents, flush, get, names};

/// One record of an external file.
#[derive(Clone, Debug)]
pub enum Record {
    Put(Vec<u8>, Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

pub fn put(key: &str, value: &str) -> Record {
    Record::Put(key.into(), value.into())
}

/// Writes the table `name` with `records` in their order.
pub fn write_table(options: &Options, name: &str, records: &[Record]) -> Result<PathBuf> {
    let path = PathBuf::from(name);
    let mut writer = SstFileWriter::new(options)?;
    writer.open(&path)?;
    for record in records {
        match record {
            Record::Put(key, value) => writer.put(key, value)?,
            Record::Merge(key, value) => writer.merge(key, value)?,
            Record::Delete(key) => writer.delete(key)?,
            Record::DeleteRange(begin, end) => writer.delete_range(begin, end)?,
        }
    }
    writer.finish()?;
    Ok(path)
}

/// A table of puts with one value.
pub fn table_of(options: &Options, name: &str, keys: &[&str], value: &str) -> PathBuf {
    let records: Vec<Record> = keys.iter().map(|key| put(key, value)).collect();
    write_table(options, name, &records).unwrap()
}

pub fn ingest(db: &Db, files: &[&PathBuf]) -> Result<()> {
    db.ingest_external_file(&IngestExternalFileOptions::default(), files)
}

/// An empty database on an in-memory file system, without automatic compactions.
pub fn fresh() -> (MemFs, Options, Db) {
    let (memory, fs) = crate::common::memory();
    fs.create_dir_all(Path::new("/in")).unwrap();
    let mut options = crate::common::options(&fs);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    (memory, options, db)
}

/// The table files, newest number last.
pub fn files(db: &Db) -> Vec<LiveFile> {
    let mut files = db.live_files_metadata();
    files.sort_by_key(|file| file.file_number);
    files
}

/// Level and largest sequence number of each file, newest number last.
pub fn places(db: &Db) -> Vec<(i32, u64)> {
    files(db).iter().map(|file| (file.level as i32, file.largest_seq)).collect()
}

/// The file with those first and last keys and the newest entries.
pub fn file_of(db: &Db, first: &str, last: &str) -> LiveFile {
    let mut files = files(db);
    files.retain(|f| f.smallest_key == first.as_bytes() && f.largest_key == last.as_bytes());
    files.into_iter().max_by_key(|file| file.largest_seq).unwrap()
}

/// The tables in the directory are exactly those of the versions.
pub fn assert_no_litter(fs: &Arc<dyn FileSystem>, db: &Db) {
    let mut expected: Vec<String> =
        files(db).iter().map(|file| format!("{:06}.sst", file.file_number)).collect();
    expected.sort();
    let found: Vec<String> =
        names(fs, DIR).into_iter().filter(|name| name.ends_with(".sst")).collect();
    assert_eq!(found, expected, "tables in the directory");
}

pub fn get_cf(db: &Db, cf: &ColumnFamily, key: &[u8]) -> Option<Vec<u8>> {
    db.get_cf_opt(&Default::default(), cf, key).unwrap().map(|value| value.to_vec())
}
