//! The write-ahead log's framing, which the MANIFEST shares: logical records in 32 KiB blocks.
//!
//! ```text
//! block   := record* zero-fill            32768 bytes, the last block of a file may be short
//! record  := crc32 length16 type8 payload                    7-byte header
//!          | crc32 length16 type8 log_number32 payload       11-byte header, recyclable files
//! crc     := masked crc32c of everything after the length field
//! ```
//! A record never crosses a block. A logical record is one `Full`, or `First Middle* Last`. A
//! recycled file carries its number in each header, so that leftover records of its older use are
//! recognized.
//!
//! Thread safety: readers and writers have one owner. The content of a record is up to the engine.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "zstd")]
mod compression;
#[cfg(not(feature = "zstd"))]
#[path = "compression_absent.rs"]
mod compression;
mod physical;
mod range_crc;
mod reader;
mod reader_options;
mod record;
pub mod reuse;
mod torn;
mod writer;

pub use reader::{LogEnd, LogReader, PredecessorLog, RecordInfo, Reporter};
pub use reader_options::LogReaderOptions;
pub use record::{BLOCK_BYTES, WalRecoveryMode};
pub use torn::{GroupCountdown, is_torn_append};
pub use writer::LogWriter;

#[cfg(test)]
mod tests;
