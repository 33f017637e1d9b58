//! How far a long command is, on a terminal: percent, rate and time left, in one line on stderr.
//!
//! The line appears when the command has taken two seconds, changes every half second, and is gone
//! when the command ends. Nothing is printed if stderr is no terminal, if the environment has
//! `PUMICE_PROGRESS=off`, or if the command prints its answer on the same terminal. What is done is
//! counted by the command itself ([`Meter::add`]) or by the file system that it uses
//! ([`Progress::files`], [`Progress::logs`]): bytes that are read, beside the bytes that must be
//! read.
//!
//! Thread safety: a [`Meter`] is shared; the line is printed by a thread of its own, which
//! [`Progress`] ends and joins when it is dropped.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pumice::Result;
use pumice_env::{FileSystem, FileSystemWrapper, SequentialFile};
use pumice_port::os;
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread::{self, JoinHandle};
use pumice_port::time::now_micros;

use crate::db_bench::counted_files::{CountedFiles, FileCounts};

/// Shorter commands show nothing.
const BEFORE: Duration = Duration::from_secs(2);
/// Between two lines.
const STEP: Duration = Duration::from_millis(500);
/// The variable that turns the line off.
const SWITCH: &str = "PUMICE_PROGRESS";

/// Bytes that are done, and how many there are to do.
#[derive(Default)]
pub struct Meter {
    done: AtomicU64,
    /// 0 if it is not known.
    total: AtomicU64,
    /// The files whose reads count, too.
    files: Option<Arc<FileCounts>>,
}

impl Meter {
    /// So much more is done.
    pub fn add(&self, amount: u64) {
        self.done.fetch_add(amount, Relaxed);
    }

    /// There is so much to do, counted from now.
    pub fn expect(&self, total: u64) {
        self.total.store(total, Relaxed);
        self.done.store(0, Relaxed);
        if let Some(files) = &self.files {
            files.forget_reads();
        }
    }

    fn done(&self) -> u64 {
        let read = self.files.as_ref().map_or(0, |files| files.bytes_read());
        self.done.load(Relaxed) + read
    }
}

#[derive(Default)]
struct End {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl End {
    /// Waits for the end, at most so long.
    fn comes_within(&self, wait: Duration) -> bool {
        let deadline = now_micros().saturating_add(wait.as_micros() as u64);
        let mut is_over = self.is_over.lock();
        while !*is_over {
            let left = deadline.saturating_sub(now_micros());
            if left == 0 {
                return false;
            }
            is_over = self.changed.wait_timeout(is_over, Duration::from_micros(left)).0;
        }
        true
    }
}

/// The line of one command, as long as it lives.
pub struct Progress {
    meter: Arc<Meter>,
    end: Arc<End>,
    printer: Option<JoinHandle<()>>,
}

impl Progress {
    /// For a command that counts itself. `prints` says that its answer goes to stdout meanwhile.
    pub fn start(what: &'static str, prints: bool) -> Progress {
        Progress::with(what, Meter::default(), is_wanted(prints))
    }

    /// For a command whose reads of files count, and the file system that it is to use in place of
    /// `fs`: that itself if there is no line.
    pub fn files(
        what: &'static str,
        fs: Arc<dyn FileSystem>,
        prints: bool,
    ) -> (Progress, Arc<dyn FileSystem>) {
        if !is_wanted(prints) {
            return (Progress::with(what, Meter::default(), false), fs);
        }
        let (meter, fs) = counted(fs);
        (Progress::with(what, meter, true), Arc::new(fs))
    }

    /// As [`Self::files`] for a recovery: only logs count, so that what outlives it, such as open
    /// tables, is no slower for having been watched.
    pub fn logs(fs: Arc<dyn FileSystem>) -> (Progress, Arc<dyn FileSystem>) {
        if !is_wanted(false) {
            return (Progress::with("recovery", Meter::default(), false), fs);
        }
        let (meter, fs) = counted(fs);
        (Progress::with("recovery", meter, true), Arc::new(CountedLogs(fs)))
    }

    fn with(what: &'static str, meter: Meter, shows: bool) -> Progress {
        let (meter, end) = (Arc::new(meter), Arc::new(End::default()));
        let start = || {
            let (meter, end) = (Arc::clone(&meter), Arc::clone(&end));
            let print = move || {
                print(what, &meter, &end, BEFORE, &mut std::io::stderr());
            };
            // Where there is no thread for it there is no line.
            thread::spawn_os("progress", print).ok()
        };
        let printer = shows.then(start).flatten();
        Progress { meter, end, printer }
    }

    /// What the command counts on.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.end.is_over.lock() = true;
        self.end.changed.notify_all();
        if let Some(printer) = self.printer.take() {
            // A panic there is no reason to fail.
            printer.join().ok();
        }
    }
}

/// A file system that counts, and a meter with its counts.
fn counted(inner: Arc<dyn FileSystem>) -> (Meter, CountedFiles) {
    let counts = Arc::new(FileCounts::default());
    let meter = Meter { files: Some(Arc::clone(&counts)), ..Meter::default() };
    (meter, CountedFiles { inner, counts })
}

/// Counts what is read from its beginning on, as logs are, and hands out all other files as they
/// are.
struct CountedLogs(CountedFiles);

impl FileSystemWrapper for CountedLogs {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.0.inner
    }
    fn is_own(&self) -> bool {
        self.0.inner.is_own()
    }
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        FileSystemWrapper::open_sequential(&self.0, path)
    }
}

/// Somebody watches stderr, and the answer of the command does not run through the line.
fn is_wanted(prints: bool) -> bool {
    std::io::stderr().is_terminal()
        && !(prints && std::io::stdout().is_terminal())
        && std::env::var_os(SWITCH).is_none_or(|value| value != "off")
}

/// Prints the line until the end, and removes it.
fn print(what: &str, meter: &Meter, end: &End, before: Duration, screen: &mut impl Write) {
    let started = now_micros();
    let (mut wait, mut shown) = (before, false);
    loop {
        if end.comes_within(wait) {
            break;
        }
        let micros = now_micros().saturating_sub(started);
        let line = line(what, meter.done(), meter.total.load(Relaxed), micros);
        // A screen that is gone is no reason to fail.
        write!(screen, "\r{line}\x1b[K").and_then(|()| screen.flush()).ok();
        (wait, shown) = (STEP, true);
    }
    if shown {
        write!(screen, "\r\x1b[K").and_then(|()| screen.flush()).ok();
    }
}

/// The line after `micros`: `total` is 0 if it is not known.
fn line(what: &str, done: u64, total: u64, micros: u64) -> String {
    let rate = u128::from(done) * 1_000_000 / u128::from(micros.max(1));
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    let shown = format!("{}/s", amount(rate));
    if total == 0 {
        return format!("{what}: {}, {shown}", amount(done));
    }
    // The total is an estimate: work that goes on has not reached it.
    let done = done.min(total);
    let percent = (u128::from(done) * 100 / u128::from(total)).min(99);
    let left = match rate {
        0 => String::new(),
        rate => format!(", {} left", duration((total - done) / rate)),
    };
    format!("{what}: {percent} % of {}, {shown}{left}", amount(total))
}

/// An amount of bytes with three digits.
fn amount(bytes: u64) -> String {
    const NAMES: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let (mut value, mut name) = (bytes as f64, 0);
    while value >= 999.5 && name + 1 < NAMES.len() {
        value /= 1024.0;
        name += 1;
    }
    let digits = if name == 0 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {}", NAMES[name])
}

/// `1:02:03`, `2:03`, `0:03`.
fn duration(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Bytes of the files in `dir` whose names end so; 0 for a missing one.
pub fn bytes_of(dir: &Path, endings: &[&str]) -> u64 {
    let names = os::read_dir(dir).unwrap_or_default();
    let names = names.iter().filter(|name| endings.iter().any(|end| name.ends_with(end)));
    names.filter_map(|name| os::stat(&dir.join(name)).ok()).map(|stat| stat.bytes).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_env::{FileOptions, MemFs};

    #[pumice_test_macros::test]
    fn lines_tell_percent_rate_and_time_left() {
        let mb = 1 << 20;
        assert_eq!(
            line("compact", 25 * mb, 100 * mb, 5_000_000),
            "compact: 25 % of 100 MB, 5.0 MB/s, 0:15 left"
        );
        assert_eq!(line("dump", 3 * mb / 2, 0, 1_000_000), "dump: 1.5 MB, 1.5 MB/s");
        // An estimate that was too low.
        assert_eq!(
            line("repair", 200 * mb, 100 * mb, 1_000_000),
            "repair: 99 % of 100 MB, 200 MB/s, 0:00 left"
        );
        assert_eq!(line("load", 0, 10, 3), "load: 0 % of 10 B, 0 B/s");
        assert_eq!(duration(3723), "1:02:03");
    }

    #[pumice_test_macros::test]
    fn a_recovery_counts_logs_alone() {
        let (meter, fs) = counted(Arc::new(MemFs::default()));
        let fs: Arc<dyn FileSystem> = Arc::new(CountedLogs(fs));
        let path = Path::new("/file");
        let mut file = fs.create(path, &FileOptions::default()).unwrap();
        file.append(b"12345").unwrap();
        file.close().unwrap();
        let mut buffer = [0; 5];
        let table = fs.open_random(path).unwrap();
        assert_eq!(table.read_at(0, &mut buffer).unwrap(), 5);
        assert_eq!(meter.done(), 0);
        assert_eq!(fs.open_sequential(path).unwrap().read(&mut buffer).unwrap(), 5);
        assert_eq!(meter.done(), 5);
    }

    #[pumice_test_macros::test]
    fn the_line_is_removed_at_the_end() {
        let (meter, end) = (Meter::default(), End::default());
        meter.expect(100);
        meter.add(50);
        /// Ends the work when the first line is there.
        struct Screen<'a>(Vec<u8>, &'a End);
        impl Write for Screen<'_> {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                *self.1.is_over.lock() = true;
                self.0.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut screen = Screen(Vec::new(), &end);
        print("load", &meter, &end, Duration::ZERO, &mut screen);
        let text = String::from_utf8(screen.0).unwrap();
        assert!(text.starts_with("\rload: 50 % of 100 B"), "{text:?}");
        assert!(text.ends_with("\r\x1b[K"), "{text:?}");
    }

    #[pumice_test_macros::test]
    fn a_command_that_is_over_before_shows_nothing() {
        let (meter, end) = (Meter::default(), End::default());
        *end.is_over.lock() = true;
        let mut screen = Vec::new();
        print("load", &meter, &end, BEFORE, &mut screen);
        assert_eq!(screen, b"");
    }
}
