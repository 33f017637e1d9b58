//! Column families as files that go to another database, and what decides of files and logs.

use pumice::options::SstPartitionerFactory;
use pumice::{ImportColumnFamilyOptions, LiveFilesStorageInfoOptions, StorageFileType};
use pumice_binding::database::Database;
use pumice_binding::store::Fields;

use crate::callbacks::gates::{JavaWalFilter, table_filter};
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::from::{Bytes, List};
use crate::ffi::into::New;
use crate::objects::{
    Checkpoint, Exported, Family, LogFilter, Options, Partitioner, ReadOptions, TableGate, Values,
};

/// Java: Checkpoint.exportColumnFamily
pub fn export(_env: Env<'_>, it: &Checkpoint, cf: &Family, path: String) -> Result<New<Exported>> {
    Ok(New(Exported(it.0.db().export_column_family(&cf.0, path)?)))
}

/// Java: RocksDB.createColumnFamilyWithImport
pub fn import(
    _env: Env<'_>,
    db: &Database,
    name: Bytes,
    options: &Options,
    how: &Values,
    exported: List<'_, Exported>,
) -> Result<New<Family>> {
    let options = options.values.to_engine()?.cf;
    let how = ImportColumnFamilyOptions { move_files: how.store().flag("move_files") };
    let name = String::from_utf8_lossy(&name);
    let exported: Vec<_> = exported.0.iter().map(|exported| &exported.0).collect();
    let made = db.db().create_column_family_with_import(&options, &name, &how, &exported)?;
    Ok(New(Family(made, db.db().clone())))
}

/// Java: RocksDB.getLiveFiles
pub fn live_files(_env: Env<'_>, db: &Database, flush: bool) -> Result<Vec<String>> {
    let wal_size_for_flush = if flush { 0 } else { u64::MAX };
    let options = LiveFilesStorageInfoOptions { wal_size_for_flush, ..Default::default() };
    let files = db.db().live_files_storage_info(&options)?;
    let is_manifest = |kind| kind == StorageFileType::Descriptor;
    let manifest = files.iter().find(|file| is_manifest(file.file_type));
    let bytes = manifest.map_or(0, |file| file.size);
    let others = files.iter().filter(|file| file.file_type != StorageFileType::Wal);
    let mut names: Vec<String> =
        others.map(|file| format!("/{}", file.relative_filename)).collect();
    // Java takes the bytes of the MANIFEST from the end of the list.
    names.push(bytes.to_string());
    Ok(names)
}

/// Java: SstPartitionerFixedPrefixFactory.newSstPartitionerFixedPrefixFactory0
pub fn new_partitioner(_env: Env<'_>, prefix_len: usize) -> Result<New<Partitioner>> {
    Ok(New(Partitioner(prefix_len)))
}

/// Java: Options|ColumnFamilyOptions.setSstPartitionerFactory
pub fn set_partitioner(
    _env: Env<'_>,
    options: &mut Options,
    factory: Option<&Partitioner>,
) -> Result<()> {
    let none = SstPartitionerFactory::None;
    options.values.engine.cf.sst_partitioner_factory =
        factory.map_or(none, |factory| SstPartitionerFactory::FixedPrefix(factory.0));
    Ok(())
}

/// Java: AbstractWalFilter.createNewWalFilter this
pub fn new_wal_filter(env: Env<'_>, filter: Object<'_>) -> Result<New<LogFilter>> {
    Ok(New(LogFilter(std::sync::Arc::new(JavaWalFilter::new(env, filter)?))))
}

/// Java: Options|DBOptions.setWalFilter
pub fn set_wal_filter(
    _env: Env<'_>,
    options: &mut Options,
    filter: Option<&LogFilter>,
) -> Result<()> {
    options.values.engine.db.wal_filter = filter.map(|filter| filter.0.clone() as _);
    Ok(())
}

/// Java: AbstractTableFilter.createNewTableFilter this
pub fn new_table_filter(env: Env<'_>, filter: Object<'_>) -> Result<New<TableGate>> {
    Ok(New(TableGate(table_filter(env, filter)?)))
}

/// Java: ReadOptions.setTableFilter
pub fn set_table_filter(
    _env: Env<'_>,
    options: &mut ReadOptions,
    filter: Option<&TableGate>,
) -> Result<()> {
    options.table_filter = filter.map(|filter| filter.0.clone());
    Ok(())
}
