//! From flags to options by RocksDB's option names, the same list for both engines.
//!
//! Each option says whether the user gave its flag: an engine may skip an option it does not have
//! only if the flag was not given.

use super::flags::Flags;
use pumice::options::MemtableFactory;
use pumice::options::value::{OptionValue, Refusal};
use pumice::{CompressionManager, CompressionType};

/// One option by its name in the OPTIONS file.
pub struct NamedOption {
    /// RocksDB's name.
    pub name: &'static str,
    /// The value as in an OPTIONS file.
    pub value: String,
    /// The flag it comes from was on the command line.
    pub given: bool,
}

/// Options of the database and its column family, and those of its tables.
pub struct NamedOptions {
    /// Database and column family options.
    pub main: Vec<NamedOption>,
    /// Options of the block-based table.
    pub table: Vec<NamedOption>,
}

/// The flags of the rate limiter.
pub struct LimiterFlags {
    /// Bytes per second.
    pub rate: i64,
    /// Microseconds.
    pub refill_period_micros: i64,
    /// Bytes; 0 is one refill.
    pub single_burst_bytes: i64,
    /// The rate follows the load.
    pub auto_tuned: bool,
    /// Reads are limited, and no writes.
    pub reads_only: bool,
}

/// Bits of the filter of plain tables without `--bloom_bits`: RocksDB's default.
const PLAIN_BLOOM_BITS: i32 = 10;

/// Fairness of db_bench's limiter.
pub const LIMITER_FAIRNESS: i32 = 10;

/// The rate limiter that `flags` ask for.
///
/// # Errors
/// A value that no limiter can have (the text names the flag).
pub fn limiter(flags: &Flags) -> Result<Option<LimiterFlags>, String> {
    if flags.rate_limiter_bytes_per_sec == 0 {
        return match () {
            () if flags.rate_limit_bg_reads => Err(without_limiter("rate_limit_bg_reads")),
            () if flags.rate_limiter_auto_tuned => Err(without_limiter("rate_limiter_auto_tuned")),
            () => Ok(None),
        };
    }
    let rate = i64::try_from(flags.rate_limiter_bytes_per_sec)
        .map_err(|_| "rate_limiter_bytes_per_sec is too large".to_string())?;
    if flags.rate_limiter_refill_period_us <= 0 {
        return Err("rate_limiter_refill_period_us must be above 0".into());
    }
    if flags.rate_limiter_single_burst_bytes < 0 {
        return Err("rate_limiter_single_burst_bytes must not be below 0".into());
    }
    Ok(Some(LimiterFlags {
        rate,
        refill_period_micros: flags.rate_limiter_refill_period_us,
        single_burst_bytes: flags.rate_limiter_single_burst_bytes,
        auto_tuned: flags.rate_limiter_auto_tuned,
        reads_only: flags.rate_limit_bg_reads,
    }))
}

/// The flags of the file manager.
pub struct ManagerFlags {
    /// Bytes per second.
    pub rate: i64,
    /// Bytes; 0 never cuts.
    pub bytes_per_truncate: u64,
}

/// The share of trash above which files are deleted at once, as in `db_stress`.
pub const MAX_TRASH_DB_RATIO: f64 = 0.25;

/// The manager of table files that `flags` ask for.
///
/// # Errors
/// A rate that no manager can have (the text names the flag).
pub fn file_manager(flags: &Flags) -> Result<Option<ManagerFlags>, String> {
    let truncates = flags.is_given("sst_file_manager_bytes_per_truncate");
    if flags.sst_file_manager_bytes_per_sec == 0 && !truncates {
        return Ok(None);
    }
    let rate = i64::try_from(flags.sst_file_manager_bytes_per_sec)
        .map_err(|_| "sst_file_manager_bytes_per_sec is too large".to_string())?;
    let bytes_per_truncate = flags.sst_file_manager_bytes_per_truncate;
    Ok(Some(ManagerFlags { rate, bytes_per_truncate }))
}

/// The manager that `--compression_manager` names, as an option.
fn compression_manager(flags: &Flags) -> Result<Option<&'static str>, String> {
    let manager = match flags.compression_manager.to_ascii_lowercase().as_str() {
        "none" => return Ok(None),
        "mixed" => CompressionManager::RoundRobin,
        "costpredictor" => CompressionManager::CostAware,
        "autoskip" => CompressionManager::AutoSkip,
        _ => return Err("Requested compression manager not supported".into()),
    };
    if codec(&flags.compression_type)? == CompressionType::None.option_name() {
        let why = "Compression type must not be no Compression when using compression manager";
        return Err(why.into());
    }
    Ok(Some(manager.name()))
}

/// The memtable that `--memtablerep` names; a number may follow after a colon. Also for a RocksDB
/// library, which silently makes a skip list when its C API is given `prefix_hash`.
///
/// # Errors
/// RocksDB's text, and what is not built.
pub fn memtable_factory(flags: &Flags) -> Result<MemtableFactory, String> {
    MemtableFactory::parse(&flags.memtablerep).map_err(|refusal| {
        let why = match refusal {
            Refusal::Parse(why)
            | Refusal::Bounds(why)
            | Refusal::Unsupported(why)
            | Refusal::UnknownName(why) => why,
        };
        format!("Could not create memtable factory: Not implemented: {why}")
    })
}

/// The memtable's name as RocksDB's header spells it.
pub fn memtable_name(flags: &Flags) -> String {
    match memtable_factory(flags) {
        Ok(MemtableFactory::SkipList { lookahead: 0 }) => "SkipListFactory".into(),
        Ok(MemtableFactory::SkipList { lookahead }) => format!("SkipListFactory:{lookahead}"),
        Ok(MemtableFactory::Vector { .. }) => "VectorRepFactory".into(),
        // Engines without memtables of RocksDB's kinds ignore the flag.
        Err(_) => flags.memtablerep.clone(),
    }
}

fn without_limiter(flag: &str) -> String {
    format!("{flag} needs rate_limiter_bytes_per_sec")
}

/// The two named lists for `flags`.
///
/// # Errors
/// A flag has a value that no option can take (the text names it).
pub fn from_flags(flags: &Flags) -> Result<NamedOptions, String> {
    let mut main = List { flags, options: Vec::new() };
    main.database()?;
    main.levels()?;
    main.compression()?;
    main.table_format()?;
    let mut table = List { flags, options: Vec::new() };
    table.table()?;
    for option in &flags.options {
        let list = if option.is_table { &mut table } else { &mut main };
        let (name, value) = (option.option, option.value.clone());
        list.options.push(NamedOption { name, value, given: true });
    }
    Ok(NamedOptions { main: main.options, table: table.options })
}

struct List<'a> {
    flags: &'a Flags,
    options: Vec<NamedOption>,
}

impl List<'_> {
    /// Adds option `name` that comes from `flag`.
    fn add(&mut self, flag: &str, name: &'static str, value: impl ToString) {
        let given = self.flags.is_given(flag);
        self.options.push(NamedOption { name, value: value.to_string(), given });
    }

    /// Adds an option whose flag has its name.
    fn same(&mut self, name: &'static str, value: impl ToString) {
        self.add(name, name, value);
    }

    /// As `same`, unless the flag was not given: then the engine's own default stands.
    fn same_if_given(&mut self, name: &'static str, value: impl ToString) {
        if self.flags.is_given(name) {
            self.same(name, value);
        }
    }

    fn database(&mut self) -> Result<(), String> {
        let f = self.flags;
        self.same_if_given("wal_dir", &f.wal_dir);
        self.add("open_files", "max_open_files", f.open_files);
        let factory = memtable_factory(f)?;
        self.add("memtablerep", "memtable_factory", &f.memtablerep);
        let ratio = f.memtable_bloom_size_ratio;
        if f.is_given("memtable_bloom_size_ratio") {
            self.add("memtable_bloom_size_ratio", "memtable_prefix_bloom_size_ratio", ratio);
        }
        // A vector allows one writer at a time, so RocksDB's db_bench needs the flag off too.
        let one_writer = matches!(factory, MemtableFactory::Vector { .. });
        let concurrent = f.allow_concurrent_memtable_write && !one_writer;
        self.same("allow_concurrent_memtable_write", concurrent);
        self.same("enable_pipelined_write", f.enable_pipelined_write);
        if f.is_given("wal_compression") {
            self.same("wal_compression", codec(&f.wal_compression)?);
        }
        let direct_writes = f.use_direct_io_for_flush_and_compaction;
        self.same_if_given("use_direct_io_for_flush_and_compaction", direct_writes);
        if !f.merge_operator.is_empty() {
            self.same("merge_operator", &f.merge_operator);
        }
        if f.file_checksum {
            let factory = "FileChecksumGenCrc32cFactory";
            self.add("file_checksum", "file_checksum_gen_factory", factory);
        }
        self.same("delayed_write_rate", f.delayed_write_rate);
        if f.delete_obsolete_files_period_micros > 0 {
            self.same("delete_obsolete_files_period_micros", f.delete_obsolete_files_period_micros);
        }
        Ok(())
    }

    fn levels(&mut self) -> Result<(), String> {
        let f = self.flags;
        let style = match f.compaction_style {
            0 => "kCompactionStyleLevel",
            1 => "kCompactionStyleUniversal",
            2 => "kCompactionStyleFIFO",
            other => return Err(format!("compaction_style {other} is not known")),
        };
        self.same("compaction_style", style);
        let pri = match f.compaction_pri {
            0 => "kByCompensatedSize",
            1 => "kOldestLargestSeqFirst",
            2 => "kOldestSmallestSeqFirst",
            3 => "kMinOverlappingRatio",
            4 => "kRoundRobin",
            other => return Err(format!("compaction_pri {other} is not known")),
        };
        self.same("compaction_pri", pri);
        self.add("subcompactions", "max_subcompactions", f.subcompactions);
        self.same("num_levels", f.num_levels);
        if !f.max_bytes_for_level_multiplier_additional.is_empty() {
            let factors = f.max_bytes_for_level_multiplier_additional.replace(',', ":");
            let count = factors.split(':').count();
            if i32::try_from(count) != Ok(f.num_levels) {
                return Err(format!("Insufficient number of fanouts specified {count}"));
            }
            self.same("max_bytes_for_level_multiplier_additional", factors);
        }
        let dynamic = f.level_compaction_dynamic_level_bytes;
        self.same("level_compaction_dynamic_level_bytes", dynamic);
        let (soft, hard) =
            (f.soft_pending_compaction_bytes_limit, f.hard_pending_compaction_bytes_limit);
        self.same("soft_pending_compaction_bytes_limit", soft);
        self.same("hard_pending_compaction_bytes_limit", hard);
        if f.compaction_style == 2 {
            let fifo = fifo_members(f);
            self.add("compaction_style", "compaction_options_fifo", fifo);
            self.add("fifo_compaction_ttl", "ttl", f.fifo_compaction_ttl);
        }
        self.universal()?;
        if f.is_given("ttl_seconds") {
            self.add("ttl_seconds", "ttl", f.ttl_seconds);
        }
        if f.prefix_size > 0 {
            self.add("prefix_size", "prefix_extractor", format!("fixed:{}", f.prefix_size));
        }
        Ok(())
    }

    /// The members that are given; for some of them db_bench takes 0 as the engine's default.
    fn universal(&mut self) -> Result<(), String> {
        let f = self.flags;
        let stop_style = match f.universal_stop_style {
            0 => "kCompactionStopStyleSimilarSize",
            1 => "kCompactionStopStyleTotalSize",
            other => return Err(format!("universal_stop_style {other} is not known")),
        };
        let mut members = String::new();
        let mut add = |name: &str, value: String, is_set: bool| {
            if is_set && f.is_given(&format!("universal_{name}")) {
                members.push_str(&format!("{name}={value};"));
            }
        };
        let number = f.universal_size_ratio;
        add("size_ratio", number.to_string(), number > 0);
        let number = f.universal_min_merge_width;
        add("min_merge_width", number.to_string(), number > 0);
        let number = f.universal_max_merge_width;
        add("max_merge_width", number.to_string(), number > 0);
        let number = f.universal_max_size_amplification_percent;
        add("max_size_amplification_percent", number.to_string(), number > 0);
        add("compression_size_percent", f.universal_compression_size_percent.to_string(), true);
        add("stop_style", stop_style.to_string(), true);
        add("max_read_amp", f.universal_max_read_amp.to_string(), true);
        add("allow_trivial_move", f.universal_allow_trivial_move.to_string(), true);
        add("incremental", f.universal_incremental.to_string(), true);
        add("reduce_file_locking", f.universal_reduce_file_locking.to_string(), true);
        if !members.is_empty() {
            let members = format!("{{{members}}}");
            self.add("compaction_style", "compaction_options_universal", members);
        }
        Ok(())
    }

    fn compression(&mut self) -> Result<(), String> {
        let f = self.flags;
        let name = codec(&f.compression_type)?;
        self.add("compression_type", "compression", name);
        if f.min_level_to_compress >= 0 {
            let levels: Vec<&str> = (0..f.num_levels)
                .map(|level| if level < f.min_level_to_compress { "kNoCompression" } else { name })
                .collect();
            self.add("min_level_to_compress", "compression_per_level", levels.join(":"));
        }
        if let Some(manager) = compression_manager(f)? {
            self.add("compression_manager", "compression_manager", manager);
        }
        self.same_if_given("sample_for_compression", f.sample_for_compression);
        let flags = [
            "compression_level",
            "compression_parallel_threads",
            "compression_max_dict_bytes",
            "compression_zstd_max_train_bytes",
            "compression_max_dict_buffer_bytes",
            "compression_use_zstd_dict_trainer",
        ];
        if let Some(flag) = flags.into_iter().find(|flag| f.is_given(flag)) {
            let value = format!(
                "{{level={};parallel_threads={};max_dict_bytes={};zstd_max_train_bytes={};\
                 max_dict_buffer_bytes={};use_zstd_dict_trainer={};}}",
                f.compression_level,
                f.compression_parallel_threads,
                f.compression_max_dict_bytes,
                f.compression_zstd_max_train_bytes,
                f.compression_max_dict_buffer_bytes,
                f.compression_use_zstd_dict_trainer
            );
            self.add(flag, "compression_opts", value);
        }
        Ok(())
    }

    /// The format of tables, unless it is that of blocks.
    fn table_format(&mut self) -> Result<(), String> {
        let f = self.flags;
        if f.use_plain_table {
            eprintln!("Warning: plain table is used with {}", memtable_name(f));
            let bits = if f.bloom_bits < 0.0 { PLAIN_BLOOM_BITS } else { f.bloom_bits as i32 };
            let members = format!(
                "{{id=PlainTable;user_key_len={};bloom_bits_per_key={bits};hash_table_ratio=0.75}}",
                f.key_size
            );
            self.add("use_plain_table", "table_factory", members);
        } else if f.use_cuckoo_table {
            if !(0.0..=1.0).contains(&f.cuckoo_hash_ratio) {
                return Err("Invalid cuckoo_hash_ratio".into());
            }
            let given = f.options.iter().rfind(|given| given.option == "allow_mmap_reads");
            let maps = given.is_some_and(|given| given.value == "true");
            if !maps {
                return Err("cuckoo table format requires mmap read to operate".into());
            }
            let members = format!(
                "{{id=CuckooTable;hash_table_ratio={};identity_as_first_hash={}}}",
                f.cuckoo_hash_ratio, f.identity_as_first_hash
            );
            self.add("use_cuckoo_table", "table_factory", members);
        }
        Ok(())
    }

    fn table(&mut self) -> Result<(), String> {
        let f = self.flags;
        self.same("format_version", f.format_version);
        self.same("block_size", f.block_size);
        let checksum = match f.checksum_type {
            0 => "kNoChecksum",
            1 => "kCRC32c",
            2 => "kxxHash",
            3 => "kxxHash64",
            4 => "kXXH3",
            other => return Err(format!("checksum_type {other} is not known")),
        };
        self.add("checksum_type", "checksum", checksum);
        if f.bloom_bits > 0.0 {
            let policy = if f.use_ribbon_filter { "ribbonfilter" } else { "bloomfilter" };
            let tail = if f.use_ribbon_filter { "" } else { ":false" };
            self.add("bloom_bits", "filter_policy", format!("{policy}:{}{tail}", f.bloom_bits));
        }
        let pin = f.pin_l0_filter_and_index_blocks_in_cache;
        self.same("pin_l0_filter_and_index_blocks_in_cache", pin);
        match f.prepopulate_block_cache {
            0 => self.same_if_given("prepopulate_block_cache", "kDisable"),
            1 => self.same("prepopulate_block_cache", "kFlushOnly"),
            2 => self.same("prepopulate_block_cache", "kFlushAndCompaction"),
            other => return Err(format!("prepopulate_block_cache {other} is not known")),
        }
        self.filters();
        self.index()?;
        self.pinning()
    }

    fn filters(&mut self) {
        let f = self.flags;
        let detect = f.detect_filter_construct_corruption;
        self.same_if_given("detect_filter_construct_corruption", detect);
        if f.partition_index_and_filters {
            let flag = "partition_index_and_filters";
            self.add(flag, "partition_filters", true);
            self.add(flag, "decouple_partitioned_filters", f.decouple_partitioned_filters);
        }
    }

    /// The index. With several of its flags the last one of this list counts, as in RocksDB.
    fn index(&mut self) -> Result<(), String> {
        let f = self.flags;
        if f.use_hash_search {
            if f.prefix_size == 0 {
                return Err("prefix_size not assigned when enable use_hash_search".into());
            }
            self.add("use_hash_search", "index_type", "kHashSearch");
        }
        let flag = "partition_index_and_filters";
        let partitioned = f.partition_index_and_filters || f.partition_index;
        if partitioned {
            let alone = if f.partition_index { "partition_index" } else { flag };
            self.add(alone, "index_type", "kTwoLevelIndexSearch");
        } else if f.index_with_first_key {
            self.add("index_with_first_key", "index_type", "kBinarySearchWithFirstKey");
        }
        if f.use_trie_index {
            self.add("use_trie_index", "user_defined_index_factory", "trie_index");
        }
        let shortening = match f.index_shortening_mode {
            0 => "kNoShortening",
            1 => "kShortenSeparators",
            2 => "kShortenSeparatorsAndSuccessor",
            other => return Err(format!("Unknown key shortening mode {other}")),
        };
        self.add("index_shortening_mode", "index_shortening", shortening);
        if f.use_data_block_hash_index {
            let flag = "use_data_block_hash_index";
            self.add(flag, "data_block_index_type", "kDataBlockBinaryAndHash");
            let ratio = f.data_block_hash_table_util_ratio;
            self.same("data_block_hash_table_util_ratio", ratio);
        }
        Ok(())
    }

    fn pinning(&mut self) -> Result<(), String> {
        let f = self.flags;
        self.same("pin_top_level_index_and_filter", f.pin_top_level_index_and_filter);
        let tiers = [
            ("top_level_index_pinning", f.top_level_index_pinning),
            ("partition_pinning", f.partition_pinning),
            ("unpartitioned_pinning", f.unpartitioned_pinning),
        ];
        let Some((given, _)) = tiers.into_iter().find(|(flag, _)| f.is_given(flag)) else {
            return Ok(());
        };
        let mut text = String::from("{");
        for (flag, tier) in tiers {
            let names = ["kFallback", "kNone", "kFlushedAndSimilar", "kAll"];
            let name = usize::try_from(tier).ok().and_then(|i| names.get(i));
            let name = name.ok_or_else(|| format!("{flag} {tier} is not known"))?;
            text.push_str(&format!("{flag}={name};"));
        }
        self.add(given, "metadata_cache_options", text + "}");
        Ok(())
    }
}

/// RocksDB's name of a codec, from the flag's spelling; case is ignored.
pub fn codec(flag: &str) -> Result<&'static str, String> {
    Ok(match flag.to_ascii_lowercase().as_str() {
        "none" => "kNoCompression",
        "snappy" => "kSnappyCompression",
        "zlib" => "kZlibCompression",
        "bzip2" => "kBZip2Compression",
        "lz4" => "kLZ4Compression",
        "lz4hc" => "kLZ4HCCompression",
        "xpress" => "kXpressCompression",
        "zstd" => "kZSTD",
        _ => return Err(format!("Cannot parse compression type '{flag}'")),
    })
}

/// `cache_numshardbits`, within RocksDB's bounds; -1 for the cache's own choice.
///
/// # Errors
/// RocksDB does not create a cache with this many shards.
pub fn cache_shard_bits(flags: &Flags) -> Result<i32, String> {
    match flags.cache_numshardbits {
        bits @ -1..=19 => Ok(bits),
        bits => Err(format!("cache_numshardbits={bits}: must be in [-1, 19]")),
    }
}

/// The members of FIFO's options. Those that older engines do not know are in it if they are set.
fn fifo_members(f: &Flags) -> String {
    let mut members = format!(
        "max_table_files_size={};allow_compaction={};",
        f.fifo_compaction_max_table_files_size_mb << 20,
        f.fifo_compaction_allow_compaction
    );
    if f.fifo_compaction_max_data_files_size_mb > 0 {
        let bytes = f.fifo_compaction_max_data_files_size_mb.saturating_mul(1 << 20);
        members.push_str(&format!("max_data_files_size={bytes};"));
    }
    if f.fifo_compaction_use_kv_ratio_compaction {
        members.push_str("use_kv_ratio_compaction=true;");
    }
    if f.fifo_age_for_warm > 0 {
        members.push_str(&format!("age_for_warm={};", f.fifo_age_for_warm));
    }
    format!("{{{members}}}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::db_bench::option_flags::find;
    use pumice::Options;
    use std::collections::BTreeSet;

    /// Flags that are numbers, and the options whose names they stand for.
    const CODED: &[(&str, &str)] = &[
        ("checksum_type", "checksum"),
        ("compaction_pri", "compaction_pri"),
        ("compaction_style", "compaction_style"),
        ("index_shortening_mode", "index_shortening"),
        ("prepopulate_block_cache", "prepopulate_block_cache"),
    ];
    /// The one refusal without a list.
    const CHECKSUMS: &str = "kNoChecksum, kCRC32c, kxxHash, kxxHash64, kXXH3";
    /// Names that no number stands for, in RocksDB's db_bench either.
    const WITHOUT: &[&str] = &["kCompactionStyleNone"];

    #[pumice_test_macros::test]
    fn every_name_that_an_option_knows_has_its_number() {
        for (flag, option) in CODED {
            let is_table = find(option).unwrap().is_table;
            let mut options = Options::default();
            let set = |options: &mut Options, value: &str| match is_table {
                true => options.cf.table_factory.set(option, value),
                false => options.set(option, value),
            };
            // The refusal lists the names.
            let refusal = set(&mut options, "no such name").unwrap_err().to_string();
            let list =
                refusal.split_once("one of ").and_then(|(_, list)| list.split_once(", found"));
            let list = list.map_or(CHECKSUMS, |(list, _)| list);
            let mut reached = BTreeSet::new();
            for number in 0..10 {
                let mut flags = Flags::default();
                assert!(flags.assign(flag, number.to_string()));
                let Ok(named) = from_flags(&flags) else { continue };
                let list = if is_table { named.table } else { named.main };
                reached.extend(list.into_iter().filter(|o| o.name == *option).map(|o| o.value));
            }
            for name in list.split(", ").filter(|name| !WITHOUT.contains(name)) {
                assert!(reached.contains(name), "--{flag} has no number for {name}");
            }
        }
    }
}
