//! Flushes, compactions, background work, checks of files.

use pumice::{CompactRangeOptions, Error, IngestExternalFileOptions, Result};
use pumice_binding::database::Database;
use pumice_binding::reports::CompactionInfo;
use pumice_binding::requests;
use pumice_binding::store::Fields;

use crate::ffi::flag::Flag;
use crate::ffi::from::{Out, Text};
use crate::ffi::generated::{
    rocksdb_compactoptions_t, rocksdb_flushoptions_t, rocksdb_flushwaloptions_t,
    rocksdb_ingestexternalfileoptions_t, rocksdb_wait_for_compact_options_t,
};
use crate::ffi::into::{Copied, IntoC};
use crate::ffi::lists::CopiedTexts;
use crate::ffi::macros::c_api;
use crate::ffi::types::{CompactFiles as CompactFilesSettings, Family, Options, ReadOptions};

/// A manual compaction. RocksDB's functions have no place for an error.
fn compact(
    db: &Database,
    options: &CompactRangeOptions,
    cf: &pumice::ColumnFamily,
    (start, limit): (Option<&[u8]>, Option<&[u8]>),
) {
    let compacted = db.db().compact_range_cf(options, cf, start, limit);
    // The error is in the info log; RocksDB drops it, too.
    compacted.ok();
}

fn ingest(
    db: &Database,
    cf: &pumice::ColumnFamily,
    files: &[String],
    options: &rocksdb_ingestexternalfileoptions_t,
) -> Result<()> {
    let options: IngestExternalFileOptions = requests::ingest(options.store());
    db.db().ingest_external_file_cf(&options, cf, files)
}

/// The result of compact_files: names of the outputs, and the report.
struct CompactFiles<'a> {
    db: &'a Database,
    options: &'a CompactFilesSettings,
    files: Vec<String>,
    /// The level, and the path of the outputs: that of the level if it is negative.
    to: (i32, i32),
}

impl CompactFiles<'_> {
    fn run(
        &self,
        cf: &pumice::ColumnFamily,
        report: Option<&mut CompactionInfo>,
    ) -> Result<Vec<String>> {
        let files: Vec<&str> = self.files.iter().map(String::as_str).collect();
        let (canceled, (level, path)) = (self.options.canceled.clone(), self.to);
        let options = pumice::CompactFilesOptions {
            output_path_id: u32::try_from(path).ok(),
            ..requests::compact_files(self.options.store(), canceled)
        };
        let done = self.db.db().compact_files_job_cf(&options, cf, &files, level)?;
        let outputs = done.output_file_names;
        if let Some(report) = report {
            report.store_mut().put("job_id", done.job_id);
            report.store_mut().put_text("cf_name", cf.name());
            report.store_mut().put("cf_id", u64::from(cf.id()));
            report.store_mut().put_int("output_level", i64::from(level));
            report.store_mut().put("input_files_count", files.len() as u64);
            report.store_mut().put("output_files_count", outputs.len() as u64);
            report.input_files = files.iter().map(|name| name.as_bytes().to_vec()).collect();
            report.output_files = outputs.iter().map(|name| name.as_bytes().to_vec()).collect();
        }
        Ok(outputs)
    }
}

fn give_names(
    names: &[String],
    mut list: Out<'_, *mut *mut std::ffi::c_char>,
    mut count: Out<'_, usize>,
) {
    if list.wanted() {
        list.set(Copied::list(names).into_c());
    }
    count.set(names.len());
}

c_api! {
    fn rocksdb_flush(db: &Database, options: &rocksdb_flushoptions_t, errptr: Fail) {
        db.db().flush_opt(&requests::flush(options.store()))
    }

    fn rocksdb_flush_cf(
        db: &Database, options: &rocksdb_flushoptions_t, cf: &Family, errptr: Fail
    ) {
        db.db().flush_cf_opt(&requests::flush(options.store()), &cf.0)
    }

    fn rocksdb_flush_cfs(
        db: &Database, options: &rocksdb_flushoptions_t, families: IntList<Family>, errptr: Fail
    ) {
        let families: Vec<&pumice::ColumnFamily> = families.iter().map(|cf| &cf.0).collect();
        db.db().flush_cfs_opt(&requests::flush(options.store()), &families)
    }

    fn rocksdb_flush_wal(db: &Database, sync: bool, errptr: Fail) {
        db.db().flush_wal(sync)
    }

    fn rocksdb_flush_wal_with_options(
        db: &Database, options: &rocksdb_flushwaloptions_t, errptr: Fail
    ) {
        db.db().flush_wal(options.store().flag("sync"))
    }

    fn rocksdb_compact_range(db: &Database, start: OptBytes, limit: OptBytes) {
        compact(db, &CompactRangeOptions::default(), db.default_family(), (start, limit));
    }

    fn rocksdb_compact_range_cf(db: &Database, cf: &Family, start: OptBytes, limit: OptBytes) {
        compact(db, &CompactRangeOptions::default(), &cf.0, (start, limit));
    }

    fn rocksdb_compact_range_opt(
        db: &Database, options: &rocksdb_compactoptions_t, start: OptBytes, limit: OptBytes
    ) {
        let options = requests::compact_range(options.store());
        compact(db, &options, db.default_family(), (start, limit));
    }

    fn rocksdb_compact_range_cf_opt(
        db: &Database, cf: &Family, options: &rocksdb_compactoptions_t, start: OptBytes,
        limit: OptBytes
    ) {
        compact(db, &requests::compact_range(options.store()), &cf.0, (start, limit));
    }

    fn rocksdb_suggest_compact_range(
        db: &Database, start: OptBytes, limit: OptBytes, errptr: Fail
    ) {
        db.db().suggest_compact_range(start, limit)
    }

    fn rocksdb_suggest_compact_range_cf(
        db: &Database, cf: &Family, start: OptBytes, limit: OptBytes, errptr: Fail
    ) {
        db.db().suggest_compact_range_cf(&cf.0, start, limit)
    }

    fn rocksdb_compact_files(
        db: &Database, options: &CompactFilesSettings, files: Texts, output_level: i32,
        output_path_id: i32, outputs: Out<'_, *mut *mut std::ffi::c_char>,
        count: Out<'_, usize>, report: Option<&mut CompactionInfo>, errptr: Fail
    ) {
        let to = (output_level, output_path_id);
        let call = CompactFiles { db, options, files, to };
        let names = call.run(db.default_family(), report)?;
        give_names(&names, outputs, count);
        Ok(())
    }

    fn rocksdb_compact_files_cf(
        db: &Database, cf: &Family, options: &CompactFilesSettings, files: Texts,
        output_level: i32, output_path_id: i32, outputs: Out<'_, *mut *mut std::ffi::c_char>,
        count: Out<'_, usize>, report: Option<&mut CompactionInfo>, errptr: Fail
    ) {
        let to = (output_level, output_path_id);
        let call = CompactFiles { db, options, files, to };
        let names = call.run(&cf.0, report)?;
        give_names(&names, outputs, count);
        Ok(())
    }

    fn rocksdb_compact_files_output_file_names_destroy(names: CopiedTexts, count: usize) {
        names.free(count);
    }

    fn rocksdb_wait_for_compact(
        db: &Database, options: &rocksdb_wait_for_compact_options_t, errptr: Fail
    ) {
        db.db().wait_for_compact(&requests::wait_for_compact(options.store()))
    }

    fn rocksdb_pause_background_work(db: &Database, errptr: Fail) {
        db.db().pause_background_work();
        Ok(())
    }

    fn rocksdb_continue_background_work(db: &Database, errptr: Fail) {
        let unpaused = |_| Error::invalid_argument("Background work already unpaused");
        db.db().continue_background_work().map_err(unpaused)
    }

    fn rocksdb_disable_manual_compaction(db: &Database) {
        db.db().disable_manual_compaction();
    }

    fn rocksdb_enable_manual_compaction(db: &Database) {
        db.db().enable_manual_compaction();
    }

    fn rocksdb_abort_all_compactions(db: &Database) {
        db.db().abort_all_compactions();
    }

    fn rocksdb_resume_all_compactions(db: &Database) {
        db.db().resume_all_compactions();
    }

    fn rocksdb_cancel_all_background_work(db: &Database, wait: bool) {
        // The error is in the info log; RocksDB drops it, too.
        db.db().cancel_all_background_work(wait).ok();
    }

    fn rocksdb_compaction_options_canceled_create() -> Flag {
        Flag::create()
    }

    fn rocksdb_compaction_options_canceled_destroy(canceled: Flag) {
        canceled.destroy();
    }

    fn rocksdb_compaction_options_canceled_set(canceled: Flag, value: bool) {
        canceled.set(value);
    }

    fn rocksdb_compaction_options_set_canceled(
        options: &mut CompactFilesSettings, canceled: Flag
    ) {
        options.canceled = canceled.share();
    }

    fn rocksdb_disable_file_deletions(db: &Database, errptr: Fail) {
        db.db().disable_file_deletions();
        Ok(())
    }

    fn rocksdb_enable_file_deletions(db: &Database, errptr: Fail) {
        db.db().enable_file_deletions();
        Ok(())
    }

    fn rocksdb_delete_file_in_range(
        db: &Database, start: OptBytes, limit: OptBytes, errptr: Fail
    ) {
        db.db().delete_files_in_ranges(&[(start, limit)], true)
    }

    fn rocksdb_delete_file_in_range_cf(
        db: &Database, cf: &Family, start: OptBytes, limit: OptBytes, errptr: Fail
    ) {
        db.db().delete_files_in_ranges_cf(&cf.0, &[(start, limit)], true)
    }

    fn rocksdb_verify_checksum(db: &Database, errptr: Fail) {
        db.db().verify_checksum()
    }

    fn rocksdb_verify_checksum_with_options(db: &Database, _options: &ReadOptions, errptr: Fail) {
        db.db().verify_checksum()
    }

    fn rocksdb_verify_file_checksums(db: &Database, errptr: Fail) {
        db.db().verify_file_checksums()
    }

    fn rocksdb_verify_file_checksums_with_options(
        db: &Database, options: &ReadOptions, errptr: Fail
    ) {
        db.db().verify_file_checksums_opt(&*options.point()?)
    }

    fn rocksdb_ingest_external_file(
        db: &Database, files: Texts, options: &rocksdb_ingestexternalfileoptions_t, errptr: Fail
    ) {
        ingest(db, db.default_family(), &files, options)
    }

    fn rocksdb_ingest_external_file_cf(
        db: &Database, cf: &Family, files: Texts, options: &rocksdb_ingestexternalfileoptions_t,
        errptr: Fail
    ) {
        ingest(db, &cf.0, &files, options)
    }

    fn rocksdb_set_options(db: &Database, changes: Settings, errptr: Fail) {
        let pairs: Vec<_> = changes.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        db.db().set_options(&pairs)
    }

    fn rocksdb_set_options_cf(db: &Database, cf: &Family, changes: Settings, errptr: Fail) {
        let pairs: Vec<_> = changes.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        db.db().set_options_cf(&cf.0, &pairs)
    }

    fn rocksdb_set_db_options(db: &Database, changes: Settings, errptr: Fail) {
        let pairs: Vec<_> = changes.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        db.db().set_db_options(&pairs)
    }

    fn rocksdb_get_options_from_string(
        base: &Options, text: Text<'_>, options: &mut Options, errptr: Fail
    ) {
        // As in RocksDB, the result of a text that is none is the base.
        *options = base.clone();
        options.values = base.values.from_string(&text.text())?;
        Ok(())
    }
}
