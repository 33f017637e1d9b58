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
//! | `db_stats`, `cf_stats` | numbers and text of `rocksdb.stats` and its parts |

pub mod cf_stats;
mod contained_logger;
pub mod db_stats;
pub mod event_log;
mod file_stats;
mod human;
pub mod info_log;
mod info_log_level;
pub mod listener;
pub mod names;
mod prometheus;
mod rate_stats;
pub mod statistics;
mod stats_history;
mod table_builds;
mod table_stats;

pub use cf_stats::{CfStats, CfView, CompactionStats, LevelView};
pub(crate) use contained_logger::ContainedLogger;
pub use db_stats::DbStats;
pub use info_log::{InfoLog, InfoLogSettings, Logger, NullLogger};
pub use info_log_level::InfoLogLevel;
pub use listener::EventListener;
pub use names::{HistogramKind, Ticker};
pub use prometheus::{MetricFamily, MetricKind, MetricsPage};
pub use statistics::{Record, Statistics, StatsLevel, Tally, Timer};
pub(crate) use stats_history::StatsHistory;
pub use stats_history::StatsHistoryEntry;
pub(crate) use table_builds::{TableBuilds, record_build};
pub(crate) use table_stats::TableTickers;
