//! One wait for a lock: who is in the way, until when, and whether it would ever end.
//!
//! Thread safety: plain data of the task that waits; the waits that it notes are under their own
//! lock.

use std::sync::Arc;
use std::time::Duration;

use pumice_base::{Error, ErrorKind, Result, SubCode};
use pumice_port::sync::{Condvar, Mutex, MutexGuard};
use pumice_port::time::{now_micros, wall_seconds};

use crate::locks::holder::{Holder, NEVER};
use crate::locks::table::Wanted;
use crate::locks::waits::{Wait, Waits};

/// How soon a waiter looks again at an expired holder whose locks it could not take.
const RECHECK_MICROS: u64 = 10_000;

/// Why a lock was not granted.
pub(super) struct Blocked {
    /// Those who hold what is wanted, none if it is only claimed.
    pub by: Vec<u64>,
    /// When the present holders expire.
    pub until: u64,
    /// They hold a range with the key.
    pub by_range: bool,
}

/// Those of `holders` that are in the way of `id`; None if all have expired: their locks can be
/// taken.
pub(super) fn blocked_by(holders: &[Arc<Holder>], id: u64, now: u64) -> Option<Blocked> {
    let until = holders.iter().map(|holder| holder.expires_at()).max().unwrap_or(NEVER);
    if until <= now && holders.iter().all(|holder| holder.id() == id || holder.steal(now)) {
        return None;
    }
    let by = holders.iter().map(|holder| holder.id()).filter(|by| *by != id);
    // It may have expired, but its commit is under way, and may fail.
    let until = if until <= now { now.saturating_add(RECHECK_MICROS) } else { until };
    Some(Blocked { by: by.collect(), until, by_range: false })
}

/// A task that waits for what it wants, in one place after another.
pub(super) struct Pause<'a> {
    waits: &'a Mutex<Waits>,
    id: u64,
    wanted: Wanted<'a>,
    /// Of a range.
    end: Option<&'a [u8]>,
    deadline: u64,
}

fn timed_out() -> Error {
    Error::new(ErrorKind::TimedOut, "").with_subcode(SubCode::LockTimeout)
}

impl<'a> Pause<'a> {
    /// Begins to wait for a key, or a range that begins with it.
    ///
    /// # Errors
    /// TimedOut if it must not wait at all.
    pub fn new(
        waits: &'a Mutex<Waits>,
        id: u64,
        wanted: &Wanted<'a>,
        end: Option<&'a [u8]>,
    ) -> Result<Self> {
        let limit = wanted.timeout.map(|timeout| u64::try_from(timeout.as_micros()));
        let limit = limit.map_or(NEVER, |micros| micros.unwrap_or(NEVER));
        if limit == 0 {
            return Err(timed_out());
        }
        let deadline = now_micros().saturating_add(limit);
        Ok(Pause { waits, id, wanted: *wanted, end, deadline })
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn wanted(&self) -> &Wanted<'a> {
        &self.wanted
    }

    /// It searches for deadlocks.
    pub fn searches(&self) -> bool {
        self.wanted.deadlock_depth.is_some()
    }

    /// Waits until `woken` is notified, the holders expire or the time is over. Suspends.
    ///
    /// # Errors
    /// TimedOut (LockTimeout); Busy (Deadlock).
    pub fn pause<'g, T>(
        &self,
        guard: MutexGuard<'g, T>,
        woken: &Condvar,
        blocked: &Blocked,
    ) -> (MutexGuard<'g, T>, Result<()>) {
        let now = now_micros();
        if now >= self.deadline {
            return (guard, Err(timed_out()));
        }
        if !self.begins(&blocked.by) {
            return (guard, Err(Error::busy("").with_subcode(SubCode::Deadlock)));
        }
        let guard = match self.deadline.min(blocked.until) {
            NEVER => woken.wait(guard),
            until => {
                let limit = Duration::from_micros(until.saturating_sub(now));
                woken.wait_timeout(guard, limit).0
            }
        };
        if self.searches() {
            self.waits.lock().end(self.id);
        }
        (guard, Ok(()))
    }

    /// False if it would never end.
    fn begins(&self, holders: &[u64]) -> bool {
        let Some(depth) = self.wanted.deadlock_depth else { return true };
        let wait = Wait {
            id: self.id,
            holders: holders.to_vec(),
            column_family: self.wanted.column_family,
            key: self.wanted.key.to_vec(),
            end: self.end.map(<[u8]>::to_vec),
            exclusive: self.wanted.exclusive,
        };
        self.waits.lock().begin(wait, depth, wall_seconds())
    }
}
