//! Commands that took long: SLOWLOG and LATENCY's events.
//!
//! The executor measures and reports here: from before the locks of the keys until after the write,
//! so that a stall is seen. Waiting for an element is not counted, and neither is making writes
//! durable, which many commands share. EXEC is measured in addition to the commands in it; it is
//! not logged, as in Redis.
//!
//! Thread safety: everything may be shared.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use pumice_port::sync::Mutex;

use super::config::Config;

/// Arguments that are kept of a command, and bytes of each.
const ARGUMENTS: usize = 32;
const ARGUMENT_BYTES: usize = 128;
/// Samples that are kept of an event.
const SAMPLES: usize = 160;

/// A command that took long.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Never used twice.
    pub id: u64,
    /// Seconds since 1970 when it ended.
    pub seconds: u64,
    /// How long it took.
    pub micros: u64,
    /// The command, shortened.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// Latencies of an event: seconds since 1970 and milliseconds, the latest last.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// One for each second that had any.
    pub samples: VecDeque<(u64, u64)>,
    /// The longest since the last reset.
    pub max_millis: u64,
}

#[derive(Default)]
struct Log {
    next: u64,
    entries: VecDeque<Entry>,
}

/// See the module's head.
#[derive(Default)]
pub struct Slow {
    /// Microseconds from which a command is logged; negative for never.
    log_micros: AtomicI64,
    log_entries: AtomicU64,
    /// Milliseconds from which a latency is kept; 0 for never.
    latency_millis: AtomicU64,
    log: Mutex<Log>,
    events: Mutex<BTreeMap<&'static str, History>>,
}

/// A command that was measured.
pub struct Measured<'a> {
    /// As received.
    pub args: &'a [&'a [u8]],
    /// The command is flagged as fast.
    pub is_fast: bool,
    /// The command may be logged.
    pub is_logged: bool,
    /// How long it took.
    pub micros: u64,
    /// Seconds since 1970 when it ended.
    pub seconds: u64,
}

/// Copies the retained part of the arguments into `kept`, reusing its memory; arguments that may
/// hold a secret are left out.
fn shorten(args: &[&[u8]], kept: &mut Vec<Vec<u8>>) {
    let is = |at: usize, word: &str| {
        args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let secret_from = match () {
        () if is(0, "auth") => 1,
        () if is(0, "hello") => 2,
        () if is(0, "config") && is(1, "set") => 3,
        () if is(0, "acl") => 3,
        () => usize::MAX,
    };
    let shown = if args.len() > ARGUMENTS { ARGUMENTS - 1 } else { args.len() };
    kept.resize(shown + usize::from(shown < args.len()), Vec::new());
    kept.iter_mut().for_each(Vec::clear);
    for (at, (arg, kept)) in args.iter().zip(&mut kept[..shown]).enumerate() {
        if at >= secret_from {
            kept.extend_from_slice(b"(redacted)");
            continue;
        }
        kept.extend_from_slice(&arg[..arg.len().min(ARGUMENT_BYTES)]);
        let more = arg.len().saturating_sub(ARGUMENT_BYTES);
        if more > 0 {
            kept.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
        }
    }
    if shown < args.len() {
        let text = format!("... ({} more arguments)", args.len() - shown);
        kept[shown].extend_from_slice(text.as_bytes());
    }
}

impl Slow {
    /// Takes the settings over.
    pub fn take_over(&self, config: &Config) {
        let log = config.get("slowlog-log-slower-than").parse().unwrap_or(-1);
        self.log_micros.store(log, Ordering::Relaxed);
        self.log_entries.store(config.number("slowlog-max-len"), Ordering::Relaxed);
        let latency = config.number("latency-monitor-threshold");
        self.latency_millis.store(latency, Ordering::Relaxed);
        self.trim(&mut self.log.lock());
    }

    fn trim(&self, log: &mut Log) {
        let most = self.log_entries.load(Ordering::Relaxed) as usize;
        let more = log.entries.len().saturating_sub(most);
        log.entries.drain(..more);
    }

    /// Logs a command. Under load all may be slow, because they wait for each other, so the evicted
    /// entry's memory is reused for the new one.
    fn note(&self, command: &Measured<'_>, who: impl FnOnce(&mut String, &mut Vec<u8>)) {
        let most = self.log_entries.load(Ordering::Relaxed) as usize;
        let mut log = self.log.lock();
        let id = log.next;
        log.next += 1;
        let is_full = log.entries.len() >= most.max(1);
        let old = if is_full { log.entries.pop_front() } else { None };
        let mut entry = old.unwrap_or_default();
        entry.address.clear();
        entry.name.clear();
        who(&mut entry.address, &mut entry.name);
        shorten(command.args, &mut entry.args);
        (entry.id, entry.seconds, entry.micros) = (id, command.seconds, command.micros);
        log.entries.push_back(entry);
        self.trim(&mut log);
    }

    /// Commands that take this long are of interest here.
    #[inline]
    pub fn is_slow(&self, micros: u64) -> bool {
        let limit = self.log_micros.load(Ordering::Relaxed);
        let threshold = self.latency_millis.load(Ordering::Relaxed);
        limit >= 0 && micros >= limit as u64 || threshold > 0 && micros / 1000 >= threshold
    }

    /// Milliseconds from which a latency is kept; 0 for never.
    pub fn latency_millis(&self) -> u64 {
        self.latency_millis.load(Ordering::Relaxed)
    }

    /// Records an executed command. `who` adds the client's address and name.
    pub fn measured(&self, command: &Measured<'_>, who: impl FnOnce(&mut String, &mut Vec<u8>)) {
        let micros = command.micros;
        let limit = self.log_micros.load(Ordering::Relaxed);
        if command.is_logged && limit >= 0 && micros >= limit as u64 {
            self.note(command, who);
        }
        let threshold = self.latency_millis.load(Ordering::Relaxed);
        if threshold > 0 && micros / 1000 >= threshold {
            let event = if command.is_fast { "fast-command" } else { "command" };
            self.sample(event, command.seconds, micros / 1000);
        }
    }

    fn sample(&self, event: &'static str, seconds: u64, millis: u64) {
        let mut events = self.events.lock();
        let history = events.entry(event).or_default();
        history.max_millis = history.max_millis.max(millis);
        match history.samples.back_mut() {
            Some((last, longest)) if *last == seconds => *longest = (*longest).max(millis),
            _ => history.samples.push_back((seconds, millis)),
        }
        if history.samples.len() > SAMPLES {
            history.samples.pop_front();
        }
    }

    /// Up to `most` logged commands, the latest first.
    pub fn entries(&self, most: usize) -> Vec<Entry> {
        self.log.lock().entries.iter().rev().take(most).cloned().collect()
    }
    /// How many are logged.
    pub fn len(&self) -> usize {
        self.log.lock().entries.len()
    }
    /// None is logged.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Forgets the log.
    pub fn reset(&self) {
        self.log.lock().entries.clear();
    }
    /// Events with their latencies.
    pub fn latencies(&self) -> BTreeMap<&'static str, History> {
        self.events.lock().clone()
    }
    /// Forgets events, all of them if none is named; returns how many there were.
    pub fn reset_latencies(&self, names: &[&[u8]]) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        let is = |event: &str| names.iter().any(|name| name.eq_ignore_ascii_case(event.as_bytes()));
        events.retain(|event, _| !names.is_empty() && !is(event));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn log(slow: &Slow, args: &[&[u8]], name: &str) -> Entry {
        let command = Measured { args, is_fast: false, is_logged: true, micros: 7, seconds: 9 };
        slow.measured(&command, |address, own| {
            address.push_str(name);
            own.extend_from_slice(name.as_bytes());
        });
        slow.log.lock().entries.back().unwrap().clone()
    }

    /// Entries reuse the memory of others, but none of their content.
    #[pumice_test_macros::test]
    fn an_entry_has_nothing_of_the_one_that_went() {
        let full = Slow::default();
        full.log_entries.store(1, Ordering::Relaxed);
        let long = [b'x'; 200];
        let many = vec![&b"argument"[..]; 40];
        let commands: [&[&[u8]]; 6] = [
            &[b"set", b"key", &long],
            &[b"AUTH", b"name", b"secret"],
            &[b"get", b"k"],
            &many,
            &[b"ping"],
            &[b"config", b"set", b"requirepass", b"secret"],
        ];
        for (number, args) in commands.iter().enumerate() {
            let name = &"a name"[..number + 1];
            let empty = Slow::default();
            empty.log_entries.store(1, Ordering::Relaxed);
            let (again, fresh) = (log(&full, args, name), log(&empty, args, name));
            assert_eq!(again.args, fresh.args);
            assert_eq!((again.address, again.name), (name.to_string(), name.as_bytes().to_vec()));
            assert_eq!((again.id, full.len()), (number as u64, 1));
            assert!(!again.args.concat().windows(6).any(|part| part == b"secret"));
        }
        full.log_entries.store(0, Ordering::Relaxed);
        let command =
            Measured { args: &many, is_fast: true, is_logged: true, micros: 1, seconds: 1 };
        full.measured(&command, |_, _| {});
        assert!(full.is_empty(), "none is kept");
    }
}
