//! What the statistics are told of writes.
//!
//! Thread safety: from anywhere.

use crate::engine::DbInner;
use crate::options::requests::WriteOptions;
use crate::stats::{HistogramKind, Ticker};

impl DbInner {
    /// A group of `bytes` was logged, which took `logged` bytes of the log, and was synced if that
    /// began at some time.
    #[inline]
    pub(super) fn count_logged(&self, bytes: u64, logged: u64, sync_began_micros: Option<u64>) {
        self.reports.stats.wal_written(logged, sync_began_micros.is_some());
        // As RocksDB: without the headers of the log's records.
        self.tick(Ticker::WalFileBytes, bytes);
        if let Some(began) = sync_began_micros {
            self.tick(Ticker::WalFileSynced, 1);
            let micros = pumice_port::time::now_micros() - began;
            self.measure(HistogramKind::WalFileSyncMicros, micros);
        }
    }

    /// A group of so many batches was written.
    pub(super) fn count_writes(&self, options: &WriteOptions, batches: u64, keys: u64, bytes: u64) {
        self.reports.stats.written(batches, keys, bytes, !options.disable_wal);
        let Some(statistics) = &self.reports.statistics else { return };
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
}
