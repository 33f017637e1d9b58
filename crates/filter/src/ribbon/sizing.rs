//! How many slots and words a Ribbon filter gets, as RocksDB computes it.
//!
//! Persisted in effect: the words and blocks of a filter follow from these numbers, in this order
//! of floating-point operations. Any other choice would be readable too.
//!
//! Pure functions. Like `rates`, the last digits of logarithms are the platform's.

use super::{MAX_COLUMNS, ROWS, WORD};

/// More entries than this get a Bloom filter.
pub(super) const MAX_ENTRIES: usize = 950_000_000;

/// Log2 of the slots of the first and the last element of [`FITTING`].
const FIRST_POWER: u32 = 8;
const LAST_POWER: u32 = 17;
/// How many keys fit into 2^8 to 2^17 slots such that one attempt in 20 fails: published
/// measurements.
const FITTING: [f64; 10] =
    [248.851, 499.532, 1001.26, 2003.97, 4005.59, 8000.39, 15966.6, 31828.1, 63447.3, 126_506.0];
/// The growth of the ratio of slots to keys with each doubling of the slots beyond that.
const GROWTH: f64 = 0.0038;
/// The logarithm as RocksDB takes it, with this many digits.
#[expect(clippy::approx_constant, reason = "the digits are part of the format in effect")]
const LOG2_E: f64 = 1.442_695_040_9;

/// Slots per key for a large number of slots.
fn overhead(log2_slots: f64) -> f64 {
    let at_last = f64::from(1u32 << LAST_POWER) / FITTING[FITTING.len() - 1];
    (at_last - f64::from(LAST_POWER) * GROWTH) + log2_slots * GROWTH
}

/// Keys that fit into `1 << power` slots; 0 if that is too few for a filter.
fn keys_of_power(power: u32) -> f64 {
    match power.checked_sub(FIRST_POWER) {
        None => 0.0,
        Some(at) => FITTING
            .get(at as usize)
            .copied()
            .unwrap_or_else(|| (1u64 << power) as f64 / overhead(f64::from(power))),
    }
}

/// Slots in which `keys` keys fit.
fn slots_unrounded(keys: usize) -> u64 {
    let keys = keys as f64;
    let mut power = (keys.ln() * LOG2_E + 0.5) as u32;
    let mut lower = keys_of_power(power);
    if lower == 0.0 {
        return 2 * ROWS as u64;
    }
    let upper = if keys < lower {
        let upper = std::mem::replace(&mut lower, keys_of_power(power - 1));
        power -= 1;
        upper
    } else {
        keys_of_power(power + 1)
    };
    let base = (1u64 << power) as f64;
    ((keys - lower) / (upper - lower) * base + base + 0.999_999_999) as u64
}

/// Slots of a filter of `keys` keys: whole blocks, two of them at least. `keys` is not 0.
pub(super) fn slots_for(keys: usize) -> usize {
    (slots_unrounded(keys) as usize).next_multiple_of(ROWS).max(2 * ROWS)
}

/// Keys that fit into `slots` slots.
fn keys_for(slots: usize) -> usize {
    if slots == 0 {
        return 0;
    }
    let log2 = (slots as f64).ln() * LOG2_E;
    let power = log2 as u32;
    if power >= LAST_POWER {
        return (slots as f64 / overhead(log2)) as usize;
    }
    let portion = slots as f64 / f64::from(1u32 << power) - 1.0;
    (portion * keys_of_power(power + 1) + (1.0 - portion) * keys_of_power(power)) as usize
}

/// Data bytes of a filter that lets one in `one_in` absent keys pass. The precision can be met
/// only by blocks; `bias` of 2^32 rounds: 0 always up, to more bytes.
pub(super) fn data_len(slots: usize, one_in: f64, bias: u32) -> usize {
    let rate = 1.0 / one_in;
    if !(one_in > 1.0 && rate < 1.0) {
        return WORD;
    }
    if one_in > f64::from(u32::MAX) {
        return slots / ROWS * MAX_COLUMNS * WORD;
    }
    let lower_columns = (one_in as u32).ilog2();
    let lower_rate = 0.5f64.powi(lower_columns as i32);
    let upper_rate = lower_rate / 2.0;
    let portion = (rate - upper_rate) / (lower_rate - upper_rate);
    let bias = (f64::from(bias) + 0.5) / 4_294_967_296.0;
    let starts = (slots - ROWS + 1) as f64;
    let short_blocks = ((portion * starts + bias) / ROWS as f64) as usize;
    let blocks = slots / ROWS;
    (blocks * lower_columns as usize + (blocks - short_blocks)) * WORD
}

/// Slots of a filter of at most `data` bytes at that precision, and how many keys they serve.
pub(super) fn approximate_entries(data: usize, one_in: f64) -> (usize, usize) {
    const UNLIMITED: (usize, usize) = (usize::MAX, MAX_ENTRIES);
    let data = data / WORD * WORD;
    if one_in.is_nan() || one_in <= 1.0 {
        return UNLIMITED;
    }
    let least_bits_per_slot = if one_in >= f64::from(u32::MAX) + 1.0 {
        MAX_COLUMNS as f64
    } else {
        let upper_columns = (one_in as u32).ilog2() + 1;
        let upper_rate = 0.5f64.powi(upper_columns as i32);
        f64::from(upper_columns) - (1.0 / one_in - upper_rate) / upper_rate
    };
    let most_slots = data as f64 * 8.0 / least_bits_per_slot;
    if most_slots >= slots_unrounded(MAX_ENTRIES) as f64 {
        return UNLIMITED;
    }
    // Whole blocks, and never a single one.
    let mut slots = match (most_slots as usize).next_multiple_of(ROWS) {
        ROWS => 2 * ROWS,
        slots => slots,
    };
    // The estimate is at most two blocks too high.
    for _ in 0..2 {
        if slots == 0 || data_len(slots, one_in, 0) <= data {
            break;
        }
        slots = if slots == 2 * ROWS { 0 } else { slots - ROWS };
    }
    (slots, keys_for(slots).min(MAX_ENTRIES))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values computed by hand from the format specification's table.
    #[test]
    fn slots_of_keys() {
        for (keys, slots) in [(1, 256), (248, 256), (249, 384), (499, 512), (500, 640)] {
            assert_eq!(slots_for(keys), slots, "{keys}");
        }
        assert_eq!([keys_for(0), keys_for(256), keys_for(512)], [0, 248, 499]);
        assert_eq!((keys_for(1 << 17), slots_for(126_506)), (126_505, 1 << 17));
    }

    #[test]
    fn entries_are_the_inverse_of_sizes() {
        for one_in in [1.58, 2.1, 3.0, 105.0, 2000.0, 5e9] {
            for data in (0..200_000).step_by(997) {
                let (slots, keys) = approximate_entries(data, one_in);
                if slots > 0 {
                    assert!(data_len(slots, one_in, 0) <= data, "{data} {one_in}");
                    // Above 2^17 slots one direction interpolates and the other does not, which
                    // makes less than 0.1 %.
                    let slack = if slots > 1 << LAST_POWER { ROWS + slots / 1000 } else { 0 };
                    assert!(slots_for(keys) <= slots + slack, "{data} {one_in}");
                }
                let one_more = data_len((slots + ROWS).max(2 * ROWS), one_in, 0);
                // Columns are dropped by whole blocks, which may save a word.
                assert!(one_more + WORD > data / WORD * WORD, "{data} {one_in}: {slots}");
            }
        }
        assert_eq!(approximate_entries(1000, 1.0).1, MAX_ENTRIES);
        assert_eq!(approximate_entries(1 << 40, 100.0).1, MAX_ENTRIES);
    }
}
