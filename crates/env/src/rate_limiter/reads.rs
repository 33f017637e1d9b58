//! Reads at the pace of a rate limiter.
//!
//! A task sets the priority of its reads for the duration of an operation ([`read_priority`]); a
//! [`LimitedFile`] requests tokens before each read of such a task, and lets all others through. So
//! the code that reads blocks in between need not know of limits.
//!
//! Thread safety: as the file; each task has its own priority. A request suspends.

use super::{IoKind, IoPriority, RateLimiter, RateLimiterEvents};
use crate::file_system::{RandomAccessFile, ReadRequest};
use crate::wrappers::RandomAccessFileWrapper;
use pumice_base::Result;
use std::cell::Cell;
use std::sync::Arc;

pumice_port::task_local! {
    static PRIORITY: Cell<Option<IoPriority>> = const { Cell::new(None) };
}

/// Sets the priority back to what it was.
struct Restore(Option<IoPriority>);

impl Drop for Restore {
    fn drop(&mut self) {
        PRIORITY.set(self.0);
    }
}

/// Runs `f`; reads by this task within it are limited with `priority`, or not at all with None.
pub fn read_priority<R>(priority: Option<IoPriority>, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(PRIORITY.get());
    PRIORITY.set(priority);
    f()
}

/// With what priority the calling task reads now.
pub(crate) fn priority() -> Option<IoPriority> {
    PRIORITY.get()
}

/// A file whose reads are limited. See the head of this file.
pub struct LimitedFile {
    file: Arc<dyn RandomAccessFile>,
    limiter: Arc<RateLimiter>,
    events: Option<Arc<dyn RateLimiterEvents>>,
}

impl LimitedFile {
    /// `file` at the pace of `limiter`; `file` itself if that does not limit reads.
    pub fn wrap(
        file: Arc<dyn RandomAccessFile>,
        limiter: Option<&Arc<RateLimiter>>,
        events: Option<&Arc<dyn RateLimiterEvents>>,
    ) -> Arc<dyn RandomAccessFile> {
        match limiter.filter(|limiter| limiter.is_rate_limited(IoKind::Read)) {
            None => file,
            Some(limiter) => Arc::new(LimitedFile {
                file,
                limiter: Arc::clone(limiter),
                events: events.cloned(),
            }),
        }
    }

    fn pay(&self, bytes: u64) {
        let Some(priority) = PRIORITY.get() else { return };
        let events = self.events.as_deref();
        let mut left = bytes;
        while left > 0 {
            left -= self.limiter.request_token(left, 0, priority, IoKind::Read, events);
        }
    }
}

impl RandomAccessFileWrapper for LimitedFile {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.file
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.pay(buf.len() as u64);
        self.file.read_at(offset, buf)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.pay(requests.iter().map(|request| request.buf.len() as u64).sum());
        self.file.read_batch(requests);
    }
    fn needs_little_stack(&self) -> bool {
        self.file.needs_little_stack()
    }
}
