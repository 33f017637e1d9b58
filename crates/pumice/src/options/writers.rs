//! How files are written: what the options say about buffers, write-back, preallocation and pace.
//!
//! Preallocation follows RocksDB: a WAL gets room for the memtable it protects, a compaction output
//! for the bytes expected of it, plus a tenth each; flushed tables get none. Closing a file frees
//! unused space, so sizes stay exact.
//!
//! Table files of background jobs are paced by `rate_limiter`. The WAL is not, except for a group
//! of writes that asks for it, and the MANIFEST never is.
//!
//! Thread safety: pure functions.

use std::sync::Arc;

use pumice_base::narrow::to_usize;
use pumice_env::{FileOptions, FileTimes, IoPriority, RateLimiterEvents, WriterOptions};

use crate::stats::InfoLogSettings;

use super::db_options::DbOptions;

/// Direct writes are multiples of this.
const DIRECT_ALIGNMENT_BYTES: u64 = 4 << 10;

impl DbOptions {
    /// For a table file of about `expected_bytes`; 0 if that is not known.
    pub(crate) fn table_writer(&self, expected_bytes: u64) -> WriterOptions {
        WriterOptions {
            bytes_per_sync: self.bytes_per_sync,
            times: self.file_times(),
            ..self.writer(with_tenth(expected_bytes))
        }
    }

    /// For a table file that a flush or a compaction writes, at the pace of `rate_limiter`.
    pub(crate) fn paced_table_writer(
        &self,
        expected_bytes: u64,
        priority: IoPriority,
        events: Option<Arc<dyn RateLimiterEvents>>,
    ) -> WriterOptions {
        let direct = self.use_direct_io_for_flush_and_compaction;
        WriterOptions {
            rate_limiter: self.rate_limiter.clone(),
            io_priority: priority,
            rate_events: events,
            rate_alignment: if direct { DIRECT_ALIGNMENT_BYTES } else { 0 },
            ..self.table_writer(expected_bytes)
        }
    }

    /// For the file LOG.
    pub(crate) fn info_log_settings(&self) -> InfoLogSettings {
        InfoLogSettings {
            dir: self.db_log_dir.clone(),
            level: self.info_log_level,
            max_bytes: self.max_log_file_size,
            roll_seconds: self.log_file_time_to_roll,
            keep: usize::try_from(self.keep_log_file_num).unwrap_or(usize::MAX),
        }
    }

    /// Where grants of the rate limiter are counted.
    pub(crate) fn rate_events(&self) -> Option<Arc<dyn RateLimiterEvents>> {
        self.statistics.clone().map(|statistics| statistics as Arc<dyn RateLimiterEvents>)
    }

    /// Where the times of reading and writing table files go.
    pub(crate) fn file_times(&self) -> Option<Arc<dyn FileTimes>> {
        self.statistics.clone().map(|statistics| statistics as Arc<dyn FileTimes>)
    }

    /// For a WAL that protects memtables of `write_buffer_bytes`.
    pub(crate) fn wal_writer(&self, write_buffer_bytes: u64) -> WriterOptions {
        let mut block = with_tenth(write_buffer_bytes);
        for limit in [self.max_total_wal_size, self.db_write_buffer_size] {
            block = if limit > 0 { block.min(limit) } else { block };
        }
        WriterOptions { bytes_per_sync: self.wal_bytes_per_sync, ..self.writer(block) }
    }

    /// How the MANIFEST is created, and each small file beside it.
    pub(crate) fn metadata_file(&self) -> FileOptions {
        FileOptions { temperature: self.metadata_write_temperature, ..FileOptions::default() }
    }

    /// For the MANIFEST.
    pub(crate) fn manifest_writer(&self) -> WriterOptions {
        self.writer(self.manifest_preallocation_size)
    }

    fn writer(&self, preallocation_bytes: u64) -> WriterOptions {
        WriterOptions {
            preallocation_block_bytes: if self.allow_fallocate { preallocation_bytes } else { 0 },
            strict_bytes_per_sync: self.strict_bytes_per_sync,
            ..WriterOptions::new(to_usize(self.writable_file_max_buffer_size))
        }
    }
}

fn with_tenth(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 10)
}
