//! The life of a small database under certain options: opened, written, flushed, compacted, read in
//! every way, closed and opened again, by the same options and by its own OPTIONS file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pumice::options::{CompactionStyle, FileRules, load_latest_options};
use pumice::{
    BlockCache, CacheOptions, ColumnFamilyDescriptor, CompactRangeOptions, Db, FileSystem,
    FlushOptions, IngestExternalFileOptions, MemFs, Options, ReadOptions, SstFileWriter,
    WriteOptions,
};
use pumice_port::sim;

use super::values::Scope;

/// An option and the value it gets.
#[derive(Clone, Debug)]
pub struct Change {
    /// Where the option lives.
    pub scope: Scope,
    /// `option` or `option.member`.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Change {
    /// Sets it in an open database.
    pub fn apply(&self, db: &Db) -> pumice::Result<()> {
        let Change { scope, name, value } = self;
        let cf = db.default_column_family();
        match scope {
            Scope::Db => db.set_db_options(&[(name, value)]),
            Scope::Cf => db.set_options_cf(cf, &[(name, value)]),
            Scope::Table => {
                let nested = match name.split_once('.') {
                    Some((option, member)) => format!("{{{option}={{{member}={value};}};}}"),
                    None => format!("{{{name}={value};}}"),
                };
                db.set_options_cf(cf, &[("table_factory", &nested)])
            }
        }
    }
}

/// A refusal that names one of the options, or one that one of them needs, such as the prefix
/// extractor of a hash index.
fn is_refusal(error: &str) -> bool {
    // RocksDB's text for `cache_usage_options` names the type of its members.
    let named =
        super::values::names_an_option(error) || error.contains("CacheEntryRoleOptions::charged");
    named && (error.starts_with("Invalid argument") || error.starts_with("Not implemented"))
}

/// A change of options took place, or was refused as it should be.
pub fn told_of(result: pumice::Result<()>) -> Result<(), String> {
    match result.map_err(|error| error.to_string()) {
        Err(error) if !is_refusal(&error) => Err(error),
        _ => Ok(()),
    }
}

/// What a life is about.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Options before the database is opened.
    pub open: Vec<Change>,
    /// Options that change in the open database.
    pub running: Vec<Change>,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (word, changes) in [("open", &self.open), ("running", &self.running)] {
            for Change { name, value, .. } in changes {
                write!(f, "{word} {name}={value:.80} ")?;
            }
        }
        Ok(())
    }
}

const KEYS: usize = 150;
/// A value that fills several blocks and most of a small memtable.
const LONG_VALUE: usize = 30_000;
/// In nanoseconds.
pub const YEAR_NANOS: u64 = 365 * 24 * 3600 * 1_000_000_000;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs a life of `case`; Ok also when its options are refused with the name of one.
pub fn live(case: &Case, seed: u64) -> Result<(), String> {
    let limits = sim::Options {
        preempt_per_mille: 0,
        max_steps: 5_000_000,
        max_virtual_nanos: 500 * YEAR_NANOS,
        ..sim::Options::new(seed)
    };
    let (report, outcome) = sim::run(&limits, || life(case, seed));
    match outcome {
        Ok(result) => result,
        Err(failure) => {
            let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
            Err(format!("{failure:?} after {} s\n{stuck}", report.virtual_nanos / 1_000_000_000))
        }
    }
}

/// Why a life ended early.
enum End {
    /// With a refusal that names an option.
    Refused,
    Wrong(String),
}

/// The life itself, on whatever calls it.
pub fn life(case: &Case, seed: u64) -> Result<(), String> {
    let fs = MemFs::new(seed);
    let mut life = Life {
        fs: fs.shared(),
        case,
        model: Model::new(),
        loses: false,
        merges: false,
        reverse: false,
    };
    match life.run() {
        Ok(()) | Err(End::Refused) => Ok(()),
        Err(End::Wrong(error)) => Err(error),
    }
}

struct Life<'a> {
    fs: Arc<dyn FileSystem>,
    case: &'a Case,
    model: Model,
    /// FIFO compaction deletes old data.
    loses: bool,
    /// Merges append.
    merges: bool,
    /// Keys are in descending order.
    reverse: bool,
}

impl Life<'_> {
    fn run(&mut self) -> Result<(), End> {
        let options = self.options()?;
        self.loses = options.cf.compaction_style == CompactionStyle::Fifo;
        let operator = options.cf.get("merge_operator").map_err(wrong("merge_operator"))?;
        self.merges = !self.loses && operator.contains("StringAppend");
        self.reverse = !options.cf.comparator.is_bytewise();
        let db = self.open(&options)?;
        self.ingest(&db, &options)?;
        self.write(&db, 0)?;
        for change in &self.case.running {
            self.change(&db, change)?;
        }
        self.write(&db, 1)?;
        self.read(&db, "before a flush")?;
        self.told("flush", db.flush_opt(&FlushOptions::default()))?;
        self.write(&db, 2)?;
        self.read(&db, "after a flush")?;
        self.told("flush", db.flush_opt(&FlushOptions::default()))?;
        let compacted = db.compact_range(&CompactRangeOptions::default(), None, None);
        self.told("compact_range", compacted)?;
        self.read(&db, "after a compaction")?;
        self.ask(&db);
        self.write(&db, 3)?;
        self.told("close", db.close())?;
        drop(db);
        // Changes of the open database are in its OPTIONS file only.
        let db = self.open(&options)?;
        self.read(&db, "reopened")?;
        self.told("flush_wal", db.flush_wal(true))?;
        self.told("close", db.close())?;
        drop(db);
        let db = self.open_by_file(&options)?;
        self.read(&db, "opened by its OPTIONS file")?;
        self.write(&db, 4)?;
        self.read(&db, "written by its OPTIONS file")?;
        self.told("verify_checksum", db.verify_checksum())?;
        self.told("close", db.close())
    }

    /// Small sizes, with the case's changes.
    fn options(&self) -> Result<Options, End> {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = Arc::clone(&self.fs);
        for (name, value) in [
            ("write_buffer_size", "65536"),
            ("arena_block_size", "4096"),
            ("target_file_size_base", "20000"),
            ("max_bytes_for_level_base", "40000"),
            ("level0_file_num_compaction_trigger", "2"),
            ("merge_operator", "stringappend"),
            ("ttl", "0"),
        ] {
            options.set(name, value).map_err(wrong("the small options"))?;
        }
        let cache = CacheOptions::new(256 << 10);
        options.cf.table_factory.block_cache = Some(BlockCache::new(cache));
        for Change { scope, name, value } in &self.case.open {
            let set = match scope {
                Scope::Db => options.db.set(name, value),
                Scope::Cf => options.cf.set(name, value),
                Scope::Table => options.cf.table_factory.set(name, value),
            };
            self.told("set", set)?;
            if name == "no_block_cache" {
                options.cf.table_factory.block_cache = None;
            }
        }
        Ok(options)
    }

    /// Sorts an error: a refusal that names an option, or something wrong.
    fn told<T>(&self, what: &str, result: pumice::Result<T>) -> Result<T, End> {
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error.to_string(),
        };
        let setting = matches!(what, "set" | "open" | "set_options" | "set_db_options");
        match setting && is_refusal(&error) {
            true => Err(End::Refused),
            false => Err(End::Wrong(format!("{what}: {error}"))),
        }
    }

    fn open(&self, options: &Options) -> Result<Db, End> {
        self.told("open", Db::open(options, "/db"))
    }

    fn open_by_file(&self, base: &Options) -> Result<Db, End> {
        let rules = FileRules::default();
        let path = Path::new("/db");
        let loaded = load_latest_options(&*self.fs, path, rules).map_err(wrong("loading"))?;
        let mut loaded = loaded.ok_or_else(|| End::Wrong("no OPTIONS file".into()))?;
        loaded.db.file_system = Arc::clone(&self.fs);
        loaded.db.error_if_exists = false;
        let mut family = loaded.column_families.remove(0).options;
        if !family.table_factory.no_block_cache {
            family.table_factory.block_cache = base.cf.table_factory.block_cache.clone();
        }
        let families = [ColumnFamilyDescriptor::new("default", family)];
        let (db, _) = self.told("open", Db::open_cf(&loaded.db, path, &families))?;
        Ok(db)
    }

    fn change(&self, db: &Db, change: &Change) -> Result<(), End> {
        self.told("set_options", change.apply(db))
    }

    /// Ingests deletions of keys that do not exist yet. No data lies below them, so they get
    /// sequence number 0, the lowest one.
    fn ingest(&self, db: &Db, options: &Options) -> Result<(), End> {
        let path = Path::new("/outside.sst");
        let mut writer = self.told("SstFileWriter", SstFileWriter::new(options))?;
        self.told("open a file", writer.open(path))?;
        let mut keys: Vec<Vec<u8>> = (0..KEYS).step_by(10).map(key).collect();
        if self.reverse {
            keys.reverse();
        }
        for key in &keys {
            self.told("delete in a file", writer.delete(key))?;
        }
        self.told("finish", writer.finish().map(drop))?;
        let how = IngestExternalFileOptions::default();
        self.told("ingest", db.ingest_external_file(&how, &[path]))
    }

    /// Writes round `round`: puts, overwrites, deletions, merges, a range deletion.
    fn write(&mut self, db: &Db, round: usize) -> Result<(), End> {
        let write = WriteOptions::default();
        for n in (round..KEYS).step_by(round + 1) {
            let key = key(n);
            let len = if n == 7 + round { LONG_VALUE } else { (n * 37 + round * 11) % 300 };
            let value: Vec<u8> = (0..len).map(|at| ((at / 7) * 31 + n + round) as u8).collect();
            match n % 11 {
                3 => {
                    self.told("delete", db.delete_opt(&write, &key))?;
                    self.model.remove(&key);
                }
                5 if self.merges => {
                    let operand = &value[..value.len().min(20)];
                    self.told("merge", db.merge_opt(&write, &key, operand))?;
                    match self.model.get_mut(&key) {
                        Some(there) => {
                            there.push(b',');
                            there.extend_from_slice(operand);
                        }
                        None => drop(self.model.insert(key, operand.to_vec())),
                    }
                }
                _ => {
                    self.told("put", db.put_opt(&write, &key, &value))?;
                    self.model.insert(key, value);
                }
            }
        }
        let (low, high) = (key(100 + round), key(103 + round));
        let (begin, end) = if self.reverse { (&high, &low) } else { (&low, &high) };
        self.told("delete_range", db.delete_range_opt(&write, begin, end))?;
        self.model.retain(|key, _| match self.reverse {
            true => *key <= low || *key > high,
            false => *key < low || *key >= high,
        });
        Ok(())
    }

    /// Reads everything in every way.
    fn read(&self, db: &Db, at: &str) -> Result<(), End> {
        let reads = ReadOptions::default();
        let keys: Vec<Vec<u8>> = (0..KEYS + 3).map(key).collect();
        let many = db.multi_get_opt(&reads, &keys);
        for (key, of_many) in keys.iter().zip(many) {
            let one = self.told("get", db.get_opt(&reads, key))?;
            let of_many = self.told("multi_get", of_many)?;
            self.same(at, key, one.as_deref())?;
            self.same(at, key, of_many.as_deref())?;
        }
        let total = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
        let mut wanted: Vec<(&Vec<u8>, &Vec<u8>)> = self.model.iter().collect();
        if self.reverse {
            wanted.reverse();
        }
        let mut cursor = self.told("iterator", db.cursor_opt(&total))?;
        for backward in [false, true] {
            let mut found = Vec::new();
            if backward {
                cursor.seek_to_last()
            } else {
                cursor.seek_to_first()
            }
            while cursor.valid() {
                found.push((cursor.key().unwrap().to_vec(), cursor.value().unwrap().to_vec()));
                if backward { cursor.prev() } else { cursor.next() }
            }
            self.told("iterator", cursor.status())?;
            if backward {
                found.reverse();
            }
            let same = found.iter().map(|(key, value)| (key, value)).eq(wanted.iter().copied());
            let some = found.iter().all(|(key, value)| self.model.get(key) == Some(value));
            if !(same || self.loses && some) {
                let (found, wanted) = (found.len(), wanted.len());
                let text = format!("{at}, backward {backward}: {found} entries, not {wanted}");
                return Err(End::Wrong(text));
            }
        }
        let mut cursor = self.told("iterator", db.cursor_opt(&reads))?;
        for key in self.model.keys().step_by(17) {
            cursor.seek(key);
            self.told("seek", cursor.status())?;
            if !(self.loses || cursor.valid() && cursor.key().unwrap() == key) {
                return Err(End::Wrong(format!("{at}: a seek does not find {key:?}")));
            }
        }
        Ok(())
    }

    fn same(&self, at: &str, key: &[u8], found: Option<&[u8]>) -> Result<(), End> {
        let wanted = self.model.get(key).map(Vec::as_slice);
        if found == wanted || self.loses && found.is_none() {
            return Ok(());
        }
        let len = |value: Option<&[u8]>| value.map(<[u8]>::len);
        let (found, wanted) = (len(found), len(wanted));
        Err(End::Wrong(format!("{at}: {key:?} has {found:?} bytes, not {wanted:?}")))
    }

    /// Calls everything that is computed from the options.
    fn ask(&self, db: &Db) {
        for name in ["stats", "levelstats", "estimate-pending-compaction-bytes", "sstables"] {
            drop(db.property(&format!("rocksdb.{name}")));
        }
        drop(db.approximate_sizes(&[(&key(1), &key(50))]));
    }
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn wrong<E: ToString>(what: &'static str) -> impl Fn(E) -> End {
    move |error| End::Wrong(format!("{what}: {}", error.to_string()))
}
