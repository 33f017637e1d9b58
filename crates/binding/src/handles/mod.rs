//! What handles hold: databases, cursors, batches.

pub mod batch;
pub mod cursor;
pub mod database;
pub mod log_cursor;
