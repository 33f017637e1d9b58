//! A small honest database as the bytes of its files, and the judge of one that was changed.
//!
//! A changed database is refused, or it opens: then scans in both directions show the same, it
//! takes writes or says why not, and it reopens with the same contents. Where frames were sealed
//! again, the MANIFEST may lie about a table's keys, and a log about when its records were written:
//! then a get, which reads fewer tables, may find what a walk does not show.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, FileSystem,
    FlushOptions, MemFs, Options, ReadOptions, WriteBatch, WriteOptions,
};
use pumice_base::Error;
use pumice_env::write_file;

use crate::Outcome;

pub const DIR: &str = "/db";
/// More entries than a changed database can show.
const ENTRIES_MAX: usize = 100_000;

pub type Files = BTreeMap<String, Vec<u8>>;
type Contents = Vec<(Vec<u8>, Vec<u8>)>;

pub fn options(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::clone(fs);
    options.cf.write_buffer_size = 1 << 20;
    options.cf.merge_operator = pumice::options::merge_operator_by_name("stringappend");
    options
}

/// The files of a database with two families, tables on two levels and a log.
pub fn honest() -> Files {
    honest_with(|_| ())
}

/// As `honest`, with options that `change` changes.
pub fn honest_with(change: impl FnOnce(&mut Options)) -> Files {
    let fs = MemFs::new(3).shared();
    let mut options = options(&fs);
    change(&mut options);
    let db = Db::open(&options, DIR).unwrap();
    let other = db.create_column_family(&options.cf, "other").unwrap();
    let write = WriteOptions::default();
    for round in 0..3u32 {
        for n in 0..12u32 {
            let key = format!("key{n:02}");
            db.put_opt(&write, key.as_bytes(), format!("value {round}").as_bytes()).unwrap();
            db.merge_opt(&write, b"all", key.as_bytes()).unwrap();
            db.put_cf_opt(&write, &other, key.as_bytes(), b"other").unwrap();
        }
        db.delete_opt(&write, b"key03").unwrap();
        db.delete_range_opt(&write, b"key07", b"key09").unwrap();
        if round < 2 {
            db.flush_all_opt(&FlushOptions::default()).unwrap();
        }
        if round == 0 {
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        }
    }
    let mut batch = WriteBatch::new();
    batch.put(b"in", b"a");
    batch.put_cf(other.id(), b"batch", b"b");
    batch.single_delete(b"none");
    batch.put_log_data(b"note");
    db.write_opt(&write, &mut batch).unwrap();
    drop(other);
    db.close().unwrap();
    files_of(&fs)
}

/// The files of the database that is closed, without its info log and lock.
pub fn files_of(fs: &Arc<dyn FileSystem>) -> Files {
    let files = |name: String| {
        let bytes = fs.read_file(&Path::new(DIR).join(&name)).unwrap();
        (!name.starts_with("LO")).then_some((name, bytes))
    };
    fs.list(Path::new(DIR)).unwrap().into_iter().filter_map(files).collect()
}

/// The name of the one file that begins so, or ends.
pub fn named(files: &Files, part: &str) -> String {
    let mut found = files.keys().filter(|name| name.starts_with(part) || name.ends_with(part));
    found.next_back().unwrap().clone()
}

/// What the changed bytes may affect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    Sound,
    /// A table lies about its keys, with right checksums: its family may show anything, and one
    /// way not what it shows the other way.
    TableLies,
}

/// Everything a family shows; None if a table is damaged.
fn contents(db: &Db, cf: &ColumnFamily, trust: Trust) -> Option<Contents> {
    let mut iter = db.cursor_cf_opt(&ReadOptions::default(), cf).ok()?;
    let (mut there, mut back) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        there.push((iter.key().unwrap().to_vec(), iter.value().unwrap().to_vec()));
        assert!(there.len() < ENTRIES_MAX, "a walk without end");
        iter.next();
    }
    iter.status().ok()?;
    iter.seek_to_last();
    while iter.valid() {
        back.push((iter.key().unwrap().to_vec(), iter.value().unwrap().to_vec()));
        assert!(back.len() < ENTRIES_MAX, "a walk without end");
        iter.prev();
    }
    iter.status().ok()?;
    back.reverse();
    if there != back && trust == Trust::TableLies {
        return None;
    }
    assert!(there == back, "one way {} entries, the other {}", there.len(), back.len());
    for (key, _) in there.iter().take(20) {
        db.get_cf_opt(&ReadOptions::default(), cf, key).ok()?;
    }
    Some(there)
}

fn open(options: &Options) -> Result<(Db, Vec<ColumnFamily>), Error> {
    let names = Db::list_column_families(&options.db, DIR)?;
    let of = |name: &String| {
        let cf = ColumnFamilyOptions { num_levels: 7, ..options.cf.clone() };
        ColumnFamilyDescriptor::new(name.clone(), cf)
    };
    Db::open_cf(&options.db, DIR, &names.iter().map(of).collect::<Vec<_>>())
}

/// Opens `files` and judges what becomes of it.
pub fn exam(files: &Files, change: impl FnOnce(&mut Options)) -> Outcome {
    judge(files, change, Trust::Sound)
}

/// As `exam`, where one table may lie, which affects only its own family.
pub fn exam_with_a_lie(files: &Files, change: impl FnOnce(&mut Options)) -> Outcome {
    judge(files, change, Trust::TableLies)
}

fn judge(files: &Files, change: impl FnOnce(&mut Options), trust: Trust) -> Outcome {
    let contents = |db: &Db, cf: &ColumnFamily| contents(db, cf, trust);
    let fs = MemFs::new(5).shared();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    for (name, bytes) in files {
        write_file(&*fs, &Path::new(DIR).join(name), bytes, false).unwrap();
    }
    let mut options = options(&fs);
    options.db.create_if_missing = false;
    change(&mut options);
    let only = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let read_only = Db::open_read_only(&options.db, DIR, &only, false);
    let shown = read_only.as_ref().ok().and_then(|(db, families)| contents(db, &families[0]));
    drop(read_only);
    let Ok((db, families)) = open(&options) else { return Outcome::Refused };
    let mut before: Vec<_> = families.iter().map(|cf| contents(&db, cf)).collect();
    let default = families.iter().position(|cf| cf.id() == 0).unwrap();
    if shown.is_some() && before[default].is_some() {
        assert!(shown == before[default], "read-only and writable show the same");
    }
    let mut written = true;
    for (cf, before) in families.iter().zip(&mut before) {
        let put = db.put_cf_opt(&WriteOptions::default(), cf, b"zzz", b"new");
        written &= put.is_ok();
        if let (Ok(()), Some(before)) = (put, before) {
            before.retain(|(key, _)| key != b"zzz");
            let at = before.partition_point(|(key, _)| &key[..] < b"zzz");
            before.insert(at, (b"zzz".to_vec(), b"new".to_vec()));
        }
    }
    let sound = before.iter().all(Option::is_some);
    let flushed = db.flush_all_opt(&FlushOptions::default());
    assert!(flushed.is_ok() || !sound || !written, "what was written is flushed: {flushed:?}");
    for cf in &families {
        // Tables that the MANIFEST lies about may be refused, but not by a panic.
        if let Err(error) = db.compact_range_cf(&CompactRangeOptions::default(), cf, None, None) {
            assert!(!error.message().contains("panicked"), "{error}");
        }
    }
    // A family can be made, or the numbers for that are used up.
    if let Ok(made) = db.create_column_family(&options.cf, "made") {
        drop(db.drop_column_family(&made));
    }
    let names: Vec<String> = families.iter().map(|cf| cf.name().to_string()).collect();
    drop(families);
    drop(db.close());
    drop(db);
    let (db, families) = match open(&options) {
        Ok(opened) => opened,
        Err(error) => panic!("opened once, not twice: {error}"),
    };
    let mut changed = 0;
    for (name, before) in names.iter().zip(&before) {
        let cf = families.iter().find(|cf| cf.name() == *name).unwrap();
        if let (Some(before), Some(after)) = (before, contents(&db, cf))
            && *before != after
        {
            changed += 1;
            let lied = trust == Trust::TableLies && changed == 1;
            assert!(lied, "{name}: {} entries became {}", before.len(), after.len());
        }
    }
    drop(families);
    db.close().unwrap();
    Outcome::Taken
}
