//! Options of traces and of their replay, with RocksDB's names and defaults. Plain data.

use std::ops::BitOr;

/// Kinds of queries that a trace leaves out.
///
/// Example: that of [`TraceOptions`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFilter(pub u64);

impl TraceFilter {
    /// Leaves out nothing.
    pub const NONE: TraceFilter = TraceFilter(0);
    /// Point reads.
    pub const GET: TraceFilter = TraceFilter(1);
    /// Writes.
    pub const WRITE: TraceFilter = TraceFilter(1 << 1);
    /// Seeks of iterators.
    pub const ITERATOR_SEEK: TraceFilter = TraceFilter(1 << 2);
    /// Backward seeks of iterators.
    pub const ITERATOR_SEEK_FOR_PREV: TraceFilter = TraceFilter(1 << 3);
    /// Several point reads as one.
    pub const MULTI_GET: TraceFilter = TraceFilter(1 << 4);

    /// Whether it has all of `kinds`.
    #[must_use]
    pub fn contains(self, kinds: TraceFilter) -> bool {
        self.0 & kinds.0 == kinds.0
    }
}

impl BitOr for TraceFilter {
    type Output = TraceFilter;
    fn bitor(self, other: TraceFilter) -> TraceFilter {
        TraceFilter(self.0 | other.0)
    }
}

/// Options of a trace.
///
/// ```
/// use pumice::trace::{TraceFilter, TraceOptions};
/// // Every tenth query, without writes.
/// let options = TraceOptions {
///     sampling_frequency: 10,
///     filter: TraceFilter::WRITE,
///     ..TraceOptions::default()
/// };
/// assert_eq!(options.max_trace_file_size, 64 << 30);
/// assert!((TraceFilter::GET | TraceFilter::WRITE).contains(options.filter));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// Once the file has more bytes, nothing is added.
    pub max_trace_file_size: u64,
    /// One of so many queries is recorded; 0 and 1 record all.
    pub sampling_frequency: u64,
    /// What is left out.
    pub filter: TraceFilter,
    /// Writes are recorded in the order in which they take effect. Here they always are: it is the
    /// leader of a group of writes that records them.
    pub preserve_write_order: bool,
}

impl Default for TraceOptions {
    fn default() -> Self {
        TraceOptions {
            max_trace_file_size: 64 << 30,
            sampling_frequency: 1,
            filter: TraceFilter::NONE,
            preserve_write_order: false,
        }
    }
}

/// Options of a trace of the block cache.
///
/// Example: that of [`crate::Db::start_block_cache_trace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCacheTraceOptions {
    /// All uses of one of so many blocks are recorded; 0 and 1 record all.
    pub sampling_frequency: u64,
    /// Once the file has more bytes, nothing is added.
    pub max_trace_file_size: u64,
}

impl Default for BlockCacheTraceOptions {
    fn default() -> Self {
        BlockCacheTraceOptions { sampling_frequency: 1, max_trace_file_size: 64 << 30 }
    }
}

/// How a trace is replayed.
///
/// Example: that of [`Replayer`](crate::Replayer).
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayOptions {
    /// Tasks that make the calls; with more than one their order may change.
    pub num_threads: u32,
    /// How many times as fast as they were recorded; above 0.
    pub fast_forward: f64,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions { num_threads: 1, fast_forward: 1.0 }
    }
}
