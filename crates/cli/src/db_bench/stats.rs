//! Counts and times of one worker, and the lines printed from them.
//!
//! With `--histogram` the clock is read once per operation, otherwise only at the start, at the
//! end and, when interval reports are wanted, every 1000 operations.
//!
//! Thread safety: belongs to one worker until it is merged. On fibers the clock keeps running while
//! others have the loop: a latency is what the caller of the operation sees.

use super::flags::Flags;
use pumice_base::histogram::Histogram;
use pumice_port::time::{local_time_string, now_micros, wall_micros};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kinds of operations that have a histogram each, in the order of printing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Point reads and iterator steps.
    Read,
    /// Puts.
    Write,
    /// Deletions.
    Delete,
    /// Seeks.
    Seek,
    /// Merges.
    Merge,
    /// A read and a write of one key.
    Update,
    /// Compression of a block.
    Compress,
    /// Decompression of a block.
    Uncompress,
    /// CRC32C of a block.
    Crc,
    /// Another checksum of a block.
    Hash,
    /// Anything else.
    Other,
    /// Several scans.
    MultiScan,
}

/// What the count of an operation led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing: no report was due.
    None,
    /// A report was due; no interval has ended.
    Due,
    /// The line of an interval was printed.
    Interval,
}

const OPERATIONS: [&str; 12] = [
    "read",
    "write",
    "delete",
    "seek",
    "merge",
    "update",
    "compress",
    "uncompress",
    "crc",
    "hash",
    "op",
    "multiscan",
];

/// What a worker did. Times are microseconds.
#[derive(Clone)]
pub struct Stats {
    worker: usize,
    start: u64,
    finish: u64,
    seconds: f64,
    done: u64,
    bytes: u64,
    message: String,
    last_op_finish: u64,
    histograms: Option<Box<[Histogram; OPERATIONS.len()]>>,
    /// The next value of `done` at which `report` is called.
    next_report: u64,
    last_report_done: u64,
    last_report_at: u64,
    interval: u64,
    interval_micros: u64,
    /// Finished operations are shown on the terminal.
    is_shown: bool,
    slow_micros: Option<u64>,
    /// Operations of all workers, for the CSV reporter.
    reported: Option<Arc<AtomicU64>>,
    /// Left out when workers are merged (background writers).
    excluded: bool,
}

impl Stats {
    /// Zeroes, with the clock running from now.
    pub fn start(flags: &Flags, worker: usize, reported: Option<Arc<AtomicU64>>) -> Self {
        let now = now_micros();
        let interval = match (flags.stats_interval_seconds, flags.stats_interval) {
            (1.., _) => 1000,
            (_, every) => u64::try_from(every).unwrap_or(0),
        };
        let is_shown = flags.progress_reports && std::io::stderr().is_terminal();
        let is_due = is_shown || (flags.progress_reports && flags.thread_status_per_interval != 0);
        let quiet = interval == 0 && !is_due;
        Stats {
            worker,
            start: now,
            finish: now,
            seconds: 0.0,
            done: 0,
            bytes: 0,
            message: String::new(),
            last_op_finish: now,
            histograms: flags
                .histogram
                .then(|| Box::new(std::array::from_fn(|_| Histogram::new()))),
            next_report: match interval {
                _ if quiet => u64::MAX,
                0 => 100,
                every => every,
            },
            last_report_done: 0,
            last_report_at: now,
            interval,
            interval_micros: u64::try_from(flags.stats_interval_seconds).unwrap_or(0) * 1_000_000,
            is_shown,
            slow_micros: (interval == 0).then(|| u64::try_from(flags.slow_usecs).unwrap_or(0)),
            reported,
            excluded: false,
        }
    }

    /// When the clock was started.
    pub fn started_at(&self) -> u64 {
        self.start
    }

    /// Counts `n` operations that ended now.
    #[inline]
    pub fn finished(&mut self, n: u64, operation: Operation) -> Progress {
        if let Some(reported) = &self.reported {
            reported.fetch_add(n, Ordering::Relaxed);
        }
        if self.histograms.is_some() {
            self.time(operation);
        }
        self.done += n;
        if self.done >= self.next_report { self.report() } else { Progress::None }
    }

    fn time(&mut self, operation: Operation) {
        let now = now_micros();
        let micros = now.saturating_sub(self.last_op_finish);
        self.last_op_finish = now;
        if let Some(histograms) = &mut self.histograms {
            histograms[operation as usize].add(micros);
        }
        if self.slow_micros.is_some_and(|limit| micros >= limit) {
            eprint!("long op: {micros} micros{:30}\r", "");
        }
    }

    /// Restarts the timer of the current operation: waiting for a rate limiter is not its latency.
    pub fn reset_operation_timer(&mut self) {
        if self.histograms.is_some() {
            self.last_op_finish = now_micros();
        }
    }

    /// The current operation began at `micros`.
    pub fn set_operation_start(&mut self, micros: u64) {
        self.last_op_finish = micros;
    }

    #[cold]
    fn report(&mut self) -> Progress {
        if self.interval == 0 {
            self.next_report += match self.next_report {
                0..1000 => 100,
                1000..5000 => 500,
                5000..10_000 => 1000,
                10_000..50_000 => 5000,
                50_000..100_000 => 10_000,
                100_000..500_000 => 50_000,
                _ => 100_000,
            };
            if self.is_shown {
                eprint!("... finished {} ops{:30}\r", self.done, "");
            }
            return Progress::Due;
        }
        self.next_report += self.interval;
        let now = now_micros();
        let micros = now - self.last_report_at;
        if micros < self.interval_micros {
            return Progress::Due;
        }
        let time = local_time_string(wall_micros());
        let interval_done = self.done - self.last_report_done;
        let (interval_s, total_s) = (micros as f64 / 1e6, (now - self.start) as f64 / 1e6);
        eprintln!(
            "{} ... thread {}: ({interval_done},{}) ops and ({:.1},{:.1}) ops/second in \
             ({interval_s:.6},{total_s:.6}) seconds",
            time.split('.').next().unwrap_or(&time),
            self.worker,
            self.done,
            interval_done as f64 / interval_s,
            self.done as f64 / total_s,
        );
        self.last_report_at = now;
        self.last_report_done = self.done;
        Progress::Interval
    }

    /// Adds to the bytes that MB/s is computed from.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Sets the text at the end of the result line.
    pub fn set_message(&mut self, message: String) {
        self.message = message;
    }

    /// Appends to that text.
    pub fn add_message(&mut self, more: &str) {
        if !self.message.is_empty() {
            self.message.push(' ');
        }
        self.message.push_str(more);
    }

    /// Leaves this worker out of the result.
    pub fn exclude(&mut self) {
        self.excluded = true;
    }

    /// Stops the clock.
    pub fn stop(&mut self) {
        self.finish = now_micros();
        self.seconds = (self.finish - self.start) as f64 * 1e-6;
    }

    /// The sum of all workers that are not excluded. `None` if there is no such worker.
    pub fn merged(all: impl IntoIterator<Item = Stats>) -> Option<Stats> {
        let mut included = all.into_iter().filter(|stats| !stats.excluded);
        let mut sum = included.next()?;
        for other in included {
            if let (Some(mine), Some(theirs)) = (&mut sum.histograms, &other.histograms) {
                mine.iter_mut().zip(theirs.iter()).for_each(|(a, b)| a.merge(b));
            }
            sum.done += other.done;
            sum.bytes += other.bytes;
            sum.seconds += other.seconds;
            sum.start = sum.start.min(other.start);
            sum.finish = sum.finish.max(other.finish);
            if sum.message.is_empty() {
                sum.message = other.message;
            }
        }
        Some(sum)
    }

    /// Operations a second, by the wall clock of all workers together.
    pub fn ops_per_sec(&self) -> f64 {
        self.done.max(1) as f64 / self.elapsed()
    }

    /// MiB a second; `None` when no bytes were counted.
    pub fn mib_per_sec(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.bytes as f64 / 1_048_576.0 / self.elapsed())
    }

    /// Seconds from the first start to the last finish; never zero.
    fn elapsed(&self) -> f64 {
        (self.finish - self.start).max(1) as f64 * 1e-6
    }

    /// The result line, and the histograms if there are any.
    pub fn result(&self, name: &str) -> String {
        let mut extra = String::new();
        if let Some(rate) = self.mib_per_sec() {
            extra.push_str(&format!(" {rate:6.1} MB/s"));
        }
        if !self.message.is_empty() {
            extra.push(' ');
            extra.push_str(&self.message);
        }
        let done = self.done.max(1);
        let mut out = format!(
            "{name:<12} : {:11.3} micros/op {} ops/sec {:.3} seconds {done} operations;{extra}\n",
            self.seconds * 1e6 / done as f64,
            self.ops_per_sec() as u64,
            self.elapsed(),
        );
        for (histogram, kind) in self.histograms.iter().flat_map(|all| all.iter()).zip(OPERATIONS) {
            if histogram.count() > 0 {
                out.push_str(&format!("Microseconds per {kind}:\n{histogram}\n"));
            }
        }
        out
    }
}

/// Results of repeated runs (`[X3]`).
#[derive(Default)]
pub struct Repeats {
    ops: Vec<f64>,
    mib: Vec<f64>,
}

impl Repeats {
    /// Adds one run and, from the second on, gives the line with the mean so far, or with
    /// `interval_only` with the ends of its confidence interval.
    pub fn add(&mut self, name: &str, stats: &Stats, interval_only: bool) -> Option<String> {
        self.ops.push(stats.ops_per_sec());
        self.mib.extend(stats.mib_per_sec());
        let runs = self.ops.len();
        (runs > 1).then(|| match interval_only {
            true => self.interval_line(&format!("{name} [CI95 {runs} runs]")),
            false => self.mean_line(&format!("{name} [AVG {runs} runs]"), false),
        })
    }

    fn interval_line(&self, label: &str) -> String {
        let (mean, margin) = mean_and_margin(&self.ops);
        let (mean, margin) = (mean as i64, margin as i64);
        let mut out = format!("{label} : ({}, {}) ops/sec", mean - margin, mean + margin);
        if self.mib.len() == self.ops.len() {
            let (mean, margin) = mean_and_margin(&self.mib);
            out.push_str(&format!("; ({:.1}, {:.1}) MB/sec", mean - margin, mean + margin));
        }
        out.push('\n');
        out
    }

    /// The lines printed after the last run.
    pub fn summary(&self, name: &str) -> String {
        let runs = self.ops.len();
        let mut out =
            format!("\n{}", self.mean_line(&format!("{name} [AVG    {runs} runs]"), true));
        out.push_str(&format!(
            "{name} [MEDIAN {runs} runs] : {} ops/sec",
            median(&self.ops) as u64
        ));
        if self.mib.len() == runs {
            out.push_str(&format!("; {:6.1} MB/sec", median(&self.mib)));
        }
        out.push('\n');
        out
    }

    fn mean_line(&self, label: &str, with_time: bool) -> String {
        let (mean, margin) = mean_and_margin(&self.ops);
        let mut out = format!("{label} : {} (\u{b1} {}) ops/sec", mean as u64, margin as u64);
        if with_time {
            out.push_str(&format!("; {:.3} ms/op", 1000.0 / mean));
        }
        if self.mib.len() == self.ops.len() {
            let (mean, margin) = mean_and_margin(&self.mib);
            out.push_str(&format!("; {mean:6.1} (\u{b1} {margin:.1}) MB/sec"));
        }
        out.push('\n');
        out
    }
}

/// The mean and half the width of its 95 % confidence interval (normal approximation).
fn mean_and_margin(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let deviation = if samples.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    (mean, 1.959964 * deviation / n.sqrt())
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn stats(start: u64, finish: u64, done: u64, bytes: u64) -> Stats {
        let mut stats = Stats::start(&Flags::default(), 0, None);
        (stats.start, stats.finish, stats.done, stats.bytes) = (start, finish, done, bytes);
        stats.seconds = (finish - start) as f64 * 1e-6;
        stats
    }

    #[pumice_test_macros::test]
    fn the_result_line_is_rocksdbs() {
        let mut one = stats(0, 249_000, 100_000, 11_600_000);
        assert_eq!(
            one.result("fillseq"),
            "fillseq      :       2.490 micros/op 401606 ops/sec 0.249 seconds 100000 operations; \
             \u{20} 44.4 MB/s\n"
        );
        one.bytes = 0;
        one.set_message("(3 of 5 found)\n".into());
        assert!(one.result("readmissing").ends_with("operations; (3 of 5 found)\n\n"));
        let mut writer = stats(0, 10, 1, 1);
        writer.exclude();
        let sum = Stats::merged([writer, stats(0, 200, 5, 0), stats(100, 1000, 5, 0)]).unwrap();
        assert_eq!((sum.done, sum.start, sum.finish), (10, 0, 1000));
        assert!(sum.result("x").contains("110.000 micros/op 10000 ops/sec 0.001 seconds"));
    }

    #[pumice_test_macros::test]
    fn repeated_runs_are_summed_up_as_rocksdb_does() {
        // Figures printed by RocksDB 7.8.3's db_bench for fillrandom[X2].
        let mut repeats = Repeats::default();
        let first = stats(0, 1_000_000, 193_659, 193_659 * 116);
        assert_eq!(repeats.add("fillrandom", &first, false), None);
        let second = stats(0, 1_000_000, 189_236, 189_236 * 116);
        let line = "192 (\u{b1} 4334) ops/sec;   21.2 (\u{b1} 0.5) MB/sec\n";
        let printed = repeats.add("fillrandom", &second, false).unwrap();
        assert_eq!(printed, format!("fillrandom [AVG 2 runs] : 191447 {}", &line[4..]));
        assert!(repeats.summary("fillrandom").contains(
            "\nfillrandom [AVG    2 runs] : 191447 (\u{b1} 4334) ops/sec; 0.005 ms/op;   21.2 \
             (\u{b1} 0.5) MB/sec\n\
             fillrandom [MEDIAN 2 runs] : 191447 ops/sec;   21.2 MB/sec\n"
        ));
        let third = repeats.add("fillrandom", &second, true).unwrap();
        assert_eq!(
            third,
            "fillrandom [CI95 3 runs] : (187821, 193599) ops/sec; (20.8, 21.4) MB/sec\n"
        );
    }
}
