//! What building a table cost, for tickers and benchmarks. Values; no thread safety needed.

use pumice_base::histogram::Histogram;
use pumice_port::ring::RingStats;

/// Counts of one table, complete after `finish`.
#[derive(Clone, Debug, Default)]
pub struct BuildStats {
    /// Data and index blocks stored compressed.
    pub blocks_compressed: u64,
    /// Blocks stored raw because compression did not pay.
    pub blocks_rejected: u64,
    /// Blocks stored raw without trying.
    pub blocks_bypassed: u64,
    /// Raw bytes of the blocks stored compressed.
    pub bytes_compressed_from: u64,
    /// Stored bytes of the compressed blocks, without trailers.
    pub bytes_compressed_to: u64,
    /// Raw bytes of the rejected blocks.
    pub bytes_rejected: u64,
    /// Raw bytes of the bypassed blocks.
    pub bytes_bypassed: u64,
    /// Nanoseconds in the codec (and in verification), estimated from every 64th block.
    pub compress_nanos: u64,
    /// Nanoseconds of each block stored compressed, with [`TableBuildContext::time_codec`].
    ///
    /// [`TableBuildContext::time_codec`]: crate::TableBuildContext::time_codec
    pub codec_times: Option<Box<Histogram>>,
    /// CPU time that helpers spent on this table. Up to eight blocks per helper may be missing.
    pub helper_cpu_nanos: u64,
    /// What happened in the ring; zeros for a serial build.
    pub ring: RingStats,
}
