//! Who chooses the codec of each block of a table: RocksDB's compression managers.
//!
//! A manager is a rule of writers. Readers need none: the trailer of a block names its codec.
//!
//! Thread safety: plain values. Not here: the rules themselves, which are the table builder's.

use crate::options::{CompressionOptions, CompressionType};

/// A manager of RocksDB 11.8.
///
/// ```
/// # use pumice_compress::CompressionManager;
/// let manager = CompressionManager::from_name("RoundRobinManager");
/// assert_eq!(manager, Some(CompressionManager::RoundRobin));
/// // One name for what is without a manager.
/// assert_eq!(CompressionManager::BuiltinV2.name(), "BuiltinCompressionManagerV2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompressionManager {
    /// The codec of the options, as without a manager.
    BuiltinV2,
    /// All codecs of the build in turn, whatever codec is configured.
    RoundRobin,
    /// Zstd at its highest level, whatever codec is configured. RocksDB also predicts what other
    /// codecs and levels would cost, and does not use the predictions.
    CostAware,
    /// The codec of the options; blocks are stored as they are while most of those that are tried
    /// do not get smaller.
    AutoSkip,
}

use CompressionManager::{AutoSkip, BuiltinV2, CostAware, RoundRobin};

/// Manager, name in options, name in tables, name of its compressor.
type Row = (CompressionManager, &'static str, &'static str, &'static str);

/// The name that tables of RocksDB have for all managers but one.
const BUILTIN: &str = "BuiltinCompressionManagerV2";

const NAMES: [Row; 4] = [
    (BuiltinV2, BUILTIN, BUILTIN, ""),
    (RoundRobin, "RoundRobinManager", "RoundRobinManager", "RoundRobinCompressor"),
    (CostAware, "CostAwareCompressorManager", BUILTIN, "CostAwareCompressor"),
    (AutoSkip, "AutoSkipCompressorManager", BUILTIN, "AutoSkipCompressorWrapper"),
];

/// The highest level of zstd.
const ZSTD_MAX: i32 = 22;

/// The codecs of [`RoundRobin`], in order.
const ALL: [CompressionType; 6] = [
    CompressionType::Snappy,
    CompressionType::Zlib,
    CompressionType::Bzip2,
    CompressionType::Lz4,
    CompressionType::Lz4hc,
    CompressionType::Zstd,
];

impl CompressionManager {
    /// The schema of what all of these write: the name by which RocksDB's readers find a
    /// decompressor.
    pub const COMPATIBILITY_NAME: &'static str = "BuiltinV2";

    fn row(self) -> &'static Row {
        // The table is in the order of the variants.
        &NAMES[self as usize]
    }

    /// The name in options: that of RocksDB's class. RocksDB writes `BuiltinCompressionManagerV2`
    /// for all but `RoundRobinManager`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The name in the properties of a table, RocksDB's.
    pub fn name_in_tables(self) -> &'static str {
        self.row().2
    }

    /// The name of its compressor of data blocks in the properties of a table, RocksDB's. `kind`
    /// is their codec, and `dictionary` says that they have one, and so all the same codec.
    pub fn compressor_name(self, kind: CompressionType, dictionary: bool) -> String {
        match self {
            _ if kind == CompressionType::None => String::new(),
            RoundRobin | CostAware if dictionary => Self::builtin(kind),
            BuiltinV2 => Self::builtin(kind),
            RoundRobin | CostAware | AutoSkip => self.row().3.to_string(),
        }
    }

    fn builtin(kind: CompressionType) -> String {
        format!("Builtin{}CompressorV2", kind.property_name())
    }

    /// The manager with that name in options, or with the name by which RocksDB makes it.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == Self::COMPATIBILITY_NAME {
            return Some(BuiltinV2);
        }
        NAMES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Blocks are compressed even if the configured codec is none.
    pub fn always_compresses(self) -> bool {
        matches!(self, RoundRobin | CostAware)
    }

    /// The codec and parameters of blocks for which no other is chosen, where `kind` and `options`
    /// are configured.
    pub fn base(
        self,
        kind: CompressionType,
        options: &CompressionOptions,
    ) -> (CompressionType, CompressionOptions) {
        let mut options = options.clone();
        if !self.always_compresses() {
            return (kind, options);
        }
        // RocksDB leaves the number of threads to the option here.
        options.parallel_fast_codecs = true;
        if self == CostAware {
            options.level = ZSTD_MAX;
        }
        (CompressionType::Zstd, options)
    }

    /// The codecs that blocks get in turn: those of the build whose blocks readers understand with
    /// these parameters. Empty for managers that do not rotate.
    pub fn rotation(self, options: &CompressionOptions) -> Vec<CompressionType> {
        let usable = |kind: &CompressionType| kind.is_built() && options.check(*kind).is_ok();
        match self {
            RoundRobin => ALL.into_iter().filter(usable).collect(),
            BuiltinV2 | CostAware | AutoSkip => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_are_found_and_in_order() {
        for (at, row) in NAMES.iter().enumerate() {
            assert_eq!(row.0 as usize, at);
            assert_eq!(CompressionManager::from_name(row.0.name()), Some(row.0));
        }
        assert_eq!(CompressionManager::from_name("BuiltinV2"), Some(BuiltinV2));
        assert_eq!(CompressionManager::from_name("mixed"), None);
    }

    #[test]
    fn compressors_have_rocksdbs_names() {
        let lz4 = CompressionType::Lz4;
        assert_eq!(BuiltinV2.compressor_name(lz4, false), "BuiltinLZ4CompressorV2");
        assert_eq!(AutoSkip.compressor_name(lz4, true), "AutoSkipCompressorWrapper");
        assert_eq!(AutoSkip.compressor_name(CompressionType::None, false), "");
        let zstd = CompressionType::Zstd;
        assert_eq!(RoundRobin.compressor_name(zstd, false), "RoundRobinCompressor");
        assert_eq!(CostAware.compressor_name(zstd, true), "BuiltinZSTDCompressorV2");
    }

    #[test]
    fn parameters_that_no_reader_understands_leave_the_rotation() {
        let options = CompressionOptions { window_bits: 14, ..Default::default() };
        assert!(!RoundRobin.rotation(&options).contains(&CompressionType::Zlib));
        let built = ALL.iter().filter(|kind| kind.is_built()).count();
        assert_eq!(RoundRobin.rotation(&CompressionOptions::default()).len(), built);
        assert_eq!(RoundRobin.rotation(&options).len(), built - 1);
        assert!(AutoSkip.rotation(&options).is_empty());
    }

    #[test]
    fn some_managers_ignore_the_configured_codec() {
        let options = CompressionOptions { level: 3, ..Default::default() };
        let (kind, base) = CostAware.base(CompressionType::None, &options);
        assert_eq!((kind, base.level), (CompressionType::Zstd, 22));
        let (kind, base) = RoundRobin.base(CompressionType::Lz4, &options);
        assert_eq!((kind, base.level), (CompressionType::Zstd, 3));
        let same = (CompressionType::Lz4, options.clone());
        assert_eq!(AutoSkip.base(CompressionType::Lz4, &options), same);
    }
}
