//! Databases whose column families have drawn key orders and tables of many index entries.

use pumice_base::UserKey;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Comparator,
    CustomComparator, Db, IngestExternalFileOptions, MemFs, Options, SstFileWriter, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_env::mem::CrashMode;

use crate::common::{DIR, options};

pub const NAMES: [&str; 3] = ["default", "second", "third"];

/// Short keys first.
struct ByLength;

impl CustomComparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        (a.len(), a).cmp(&(b.len(), b))
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
}

/// Letters of either case are the same.
struct AnyCase;

impl CustomComparator for AnyCase {
    fn name(&self) -> &str {
        "test.AnyCase"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

/// [`AnyCase`], which says that equal keys have equal bytes.
pub struct Lying;

impl CustomComparator for Lying {
    fn name(&self) -> &str {
        AnyCase.name()
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        AnyCase.compare(a, b)
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
}

/// The four orders, those that are built in first.
pub fn orders() -> [Comparator; 4] {
    [
        Comparator::Bytewise,
        Comparator::ReverseBytewise,
        Comparator::Custom(Arc::new(ByLength)),
        Comparator::Custom(Arc::new(AnyCase)),
    ]
}

/// A column family and what it should hold, by the one key that stands for all equal ones.
#[derive(Clone)]
pub struct Family {
    pub name: &'static str,
    pub order: Comparator,
    pub held: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Family {
    fn any_case(&self) -> bool {
        self.order.same_entry_key(UserKey::new(b"a"), UserKey::new(b"A"))
    }

    pub fn folded(&self, key: &[u8]) -> Vec<u8> {
        if self.any_case() { key.to_ascii_lowercase() } else { key.to_vec() }
    }

    /// A key, in any of its spellings. Their lengths differ.
    fn key(&self, rng: &mut Rng) -> Vec<u8> {
        let n = rng.uniform(300);
        let mut key = format!("k{n}").into_bytes();
        key.extend(vec![b'x'; (n % 7) as usize]);
        self.spelled(&key, rng)
    }

    fn spelled(&self, key: &[u8], rng: &mut Rng) -> Vec<u8> {
        let mut key = key.to_vec();
        if self.any_case() && rng.one_in(2) {
            key.make_ascii_uppercase();
        }
        key
    }

    fn sorted(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all: Vec<_> = self.held.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        all.sort_by(|a, b| self.order.compare(UserKey::new(&a.0), UserKey::new(&b.0)));
        all
    }

    fn remove_range(&mut self, begin: &[u8], end: &[u8]) {
        let order = self.order.clone();
        let inside = |key: &[u8]| {
            order.compare(UserKey::new(begin), UserKey::new(key)).is_le()
                && order.compare(UserKey::new(key), UserKey::new(end)).is_lt()
        };
        self.held.retain(|key, _| !inside(key));
    }

    /// The database holds what it should, by scans of both directions and by gets.
    pub fn check(&self, db: &Db, cf: &ColumnFamily, what: &str) {
        let what = format!("{what}: {} in {:?}", self.name, self.order);
        let read = |entry: pumice::Result<(Vec<u8>, Vec<u8>)>| {
            let (key, value) = entry.unwrap_or_else(|error| panic!("{what}: {error}"));
            (self.folded(&key), value)
        };
        let expected = self.sorted();
        let forward: Vec<_> = db.iter_cf(cf).unwrap().map(read).collect();
        assert!(forward == expected, "{what}: {} of {} keys", forward.len(), expected.len());
        let mut cursor = db.cursor_cf(cf).unwrap();
        let mut backward = Vec::new();
        cursor.seek_to_last();
        while cursor.valid() {
            backward.push((self.folded(cursor.key().unwrap()), cursor.value().unwrap().to_vec()));
            cursor.prev();
        }
        cursor.status().unwrap();
        backward.reverse();
        assert!(backward == expected, "{what}, backward");
        let mut rng = Rng::new(1);
        for (key, value) in &self.held {
            let found = db.get_cf(cf, self.spelled(key, &mut rng)).unwrap();
            assert_eq!(found.as_deref(), Some(value.as_slice()), "{what}");
        }
    }
}

/// A database and what it should hold.
pub struct Made {
    pub disk: MemFs,
    pub options: Options,
    /// Families have filters and hash indexes where they can.
    pub hashed: bool,
    pub families: Vec<Family>,
}

/// Sets every option that looks keys up by a hash of theirs.
pub fn hash_keys(options: &mut ColumnFamilyOptions) {
    options.set("memtable_prefix_bloom_size_ratio", "0.1").unwrap();
    options.set("memtable_whole_key_filtering", "true").unwrap();
    let table = &mut options.table_factory;
    table.set("filter_policy", "bloomfilter:10").unwrap();
    table.set("data_block_index_type", "kDataBlockBinaryAndHash").unwrap();
}

impl Made {
    /// Options for the family: indexes that hash keys are only for orders in which equal keys have
    /// equal bytes.
    pub fn options_of(&self, family: &Family) -> ColumnFamilyOptions {
        let mut options =
            ColumnFamilyOptions { comparator: family.order.clone(), ..self.options.cf.clone() };
        if self.hashed && !family.any_case() {
            hash_keys(&mut options);
        }
        options
    }

    pub fn descriptors(&self, families: &[Family]) -> Vec<ColumnFamilyDescriptor> {
        let descriptor = |f: &Family| ColumnFamilyDescriptor::new(f.name, self.options_of(f));
        families.iter().map(descriptor).collect()
    }

    pub fn open(&self) -> (Db, Vec<ColumnFamily>) {
        Db::open_cf(&self.options.db, DIR, &self.descriptors(&self.families)).unwrap()
    }

    pub fn check_all(&self, db: &Db, cfs: &[ColumnFamily], what: &str) {
        self.families.iter().zip(cfs).for_each(|(family, cf)| family.check(db, cf, what));
    }

    /// The same on a disk of its own.
    pub fn copy(&self) -> Made {
        let disk = self.disk.crashed_copy(0, CrashMode::PROCESS);
        let mut options = self.options.clone();
        options.db.file_system = disk.shared();
        Made { disk, options, families: self.families.clone(), hashed: self.hashed }
    }

    /// Deletes the MANIFEST.
    pub fn lose_manifest(&self) {
        let fs = self.disk.shared();
        let current = String::from_utf8(fs.read_file("/db/CURRENT".as_ref()).unwrap()).unwrap();
        fs.remove(format!("{DIR}/{}", current.trim_end()).as_ref()).unwrap();
    }

    /// Some of its families, always with the default one.
    pub fn some(&self, rng: &mut Rng) -> Vec<Family> {
        let wanted = |n: usize, rng: &mut Rng| n == 0 || rng.one_in(2);
        let all = self.families.iter().enumerate();
        all.filter(|(n, _)| wanted(*n, rng)).map(|(_, family)| family.clone()).collect()
    }
}

fn drawn_options(seed: u64, rng: &mut Rng) -> (MemFs, Options) {
    let disk = MemFs::new(seed);
    let mut options = options(&disk.shared());
    options.db.create_missing_column_families = true;
    options.cf.target_file_size_base = 4 << 10;
    options.cf.max_bytes_for_level_base = 16 << 10;
    options.cf.level0_file_num_compaction_trigger = 3;
    let table = &mut options.cf.table_factory;
    table.set("block_size", "256").unwrap();
    let kinds = ["kBinarySearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey"];
    table.set("index_type", kinds[rng.uniform(3) as usize]).unwrap();
    table.set("metadata_block_size", "128").unwrap();
    let version = ["2", "4", "5", "6"][rng.uniform(4) as usize];
    table.set("format_version", version).unwrap();
    (disk, options)
}

/// Draws one write to `family`.
pub fn write(db: &Db, cf: &ColumnFamily, family: &mut Family, rng: &mut Rng) {
    let key = family.key(rng);
    let plain = WriteOptions::default();
    match rng.uniform(20) {
        0 | 1 => {
            db.delete_cf_opt(&plain, cf, &key).unwrap();
            family.held.remove(&family.folded(&key));
        }
        2 => {
            let mut ends = [key, family.key(rng)];
            ends.sort_by(|a, b| family.order.compare(UserKey::new(a), UserKey::new(b)));
            db.delete_range_cf_opt(&plain, cf, &ends[0], &ends[1]).unwrap();
            family.remove_range(&ends[0], &ends[1]);
        }
        _ => {
            let value = format!("{:024}", rng.next_u64()).into_bytes();
            db.put_cf_opt(&plain, cf, &key, &value).unwrap();
            family.held.insert(family.folded(&key), value);
        }
    }
}

/// Adds keys as a table from outside.
pub fn ingest(made: &mut Made, db: &Db, cfs: &[ColumnFamily], n: usize, rng: &mut Rng) {
    let mut keys: Vec<_> = (0..60).map(|_| made.families[n].key(rng)).collect();
    let order = made.families[n].order.clone();
    keys.sort_by(|a, b| order.compare(UserKey::new(a), UserKey::new(b)));
    keys.dedup_by(|a, b| order.same_entry_key(UserKey::new(a), UserKey::new(b)));
    let path = format!("/outside-{n}-{}.sst", rng.next_u64());
    let mut options = made.options.clone();
    options.cf = made.options_of(&made.families[n]);
    let mut writer = SstFileWriter::for_column_family(&options, &cfs[n]).unwrap();
    writer.open(&path).unwrap();
    let family = &mut made.families[n];
    for key in keys {
        let value = format!("{:024}", rng.next_u64()).into_bytes();
        writer.put(&key, &value).unwrap();
        family.held.insert(family.folded(&key), value);
    }
    writer.finish().unwrap();
    // A rebuild without a MANIFEST needs the sequence number.
    let how = IngestExternalFileOptions { write_global_seqno: true, ..Default::default() };
    db.ingest_external_file_cf(&how, &cfs[n], &[&path]).unwrap();
    // In the order of another family it is refused by name, not called damaged.
    for (other, cf) in made.families.iter().zip(cfs) {
        if other.order.name() != order.name() {
            let error = db.ingest_external_file_cf(&how, cf, &[&path]).unwrap_err();
            assert!(error.to_string().contains("does not match existing comparator"), "{error}");
        }
    }
}

/// A closed database, with data in tables of several levels and in a log.
pub fn make(seed: u64) -> Made {
    let mut rng = Rng::new(seed);
    let (disk, options) = drawn_options(seed, &mut rng);
    let first = rng.uniform(4) as usize;
    let family = |(n, name): (usize, &&'static str)| {
        // All four are met; two of a database may be equal.
        let order = orders()[(first + n * (1 + seed as usize % 3)) % 4].clone();
        Family { name, order, held: BTreeMap::new() }
    };
    let families = NAMES.iter().enumerate().map(family).collect();
    let mut made = Made { disk, options, families, hashed: seed.is_multiple_of(2) };
    let (db, cfs) = made.open();
    for round in 0..4 {
        for _ in 0..400 {
            let n = rng.uniform(3) as usize;
            write(&db, &cfs[n], &mut made.families[n], &mut rng);
        }
        match round {
            0 | 1 => db.flush_all().unwrap(),
            2 => {
                for (n, cf) in cfs.iter().enumerate() {
                    db.compact_range_cf(&CompactRangeOptions::default(), cf, None, None).unwrap();
                    ingest(&mut made, &db, &cfs, n, &mut rng);
                }
            }
            _ => {}
        }
    }
    made.check_all(&db, &cfs, "made");
    db.close().unwrap();
    drop((db, cfs));
    made
}
