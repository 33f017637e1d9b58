//! What `backup` and `restore` do on Pumice: RocksDB's directories, and limits on what they read
//! and write together, as db_bench's limiters.
//!
//! Thread safety: one backup of a directory at a time, which the caller has to ensure.

use std::path::Path;
use std::sync::Arc;

use super::engine::Result;
use super::engine_options::LIMITER_FAIRNESS;
use pumice::backup::{BackupEngine, BackupLimits};
use pumice::{Db, PosixFs, RateLimiter, RateLimiterMode, RateLimiterOptions};

/// Makes one backup of `db` in the directory `to`, the only one there afterwards.
///
/// # Errors
/// An error of the backup engine.
pub fn make(db: &Db, to: &Path, rate: u64) -> Result<()> {
    let limits = BackupLimits { backup: limiter(rate)?, restore: None };
    let engine = BackupEngine::open(PosixFs::shared(), to).map_err(text)?.limited(limits);
    let intact = engine.backups().map_err(text)?.into_iter().map(|info| info.id);
    let damaged = engine.corrupted_backups().map_err(text)?.into_iter().map(|(id, _)| id);
    for id in intact.chain(damaged) {
        engine.delete_backup(id).map_err(text)?;
    }
    engine.garbage_collect().map_err(text)?;
    engine.create_backup(db, false, b"").map_err(text)?;
    match engine.backups().map_err(text)?.len() {
        1 => Ok(()),
        count => Err(format!("{} has {count} backups, not 1", to.display())),
    }
}

/// Restores the newest backup of the directory `from` into `to`, logs included.
///
/// # Errors
/// An error of the backup engine.
pub fn restore(from: &Path, to: &Path, rate: u64) -> Result<()> {
    let limits = BackupLimits { backup: None, restore: limiter(rate)? };
    let engine = BackupEngine::open_read_only(PosixFs::shared(), from).map_err(text)?;
    engine.limited(limits).restore_latest_backup(to, to).map_err(text)
}

fn limiter(rate: u64) -> Result<Option<Arc<RateLimiter>>> {
    if rate == 0 {
        return Ok(None);
    }
    let options = RateLimiterOptions {
        fairness: u64::from(LIMITER_FAIRNESS.unsigned_abs()),
        mode: RateLimiterMode::AllIo,
        ..RateLimiterOptions::new(rate)
    };
    Ok(Some(Arc::new(RateLimiter::new(&options).map_err(text)?)))
}

fn text(error: pumice::Error) -> String {
    error.to_string()
}
