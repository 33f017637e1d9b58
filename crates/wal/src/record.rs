//! Record types, header sizes and recovery modes. Persisted: never renumber.

/// Size of a block. A record never crosses a block's end.
pub const BLOCK_BYTES: usize = 32 << 10;
/// crc, length, type.
pub(crate) const HEADER_BYTES: usize = 7;
/// crc, length, type, log number.
pub(crate) const RECYCLABLE_HEADER_BYTES: usize = 11;

pub(crate) const ZERO: u8 = 0;
pub(crate) const FULL: u8 = 1;
pub(crate) const FIRST: u8 = 2;
pub(crate) const MIDDLE: u8 = 3;
pub(crate) const LAST: u8 = 4;
/// Added to a data record's type in a recyclable file.
pub(crate) const RECYCLABLE_OFFSET: u8 = 4;
pub(crate) const SET_COMPRESSION: u8 = 9;
pub(crate) const TIMESTAMP_SIZES: u8 = 10;
pub(crate) const RECYCLABLE_TIMESTAMP_SIZES: u8 = 11;
/// Types with this bit may be skipped by a reader that does not know them.
pub(crate) const IGNORABLE_BIT: u8 = 128;
pub(crate) const PREDECESSOR: u8 = 130;
pub(crate) const RECYCLABLE_PREDECESSOR: u8 = 131;

/// The only compression type of log records.
pub(crate) const COMPRESSION_ZSTD: u32 = 7;

/// Whether records of that type have the longer header.
pub(crate) fn is_recyclable(kind: u8) -> bool {
    let data = FULL + RECYCLABLE_OFFSET..=LAST + RECYCLABLE_OFFSET;
    data.contains(&kind) || kind == RECYCLABLE_TIMESTAMP_SIZES || kind == RECYCLABLE_PREDECESSOR
}

/// How to treat damage found while replaying logs; numbers as in RocksDB's option.
///
/// ```
/// # use pumice_wal::WalRecoveryMode;
/// // `options.db.wal_recovery_mode = WalRecoveryMode::AbsoluteConsistency`, or by its name:
/// let mode = WalRecoveryMode::from_name("kAbsoluteConsistency");
/// assert_eq!(mode, Some(WalRecoveryMode::AbsoluteConsistency));
/// assert_eq!(WalRecoveryMode::default().name(), "kPointInTimeRecovery");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum WalRecoveryMode {
    /// An incomplete record at a log's end is dropped; any other damage is an error.
    TolerateCorruptedTail = 0,
    /// Any damage is an error.
    AbsoluteConsistency = 1,
    /// Replay ends at the first damage.
    #[default]
    PointInTime = 2,
    /// Damaged records are dropped, the rest is used.
    SkipAnyCorrupted = 3,
}

impl WalRecoveryMode {
    const ALL: [(WalRecoveryMode, &str); 4] = [
        (WalRecoveryMode::TolerateCorruptedTail, "kTolerateCorruptedTailRecords"),
        (WalRecoveryMode::AbsoluteConsistency, "kAbsoluteConsistency"),
        (WalRecoveryMode::PointInTime, "kPointInTimeRecovery"),
        (WalRecoveryMode::SkipAnyCorrupted, "kSkipAnyCorruptedRecords"),
    ];

    /// The mode with that number.
    pub fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).map(|(mode, _)| *mode)
    }
    /// The name in OPTIONS files.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
    /// The mode with that OPTIONS name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(mode, _)| *mode)
    }

    /// Whether even a torn tail counts as damage.
    pub(crate) fn reports_torn_tail(self) -> bool {
        matches!(self, WalRecoveryMode::AbsoluteConsistency | WalRecoveryMode::PointInTime)
    }
}
