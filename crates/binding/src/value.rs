//! Numbers of the C interface that stand for a text in options, and the two ways between a number
//! and the text of an engine's option.
//!
//! Thread safety: pure functions.

use crate::store::Kind;

/// (list, its numbers and texts)
const LISTS: &[(&str, &[(i64, &str)])] = &[
    (
        "compression",
        &[
            (0, "kNoCompression"),
            (1, "kSnappyCompression"),
            (2, "kZlibCompression"),
            (3, "kBZip2Compression"),
            (4, "kLZ4Compression"),
            (5, "kLZ4HCCompression"),
            (6, "kXpressCompression"),
            (7, "kZSTD"),
            (255, "kDisableCompressionOption"),
        ],
    ),
    (
        "compaction_style",
        &[
            (0, "kCompactionStyleLevel"),
            (1, "kCompactionStyleUniversal"),
            (2, "kCompactionStyleFIFO"),
            (3, "kCompactionStyleNone"),
        ],
    ),
    (
        "compaction_pri",
        &[
            (0, "kByCompensatedSize"),
            (1, "kOldestLargestSeqFirst"),
            (2, "kOldestSmallestSeqFirst"),
            (3, "kMinOverlappingRatio"),
            (4, "kRoundRobin"),
        ],
    ),
    (
        "wal_recovery_mode",
        &[
            (0, "kTolerateCorruptedTailRecords"),
            (1, "kAbsoluteConsistency"),
            (2, "kPointInTimeRecovery"),
            (3, "kSkipAnyCorruptedRecords"),
        ],
    ),
    (
        "info_log_level",
        &[
            (0, "DEBUG_LEVEL"),
            (1, "INFO_LEVEL"),
            (2, "WARN_LEVEL"),
            (3, "ERROR_LEVEL"),
            (4, "FATAL_LEVEL"),
            (5, "HEADER_LEVEL"),
        ],
    ),
    (
        "temperature",
        &[(0, "kUnknown"), (4, "kHot"), (8, "kWarm"), (10, "kCool"), (12, "kCold"), (16, "kIce")],
    ),
    (
        "cache_tier",
        &[(0, "kVolatileTier"), (1, "kVolatileCompressedTier"), (2, "kNonVolatileBlockTier")],
    ),
    ("prepopulate_blob_cache", &[(0, "kDisable"), (1, "kFlushOnly")]),
    ("access_hint", &[(0, "NONE"), (1, "NORMAL"), (2, "SEQUENTIAL"), (3, "WILLNEED")]),
    (
        "index_type",
        &[
            (0, "kBinarySearch"),
            (1, "kHashSearch"),
            (2, "kTwoLevelIndexSearch"),
            (3, "kBinarySearchWithFirstKey"),
        ],
    ),
    ("data_block_index_type", &[(0, "kDataBlockBinarySearch"), (1, "kDataBlockBinaryAndHash")]),
    (
        "checksum",
        &[(0, "kNoChecksum"), (1, "kCRC32c"), (2, "kxxHash"), (3, "kxxHash64"), (4, "kXXH3")],
    ),
    (
        "index_shortening",
        &[(0, "kNoShortening"), (1, "kShortenSeparators"), (2, "kShortenSeparatorsAndSuccessor")],
    ),
    ("prepopulate_block_cache", &[(0, "kDisable"), (1, "kFlushOnly"), (2, "kFlushAndCompaction")]),
    ("pinning_tier", &[(0, "kFallback"), (1, "kNone"), (2, "kFlushedAndSimilar"), (3, "kAll")]),
    ("stop_style", &[(0, "kCompactionStopStyleSimilarSize"), (1, "kCompactionStopStyleTotalSize")]),
];

fn list(name: &str) -> &'static [(i64, &'static str)] {
    LISTS.iter().find(|(list, _)| *list == name).map_or(&[], |(_, members)| members)
}

/// The text that `bits` stand for. A number that is in no list stays a number, which the engine's
/// option refuses by its name.
pub fn to_text(kind: Kind, named: Option<&str>, bits: u64) -> String {
    if let Some(named) = named {
        let number = bits.cast_signed();
        let member = list(named).iter().find(|(n, _)| *n == number);
        return member.map_or_else(|| number.to_string(), |(_, text)| (*text).to_string());
    }
    match kind {
        Kind::Bool => (bits != 0).to_string(),
        Kind::Double => f64::from_bits(bits).to_string(),
        Kind::Signed => bits.cast_signed().to_string(),
        Kind::Unsigned | Kind::Text => bits.to_string(),
    }
}

/// The number that a text of an engine's option stands for; None if it is none.
pub fn to_bits(kind: Kind, named: Option<&str>, text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(named) = named {
        let member = list(named).iter().find(|(_, member)| *member == text);
        return member.map(|(number, _)| number.cast_unsigned());
    }
    match kind {
        Kind::Bool => match text {
            "true" | "1" => Some(1),
            "false" | "0" => Some(0),
            _ => None,
        },
        Kind::Double => text.parse::<f64>().ok().map(f64::to_bits),
        Kind::Signed => text.parse::<i64>().ok().map(i64::cast_unsigned),
        Kind::Unsigned => text.parse().ok(),
        Kind::Text => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Class, Target};

    #[test]
    fn numbers_become_texts_and_numbers_again() {
        assert_eq!(to_text(Kind::Signed, Some("compression"), 7), "kZSTD");
        assert_eq!(to_bits(Kind::Signed, Some("compression"), "kZSTD"), Some(7));
        assert_eq!(to_text(Kind::Signed, Some("compression"), 99), "99");
        assert_eq!(to_text(Kind::Double, None, 0.25f64.to_bits()), "0.25");
        assert_eq!(to_bits(Kind::Double, None, "0.250000"), Some(0.25f64.to_bits()));
        assert_eq!(to_text(Kind::Signed, None, (-1i64).cast_unsigned()), "-1");
    }

    #[test]
    fn every_list_of_the_table_exists() {
        for class in Class::all() {
            for property in &class.properties {
                if let Target::Row(row, Some(name)) = property.target {
                    assert!(!list(name).is_empty(), "{row}/{name}");
                }
            }
        }
    }
}
