//! A file whose reads are counted and timed: for IO stats contexts always, for histograms if they
//! are collected.
//!
//! Thread safety: as the file. Suspends where that does.

use crate::activity::{self, IoActivity};
use crate::file_system::{RandomAccessFile, ReadRequest};
use crate::perf::{self, IoMetric};
use crate::wrappers::RandomAccessFileWrapper;
use pumice_base::Result;
use pumice_port::time::now_nanos;
use std::sync::Arc;

/// Receiver of the times that reads and writes of files took. Called from any thread.
pub trait FileTimes: Send + Sync {
    /// Whether times are measured at the moment; if not, the clock is not read.
    fn wanted(&self) -> bool;
    /// A read took `nanos`.
    fn read(&self, activity: IoActivity, nanos: u64);
    /// A write took `nanos`.
    fn written(&self, activity: IoActivity, nanos: u64);
}

/// Starts a clock if `times` are wanted.
pub(crate) fn start(times: Option<&dyn FileTimes>) -> Option<u64> {
    times.is_some_and(FileTimes::wanted).then(now_nanos)
}

/// See the head of this file.
pub struct ObservedFile {
    file: Arc<dyn RandomAccessFile>,
    times: Option<Arc<dyn FileTimes>>,
}

impl ObservedFile {
    /// `file`, observed.
    pub fn wrap(
        file: Arc<dyn RandomAccessFile>,
        times: Option<Arc<dyn FileTimes>>,
    ) -> Arc<dyn RandomAccessFile> {
        Arc::new(ObservedFile { file, times })
    }

    fn observe<R>(&self, read: impl FnOnce() -> R) -> R {
        let started = start(self.times.as_deref());
        let time = perf::time_io(IoMetric::ReadNanos);
        let done = read();
        drop(time);
        if let (Some(started), Some(times)) = (started, &self.times) {
            times.read(activity::current(), now_nanos().saturating_sub(started));
        }
        done
    }
}

impl RandomAccessFileWrapper for ObservedFile {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.file
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.observe(|| self.file.read_at(offset, buf));
        if let Ok(bytes) = &read {
            perf::count_io(IoMetric::BytesRead, *bytes as u64);
        }
        read
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.observe(|| self.file.read_batch(requests));
        let bytes = requests.iter().filter_map(|request| request.result.as_ref().ok());
        perf::count_io(IoMetric::BytesRead, bytes.map(|bytes| *bytes as u64).sum());
    }
    fn needs_little_stack(&self) -> bool {
        self.file.needs_little_stack()
    }
}
