//! Reports of a database about itself.
//!
//! | module | role |
//! |---|---|
//! | `names`, `statistics`, `table_stats` | tickers and histograms |
//! | `prometheus` | the same as text for Prometheus |
//! | `stats_history` | how tickers grew, period by period |
//! | `listener` | callbacks of programs |
//! | `info_log`, `event_log` | the file LOG: lines for people and for programs |
//! | `contained_logger` | the program's logger in place of LOG |
//! | `table_builds` | cost of building tables |
//! | `thread_status` | what the threads of the pools do |
//! | `db_stats`, `cf_stats` | numbers and text of `rocksdb.stats` and its parts |

pub(crate) mod cf_stats;
mod contained_logger;
pub(crate) mod db_stats;
pub(crate) mod event_log;
mod file_stats;
mod human;
pub(crate) mod info_log;
mod info_log_level;
pub mod listener;
pub mod names;
mod prometheus;
mod rate_stats;
pub(crate) mod statistics;
mod stats_history;
mod table_builds;
mod table_stats;
pub(crate) mod thread_status;

pub(crate) use cf_stats::CompactionStats;
pub(crate) use contained_logger::ContainedLogger;
#[doc(hidden)] // For db_bench.
pub use info_log::line as info_log_line;
pub(crate) use info_log::{InfoLog, InfoLogSettings};
pub use info_log::{Logger, NullLogger};
pub use info_log_level::InfoLogLevel;
pub use listener::EventListener;
pub use names::{HistogramKind, Ticker};
pub use prometheus::{MetricFamily, MetricKind, MetricsPage};
pub(crate) use statistics::{Record, Tally, Timer};
pub use statistics::{Statistics, StatsLevel};
pub(crate) use stats_history::StatsHistory;
pub use stats_history::StatsHistoryEntry;
pub(crate) use table_builds::{TableBuilds, record_build};
pub(crate) use table_stats::{TableTickers, simulated};
pub use thread_status::{
    JobStatus, THREAD_PROPERTIES, THREAD_STAGE_NAMES, ThreadOperation, ThreadStage, ThreadStatus,
    micros_to_string, thread_list,
};
