//! `--report_stalls`, `--plot` and `--monitor_file`: writes, stalls, L0 and debt over time, sampled
//! ten times a second.
//!
//! The numbers are properties that both engines have. Stopped and slowed seconds are the number of
//! samples in which writes were stopped or slowed, times the interval between samples.
//!
//! Thread safety: the sampling thread owns the samples until it is joined.

use super::engine::BenchDb;
use pumice_port::sync::Event;
use pumice_port::thread::{JoinHandle, try_spawn};
use pumice_port::time::now_micros;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Samples for each reading of a property that is a long text.
const LOOKS_PER_TEXT: usize = 10;
/// Between two samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// One sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Seconds since the first sample.
    pub seconds: f64,
    /// Operations of all workers so far.
    pub operations: u64,
    /// Writes are stopped.
    pub stopped: bool,
    /// Bytes a second that slowed writes get; 0 if they are not slowed.
    pub delayed_rate: u64,
    /// Files in L0 of the default column family.
    pub l0_files: u64,
    /// Bytes that wait for compaction.
    pub pending_bytes: u64,
    /// Megabytes that flushes and compactions have written since the open, from a property in
    /// hundredths of a gigabyte; read once a second.
    pub compacted_mb: f64,
}

/// Samples until it is finished.
pub struct Monitor {
    stop: Arc<Event>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Monitor {
    /// Starts sampling `db`; `operations` counts those of all workers.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start<D: BenchDb>(db: Arc<D>, operations: Arc<AtomicU64>) -> Result<Monitor, String> {
        let stop = Arc::new(Event::new());
        let stopped = stop.clone();
        let thread = try_spawn("monitor", move || sample(&*db, &operations, &stopped));
        Ok(Monitor { stop, thread: thread.map_err(|error| error.to_string())? })
    }

    /// Stops sampling; returns the samples.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn finish(self) -> Result<Vec<Sample>, String> {
        self.stop.set();
        self.thread.join().map_err(|error| error.to_string())
    }
}

fn sample<D: BenchDb>(db: &D, operations: &AtomicU64, stop: &Event) -> Vec<Sample> {
    let number = |name: &str| {
        let text = db.property(name);
        text.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let start = now_micros();
    let before = operations.load(Ordering::Relaxed);
    let mut samples: Vec<Sample> = Vec::new();
    loop {
        let compacted_mb = match samples.last() {
            Some(last) if !samples.len().is_multiple_of(LOOKS_PER_TEXT) => last.compacted_mb,
            _ => {
                compacted_mb(&db.property("rocksdb.cfstats-no-file-histogram").unwrap_or_default())
            }
        };
        samples.push(Sample {
            seconds: (now_micros() - start) as f64 / 1e6,
            operations: operations.load(Ordering::Relaxed) - before,
            stopped: number("rocksdb.is-write-stopped") > 0,
            delayed_rate: number("rocksdb.actual-delayed-write-rate"),
            l0_files: number("rocksdb.num-files-at-level0"),
            pending_bytes: number("rocksdb.estimate-pending-compaction-bytes"),
            compacted_mb,
        });
        if stop.wait_timeout(INTERVAL) {
            return samples;
        }
    }
}

/// What the statistics of a column family say was written.
fn compacted_mb(text: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix("Cumulative compaction: "));
    let gigabytes = line.and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
    gigabytes.unwrap_or(0.0) * 1024.0
}

/// Seconds that each sample covers, with the sample.
pub fn weighted(samples: &[Sample]) -> impl Iterator<Item = (f64, &Sample)> {
    samples.windows(2).map(|pair| (pair[1].seconds - pair[0].seconds, &pair[1]))
}

/// The line that `--report_stalls` prints.
pub fn summary(name: &str, samples: &[Sample]) -> String {
    let seconds = |of: fn(&Sample) -> bool| -> f64 {
        let those = weighted(samples).filter(|(_, sample)| of(sample));
        // Not `sum`, which is -0.0 of nothing.
        those.fold(0.0, |sum, (seconds, _)| sum + seconds)
    };
    let most = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0);
    format!(
        "{name:<12} : stopped {:.1} s, slowed {:.1} s of {:.1} s; L0 at most {} files, pending \
         compaction at most {:.1} MB\n",
        seconds(|sample| sample.stopped),
        seconds(|sample| !sample.stopped && sample.delayed_rate > 0),
        samples.last().map_or(0.0, |sample| sample.seconds),
        most(|sample| sample.l0_files),
        most(|sample| sample.pending_bytes) as f64 / 1_048_576.0,
    )
}

/// The samples as `--monitor_file` has them; rates and bytes in bytes.
pub fn csv(samples: &[Sample]) -> String {
    let head = "seconds,operations,stopped,delayed_rate,l0_files,pending_bytes,compacted_mb\n";
    let line = |s: &Sample| {
        format!(
            "{:.3},{},{},{},{},{},{:.2}\n",
            s.seconds,
            s.operations,
            u8::from(s.stopped),
            s.delayed_rate,
            s.l0_files,
            s.pending_bytes,
            s.compacted_mb
        )
    };
    std::iter::once(head.to_string()).chain(samples.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn looks_are_lines() {
        let sample = Sample { seconds: 0.25, operations: 7, stopped: true, ..Sample::default() };
        let text = csv(&[sample]);
        assert_eq!(text.lines().nth(1), Some("0.250,7,1,0,0,0,0.00"));
        assert!(text.starts_with("seconds,operations,stopped,"));
    }

    #[pumice_test_macros::test]
    fn the_statistics_have_what_was_compacted() {
        let text = "** Compaction Stats [default] **\nFlush(GB): cumulative 1.2, interval 1.2\n\
                    Cumulative compaction: 0.25 GB write, 36.95 MB/s write, 0.15 GB read\n";
        assert_eq!(compacted_mb(text), 256.0);
        assert_eq!(compacted_mb(""), 0.0);
    }

    #[pumice_test_macros::test]
    fn stalls_are_summed_up_by_the_time_between_looks() {
        let at = |seconds, stopped, delayed_rate, l0_files| Sample {
            seconds,
            stopped,
            delayed_rate,
            l0_files,
            pending_bytes: 3 << 20,
            ..Sample::default()
        };
        let samples =
            [at(0.0, true, 0, 1), at(0.5, true, 9, 7), at(0.8, false, 5, 2), at(2.0, false, 0, 2)];
        assert_eq!(
            summary("fillrandom", &samples),
            "fillrandom   : stopped 0.5 s, slowed 0.3 s of 2.0 s; L0 at most 7 files, pending \
             compaction at most 3.0 MB\n"
        );
        assert!(summary("x", &[]).contains("stopped 0.0 s, slowed 0.0 s of 0.0 s"));
    }
}
