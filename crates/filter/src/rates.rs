//! Expected false-positive rates of Bloom filters, as RocksDB estimates them: they decide how many
//! bits a Ribbon filter of "the same precision" gets, so they are part of the format in effect.
//!
//! Pure functions. The last digits are those of the platform's mathematical functions; another
//! platform's may make a filter longer or shorter by one word, which every reader accepts.

const LINE_BITS: f64 = 512.0;

/// Rate of a filter without locality.
fn standard(bits_per_key: f64, probes: u8) -> f64 {
    let probes = f64::from(probes);
    (1.0 - (-probes / bits_per_key).exp()).powf(probes)
}

/// Rate of a filter that keeps all bits of a key in one line: the mean of the rates of lines that
/// hold one standard deviation of keys more and less than the average.
pub(crate) fn cache_local(bits_per_key: f64, probes: u8) -> f64 {
    if bits_per_key <= 0.0 {
        return 1.0;
    }
    let keys = LINE_BITS / bits_per_key;
    let deviation = keys.sqrt();
    let crowded = standard(LINE_BITS / (keys + deviation), probes);
    let uncrowded = standard(LINE_BITS / (keys - deviation), probes);
    (crowded + uncrowded) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published: 10 bits a key with 6 probes give 0.9535 % at best.
    #[test]
    fn published_rate() {
        assert!((cache_local(10.0, 6) - 0.009_535).abs() < 0.000_05);
        assert!((standard(10.0, 7) - 0.00819).abs() < 0.000_05);
    }
}
