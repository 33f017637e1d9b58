//! `sst_dump --command=recompress --json`: one JSON document about all files, with the members that
//! RocksDB's tool (11.12) prints.
//!
//! ```text
//! block_size, baselines: [a file as it is stored], measurements: [a codec and level on a file],
//! properties: [those of a file, and of the last table built from it]   with --show_properties
//! ```
//!
//! Sizes are bytes of blocks without their trailers. Times are microseconds of the clock and of the
//! process's processors. Bytes of texts that are not printable ASCII are written as `\u00XX`.
//!
//! Thread safety: one owner. Not here: what is tried, which is in `recompress`.

use std::fmt::{Display, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pumice::{CompressionOptions, CompressionType};
use pumice_base::Result;
use pumice_base::coding::get_varint64;
use pumice_port::time;
use pumice_table::{
    BLOCK_TRAILER_LEN, BuildStats, Table, TableProperties, TableReadOptions, TableStats, dump,
};

const TRAILER: u64 = BLOCK_TRAILER_LEN as u64;

/// What some work took, in microseconds.
#[derive(Clone, Copy, Default)]
pub struct Spent {
    wall: u64,
    cpu: u64,
}

/// Does `work` and says what it took.
///
/// # Errors
/// Those of `work`.
pub fn timed<R>(work: impl FnOnce() -> Result<R>) -> Result<(R, Spent)> {
    let (wall, cpu) = (time::now_micros(), time::process_cpu_micros());
    let result = work()?;
    let spent = Spent {
        wall: time::now_micros().saturating_sub(wall),
        cpu: time::process_cpu_micros().saturating_sub(cpu),
    };
    Ok((result, spent))
}

/// What is counted while a table is read: bytes of compressed blocks, and what they became.
#[derive(Default)]
pub struct Reads {
    packed: AtomicU64,
    unpacked: AtomicU64,
}

impl TableStats for Reads {
    fn decompressed(&self, from_bytes: usize, to_bytes: usize, _nanos: Option<u64>) {
        self.packed.fetch_add(from_bytes as u64, Relaxed);
        self.unpacked.fetch_add(to_bytes as u64, Relaxed);
    }
}

/// A walk over a table.
pub struct Walked {
    spent: Spent,
    /// Stored bytes of its index blocks.
    index_bytes: u64,
    /// How much larger blocks became when they were decompressed. As in RocksDB the size that
    /// stands in front of a compressed block is gained, too.
    gained: u64,
}

/// Reads all of `table`, whose context has `reads`.
///
/// # Errors
/// Of the table.
pub fn walk_all(table: &Arc<Table>, reads: &Reads) -> Result<Walked> {
    let gained = || reads.unpacked.load(Relaxed).saturating_sub(reads.packed.load(Relaxed));
    let before = gained();
    let ((), spent) = timed(|| {
        let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        let mut iter = table.iter(&options);
        iter.seek_to_first();
        while iter.valid() {
            iter.next();
        }
        iter.status()
    })?;
    let gained = gained().saturating_sub(before);
    Ok(Walked { spent, index_bytes: dump::index_bytes(table)?, gained })
}

/// A table that was built.
pub struct Built {
    pub codec: CompressionType,
    pub options: CompressionOptions,
    /// Its index was compressed, too.
    pub packs_index: bool,
    pub properties: TableProperties,
    pub stats: BuildStats,
    pub written: Spent,
}

impl Built {
    /// Bytes of its data blocks before compression.
    fn raw_data(&self) -> u64 {
        let stats = &self.stats;
        let all = stats.bytes_compressed_from + stats.bytes_rejected + stats.bytes_bypassed;
        let index = if self.packs_index { untrailed_index(&self.properties) } else { 0 };
        all.saturating_sub(index)
    }
}

/// The document, as it grows.
#[derive(Default)]
pub struct Document {
    baselines: Vec<String>,
    measurements: Vec<String>,
    properties: Vec<String>,
}

impl Document {
    /// A file as it is stored.
    pub fn baseline(&mut self, path: &Path, properties: &TableProperties, walked: &Walked) {
        let (stored, index) = (untrailed_data(properties), untrailed_index(properties));
        let raw = stored.saturating_add(walked.gained);
        let object = Object::default()
            .text("file", path.as_os_str().as_encoded_bytes())
            .text("compression_type", properties.compression.as_bytes())
            .with("num_data_blocks", properties.num_data_blocks)
            .with("compressed_data_payload", stored)
            .with("uncompressed_data_payload", raw)
            .with("uncompressed_index_payload", index)
            .with("compressed_index_payload", walked.index_bytes)
            .with("ratio", ratio(raw, stored))
            .with("read_usec", walked.spent.wall)
            .with("read_cpu_usec", walked.spent.cpu);
        self.baselines.push(object.end());
    }

    /// A table built from the file, by the compression manager of that name if one was given.
    pub fn measurement(
        &mut self,
        path: &Path,
        built: &Built,
        read: &Walked,
        manager: Option<&str>,
    ) {
        let (properties, stats) = (&built.properties, &built.stats);
        let (stored, raw) = (untrailed_data(properties), built.raw_data());
        let manager = manager.map_or("null".to_string(), |name| quoted(name.as_bytes()));
        let counted = stats.blocks_compressed + stats.blocks_rejected + stats.blocks_bypassed;
        let object = Object::default()
            .text("file", path.as_os_str().as_encoded_bytes())
            .text("compression_type", built.codec.option_name().as_bytes())
            .with("compressed_data_payload", stored)
            .with("uncompressed_data_payload", raw)
            .with("uncompressed_index_payload", untrailed_index(properties))
            .with("compressed_index_payload", read.index_bytes)
            .with("ratio", ratio(raw, stored))
            .with("write_usec", built.written.wall)
            .with("read_usec", read.spent.wall)
            .with("write_cpu_usec", built.written.cpu)
            .with("read_cpu_usec", read.spent.cpu)
            .with("num_data_blocks", properties.num_data_blocks.max(counted))
            .with("blocks_compressed", stats.blocks_compressed)
            .with("blocks_compression_rejected", stats.blocks_rejected)
            .with("blocks_compression_bypassed", stats.blocks_bypassed)
            .with("compression_manager", manager)
            .with("compression_options", options(&built.options));
        self.measurements.push(object.end());
    }

    /// The properties of a file and of the last table that was built from it.
    pub fn properties(
        &mut self,
        path: &Path,
        input: (&TableProperties, &Walked),
        last: Option<&Built>,
        hex: bool,
    ) {
        let raw = untrailed_data(input.0).saturating_add(input.1.gained);
        let mut object = Object::default()
            .text("file", path.as_os_str().as_encoded_bytes())
            .with("input_properties", table(input.0, raw, hex));
        if let Some(built) = last {
            let output = table(&built.properties, built.raw_data(), hex);
            object = object.with("output_properties", output);
        }
        self.properties.push(object.end());
    }

    /// The text of it.
    pub fn text(&self, block_size: usize) -> String {
        let list = |items: &[String]| format!("[{}]", items.join(","));
        let mut object = Object::default()
            .with("block_size", block_size)
            .with("baselines", list(&self.baselines))
            .with("measurements", list(&self.measurements));
        if !self.properties.is_empty() {
            object = object.with("properties", list(&self.properties));
        }
        object.end() + "\n"
    }
}

/// Bytes of the data blocks without trailers.
fn untrailed_data(properties: &TableProperties) -> u64 {
    let trailers = properties.num_data_blocks.saturating_mul(TRAILER);
    properties
        .data_size
        .checked_sub(trailers)
        .filter(|&left| left > 0)
        .unwrap_or(properties.data_size)
}

/// Bytes of the index before compression; the property has one trailer, however many blocks.
fn untrailed_index(properties: &TableProperties) -> u64 {
    let left = properties.index_size.checked_sub(TRAILER).filter(|&left| left > 0);
    left.unwrap_or(properties.index_size)
}

fn ratio(raw: u64, stored: u64) -> String {
    let ratio = if stored == 0 { 0.0 } else { raw as f64 / stored as f64 };
    format!("{ratio:.6}")
}

/// All options of the codec.
fn options(of: &CompressionOptions) -> String {
    Object::default()
        .with("window_bits", of.window_bits)
        .with("level", of.level)
        .with("strategy", of.strategy)
        .with("max_dict_bytes", of.max_dict_bytes)
        .with("zstd_max_train_bytes", of.zstd_max_train_bytes)
        .with("parallel_threads", of.parallel_threads)
        .with("enabled", of.enabled)
        .with("max_dict_buffer_bytes", of.max_dict_buffer_bytes)
        .with("use_zstd_dict_trainer", of.use_zstd_dict_trainer)
        .with("max_compressed_bytes_per_kb", of.max_compressed_bytes_per_kb)
        .with("auto_skip", of.auto_skip)
        .with("auto_skip_min_sample_every", of.auto_skip_min_sample_every)
        .with("checksum", of.checksum)
        .end()
}

/// Names of numbers that only newer files have, in the table and in the document.
const NEWER: [(&str, &str); 3] = [
    ("rocksdb.num.data.blocks.compression.bypassed", "num_data_blocks_compression_bypassed"),
    ("rocksdb.num.data.blocks.compression.rejected", "num_data_blocks_compression_rejected"),
    ("rocksdb.uncompressed.data.size", "uncompressed_data_size"),
];

/// The properties of a table whose data blocks had `raw` bytes.
fn table(p: &TableProperties, raw: u64, hex: bool) -> String {
    let newer = NEWER.map(|(name, member)| {
        let stored = p.collected(name).and_then(get_varint64);
        (member, stored.map_or(0, |(number, _)| number))
    });
    let mut numbers = vec![
        ("data_size", p.data_size),
        ("fast_compression_estimated_data_size", p.fast_compression_size),
        ("filter_size", p.filter_size),
        ("index_partitions", p.index_partitions),
        ("index_size", p.index_size),
        ("num_data_blocks", p.num_data_blocks),
        ("num_deletions", p.num_deletions),
        ("num_entries", p.num_entries),
        ("num_filter_entries", p.num_filter_entries),
        ("num_merge_operands", p.num_merge_operands),
        ("num_range_deletions", p.num_range_deletions),
        ("num_uniform_blocks", p.num_uniform_blocks),
        ("raw_key_size", p.raw_key_size),
        ("raw_value_size", p.raw_value_size),
        ("slow_compression_estimated_data_size", p.slow_compression_size),
        ("top_level_index_size", p.top_level_index_size),
    ];
    numbers.extend(newer);
    numbers.sort();
    numbers.extend([
        ("compressed_data_payload", untrailed_data(p)),
        ("uncompressed_data_payload", raw),
        ("uncompressed_index_payload", untrailed_index(p)),
        ("trailer_overhead", p.num_data_blocks.saturating_mul(TRAILER)),
    ]);
    let all = numbers.into_iter().fold(Object::default(), |all, (name, n)| all.with(name, n));
    let all = all.text("compression_name", p.compression.as_bytes());
    let mut collected = Object::default();
    for (name, value) in dump::collected(p) {
        if NEWER.iter().all(|(newer, _)| newer.as_bytes() != name) {
            let shown =
                value.iter().fold(String::new(), |shown, byte| format!("{shown}{byte:02X}"));
            let value = if hex { shown.as_bytes() } else { &value };
            collected = collected.member(&quoted(&name), quoted(value));
        }
    }
    all.with("user_collected_properties", collected.end()).end()
}

/// The members of a JSON object, in their order.
#[derive(Default)]
struct Object(String);

impl Object {
    fn member(mut self, quoted_name: &str, value: impl Display) -> Self {
        let comma = if self.0.is_empty() { "" } else { "," };
        write!(self.0, "{comma}{quoted_name}:{value}").expect("a string takes all");
        self
    }

    /// A member that is no text.
    fn with(self, name: &str, value: impl Display) -> Self {
        self.member(&quoted(name.as_bytes()), value)
    }

    fn text(self, name: &str, value: &[u8]) -> Self {
        self.with(name, quoted(value))
    }

    fn end(self) -> String {
        format!("{{{}}}", self.0)
    }
}

fn quoted(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for &byte in text {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => write!(out, "\\u{byte:04x}").expect("a string takes all"),
        }
    }
    out + "\""
}
