//! Properties, sizes, metadata of files.

use jni_sys::jvalue;
use pumice::options::format_options_file;
use pumice::{Error, LiveFile, SstFileReader, UserKey};
use pumice_binding::database::Database;
use pumice_binding::reports::Properties;

use crate::api::family;
use crate::ffi::call::{Failure, Result};
use crate::ffi::env::{Env, Object};
use crate::ffi::handle;
use crate::maps::{put, table_properties, text_map};
use crate::objects::{Cache, Family, Slice};

/// A property of this library alone.
const VERSION: &str = "pumice.version";

fn property(db: &Database, cf: &pumice::ColumnFamily, name: &str) -> Option<String> {
    if name == VERSION {
        return Some(env!("CARGO_PKG_VERSION").to_string());
    }
    db.db().property_cf(cf, name)
}

fn missing() -> Failure {
    Error::not_found("").into()
}

/// Java: RocksDB.getProperty 0 1 2
pub fn get(_env: Env<'_>, db: &Database, cf: Option<&Family>, name: String) -> Result<String> {
    property(db, family(db, cf), &name).ok_or_else(missing)
}

/// These are texts in RocksDB, although a number is in them.
fn is_number(name: &str) -> bool {
    !name.starts_with("rocksdb.num-files-at-level")
        && !name.starts_with("rocksdb.compression-ratio-at-level")
}

/// Java: RocksDB.getLongProperty 0 1 2
pub fn get_long(_env: Env<'_>, db: &Database, cf: Option<&Family>, name: String) -> Result<u64> {
    let found = db.db().property_int_cf(family(db, cf), &name).filter(|_| is_number(&name));
    found.ok_or_else(missing)
}

/// Java: RocksDB.getAggregatedLongProperty 0 1
pub fn get_sum(_env: Env<'_>, db: &Database, name: String) -> Result<u64> {
    db.db().property_int(&name).filter(|_| is_number(&name)).ok_or_else(missing)?;
    let families = db.db().column_families();
    let numbers = families.iter().filter_map(|cf| db.db().property_int_cf(cf, &name));
    Ok(numbers.fold(0, u64::saturating_add))
}

/// Java: RocksDB.getMapProperty 0 1 2
pub fn get_map<'a>(
    env: Env<'a>,
    db: &Database,
    cf: Option<&Family>,
    name: String,
) -> Result<Object<'a>> {
    let found = db.db().property_map_cf(family(db, cf), &name).ok_or_else(missing)?;
    text_map(env, found)
}

/// Java: RocksDB.resetStats
pub fn reset_stats(_env: Env<'_>, db: &Database) -> Result<()> {
    db.db().reset_stats();
    Ok(())
}

/// Java: RocksDB.getLatestSequenceNumber
pub fn latest_number(_env: Env<'_>, db: &Database) -> Result<u64> {
    Ok(db.db().latest_sequence_number())
}

/// Java: RocksDB.getName
pub fn name(_env: Env<'_>, db: &Database) -> Result<String> {
    Ok(db.db().path().to_string_lossy().into_owned())
}

/// Java: RocksDB.numberLevels
pub fn levels(_env: Env<'_>, db: &Database, cf: Option<&Family>) -> Result<i32> {
    Ok(db.db().column_family_options(family(db, cf))?.num_levels)
}

/// Java: RocksDB.maxMemCompactionLevel
pub fn mem_level(_env: Env<'_>, _db: &Database, _cf: i64) -> Result<i32> {
    // Flushes go to level 0, as in RocksDB.
    Ok(0)
}

/// Java: RocksDB.level0StopWriteTrigger
pub fn stop_trigger(_env: Env<'_>, db: &Database, cf: Option<&Family>) -> Result<i32> {
    Ok(db.db().column_family_options(family(db, cf))?.level0_stop_writes_trigger)
}

/// Java: RocksDB.getApproximateSizes
pub fn sizes(
    _env: Env<'_>,
    db: &Database,
    cf: Option<&Family>,
    ranges: Vec<i64>,
    flags: i8,
) -> Result<Vec<i64>> {
    let cf = family(db, cf);
    let mut slices = Vec::new();
    for pair in ranges.chunks_exact(2) {
        let [start, end] = pair else { continue };
        let (start, end) = (handle::read::<Slice>(*start)?, handle::read::<Slice>(*end)?);
        slices.push((start.bytes(), end.bytes()));
    }
    let mut sums = vec![0; slices.len()];
    if flags & 2 != 0 {
        sums = db.db().approximate_sizes_cf(cf, &slices)?;
    }
    if flags & 1 != 0 {
        for (sum, (start, end)) in sums.iter_mut().zip(&slices) {
            *sum += db.db().approximate_memtable_stats_cf(cf, start, end)?.1;
        }
    }
    Ok(sums.into_iter().map(u64::cast_signed).collect())
}

/// Java: RocksDB.getApproximateMemTableStats
pub fn memtable_stats(
    _env: Env<'_>,
    db: &Database,
    cf: Option<&Family>,
    start: &Slice,
    end: &Slice,
) -> Result<Vec<i64>> {
    let (count, size) =
        db.db().approximate_memtable_stats_cf(family(db, cf), start.bytes(), end.bytes())?;
    Ok(vec![count.cast_signed(), size.cast_signed()])
}

/// A file as Java's `LiveFileMetaData`.
fn live_file<'a>(env: Env<'a>, file: &LiveFile) -> Result<Object<'a>> {
    let bytes = |bytes: &[u8]| env.new_bytes(bytes).map(|object| jvalue { l: object.raw() });
    let text = |text: &str| env.new_text(text).map(|object| jvalue { l: object.raw() });
    let number = |number: u64| jvalue { j: number.cast_signed() };
    let arguments = [
        bytes(file.column_family_name.as_bytes())?,
        jvalue { i: i32::try_from(file.level).unwrap_or(0) },
        text(&file.name)?,
        text(&file.directory.to_string_lossy())?,
        number(file.size),
        number(file.smallest_seq),
        number(file.largest_seq),
        bytes(&file.smallest_key)?,
        bytes(&file.largest_key)?,
        number(0),
        jvalue { z: false },
        number(file.num_entries),
        number(file.num_deletions),
        bytes(b"")?,
    ];
    let signature = "([BILjava/lang/String;Ljava/lang/String;JJJ[B[BJZJJ[B)V";
    env.construct("org/rocksdb/LiveFileMetaData", signature, &arguments)
}

/// Java: RocksDB.getLiveFilesMetaData
pub fn live_files<'a>(env: Env<'a>, db: &Database) -> Result<Object<'a>> {
    let files = db.db().live_files_metadata();
    let array = env.new_objects("org/rocksdb/LiveFileMetaData", files.len())?;
    for (at, file) in files.iter().enumerate() {
        env.frame(|| env.set_element(array, at, live_file(env, file)?))?;
    }
    Ok(array)
}

/// A file as Java's `SstFileMetaData`.
fn sst_file<'a>(env: Env<'a>, file: &LiveFile) -> Result<Object<'a>> {
    let bytes = |bytes: &[u8]| env.new_bytes(bytes).map(|object| jvalue { l: object.raw() });
    let text = |text: &str| env.new_text(text).map(|object| jvalue { l: object.raw() });
    let number = |number: u64| jvalue { j: number.cast_signed() };
    let arguments = [
        text(&file.name)?,
        text(&file.directory.to_string_lossy())?,
        number(file.size),
        number(file.smallest_seq),
        number(file.largest_seq),
        bytes(&file.smallest_key)?,
        bytes(&file.largest_key)?,
        number(0),
        jvalue { z: false },
        number(file.num_entries),
        number(file.num_deletions),
        bytes(b"")?,
    ];
    let signature = "(Ljava/lang/String;Ljava/lang/String;JJJ[B[BJZJJ[B)V";
    env.construct("org/rocksdb/SstFileMetaData", signature, &arguments)
}

/// Java: RocksDB.getColumnFamilyMetaData
pub fn family_metadata<'a>(env: Env<'a>, db: &Database, cf: Option<&Family>) -> Result<Object<'a>> {
    let cf = family(db, cf);
    let all = db.db().live_files_metadata();
    let own: Vec<&LiveFile> =
        all.iter().filter(|file| file.column_family_name == cf.name()).collect();
    let count = usize::try_from(db.db().column_family_options(cf)?.num_levels).unwrap_or(0);
    let levels = env.new_objects("org/rocksdb/LevelMetaData", count)?;
    let number = |number: u64| jvalue { j: number.cast_signed() };
    let size_of = |files: &[&LiveFile]| files.iter().map(|file| file.size).sum::<u64>();
    for level in 0..count {
        let at: Vec<&LiveFile> = own.iter().copied().filter(|file| file.level == level).collect();
        env.frame(|| {
            let files = env.new_objects("org/rocksdb/SstFileMetaData", at.len())?;
            for (index, file) in at.iter().enumerate() {
                env.frame(|| env.set_element(files, index, sst_file(env, file)?))?;
            }
            let arguments = [
                jvalue { i: i32::try_from(level).unwrap_or(0) },
                number(size_of(&at)),
                jvalue { l: files.raw() },
            ];
            let signature = "(IJ[Lorg/rocksdb/SstFileMetaData;)V";
            let made = env.construct("org/rocksdb/LevelMetaData", signature, &arguments)?;
            env.set_element(levels, level, made)
        })?;
    }
    let name = env.new_bytes(cf.name().as_bytes())?;
    let arguments = [
        number(size_of(&own)),
        number(own.len() as u64),
        jvalue { l: name.raw() },
        jvalue { l: levels.raw() },
    ];
    let signature = "(JJ[B[Lorg/rocksdb/LevelMetaData;)V";
    env.construct("org/rocksdb/ColumnFamilyMetaData", signature, &arguments)
}

/// Java: MemoryUtil.getApproximateMemoryUsageByType
pub fn memory_usage<'a>(env: Env<'a>, databases: Vec<i64>, caches: Vec<i64>) -> Result<Object<'a>> {
    let names = [
        "rocksdb.size-all-mem-tables",
        "rocksdb.cur-size-all-mem-tables",
        "rocksdb.estimate-table-readers-mem",
    ];
    let mut sums = [0u64; 4];
    for number in databases {
        let db = handle::read::<Database>(number)?;
        for (sum, name) in sums.iter_mut().zip(names) {
            *sum += db.db().property_int(name).unwrap_or(0);
        }
    }
    for number in caches {
        sums[3] += handle::read::<Cache>(number)?.blocks.usage() as u64;
    }
    let map = env.construct("java/util/HashMap", "()V", &[])?;
    for (kind, sum) in (0i8..).zip(sums) {
        let kind = env.construct("java/lang/Byte", "(B)V", &[jvalue { b: kind }])?;
        let arguments = [jvalue { j: sum.cast_signed() }];
        let sum = env.construct("java/lang/Long", "(J)V", &arguments)?;
        put(env, map, kind, sum)?;
    }
    Ok(map)
}

/// The properties of the family's tables for which `wanted` holds, as Java's map from paths.
fn table_map<'a>(
    env: Env<'a>,
    db: &Database,
    cf: &pumice::ColumnFamily,
    wanted: impl Fn(&LiveFile) -> bool,
) -> Result<Object<'a>> {
    let options = pumice::Options {
        db: (*db.db().options()).clone(),
        cf: (*db.db().column_family_options(cf)?).clone(),
    };
    let mut reader = SstFileReader::new(&options)?;
    let map = env.construct("java/util/HashMap", "()V", &[])?;
    for file in db.db().live_files_metadata() {
        if file.column_family_name != cf.name() || !wanted(&file) {
            continue;
        }
        let path = format!("{}{}", file.directory.to_string_lossy(), file.name);
        reader.open(&path)?;
        let properties = Properties::new(reader.table_properties()?);
        env.frame(|| put(env, map, env.new_text(&path)?, table_properties(env, &properties)?))?;
    }
    Ok(map)
}

/// [`table_map`], while no file is deleted.
fn all_tables<'a>(
    env: Env<'a>,
    db: &Database,
    cf: &pumice::ColumnFamily,
    wanted: impl Fn(&LiveFile) -> bool,
) -> Result<Object<'a>> {
    let _kept = FilesKept::of(db.db());
    table_map(env, db, cf, wanted)
}

/// No file is deleted while it lives.
struct FilesKept<'a>(&'a pumice::Db);

impl<'a> FilesKept<'a> {
    fn of(db: &'a pumice::Db) -> Self {
        db.disable_file_deletions();
        FilesKept(db)
    }
}

impl Drop for FilesKept<'_> {
    fn drop(&mut self) {
        self.0.enable_file_deletions();
    }
}

/// Java: RocksDB.getPropertiesOfAllTables
pub fn of_all_tables<'a>(env: Env<'a>, db: &Database, cf: Option<&Family>) -> Result<Object<'a>> {
    all_tables(env, db, family(db, cf), |_| true)
}

/// Java: RocksDB.getPropertiesOfTablesInRange
pub fn of_tables_in_ranges<'a>(
    env: Env<'a>,
    db: &Database,
    cf: Option<&Family>,
    ranges: Vec<i64>,
) -> Result<Object<'a>> {
    let cf = family(db, cf);
    let options = db.db().column_family_options(cf)?;
    let is_before =
        |a: &[u8], b: &[u8]| options.comparator.compare(UserKey::new(a), UserKey::new(b)).is_lt();
    let mut slices = Vec::new();
    for number in ranges {
        slices.push(handle::read::<Slice>(number)?.bytes());
    }
    let overlaps = |file: &LiveFile, pair: &[&[u8]]| {
        !is_before(&file.largest_key, pair[0]) && !is_before(pair[1], &file.smallest_key)
    };
    all_tables(env, db, cf, |file| slices.chunks_exact(2).any(|pair| overlaps(file, pair)))
}

/// The lines of a section of an OPTIONS file, as one text.
fn section(file: &str, title: &str) -> String {
    let lines = file.lines().skip_while(|line| !line.starts_with(title)).skip(1);
    let own = lines.take_while(|line| !line.starts_with('['));
    let texts = own.map(str::trim).filter(|line| !line.is_empty());
    texts.map(|line| format!("{line};  ")).collect()
}

/// Java: RocksDB.getDBOptions
pub fn db_options(_env: Env<'_>, db: &Database) -> Result<String> {
    Ok(section(&format_options_file(&db.db().options(), &[]), "[DBOptions]"))
}

/// Java: RocksDB.getOptions
pub fn cf_options(_env: Env<'_>, db: &Database, cf: Option<&Family>) -> Result<String> {
    let cf = db.db().column_family_options(family(db, cf))?;
    Ok(section(&format_options_file(&db.db().options(), &[("x", &cf)]), "[CFOptions"))
}
