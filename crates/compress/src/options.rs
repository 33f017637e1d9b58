//! Names and parameters of the codecs. The numbers are persisted: never renumber.

use pumice_base::{Error, Result};

/// "Use the codec's own default level."
pub const DEFAULT_LEVEL: i32 = 32767;

/// The most threads that compress one table's blocks.
pub const MAX_PARALLEL_THREADS: u32 = 31;

/// RocksDB's default of `auto_skip_min_sample_every`.
pub const AUTO_SKIP_SAMPLE_EVERY: u32 = 64;

/// A codec; the number is the type byte of a block trailer.
///
/// Example: that of [`CompressionOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[allow(missing_docs)] // The codecs' own names.
pub enum CompressionType {
    #[default]
    None = 0,
    Snappy = 1,
    Zlib = 2,
    Bzip2 = 3,
    Lz4 = 4,
    Lz4hc = 5,
    /// Windows only; neither written nor read here.
    Xpress = 6,
    Zstd = 7,
    /// "Not set" in options; never stored.
    Disable = 0xff,
}

/// Type, OPTIONS name, property name, command-line name.
type Row = (CompressionType, &'static str, &'static str, &'static str);

const NAMES: [Row; 9] = [
    (CompressionType::None, "kNoCompression", "NoCompression", "none"),
    (CompressionType::Snappy, "kSnappyCompression", "Snappy", "snappy"),
    (CompressionType::Zlib, "kZlibCompression", "Zlib", "zlib"),
    (CompressionType::Bzip2, "kBZip2Compression", "BZip2", "bzip2"),
    (CompressionType::Lz4, "kLZ4Compression", "LZ4", "lz4"),
    (CompressionType::Lz4hc, "kLZ4HCCompression", "LZ4HC", "lz4hc"),
    (CompressionType::Xpress, "kXpressCompression", "Xpress", "xpress"),
    (CompressionType::Zstd, "kZSTD", "ZSTD", "zstd"),
    (CompressionType::Disable, "kDisableCompressionOption", "DisableOption", "disable"),
];

impl CompressionType {
    fn row(self) -> &'static Row {
        // The table is in the order of the numbers, and `Disable` comes last.
        &NAMES[usize::from(self as u8).min(NAMES.len() - 1)]
    }

    /// The type with that stored number.
    pub fn from_u8(number: u8) -> Option<Self> {
        NAMES.iter().map(|row| row.0).find(|t| *t as u8 == number)
    }
    /// The name in OPTIONS files, `kSnappyCompression`.
    pub fn option_name(self) -> &'static str {
        self.row().1
    }
    /// The name in the `rocksdb.compression` property of a table, `Snappy`.
    pub fn property_name(self) -> &'static str {
        self.row().2
    }
    /// The name in command-line flags, `snappy`.
    pub fn flag_name(self) -> &'static str {
        self.row().3
    }
    /// Whether it is the type of compressed blocks.
    pub fn is_codec(self) -> bool {
        !matches!(self, CompressionType::None | CompressionType::Disable)
    }
    /// Whether this build has the codec: the features `lz4` and `zstd`, which are on by default,
    /// need a C compiler.
    pub fn is_built(self) -> bool {
        match self {
            CompressionType::Lz4 | CompressionType::Lz4hc => cfg!(feature = "lz4"),
            CompressionType::Zstd => cfg!(feature = "zstd"),
            _ => true,
        }
    }
    /// Rejects a codec that this build lacks.
    ///
    /// # Errors
    /// `NotSupported`, with the codec and the feature that is off.
    pub fn check_built(self) -> Result<()> {
        if self.is_built() { Ok(()) } else { Err(self.not_built()) }
    }
    #[cold]
    pub(crate) fn not_built(self) -> Error {
        let feature = if self == CompressionType::Zstd { "zstd" } else { "lz4" };
        Error::not_supported(format!(
            "{} is not in this build: the feature {feature} is off",
            self.option_name()
        ))
    }
    /// The type with that OPTIONS name.
    pub fn from_option_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|row| row.1 == name).map(|row| row.0)
    }
    /// The type with that property name.
    pub fn from_property_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|row| row.2 == name).map(|row| row.0)
    }
    /// The type with that command-line name, in any case.
    pub fn from_flag(name: &str) -> Option<Self> {
        NAMES.iter().find(|row| row.3.eq_ignore_ascii_case(name)).map(|row| row.0)
    }
}

/// Parameters of a codec, named as RocksDB's `CompressionOptions`.
///
/// ```
/// # use pumice_compress::{CompressionOptions, CompressionType};
/// // Dictionaries of 16 KiB, trained on a hundred times as much.
/// let options = CompressionOptions {
///     max_dict_bytes: 16 << 10,
///     zstd_max_train_bytes: 1600 << 10,
///     ..CompressionOptions::default()
/// };
/// # let _ = options;
/// assert_eq!(CompressionType::default(), CompressionType::None);
/// assert_eq!(CompressionType::Zstd as u8, 7); // As it is in files.
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionOptions {
    /// Level of the codec; [`DEFAULT_LEVEL`] for its default. LZ4: below 0 is the acceleration.
    pub level: i32,
    /// Zlib: minus the logarithm of the window of a raw deflate stream, 9 to 15.
    pub window_bits: i32,
    /// Zlib: the deflate strategy, 0 to 4, a hint that is not used.
    pub strategy: i32,
    /// Size of a table's dictionary; 0 for none.
    pub max_dict_bytes: u32,
    /// Zstd: bytes to train a dictionary on; 0 uses raw samples.
    pub zstd_max_train_bytes: u32,
    /// Threads that compress one table's blocks; see
    /// [`effective_parallel_threads`](Self::effective_parallel_threads).
    pub parallel_threads: u32,
    /// Let fast codecs use `parallel_threads` too, where handing a block to another thread costs
    /// about as much as compressing it. Not an option of RocksDB.
    pub parallel_fast_codecs: bool,
    /// These options were set for the bottommost level.
    pub enabled: bool,
    /// Data to buffer for a dictionary; 0 for the target file size.
    pub max_dict_buffer_bytes: u64,
    /// Zstd: train rather than finalize a dictionary.
    pub use_zstd_dict_trainer: bool,
    /// A compressed block larger than this share of its input, in 1/1024, is stored raw.
    pub max_compressed_bytes_per_kb: i32,
    /// Store data blocks as they are while compressing them does not reach that share, on average.
    /// An option of RocksDB since 11.12; not in texts of options, which older versions read.
    pub auto_skip: bool,
    /// With `auto_skip` one data block is tried after so many that were not; 0 for
    /// [`AUTO_SKIP_SAMPLE_EVERY`].
    pub auto_skip_min_sample_every: u32,
    /// Zstd: put a checksum into every frame.
    pub checksum: bool,
}

impl Default for CompressionOptions {
    fn default() -> Self {
        CompressionOptions {
            level: DEFAULT_LEVEL,
            window_bits: -14,
            strategy: 0,
            max_dict_bytes: 0,
            zstd_max_train_bytes: 0,
            parallel_threads: 1,
            parallel_fast_codecs: false,
            enabled: false,
            max_dict_buffer_bytes: 0,
            use_zstd_dict_trainer: true,
            max_compressed_bytes_per_kb: 896,
            auto_skip: false,
            auto_skip_min_sample_every: 0,
            checksum: false,
        }
    }
}

impl CompressionOptions {
    /// The text of the `rocksdb.compression_options` property of a table.
    pub fn property_text(&self) -> String {
        format!(
            "window_bits={}; level={}; strategy={}; max_dict_bytes={}; zstd_max_train_bytes={}; \
             enabled={}; max_dict_buffer_bytes={}; use_zstd_dict_trainer={}; \
             max_compressed_bytes_per_kb={}; checksum={}; ",
            self.window_bits,
            self.level,
            self.strategy,
            self.max_dict_bytes,
            self.zstd_max_train_bytes,
            u8::from(self.enabled),
            self.max_dict_buffer_bytes,
            u8::from(self.use_zstd_dict_trainer),
            self.max_compressed_bytes_per_kb,
            u8::from(self.checksum),
        )
    }

    /// How many threads may compress one table's blocks of type `kind`: 1 to
    /// [`MAX_PARALLEL_THREADS`]. As in RocksDB 11.5 the codecs that are faster than a hand-off
    /// stay on one thread: Snappy, LZ4, LZ4HC and zstd at their fast levels.
    pub fn effective_parallel_threads(&self, kind: CompressionType) -> u32 {
        let fast = match kind {
            CompressionType::None | CompressionType::Xpress | CompressionType::Disable => {
                return 1;
            }
            CompressionType::Snappy | CompressionType::Lz4 => true,
            CompressionType::Lz4hc => self.level <= 0,
            CompressionType::Zstd => self.level < 0,
            CompressionType::Zlib | CompressionType::Bzip2 => false,
        };
        if fast && !self.parallel_fast_codecs {
            return 1;
        }
        self.parallel_threads.clamp(1, MAX_PARALLEL_THREADS)
    }

    /// Whether readers understand what codec `kind` writes with these parameters. Positive
    /// `window_bits` put a header before each stream, which RocksDB writes and cannot read.
    ///
    /// # Errors
    /// `NotSupported`.
    pub fn check(&self, kind: CompressionType) -> Result<()> {
        if kind == CompressionType::Zlib && self.window_bits > 0 {
            let why = format!("zlib window_bits {}, only negative ones", self.window_bits);
            return Err(Error::not_supported(why));
        }
        Ok(())
    }

    /// Whether zlib refuses these parameters, so that its blocks stay uncompressed, as in RocksDB.
    pub(crate) fn zlib_refuses(&self) -> bool {
        let levels = -1..=9;
        !(levels.contains(&self.level) || self.level == DEFAULT_LEVEL)
            || !(-15..=-9).contains(&self.window_bits)
            || !(0..=4).contains(&self.strategy)
    }

    /// The largest stored size at which a block of `raw` bytes is worth compressing.
    pub fn size_limit(&self, raw: usize) -> usize {
        let per_kb = self.max_compressed_bytes_per_kb.clamp(0, 1024) as u64;
        ((raw as u64 * per_kb) >> 10) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let mut known = 0;
        for number in 0..=255u8 {
            let Some(t) = CompressionType::from_u8(number) else { continue };
            known += 1;
            assert_eq!(t as u8, number);
            assert_eq!(CompressionType::from_option_name(t.option_name()), Some(t));
            assert_eq!(CompressionType::from_property_name(t.property_name()), Some(t));
            assert_eq!(CompressionType::from_flag(&t.flag_name().to_uppercase()), Some(t));
        }
        assert_eq!(known, NAMES.len());
        assert_eq!(CompressionType::Zstd.option_name(), "kZSTD");
        assert_eq!(CompressionType::Lz4hc.property_name(), "LZ4HC");
        assert_eq!(CompressionType::Disable.flag_name(), "disable");
        assert_eq!(CompressionType::from_flag("gzip"), None);
    }

    /// As found in tables written by RocksDB 10.10.1.
    #[test]
    fn property_text_of_the_defaults() {
        assert_eq!(
            CompressionOptions::default().property_text(),
            "window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; \
             enabled=0; max_dict_buffer_bytes=0; use_zstd_dict_trainer=1; \
             max_compressed_bytes_per_kb=896; checksum=0; "
        );
    }

    #[test]
    fn fast_codecs_stay_on_one_thread() {
        use CompressionType::{
            Bzip2, Disable, Lz4, Lz4hc, None as Raw, Snappy, Xpress, Zlib, Zstd,
        };
        let mut options = CompressionOptions { parallel_threads: 4, ..Default::default() };
        let threads = |options: &CompressionOptions, kinds: &[CompressionType]| -> Vec<u32> {
            kinds.iter().map(|kind| options.effective_parallel_threads(*kind)).collect()
        };
        assert_eq!(threads(&options, &[Raw, Snappy, Lz4, Xpress, Disable]), [1; 5]);
        assert_eq!(threads(&options, &[Zlib, Bzip2, Lz4hc, Zstd]), [4; 4]);
        for (level, expected) in [(-1, [1, 1, 1]), (0, [1, 1, 4]), (1, [1, 4, 4])] {
            options.level = level;
            assert_eq!(threads(&options, &[Lz4, Lz4hc, Zstd]), expected, "level {level}");
        }
        options.level = -5;
        options.parallel_fast_codecs = true;
        assert_eq!(threads(&options, &[Snappy, Lz4, Lz4hc, Zstd]), [4; 4]);
        assert_eq!(threads(&options, &[Raw]), [1]);
        for (asked, given) in [(0, 1), (1, 1), (31, 31), (32, 31), (u32::MAX, 31)] {
            options.parallel_threads = asked;
            assert_eq!(options.effective_parallel_threads(Zstd), given);
        }
    }

    #[test]
    fn size_limit_is_seven_eighths() {
        let mut options = CompressionOptions::default();
        assert_eq!([0, 8, 4096, 1 << 40].map(|n| options.size_limit(n)), [0, 7, 3584, 7 << 37]);
        options.max_compressed_bytes_per_kb = 5000;
        assert_eq!(options.size_limit(4096), 4096);
        options.max_compressed_bytes_per_kb = -1;
        assert_eq!(options.size_limit(4096), 0);
    }
}
