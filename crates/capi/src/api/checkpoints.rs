//! Checkpoints.

use pumice::CheckpointOptions;
use pumice_binding::database::Database;

use crate::ffi::from::Text;
use crate::ffi::into::New;
use crate::ffi::macros::c_api;
use crate::ffi::types::Checkpoint;

c_api! {
    fn rocksdb_checkpoint_object_create(db: &Database, errptr: Fail) -> New<Checkpoint> {
        Ok(New(Checkpoint(db.clone())))
    }

    fn rocksdb_checkpoint_create(
        checkpoint: &Checkpoint, path: Text<'_>, log_size_for_flush: u64, errptr: Fail
    ) {
        checkpoint.0.db().checkpoint_opt(&CheckpointOptions { log_size_for_flush }, path.path())
    }
}
