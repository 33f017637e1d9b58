//! Each public operation of a database, as code that is called by one may call it.

use std::path::Path;

use pumice::{
    ColumnFamilyDescriptor, CompactFilesOptions, CompactRangeOptions, Db, ErrorKind, FlushOptions,
    IngestExternalFileOptions, Options, ReadOptions, Result, SstFileWriter, WaitForCompactOptions,
    WriteBatch, WriteOptions,
};

use crate::common::{DIR, SYNC, key};

const WRITE: WriteOptions = WriteOptions { sync: false, ..SYNC };

pub type Operation = fn(&Db, &Options) -> Result<()>;

/// A further handle of the database that `own` is open on.
fn again(options: &Options) -> Result<()> {
    match Db::open(options, DIR) {
        Ok(db) => db.close(),
        Err(error) => Err(error),
    }
}

pub static OPERATIONS: [(&str, Operation); 49] = [
    ("put", |db, _| db.put_opt(&WRITE, b"called", b"1")),
    ("put synced", |db, _| db.put_opt(&SYNC, b"called", b"1")),
    ("put large", |db, _| db.put_opt(&WRITE, b"called", &[b'l'; 5000])),
    ("put unlogged", |db, _| {
        db.put_opt(&WriteOptions { disable_wal: true, ..WRITE }, b"called", b"1")
    }),
    ("delete", |db, _| db.delete_opt(&WRITE, b"called")),
    ("single_delete", |db, _| db.single_delete_opt(&WRITE, b"called once")),
    ("merge", |db, _| db.merge_opt(&WRITE, b"called and merged", b"+")),
    ("delete_range", |db, _| db.delete_range_opt(&WRITE, b"called", b"callee")),
    ("write", |db, _| {
        let mut batch = WriteBatch::new();
        batch.put(b"called", b"1");
        batch.put(b"called back", b"1");
        db.write_opt(&WRITE, &mut batch)
    }),
    ("get", |db, _| db.get_opt(&ReadOptions::default(), &key(3)).map(drop)),
    ("multi_get", |db, _| {
        let found = db.multi_get_opt(&ReadOptions::default(), &[key(1), key(2)]);
        found.into_iter().try_for_each(|found| found.map(drop))
    }),
    ("iter", |db, _| {
        let mut iter = db.cursor_opt(&ReadOptions::default())?;
        iter.seek_to_first();
        (0..5).for_each(|_| {
            if iter.valid() {
                iter.next();
            }
        });
        iter.status()
    }),
    ("snapshot", |db, _| {
        let snapshot = Some(db.snapshot());
        db.get_opt(&ReadOptions { snapshot, ..ReadOptions::default() }, &key(3)).map(drop)
    }),
    ("latest_sequence_number", |db, _| {
        db.latest_sequence_number();
        Ok(())
    }),
    ("flush", |db, _| db.flush_opt(&FlushOptions::default())),
    ("flush, not waiting", |db, _| {
        db.flush_opt(&FlushOptions {
            wait: false,
            allow_write_stall: true,
            ..FlushOptions::default()
        })
    }),
    ("flush_cfs", |db, _| {
        db.flush_cfs_opt(&FlushOptions::default(), &[db.default_column_family()])
    }),
    ("flush_all", |db, _| db.flush_all_opt(&FlushOptions::default())),
    ("flush_wal", |db, _| db.flush_wal(false)),
    ("sync_wal", |db, _| db.sync_wal()),
    ("compact_range", |db, _| db.compact_range(&CompactRangeOptions::default(), None, None)),
    ("wait_for_compact", |db, _| db.wait_for_compact(&WaitForCompactOptions::default())),
    ("pause_background_work", |db, _| {
        db.pause_background_work();
        db.continue_background_work()
    }),
    ("disable_file_deletions", |db, _| {
        db.disable_file_deletions();
        db.enable_file_deletions();
        Ok(())
    }),
    ("create_column_family", |db, options| {
        let family = db.create_column_family(&options.cf, "called")?;
        db.put_cf_opt(&WRITE, &family, b"called", b"1")?;
        db.drop_column_family(&family)
    }),
    ("column_family", |db, _| {
        db.column_family("default").map(drop).unwrap_or_default();
        Ok(())
    }),
    ("set_options", |db, _| db.set_options(&[("level0_slowdown_writes_trigger", "21")])),
    ("set_db_options", |db, _| db.set_db_options(&[("delayed_write_rate", "2000000")])),
    ("options", |db, _| {
        drop(db.options());
        db.column_family_options(db.default_column_family()).map(drop)
    }),
    ("property", |db, _| {
        for name in ["rocksdb.stats", "rocksdb.num-immutable-mem-table", "pumice.wal-syncs"] {
            db.property(name);
        }
        Ok(())
    }),
    ("property_map", |db, _| {
        db.property_map("rocksdb.cfstats");
        Ok(())
    }),
    ("property_int", |db, _| {
        db.property_int("rocksdb.estimate-num-keys");
        Ok(())
    }),
    ("live_files_metadata", |db, _| {
        db.live_files_metadata();
        Ok(())
    }),
    ("get_updates_since", |db, _| {
        let last = db.latest_sequence_number();
        for item in db.get_updates_since(last.saturating_sub(20))? {
            match item {
                Err(error) if error.kind() == ErrorKind::TryAgain => break,
                item => drop(item?),
            }
        }
        Ok(())
    }),
    ("wal_files", |db, _| {
        db.current_wal_file()?;
        db.wal_files().map(drop)
    }),
    ("verify_checksum", |db, _| db.verify_checksum()),
    ("approximate_sizes", |db, _| db.approximate_sizes(&[(b"key", b"kez")]).map(drop)),
    ("checkpoint", |db, _| db.checkpoint("/called")),
    ("background_error", |db, _| db.background_error().map_or(Ok(()), Err)),
    ("resume", |db, _| db.resume()),
    ("ingest", |db, options| {
        let path = Path::new("/called.sst");
        let mut writer = SstFileWriter::new(options)?;
        writer.open(path)?;
        writer.put(b"called from outside", b"1")?;
        writer.finish()?;
        db.ingest_external_file(&IngestExternalFileOptions::default(), &[path])
    }),
    ("delete_files_in_ranges", |db, _| {
        let cf = db.default_column_family();
        db.delete_files_in_ranges_cf(cf, &[(Some(b"a"), Some(b"b"))], true)
    }),
    ("suggest_compact_range", |db, _| db.suggest_compact_range(None, None)),
    ("compact_files", |db, _| {
        let files: Vec<_> = db.live_files_metadata().into_iter().map(|file| file.name).collect();
        let names: Vec<&str> = files.iter().map(String::as_str).collect();
        let how = CompactFilesOptions::default();
        db.compact_files(&how, &names[..names.len().min(1)], 6).map(drop)
    }),
    ("list_column_families", |_, options| Db::list_column_families(&options.db, DIR).map(drop)),
    ("open", |_, options| again(options)),
    ("open_read_only", |_, options| {
        let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
        Db::open_read_only(&options.db, DIR, &families, false).map(drop)
    }),
    ("destroy", |_, options| match Db::destroy(options, DIR) {
        Ok(()) => panic!("destroyed while it is open"),
        Err(error) => Err(error),
    }),
    ("close", |db, _| db.close()),
];

/// Whether this is an operation after which other calls may fail.
pub fn disturbs(operation: &str) -> bool {
    // Calls on a paused database, or one with an ingestion, are refused with an error.
    ["close", "pause_background_work", "open"].contains(&operation)
}
