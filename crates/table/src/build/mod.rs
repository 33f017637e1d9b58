//! Builds a table from entries in internal-key order.
//!
//! ```text
//! data block* ‖ filter ‖ index ‖ range deletions ‖ properties ‖ metaindex ‖ footer
//! ```
//!
//! | part | is |
//! |---|---|
//! | `context` | parameters of the table besides its entries |
//! | `add` | the work per key, and once per data block |
//! | `block_builder`, `block_keys` | the data block under construction, and its keys |
//! | `block_buffer` | where it is built, and stays if it is stored as it is |
//! | `pipeline` | compression and writing of finished blocks |
//! | `index_builder`, `filter_block` | index and filter, fed once per data block |
//! | `sizes` | the estimate by which files are cut |
//! | `tail` | everything after the data blocks |
//! | `sampling` | estimates of other codecs |
//!
//! No allocation, virtual call or atomic per key. Blocks end where RocksDB would end them.
//!
//! Thread safety: one owner. Invariants: (1) after a failed `add` or `finish` the table is
//! incomplete and the file must be removed; (2) the bytes, and the estimates on the way, are a
//! function of the entries and the settings; with a strict block cache that is charged for
//! dictionaries or filters, also of its room.

mod add;
mod block_buffer;
pub(crate) mod block_builder;
pub(crate) mod block_keys;
pub(crate) mod context;
mod filter_block;
pub(crate) mod index_builder;
mod pipeline;
mod sampling;
mod setup;
mod sizes;
mod stats;
pub(crate) mod tail;

use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::Result;
use pumice_base::file_checksum::FileChecksum;
use pumice_cache::ChargedRole;
use pumice_compress::{CompressionDict, CompressionType};
use pumice_env::BufferedWriter;

use crate::build::add::{BlockEnd, EntryTotals};
use crate::build::block_builder::BlockBuilder;
use crate::build::block_keys::BlockKeys;
use crate::build::context::TableBuildContext;
use crate::build::filter_block::FilterBlockBuilder;
use crate::build::index_builder::{CutRule, IndexBuilder, IndexEntry, Separators};
use crate::build::pipeline::Pipeline;
use crate::build::pipeline::block_writer::{BlockWriter, PAGE_BYTES};
use crate::build::pipeline::chooser::Chooser;
use crate::build::pipeline::dictionary::Waiting;
use crate::build::pipeline::parallel::Plan;
use crate::build::pipeline::prepopulate::Prepopulate;
use crate::build::pipeline::serial::Serial;
use crate::build::pipeline::sink::{Sink, SuperBlocks};
use crate::build::pipeline::worker::Codec;
use crate::build::sampling::Sampling;
use crate::build::sizes::SizeEstimate;
use crate::data_block_hash::DataBlockHash;
use crate::footer::FOOTER_LEN;
use crate::properties::TableProperties;

pub use stats::BuildStats;

/// Room for properties, metaindex and footer, as RocksDB has it.
const META_BYTES: u64 = (2 << 10) + (1 << 10) + FOOTER_LEN as u64;

/// Builds one table.
pub struct BlockBasedTableBuilder {
    context: TableBuildContext,
    /// For messages.
    path: PathBuf,
    keys: BlockKeys,
    data: BlockBuilder,
    end: BlockEnd,
    /// Writes the hash index of data blocks.
    hash: Option<DataBlockHash>,
    separators: Separators,
    /// Where index and filter partitions are cut together.
    cuts: Option<CutRule>,
    /// The index entry of the block that ends.
    entry: IndexEntry,
    /// Approximate bytes of all index entries.
    index_bytes: u64,
    filter: Option<FilterBlockBuilder>,
    sampling: Option<Box<Sampling>>,
    pipeline: Pipeline,
    sizes: SizeEstimate,
    /// Range tombstones: internal start key, end key.
    tombstones: Vec<(Vec<u8>, Vec<u8>)>,
    properties: TableProperties,
    totals: EntryTotals,
    finished: bool,
    /// Facts known once the table is finished.
    file_bytes: u64,
    file_checksum: Option<FileChecksum>,
    stats: BuildStats,
}

impl BlockBasedTableBuilder {
    /// A builder that writes to `writer`, an empty file.
    ///
    /// # Errors
    /// `InvalidArgument` or `NotSupported` for settings that cannot be written.
    pub fn new(mut context: TableBuildContext, writer: BufferedWriter) -> Result<Self> {
        setup::check_settings(&context)?;
        let properties = setup::initial_properties(&context);
        setup::settle_codec(&mut context);
        let options = &context.table;
        let codec = Codec {
            kind: context.compression,
            options: Arc::new(context.compression_opts.clone()),
            verify: options.verify_compression,
            timed: if context.time_codec { 1 } else { Codec::TIMED },
            dictionary: None,
        };
        let end = BlockEnd::new(options, context.limits);
        let hash = setup::data_block_hash(&context);
        let data_block = match options.separate_key_value_in_data_block {
            true => BlockBuilder::separated,
            false => BlockBuilder::new,
        };
        let mut data = data_block(options.block_restart_interval, options.use_delta_encoding);
        // The size of a hash index depends on the number of keys; only the general path computes
        // it.
        data.set_surely_open(if hash.is_some() { 0 } else { end.surely_open() });
        let path = writer.path().to_path_buf();
        let start = writer.len();
        let exact = codec.kind == CompressionType::None;
        let waiting = Waiting::new(
            codec.kind,
            &context.compression_opts,
            context.target_file_size,
            options.reservation(ChargedRole::CompressionDictionaryBuildingBuffer),
        );
        let chooser = Chooser::new(&context, codec.kind);
        let serial = Serial::new(sink(&context, writer)?, codec, chooser)?;
        Ok(BlockBasedTableBuilder {
            path,
            keys: BlockKeys::with_timestamps(context.comparator.user.timestamp_size()),
            data,
            end,
            hash,
            separators: Separators::new(&context),
            cuts: CutRule::new(options),
            entry: IndexEntry::default(),
            index_bytes: 0,
            filter: FilterBlockBuilder::new(&context),
            sampling: Sampling::new(&context)?,
            pipeline: Pipeline::new(serial, waiting, Plan::of(&context)),
            sizes: SizeEstimate::new(start, exact),
            tombstones: Vec::new(),
            properties,
            totals: EntryTotals::NONE,
            finished: false,
            file_bytes: 0,
            file_checksum: None,
            stats: BuildStats::default(),
            context,
        })
    }

    /// Adds a property of that name; before `finish`.
    pub fn collect_property(&mut self, name: &str, value: &[u8]) {
        self.properties.collect(name, value);
    }

    /// Writes everything that is not written yet and flushes to the operating system. May suspend.
    ///
    /// # Errors
    /// I/O errors, also of earlier blocks; the file is then incomplete, and only `abandon` may
    /// follow.
    pub fn finish(&mut self) -> Result<()> {
        assert!(!self.finished, "a table is finished once");
        self.pipeline.check()?;
        if !self.keys.is_empty() {
            self.end_block(None)?;
        }
        self.pipeline.drain()?;
        if let Err(error) = self.write_tail() {
            return Err(self.pipeline.fail(error));
        }
        let serial = self.pipeline.serial()?;
        self.file_bytes = serial.sink.out.offset;
        self.file_checksum = serial.sink.out.writer.end_checksum();
        self.stats = std::mem::take(&mut serial.sink.stats);
        self.finished = true;
        Ok(())
    }

    /// `finish`, then makes the file durable if `sync` is set, and closes it. May suspend.
    ///
    /// # Errors
    /// I/O errors.
    pub fn finish_file(&mut self, sync: bool, use_fsync: bool) -> Result<()> {
        if !self.finished {
            self.finish()?;
        }
        let writer = &mut self.pipeline.out()?.writer;
        if sync { writer.sync_and_close(use_fsync) } else { writer.close() }
    }

    /// Abandons the table: closes the file as it is. The caller removes it. May suspend.
    ///
    /// # Errors
    /// I/O errors of closing.
    pub fn abandon(mut self) -> Result<()> {
        self.finished = true;
        self.pipeline.close()
    }

    /// Entries so far, range tombstones included.
    #[inline]
    pub fn num_entries(&self) -> u64 {
        self.properties.num_entries + self.keys.len() as u64
    }

    /// Nothing was added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }

    /// Bytes of the file; before `finish`, as `estimated_file_size`.
    #[inline]
    pub fn file_size(&self) -> u64 {
        if self.finished { self.file_bytes } else { self.estimated_file_size() }
    }

    /// Approximate bytes of the file if it were finished now. A function of the entries and
    /// settings: it does not depend on how much has been written already.
    #[inline]
    pub fn estimated_file_size(&self) -> u64 {
        match self.finished {
            true => self.file_bytes,
            false => self.sizes.get() + self.data.estimated_bytes() as u64,
        }
    }

    /// The part of `estimated_file_size` that is data blocks. Before `finish`.
    #[inline]
    pub fn estimated_data_size(&self) -> u64 {
        self.sizes.data() + self.data.estimated_bytes() as u64
    }

    /// Approximate size of what follows the data blocks, rather over- than underestimated: index
    /// and filter so far, range tombstones, dictionary, and room for properties, metaindex and
    /// footer. Before `finish`.
    pub fn estimated_tail_size(&self) -> u64 {
        let options = &self.context.compression_opts;
        let dictionary = match CompressionDict::wanted(self.context.compression, options) {
            true => u64::from(options.max_dict_bytes),
            false => 0,
        };
        let tombstone = |(start, end): &(Vec<u8>, Vec<u8>)| (start.len() + end.len() + 8) as u64;
        let tombstones: u64 = self.tombstones.iter().map(tombstone).sum();
        self.sizes.tail() + tombstones + dictionary + META_BYTES
    }

    /// The properties. Complete after `finish`.
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The cost of the build. Complete after `finish`.
    pub fn stats(&self) -> &BuildStats {
        &self.stats
    }

    /// Bytes after the data blocks. Requires `finish`.
    pub fn tail_size(&self) -> u64 {
        self.file_bytes - self.properties.tail_start_offset
    }

    /// Smallest and largest sequence number added; `None` for an empty table. Requires `finish`.
    pub fn seqno_bounds(&self) -> Option<(u64, u64)> {
        (!self.is_empty()).then(|| self.totals.seqno_bounds())
    }

    /// The internal key of the last point entry; empty before the first, and after `finish`.
    #[inline]
    pub fn last_key(&self) -> &[u8] {
        self.keys.last()
    }

    /// The checksum of the file, if the writer computes one. Requires `finish`.
    pub fn file_checksum(&self) -> Option<&FileChecksum> {
        self.file_checksum.as_ref()
    }
}

/// The end of the pipeline.
fn sink(context: &TableBuildContext, writer: BufferedWriter) -> Result<Sink> {
    let options = &context.table;
    let version = options.format_version;
    Ok(Sink {
        out: BlockWriter {
            offset: writer.len(),
            checksum: options.checksum,
            base_context: if version < 6 { 0 } else { setup::base_context(context) },
            writer,
        },
        index: IndexBuilder::new(context)?,
        stats: BuildStats {
            codec_times: context.time_codec.then(Box::default),
            ..BuildStats::default()
        },
        super_blocks: SuperBlocks::new(options),
        align: if options.block_align { options.block_size.min(PAGE_BYTES) } else { 0 },
        types_used: 0,
        prepopulate: Prepopulate::new(context),
    })
}
