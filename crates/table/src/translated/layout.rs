//! Cuts the rows of a table into blocks, and makes the tail of its image.
//!
//! Thread safety: one owner. Invariant: the size of a block is a function of its rows, so that
//! making it again from the same rows gives the same bytes.

use pumice_base::hash::hash64;
use pumice_base::key::{InternalKey, ValueType, parse_internal_key};
use pumice_base::narrow::to_usize;
use pumice_base::{InternalKeyComparator, Result, SizeLimits};
use pumice_filter::{FilterBuildSettings, FilterBuilder};

use crate::Extractor;
use crate::build::block_builder::MetaBlockBuilder;
use crate::build::tail::MetaHandles;
use crate::footer::Footer;
use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};
use crate::metaindex;
use crate::read::context::{Origin, TableReadContext};
use crate::translated::file::OtherFile;
use crate::translated::image::{Image, Rows};

/// Rows per restart point.
const RESTART_INTERVAL: u32 = 16;
/// The format of the image and of its filter: no checksum depends on a place.
const IMAGE_FORMAT: u32 = 5;

/// A data block of an image.
pub(crate) fn data_block() -> MetaBlockBuilder {
    MetaBlockBuilder::new(RESTART_INTERVAL, SizeLimits::FORMAT.block_bytes())
}

/// The filter of an image, and what of a key is in it.
struct Filter {
    builder: FilterBuilder,
    prefix: Option<Extractor>,
    timestamp: usize,
}

impl Filter {
    /// The filter that the column family asks for. It has the prefixes that the reader will look
    /// for: those under the extractor that the properties name.
    fn new(context: &TableReadContext, file: &OtherFile) -> Option<Filter> {
        let policy = context.options.filter_policy.filter(|_| !context.skip_filters)?;
        let name = &file.properties.prefix_extractor;
        let configured = context.prefix_extractor.as_ref().filter(|p| p.name() == *name);
        Some(Filter {
            builder: policy.builder(&FilterBuildSettings::new(IMAGE_FORMAT))?,
            prefix: configured.map(Extractor::new).or_else(|| Extractor::by_name(name)),
            timestamp: context.comparator.user.timestamp_size(),
        })
    }

    fn add(&mut self, user_key: &[u8]) {
        let bare = &user_key[..user_key.len().saturating_sub(self.timestamp)];
        match self.prefix.as_ref().and_then(|prefix| prefix.prefix(bare)) {
            Some(prefix) => self.builder.add_key_and_alt(bare, prefix),
            None => self.builder.add_key(bare),
        }
    }
}

/// The blocks of an image, made from rows in key order.
pub(crate) struct Layout {
    comparator: InternalKeyComparator,
    block_bytes: usize,
    block: MetaBlockBuilder,
    /// The last row's key; empty before the first.
    last_key: Vec<u8>,
    rows: u64,
    /// Where the blocks begin, and where the last one ends.
    starts: Vec<u64>,
    index: MetaBlockBuilder,
    filter: Option<Filter>,
}

impl Layout {
    pub fn new(context: &TableReadContext, file: &OtherFile) -> Layout {
        Layout {
            comparator: context.comparator.clone(),
            block_bytes: context.options.block_size,
            block: data_block(),
            last_key: Vec::new(),
            rows: 0,
            starts: vec![0],
            index: MetaBlockBuilder::new(1, SizeLimits::FORMAT.block_bytes()),
            filter: Filter::new(context, file),
        }
    }

    /// The next row should begin a block.
    pub fn is_full(&self) -> bool {
        self.block.estimated_bytes() >= self.block_bytes
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Corruption for a key that is not after the last one or has a type that no row has.
    pub fn add(&mut self, file: &OtherFile, ikey: &[u8], value: &[u8]) -> Result<()> {
        let key = parse_internal_key(ikey).map_err(|error| file.bad(error.message()))?;
        if key.value_type == ValueType::RangeDeletion {
            return Err(file.bad("range deletion among rows"));
        }
        let (last, next) = (self.last_key.as_slice(), InternalKey::new(ikey));
        if !last.is_empty() && self.comparator.compare(InternalKey::new(last), next).is_ge() {
            return Err(file.bad(format_args!("keys out of order: {ikey:02x?} after {last:02x?}")));
        }
        if let Some(filter) = &mut self.filter {
            filter.add(key.user_key.as_bytes());
        }
        self.block.add(ikey, value);
        self.last_key.clear();
        self.last_key.extend_from_slice(ikey);
        self.rows += 1;
        Ok(())
    }

    /// Ends the block.
    ///
    /// # Errors
    /// NotSupported for a block that is too large.
    pub fn end_block(&mut self) -> Result<()> {
        let block = std::mem::replace(&mut self.block, data_block()).finish("data block")?;
        let start = *self.starts.last().expect("begins with one");
        let handle = BlockHandle::new(start, block.len() as u64);
        let mut value = Vec::new();
        handle.encode_to(&mut value);
        self.index.add(&self.last_key, &value);
        self.starts.push(start + (block.len() + BLOCK_TRAILER_LEN) as u64);
        Ok(())
    }

    /// The image, whose blocks `rows` has, numbered as they were cut.
    ///
    /// # Errors
    /// Corruption if there are not as many rows as the properties say.
    pub fn finish(self, file: OtherFile, rows: Box<dyn Rows>) -> Result<(Image, Origin)> {
        let said = file.properties.num_entries;
        if self.rows != said {
            return Err(file.bad(format_args!("{} rows, not the {said} of properties", self.rows)));
        }
        let data_end = *self.starts.last().expect("begins with one");
        let mut tail = Tail { start: data_end, bytes: Vec::new(), handles: MetaHandles::default() };
        if let Some(mut filter) = self.filter.filter(|filter| !filter.builder.is_empty()) {
            let name = metaindex::FULL_FILTER;
            tail.add(name, &filter.builder.finish()?);
        }
        let index = tail.push(&self.index.finish("index")?);
        let (stored, real_at) = &file.stored_properties;
        tail.add(metaindex::PROPERTIES, stored);
        let bytes = tail.finish(index)?;
        let held = bytes.capacity() + self.starts.capacity() * size_of::<u64>() + rows.memory();
        let origin = Origin {
            format: file.format,
            file_bytes: file.len,
            properties_at: *real_at,
            memory: held,
            layout: hash64(&bytes),
            tail_bytes: bytes.len() as u64,
        };
        let image = Image { rows, starts: self.starts, tail: bytes, file: file.file };
        Ok((image, origin))
    }
}

/// The blocks after the data.
struct Tail {
    start: u64,
    bytes: Vec<u8>,
    handles: MetaHandles,
}

impl Tail {
    /// Appends a block with its trailer: no codec, no checksum.
    fn push(&mut self, block: &[u8]) -> BlockHandle {
        let at = self.start + self.bytes.len() as u64;
        self.bytes.extend_from_slice(block);
        self.bytes.extend_from_slice(&[0; BLOCK_TRAILER_LEN]);
        BlockHandle::new(at, block.len() as u64)
    }

    fn add(&mut self, name: &'static str, block: &[u8]) {
        let handle = self.push(block);
        self.handles.add(name, handle);
    }

    fn finish(mut self, index: BlockHandle) -> Result<Vec<u8>> {
        let block = self.handles.finish(SizeLimits::FORMAT.block_bytes())?;
        let footer = Footer {
            checksum: pumice_base::checksum::ChecksumType::None,
            format_version: IMAGE_FORMAT,
            base_context: 0,
            metaindex: self.push(&block),
            index: Some(index),
        };
        let at = self.start + self.bytes.len() as u64;
        self.bytes.extend_from_slice(&footer.encode(at));
        Ok(self.bytes)
    }
}

/// Bytes that a block of rows takes in memory.
pub(crate) fn block_len(starts: &[u64], block: usize) -> usize {
    to_usize(starts[block + 1] - starts[block])
}
