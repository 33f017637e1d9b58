//! Which filter to write, as configured: `bloomfilter:10:false`, `ribbonfilter:9.5:-1`.
//!
//! Thread safety: values. The bits are rounded to thousandths when they are read; RocksDB rounds
//! them too, but takes the precision of a Ribbon filter from the unrounded number.

use std::fmt;
use std::str::FromStr;

use pumice_base::{Error, Result};

use crate::bloom::BloomBuilder;
use crate::builder::FilterBuilder;
use crate::legacy::LegacyBloomBuilder;
use crate::ribbon::RibbonBuilder;
use crate::settings::FilterBuildSettings;

/// The algorithm of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind {
    /// Bloom filters on every level.
    Bloom,
    /// Ribbon filters from level `bloom_before_level` on; a flush counts as level -1.
    Ribbon {
        /// Levels below this one get Bloom filters; with `i32::MAX` every table does.
        bloom_before_level: i32,
    },
}

/// A filter policy.
///
/// ```
/// # fn main() -> Result<(), pumice_base::Error> {
/// # use pumice_filter::FilterPolicy;
/// let bloom = FilterPolicy::bloom(10.0);
/// assert_eq!(bloom.millibits_per_key(), 10_000);
/// // As options have it.
/// assert_eq!(FilterPolicy::parse("bloomfilter:10:false")?, Some(bloom));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterPolicy {
    millibits_per_key: u32,
    kind: FilterKind,
}

impl FilterPolicy {
    /// Bloom filters of `bits` bits a key; below 0.5 none, and never under 1 or over 100.
    pub fn bloom(bits: f64) -> Self {
        FilterPolicy { millibits_per_key: millibits(bits), kind: FilterKind::Bloom }
    }

    /// Ribbon filters as precise as Bloom filters of `bits` bits a key.
    pub fn ribbon(bits: f64, bloom_before_level: i32) -> Self {
        let kind = FilterKind::Ribbon { bloom_before_level };
        FilterPolicy { millibits_per_key: millibits(bits), kind }
    }

    /// The policy of a configured text, `None` for `nullptr` and the empty text. Numbers are
    /// written as RocksDB takes them: digits, a point, a minus sign in front.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown policy or malformed numbers.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let bad = || Error::invalid_argument(format!("filter policy {text:?}"));
        if matches!(text, "" | "nullptr") {
            return Ok(None);
        }
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let bits: f64 = number(parts.next()).ok_or_else(bad)?;
        let extra = parts.next();
        let policy = match name {
            // The flag once chose the block-based filter, which no longer exists.
            "bloomfilter" | "rocksdb.BloomFilter"
                if matches!(extra, None | Some("true" | "false")) =>
            {
                Self::bloom(bits)
            }
            "ribbonfilter" | "rocksdb.RibbonFilter" => {
                let level = if extra.is_some() { number(extra) } else { Some(0) };
                Self::ribbon(bits, level.ok_or_else(bad)?)
            }
            _ => return Err(bad()),
        };
        if parts.next().is_some() { Err(bad()) } else { Ok(Some(policy)) }
    }

    /// The same policy with Ribbon filters from level `bloom_before_level` on; `None` if it has no
    /// Ribbon filters.
    pub fn with_bloom_before_level(self, bloom_before_level: i32) -> Option<Self> {
        match self.kind {
            FilterKind::Bloom => None,
            FilterKind::Ribbon { .. } => {
                Some(FilterPolicy { kind: FilterKind::Ribbon { bloom_before_level }, ..self })
            }
        }
    }

    /// The same policy with `bits` bits a key, within the limits of [`Self::bloom`].
    pub fn with_bits(self, bits: f64) -> Self {
        FilterPolicy { millibits_per_key: millibits(bits), ..self }
    }

    /// The text in the `rocksdb.filter.policy` property of a table.
    pub fn name(&self) -> &'static str {
        match self.kind {
            FilterKind::Bloom => "bloomfilter",
            FilterKind::Ribbon { .. } => "ribbonfilter",
        }
    }
    /// The algorithm.
    pub fn kind(&self) -> FilterKind {
        self.kind
    }
    /// Thousandths of bits a key; 0 for no filters.
    pub fn millibits_per_key(&self) -> u32 {
        self.millibits_per_key
    }

    /// A builder for such tables; `None` if the policy writes no filters.
    pub fn builder(&self, settings: &FilterBuildSettings) -> Option<FilterBuilder> {
        if self.millibits_per_key == 0 {
            return None;
        }
        let bloom = || FilterBuilder::Bloom(BloomBuilder::new(self.millibits_per_key, settings));
        Some(match self.kind {
            FilterKind::Bloom if settings.format_version < 5 => {
                let whole = (self.millibits_per_key + 500) / 1000;
                FilterBuilder::Legacy(LegacyBloomBuilder::new(whole, settings))
            }
            FilterKind::Bloom => bloom(),
            // Even a table of unknown level, which otherwise counts as the last.
            FilterKind::Ribbon { bloom_before_level: i32::MAX } => bloom(),
            FilterKind::Ribbon { bloom_before_level } if settings.level < bloom_before_level => {
                bloom()
            }
            FilterKind::Ribbon { .. } => {
                FilterBuilder::Ribbon(RibbonBuilder::new(self.millibits_per_key, settings))
            }
        })
    }
}

/// RocksDB's limits and rounding. Not a number counts as too many bits.
fn millibits(bits: f64) -> u32 {
    let bits = match bits {
        b if b < 0.5 => return 0,
        b if b < 1.0 => 1.0,
        b if b < 100.0 => b,
        _ => 100.0,
    };
    (bits * 1000.0 + 0.500_001) as u32
}

fn number<T: FromStr>(text: Option<&str>) -> Option<T> {
    let text = text?;
    // Rust reads more than that: exponents, infinity, plus signs.
    let plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-'));
    text.parse().ok().filter(|_| plain)
}

/// The text in OPTIONS files.
impl fmt::Display for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), f64::from(self.millibits_per_key) / 1000.0)?;
        match self.kind {
            FilterKind::Bloom => f.write_str(":false"),
            FilterKind::Ribbon { bloom_before_level } => write!(f, ":{bloom_before_level}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> FilterPolicy {
        FilterPolicy::parse(text).unwrap().unwrap()
    }

    #[test]
    fn texts() {
        for text in [
            "bloomfilter:10:false",
            "bloomfilter:9.9:false",
            "ribbonfilter:10:0",
            "ribbonfilter:9.875:-1",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
        assert_eq!(parse("bloomfilter:10"), FilterPolicy::bloom(10.0));
        assert_eq!(parse("bloomfilter:10:true"), FilterPolicy::bloom(10.0));
        assert_eq!(parse("ribbonfilter:12"), FilterPolicy::ribbon(12.0, 0));
        assert_eq!(parse("rocksdb.BloomFilter:10:false"), FilterPolicy::bloom(10.0));
        assert_eq!(parse("rocksdb.RibbonFilter:12:3"), FilterPolicy::ribbon(12.0, 3));
        assert_eq!(parse("bloomfilter:.5"), FilterPolicy::bloom(0.5));
        assert_eq!(parse("bloomfilter:10."), FilterPolicy::bloom(10.0));
        assert_eq!(parse("bloomfilter:-1").millibits_per_key(), 0);
        assert_eq!(parse("ribbonfilter:12:3").kind(), FilterKind::Ribbon { bloom_before_level: 3 });
        assert_eq!(parse("ribbonfilter:12:3").name(), "ribbonfilter");
        for none in ["", "nullptr"] {
            assert_eq!(FilterPolicy::parse(none).unwrap(), None);
        }
        for bad in [
            "bloomfilter",
            "bloomfilter:x",
            "bloomfilter:10:maybe",
            "cuckoo:10",
            "ribbonfilter:10:x",
            "bloomfilter:10:false:1",
            "bloomfilter:1e1",
            "bloomfilter:+10",
            "bloomfilter: 10",
            "bloomfilter:nan",
            "bloomfilter:inf",
            "bloomfilter:1.2.3",
            "ribbonfilter:10:2.5",
        ] {
            assert!(FilterPolicy::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bits_are_clamped_and_rounded() {
        let cases = [
            (-1.0, 0),
            (0.49, 0),
            (0.5, 1000),
            (0.999, 1000),
            (9.9, 9900),
            (9.8764, 9876),
            (9.8765, 9877),
            (99.9999, 100_000),
            (100.0, 100_000),
            (1e9, 100_000),
            (f64::NAN, 100_000),
        ];
        for (bits, expected) in cases {
            assert_eq!(FilterPolicy::bloom(bits).millibits_per_key(), expected, "{bits}");
        }
    }

    /// Which filter a table gets, by policy, format and level.
    #[test]
    fn kinds_of_builders() {
        let kind = |policy: FilterPolicy, format_version, level| {
            let settings =
                FilterBuildSettings { level, ..FilterBuildSettings::new(format_version) };
            policy.builder(&settings).map(|builder| match builder {
                FilterBuilder::Bloom(_) => "bloom",
                FilterBuilder::Legacy(_) => "legacy",
                FilterBuilder::Ribbon(_) => "ribbon",
            })
        };
        let (flush, unknown) = (FilterBuildSettings::FLUSH, FilterBuildSettings::UNKNOWN_LEVEL);
        assert_eq!(kind(FilterPolicy::bloom(0.0), 5, 0), None);
        assert_eq!(kind(FilterPolicy::ribbon(0.0, 0), 5, 0), None);
        assert_eq!(kind(FilterPolicy::bloom(10.0), 5, 0), Some("bloom"));
        assert_eq!(kind(FilterPolicy::bloom(10.0), 4, 6), Some("legacy"));
        let cases = [
            (0, flush, "bloom"),
            (0, 0, "ribbon"),
            (-1, flush, "ribbon"),
            (3, 2, "bloom"),
            (3, 3, "ribbon"),
            (3, unknown, "ribbon"),
            (i32::MAX, 6, "bloom"),
            (i32::MAX, unknown, "bloom"),
            (i32::MAX - 1, unknown, "ribbon"),
        ];
        for (before, level, expected) in cases {
            // The Ribbon policy has no legacy filters, whatever the format.
            for format in [2, 5] {
                let policy = FilterPolicy::ribbon(10.0, before);
                assert_eq!(kind(policy, format, level), Some(expected), "{before} {level}");
            }
        }
    }
}
