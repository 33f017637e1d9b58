//! Checkpoints.

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
        let db = checkpoint.0.db();
        // Live logs are copied, so that a flush is only needed where it was asked for.
        if log_size_for_flush == 0 {
            db.flush_all()?;
        }
        db.checkpoint(path.path())
    }
}
