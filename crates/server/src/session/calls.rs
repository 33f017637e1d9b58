//! How often each command was called, refused and failed, how long its calls took, and which errors
//! were replied: INFO's sections about commands and errors, LATENCY HISTOGRAM, and the server's own
//! pages.
//!
//! A command that was queued is called by EXEC. One that waits for an element is called when it
//! begins to wait.
//!
//! Thread safety: everything may be shared. Counting calls takes no lock; replying with an error
//! takes one.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::sync::Mutex;

use super::latencies::{Counts, Latencies};

/// No command's number is larger.
pub const COMMANDS: usize = 512;
/// Codes of errors that are counted; replies have fewer.
const CODES: usize = 128;

/// What one command did.
#[derive(Default)]
struct Command {
    micros: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    /// Once it was called.
    latencies: OnceLock<Latencies>,
}

/// What INFO shows of a command.
pub struct Report {
    /// How long its calls took.
    pub latencies: Counts,
    /// All of them together, in microseconds.
    pub micros: u64,
    /// Refused before they were called.
    pub refused: u64,
    /// Called, and answered with an error.
    pub failed: u64,
}

/// See the module's head.
pub struct Calls {
    commands: Box<[Command]>,
    errors: Mutex<BTreeMap<Vec<u8>, u64>>,
}

impl Default for Calls {
    fn default() -> Calls {
        let commands = std::iter::repeat_with(Command::default).take(COMMANDS).collect();
        Calls { commands, errors: Mutex::default() }
    }
}

impl Calls {
    /// The command of that number was called `calls` times, and each took this long.
    #[inline]
    pub fn called(&self, id: u16, micros: u64, calls: u64) {
        let command = &self.commands[usize::from(id)];
        command.micros.fetch_add(micros.saturating_mul(calls), Ordering::Relaxed);
        command.latencies.get_or_init(Latencies::default).add(micros, calls);
    }

    /// It was refused before it was called.
    pub fn refused(&self, id: u16) {
        self.commands[usize::from(id)].refused.fetch_add(1, Ordering::Relaxed);
    }

    /// It was called and answered with an error.
    pub fn failed(&self, id: u16) {
        self.commands[usize::from(id)].failed.fetch_add(1, Ordering::Relaxed);
    }

    /// An error was replied. Its code is what comes before the first blank.
    pub fn error(&self, text: &[u8]) {
        let code = text.split(|b| *b == b' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < CODES {
            errors.insert(code.to_vec(), 1);
        }
    }

    /// Codes of errors, and how often they were replied.
    pub fn errors(&self) -> Vec<(Vec<u8>, u64)> {
        self.errors.lock().iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// What the command of that number did; None if nothing.
    pub fn report(&self, id: u16) -> Option<Report> {
        let command = &self.commands[usize::from(id)];
        let [micros, refused, failed] = [&command.micros, &command.refused, &command.failed]
            .map(|counter| counter.load(Ordering::Relaxed));
        let latencies = command.latencies.get().map(|all| all.now()).unwrap_or_default();
        let did = latencies.calls() > 0 || refused > 0 || failed > 0;
        did.then_some(Report { latencies, micros, refused, failed })
    }

    /// The calls of all commands, and their microseconds.
    pub fn all(&self) -> (Counts, u64) {
        let (mut counts, mut micros) = (Counts::default(), 0);
        for command in &self.commands {
            if let Some(latencies) = command.latencies.get() {
                counts.add(&latencies.now());
                micros += command.micros.load(Ordering::Relaxed);
            }
        }
        (counts, micros)
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        for command in &self.commands {
            for counter in [&command.micros, &command.refused, &command.failed] {
                counter.store(0, Ordering::Relaxed);
            }
            if let Some(latencies) = command.latencies.get() {
                latencies.reset();
            }
        }
        self.errors.lock().clear();
    }
}
