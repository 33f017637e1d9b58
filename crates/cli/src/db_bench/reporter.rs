//! `--report_interval_seconds`: a CSV file with the operations of every interval.
//!
//! Thread safety: the writer thread owns the file; it is stopped and joined on drop.

use pumice_env::{FileOptions, PosixFs, WritableFile};
use pumice_port::sync::Event;
use pumice_port::thread::{JoinHandle, spawn};
use pumice_port::time::now_micros;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Writes one line per interval until it is dropped.
pub struct Reporter {
    operations: Arc<AtomicU64>,
    stop: Arc<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    /// Starts reporting into the file at `path`, which is replaced.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn start(path: &Path, interval_seconds: u64) -> pumice_base::Result<Reporter> {
        let mut file = PosixFs::shared().create(path, &FileOptions::default())?;
        file.append(b"secs_elapsed,interval_qps\n")?;
        let operations = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(Event::new());
        let (counter, stopped) = (operations.clone(), stop.clone());
        let thread = spawn("reporter", move || {
            if let Err(error) = report(&mut *file, &counter, &stopped, interval_seconds) {
                eprintln!("report file: {error}");
            }
        });
        Ok(Reporter { operations, stop, thread: Some(thread) })
    }

    /// The counter that benchmark threads add to.
    pub fn operations(&self) -> Arc<AtomicU64> {
        self.operations.clone()
    }
}

fn report(
    file: &mut dyn WritableFile,
    operations: &AtomicU64,
    stop: &Event,
    interval_seconds: u64,
) -> pumice_base::Result<()> {
    let start = now_micros();
    let mut last = 0;
    while !stop.wait_timeout(Duration::from_secs(interval_seconds)) {
        let total = operations.load(Ordering::Relaxed);
        let seconds = (now_micros() - start + 500_000) / 1_000_000;
        let per_second = (total - last) as f64 / interval_seconds as f64;
        last = total;
        file.append(format!("{seconds},{per_second:.0}\n").as_bytes())?;
        file.flush()?;
    }
    file.close()
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take()
            && let Err(error) = thread.join()
        {
            eprintln!("report file: {error}");
        }
    }
}
