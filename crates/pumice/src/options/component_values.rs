//! Text forms of values whose types live on lower floors or in traits: comparators, merge
//! operators, prefix extractors, codecs, checksums, filters, table options.
//!
//! Only built-in objects can be made from text; the text of a user's object is its name.

use std::sync::Arc;

use pumice_base::Comparator;
use pumice_base::checksum::ChecksumType;
use pumice_base::extension::{
    CappedPrefix, FixedPrefix, MergeOperator, NoopPrefix, OpFailureScope, SliceTransform,
    builtin_slice_transform,
};
use pumice_compress::{CompressionManager, CompressionOptions, CompressionType};
use pumice_env::{RateLimiter, RateLimiterOptions, SstFileManager, Temperature};
use pumice_filter::FilterPolicy;
use pumice_wal::WalRecoveryMode;

use super::block_based::BlockBasedTableOptions;
use super::merge_operators;
use super::objects::OptionObject;
use super::other_tables::{TableFactory, format_with_id};
use super::row::{OptionSet, update_nested};
use super::value::{OptionValue, Refusal, SINCE_10_10, members};

pub(super) const NULL: &str = "nullptr";

impl OptionValue for Option<Arc<RateLimiter>> {
    const TYPE: &'static str = "RateLimiter";
    fn parse(text: &str) -> Result<Self, Refusal> {
        let text = text.trim();
        let rate = if is_null(text) { 0 } else { u64::parse(text)? };
        if rate == 0 {
            return Ok(None);
        }
        let limiter = RateLimiter::new(&RateLimiterOptions::new(rate));
        limiter.map(|limiter| Some(Arc::new(limiter))).map_err(|e| Refusal::Bounds(e.to_string()))
    }
    /// The rate it was set to; for a tuned one the current rate.
    fn format(&self) -> String {
        self.as_ref().map_or(NULL.to_string(), |limiter| limiter.bytes_per_second().to_string())
    }
    fn same(&self, other: &Self) -> bool {
        OptionObject::same(self, other)
    }
    /// The text of the present limiter does not create another.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        if self.format() != text.trim() {
            *self = Self::parse(text)?;
        }
        Ok(())
    }
}

impl OptionValue for Option<Arc<SstFileManager>> {
    const TYPE: &'static str = "SstFileManager";
    fn parse(text: &str) -> Result<Self, Refusal> {
        if is_null(text.trim()) {
            return Ok(None);
        }
        Err(Refusal::Unsupported(
            "an sst_file_manager cannot be made from text; pass the object in the options"
                .to_string(),
        ))
    }
    fn format(&self) -> String {
        self.as_ref().map_or(NULL, |_| Self::TYPE).to_string()
    }
    fn same(&self, other: &Self) -> bool {
        OptionObject::same(self, other)
    }
    /// A manager keeps its place when the text has its name.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        if self.format() != text.trim() {
            *self = Self::parse(text)?;
        }
        Ok(())
    }
}

fn is_null(text: &str) -> bool {
    text.is_empty() || text == NULL
}

/// The object id of `{id=NAME;...}` or of plain `NAME`, and the other members.
pub(super) fn object_id(text: &str) -> Result<(String, Vec<(String, String)>), Refusal> {
    let text = text.trim();
    if !text.contains('=') {
        return Ok((text.to_string(), Vec::new()));
    }
    let pairs = members(text)?;
    let mut id = None;
    let mut members = Vec::new();
    for (name, value) in pairs {
        match name.as_str() {
            "id" => id = Some(value),
            _ => members.push((name, value)),
        }
    }
    match id {
        Some(id) => Ok((id, members)),
        None => Err(Refusal::expected("an object with an id", text)),
    }
}

impl OptionValue for Comparator {
    const TYPE: &'static str = "Comparator";
    fn parse(text: &str) -> Result<Self, Refusal> {
        let (id, _) = object_id(text)?;
        Comparator::builtin(&id).ok_or_else(|| {
            Refusal::Unsupported(format!(
                "comparator {id} is not built in; pass the object in the options"
            ))
        })
    }
    fn format(&self) -> String {
        self.name().to_string()
    }
    /// A user's comparator keeps its place when the text has its name.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        if object_id(text)?.0 != self.name() {
            *self = Self::parse(text)?;
        }
        Ok(())
    }
}

impl OptionValue for Option<Arc<dyn MergeOperator>> {
    const TYPE: &'static str = "MergeOperator";
    fn parse(text: &str) -> Result<Self, Refusal> {
        let (id, members) = object_id(text)?;
        if is_null(&id) {
            return Ok(None);
        }
        merge_operators::builtin(&id, &members).map(Some)
    }
    fn format(&self) -> String {
        self.as_ref().map_or(NULL.to_string(), |op| op.option_text())
    }
    /// A user's operator keeps its place when the text has its name.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        let (id, members) = object_id(text)?;
        let same = self.as_ref().is_some_and(|op| op.name() == id);
        if !same || !members.is_empty() {
            *self = Self::parse(text)?;
        }
        Ok(())
    }
}

impl OptionValue for Option<Arc<dyn SliceTransform>> {
    const TYPE: &'static str = "SliceTransform";
    fn parse(text: &str) -> Result<Self, Refusal> {
        let (id, members) = object_id(text)?;
        if is_null(&id) {
            return Ok(None);
        }
        let length = members.iter().find(|(n, _)| n == "length").map(|(_, v)| v.as_str());
        prefix_extractor(&id, length).map(Some)
    }
    fn format(&self) -> String {
        self.as_ref().map_or(NULL.to_string(), |t| t.name())
    }
    /// A user's extractor keeps its place when the text has its name.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        if self.as_ref().is_none_or(|t| t.name() != text.trim()) {
            *self = Self::parse(text)?;
        }
        Ok(())
    }
}

/// `fixed:8`, `capped:8`, `noop`, `rocksdb.FixedPrefix.8`, or the name with the length as a member.
fn prefix_extractor(id: &str, length: Option<&str>) -> Result<Arc<dyn SliceTransform>, Refusal> {
    let short = match (id, length) {
        ("rocksdb.FixedPrefix", Some(n)) => Some(("fixed", n)),
        ("rocksdb.CappedPrefix", Some(n)) => Some(("capped", n)),
        _ => id.split_once(':'),
    };
    match short {
        Some(("fixed", n)) => Ok(Arc::new(FixedPrefix(usize::parse(n)?))),
        Some(("capped", n)) => Ok(Arc::new(CappedPrefix(usize::parse(n)?))),
        None if id == "noop" => Ok(Arc::new(NoopPrefix)),
        _ => builtin_slice_transform(id).ok_or_else(|| {
            Refusal::Unsupported(format!(
                "prefix extractor {id} is not built in; pass the object in the options"
            ))
        }),
    }
}

impl OptionValue for OpFailureScope {
    const TYPE: &'static str = "OpFailureScope";
    fn parse(text: &str) -> Result<Self, Refusal> {
        match text.trim() {
            "kDefault" => Ok(OpFailureScope::Default),
            "kTryMerge" => Ok(OpFailureScope::TryMerge),
            "kMustMerge" => Ok(OpFailureScope::MustMerge),
            _ => Err(Refusal::expected("kDefault, kTryMerge or kMustMerge", text)),
        }
    }
    fn format(&self) -> String {
        format!("k{self:?}")
    }
}

impl OptionValue for CompressionType {
    const TYPE: &'static str = "CompressionType";
    fn parse(text: &str) -> Result<Self, Refusal> {
        let text = text.trim();
        // RocksDB 6's name of kZSTD, still found in old files.
        let name = if text == "kZSTDNotFinalCompression" { "kZSTD" } else { text };
        CompressionType::from_option_name(name)
            .ok_or_else(|| Refusal::expected("a compression type such as kLZ4Compression", text))
    }
    fn format(&self) -> String {
        self.option_name().to_string()
    }
}

/// Refuses values that cannot be the compression of a level.
pub(super) fn buildable_compression(kind: &CompressionType) -> Result<(), Refusal> {
    match kind {
        CompressionType::Xpress => Err(Refusal::Unsupported(
            "kXpressCompression is not supported by this build".to_string(),
        )),
        CompressionType::Disable => {
            Err(Refusal::Bounds("kDisableCompressionOption is only for bottommost".to_string()))
        }
        kind => kind.check_built().map_err(|e| Refusal::Unsupported(e.message().to_string())),
    }
}

/// Refuses values that cannot be the compression of a log.
pub(super) fn log_compression(kind: &CompressionType) -> Result<(), Refusal> {
    match kind {
        CompressionType::None => Ok(()),
        CompressionType::Zstd => buildable_compression(kind),
        _ => Err(Refusal::Unsupported("logs are compressed by kZSTD only".to_string())),
    }
}

/// Refuses samples of codecs that are not built in.
pub(super) fn buildable_samples(one_of: &u64) -> Result<(), Refusal> {
    match one_of {
        0 => Ok(()),
        _ => {
            [CompressionType::Lz4, CompressionType::Zstd].iter().try_for_each(buildable_compression)
        }
    }
}

impl OptionValue for CompressionOptions {
    const TYPE: &'static str = "CompressionOptions";
    fn parse(text: &str) -> Result<Self, Refusal> {
        let mut opts = CompressionOptions::default();
        opts.update(text)?;
        Ok(opts)
    }

    fn format(&self) -> String {
        compression_text(self, true)
    }

    fn format_saved(&self) -> String {
        compression_text(self, false)
    }

    fn members_since(&self) -> usize {
        let newer = |o: &CompressionOptions| (o.checksum, o.max_compressed_bytes_per_kb);
        if newer(self) == newer(&CompressionOptions::default()) { 0 } else { SINCE_10_10 }
    }

    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        let text = text.trim();
        if !text.contains('=') {
            return update_compression_list(self, text);
        }
        let pairs = members(text)?;
        pairs.iter().try_for_each(|(name, value)| update_compression_member(self, name, value))
    }
}

/// `all`: includes the members that RocksDB 7.8 does not know, even if they have their defaults.
fn compression_text(opts: &CompressionOptions, all: bool) -> String {
    let standard = CompressionOptions::default();
    let mut text = format!(
        "{{window_bits={};level={};strategy={};max_dict_bytes={};zstd_max_train_bytes={};\
         parallel_threads={};enabled={};max_dict_buffer_bytes={};use_zstd_dict_trainer={};",
        opts.window_bits,
        opts.level,
        opts.strategy,
        opts.max_dict_bytes,
        opts.zstd_max_train_bytes,
        opts.parallel_threads,
        opts.enabled,
        opts.max_dict_buffer_bytes,
        opts.use_zstd_dict_trainer
    );
    if all || opts.checksum != standard.checksum {
        text.push_str(&format!("checksum={};", opts.checksum));
    }
    let per_kb = opts.max_compressed_bytes_per_kb;
    if all || per_kb != standard.max_compressed_bytes_per_kb {
        text.push_str(&format!("max_compressed_bytes_per_kb={per_kb};"));
    }
    text.push('}');
    text
}

/// Member names in the order of the colon form.
const COMPRESSION_MEMBERS: [&str; 9] = [
    "window_bits",
    "level",
    "strategy",
    "max_dict_bytes",
    "zstd_max_train_bytes",
    "parallel_threads",
    "enabled",
    "max_dict_buffer_bytes",
    "use_zstd_dict_trainer",
];

/// The old form `window_bits:level:strategy[:...]`.
fn update_compression_list(opts: &mut CompressionOptions, text: &str) -> Result<(), Refusal> {
    let values: Vec<&str> = text.split(':').collect();
    if values.len() < 3 || values.len() > COMPRESSION_MEMBERS.len() {
        return Err(Refusal::expected("{level=N;...} or window_bits:level:strategy", text));
    }
    COMPRESSION_MEMBERS
        .iter()
        .zip(values)
        .try_for_each(|(name, value)| update_compression_member(opts, name, value))
}

fn update_compression_member(
    opts: &mut CompressionOptions,
    name: &str,
    value: &str,
) -> Result<(), Refusal> {
    match name {
        "window_bits" => opts.window_bits.update(value),
        "level" => opts.level.update(value),
        "strategy" => opts.strategy.update(value),
        "max_dict_bytes" => opts.max_dict_bytes.update(value),
        "zstd_max_train_bytes" => opts.zstd_max_train_bytes.update(value),
        "parallel_threads" => opts.parallel_threads.update(value),
        "enabled" => opts.enabled.update(value),
        "max_dict_buffer_bytes" => opts.max_dict_buffer_bytes.update(value),
        "use_zstd_dict_trainer" => opts.use_zstd_dict_trainer.update(value),
        "checksum" => opts.checksum.update(value),
        "max_compressed_bytes_per_kb" => opts.max_compressed_bytes_per_kb.update(value),
        _ => Err(Refusal::UnknownName(name.to_string())),
    }
}

impl OptionValue for Option<CompressionManager> {
    const TYPE: &'static str = "CompressionManager";
    fn parse(text: &str) -> Result<Self, Refusal> {
        if is_null(text.trim()) {
            return Ok(None);
        }
        let (id, members) = object_id(text)?;
        if let Some((name, _)) = members.into_iter().next() {
            return Err(Refusal::UnknownName(name));
        }
        let manager = CompressionManager::from_name(&id);
        let unknown = || Refusal::Unsupported(format!("Could not load CompressionManager: {id}"));
        manager.map(Some).ok_or_else(unknown)
    }
    fn format(&self) -> String {
        self.map_or(NULL, CompressionManager::name).to_string()
    }
}

impl OptionValue for ChecksumType {
    const TYPE: &'static str = "ChecksumType";
    fn parse(text: &str) -> Result<Self, Refusal> {
        ChecksumType::from_name(text.trim())
            .ok_or_else(|| Refusal::expected("a checksum type such as kXXH3", text))
    }
    fn format(&self) -> String {
        self.name().to_string()
    }
}

impl OptionValue for WalRecoveryMode {
    const TYPE: &'static str = "WalRecoveryMode";
    fn parse(text: &str) -> Result<Self, Refusal> {
        WalRecoveryMode::from_name(text.trim())
            .ok_or_else(|| Refusal::expected("a recovery mode such as kPointInTimeRecovery", text))
    }
    fn format(&self) -> String {
        self.name().to_string()
    }
}

impl OptionValue for Temperature {
    const TYPE: &'static str = "Temperature";
    fn parse(text: &str) -> Result<Self, Refusal> {
        let names = "one of kUnknown, kHot, kWarm, kCool, kCold, kIce";
        Temperature::of_name(text.trim()).ok_or_else(|| Refusal::expected(names, text))
    }
    fn format(&self) -> String {
        self.name().to_string()
    }
}

impl OptionValue for Option<FilterPolicy> {
    const TYPE: &'static str = "FilterPolicy";
    fn parse(text: &str) -> Result<Self, Refusal> {
        let text = text.trim();
        // RocksDB's name for "whichever built-in filter": reading needs no parameters.
        if matches!(text, "rocksdb.BuiltinBloomFilter" | "rocksdb.internal.BuiltinFilter") {
            return Ok(None);
        }
        let refusal = || Refusal::expected("a filter such as bloomfilter:10:false", text);
        // RocksDB 10 writes Ribbon filters so: `{id=ribbonfilter:10:3;bloom_before_level=3;}`.
        let (id, members) = object_id(text)?;
        let mut policy = FilterPolicy::parse(&id).map_err(|_| refusal())?;
        for (name, value) in members {
            policy = match (name.as_str(), policy) {
                ("bloom_before_level", Some(ribbon)) => {
                    let changed = ribbon.with_bloom_before_level(i32::parse(&value)?);
                    Some(changed.ok_or_else(refusal)?)
                }
                _ => return Err(Refusal::UnknownName(name)),
            };
        }
        Ok(policy)
    }
    fn format(&self) -> String {
        self.as_ref().map_or(NULL.to_string(), FilterPolicy::to_string)
    }
    /// `bloom_before_level` alone changes the existing policy.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        let level = match (text.contains('='), &*self) {
            (true, Some(_)) => members(text)?,
            _ => Vec::new(),
        };
        *self = match (level.as_slice(), &*self) {
            ([(name, level)], Some(policy)) if name == "bloom_before_level" => {
                let changed = policy.with_bloom_before_level(i32::parse(level)?);
                Some(changed.ok_or_else(|| Refusal::expected("a member of a Bloom filter", text))?)
            }
            _ => Self::parse(text)?,
        };
        Ok(())
    }
}

impl OptionValue for BlockBasedTableOptions {
    const TYPE: &'static str = "BlockBasedTableOptions";

    fn parse(text: &str) -> Result<Self, Refusal> {
        let mut options = BlockBasedTableOptions::default();
        options.update(text)?;
        Ok(options)
    }

    fn format(&self) -> String {
        match &self.format {
            TableFactory::BlockBased => {}
            TableFactory::Plain(plain) => return format_with_id(self.format.name(), plain),
            TableFactory::Cuckoo(cuckoo) => return format_with_id(self.format.name(), cuckoo),
        }
        let mut out = String::from("{");
        for row in Self::rows().iter().filter(|row| row.is_supported()) {
            out.push_str(&format!("{}={};", row.name, row.get(self)));
        }
        out.push('}');
        out
    }

    fn same(&self, other: &Self) -> bool {
        self == other
    }

    /// The members have a section of their own.
    fn format_saved(&self) -> String {
        self.format.name().to_string()
    }

    /// `NAME`, `{id=NAME;option=value;..}`, or options of the format that it has.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        let text = text.trim();
        let named = |name: &str| {
            TableFactory::by_name(name).ok_or_else(|| {
                let known = "only BlockBasedTable, PlainTable and CuckooTable are";
                Refusal::Unsupported(format!("{name} is not supported by this build; {known}"))
            })
        };
        if !text.contains('=') {
            if !matches!(text, "{}" | "") {
                self.format = named(text)?;
            }
            return Ok(());
        }
        let inner = text.strip_prefix('{').unwrap_or(text);
        let Some((id, members)) = inner.strip_prefix("id=").and_then(|rest| rest.split_once(';'))
        else {
            return update_members(self, text);
        };
        let mut changed = self.clone();
        changed.format = named(id.trim())?;
        update_members(&mut changed, members.trim_end_matches('}'))?;
        *self = changed;
        Ok(())
    }
}

/// Changes the options of the format of tables by `{option=value;..}`.
fn update_members(table: &mut BlockBasedTableOptions, members: &str) -> Result<(), Refusal> {
    match &mut table.format {
        TableFactory::BlockBased => update_nested(table, members),
        TableFactory::Plain(plain) => update_nested(plain, members),
        TableFactory::Cuckoo(cuckoo) => update_nested(cuckoo, members),
    }
}
