//! Databases of plain and of cuckoo tables, owned by RocksDB 11.8.1 and by Pumice in turn: each
//! reads what the other wrote, with the options of the other's OPTIONS file, and writes on.
//! Skipped with a message where RocksDB's library is missing.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::path::Path;

use pumice::options::{FileRules, TableFactory, load_latest_options};
use pumice::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactRangeOptions, Db, Options,
    ReadOptions,
};
use pumice_base::random::Rng;
use pumice_env::PosixFs;
use pumice_peer::{CompactRangeSettings, Peer, ReadSettings, WriteSettings};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn peer() -> Option<Peer> {
    pumice_peer::installed_11_8().map(|library| Peer::load(library).unwrap())
}

/// What both engines do to a database.
trait Owner {
    fn put(&self, key: &[u8], value: &[u8]);
    fn delete(&self, key: &[u8]);
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    fn flush(&self);
    fn compact(&self);
    /// Everything, in order.
    fn all(&self) -> Vec<(Vec<u8>, Vec<u8>)>;
}

impl Owner for Db {
    fn put(&self, key: &[u8], value: &[u8]) {
        Db::put(self, key, value).unwrap();
    }
    fn delete(&self, key: &[u8]) {
        Db::delete(self, key).unwrap();
    }
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        Db::get(self, key).unwrap().map(|value| value.to_vec())
    }
    fn flush(&self) {
        Db::flush(self).unwrap();
    }
    fn compact(&self) {
        let forced = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        self.compact_range(&forced, None, None).unwrap();
    }
    fn all(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = self.cursor_opt(&ReadOptions::default()).unwrap();
        let mut all = Vec::new();
        entries.seek_to_first();
        while entries.valid() {
            all.push((entries.key().unwrap().to_vec(), entries.value().unwrap().to_vec()));
            entries.next();
        }
        entries.status().unwrap();
        all
    }
}

struct Theirs {
    db: pumice_peer::Db,
    write: pumice_peer::WriteOptions,
    read: pumice_peer::ReadOptions,
}

impl Theirs {
    fn new(peer: &Peer, db: pumice_peer::Db) -> Self {
        Theirs {
            db,
            write: pumice_peer::WriteOptions::new(peer, &WriteSettings::default()),
            read: pumice_peer::ReadOptions::new(peer, &ReadSettings::default()),
        }
    }
}

impl Owner for Theirs {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put(&self.write, self.db.default_column_family(), key, value).unwrap();
    }
    fn delete(&self, key: &[u8]) {
        self.db.delete(&self.write, self.db.default_column_family(), key).unwrap();
    }
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let family = self.db.default_column_family();
        self.db.get(&self.read, family, key, &mut value).unwrap().then_some(value)
    }
    fn flush(&self) {
        self.db.flush(self.db.default_column_family()).unwrap();
    }
    fn compact(&self) {
        let forced = CompactRangeSettings { bottommost_level: 2, ..Default::default() };
        self.db.compact_range(self.db.default_column_family(), None, None, &forced);
    }
    fn all(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut iter = self.db.iter(&self.read, self.db.default_column_family());
        let mut all = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            all.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status().unwrap();
        all
    }
}

const COMMON: &str = "create_if_missing=true;disable_auto_compactions=true;\
                      compression=kNoCompression;";

/// A drawn database: its options, and the sizes of its keys and values.
struct Case {
    text: String,
    key_bytes: std::ops::Range<u64>,
    value_bytes: std::ops::Range<u64>,
}

impl Case {
    fn plain(rng: &mut Rng) -> Case {
        let fixed = rng.one_in(3);
        let prefixed = rng.one_in(2);
        let ratio = if prefixed { ["0.75", "0", "2"][rng.uniform(3) as usize] } else { "0" };
        // An index in the file must be a hash of prefixes where there are prefixes.
        let stores = rng.one_in(2) && (!prefixed || ratio != "0");
        let packed = rng.one_in(2);
        // RocksDB 11.8.1 misreads long keys of packed tables that it maps: it frees the buffer that
        // holds their prefix.
        let maps = !packed && rng.one_in(2);
        let text = format!(
            "{COMMON}{}table_factory={{id=PlainTable;user_key_len={};bloom_bits_per_key={};\
             hash_table_ratio={ratio};index_sparseness={};encoding_type={};\
             store_index_in_file={stores}}};allow_mmap_reads={maps}",
            if prefixed { "prefix_extractor=rocksdb.FixedPrefix.3;" } else { "" },
            if fixed { 9 } else { 0 },
            [0, 10][rng.uniform(2) as usize],
            1 + rng.uniform(20),
            if packed { "kPrefix" } else { "kPlain" },
        );
        let key_bytes = if fixed { 9..10 } else { 4..90 };
        Case { text, key_bytes, value_bytes: 0..200 }
    }

    fn cuckoo(rng: &mut Rng) -> Case {
        let text = format!(
            "{COMMON}allow_mmap_reads=true;table_factory={{id=CuckooTable;hash_table_ratio={};\
             max_search_depth=100;cuckoo_block_size={};identity_as_first_hash={};\
             use_module_hash={}}}",
            ["0.5", "0.9"][rng.uniform(2) as usize],
            [1, 5][rng.uniform(2) as usize],
            rng.one_in(3),
            rng.one_in(2),
        );
        let key = 8 + rng.uniform(9);
        // RocksDB gives all deletions of a process the value size of the first.
        let value = 24;
        Case { text, key_bytes: key..key + 1, value_bytes: value..value + 1 }
    }

    /// A key of few, so that keys come again.
    fn key(&self, rng: &mut Rng) -> Vec<u8> {
        let number = rng.uniform(400);
        let bytes = self.key_bytes.start + number % (self.key_bytes.end - self.key_bytes.start);
        let mut key = vec![b'a' + (number % 7) as u8; bytes as usize];
        let digits = format!("{number:03}");
        key[..1].copy_from_slice(&digits.as_bytes()[2..]);
        let at = key.len() - 3;
        key[at..].copy_from_slice(digits.as_bytes());
        key
    }

    fn change(&self, rng: &mut Rng, owner: &dyn Owner, model: &mut Model) {
        for _ in 0..rng.uniform(300) {
            let key = self.key(rng);
            if rng.one_in(4) {
                owner.delete(&key);
                model.remove(&key);
            } else {
                let range = self.value_bytes.end - self.value_bytes.start;
                let bytes = self.value_bytes.start + rng.uniform(range);
                let value = rng.bytes(bytes as usize);
                owner.put(&key, &value);
                model.insert(key, value);
            }
        }
        if !rng.one_in(4) {
            owner.flush();
        }
        if rng.one_in(4) {
            owner.compact();
        }
    }

    fn check(&self, rng: &mut Rng, owner: &dyn Owner, model: &Model) {
        let wanted: Vec<_> = model.clone().into_iter().collect();
        assert_eq!(owner.all(), wanted);
        for _ in 0..100 {
            let key = self.key(rng);
            assert_eq!(owner.get(&key), model.get(&key).cloned(), "{key:?}");
        }
    }

    /// Opens with these options, or with those of the OPTIONS file.
    fn ours(&self, path: &Path, from_file: bool) -> Db {
        if !from_file {
            let mut options = Options::default();
            for (name, value) in pumice::options::text::parse_map(&self.text).unwrap() {
                options.set(&name, &value).unwrap();
            }
            return Db::open(&options, path).unwrap();
        }
        let loaded = load_latest_options(&PosixFs, path, FileRules::default()).unwrap().unwrap();
        let families = loaded.column_families.iter();
        let families: Vec<_> =
            families.map(|cf| ColumnFamilyDescriptor::new(&cf.name, cf.options.clone())).collect();
        Db::open_cf(&loaded.db, path, &families).unwrap().0
    }

    fn theirs(&self, peer: &Peer, path: &Path, from_file: bool) -> Theirs {
        if from_file {
            let (options, families) = pumice_peer::Options::latest(peer, path).unwrap();
            let families: Vec<_> = families.iter().map(|(name, cf)| (&**name, cf)).collect();
            let (db, _) = pumice_peer::Db::open_cf(&options, path, &families, false).unwrap();
            return Theirs::new(peer, db);
        }
        let mut options = pumice_peer::Options::new(peer);
        options.set_many(&self.text).unwrap();
        Theirs::new(peer, pumice_peer::Db::open(&options, path).unwrap())
    }
}

fn in_turn(peer: &Peer, seeds: std::ops::Range<u64>, draw: fn(&mut Rng) -> Case) {
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let case = draw(&mut rng);
        println!("seed {seed}: {}", case.text);
        let directory = tempfile::tempdir().unwrap();
        let (path, mut model) = (directory.path(), Model::new());
        for turn in 0..6 {
            let from_file = turn > 0 && rng.one_in(2);
            let ours = rng.one_in(2);
            println!("turn {turn}: ours={ours} from_file={from_file}");
            let owner: Box<dyn Owner> = match ours {
                true => Box::new(case.ours(path, from_file)),
                false => Box::new(case.theirs(peer, path, from_file)),
            };
            case.check(&mut rng, &*owner, &model);
            case.change(&mut rng, &*owner, &mut model);
            case.check(&mut rng, &*owner, &model);
        }
    }
}

#[pumice_test_macros::test]
fn plain_tables_have_two_owners() {
    let Some(peer) = peer() else { return };
    in_turn(&peer, 0..40, Case::plain);
}

#[pumice_test_macros::test]
fn cuckoo_tables_have_two_owners() {
    let Some(peer) = peer() else { return };
    in_turn(&peer, 0..40, Case::cuckoo);
}

/// The refusals of a database, in RocksDB's words.
#[pumice_test_macros::test]
fn what_tables_without_blocks_cannot_do_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let open = |text: &[(&str, &str)]| {
        let mut options = Options::default();
        options.set("create_if_missing", "true").unwrap();
        text.iter().try_for_each(|(name, value)| options.set(name, value))?;
        Db::open(&options, directory.path())
    };
    let plain = ("table_factory", "{id=PlainTable;hash_table_ratio=0}");
    for (text, words) in [
        (&[plain, ("ttl", "10")], "TTL is only supported in Block-Based Table format. "),
        (
            &[plain, ("periodic_compaction_seconds", "10")],
            "Periodic Compaction is only supported in Block-Based Table format. ",
        ),
    ] {
        assert_eq!(open(text).err().unwrap().message(), words);
    }
    let db = open(&[plain]).unwrap();
    let refused = db.delete_range(b"a", b"b").unwrap_err();
    assert_eq!(refused.message(), "CF default reports it does not support DeleteRange");
    // The database goes on, and no range deletion is made of many deletions in a row.
    Db::put(&db, b"k", b"v").unwrap();
    for round in 0..3 {
        for number in 0..1000 {
            Db::put(&db, format!("run{number:03}"), b"v").unwrap();
        }
        Db::flush(&db).unwrap();
        for number in 0..1000 {
            Db::delete(&db, format!("run{number:03}")).unwrap();
        }
        assert_eq!(db.all().len(), 1);
        Db::flush(&db).unwrap();
        if round == 1 {
            db.compact();
        }
        assert_eq!(db.all().len(), 1);
    }
    drop(db);

    // The tables are read as blocks are, and become blocks when they are compacted.
    let db = open(&[("table_factory", "BlockBasedTable")]).unwrap();
    assert_eq!(db.all(), [(b"k".to_vec(), b"v".to_vec())]);
    db.delete_range(b"a", b"b").unwrap();
    db.compact();
    drop(db);
    // Block-based tables are read where plain ones are written, too.
    let db = open(&[plain]).unwrap();
    assert_eq!(db.all(), [(b"k".to_vec(), b"v".to_vec())]);
}

/// RocksDB's extractor rules are those of opens; `full_scan_mode` sets them aside.
#[pumice_test_macros::test]
fn a_full_scan_needs_no_extractor() {
    let directory = tempfile::tempdir().unwrap();
    let open = |table: &str, extractor: &str| {
        let mut options = Options::default();
        options.set("create_if_missing", "true").unwrap();
        options.set("table_factory", table).unwrap();
        options.set("prefix_extractor", extractor).unwrap();
        Db::open(&options, directory.path())
    };
    let db = open("PlainTable", "fixed:2").unwrap();
    Db::put(&db, b"key", b"v").unwrap();
    Db::flush(&db).unwrap();
    drop(db);
    let read = |db: Db| Db::get(&db, b"key").map(|value| value.map(|value| value.to_vec()));
    let error = open("PlainTable", "fixed:1").and_then(read).unwrap_err();
    let words = "Prefix extractor given doesn't match the one used to build PlainTable";
    assert!(error.message().contains(words), "{error}");
    let db = open("{id=PlainTable;full_scan_mode=true}", "nullptr").unwrap();
    assert_eq!(read(db).unwrap(), Some(b"v".to_vec()));
    let blocks = open("BlockBasedTable", "nullptr").unwrap();
    assert!(blocks.all().len() == 1);
    assert!(TableFactory::by_name("PlainTable").is_some_and(|format| !format.is_block_based()));
}
