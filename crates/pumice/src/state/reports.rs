//! The reports of a database: info log, statistics, listeners' events.
//!
//! Thread safety: from any thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use pumice_base::{Error, ErrorKind};
use pumice_manifest::FileMetaData;
use pumice_memtable::MemTable;
use pumice_port::sync::Condvar;
use pumice_port::time;
use pumice_table::BuildStats;

use crate::compaction::picker::CompactionReason;
use crate::compaction::subcompaction::SubcompactionResult;
use crate::options::InfoLogLevel;
use crate::options::requests::WriteOptions;
use crate::recovery::manifest_reader::DroppedTail;
use crate::state::events::EventState;
use crate::state::work::CompactionWork;
use crate::stats::db_stats::DbStats;
use crate::stats::{
    CompactionStats, HistogramKind, Logger, Statistics, StatsHistory, TableBuilds, Ticker,
    record_build,
};
use crate::trace::Traces;
use crate::version::family::CfData;

/// See the module head.
pub(crate) struct Reports {
    pub info_log: Option<Arc<dyn Logger>>,
    pub statistics: Option<Arc<Statistics>>,
    /// Point reads take the path that counts, which also uses the row cache.
    pub observes_reads: bool,
    pub stats: DbStats,
    pub table_builds: TableBuilds,
    pub events: EventState,
    pub traces: Arc<Traces>,
    pub history: StatsHistory,
    /// Notified when the time of the next dump or sample may have changed.
    pub dumps_changed: Condvar,
}

impl Reports {
    /// The open dropped the end of a MANIFEST.
    pub fn dropped_tail(&self, tail: &DroppedTail) {
        let DroppedTail { manifest, offset, bytes, .. } = tail;
        self.info(format_args!(
            "WARNING: {}: a crash tore the last change. Dropped {bytes} bytes from offset {offset} \
             on; what they said was never acknowledged",
            manifest.display()
        ));
    }

    /// Counts an event.
    #[inline]
    pub fn tick(&self, ticker: Ticker, count: u64) {
        if let Some(statistics) = &self.statistics {
            statistics.record_tick(ticker, count);
        }
    }

    /// Records a measurement.
    #[inline]
    pub fn measure(&self, kind: HistogramKind, value: u64) {
        if let Some(statistics) = &self.statistics {
            statistics.measure(kind, value);
        }
    }

    /// The first sample is compared with the statistics as they are now.
    pub fn begin_history(&self) {
        if let Some(statistics) = &self.statistics {
            self.history.sample(statistics, time::wall_seconds(), u64::MAX);
        }
    }

    /// Counts a background error, and whether it is retried automatically.
    pub fn count_error(&self, error: &Error, retried: bool) {
        self.tick(Ticker::ErrorHandlerBgErrorCount, 1);
        if error.kind() == ErrorKind::IoError {
            self.tick(Ticker::ErrorHandlerBgIoErrorCount, 1);
            self.tick(Ticker::ErrorHandlerBgRetryableIoErrorCount, u64::from(retried));
        }
    }

    /// Counts a finished table; returns the CPU time that helpers spent on it, microseconds.
    pub fn count_build(&self, table: &BuildStats) -> u64 {
        self.table_builds.add(table);
        if let Some(statistics) = &self.statistics {
            record_build(statistics, table);
        }
        table.helper_cpu_nanos / 1000
    }

    /// Writes a line to the info log.
    pub fn info(&self, line: std::fmt::Arguments<'_>) {
        if let Some(log) = &self.info_log {
            log.log(crate::options::InfoLogLevel::Info, line);
        }
    }

    /// Writes a warning to the info log.
    pub fn warn(&self, line: std::fmt::Arguments<'_>) {
        if let Some(log) = &self.info_log {
            log.log(InfoLogLevel::Warn, line);
        }
    }

    pub fn log_event(&self, write: impl FnOnce(&dyn Logger)) {
        if let Some(log) = &self.info_log {
            write(&**log);
        }
    }

    /// A group of `bytes` was logged, which took `logged` bytes of the log; it was synced if
    /// `sync_began_micros` has a time.
    #[inline]
    pub fn count_logged(&self, bytes: u64, logged: u64, sync_began_micros: Option<u64>) {
        self.stats.wal_written(logged, sync_began_micros.is_some());
        // As RocksDB: without the headers of the log's records.
        self.tick(Ticker::WalFileBytes, bytes);
        if let Some(began) = sync_began_micros {
            self.tick(Ticker::WalFileSynced, 1);
            let micros = pumice_port::time::now_micros() - began;
            self.measure(HistogramKind::WalFileSyncMicros, micros);
        }
    }

    /// A group of this many batches was written.
    pub fn count_writes(&self, options: &WriteOptions, batches: u64, keys: u64, bytes: u64) {
        self.stats.written(batches, keys, bytes, !options.disable_wal);
        let Some(statistics) = &self.statistics else { return };
        statistics.tally(|tally| {
            tally.tick(Ticker::NumberKeysWritten, keys);
            tally.tick(Ticker::BytesWritten, bytes);
            tally.tick(Ticker::WriteDoneBySelf, 1);
            tally.tick(Ticker::WriteDoneByOther, batches - 1);
            if !options.disable_wal {
                tally.tick(Ticker::WriteWithWal, batches);
            }
            tally.measure(HistogramKind::BytesPerWrite, bytes);
        });
    }

    pub fn count_flush(&self, cf: &CfData, bytes: u64, micros: u64, cpu_micros: u64) {
        cf.stats.flushed(&CompactionStats {
            count: 1,
            micros,
            cpu_micros,
            bytes_written: bytes,
            ..CompactionStats::default()
        });
        self.tick(Ticker::FlushWriteBytes, bytes);
        self.measure(HistogramKind::FlushTime, micros);
    }

    /// Counts how much of the memtables was written, `blob_bytes` of it to blob files, and how much
    /// was garbage.
    pub fn count_garbage(
        &self,
        mems: &[Arc<MemTable>],
        file: Option<&FileMetaData>,
        blob_bytes: u64,
    ) {
        let payload: u64 = mems.iter().map(|mem| mem.data_bytes()).sum();
        let stats = file.and_then(|file| file.stats.get());
        let written = stats.map_or(0, |stats| stats.raw_key_size + stats.raw_value_size);
        let written = written + blob_bytes;
        self.tick(Ticker::MemtablePayloadBytesAtFlush, payload);
        self.tick(Ticker::MemtableGarbageBytesAtFlush, payload.saturating_sub(written));
    }

    /// Counts the bytes of a compaction.
    fn count_bytes(&self, reason: CompactionReason, read: u64, written: u64) {
        self.tick(Ticker::CompactReadBytes, read);
        self.tick(Ticker::CompactWriteBytes, written);
        let by_reason = match reason {
            CompactionReason::FilesMarkedForCompaction => {
                Some((Ticker::CompactReadBytesMarked, Ticker::CompactWriteBytesMarked))
            }
            CompactionReason::PeriodicCompaction => {
                Some((Ticker::CompactReadBytesPeriodic, Ticker::CompactWriteBytesPeriodic))
            }
            CompactionReason::Ttl => {
                Some((Ticker::CompactReadBytesTtl, Ticker::CompactWriteBytesTtl))
            }
            _ => None,
        };
        if let Some((read_ticker, write_ticker)) = by_reason {
            self.tick(read_ticker, read);
            self.tick(write_ticker, written);
        }
    }

    pub fn count_compaction(
        &self,
        work: &CompactionWork,
        files: &[Arc<FileMetaData>],
        part: &SubcompactionResult,
        micros: u64,
    ) -> CompactionStats {
        let bytes_at = |same: bool| -> u64 {
            let inputs = work.pick.input_files();
            let at = inputs.filter(|(level, _)| (*level == work.pick.output_level) == same);
            at.map(|(_, file)| file.file_size).sum()
        };
        let counts = &part.counts;
        let (own, young) = (written(files), written(&part.young_files));
        let mut job = CompactionStats {
            count: 1,
            micros,
            cpu_micros: part.cpu_micros,
            bytes_read_non_output_levels: bytes_at(false),
            bytes_read_output_level: bytes_at(true),
            bytes_moved: 0,
            num_input_records: counts.entries_in,
            num_dropped_records: counts.dropped_hidden
                + counts.dropped_obsolete
                + counts.dropped_range_deleted
                + counts.dropped_by_filter,
            ..own
        };
        work.cf.stats.compacted(work.pick.output_level, &job);
        if let Some(proximal) = &work.pick.outputs.proximal {
            work.cf.stats.compacted(proximal.range.level, &young);
            job.bytes_written += young.bytes_written;
            job.bytes_written_pre_comp += young.bytes_written_pre_comp;
        }
        let read = job.bytes_read_non_output_levels + job.bytes_read_output_level;
        self.count_bytes(work.pick.reason, read, job.bytes_written);
        // As in RocksDB the former includes the other two.
        let obsolete = counts.dropped_obsolete + counts.dropped_tombstones;
        self.tick(Ticker::CompactionKeyDropObsolete, obsolete);
        self.tick(Ticker::CompactionRangeDelDropObsolete, counts.dropped_tombstones);
        self.tick(Ticker::CompactionOptimizedDelDropObsolete, counts.dropped_early);
        self.tick(Ticker::CompactionKeyDropNewerEntry, counts.dropped_hidden);
        self.tick(Ticker::CompactionKeyDropRangeDel, counts.dropped_range_deleted);
        self.tick(Ticker::CompactionKeyDropUser, counts.dropped_by_filter);
        self.tick(Ticker::CompactionCpuTotalTime, job.cpu_micros);
        self.measure(HistogramKind::CompactionTime, micros);
        self.measure(HistogramKind::CompactionCpuTime, job.cpu_micros);
        let inputs = work.pick.input_files().count() as u64;
        self.measure(HistogramKind::NumFilesInSingleCompaction, inputs);
        if part.parts > 1 {
            self.measure(HistogramKind::NumSubcompactionsScheduled, part.parts as u64);
        }
        job
    }
}

impl Reports {
    pub fn own_property(&self, name: &str) -> Option<String> {
        match name {
            "write-group-size" => Some(self.stats.group_sizes().to_string()),
            "write-group-helpers" => Some(self.stats.helpers().to_string()),
            "wal-syncs" => Some(self.stats.wal_syncs().to_string()),
            "table-builds" => Some(self.table_builds.to_string()),
            _ => None,
        }
    }

    /// `rocksdb.dbstats`; ends its interval.
    pub fn db_report(&self) -> String {
        self.stats.report(time::now_micros())
    }

    /// `rocksdb.dbstats` as names and values.
    pub fn db_map(&self) -> BTreeMap<String, String> {
        self.stats.map(time::now_micros())
    }
}

/// The bytes of new files.
fn written(files: &[Arc<FileMetaData>]) -> CompactionStats {
    let raw_bytes = |f: &Arc<FileMetaData>| f.stats().raw_key_size + f.stats().raw_value_size;
    CompactionStats {
        bytes_written: files.iter().map(|f| f.file_size).sum(),
        bytes_written_pre_comp: files.iter().map(raw_bytes).sum(),
        ..CompactionStats::default()
    }
}
