//! When a follower catches up: as it opens, and then periodically
//! (`follower_refresh_catchup_period_ms`), in a task that lives as long as the database is open.
//! One that fails is tried again, `follower_catchup_retry_count` times in all. How it does is in
//! `secondary`.
//!
//! RocksDB looks at the leader once in an open; here it does so until it has found it at rest.
//!
//! Thread safety: from any thread, without a lock.

use std::sync::Arc;
use std::time::Duration;

use pumice_base::Result;
use pumice_port::{thread, time};

use crate::engine::{DbInner, own_files, secondary, start_task};

/// The first catch-up of a database that was just assembled.
///
/// # Errors
/// As `secondary::catch_up`.
pub(crate) fn begin(db: &DbInner) -> Result<()> {
    db.reports.info(format_args!("Opening the db in follower mode"));
    own_files::begin(&db.dir, &db.options().metadata_file())?;
    secondary::catch_up(db)?;
    // What earlier opens have taken.
    db.delete_unreferenced_files(true)
}

/// Starts the task. The open has succeeded: the task keeps the lock of the directory.
///
/// # Errors
/// No thread can be started.
pub(crate) fn start(db: &Arc<DbInner>) -> Result<()> {
    let follower = Arc::clone(db);
    let mut state = db.state.lock();
    start_task("pumice:follow", move || keep_following(&follower))?;
    state.tasks.following = true;
    Ok(())
}

/// Body of the task.
fn keep_following(db: &DbInner) {
    let period = db.options().follower_refresh_catchup_period_ms;
    // Without a pause it would do nothing else.
    while wait(db, period.max(1)) {
        let _inside = db.life.mark.enter_job(); // A close waits for this task.
        refresh(db);
    }
    db.state.lock().tasks.following = false;
    db.changed.notify_all();
}

/// One catch-up, tried again as the options say.
fn refresh(db: &DbInner) {
    let options = db.options();
    let mut failure = None;
    for attempt in 0..options.follower_catchup_retry_count {
        let done = thread::contain("Catch up", || secondary::try_once(db)).and_then(|done| done);
        match done {
            Ok(()) => {
                db.reports.info(format_args!("Successful catch up on attempt {attempt}"));
                return;
            }
            Err(error) => failure = Some(error),
        }
        if !wait(db, options.follower_catchup_retry_wait_ms) {
            return;
        }
    }
    if let Some(error) = failure {
        db.reports.info(format_args!("Catch up unsuccessful: {error}"));
    }
}

/// Waits; returns false if the database closes.
fn wait(db: &DbInner, millis: u64) -> bool {
    let due = time::now_micros().saturating_add(millis.saturating_mul(1000));
    let mut state = db.state.lock();
    while !db.life.is_ending() {
        let left = due.saturating_sub(time::now_micros());
        if left == 0 {
            return true;
        }
        state = db.changed.wait_timeout(state, Duration::from_micros(left)).0;
    }
    false
}
