//! Samples of point reads for `read_triggered_compaction_threshold`: in which tables they find no
//! value.
//!
//! One read in [`READS_PER_SAMPLE`] is sampled and counts for all of them, as in RocksDB. Each
//! table that it searches and that gives no value counts: it has nothing of the key (also where its
//! filter says so), a deletion, or only operands. A merge into the next level would spare such
//! reads the table. Steps and seeks of cursors are not sampled.
//!
//! Thread safety: free functions. The counts are in the files' metadata.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::FileNumber;

use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// One read in so many is sampled.
const READS_PER_SAMPLE: u64 = 1024;

/// Where the generator of the next worker begins.
static NEXT_SEED: AtomicU64 = AtomicU64::new(1);

pumice_port::worker_local! {
    /// 0 before its first use.
    static GENERATOR: Cell<u64> = const { Cell::new(0) };
}

/// Which reads are sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sampled {
    #[default]
    Never,
    /// Those that are drawn.
    Drawn,
    /// This one was drawn.
    This,
}

impl Sampled {
    /// Whether the read that begins is sampled.
    pub fn wants(self) -> bool {
        match self {
            Sampled::Never => false,
            Sampled::Drawn => is_drawn(),
            Sampled::This => true,
        }
    }
}

/// One call in `READS_PER_SAMPLE`, by a generator of the worker's.
fn is_drawn() -> bool {
    let next = |cell: &Cell<u64>| {
        let before = match cell.get() {
            0 => mixed(NEXT_SEED.fetch_add(1, Ordering::Relaxed)),
            state => state,
        };
        let state = before.wrapping_add(STEP);
        cell.set(state);
        mixed(state)
    };
    GENERATOR.with(next).is_multiple_of(READS_PER_SAMPLE)
}

/// Odd: the golden ratio in 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection whose every output bit depends on all input bits: that of SplitMix64.
fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The tables that gave a sampled read no value.
pub(super) type Fruitless = RefCell<Vec<FileNumber>>;

/// Counts a sampled read; whether one of the tables is to be compacted from now on.
#[cold]
pub(super) fn count(cf: &CfData, view: &SuperVersion, fruitless: Vec<FileNumber>) -> bool {
    let threshold = cf.options().read_triggered_compaction_threshold;
    let mut is_due = false;
    for number in fruitless {
        let Some((_, file)) = view.version.find_by_number(number) else { continue };
        let before = file.collapsible_reads_per_byte();
        file.collapsible_reads.fetch_add(READS_PER_SAMPLE, Ordering::Relaxed);
        let passed = before <= threshold && file.collapsible_reads_per_byte() > threshold;
        is_due |= threshold > 0.0 && passed;
    }
    is_due
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::is_drawn;

    /// Also where each thread reads once only.
    // Plain #[test]: each thread has numbers of its own.
    #[test]
    fn one_read_in_1024_is_drawn_on_every_thread() {
        let drawn = (0..1 << 20).filter(|_| is_drawn()).count();
        assert!((850..1200).contains(&drawn), "{drawn}");
        let first = || pumice_port::thread::spawn("reader", is_drawn).join().unwrap();
        let drawn = (0..2048).filter(|_| first()).count();
        assert!(drawn < 16, "{drawn}");
    }
}
