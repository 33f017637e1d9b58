//! Statistics as receiver of the times of table file operations.
//!
//! Thread safety: as [`Statistics`].

use pumice_env::{FileTimes, IoActivity};

use super::names::HistogramKind;
use super::statistics::Statistics;

impl Statistics {
    fn measure_file(&self, all: HistogramKind, activity: Option<HistogramKind>, nanos: u64) {
        let micros = nanos / 1000;
        self.tally(|tally| {
            tally.measure(all, micros);
            if let Some(activity) = activity {
                tally.measure(activity, micros);
            }
        });
    }
}

impl FileTimes for Statistics {
    fn wanted(&self) -> bool {
        self.wants_timers()
    }
    fn read(&self, activity: IoActivity, nanos: u64) {
        let detailed = self.wants_detailed_timers();
        let own = match activity {
            IoActivity::Flush => Some(HistogramKind::FileReadFlushMicros),
            IoActivity::Compaction => Some(HistogramKind::FileReadCompactionMicros),
            IoActivity::DbOpen => Some(HistogramKind::FileReadDbOpenMicros),
            // As in RocksDB, which measures users' reads by kind only at the detailed levels.
            IoActivity::Unknown => None,
            _ if !detailed => None,
            IoActivity::Get => Some(HistogramKind::FileReadGetMicros),
            IoActivity::MultiGet => Some(HistogramKind::FileReadMultigetMicros),
            IoActivity::DbIterator => Some(HistogramKind::FileReadDbIteratorMicros),
        };
        self.measure_file(HistogramKind::SstReadMicros, own, nanos);
    }
    fn written(&self, activity: IoActivity, nanos: u64) {
        let own = match activity {
            IoActivity::Flush => Some(HistogramKind::FileWriteFlushMicros),
            IoActivity::Compaction => Some(HistogramKind::FileWriteCompactionMicros),
            IoActivity::DbOpen => Some(HistogramKind::FileWriteDbOpenMicros),
            _ => None,
        };
        self.measure_file(HistogramKind::SstWriteMicros, own, nanos);
    }
}
