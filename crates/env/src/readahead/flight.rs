//! A read that goes on while its owner does other things.
//!
//! The task that reads is a fiber of the owner's loop, or a thread of the process's own pool
//! (`pumice_port::fiber::aside`). Whoever takes the memory first reads into it: that task, or the
//! owner when it needs the bytes. Then the memory belongs to the reader until the read has ended,
//! so an owner that is dropped meanwhile waits for nothing: file and memory go when the read ends.
//! A read that has not begun by then is never made.
//!
//! Thread safety: one owner, which may go to another task. Suspends in [`Flight::land`].

use crate::activity;
use crate::file_system::RandomAccessFile;
use crate::perf::{self, IoMetric};
use crate::rate_limiter::reads::{priority, read_priority};
use pumice_base::Result;
use pumice_port::fiber::aside;
use pumice_port::sync::{Event, Mutex};
use std::sync::Arc;

/// What the reading task leaves: the memory, and how many bytes it read.
type Outcome = (Vec<u8>, Result<usize>);

struct Shared {
    /// Until somebody reads, or nobody wants that any more.
    memory: Mutex<Option<Vec<u8>>>,
    /// Of the task.
    outcome: Mutex<Option<Outcome>>,
    ended: Event,
}

/// Ends the wait of the owner when the task ends, or is dropped without having run.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended.set();
    }
}

/// See the head of this file.
pub(super) struct Flight {
    shared: Arc<Shared>,
    /// Position in the file of the first byte.
    pub start: u64,
    /// How many bytes are read, fewer at the end of the file.
    pub bytes: usize,
    /// Where they go in the memory.
    pub at: usize,
}

impl Flight {
    /// Begins to read `bytes` bytes from `start` of `file` to `at` of `memory`, for the purpose and
    /// with the priority of the calling task. None if there is no task that could do it.
    pub fn begin(
        file: &Arc<dyn RandomAccessFile>,
        (start, bytes): (u64, usize),
        memory: Vec<u8>,
        at: usize,
    ) -> Option<Flight> {
        let shared = Arc::new(Shared {
            memory: Mutex::new(Some(memory)),
            outcome: Mutex::new(None),
            ended: Event::new(),
        });
        let (purpose, priority) = (activity::current(), priority());
        let (file, own) = (Arc::clone(file), Ending(Arc::clone(&shared)));
        let begun = aside("readahead", move || {
            let Some(mut memory) = own.0.memory.lock().take() else { return };
            let buffer = &mut memory[at..at + bytes];
            let read = || read_priority(priority, || file.read_at(start, buffer));
            let read = activity::during(purpose, read);
            // The owner may remove the file once it has the bytes.
            drop(file);
            *own.0.outcome.lock() = Some((memory, read));
        });
        begun.then_some(Flight { shared, start, bytes, at })
    }

    /// Position in the file of the byte after the last one.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes as u64)
    }

    /// Waits for the end of the read, or reads `file`, the one that it began with, if nobody has
    /// begun to. None if it never ended: it panicked, or its task was refused a stack.
    pub fn land(self, file: &dyn RandomAccessFile) -> Option<Outcome> {
        let unread = self.shared.memory.lock().take();
        if let Some(mut memory) = unread {
            let read = file.read_at(self.start, &mut memory[self.at..self.at + self.bytes]);
            return Some((memory, read));
        }
        let time = perf::time_io(IoMetric::ReadNanos);
        self.shared.ended.wait();
        drop(time);
        let outcome = self.shared.outcome.lock().take()?;
        if let Ok(bytes) = &outcome.1 {
            perf::count_io(IoMetric::BytesRead, *bytes as u64);
        }
        Some(outcome)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.shared.memory.lock().take();
    }
}
