//! `sst_dump --command=recompress`: how large a table would be with other codecs and levels, and
//! how long building it takes, in the words of RocksDB's tool (7.8).
//!
//! The table is built again in memory from its point entries, by the engine's builder: with
//! `--compression_parallel_threads` helpers join in, with `--verify_compression` each block is
//! decompressed and compared. Nothing is written to disk. With `--json` see `measured`.

use std::path::Path;
use std::sync::Arc;

use pumice::{CompressionManager, CompressionOptions, CompressionType, Options};
use pumice_base::Result;
use pumice_env::{BufferedWriter, FileOptions, FileSystem, MemFs, WriterOptions};
use pumice_port::helpers::HelperPool;
use pumice_port::time;
use pumice_table::{Table, TableBuildContext, TableBuilder, TableOptions, TableReadOptions};

use super::measured::{Built, Document, Reads, timed, walk_all};
use super::open_table_with;
use crate::arguments::Arguments;
use crate::output::Output;

/// The switches of this command.
pub const SWITCHES: &[&str] = &[
    "compression_use_zstd_finalize_dict",
    "compression_auto_skip",
    "enable_index_compression",
    "verify_compression",
];

/// Flags of `recompress` with a value.
pub const VALUES: &[&str] = &[
    "set_block_size",
    "block_size",
    "compression_types",
    "compression_level",
    "compression_level_from",
    "compression_level_to",
    "compression_max_dict_bytes",
    "compression_zstd_max_train_bytes",
    "compression_max_dict_buffer_bytes",
    "compression_parallel_threads",
    "compression_strategy",
    "compression_max_compressed_bytes_per_kb",
    "block_based_table_options",
    "compression_manager",
    "compression_auto_skip_min_sample_every",
];

/// Default block size of RocksDB's tool.
const BLOCK_BYTES: usize = 16 << 10;
/// The codecs tried by default.
const ALL: [CompressionType; 7] = [
    CompressionType::None,
    CompressionType::Snappy,
    CompressionType::Zlib,
    CompressionType::Bzip2,
    CompressionType::Lz4,
    CompressionType::Lz4hc,
    CompressionType::Zstd,
];

/// The name of a table that is built.
const BUILT: &str = "/recompressed.sst";

/// The point entries of `table`.
fn entries_of(table: &Arc<Table>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let reads = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let (mut iter, mut entries) = (table.iter(&reads), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().map(|()| entries)
}

/// What to try.
pub struct Trials {
    manager: Option<CompressionManager>,
    codecs: Vec<CompressionType>,
    levels: Vec<i32>,
    options: CompressionOptions,
    table: TableOptions,
}

/// The options of the tables that are built: those of `--block_based_table_options`, changed by the
/// other flags.
fn table_options(arguments: &Arguments) -> std::result::Result<TableOptions, String> {
    let mut options = Options::default();
    options.tables().block_size = BLOCK_BYTES;
    if let Some(text) = arguments.text("block_based_table_options")? {
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let set = options.set("block_based_table_factory", &format!("{{{inner}}}"));
        set.map_err(|error| format!("block_based_table_options: {error}"))?;
    }
    let table = options.tables().to_table_options();
    let mut table = table.map_err(|error| error.to_string())?;
    for flag in ["block_size", "set_block_size"] {
        table.block_size = arguments.number(flag)?.unwrap_or(table.block_size);
    }
    table.verify_compression |= arguments.flag("verify_compression");
    let compress = arguments.switch("enable_index_compression");
    table.enable_index_compression = compress.unwrap_or(table.enable_index_compression);
    Ok(table)
}

/// `--compression_manager`, with the words of RocksDB's tool.
fn manager(arguments: &Arguments) -> std::result::Result<Option<CompressionManager>, String> {
    let Some(name) = arguments.text("compression_manager")? else { return Ok(None) };
    if matches!(name, "" | "nullptr") {
        return Err(format!("No compression manager created: {name}"));
    }
    let unknown = || {
        format!(
            "Failed to create compression manager: Not implemented: Could not load \
             CompressionManager: {name}"
        )
    };
    CompressionManager::from_name(name).map(Some).ok_or_else(unknown)
}

/// `--compression_auto_skip` and its interval.
fn auto_skip(
    arguments: &Arguments,
    options: &mut CompressionOptions,
) -> std::result::Result<(), String> {
    options.auto_skip = arguments.flag("compression_auto_skip");
    let every = arguments.number::<i64>("compression_auto_skip_min_sample_every")?;
    let every = i32::try_from(every.unwrap_or_default()).ok().and_then(|n| u32::try_from(n).ok());
    let wrong = || "compression_auto_skip_min_sample_every out of range".to_string();
    options.auto_skip_min_sample_every = every.ok_or_else(wrong)?;
    Ok(())
}

impl Trials {
    /// The settings from the flags.
    ///
    /// # Errors
    /// A complaint about them.
    pub fn parse(arguments: &Arguments) -> std::result::Result<Self, String> {
        let codec = |name: &str| {
            let known = CompressionType::from_option_name(name).filter(|kind| ALL.contains(kind));
            known.ok_or_else(|| format!("{name} is not a valid CompressionType"))
        };
        let codecs = match arguments.text("compression_types")? {
            None => ALL.to_vec(),
            Some(names) => names.split(',').map(codec).collect::<std::result::Result<_, _>>()?,
        };
        let level = arguments.number::<i32>("compression_level")?;
        let from = arguments.number::<i32>("compression_level_from")?;
        let to = arguments.number::<i32>("compression_level_to")?;
        let mut options = CompressionOptions::default();
        let levels = match (level, from, to) {
            (level, None, None) => vec![level.unwrap_or(options.level)],
            (None, Some(from), Some(to)) if codecs.len() == 1 && from <= to => {
                (from..=to).collect()
            }
            _ => {
                return Err("--compression_level_from and --compression_level_to go together, \
                            with one codec, from the smaller to the larger"
                    .to_string());
            }
        };
        let number = |flag| arguments.number::<u32>(flag).map(Option::unwrap_or_default);
        options.max_dict_bytes = number("compression_max_dict_bytes")?;
        options.zstd_max_train_bytes = number("compression_zstd_max_train_bytes")?;
        options.max_dict_buffer_bytes =
            arguments.number("compression_max_dict_buffer_bytes")?.unwrap_or(0);
        options.use_zstd_dict_trainer = !arguments.flag("compression_use_zstd_finalize_dict");
        options.parallel_threads = number("compression_parallel_threads")?.max(1);
        options.strategy = arguments.number("compression_strategy")?.unwrap_or_default();
        if !(0..=4).contains(&options.strategy) {
            return Err("compression_strategy must be from 0 to 4".to_string());
        }
        if let Some(limit) = arguments.number("compression_max_compressed_bytes_per_kb")? {
            options.max_compressed_bytes_per_kb = limit;
        }
        auto_skip(arguments, &mut options)?;
        let manager = manager(arguments)?;
        Ok(Trials { manager, codecs, levels, options, table: table_options(arguments)? })
    }

    /// Says which compression manager is used, if one is given.
    pub fn introduce(&self, out: &mut Output) {
        if let Some(manager) = self.manager {
            out.text(&format!("Using compression manager: {}\n", manager.name()));
        }
    }

    /// Size of data blocks.
    pub fn block_size(&self) -> usize {
        self.table.block_size
    }

    /// Tries all on the table at `path`, and adds what comes out to `document`; `hex` shows
    /// properties as hexadecimal digits, None no properties.
    ///
    /// # Errors
    /// The errors of reading the table and of building another.
    pub fn measure(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        hex: Option<bool>,
        document: &mut Document,
    ) -> Result<()> {
        let reads = Arc::new(Reads::default());
        let table = open_table_with(fs, path, Some(reads.clone()))?;
        let walked = walk_all(&table, &reads)?;
        document.baseline(path, table.properties(), &walked);
        let entries = entries_of(&table)?;
        let manager = self.manager.map(CompressionManager::name);
        let mut last = None;
        for codec in &self.codecs {
            for level in &self.levels {
                let options = CompressionOptions { level: *level, ..self.options.clone() };
                let files = MemFs::new(0);
                let (builder, written) = timed(|| {
                    let mut builder = self.builder(&files, &table, *codec, options.clone())?;
                    entries.iter().try_for_each(|(key, value)| builder.add(key, value))?;
                    builder.finish_file(false, false)?;
                    Ok(builder)
                })?;
                let reads = Arc::new(Reads::default());
                let again = open_table_with(&files, Path::new(BUILT), Some(reads.clone()))?;
                let built = Built {
                    codec: *codec,
                    options,
                    packs_index: self.table.enable_index_compression,
                    properties: builder.properties().clone(),
                    stats: builder.stats().clone(),
                    written,
                };
                document.measurement(path, &built, &walk_all(&again, &reads)?, manager);
                last = Some(built);
            }
        }
        if let Some(hex) = hex {
            document.properties(path, (table.properties(), &walked), last.as_ref(), hex);
        }
        Ok(())
    }

    /// Tries all on `table`.
    ///
    /// # Errors
    /// The errors of reading the table and of building another.
    pub fn run(&self, table: &Arc<Table>, out: &mut Output) -> Result<()> {
        out.text(&format!("Block Size: {}\n", self.table.block_size));
        for codec in &self.codecs {
            out.text(&format!("Compression: {:<24}\n", codec.option_name()));
            for level in &self.levels {
                let options = CompressionOptions { level: *level, ..self.options.clone() };
                out.text(&format!("Compression level: {level} "));
                out.text(&self.rebuild(table, *codec, options)?);
            }
        }
        Ok(())
    }

    /// A builder of a table in `fs` for the entries of `table`.
    fn builder(
        &self,
        fs: &MemFs,
        table: &Table,
        compression: CompressionType,
        compression_opts: CompressionOptions,
    ) -> Result<TableBuilder> {
        let context = TableBuildContext {
            table: Arc::new(self.table.clone()),
            comparator: table.comparator().clone(),
            compression,
            compression_opts,
            compression_manager: self.manager,
            helpers: Some(HelperPool::shared()),
            ..TableBuildContext::default()
        };
        let file = fs.create(Path::new(BUILT), &FileOptions::default())?;
        TableBuilder::new(context, BufferedWriter::new(file, WriterOptions::new(1 << 20)))
    }

    /// Builds the table; the line about it.
    fn rebuild(
        &self,
        table: &Arc<Table>,
        compression: CompressionType,
        compression_opts: CompressionOptions,
    ) -> Result<String> {
        let fs = MemFs::new(0);
        let begun = time::now_micros();
        let mut builder = self.builder(&fs, table, compression, compression_opts)?;
        let reads = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        let mut iter = table.iter(&reads);
        iter.seek_to_first();
        while iter.valid() {
            builder.add(iter.key().as_bytes(), iter.value())?;
            iter.next();
        }
        iter.status()?;
        builder.finish_file(false, false)?;
        let micros = time::now_micros().saturating_sub(begun);
        let blocks = builder.properties().num_data_blocks;
        let stats = builder.stats();
        // Index blocks are compressed and counted, too.
        // None without a codec, as in RocksDB.
        let none = if compression.is_codec() { stats.blocks_bypassed } else { 0 };
        let raw = blocks.saturating_sub(stats.blocks_compressed + none);
        let percent = |count: u64| (count as f64 * 100.0 / blocks.max(1) as f64).min(100.0);
        let compressed = stats.blocks_compressed;
        Ok(format!(
            "Size: {:10} Blocks: {blocks:6} Time Taken: {micros:10} microsecs \
             Compressed: {compressed:6} ({:5.1}%) Not compressed (ratio): {raw:6} ({:5.1}%) \
             Not compressed (abort): {none:6} ({:5.1}%)\n",
            builder.file_size(),
            percent(compressed),
            percent(raw),
            percent(none),
        ))
    }
}
