//! Enumerations of options that are not types of other crates, and kinds of memtables, by RocksDB's
//! names.
//!
//! Thread safety: values.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use crate::stats::InfoLogLevel;
use pumice_base::file_checksum::{
    CustomFileChecksumGenFactory, FILE_CHECKSUM_CRC32C, FileChecksumCrc32c, FileChecksumGenContext,
    FileChecksumGenerator,
};

use super::value::{OptionValue, Refusal, members, option_enum};

/// How memtables keep their entries.
///
/// ```
/// use pumice::options::MemtableFactory;
/// // For a load that nobody reads: entries are sorted when the memtable is flushed.
/// let mut options = pumice::Options::default();
/// options.cf.memtable_factory = MemtableFactory::Vector { reserve: 1_000_000 };
/// options.db.allow_concurrent_memtable_write = false;
/// ```
pub type MemtableFactory = pumice_memtable::MemTableRep;

option_enum! {
    /// How files are merged.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice::Error> {
    /// use pumice::Options;
    /// use pumice::options::{CompactionStyle, FifoOptions, StopStyle, UniversalOptions};
    /// // Writes cost less, reads and space more.
    /// let mut options = Options::default();
    /// options.cf.compaction_style = CompactionStyle::Universal;
    /// options.cf.compaction_options_universal = UniversalOptions {
    ///     stop_style: StopStyle::SimilarSize,
    ///     max_size_amplification_percent: 100,
    ///     ..Default::default()
    /// };
    /// // A cache of what was written last: 10 GB, at most a day old.
    /// let mut options = Options::default();
    /// options.cf.compaction_style = CompactionStyle::Fifo;
    /// options.cf.compaction_options_fifo =
    ///     FifoOptions { max_table_files_size: 10 << 30, ..Default::default() };
    /// options.set("ttl", "86400")?;
    /// # Ok(())
    /// # }
    /// ```
    pub enum CompactionStyle {
        /// Leveled compaction.
        #[default]
        Level = "kCompactionStyleLevel",
        /// Sorted runs of similar size and age are merged.
        Universal = "kCompactionStyleUniversal",
        /// Drop the oldest files.
        Fifo = "kCompactionStyleFIFO",
        /// No automatic compaction.
        None = "kCompactionStyleNone",
    }
}

option_enum! {
    /// Which values enter the blob cache as they are written.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice::Error> {
    /// use pumice::options::PrepopulateBlobCache;
    /// let mut options = pumice::Options::default();
    /// options.set("enable_blob_files", "true")?;
    /// options.cf.prepopulate_blob_cache = PrepopulateBlobCache::FlushOnly;
    /// # Ok(())
    /// # }
    /// ```
    pub enum PrepopulateBlobCache {
        /// None.
        #[default]
        Disable = "kDisable",
        /// Those that a flush writes.
        FlushOnly = "kFlushOnly",
    }
}

/// All styles but `None` are built.
pub(super) fn buildable_style(style: &CompactionStyle) -> Result<(), Refusal> {
    match style {
        CompactionStyle::Level | CompactionStyle::Fifo | CompactionStyle::Universal => Ok(()),
        CompactionStyle::None => Err(Refusal::Unsupported(format!(
            "{} is not supported by this build; {}, {} and {} are",
            style.option_name(),
            CompactionStyle::Level.option_name(),
            CompactionStyle::Universal.option_name(),
            CompactionStyle::Fifo.option_name()
        ))),
    }
}

option_enum! {
    /// What universal compaction compares the next sorted run with.
    ///
    /// Example: that of [`CompactionStyle`].
    pub enum StopStyle {
        /// The run before it: runs of similar size are merged.
        SimilarSize = "kCompactionStopStyleSimilarSize",
        /// All that was taken before it.
        #[default]
        TotalSize = "kCompactionStopStyleTotalSize",
    }
}

option_enum! {
    /// What decides how much background work is done; RocksDB knows only the first.
    ///
    /// ```
    /// use pumice::options::{BackgroundPolicy, BackgroundPriority};
    /// let mut options = pumice::Options::default();
    /// options.db.background_policy = BackgroundPolicy::Static; // As RocksDB.
    /// options.db.background_cpu_priority = BackgroundPriority::Low; // Behind other work.
    /// options.db.background_io_priority = BackgroundPriority::Low;
    /// ```
    pub enum BackgroundPolicy {
        /// RocksDB's rules.
        #[default]
        Static = "static",
        /// RocksDB's rules, with a rate limiter that tunes itself by its drains.
        DrainAutoTune = "drain_auto_tune",
        /// Automatic compaction of all column families is off while flushes need the rate limiter's
        /// rate, stall thresholds included: for comparison only.
        SeedRule = "seed_rule",
        /// Writes are admitted as fast as flushes and compactions make room for them: a peak that
        /// lasts slows them, and never stops them.
        Adaptive = "adaptive",
    }
}

option_enum! {
    /// How background threads are scheduled whose work no caller waits for.
    ///
    /// Example: that of [`BackgroundPolicy`].
    pub enum BackgroundPriority {
        /// Like all other threads.
        #[default]
        Normal = "normal",
        /// CPU: nice 19. I/O: the lowest level of the class "best effort".
        Low = "low",
        /// When nothing else wants to run. CPU: SCHED_IDLE. I/O: the class "idle".
        Idle = "idle",
    }
}

/// What computes checksums of whole files.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::options::FileChecksumGenFactory;
/// # let fs = pumice::MemFs::new(1).shared();
/// # let builder = pumice::Db::builder("/db").create(true);
/// # let builder = builder.configure(|options| options.db.file_system = fs);
/// let db = builder
///     .configure(|options| options.db.file_checksum_gen_factory = FileChecksumGenFactory::Crc32c)
///     .open()?;
/// db.put("key", "value")?;
/// db.flush()?;
/// db.verify_file_checksums()?; // Reads the files as a whole.
/// # db.close()
/// # }
/// ```
#[derive(Clone, Default)]
pub enum FileChecksumGenFactory {
    /// No factory: files get no checksums.
    #[default]
    None,
    /// RocksDB's `FileChecksumGenCrc32cFactory`: CRC-32C.
    Crc32c,
    /// A user's.
    Custom(Arc<dyn CustomFileChecksumGenFactory>),
}

impl FileChecksumGenFactory {
    /// What computes `function` of `file`, or for an empty name the checksum that new files get.
    /// None if the function is not known, and if new files get none.
    pub(crate) fn generator(
        &self,
        file: &Path,
        function: &str,
    ) -> Option<Box<dyn FileChecksumGenerator>> {
        let own = || Box::new(FileChecksumCrc32c::default()) as Box<dyn FileChecksumGenerator>;
        match self {
            FileChecksumGenFactory::None => (function == FILE_CHECKSUM_CRC32C).then(own),
            FileChecksumGenFactory::Crc32c => {
                (function.is_empty() || function == FILE_CHECKSUM_CRC32C).then(own)
            }
            FileChecksumGenFactory::Custom(factory) => factory.create(&FileChecksumGenContext {
                file_name: file,
                requested_checksum_func_name: function,
            }),
        }
    }
}

impl fmt::Debug for FileChecksumGenFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.format())
    }
}

/// Users' factories are compared by name.
impl PartialEq for FileChecksumGenFactory {
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

impl OptionValue for FileChecksumGenFactory {
    const TYPE: &'static str = "FileChecksumGenFactory";

    fn parse(text: &str) -> Result<Self, Refusal> {
        match &factory_id(text)?[..] {
            "" | "nullptr" => Ok(FileChecksumGenFactory::None),
            CRC32C_FACTORY => Ok(FileChecksumGenFactory::Crc32c),
            other => Err(Refusal::Unsupported(format!(
                "{other} is not built in; pass the object in the options"
            ))),
        }
    }

    fn format(&self) -> String {
        match self {
            FileChecksumGenFactory::None => "nullptr",
            FileChecksumGenFactory::Crc32c => CRC32C_FACTORY,
            FileChecksumGenFactory::Custom(factory) => factory.name(),
        }
        .to_string()
    }

    /// A user's factory keeps its place when the text has its name.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        if factory_id(text)? != self.format() {
            *self = Self::parse(text)?;
        }
        Ok(())
    }
}

/// The name in `{id=NAME;}` or in plain `NAME`; all of the text if it has no name.
fn factory_id(text: &str) -> Result<String, Refusal> {
    let text = text.trim();
    let id = match text.contains('=') {
        true => members(text)?.into_iter().find(|(name, _)| name == "id").map(|(_, id)| id),
        false => None,
    };
    Ok(id.unwrap_or_else(|| text.to_string()))
}

/// RocksDB's name of its own factory. Persisted.
const CRC32C_FACTORY: &str = "FileChecksumGenCrc32cFactory";

option_enum! {
    @text InfoLogLevel {
        Debug = "DEBUG_LEVEL",
        Info = "INFO_LEVEL",
        Warn = "WARN_LEVEL",
        Error = "ERROR_LEVEL",
        Fatal = "FATAL_LEVEL",
        Header = "HEADER_LEVEL",
    }
}

impl OptionValue for MemtableFactory {
    const TYPE: &'static str = "memtable";

    fn parse(text: &str) -> Result<Self, Refusal> {
        let text = text.trim();
        if text.contains('=') {
            return parse_memtable_map(text);
        }
        let (name, count) = match text.split_once(':') {
            Some((name, count)) => (name, usize::parse(count)?),
            None => (text, 0),
        };
        match name {
            "SkipListFactory" | "skip_list" => Ok(MemtableFactory::SkipList { lookahead: count }),
            "VectorRepFactory" | "vector" => Ok(MemtableFactory::Vector { reserve: count }),
            "HashSkipListRepFactory"
            | "prefix_hash"
            | "HashLinkListRepFactory"
            | "hash_linkedlist" => Err(Refusal::Unsupported(format!(
                "hash memtables ({name}) are not supported; skip_list and vector are"
            ))),
            // RocksDB no longer has one, either; this is its text.
            "cuckoo" | "HashCuckooRepFactory" => Err(Refusal::Unsupported(
                "cuckoo hash memtable is not supported anymore".to_string(),
            )),
            // RocksDB's text, and the kinds that there are.
            _ => Err(Refusal::Parse(format!(
                "Could not load MemTableRepFactory: {text}; expected skip_list or vector"
            ))),
        }
    }

    fn format(&self) -> String {
        match self {
            MemtableFactory::SkipList { lookahead: 0 } => "SkipListFactory".to_string(),
            MemtableFactory::SkipList { lookahead } => {
                format!("{{id=SkipListFactory;lookahead={lookahead};}}")
            }
            MemtableFactory::Vector { reserve: 0 } => "VectorRepFactory".to_string(),
            MemtableFactory::Vector { reserve } => {
                format!("{{id=VectorRepFactory;count={reserve};}}")
            }
        }
    }
}

/// `{id=VectorRepFactory;count=N;}` and `{id=SkipListFactory;lookahead=N;}`.
fn parse_memtable_map(text: &str) -> Result<MemtableFactory, Refusal> {
    let pairs = members(text)?;
    let mut factory = MemtableFactory::SKIP_LIST;
    for (name, value) in pairs {
        match (name.as_str(), &mut factory) {
            ("id", slot) => *slot = MemtableFactory::parse(&value)?,
            ("lookahead", MemtableFactory::SkipList { lookahead }) => {
                *lookahead = usize::parse(&value)?;
            }
            ("count", MemtableFactory::Vector { reserve }) => *reserve = usize::parse(&value)?,
            _ => return Err(Refusal::UnknownName(name)),
        }
    }
    Ok(factory)
}
