//! How files are written: what the options say about buffers, write-back and preallocation.
//!
//! Preallocation follows RocksDB: a WAL gets room for the memtable it protects, a compaction output
//! for the bytes expected of it, each with a tenth to spare; flushed tables get none. Closing a
//! file gives back what it did not use, so sizes stay exact.
//!
//! Thread safety: pure functions.

use pumice_base::narrow::to_usize;
use pumice_env::WriterOptions;

use super::db_options::DbOptions;

impl DbOptions {
    /// For a table file of about `expected_bytes`; 0 if nobody can tell.
    pub(crate) fn table_writer(&self, expected_bytes: u64) -> WriterOptions {
        WriterOptions {
            bytes_per_sync: self.bytes_per_sync,
            ..self.writer(with_tenth(expected_bytes))
        }
    }

    /// For a WAL that protects memtables of `write_buffer_bytes`.
    pub(crate) fn wal_writer(&self, write_buffer_bytes: u64) -> WriterOptions {
        let mut block = with_tenth(write_buffer_bytes);
        for limit in [self.max_total_wal_size, self.db_write_buffer_size] {
            block = if limit > 0 { block.min(limit) } else { block };
        }
        WriterOptions { bytes_per_sync: self.wal_bytes_per_sync, ..self.writer(block) }
    }

    /// For the MANIFEST.
    pub(crate) fn manifest_writer(&self) -> WriterOptions {
        self.writer(self.manifest_preallocation_size)
    }

    fn writer(&self, preallocation_bytes: u64) -> WriterOptions {
        WriterOptions {
            buffer_bytes_max: to_usize(self.writable_file_max_buffer_size),
            preallocation_block_bytes: if self.allow_fallocate { preallocation_bytes } else { 0 },
            ..WriterOptions::default()
        }
    }
}

fn with_tenth(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 10)
}
