//! Text forms of settings whose types live in other crates: kinds of index and of data block,
//! user-defined indexes, pinning of metadata, prepopulation of the block cache, charges to it,
//! compaction priority.
//!
//! Thread safety: pure functions.

use pumice_cache::ChargedRole;
use pumice_manifest::CompactionPri;
use pumice_table::{
    CacheUsageOptions, Charged, DataBlockIndexType, IndexShortening, IndexType, MetadataPinning,
    PinningTier, PlainEncoding, PrepopulateBlockCache, UserDefinedIndex,
};

use super::component_values::{NULL, object_id};
use super::value::{OptionValue, Refusal, members};

/// Gives an enum of another crate RocksDB's names in option text.
macro_rules! named_members {
    ($name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl OptionValue for $name {
            const TYPE: &'static str = stringify!($name);
            fn parse(text: &str) -> Result<Self, Refusal> {
                match text.trim() {
                    $($text => Ok($name::$variant),)+
                    other => {
                        let names = [$($text),+].join(", ");
                        Err(Refusal::expected(&format!("one of {names}"), other))
                    }
                }
            }
            fn format(&self) -> String {
                match self { $($name::$variant => $text),+ }.to_string()
            }
        }
    };
}

named_members! {
    IndexType {
        BinarySearch = "kBinarySearch",
        HashSearch = "kHashSearch",
        TwoLevel = "kTwoLevelIndexSearch",
        BinarySearchWithFirstKey = "kBinarySearchWithFirstKey",
    }
}

named_members! {
    CompactionPri {
        ByCompensatedSize = "kByCompensatedSize",
        OldestLargestSeqFirst = "kOldestLargestSeqFirst",
        OldestSmallestSeqFirst = "kOldestSmallestSeqFirst",
        MinOverlappingRatio = "kMinOverlappingRatio",
        RoundRobin = "kRoundRobin",
    }
}

named_members! {
    PlainEncoding {
        Plain = "kPlain",
        Prefix = "kPrefix",
    }
}

named_members! {
    DataBlockIndexType {
        BinarySearch = "kDataBlockBinarySearch",
        BinaryAndHash = "kDataBlockBinaryAndHash",
    }
}

named_members! {
    IndexShortening {
        None = "kNoShortening",
        Separators = "kShortenSeparators",
        SeparatorsAndSuccessor = "kShortenSeparatorsAndSuccessor",
    }
}

named_members! {
    PinningTier {
        Fallback = "kFallback",
        None = "kNone",
        FlushedAndSimilar = "kFlushedAndSimilar",
        All = "kAll",
    }
}

named_members! {
    PrepopulateBlockCache {
        Disable = "kDisable",
        FlushOnly = "kFlushOnly",
        FlushAndCompaction = "kFlushAndCompaction",
    }
}

named_members! {
    Charged {
        Enabled = "kEnabled",
        Disabled = "kDisabled",
        Fallback = "kFallback",
    }
}

/// By the factory's name, or `{id=NAME;}`, as RocksDB reads it.
impl OptionValue for Option<UserDefinedIndex> {
    const TYPE: &'static str = "UserDefinedIndexFactory";

    fn parse(text: &str) -> Result<Self, Refusal> {
        let (id, members) = object_id(text.trim())?;
        if let Some((name, _)) = members.into_iter().next() {
            return Err(Refusal::UnknownName(name));
        }
        if matches!(id.as_str(), "" | NULL) {
            return Ok(None);
        }
        let unknown = || format!("Could not load UserDefinedIndexFactory: {id}");
        UserDefinedIndex::by_name(&id).map(Some).ok_or_else(|| Refusal::Unsupported(unknown()))
    }

    fn format(&self) -> String {
        self.map_or(NULL, UserDefinedIndex::name).to_string()
    }
}

/// `{FilterConstruction=kEnabled;FileMetadata=kFallback;...}`, by RocksDB's names of the roles.
impl OptionValue for CacheUsageOptions {
    const TYPE: &'static str = "CacheUsageOptions";

    fn parse(text: &str) -> Result<Self, Refusal> {
        let mut usage = CacheUsageOptions::default();
        usage.update(text)?;
        Ok(usage)
    }

    fn format(&self) -> String {
        let member = |(role, charged): &(ChargedRole, Charged)| {
            format!("{}={};", role.name(), charged.format())
        };
        format!("{{{}}}", self.decisions().iter().map(member).collect::<String>())
    }

    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        for (name, value) in members(text)? {
            match name.as_str() {
                "CompressionDictionaryBuildingBuffer" => {
                    self.compression_dictionary_building_buffer.update(&value)?;
                }
                "FilterConstruction" => self.filter_construction.update(&value)?,
                "BlockBasedTableReader" => self.block_based_table_reader.update(&value)?,
                "FileMetadata" => self.file_metadata.update(&value)?,
                "BlobCache" => self.blob_cache.update(&value)?,
                _ => return Err(Refusal::UnknownName(name)),
            }
        }
        Ok(())
    }
}

/// `{unpartitioned_pinning=kFallback;partition_pinning=...;top_level_index_pinning=...;}`.
impl OptionValue for MetadataPinning {
    const TYPE: &'static str = "MetadataCacheOptions";

    fn parse(text: &str) -> Result<Self, Refusal> {
        let mut pinning = MetadataPinning::default();
        pinning.update(text)?;
        Ok(pinning)
    }

    fn format(&self) -> String {
        format!(
            "{{unpartitioned_pinning={};partition_pinning={};top_level_index_pinning={};}}",
            self.unpartitioned.format(),
            self.partition.format(),
            self.top_level_index.format()
        )
    }

    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        let pairs = members(text)?;
        for (name, value) in pairs {
            match name.as_str() {
                "unpartitioned_pinning" => self.unpartitioned.update(&value)?,
                "partition_pinning" => self.partition.update(&value)?,
                "top_level_index_pinning" => self.top_level_index.update(&value)?,
                _ => return Err(Refusal::UnknownName(name)),
            }
        }
        Ok(())
    }
}
