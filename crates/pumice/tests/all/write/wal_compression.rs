//! `wal_compression`: records of the log are compressed by zstd, and come back in every way in
//! which a log is read.
#![cfg(feature = "zstd")]

use crate::common::{DIR, memory, options};
use pumice::{
    ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME, Db, Error, Options, WriteBatch,
    WriteOptions,
};
use pumice_compress::CompressionType;

fn log_bytes(db: &Db) -> u64 {
    db.wal_files().unwrap().iter().map(|log| log.size_file_bytes).sum()
}

fn written(options: &Options) -> Result<(Db, u64), Error> {
    let db = Db::open(options, DIR)?;
    for number in 0..200u32 {
        // Some records are longer than a block of the log.
        let value = vec![number as u8; if number % 50 == 7 { 100_000 } else { 200 }];
        db.put(number.to_be_bytes(), value)?;
    }
    let mut batch = WriteBatch::new();
    (0..100u32).for_each(|number| batch.delete((number * 2).to_be_bytes()));
    db.write_opt(&WriteOptions { sync: true, ..WriteOptions::default() }, &mut batch)?;
    let bytes = log_bytes(&db);
    Ok((db, bytes))
}

fn check(db: &Db) {
    for number in 0..200u32 {
        let len = if number % 50 == 7 { 100_000 } else { 200 };
        let wanted = (number % 2 == 1).then(|| vec![number as u8; len]);
        assert_eq!(db.get(number.to_be_bytes()).unwrap().as_deref(), wanted.as_deref(), "{number}");
    }
}

#[pumice_test_macros::test]
fn a_compressed_log_is_short_and_recovered() {
    let (_, fs) = memory();
    let mut plain = options(&fs);
    plain.db.avoid_flush_during_recovery = true;
    let mut compressed = plain.clone();
    compressed.db.wal_compression = CompressionType::Zstd;
    let (db, long) = written(&plain).unwrap();
    db.close().unwrap();
    Db::destroy(&plain, DIR).unwrap();
    let (db, short) = written(&compressed).unwrap();
    assert!(short < long / 4, "{short} bytes, {long} without compression");
    let updates = db.get_updates_since(1).unwrap().map(|update| update.unwrap().0);
    assert_eq!(updates.collect::<Vec<_>>(), (1..=201).collect::<Vec<_>>());
    db.close().unwrap();
    // The log is read whatever new ones will be like.
    for options in [&compressed, &plain, &compressed] {
        let db = Db::open(options, DIR).unwrap();
        check(&db);
        db.close().unwrap();
    }
    let mut options = plain.clone();
    options.db.create_if_missing = false;
    let family = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, plain.cf.clone());
    let (db, _) = Db::open_read_only(&options.db, DIR, &[family], false).unwrap();
    check(&db);
}

#[pumice_test_macros::test]
fn other_codecs_are_refused_by_name() {
    for (name, refused) in [("kZSTD", false), ("kNoCompression", false), ("kLZ4Compression", true)]
    {
        let mut options = pumice::DbOptions::default();
        let set =
            pumice::options::row::set_by_name(&mut options, "wal_compression", name).map(drop);
        let told = set.as_ref().map_err(ToString::to_string).err().unwrap_or_default();
        assert_eq!(set.is_err(), refused, "{told}");
        assert!(!refused || told.contains("wal_compression"), "{told}");
    }
}
