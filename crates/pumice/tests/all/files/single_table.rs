//! Table files that are read by themselves: what is shown of their entries, and what is refused.

use std::path::PathBuf;

use crate::common::{DIR, memory, options};
use pumice::{
    CompactRangeOptions, Db, ErrorKind, MergeOperator, Options, ReadOptions, SstFileReader,
    SstFileWriter,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};

const FILE: &str = "/table.sst";

/// Joins operands with a comma.
struct Joined;

impl MergeOperator for Joined {
    fn name(&self) -> &str {
        "Joined"
    }
    fn full_merge(&self, _: &[u8], before: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all: Vec<&[u8]> = before.into_iter().chain(operands.iter().copied()).collect();
        Some(all.join(&b','))
    }
}

fn written(options: &Options, count: u32) {
    let mut writer = SstFileWriter::new(options).unwrap();
    writer.open(FILE).unwrap();
    for n in 0..count {
        writer.put(format!("k{n:04}"), format!("v{n}")).unwrap();
    }
    writer.finish().unwrap();
}

fn shown(reader: &SstFileReader, options: &ReadOptions) -> Vec<String> {
    let mut cursor = reader.cursor(options).unwrap();
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    let text = |cursor: &pumice::DbIterator| {
        let (key, value) = (cursor.key().unwrap(), cursor.value().unwrap());
        format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
    };
    cursor.seek_to_first();
    while cursor.valid() {
        forward.push(text(&cursor));
        cursor.next();
    }
    cursor.seek_to_last();
    while cursor.valid() {
        backward.push(text(&cursor));
        cursor.prev();
    }
    cursor.status().unwrap();
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

/// A table of a database: its newest versions, without what is deleted, operands merged; a snapshot
/// shows those of its time.
#[pumice_test_macros::test]
fn a_table_of_a_database_shows_keys() {
    let (_mem, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    options.cf.merge_operator = Some(std::sync::Arc::new(Joined));
    let db = Db::open(&options, DIR).unwrap();
    db.put("a", "old").unwrap();
    db.put("b", "1").unwrap();
    db.merge("m", "x").unwrap();
    let snapshot = db.snapshot();
    db.put("a", "new").unwrap();
    db.delete("b").unwrap();
    db.merge("m", "y").unwrap();
    db.flush().unwrap();
    let files = db.live_files_metadata();
    let path = PathBuf::from(format!("{}{}", files[0].directory.display(), files[0].name));
    let mut reader = SstFileReader::new(&options).unwrap();
    reader.open(&path).unwrap();
    reader.verify_checksum().unwrap();
    assert_eq!(shown(&reader, &ReadOptions::default()), ["a=new", "m=x,y"]);
    assert_eq!(shown(&reader, &ReadOptions::at(&snapshot)), ["a=old", "b=1", "m=x"]);
    assert_eq!(reader.table_properties().unwrap().num_deletions, 1);
    // The file goes, its cursor stays.
    let mut cursor = reader.cursor(&ReadOptions::default()).unwrap();
    drop(snapshot);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    cursor.seek_to_first();
    assert_eq!(cursor.value(), Some(&b"new"[..]));
}

#[pumice_test_macros::test]
fn bounds_and_seeks_are_those_of_a_database() {
    let (_mem, fs) = memory();
    let options = options(&fs);
    written(&options, 1000);
    let mut reader = SstFileReader::new(&options).unwrap();
    reader.open(FILE).unwrap();
    let bounds = ReadOptions {
        iterate_lower_bound: Some(b"k0500".to_vec()),
        iterate_upper_bound: Some(b"k0503".to_vec()),
        ..ReadOptions::default()
    };
    assert_eq!(shown(&reader, &bounds), ["k0500=v500", "k0501=v501", "k0502=v502"]);
    let mut cursor = reader.cursor(&ReadOptions::default()).unwrap();
    cursor.seek("k0500x");
    assert_eq!(cursor.key(), Some(&b"k0501"[..]));
    cursor.seek_for_prev("k0500x");
    assert_eq!(cursor.key(), Some(&b"k0500"[..]));
    cursor.seek("z");
    assert_eq!(cursor.key(), None);
}

#[pumice_test_macros::test]
fn what_cannot_be_read_is_said() {
    let (mem, fs) = memory();
    let options = options(&fs);
    let mut reader = SstFileReader::new(&options).unwrap();
    let kind = |error: pumice::Error| error.kind();
    assert_eq!(
        reader.cursor(&ReadOptions::default()).map_err(kind).unwrap_err(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(reader.verify_checksum().map_err(kind).unwrap_err(), ErrorKind::InvalidArgument);
    assert_eq!(reader.open("/none.sst").map_err(kind).unwrap_err(), ErrorKind::IoError);
    written(&options, 1000);
    reader.open(FILE).unwrap();
    // One that is open stays open no more than the next can be opened.
    assert!(reader.open("/none.sst").is_err());
    assert!(reader.table_properties().is_err());
    reader.open(FILE).unwrap();
    mem.add_fault(FaultRule::always(FaultOp::Read, FILE, Fault::Eio));
    let mut cursor = reader.cursor(&ReadOptions::default()).unwrap();
    cursor.seek_to_first();
    assert!(!cursor.valid());
    assert_eq!(cursor.status().map_err(kind).unwrap_err(), ErrorKind::IoError);
    assert!(reader.verify_checksum().is_err());
}

/// Levels are those of a database: a table by itself has none, however many there are.
#[pumice_test_macros::test]
fn a_reader_takes_no_memory_for_levels() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    written(&options, 3);
    options.cf.num_levels = i32::MAX;
    let mut reader = SstFileReader::new(&options).unwrap();
    reader.open(FILE).unwrap();
    assert_eq!(shown(&reader, &ReadOptions::default()).len(), 3);
}
