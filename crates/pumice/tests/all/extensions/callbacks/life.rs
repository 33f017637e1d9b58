//! The short life of a database in which all of a user's code is called, and the contents it must
//! leave.

use std::path::Path;
use std::sync::Arc;

use pumice::{
    ColumnFamilyDescriptor, CompactRangeOptions, Db, Error, FlushOptions,
    IngestExternalFileOptions, Options, ReadOptions, Result, SstFileWriter,
};
use pumice_port::sync::Mutex;

use crate::code::Code;
use crate::common::{DIR, SYNC, key};

const KEYS: usize = 12;

/// What was acknowledged.
#[derive(Default)]
pub struct Acked {
    puts: Vec<Vec<u8>>,
    merges: usize,
    /// Calls that failed.
    pub failed: Vec<(&'static str, Error)>,
}

impl Acked {
    /// A put of `kept`.
    pub fn add(&mut self, key: &[u8]) {
        self.puts.push(key.to_vec());
    }
}

pub fn options(code: &Arc<Code>) -> Options {
    let mut options = code.options();
    options.cf.level0_file_num_compaction_trigger = 3;
    options.cf.max_successive_merges = 3;
    options.cf.memtable_prefix_bloom_size_ratio = 0.1;
    options.cf.table_factory.block_size = 64;
    options.cf.table_factory.filter_policy = Some(pumice::FilterPolicy::bloom(10.0));
    options
}

struct Life<'a> {
    db: &'a Db,
    options: &'a Options,
    acked: &'a Mutex<Acked>,
}

impl Life<'_> {
    fn note(&self, call: &'static str, result: Result<()>) -> bool {
        if let Err(error) = result {
            self.acked.lock().failed.push((call, error));
            return false;
        }
        true
    }

    fn write(&self) {
        for n in 0..KEYS {
            if self.note("put", self.db.put_opt(&SYNC, &key(n), b"kept")) {
                self.acked.lock().puts.push(key(n));
            }
            if self.note("merge", self.db.merge_opt(&SYNC, b"merged", b"+")) {
                self.acked.lock().merges += 1;
            }
        }
    }

    fn read(&self) {
        let read = ReadOptions::default();
        self.note("get", self.db.get_opt(&read, &key(3)).map(drop));
        self.note("get merged", self.db.get_opt(&read, b"merged").map(drop));
        let found = self.db.multi_get_opt(&read, &[key(1), key(5)]);
        self.note("multi_get", found.into_iter().try_for_each(|found| found.map(drop)));
        let scan = || {
            let mut iter = self.db.cursor_opt(&read)?;
            iter.seek(&key(2));
            while iter.valid() {
                iter.next();
            }
            iter.status()
        };
        self.note("iterate", scan());
    }

    fn ingest(&self) -> Result<()> {
        let path = Path::new("/life.sst");
        let mut writer = SstFileWriter::new(self.options)?;
        writer.open(path)?;
        writer.put(&key(KEYS), b"kept")?;
        writer.finish()?;
        self.db.ingest_external_file(&IngestExternalFileOptions::default(), &[path])?;
        self.acked.lock().puts.push(key(KEYS));
        Ok(())
    }

    fn family(&self) -> Result<()> {
        let family = self.db.create_column_family(&self.options.cf, "life")?;
        self.db.put_cf_opt(&SYNC, &family, b"key1", b"value")?;
        self.db.drop_column_family(&family)
    }
}

/// Lives it; all but the close.
pub fn live(db: &Db, options: &Options, acked: &Mutex<Acked>) {
    let life = Life { db, options, acked };
    for _ in 0..3 {
        life.write();
        life.note("flush", db.flush_opt(&FlushOptions::default()));
    }
    life.write();
    life.read();
    life.note("compact_range", db.compact_range(&CompactRangeOptions::default(), None, None));
    life.note("ingest", life.ingest());
    life.note("family", life.family());
    let changes = [("level0_stop_writes_trigger", "40")];
    life.note("set_options", db.set_options(&changes));
    life.note("checkpoint", db.checkpoint("/life copy"));
    life.read();
}

/// Opens with a file system that does nothing but keep files, and finds all that was acknowledged.
pub fn check(code: &Arc<Code>, acked: &Acked, what: &str) {
    let mut options = options(code);
    options.db.file_system = code.files().shared();
    let names = Db::list_column_families(&options.db, DIR).unwrap();
    let families: Vec<_> = names
        .iter()
        .map(|name| ColumnFamilyDescriptor::new(name.as_str(), options.cf.clone()))
        .collect();
    let (db, _) = Db::open_cf(&options.db, DIR, &families).unwrap();
    for key in &acked.puts {
        let found = db.get_opt(&ReadOptions::default(), key).unwrap();
        let key = String::from_utf8_lossy(key);
        assert_eq!(found.as_deref(), Some(&b"kept"[..]), "{what}: {key} is lost");
    }
    let merged = db.get_opt(&ReadOptions::default(), b"merged").unwrap();
    let operands = merged.map_or(0, |merged| merged.len());
    assert!(operands >= acked.merges, "{what}: {operands} of {} operands", acked.merges);
    db.close().unwrap();
}
