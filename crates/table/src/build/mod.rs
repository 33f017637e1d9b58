//! Builds a table from entries in internal-key order.
//!
//! ```text
//! data block* ‖ filter ‖ index ‖ range deletions ‖ properties ‖ metaindex ‖ footer
//! ```
//!
//! Per entry: one comparison with the last key, whose length of common prefix serves the order
//! check, the recognition of versions and the encoding; one hash per user key; copies into reused
//! buffers. No allocation, virtual call or atomic. Blocks end where RocksDB would end them.
//!
//! Thread safety: one owner. Invariants: (1) after a failed `add` or `finish` the table is
//! incomplete and the file must be removed; (2) the bytes depend on the arguments only.
//!
//! Not here: dictionaries, parallel compression; asking for them is refused.

mod block_builder;
#[allow(dead_code)] // Until the block builder keeps its keys here.
pub(crate) mod block_keys;
mod block_writer;
#[allow(dead_code)] // Until the table builder feeds it.
mod filter_block;
pub(crate) mod index_builder;

use std::cmp::Ordering;

use pumice_base::dbformat::{TRAILER_LEN, trailer, unpack, user_key};
use pumice_base::hash::hash64;
use pumice_base::{Comparator, Error, Result, ValueType};
use pumice_compress::CompressionType;
use pumice_env::BufferedWriter;
use pumice_filter::{FilterBuildSettings, FilterBuilder};

use crate::build::block_builder::BlockBuilder;
use crate::build::block_keys::BlockKeys;
use crate::build::block_writer::{BlockCompressor, BlockWriter};
use crate::build::index_builder::{IndexBuilder, IndexEntry, Separators};
use crate::data_block_hash::DataBlockHash;
use crate::footer::Footer;
use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};
use crate::metaindex;
use crate::options::{IndexType, TableBuildContext, TableReason};
use crate::prefix::common_prefix;
use crate::properties::{self, TableProperties};

/// Alignment of data blocks with `block_align`, at most.
const PAGE_BYTES: usize = 4096;

/// Builds one table.
pub struct TableBuilder {
    context: TableBuildContext,
    out: BlockWriter,
    compressor: BlockCompressor,
    data: BlockBuilder,
    /// Keys of the data block; only if something needs them.
    keys: BlockKeys,
    keep_keys: bool,
    hash: Option<DataBlockHash>,
    separators: Separators,
    entry: IndexEntry,
    index: IndexBuilder,
    filter: Option<FilterBuilder>,
    /// Range tombstones: internal start key, end key.
    tombstones: Vec<(Vec<u8>, Vec<u8>)>,
    properties: TableProperties,
    /// Fill above which a block may be closed early.
    almost_full: usize,
    largest_seqno: u64,
    smallest_seqno: u64,
    finished: bool,
}

impl TableBuilder {
    /// A builder that writes to `writer`, an empty file.
    ///
    /// # Errors
    /// `InvalidArgument` or `NotSupported` for settings that cannot be written.
    pub fn new(context: TableBuildContext, writer: BufferedWriter) -> Result<Self> {
        check_settings(&context)?;
        let options = &context.table;
        let version = options.format_version;
        let filter = match &options.filter_policy {
            Some(policy) if !context.skip_filters => policy.builder(&filter_settings(&context)),
            _ => None,
        };
        let deviation = 100 - options.block_size_deviation.min(100) as usize;
        let hash = DataBlockHash::new(&context);
        let plain = matches!(options.index_type, IndexType::BinarySearch | IndexType::TwoLevel);
        Ok(TableBuilder {
            data: BlockBuilder::new(options.block_restart_interval, options.use_delta_encoding),
            keys: BlockKeys::default(),
            keep_keys: hash.is_some() || !plain,
            hash,
            separators: Separators::new(&context),
            entry: IndexEntry::default(),
            index: IndexBuilder::new(&context)?,
            compressor: BlockCompressor::new(
                context.compression,
                &context.compression_opts,
                options.max_block_bytes,
                options.verify_compression,
            )?,
            filter,
            tombstones: Vec::new(),
            properties: initial_properties(&context),
            almost_full: (options.block_size * deviation).div_ceil(100),
            largest_seqno: 0,
            smallest_seqno: u64::MAX,
            finished: false,
            out: BlockWriter {
                offset: writer.len(),
                checksum: options.checksum,
                base_context: if version < 6 { 0 } else { base_context(&context) },
                writer,
            },
            context,
        })
    }

    /// Adds an entry. Point entries come in internal-key order; range tombstones (value = end
    /// key) may come at any time.
    ///
    /// # Errors
    /// `Corruption` for keys out of order or malformed; I/O errors.
    #[inline]
    pub fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(!self.finished, "add after finish");
        if ikey.len() < TRAILER_LEN {
            return Err(Error::corruption("internal key shorter than its trailer"));
        }
        let (sequence, tag) = unpack(trailer(ikey));
        if tag == ValueType::RangeDeletion as u8 {
            return self.add_tombstone(ikey, value, sequence);
        }
        let shared = common_prefix(self.data.last_key(), ikey);
        let same_user_key = self.check_order(ikey, shared)?;
        if !self.data.is_empty() && self.block_is_full(ikey.len(), value.len()) {
            self.flush_block(Some(ikey))?;
        }
        if !same_user_key && let Some(filter) = &mut self.filter {
            add_to_filter(filter, &self.context, user_key(ikey));
        }
        self.data.add_with_shared(ikey, value, shared);
        if self.keep_keys {
            self.keys.push(ikey);
        }
        self.count(ikey, value, sequence, tag);
        Ok(())
    }

    /// Statistics of an entry.
    #[inline]
    fn count(&mut self, ikey: &[u8], value: &[u8], sequence: u64, tag: u8) {
        const DELETION: u8 = ValueType::Deletion as u8;
        const SINGLE: u8 = ValueType::SingleDeletion as u8;
        const TIMED: u8 = ValueType::DeletionWithTimestamp as u8;
        const RANGE: u8 = ValueType::RangeDeletion as u8;
        let deletion = matches!(tag, DELETION | SINGLE | TIMED | RANGE);
        self.properties.num_entries += 1;
        self.properties.raw_key_size += ikey.len() as u64;
        self.properties.raw_value_size += value.len() as u64;
        self.properties.num_deletions += u64::from(deletion);
        self.properties.num_merge_operands += u64::from(tag == ValueType::Merge as u8);
        self.largest_seqno = self.largest_seqno.max(sequence);
        self.smallest_seqno = self.smallest_seqno.min(sequence);
    }

    /// Checks that `ikey` sorts after the last key; true if it is a version of the same user key.
    #[inline]
    fn check_order(&self, ikey: &[u8], shared: usize) -> Result<bool> {
        let last = self.data.last_key();
        if last.is_empty() {
            return Ok(false);
        }
        let (user_len, last_len) = (ikey.len() - TRAILER_LEN, last.len() - TRAILER_LEN);
        let same = user_len == last_len && shared >= user_len;
        let ascending = match &self.context.comparator.user {
            _ if same => trailer(last) > trailer(ikey),
            // Byte order is decided by the first byte that differs, or by the lengths.
            Comparator::Bytewise if shared < user_len.min(last_len) => last[shared] < ikey[shared],
            Comparator::Bytewise => last_len < user_len,
            user => match user.compare(user_key(last), user_key(ikey)) {
                Ordering::Less => true,
                Ordering::Equal => trailer(last) > trailer(ikey),
                Ordering::Greater => false,
            },
        };
        if ascending { Ok(same) } else { Err(self.out_of_order(ikey)) }
    }

    #[cold]
    fn out_of_order(&self, ikey: &[u8]) -> Error {
        Error::corruption(format!(
            "Keys must be added in strict ascending order: {:02x?} after {:02x?} in {}",
            ikey,
            self.data.last_key(),
            self.out.writer.path().display()
        ))
    }

    /// The block has its size, or would exceed it by this entry and is nearly full.
    #[inline]
    fn block_is_full(&mut self, key_len: usize, value_len: usize) -> bool {
        let options = &self.context.table;
        let hash = self.hash.as_mut().map_or(0, |hash| hash.bytes_for(self.keys.len()));
        let now = self.data.estimated_bytes() + hash;
        if now >= options.block_size {
            return true;
        }
        if options.block_size_deviation == 0 {
            return false;
        }
        let after = self.data.estimated_bytes_after(key_len, value_len) + hash;
        if options.block_align {
            return after + BLOCK_TRAILER_LEN > options.block_size;
        }
        after > options.block_size && now > self.almost_full
    }

    fn add_tombstone(&mut self, ikey: &[u8], end: &[u8], sequence: u64) -> Result<()> {
        let user = &self.context.comparator.user;
        if user.compare(user_key(ikey), end) == Ordering::Greater {
            return Err(Error::corruption("range tombstone ends before it starts"));
        }
        self.count(ikey, end, sequence, ValueType::RangeDeletion as u8);
        self.properties.num_range_deletions += 1;
        self.tombstones.push((ikey.to_vec(), end.to_vec()));
        Ok(())
    }

    /// Writes the current data block; `next_key` begins the next one.
    #[inline(never)]
    fn flush_block(&mut self, next_key: Option<&[u8]>) -> Result<()> {
        let first_key = if self.keep_keys { self.keys.get(0) } else { &[] };
        self.separators.prepare(self.data.last_key(), next_key, first_key, &mut self.entry);
        if self.separators.wants_prefixes() {
            self.separators.note_prefixes(self.keys.user_keys(), &mut self.entry);
        }
        self.entry.cut_after = self.index.wants_cut(&self.entry);
        let block = self.data.finish();
        if let Some(hash) = &mut self.hash {
            hash.add_to(block, &self.keys);
        }
        self.keys.clear();
        let (block, kind) = self.compressor.compress(block)?;
        let handle = self.out.write(block, kind)?;
        self.data.reset();
        self.index.push(&self.entry, handle);
        if self.context.table.block_align {
            self.out.align(self.context.table.block_size.min(PAGE_BYTES))?;
        }
        self.properties.num_data_blocks += 1;
        Ok(())
    }

    /// Writes everything behind the data blocks and flushes to the operating system.
    ///
    /// # Errors
    /// I/O errors; the file is then incomplete.
    pub fn finish(&mut self) -> Result<()> {
        assert!(!self.finished, "a table is finished once");
        if !self.data.is_empty() {
            self.flush_block(None)?;
        }
        self.properties.data_size = self.out.offset;
        self.properties.tail_start_offset = self.out.offset;
        let mut meta = MetaHandles::default();
        self.write_filter(&mut meta)?;
        let index = self.write_index(&mut meta)?;
        self.write_tombstones(&mut meta)?;
        self.write_properties(&mut meta)?;
        let in_footer = self.context.table.format_version < 6;
        if !in_footer {
            meta.add(metaindex::INDEX, index);
        }
        let metaindex = self.out.write_raw(meta.finish())?;
        let footer = Footer {
            checksum: self.context.table.checksum,
            format_version: self.context.table.format_version,
            base_context: self.out.base_context,
            metaindex,
            index: in_footer.then_some(index),
        };
        let bytes = footer.encode(self.out.offset);
        self.out.append(&bytes)?;
        self.finished = true;
        self.out.writer.flush()
    }

    fn write_filter(&mut self, meta: &mut MetaHandles) -> Result<()> {
        let Some(filter) = &mut self.filter else { return Ok(()) };
        if filter.is_empty() {
            return Ok(());
        }
        self.properties.num_filter_entries = filter.len() as u64;
        let contents = filter.finish()?;
        self.properties.filter_size = contents.len() as u64;
        let handle = self.out.write_raw(contents)?;
        meta.add(metaindex::FULL_FILTER, handle);
        Ok(())
    }

    fn write_index(&mut self, meta: &mut MetaHandles) -> Result<BlockHandle> {
        let compress = self.context.table.enable_index_compression;
        let (out, compressor) = (&mut self.out, &mut self.compressor);
        let result = self.index.finish(&mut |block| {
            if !compress {
                return out.write(block, CompressionType::None);
            }
            let (block, kind) = compressor.compress(block)?;
            out.write(block, kind)
        })?;
        for (name, mut block) in result.meta_blocks {
            let (block, kind) = self.compressor.compress(&mut block)?;
            meta.add(name, self.out.write(block, kind)?);
        }
        self.properties.index_size = result.size + BLOCK_TRAILER_LEN as u64;
        self.properties.index_partitions = result.partitions;
        self.properties.top_level_index_size = result.top_level_size;
        self.properties.index_key_is_user_key = u64::from(result.stores_user_keys);
        self.properties.index_value_is_delta_encoded = u64::from(result.delta_handles);
        Ok(result.handle)
    }

    fn write_tombstones(&mut self, meta: &mut MetaHandles) -> Result<()> {
        if self.tombstones.is_empty() {
            return Ok(());
        }
        let cmp = &self.context.comparator;
        self.tombstones.sort_by(|a, b| cmp.compare(&a.0, &b.0));
        let mut block = BlockBuilder::new(1, true);
        for (start, end) in &self.tombstones {
            block.add(start, end);
        }
        let handle = self.out.write(block.finish(), CompressionType::None)?;
        meta.add(metaindex::RANGE_DELETIONS, handle);
        Ok(())
    }

    fn write_properties(&mut self, meta: &mut MetaHandles) -> Result<()> {
        if self.properties.num_entries > 0 {
            self.properties.key_largest_seqno = self.largest_seqno;
            self.properties.key_smallest_seqno = self.smallest_seqno;
        }
        self.properties.compression = self.compression_name();
        let mut block = BlockBuilder::new(u32::MAX, true);
        for (name, value) in self.properties.encode() {
            block.add(&name, &value);
        }
        let handle = self.out.write(block.finish(), CompressionType::None)?;
        meta.add(metaindex::PROPERTIES, handle);
        Ok(())
    }

    /// The compression property: the type asked for, or from format 7 on the types used.
    fn compression_name(&self) -> String {
        let asked = self.context.compression;
        if self.context.table.format_version < 7 {
            return asked.property_name().to_string();
        }
        if asked == CompressionType::None {
            return ";;".to_string();
        }
        let mut name = "BuiltinV2;".to_string();
        for number in self.compressor.types_used() {
            name.push_str(&format!("{number:02X}"));
        }
        name.push(';');
        name
    }

    /// `finish`, then makes the file durable if `sync` is set, and closes it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn finish_file(&mut self, sync: bool, use_fsync: bool) -> Result<()> {
        if !self.finished {
            self.finish()?;
        }
        if sync {
            self.out.writer.sync(use_fsync)?;
        }
        self.out.writer.close()
    }

    /// Gives up: closes the file as it is. The caller removes it.
    ///
    /// # Errors
    /// I/O errors of closing.
    pub fn abandon(mut self) -> Result<()> {
        self.finished = true;
        self.out.writer.close()
    }

    /// Entries so far, range tombstones included.
    pub fn num_entries(&self) -> u64 {
        self.properties.num_entries
    }

    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.properties.num_entries == 0
    }

    /// Bytes of the file so far; after `finish`, of the whole file.
    #[inline]
    pub fn file_size(&self) -> u64 {
        self.out.offset
    }

    /// Bytes that the file would have if it were finished now, roughly.
    pub fn estimated_file_size(&self) -> u64 {
        if self.finished {
            return self.out.offset;
        }
        let filter = self.filter.as_ref().map_or(0, |f| f.space(f.len()));
        self.out.offset
            + (self.data.estimated_bytes() + self.index.estimated_bytes() + filter) as u64
    }

    /// The properties; complete after `finish`.
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// Bytes behind the data blocks. Requires `finish`.
    pub fn tail_size(&self) -> u64 {
        self.out.offset - self.properties.tail_start_offset
    }

    /// Smallest and largest sequence number added; `None` for an empty table.
    pub fn seqno_bounds(&self) -> Option<(u64, u64)> {
        (!self.is_empty()).then_some((self.smallest_seqno, self.largest_seqno))
    }

    /// The running checksum of the file, if the writer keeps one.
    pub fn file_checksum(&self) -> Option<u32> {
        self.out.writer.checksum()
    }

    /// The writer, to sync and close it separately.
    pub fn take_writer(self) -> BufferedWriter {
        self.out.writer
    }
}

/// The entries of a metaindex block, kept sorted by name.
#[derive(Default)]
struct MetaHandles(std::collections::BTreeMap<&'static str, BlockHandle>);

impl MetaHandles {
    fn add(&mut self, name: &'static str, handle: BlockHandle) {
        self.0.insert(name, handle);
    }

    fn finish(&self) -> Vec<u8> {
        let mut block = BlockBuilder::new(1, true);
        let mut value = Vec::new();
        for (name, handle) in &self.0 {
            value.clear();
            handle.encode_to(&mut value);
            block.add(name.as_bytes(), &value);
        }
        std::mem::take(block.finish())
    }
}

fn filter_settings(context: &TableBuildContext) -> FilterBuildSettings {
    FilterBuildSettings {
        format_version: context.table.format_version,
        level: match (context.reason, context.level) {
            (TableReason::Flush, _) => FilterBuildSettings::FLUSH,
            (_, -1) => FilterBuildSettings::UNKNOWN_LEVEL,
            (_, level) => level,
        },
        optimize_for_memory: context.table.optimize_filters_for_memory,
        detect_corruption: context.table.detect_filter_construct_corruption,
    }
}

#[inline]
fn add_to_filter(filter: &mut FilterBuilder, context: &TableBuildContext, key: &[u8]) {
    let whole = context.table.whole_key_filtering;
    match &context.prefix_extractor {
        None if whole => filter.add_key(key),
        Some(extractor) if extractor.in_domain(key) => {
            let prefix = extractor.transform(key);
            if whole { filter.add_key_and_alt(key, prefix) } else { filter.add_key(prefix) }
        }
        Some(_) if whole => filter.add_key(key),
        _ => {}
    }
}

fn check_settings(context: &TableBuildContext) -> Result<()> {
    let options = &context.table;
    options.validate_for_building()?;
    if options.block_align && context.compression != CompressionType::None {
        return Err(Error::invalid_argument("Enable block_align, but compression enabled"));
    }
    if context.compression_opts.max_dict_bytes > 0 {
        return Err(Error::not_supported("writing tables with compression dictionaries"));
    }
    if context.compression_opts.parallel_threads > 1 {
        return Err(Error::not_supported("parallel compression"));
    }
    Ok(())
}

/// A nonzero base for the context checksums that differs between files.
fn base_context(context: &TableBuildContext) -> u32 {
    let origin =
        format!("{}\0{}\0{}", context.db_id, context.db_session_id, context.original_file_number);
    (hash64(origin.as_bytes()) as u32) | 1
}

/// What is known before the first entry.
fn initial_properties(context: &TableBuildContext) -> TableProperties {
    let options = &context.table;
    let or_null = |name: Option<String>| name.unwrap_or_else(|| "nullptr".to_string());
    let extractor = context.prefix_extractor.as_ref();
    let mut properties = TableProperties {
        column_family_id: u64::from(context.column_family_id),
        column_family_name: context.column_family_name.clone(),
        comparator: context.comparator.user.name().to_string(),
        compression_options: context.compression_opts.property_text(),
        creation_time: context.oldest_ancestor_time,
        oldest_key_time: context.oldest_key_time,
        newest_key_time: context.newest_key_time,
        file_creation_time: context.file_creation_time,
        original_file_number: context.original_file_number,
        db_id: context.db_id.clone(),
        db_session_id: context.db_session_id.clone(),
        db_host_id: context.db_host_id.clone(),
        filter_policy: options.filter_policy.map_or(String::new(), |p| p.name().to_string()),
        format_version: u64::from(options.format_version),
        merge_operator: or_null(context.merge_operator_name.clone()),
        prefix_extractor: or_null(extractor.map(|e| e.name())),
        property_collectors: "[]".to_string(),
        ..Default::default()
    };
    let flag: fn(bool) -> &'static [u8] = |on| if on { b"1" } else { b"0" };
    properties.collect(properties::INDEX_TYPE, &(options.index_type as u32).to_le_bytes());
    properties.collect(properties::WHOLE_KEY_FILTERING, flag(options.whole_key_filtering));
    properties.collect(properties::PREFIX_FILTERING, flag(extractor.is_some()));
    for (name, value) in &context.user_collected {
        properties.collect(name, value);
    }
    properties
}
