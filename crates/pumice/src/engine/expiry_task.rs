//! Compacts files that become too old in an otherwise idle database, and flushes memtables with
//! range tombstones there, so that the space of what these hide is given back.
//!
//! Every change of files or options checks for files that are too old; an idle database has no such
//! change. One task waits for the next moment at which a file becomes too old (`ttl`,
//! `periodic_compaction_seconds`), or is to have another temperature, and has its column family
//! checked again. The task exists only while there is such a moment. RocksDB 10.10 looks every 12
//! hours, and then only at column families with `periodic_compaction_seconds`.
//! The task also takes the samples of `write_times`.
//!
//! Ages are counted on the wall clock, waits on the monotonic one: the task checks again from time
//! to time, in case the wall clock was set.
//!
//! Thread safety: from any thread; the moment waited for is `state::expiry`, under the state lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_port::time;

use crate::compaction::plan::RECLAIM_SECONDS;
use crate::engine::DbInner;
use crate::state::DbState;
use crate::state::expiry::next_expiry;
use crate::stats::listener::FlushReason;

/// The longest wait, for the case that the wall clock was set.
const LOOK_AGAIN_SECONDS: u64 = 600;

impl DbInner {
    /// Body of the task.
    pub(super) fn expire(self: Arc<Self>) {
        let mut state = self.state.lock();
        while !self.life.shutting_down.load(Ordering::Acquire) {
            let now = time::wall_seconds();
            if state.times.is_due(now) {
                self.sample_write_time(&mut state, now);
            }
            let (sample, next) = (state.times.next_sample(), state.tasks.expiry.next);
            if now < next && (next < u64::MAX || sample.is_some()) {
                let next = next.min(sample.unwrap_or(u64::MAX));
                let seconds = next.saturating_sub(now).clamp(1, LOOK_AGAIN_SECONDS);
                let wait = Duration::from_secs(seconds);
                state = self.background.expiry_changed.wait_timeout(state, wait).0;
                continue;
            }
            self.look_for_expired(&mut state);
            if is_idle(&self, &mut state, now) {
                drop(state);
                find_deletions(&self);
                state = self.state.lock();
            }
            // Files that are too old already wait for the compaction that was queued, or for what
            // keeps it from running.
            match next_expiry(&state, || now) {
                Some(next) => state.tasks.expiry.next = next,
                None => break,
            }
        }
        state.tasks.expiry.waiting = false;
        self.changed.notify_all();
    }

    /// Queues the column families with files that are too old.
    fn look_for_expired(&self, state: &mut DbState) {
        let ids: Vec<u32> = state.cfs.keys().copied().collect();
        for id in ids {
            if let Some(cf) = state.cfs.get_mut(&id)
                && cf.plan.expires_at(&cf.version).is_some()
            {
                self.scheduler().refresh_scores(cf);
                state.queue_compaction(id);
            }
        }
        self.scheduler().schedule_background(state);
    }
}

/// A range deletion was written: once writes have paused for long enough, it is flushed, and
/// goes down to what it hides (`FileMarks`). May wait for the state lock, and so suspend.
pub(crate) fn note_range_deletion(db: &DbInner) {
    if db.background.range_deletions.swap(true, Ordering::AcqRel) {
        return;
    }
    let mut state = db.state.lock();
    look_again(db, &mut state, time::wall_seconds());
    db.scheduler().watch_expiry(&mut state);
}

fn look_again(db: &DbInner, state: &mut DbState, now: u64) {
    let last = db.last_sequence.load(Ordering::Acquire);
    state.tasks.expiry.deleting = Some((now + RECLAIM_SECONDS, last));
}

/// Nothing was written for long enough since range tombstones may have been.
fn is_idle(db: &DbInner, state: &mut DbState, now: u64) -> bool {
    let due = state.tasks.expiry.deleting.filter(|(at, _)| *at <= now);
    let Some((_, sequence)) = due else { return false };
    if sequence != db.last_sequence.load(Ordering::Acquire) {
        look_again(db, state, now);
        return false;
    }
    state.tasks.expiry.deleting = None;
    db.background.range_deletions.store(false, Ordering::Release);
    true
}

/// Flushes memtables with range tombstones over files, and learns what is in files that were
/// not opened since the database was. Suspends.
fn find_deletions(db: &DbInner) {
    let state = db.state.lock();
    let deleting = state.cfs.values().filter(|cf| cf.has_idle_deletions());
    let deleting: BTreeSet<u32> = deleting.map(|cf| cf.data.id).collect();
    let unknown: Vec<_> = state
        .cfs
        .values()
        .map(|cf| (Arc::clone(&cf.data), cf.uncounted_files()))
        .filter(|(_, files)| !files.is_empty())
        .collect();
    drop(state);
    // Errors that matter are reported, or are those of the next read; all stays where it is.
    if !deleting.is_empty() {
        drop(db.seal_now(&deleting, FlushReason::AutoCompaction));
    }
    for (cf, files) in &unknown {
        let tables = cf.tables();
        files.iter().for_each(|(level, file)| drop(tables.table_at(file, *level)));
    }
    let mut state = db.state.lock();
    for (data, _) in &unknown {
        if let Some(cf) = state.cfs.get_mut(&data.id) {
            db.scheduler().refresh_scores(cf);
            state.queue_compaction(data.id);
        }
    }
    db.scheduler().schedule_background(&mut state);
}
