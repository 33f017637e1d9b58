//! The dimensions of the matrix, the valid variants, and their options.
//!
//! A variant is one value of every dimension. Its options are one text, which both engines parse.

use pumice_base::random::Rng;

use crate::stores::Settings;

/// A dimension and its values. Values are named here and become option text in `settings`.
pub struct Dimension {
    pub name: &'static str,
    pub values: &'static [&'static str],
}

macro_rules! dimensions {
    ($($constant:ident $name:literal $values:expr;)+) => {
        /// Positions in [`DIMENSIONS`].
        #[derive(Clone, Copy)]
        #[allow(clippy::upper_case_acronyms)]
        enum D { $($constant),+ }
        /// Every dimension.
        pub const DIMENSIONS: &[Dimension] =
            &[$(Dimension { name: $name, values: &$values }),+];
    };
}

dimensions! {
    Format "format_version" ["5", "6", "7"];
    Codec "compression" ["kNoCompression", "kSnappyCompression", "kZlibCompression",
        "kBZip2Compression", "kLZ4Compression", "kLZ4HCCompression", "kZSTD"];
    Dictionary "dictionary" ["none", "raw", "trained", "finalized"];
    Filter "filter_policy" ["nullptr", "bloomfilter:10:false", "bloomfilter:9.9:false",
        "ribbonfilter:10:0"];
    Memory "optimize_filters_for_memory" ["false", "true"];
    Index "index_type" ["kBinarySearch", "kHashSearch", "kTwoLevelIndexSearch",
        "kBinarySearchWithFirstKey"];
    Partitions "filter partitions" ["none", "decoupled", "coupled"];
    Prefix "prefix_extractor" ["nullptr", "rocksdb.FixedPrefix.8", "rocksdb.CappedPrefix.8",
        "rocksdb.Noop"];
    WholeKey "whole_key_filtering" ["false", "true"];
    BlockHash "data_block_index_type" ["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"];
    Parallel "parallel_threads" ["1", "2", "4"];
    BlockSize "block_size" ["256", "1024", "4096", "32768"];
    Checksum "checksum" ["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"];
    Cached "cache_index_and_filter_blocks" ["false", "true"];
}

/// The dimensions whose combinations are the kinds of tables.
pub const KINDS: [usize; 7] = [
    D::Format as usize,
    D::Codec as usize,
    D::Dictionary as usize,
    D::Filter as usize,
    D::Index as usize,
    D::Partitions as usize,
    D::Prefix as usize,
];

/// A point of the matrix: for each dimension the number of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant(pub Vec<usize>);

impl Variant {
    /// Any variant, valid or not.
    pub fn random(rng: &mut Rng) -> Self {
        let value = |d: &Dimension| rng.uniform(d.values.len() as u64) as usize;
        Variant(DIMENSIONS.iter().map(value).collect())
    }

    /// The variant whose [`Variant::name`] is `name`.
    pub fn parse(name: &str) -> Option<Self> {
        let digits: Option<Vec<usize>> =
            name.chars().map(|c| c.to_digit(10).map(|n| n as usize)).collect();
        let variant = Variant(digits?);
        let fits = variant.0.len() == DIMENSIONS.len()
            && variant.0.iter().zip(DIMENSIONS).all(|(value, d)| *value < d.values.len());
        fits.then_some(variant)
    }

    /// One digit a dimension: for folders and replays.
    pub fn name(&self) -> String {
        self.0.iter().map(|value| char::from(b'0' + *value as u8)).collect()
    }

    fn value(&self, dimension: D) -> &'static str {
        DIMENSIONS[dimension as usize].values[self.0[dimension as usize]]
    }

    /// Whether the options make sense together, to RocksDB as well: it would turn off or refuse
    /// the rest.
    pub fn is_valid(&self) -> bool {
        let codec = self.value(D::Codec);
        let dictionary = match self.value(D::Dictionary) {
            "none" => true,
            // Codecs without dictionaries must ignore the request.
            "raw" => codec != "kNoCompression",
            _ => codec == "kZSTD",
        };
        let hash = self.value(D::Index) != "kHashSearch" || self.has_prefix();
        let partitions = self.value(D::Partitions) == "none"
            || self.value(D::Index) == "kTwoLevelIndexSearch" && self.has_filter();
        dictionary && hash && partitions
    }

    /// A prefix extractor is configured.
    pub fn has_prefix(&self) -> bool {
        self.value(D::Prefix) != "nullptr"
    }

    /// A filter is configured.
    pub fn has_filter(&self) -> bool {
        self.value(D::Filter) != "nullptr"
    }

    /// The prefix of `key`, `None` outside of the extractor's domain.
    pub fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        match self.value(D::Prefix) {
            "rocksdb.FixedPrefix.8" => key.get(..8),
            "rocksdb.CappedPrefix.8" => Some(&key[..key.len().min(8)]),
            "rocksdb.Noop" => Some(key),
            _ => None,
        }
    }

    /// Keys outside the extractor's domain may be stored: RocksDB's hash index takes the prefix of
    /// every key without a check.
    pub fn takes_short_keys(&self) -> bool {
        !self.is_hash_index() || self.value(D::Prefix) != "rocksdb.FixedPrefix.8"
    }

    /// The index is a hash index, with which going backward within a prefix is not defined.
    pub fn is_hash_index(&self) -> bool {
        self.value(D::Index) == "kHashSearch"
    }

    /// `format_version`.
    pub fn format(&self) -> &'static str {
        self.value(D::Format)
    }

    /// What a table must contain if the options were honoured: names of meta blocks.
    pub fn meta_blocks(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        let used = self.has_prefix() || self.value(D::WholeKey) == "true";
        match (self.has_filter() && used, self.value(D::Partitions)) {
            (false, _) => {}
            (true, "none") => names.push("fullfilter.rocksdb."),
            (true, _) => names.push("partitionedfilter.rocksdb."),
        }
        if self.is_hash_index() {
            names.push("rocksdb.hashindex.prefixes");
        }
        names
    }

    /// The kind of index, in the form of its stored number.
    pub fn index_number(&self) -> u32 {
        self.0[D::Index as usize] as u32
    }

    /// The larger tables must have a dictionary; `None` leaves it to the engine.
    pub fn has_dictionary(&self) -> Option<bool> {
        match (self.value(D::Dictionary), self.value(D::Codec)) {
            ("none", _) => Some(false),
            ("raw", "kSnappyCompression" | "kBZip2Compression") => None,
            // Two blocks to learn from are too few.
            ("trained" | "finalized", _) if self.value(D::BlockSize) == "32768" => None,
            _ => Some(true),
        }
    }

    /// The options.
    pub fn settings(&self) -> Settings {
        let dictionary = match self.value(D::Dictionary) {
            "none" => "",
            "raw" => "max_dict_bytes=4096;",
            "trained" => "max_dict_bytes=4096;zstd_max_train_bytes=65536;",
            _ => "max_dict_bytes=4096;zstd_max_train_bytes=65536;use_zstd_dict_trainer=false;",
        };
        let codec = format!("{{parallel_threads={};{dictionary}}}", self.value(D::Parallel));
        let mut settings = Settings::small(1)
            .with("disable_auto_compactions", "true")
            .with("write_buffer_size", "2097152")
            .with("target_file_size_base", "131072")
            .with("max_bytes_for_level_base", "1048576")
            .with("compression_opts", &codec)
            .with("prefix_extractor", self.value(D::Prefix));
        settings.families[0].1 = self.value(D::Codec);
        let same = [
            D::Format,
            D::Filter,
            D::Memory,
            D::Index,
            D::WholeKey,
            D::BlockHash,
            D::BlockSize,
            D::Checksum,
            D::Cached,
        ];
        // Not a dimension of its own. Above 1 handles are stored as differences. RocksDB cannot use
        // a hash index with more, and does not correct the number when it is given as text.
        let interval = match self.is_hash_index() {
            true => 1,
            false => [1, 4, 16][self.0.iter().sum::<usize>() % 3],
        };
        // Many small partitions, for many borders, or fewer.
        let partition = [128, 512][self.0[D::BlockSize as usize] % 2];
        let mut table =
            format!("metadata_block_size={partition};index_block_restart_interval={interval};");
        for dimension in same {
            let name = DIMENSIONS[dimension as usize].name;
            table += &format!("{name}={};", self.value(dimension));
        }
        let partitions = match self.value(D::Partitions) {
            "none" => "partition_filters=false",
            "decoupled" => "partition_filters=true;decouple_partitioned_filters=true",
            _ => "partition_filters=true;decouple_partitioned_filters=false",
        };
        settings.table = table + partitions;
        settings
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name())?;
        for (value, dimension) in self.0.iter().zip(DIMENSIONS) {
            write!(f, " {}={}", dimension.name, dimension.values[*value])?;
        }
        Ok(())
    }
}
