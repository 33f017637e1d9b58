//! Numbers as RocksDB's reports print them.

/// Bytes of a megabyte.
pub const MB: f64 = 1_048_576.0;
/// Bytes of a gigabyte.
pub const GB: f64 = 1_073_741_824.0;
/// Microseconds of a second.
pub const MICROS_PER_SECOND: f64 = 1e6;

/// `9999`, `20K`, `12M`, `10G`: counts cut to five characters (`NumberToHumanString`).
pub fn count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{}K", number / 1000),
        10_000_000..10_000_000_000 => format!("{}M", number / 1_000_000),
        _ => format!("{}G", number / 1_000_000_000),
    }
}

/// `0.00 KB`, `32.00 MB` (`BytesToHumanString`).
pub fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64 / 1024.0;
    for unit in ["KB", "MB", "GB"] {
        if size < 1024.0 {
            return format!("{size:.2} {unit}");
        }
        size /= 1024.0;
    }
    format!("{size:.2} TB")
}

/// `00:00:1.064`: hours, minutes and seconds.
pub fn duration(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let within_minute = (micros % 60_000_000) as f64 / MICROS_PER_SECOND;
    format!("{:02}:{:02}:{within_minute:.3}", seconds / 3600, seconds / 60 % 60)
}

/// Six significant digits without trailing zeros, as a C++ stream prints a double.
pub fn general(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_string();
    }
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let text = format!("{number:.*}", (5 - exponent) as usize);
        return trim_zeros(&text).to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(digits), exponent.abs())
}

fn trim_zeros(text: &str) -> &str {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn numbers_are_cut_as_in_rocksdb() {
        assert_eq!(count(0), "0");
        assert_eq!(count(9999), "9999");
        assert_eq!(count(10_000), "10K");
        assert_eq!(count(1_341_999), "1341K");
        assert_eq!(count(10_000_000), "10M");
        assert_eq!(count(u64::MAX), "18446744073G");
        assert_eq!(bytes(0), "0.00 KB");
        assert_eq!(bytes(368_497), "359.86 KB");
        assert_eq!(bytes(32 << 20), "32.00 MB");
        assert_eq!(bytes(5 << 40), "5.00 TB");
        assert_eq!(duration(1_064_000), "00:00:1.064");
        assert_eq!(duration(3_723_000_000), "01:02:3.000");
    }

    #[pumice_test_macros::test]
    fn doubles_print_as_from_a_stream() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (12.345_678, "12.3457"),
            (100.0, "100"),
            (0.000_123_456_7, "0.000123457"),
            (2.7e-5, "2.7e-05"),
            (7e-12, "7e-12"),
            (999_999.7, "1e+06"),
            (123_456.4, "123456"),
        ] {
            assert_eq!(general(value), text);
        }
    }
}
