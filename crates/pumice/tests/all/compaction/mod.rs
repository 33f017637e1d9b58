//! Compactions: the results of each style, when they run, at which rate and priority.

mod aborted;
mod adaptive;
mod ages;
mod auto_tuned;
mod change_level;
mod compaction_filter;
mod deletion_collector;
mod ends;
mod fifo;
mod fifo_age;
mod fifo_drawn;
mod file_api;
mod filter_bits;
mod filtered_snapshots;
mod lanes;
mod managers;
mod moved;
mod moved_drawn;
mod partitions;
mod rate_limit;
mod read_triggered;
mod reclaim;
mod service;
mod universal;
mod universal_age;
mod young_apart;
