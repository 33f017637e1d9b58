//! Counts and reports: statistics, properties, perf contexts, listeners, the info log.

mod drops;
mod events;
mod history;
mod loggers;
mod perf_context;
mod properties;
mod table_statistics;
