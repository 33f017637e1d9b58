//! Checkpoints, exported column families.

use pumice::{CheckpointOptions, ExportImportFilesMetadata, ImportColumnFamilyOptions};
use pumice_binding::database::Database;
use pumice_binding::store::Fields;

use crate::ffi::from::{Taken, Text};
use crate::ffi::generated::rocksdb_import_column_family_options_t;
use crate::ffi::into::{Copied, New};
use crate::ffi::macros::c_api;
use crate::ffi::types::{Checkpoint, Exported, Family, LiveFiles, NewLiveFile, Options};

c_api! {
    fn rocksdb_checkpoint_object_create(db: &Database, errptr: Fail) -> New<Checkpoint> {
        Ok(New(Checkpoint(db.clone())))
    }

    fn rocksdb_checkpoint_create(
        checkpoint: &Checkpoint, path: Text<'_>, log_size_for_flush: u64, errptr: Fail
    ) {
        checkpoint.0.db().checkpoint_opt(&CheckpointOptions { log_size_for_flush }, path.path())
    }

    fn rocksdb_checkpoint_export_column_family(
        checkpoint: &Checkpoint, cf: &Family, export_dir: Text<'_>, errptr: Fail
    ) -> New<Exported> {
        let exported = checkpoint.0.db().export_column_family(&cf.0, export_dir.path())?;
        let files = LiveFiles(exported.files.iter().map(NewLiveFile::exported).collect());
        Ok(New(Exported { comparator: exported.db_comparator_name.into_bytes(), files }))
    }

    fn rocksdb_create_column_family_with_import(
        db: &Database, options: &Options, name: Text<'_>,
        how: &rocksdb_import_column_family_options_t, exported: &Exported, errptr: Fail
    ) -> New<Family> {
        let engine = options.values.to_engine()?;
        let how = ImportColumnFamilyOptions { move_files: how.store().flag("move_files") };
        let exported = ExportImportFilesMetadata {
            db_comparator_name: String::from_utf8_lossy(&exported.comparator).into_owned(),
            files: exported.files.0.iter().map(NewLiveFile::to_engine).collect(),
        };
        db.import_family(&engine.cf, &name.text(), &how, &exported).map(|cf| New(Family(cf)))
    }

    fn rocksdb_export_import_files_metadata_get_db_comparator_name(exported: &Exported) -> Copied {
        Copied::of(&exported.comparator)
    }

    fn rocksdb_export_import_files_metadata_set_db_comparator_name(
        exported: &mut Exported, name: Text<'_>
    ) {
        exported.comparator = name.bytes().to_vec();
    }

    fn rocksdb_export_import_files_metadata_get_files(exported: &Exported) -> New<LiveFiles> {
        New(exported.files.clone())
    }

    fn rocksdb_export_import_files_metadata_set_files(
        exported: &mut Exported, files: Taken<LiveFiles>
    ) {
        exported.files = files.map(|files| *files).unwrap_or_default();
    }
}
