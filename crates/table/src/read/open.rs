//! Opens a table: footer, metaindex, properties, range tombstones, index, filter.
//!
//! The end of the file is read in one go; blocks outside it are read separately. Everything read
//! here has its checksum verified, whatever the read options say. A table is opened only in the key
//! order that its properties name: in another its index would look damaged.

use pumice_base::narrow::to_usize;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use pumice_base::key::{U64_TS_SUFFIX, ValueType, parse_internal_key};
use pumice_base::range_tombstone::{FragmentedTombstones, RangeTombstone};
use pumice_base::{Comparator, Error, Result, UserKey};
use pumice_cache::ChargedRole;
use pumice_compress::{CompressionType, Dictionary};
use pumice_env::RandomAccessFile;

use crate::Extractor;
use crate::cache_usage::over_memory_limit;
use crate::footer::{FOOTER_LEN, Footer};
use crate::handle::{BlockHandle, BlockKind};
use crate::metaindex::MetaIndex;
use crate::options::{IndexType, PinningTier};
use crate::properties::{self, TableProperties};
use crate::read::block::{Block, Expanded, GlobalSeqno, KeyForm};
use crate::read::blocks::MetaBlock;
use crate::read::cached_block::{BlockCache, PinnedBlock};
use crate::read::context::{Origin, TableReadContext, TableReadOptions};
use crate::read::cursor::BlockCursor;
use crate::read::file::{BlockRead, TableFile, Tail};
use crate::read::index::IndexEncoding;
use crate::read::persistent::PersistentBlocks;
use crate::read::table::{HeldPartitions, Table, TableFilter};
use crate::unique_id;

/// Bytes read from the end of a file whose tail size is not known.
const DEFAULT_TAIL_BYTES: u64 = 16 << 10;
/// A larger tail is read block by block.
const MAX_TAIL_BYTES: u64 = 1 << 20;

/// Limit of sequence numbers over all fragments of a table's range tombstones, besides two for each
/// tombstone. A table written by a flush or compaction has one per fragment and snapshot, an
/// external file one in total.
const FRAGMENT_SEQS_MAX: usize = 8 << 20;

/// Which metadata blocks a table keeps outside of the cache's eviction.
struct Pins {
    top_level: bool,
    partitions: bool,
    unpartitioned: bool,
    level0: bool,
}

impl Pins {
    fn new(context: &TableReadContext, file_size: u64) -> Self {
        let options = &context.options;
        let level0 = context.level == 0;
        let flushed = level0 && file_size <= context.max_file_size_for_l0_meta_pin;
        let pins = |tier: PinningTier, fallback: bool| match tier {
            PinningTier::Fallback => fallback,
            PinningTier::None => false,
            PinningTier::FlushedAndSimilar => flushed,
            PinningTier::All => true,
        };
        let tiers = &options.metadata_pinning;
        let pin_l0 = options.pin_l0_filter_and_index_blocks_in_cache && flushed;
        Pins {
            top_level: pins(tiers.top_level_index, options.pin_top_level_index_and_filter),
            partitions: pins(tiers.partition, pin_l0),
            unpartitioned: pins(tiers.unpartitioned, pin_l0),
            level0,
        }
    }
}

/// A table being opened.
struct Opener {
    /// What the file was made from, if it is an image.
    origin: Option<Origin>,
    context: TableReadContext,
    file: TableFile,
    tail: Tail,
    footer: Footer,
    meta: MetaIndex,
}

impl Table {
    /// Opens the block-based table in `file`, which has `file_size` bytes.
    ///
    /// # Errors
    /// As [`Table::open`]; `NotSupported` for tables of other kinds.
    pub(crate) fn open_blocks(
        context: TableReadContext,
        file: Arc<dyn RandomAccessFile>,
        file_size: u64,
    ) -> Result<Arc<Table>> {
        let opener = Opener::start(context, file, file_size)?;
        opener.finish()
    }

    /// Opens a table of another format by its image.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub(crate) fn open_image(
        mut context: TableReadContext,
        image: Arc<dyn RandomAccessFile>,
        origin: Origin,
    ) -> Result<Arc<Table>> {
        context.tail_size = origin.tail_bytes;
        let bytes = image.len();
        let mut opener = Opener::start(context, image, bytes)?;
        opener.origin = Some(origin);
        opener.finish()
    }

    /// [`Table::read_properties`] of a block-based table.
    ///
    /// # Errors
    /// As [`Table::open_blocks`].
    pub(crate) fn read_properties_of_blocks(
        file: Arc<dyn RandomAccessFile>,
        file_size: u64,
    ) -> Result<TableProperties> {
        Opener::start(TableReadContext::default(), file, file_size)?.read_properties()
    }
}

impl Table {
    /// Charges what the table holds to the block cache, if the settings ask for it.
    ///
    /// # Errors
    /// `Aborted` with subcode `MemoryLimit`, in RocksDB's words, if a strict cache has no room.
    fn charge_memory(&mut self) -> Result<()> {
        let role = ChargedRole::BlockBasedTableReader;
        let Some(cache) = self.options.charged_cache(role) else { return Ok(()) };
        let charge = cache.try_reserve(role, self.approximate_memory()).map_err(|_| {
            let why = "memory limit based on cache capacity for memory allocation";
            over_memory_limit(role, why)
        })?;
        self.charge = Some(charge);
        Ok(())
    }
}

impl Opener {
    fn start(
        context: TableReadContext,
        file: Arc<dyn RandomAccessFile>,
        file_size: u64,
    ) -> Result<Opener> {
        let name = file.path().display().to_string();
        if file_size < FOOTER_LEN as u64 {
            return Err(Error::corruption(format!(
                "file is too short ({file_size} bytes) to be an sstable: {name}"
            )));
        }
        let tail_bytes = match context.tail_size {
            0 => DEFAULT_TAIL_BYTES,
            known if known <= MAX_TAIL_BYTES => known,
            _ => DEFAULT_TAIL_BYTES,
        };
        let tail_bytes = tail_bytes.max(FOOTER_LEN as u64).min(file_size);
        let start = file_size - tail_bytes;
        let mut bytes = vec![0; to_usize(tail_bytes)];
        let got = file.read_at(start, &mut bytes)?;
        if got != bytes.len() {
            return Err(Error::corruption(format!(
                "truncated read of the last {tail_bytes} of {file_size} bytes: {got} in {name}"
            )));
        }
        let footer_at = bytes.len() - FOOTER_LEN;
        let footer = Footer::decode(&bytes[footer_at..], file_size - FOOTER_LEN as u64, &name)?;
        let file = TableFile {
            file,
            len: file_size,
            checksum: footer.checksum,
            base_context: footer.base_context,
            max_block_bytes: context.options.max_block_bytes,
            dictionary: None,
            stats: context.stats.clone(),
            tracer: context.tracer.clone(),
            level: AtomicUsize::new(usize::try_from(context.level).unwrap_or(0)),
            persistent: None,
        };
        let tail = Tail::new(start, bytes);
        let contents = read(&file, &tail, footer.metaindex, BlockKind::MetaIndex)?;
        let meta = MetaIndex::decode(contents)
            .map_err(|what| file.bad_block(footer.metaindex, BlockKind::MetaIndex, what))?;
        Ok(Opener { origin: None, context, file, tail, footer, meta })
    }

    fn finish(mut self) -> Result<Arc<Table>> {
        let properties = self.read_properties()?;
        let most = block_bytes_max(&properties);
        self.file.max_block_bytes = self.file.max_block_bytes.max(most);
        self.check_identity(&properties)?;
        self.check_order(&properties)?;
        let global = properties.global_seqno(self.context.largest_seqno);
        let global = global.map_err(|error| error.with_context(self.file.name()))?;
        self.read_dictionary(&properties)?;
        let named = |error: Error| error.with_context(self.file.name());
        let index_type = properties.index_type().map_err(named)?;
        let missing = || Error::corruption(format!("no index block in {}", self.file.name()));
        let index_handle = self.footer.index.or(self.meta.index).ok_or_else(missing)?;
        let options = &self.context.options;
        let cache: Option<Arc<BlockCache>> =
            options.block_cache.clone().filter(|_| !options.no_block_cache);
        // What is cached of such a table has its number, which the file has in this database alone.
        let embeds = properties.collected(properties::EMBEDDED_BLOBS).is_some();
        let own = unique_id::cache_base(&properties).filter(|_| !embeds);
        let own = own.map(|own| self.origin.as_ref().map_or(own, |origin| origin.cache_base(own)));
        self.file.persistent = PersistentBlocks::of(options, own.filter(|_| self.origin.is_none()));
        let cache_base = own.unwrap_or_else(|| {
            // Ids of one cache are unique in it, and hashed words do not begin with 32 ones.
            [cache.as_ref().map_or(0, |c| c.new_id()), u64::MAX << 32]
        });
        let mut table = Table {
            index_encoding: IndexEncoding {
                user_keys: properties.index_key_is_user_key != 0,
                delta_handles: properties.index_value_is_delta_encoded != 0,
                first_keys: index_type == IndexType::BinarySearchWithFirstKey,
            },
            index_partitioned: index_type == IndexType::TwoLevel,
            has_trie: false,
            embeds,
            names_indexes: embeds && !self.context.raw_indexes,
            data_blocks: OnceLock::new(),
            protects: options.block_protection,
            measures_use: options.read_amp_bytes_per_bit > 0,
            index: MetaBlock::InCache(index_handle),
            index_partitions: None,
            filter: None,
            range_tombstones: None,
            trie: None,
            options: Arc::clone(options),
            comparator: self.context.comparator.clone(),
            footer: self.footer,
            file_number: self.context.file_number,
            global: GlobalSeqno::new(global),
            file_bytes: self.origin.as_ref().map_or(self.file.len, |origin| origin.file_bytes),
            other_format: self.origin.as_ref().map(|origin| origin.format),
            image_memory: self.origin.as_ref().map_or(0, |origin| origin.memory),
            file: self.file,
            properties,
            cache,
            cache_base,
            charge: None,
        };
        table.load_range_tombstones(&self.tail, &self.meta)?;
        let pins = Pins::new(&self.context, table.file.len);
        let pin = if table.index_partitioned { pins.top_level } else { pins.unpartitioned };
        table.index = table.hold(&self.tail, index_handle, BlockKind::Index, pin)?;
        if table.index_partitioned {
            table.index_partitions =
                table.hold_partitions(&self.tail, &table.index, BlockKind::Index, &pins)?;
        }
        table.load_trie(&self.tail, &self.meta)?;
        table.load_filter(&self.tail, &self.meta, &self.context, &pins)?;
        table.charge_memory()?;
        Ok(Arc::new(table))
    }

    /// The properties. If an ingested file's sequence number was overwritten in place, the checksum
    /// matches with those eight bytes zeroed (docs/format/table.md#ingested-files).
    fn read_properties(&self) -> Result<TableProperties> {
        let handle = self.meta.properties.ok_or_else(|| {
            Error::corruption(format!("no properties block in {}", self.file.name()))
        })?;
        let len = self.file.stored_len(handle, BlockKind::Properties)?;
        let stored = match self.tail.get(handle.offset, len) {
            Some(stored) => stored.to_vec(),
            None => read_stored(&self.file, handle, BlockKind::Properties, len)?,
        };
        let bad = |what: &str| self.file.bad_block(handle, BlockKind::Properties, what);
        let checked = self.file.open_stored(handle, BlockKind::Properties, true, &stored);
        if let Ok(contents) = checked {
            let raw = contents.len() as u64 == handle.size;
            let (mut properties, at) = decode_properties(contents).map_err(|e| bad(&e))?;
            if let Some(at) = at.filter(|_| raw) {
                let block = self.origin.as_ref().map_or(handle.offset, |o| o.properties_at);
                properties.global_seqno_offset = block + at as u64;
            }
            return Ok(properties);
        }
        let contents = stored.get(..to_usize(handle.size)).unwrap_or(&[]).to_vec();
        let Ok((properties, Some(at))) = decode_properties(contents) else {
            return Err(checked.err().unwrap_or_else(|| bad("unreadable")));
        };
        let mut zeroed = stored;
        zeroed.get_mut(at..at + 8).ok_or_else(|| bad("short block"))?.fill(0);
        self.file.open_stored(handle, BlockKind::Properties, true, &zeroed)?;
        Ok(properties)
    }

    fn check_identity(&self, properties: &TableProperties) -> Result<()> {
        let Some(expected) = self.context.expected_unique_id else { return Ok(()) };
        let Some(found) = unique_id::unique_id_of(properties) else { return Ok(()) };
        if expected == [0, 0] || expected == found {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "Mismatch in unique ID on table file {}. Expected: {:016X}-{:016X} Actual: \
             {:016X}-{:016X}",
            self.file.name(),
            expected[0],
            expected[1],
            found[0],
            found[1]
        )))
    }

    fn check_order(&self, properties: &TableProperties) -> Result<()> {
        let order = self.context.comparator.user.name();
        let recorded = properties.comparator.as_str();
        let recorded = match properties.user_timestamps_persisted {
            // The keys have lost the timestamps of that order.
            0 => recorded.strip_suffix(U64_TS_SUFFIX).unwrap_or(recorded),
            _ => recorded,
        };
        if recorded.is_empty() || recorded == order {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "{}: {order}: does not match existing comparator {}",
            self.file.name(),
            properties.comparator
        )))
    }

    fn read_dictionary(&mut self, properties: &TableProperties) -> Result<()> {
        let Some(handle) = self.meta.dictionary else { return Ok(()) };
        let kind = dictionary_codec(&properties.compression);
        if kind == CompressionType::None {
            return Ok(());
        }
        let bytes = read(&self.file, &self.tail, handle, BlockKind::Dictionary)?;
        if !bytes.is_empty() {
            self.file.dictionary = Some(Dictionary::new(kind, &bytes)?);
        }
        Ok(())
    }
}

/// The codec whose form of the dictionary has to be prepared, from the compression property.
fn dictionary_codec(property: &str) -> CompressionType {
    let Some((_, rest)) = property.split_once(';') else {
        return CompressionType::from_property_name(property).unwrap_or(CompressionType::Zstd);
    };
    let used = rest.trim_end_matches(';');
    let numbers = (0..used.len() / 2).filter_map(|i| used.get(2 * i..2 * i + 2));
    let types: Vec<_> = numbers
        .filter_map(|digits| u8::from_str_radix(digits, 16).ok())
        .filter_map(CompressionType::from_u8)
        .collect();
    match types.as_slice() {
        [] => CompressionType::None,
        types if types.contains(&CompressionType::Zstd) => CompressionType::Zstd,
        [first, ..] => *first,
    }
}

/// Reads a block from the tail if it is there, else from the file.
pub(crate) fn read(
    file: &TableFile,
    tail: &Tail,
    handle: BlockHandle,
    kind: BlockKind,
) -> Result<Vec<u8>> {
    let len = file.stored_len(handle, kind)?;
    match tail.get(handle.offset, len) {
        Some(stored) => file.open_stored(handle, kind, true, stored),
        None => file.read(handle, kind, BlockRead::CHECKED),
    }
}

fn read_stored(
    file: &TableFile,
    handle: BlockHandle,
    kind: BlockKind,
    len: usize,
) -> Result<Vec<u8>> {
    let mut stored = vec![0; len];
    let got = file.file.read_at(handle.offset, &mut stored)?;
    if got != len {
        return Err(file.bad_block(handle, kind, "truncated block read"));
    }
    Ok(stored)
}

/// Decodes a properties block; also where in it the value of the global sequence number lies.
pub(crate) fn decode_properties(
    contents: Vec<u8>,
) -> std::result::Result<(TableProperties, Option<usize>), String> {
    let block = Block::decode(contents, KeyForm::Raw)?;
    let mut properties = TableProperties::default();
    let mut global_seqno_at = None;
    let mut cursor = BlockCursor::default();
    // No Option: its unset bytes would be compared ahead of the test, and valgrind would complain.
    let (mut previous, mut is_first) = (Vec::new(), true);
    let mut names = Expanded::new(&block);
    cursor.seek_to_first(&block);
    while cursor.valid() {
        names.add(cursor.key())?;
        if !is_first && previous.as_slice() >= cursor.key() {
            return Err("properties unsorted".to_string());
        }
        let value = cursor.value(&block);
        if cursor.key() == properties::GLOBAL_SEQNO.as_bytes() && value.len() == 8 {
            global_seqno_at = Some(cursor.value_offset());
        }
        properties.decode_entry(cursor.key(), value).map_err(|e| e.message().to_string())?;
        previous.clear();
        previous.extend_from_slice(cursor.key());
        is_first = false;
        cursor.next(&block);
    }
    if cursor.damaged() {
        return Err("malformed entry".to_string());
    }
    Ok((properties, global_seqno_at))
}

impl Table {
    fn load_range_tombstones(&mut self, tail: &Tail, meta: &MetaIndex) -> Result<()> {
        let Some(handle) = meta.range_deletions else { return Ok(()) };
        let kind = BlockKind::RangeDeletion;
        let contents = read(&self.file, tail, handle, kind)?;
        let block = Block::decode(contents, KeyForm::Internal)
            .map_err(|what| self.file.bad_block(handle, kind, what))?;
        let mut tombstones = Vec::new();
        let mut cursor = BlockCursor::new(self.global);
        let mut starts = Expanded::new(&block);
        cursor.seek_to_first(&block);
        while cursor.valid() {
            starts.add(cursor.key()).map_err(|what| self.file.bad_block(handle, kind, what))?;
            let key = parse_internal_key(cursor.key())
                .map_err(|error| self.file.bad_block(handle, kind, error.message()))?;
            if key.value_type != ValueType::RangeDeletion {
                return Err(self.file.bad_block(handle, kind, "entry of another type"));
            }
            tombstones.push(RangeTombstone::of_stored(
                &self.comparator.user,
                key.user_key,
                UserKey::new(cursor.value(&block)),
                key.sequence,
            ));
            cursor.next(&block);
        }
        if cursor.damaged() {
            return Err(self.file.bad_block(handle, kind, "malformed entry"));
        }
        if !tombstones.is_empty() {
            // A sequence with a timestamp takes some eight times the memory of one without.
            let share = if self.comparator.user.timestamp_size() > 0 { 8 } else { 1 };
            let seqs_max = FRAGMENT_SEQS_MAX / share + 2 * tombstones.len();
            let list =
                FragmentedTombstones::build_within(tombstones, &self.comparator.user, seqs_max);
            let list = list.ok_or_else(|| {
                self.file.bad_block(handle, kind, "range tombstones nest too deep")
            })?;
            self.range_tombstones = Some(Arc::new(list));
        }
        Ok(())
    }

    /// Decides where a meta block lives and loads it.
    fn hold(
        &self,
        tail: &Tail,
        handle: BlockHandle,
        kind: BlockKind,
        pin: bool,
    ) -> Result<MetaBlock> {
        if !self.options.cache_index_and_filter_blocks || self.cache.is_none() {
            let contents = read(&self.file, tail, handle, kind)?;
            let block = self.decode(contents, handle, kind)?;
            return Ok(MetaBlock::Held(PinnedBlock::Owned(Arc::new(block))));
        }
        let block = self.load_through_cache(tail, handle, kind)?;
        Ok(if pin { MetaBlock::Held(block) } else { MetaBlock::InCache(handle) })
    }

    fn load_through_cache(
        &self,
        tail: &Tail,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<PinnedBlock> {
        if let Some(block) = self.cached(handle, kind)? {
            return Ok(block);
        }
        let contents = read(&self.file, tail, handle, kind)?;
        self.admit(self.decode(contents, handle, kind)?, handle, true)
    }

    /// Loads the partitions under a top level that the table must hold: pinned ones, and all if
    /// there is no cache. Those of level 0 go into the cache as far as they have been read.
    fn hold_partitions(
        &self,
        tail: &Tail,
        top: &MetaBlock,
        kind: BlockKind,
        pins: &Pins,
    ) -> Result<HeldPartitions> {
        let top_kind = if kind == BlockKind::Filter { BlockKind::FilterIndex } else { kind };
        let top = self.meta(top, top_kind, &TableReadOptions::default())?;
        let handles = || top.get().as_index().into_iter().flat_map(|index| index.handles());
        if pins.partitions || self.cache.is_none() {
            let blocks = handles().map(|h| self.load_through_cache(tail, h, kind));
            return Ok(Some(blocks.collect::<Result<_>>()?));
        }
        if pins.level0 {
            for handle in handles() {
                if tail.get(handle.offset, self.file.stored_len(handle, kind)?).is_some() {
                    self.load_through_cache(tail, handle, kind)?;
                }
            }
        }
        Ok(None)
    }

    fn load_filter(
        &mut self,
        tail: &Tail,
        meta: &MetaIndex,
        context: &TableReadContext,
        pins: &Pins,
    ) -> Result<()> {
        let Some((handle, partitioned)) = meta.filter else { return Ok(()) };
        if context.skip_filters || self.options.filter_policy.is_none() {
            return Ok(());
        }
        let timestamp = self.comparator.user.timestamp_size();
        // Another order may have shortened separators to some version of the next key.
        let shortened = timestamp > 0 && !is_built_in(&self.comparator.user);
        if partitioned && (handle.size == 0 || shortened) {
            return Ok(());
        }
        let properties = &self.properties;
        let name = &properties.prefix_extractor;
        let configured = context.prefix_extractor.as_ref().filter(|p| p.name() == *name);
        let prefix = match configured {
            _ if !properties.prefix_filtering() => None,
            Some(configured) => Some(Extractor::new(configured)),
            None => Extractor::by_name(name),
        };
        let prefix_is_configured = configured.is_some();
        let whole_keys = properties.whole_key_filtering();
        if !whole_keys && prefix.is_none() {
            return Ok(());
        }
        let (kind, pin) = match partitioned {
            true => (BlockKind::FilterIndex, pins.top_level),
            false => (BlockKind::Filter, pins.unpartitioned),
        };
        let block = self.hold(tail, handle, kind, pin)?;
        let partitions = match partitioned {
            // Unreadable partitions are left to the lookups, which work without them.
            true => self.hold_partitions(tail, &block, BlockKind::Filter, pins).unwrap_or(None),
            false => None,
        };
        self.filter = Some(TableFilter {
            block,
            partitioned,
            partitions,
            whole_keys: whole_keys && timestamp == 0,
            timestamp,
            bare_keys: whole_keys && timestamp > 0,
            prefix,
            prefix_is_configured,
        });
        Ok(())
    }
}

fn is_built_in(order: &Comparator) -> bool {
    match order {
        Comparator::Custom(order) => order.is_built_in(),
        Comparator::Bytewise | Comparator::ReverseBytewise => true,
    }
}

/// Upper bound of a decompressed block according to the table's properties: all entries in one
/// block, or the index. Restart points and lengths take less than a handle.
fn block_bytes_max(properties: &TableProperties) -> usize {
    let entries = properties.num_entries.saturating_add(properties.num_data_blocks);
    let bytes = [
        properties.raw_key_size,
        properties.raw_value_size,
        properties.index_size,
        entries.saturating_mul(BlockHandle::MAX_ENCODED_LEN as u64),
    ];
    let sum = bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    usize::try_from(sum).unwrap_or(usize::MAX).min(u32::MAX as usize)
}
