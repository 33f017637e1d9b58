//! `cache_report_problems`: the block cache's report on problems, as lines of an info log.
//!
//! RocksDB's HyperClockCache reports how full its parts are and how often it gave up an eviction;
//! ours has one table, and stays within its capacity but for what is pinned.
//!
//! Thread safety: a pure function of figures that other threads may change.

use pumice::BlockCache;
use pumice::stats::InfoLogLevel;
use pumice::stats::info_log_line as line;

/// The lines.
pub fn text(cache: &BlockCache) -> String {
    lines(
        (cache.occupancy(), cache.table_len()),
        (cache.usage(), cache.pinned_usage(), cache.capacity()),
    )
}

fn lines(
    (entries, slots): (usize, usize),
    (usage, pinned, capacity): (usize, usize, usize),
) -> String {
    let debug = InfoLogLevel::Debug;
    let mut text =
        line(debug, format_args!("Slot occupancy stats: {entries} entries for {slots} slots"));
    text += &line(
        debug,
        format_args!("Usage: {usage} of {capacity} bytes, {pinned} of them pinned by readers"),
    );
    if pinned > capacity {
        let what = "pinned blocks exceed the capacity, so nothing else is cached";
        text += &line(InfoLogLevel::Warn, format_args!("Block cache too small: {what}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn only_what_exceeds_the_capacity_is_a_problem() {
        let text = lines((3, 64), (100, 50, 100));
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("Slot occupancy stats: 3 entries for 64 slots\n"), "{text}");
        assert!(text.contains("Usage: 100 of 100 bytes, 50 of them pinned"), "{text}");
        let text = lines((3, 64), (101, 101, 100));
        assert!(text.lines().count() == 3 && text.contains("Block cache too small"), "{text}");
    }
}
