//! Flushes, compactions, background work, changes of options.

use pumice::{BottommostLevelCompaction, CompactRangeOptions, Error, UserKey, WriteBatch};
use pumice_binding::database::Database;
use pumice_binding::requests;
use pumice_binding::store::{Fields, Kind};

use crate::api::family;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::from::{Bytes, List};
use crate::ffi::handle;
use crate::ffi::into::{New, NewList};
use crate::maps::{put, table_properties};
use crate::objects::{CompactionInfo, Family, JobStats, Slice, Values};

/// Java: RocksDB.flush
pub fn flush(
    _env: Env<'_>,
    db: &Database,
    options: &Values,
    families: Option<List<'_, Family>>,
) -> Result<()> {
    let options = requests::flush(options.store());
    match families {
        None => Ok(db.db().flush_opt(&options)?),
        Some(list) => {
            let list: Vec<&pumice::ColumnFamily> = list.0.iter().map(|cf| &cf.0).collect();
            Ok(db.db().flush_cfs_opt(&options, &list)?)
        }
    }
}

/// Java: RocksDB.flushWal
pub fn flush_wal(_env: Env<'_>, db: &Database, sync: bool) -> Result<()> {
    Ok(db.db().flush_wal(sync)?)
}

/// Java: RocksDB.syncWal
pub fn sync_wal(_env: Env<'_>, db: &Database) -> Result<()> {
    Ok(db.db().sync_wal()?)
}

/// Java: RocksDB.compactRange
pub fn compact_range(
    _env: Env<'_>,
    db: &Database,
    start: Option<Bytes>,
    end: Option<Bytes>,
    options: Option<&Values>,
    cf: Option<&Family>,
) -> Result<()> {
    let options = match options {
        Some(options) => {
            check_canceled(options)?;
            requests::compact_range(options.store())
        }
        // The default of the constructor in Java.
        None => CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::IfHaveCompactionFilter,
            ..CompactRangeOptions::default()
        },
    };
    let cf = family(db, cf);
    Ok(db.db().compact_range_cf(&options, cf, start.as_deref(), end.as_deref())?)
}

/// RocksDB refuses a compaction whose options were canceled.
fn check_canceled(options: &Values) -> Result<()> {
    if options.store().flag("canceled") {
        let error = Error::incomplete("");
        return Err(error.with_subcode(pumice::SubCode::ManualCompactionPaused).into());
    }
    Ok(())
}

/// Java: RocksDB.compactFiles
#[allow(clippy::too_many_arguments)] // Java's.
pub fn compact_files(
    _env: Env<'_>,
    db: &Database,
    options: &Values,
    cf: Option<&Family>,
    files: Vec<String>,
    level: i32,
    path: i32,
    report: i64,
) -> Result<Vec<String>> {
    let options = pumice::CompactFilesOptions {
        output_path_id: u32::try_from(path).ok(),
        ..requests::compact_files(options.store(), None)
    };
    let cf = family(db, cf);
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let done = db.db().compact_files_job_cf(&options, cf, &names, level)?;
    let outputs = done.output_file_names;
    if report != 0 {
        let report = crate::ffi::handle::write::<CompactionInfo>(report)?;
        report.store_mut().put("job_id", done.job_id);
        report.store_mut().put_text("cf_name", cf.name());
        report.store_mut().put("cf_id", u64::from(cf.id()));
        report.store_mut().put_int("output_level", i64::from(level));
        report.input_files = files.iter().map(|name| name.as_bytes().to_vec()).collect();
        report.output_files = outputs.iter().map(|name| name.as_bytes().to_vec()).collect();
    }
    Ok(outputs)
}

/// Java: CompactionJobInfo.newCompactionJobInfo
pub fn new_report(_env: Env<'_>) -> Result<New<CompactionInfo>> {
    Ok(New(CompactionInfo::default()))
}

/// Java: CompactionJobStats.newCompactionJobStats
pub fn new_stats(_env: Env<'_>) -> Result<New<JobStats>> {
    Ok(New(JobStats::default()))
}

/// Java: CompactionJobStats.add
pub fn add_stats(_env: Env<'_>, this: i64, other: i64) -> Result<()> {
    // It may be added to itself.
    let other = handle::read::<JobStats>(other)?.clone();
    let store = handle::write::<JobStats>(this)?.store_mut();
    for property in &other.store().class().properties {
        // What is a flag stays.
        if property.kind == Kind::Unsigned {
            let sum = store.bits(property.name).wrapping_add(other.store().bits(property.name));
            store.put(property.name, sum);
        }
    }
    Ok(())
}

/// Java: CompactionJobStats.smallestOutputKeyPrefix
pub fn smallest_output<'a>(_env: Env<'_>, stats: &'a JobStats) -> Result<&'a [u8]> {
    Ok(stats.store().text("smallest_output_key_prefix"))
}

/// Java: CompactionJobStats.largestOutputKeyPrefix
pub fn largest_output<'a>(_env: Env<'_>, stats: &'a JobStats) -> Result<&'a [u8]> {
    Ok(stats.store().text("largest_output_key_prefix"))
}

/// Java: CompactionJobStats.reset
pub fn reset_stats(_env: Env<'_>, stats: &mut JobStats) -> Result<()> {
    *stats = JobStats::default();
    Ok(())
}

fn texts(list: &[Vec<u8>]) -> Vec<String> {
    list.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Java: CompactionJobInfo.inputFiles
pub fn report_inputs(_env: Env<'_>, report: &CompactionInfo) -> Result<Vec<String>> {
    Ok(texts(&report.input_files))
}

/// Java: CompactionJobInfo.outputFiles
pub fn report_outputs(_env: Env<'_>, report: &CompactionInfo) -> Result<Vec<String>> {
    Ok(texts(&report.output_files))
}

/// Java: CompactionJobInfo.columnFamilyName
pub fn report_family(_env: Env<'_>, report: &CompactionInfo) -> Result<Vec<u8>> {
    Ok(report.store().text("cf_name").to_vec())
}

/// Java: CompactionJobInfo.status
pub fn report_status<'a>(
    env: Env<'a>,
    report: &CompactionInfo,
) -> Result<crate::ffi::env::Object<'a>> {
    crate::ffi::call::status_object(env, report.status.as_ref())
}

/// Java: CompactionJobInfo.stats
pub fn report_stats(_env: Env<'_>, report: &CompactionInfo) -> Result<New<JobStats>> {
    Ok(New(report.stats.clone()))
}

/// Java: CompactionJobInfo.tableProperties
pub fn report_tables<'a>(env: Env<'a>, report: &CompactionInfo) -> Result<Object<'a>> {
    let map = env.construct("java/util/HashMap", "()V", &[])?;
    for (path, properties) in &report.table_properties {
        env.frame(|| {
            let path = env.new_text(&String::from_utf8_lossy(path))?;
            put(env, map, path, table_properties(env, properties)?)
        })?;
    }
    Ok(map)
}

/// Java: RocksDB.cancelAllBackgroundWork
pub fn cancel_work(_env: Env<'_>, db: &Database, wait: bool) -> Result<()> {
    // The error is in the info log; RocksDB drops it, too.
    db.db().cancel_all_background_work(wait).ok();
    Ok(())
}

/// Java: RocksDB.abortAllCompactions
pub fn abort_compactions(_env: Env<'_>, db: &Database) -> Result<()> {
    db.db().abort_all_compactions();
    Ok(())
}

/// Java: RocksDB.resumeAllCompactions
pub fn resume_compactions(_env: Env<'_>, db: &Database) -> Result<()> {
    db.db().resume_all_compactions();
    Ok(())
}

/// Java: RocksDB.promoteL0
pub fn promote(_env: Env<'_>, db: &Database, cf: Option<&Family>, level: i32) -> Result<()> {
    Ok(db.db().promote_l0(family(db, cf), level)?)
}

/// Java: RocksDB.deleteFile
pub fn delete_file(_env: Env<'_>, db: &Database, name: String) -> Result<()> {
    Ok(db.db().delete_file(&name)?)
}

/// Java: RocksDB.pauseBackgroundWork
pub fn pause_work(_env: Env<'_>, db: &Database) -> Result<()> {
    db.db().pause_background_work();
    Ok(())
}

/// Java: RocksDB.continueBackgroundWork
pub fn continue_work(_env: Env<'_>, db: &Database) -> Result<()> {
    let unpaused = |_| Error::invalid_argument("Background work already unpaused");
    Ok(db.db().continue_background_work().map_err(unpaused)?)
}

/// Java: RocksDB.disableFileDeletions
pub fn disable_deletions(_env: Env<'_>, db: &Database) -> Result<()> {
    db.db().disable_file_deletions();
    Ok(())
}

/// Java: RocksDB.enableFileDeletions (J)
/// Java: RocksDB.enableFileDeletions (JZ) 0
pub fn enable_deletions(_env: Env<'_>, db: &Database) -> Result<()> {
    db.db().enable_file_deletions();
    Ok(())
}

/// Java: RocksDB.enableAutoCompaction
pub fn enable_compactions(_env: Env<'_>, db: &Database, families: List<'_, Family>) -> Result<()> {
    for cf in families.0 {
        db.db().set_options_cf(&cf.0, &[("disable_auto_compactions", "false")])?;
    }
    Ok(())
}

/// Java: RocksDB.verifyChecksum
pub fn verify(_env: Env<'_>, db: &Database) -> Result<()> {
    Ok(db.db().verify_checksum()?)
}

/// Java: RocksDB.deleteFilesInRanges
pub fn delete_files(
    _env: Env<'_>,
    db: &Database,
    cf: Option<&Family>,
    bounds: Vec<Option<Vec<u8>>>,
    include_end: bool,
) -> Result<()> {
    let ranges: Vec<_> =
        bounds.chunks_exact(2).map(|pair| (pair[0].as_deref(), pair[1].as_deref())).collect();
    Ok(db.db().delete_files_in_ranges_cf(family(db, cf), &ranges, include_end)?)
}

fn pairs<'a>(names: &'a [String], values: &'a [String]) -> Vec<(&'a str, &'a str)> {
    names.iter().map(String::as_str).zip(values.iter().map(String::as_str)).collect()
}

/// Java: RocksDB.setOptions
pub fn set_options(
    _env: Env<'_>,
    db: &Database,
    cf: Option<&Family>,
    names: Vec<String>,
    values: Vec<String>,
) -> Result<()> {
    Ok(db.db().set_options_cf(family(db, cf), &pairs(&names, &values))?)
}

/// Java: RocksDB.setDBOptions
pub fn set_db_options(
    _env: Env<'_>,
    db: &Database,
    names: Vec<String>,
    values: Vec<String>,
) -> Result<()> {
    Ok(db.db().set_db_options(&pairs(&names, &values))?)
}

/// Java: RocksDB.suggestCompactRange
pub fn suggest(_env: Env<'_>, db: &Database, cf: Option<&Family>) -> Result<NewList<Slice>> {
    // Java's call has no range: RocksDB's suggests the empty one, and says so.
    db.db().suggest_compact_range_cf(family(db, cf), Some(b""), Some(b""))?;
    Ok(NewList(vec![Slice::new(Vec::new()), Slice::new(Vec::new())]))
}

/// Java: RocksDB.clipColumnFamily
pub fn clip(
    _env: Env<'_>,
    db: &Database,
    cf: Option<&Family>,
    begin: Bytes,
    end: Bytes,
) -> Result<()> {
    let (cf, db) = (family(db, cf), db.db());
    // Whole files first: their keys then need no tombstone.
    db.delete_files_in_ranges_cf(cf, &[(None, Some(&*begin)), (Some(&*end), None)], false)?;
    let mut cursor = db.cursor_cf(cf)?;
    cursor.seek_to_first();
    let first = cursor.key().map(<[u8]>::to_vec);
    cursor.seek_to_last();
    let last = cursor.key().map(<[u8]>::to_vec);
    cursor.status()?;
    drop(cursor);
    let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
    let order = &db.column_family_options(cf)?.comparator;
    let is_before = |a: &[u8], b: &[u8]| order.compare(UserKey::new(a), UserKey::new(b)).is_lt();
    let mut batch = WriteBatch::new();
    if is_before(&first, &begin) {
        batch.delete_range_cf(cf, &first, &*begin);
    }
    if !is_before(&last, &end) {
        // The end of a range is not deleted with it.
        if is_before(&end, &last) {
            batch.delete_range_cf(cf, &*end, &last);
        }
        batch.delete_cf(cf, &last);
    }
    db.write(&mut batch)?;
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
        ..CompactRangeOptions::default()
    };
    Ok(db.compact_range_cf(&options, cf, None, None)?)
}
