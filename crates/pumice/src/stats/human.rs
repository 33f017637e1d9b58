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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
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
}
