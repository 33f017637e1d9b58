//! Calls a user's logger where nothing waits for it.
//!
//! Lines are made between the steps of state changes and under locks. The user's code must not run
//! under a lock: lines are queued, and a thread that lives as long as there are any passes them to
//! the logger, in order. So a logger may call the database, wait for it, and panic: a line that
//! panicked is dropped, like one that a full disk refused. If a logger is permanently too slow,
//! lines are lost, and it is told how many. A [plain](Logger::is_plain) logger is called at once.
//!
//! Thread safety: any thread may log. Invariant: one thread at a time calls the logger, unless it
//! is plain.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pumice_port::sync::{Condvar, Mutex};
use pumice_port::task::{self, TaskRef};
use pumice_port::{thread, time};

use super::InfoLogLevel;
use crate::lock_order;
use crate::stats::Logger;

/// Lines that may wait.
const LINES_MAX: usize = 10_000;
/// Longest time that a close waits for earlier lines.
const SETTLE_MAX_MICROS: u64 = 1_000_000;

/// See the module head.
pub(crate) struct ContainedLogger(Arc<Lines>);

struct Lines {
    logger: Arc<dyn Logger>,
    plain: bool,
    queue: Mutex<Queue>,
    /// The queue is empty, and no task delivers.
    settled: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<(InfoLogLevel, String)>,
    lost: u64,
    level: InfoLogLevel,
    delivering: bool,
    /// The task that delivers; None until it has begun.
    deliverer: Option<TaskRef>,
}

impl ContainedLogger {
    /// Around `logger`.
    pub fn new(logger: Arc<dyn Logger>) -> Self {
        let plain = thread::contain("The logger", || logger.is_plain()).unwrap_or(false);
        let queue = Mutex::ranked(&lock_order::LOG_LINES, Queue::default());
        let lines = Lines { logger, plain, queue, settled: Condvar::new() };
        lines.queue.lock().level = lines.level();
        ContainedLogger(Arc::new(lines))
    }
}

impl Lines {
    fn level(&self) -> InfoLogLevel {
        thread::contain("The logger", || self.logger.level()).unwrap_or_default()
    }

    fn call(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        let _dropped = thread::contain("The logger", || self.logger.log(level, message));
    }

    fn deliver(&self) {
        self.queue.lock().deliverer = Some(task::current());
        loop {
            let (line, lost) = {
                let mut queue = self.queue.lock();
                let line = queue.lines.pop_front();
                if line.is_none() {
                    queue.delivering = false;
                    queue.deliverer = None;
                    self.settled.notify_all();
                    return;
                }
                (line, std::mem::take(&mut queue.lost))
            };
            if let Some((level, text)) = line {
                self.call(level, format_args!("{text}"));
            }
            if lost > 0 {
                self.call(InfoLogLevel::Warn, format_args!("{lost} lines of this log were lost"));
            }
            let level = self.level();
            self.queue.lock().level = level;
        }
    }
}

impl Logger for ContainedLogger {
    fn log(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        if self.0.plain {
            return self.0.call(level, message);
        }
        let text = message.to_string();
        let mut queue = self.0.queue.lock();
        if queue.lines.len() >= LINES_MAX {
            queue.lost += 1;
            return;
        }
        queue.lines.push_back((level, text));
        if std::mem::replace(&mut queue.delivering, true) {
            return;
        }
        drop(queue);
        let lines = Arc::clone(&self.0);
        if thread::spawn_os("pumice:log", move || lines.deliver()).is_err() {
            self.0.queue.lock().delivering = false; // The next line tries again.
            self.0.settled.notify_all();
        }
    }

    fn level(&self) -> InfoLogLevel {
        if self.0.plain { self.0.level() } else { self.0.queue.lock().level }
    }

    fn settle(&self) {
        let until = time::now_micros() + SETTLE_MAX_MICROS;
        let mut queue = self.0.queue.lock();
        while queue.delivering && queue.deliverer != Some(task::current()) {
            let left = until.saturating_sub(time::now_micros());
            if left == 0 {
                return;
            }
            queue = self.0.settled.wait_timeout(queue, Duration::from_micros(left)).0;
        }
    }
}
