//! Everything after the data blocks: filter, index, range tombstones, properties, metaindex,
//! footer.
//!
//! Runs on the emitter when the pipeline is empty.

use pumice_base::{Error, InternalKey, Result};
use pumice_compress::{CompressionManager, CompressionType};

use crate::build::BlockBasedTableBuilder;
use crate::build::block_builder::MetaBlockBuilder;
use crate::build::index_builder::IndexBuilder;
use crate::build::pipeline::prepopulate::MetaBlocks;
use crate::footer::Footer;
use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};
use crate::{metaindex, properties};

/// The entries of a metaindex block, kept sorted by name.
#[derive(Default)]
pub(crate) struct MetaHandles(std::collections::BTreeMap<&'static str, BlockHandle>);

impl MetaHandles {
    pub fn add(&mut self, name: &'static str, handle: BlockHandle) {
        self.0.insert(name, handle);
    }

    /// The block.
    ///
    /// # Errors
    /// NotSupported if it would be larger than that.
    pub fn finish(&self, bytes_max: usize) -> Result<Vec<u8>> {
        let mut block = MetaBlockBuilder::new(1, bytes_max);
        let mut value = Vec::new();
        for (name, handle) in &self.0 {
            value.clear();
            handle.encode_to(&mut value);
            block.add(name.as_bytes(), &value);
        }
        block.finish("metaindex")
    }
}

impl BlockBasedTableBuilder {
    /// Writes what follows the data blocks, all of which must be written already.
    pub(super) fn write_tail(&mut self) -> Result<()> {
        let offset = self.pipeline.out()?.offset;
        self.properties.data_size = offset;
        self.properties.tail_start_offset = offset;
        let mut meta = MetaHandles::default();
        self.write_filter(&mut meta)?;
        let index = self.write_index(&mut meta)?;
        self.write_dictionary(&mut meta)?;
        self.write_tombstones(&mut meta)?;
        self.write_properties(&mut meta)?;
        let options = &self.context.table;
        let in_footer = options.format_version < 6;
        if !in_footer {
            meta.add(metaindex::INDEX, index);
        }
        let bytes_max = self.context.limits.block_bytes();
        let out = self.pipeline.out()?;
        let metaindex = out.write_raw(meta.finish(bytes_max)?)?;
        let footer = Footer {
            checksum: options.checksum,
            format_version: options.format_version,
            base_context: out.base_context,
            metaindex,
            index: in_footer.then_some(index),
        };
        let bytes = footer.encode(out.offset);
        out.append(&bytes)?;
        out.writer.flush()
    }

    fn write_filter(&mut self, meta: &mut MetaHandles) -> Result<()> {
        let Some(filter) = &mut self.filter else { return Ok(()) };
        let sink = &mut self.pipeline.serial()?.sink;
        let (user_keys, delta) = (sink.index.stores_user_keys(), sink.index.delta_handles());
        let (out, mut blocks) = (&mut sink.out, MetaBlocks::for_cache(&sink.prepopulate));
        let mut write = |block: &mut Vec<u8>| {
            blocks.pass(block, |block| out.write(block, CompressionType::None))
        };
        let written = filter.finish(user_keys, delta, &mut write)?;
        self.properties.num_filter_entries = filter.num_entries();
        let Some(written) = written else { return Ok(()) };
        if let Some(prepopulate) = &sink.prepopulate {
            let top = (written.handle, written.partitioned);
            prepopulate.filter(blocks, top, user_keys, delta);
        }
        self.properties.filter_size = written.size;
        if filter.is_decoupled() {
            self.properties.collect(properties::DECOUPLED_FILTERS, b"1");
        }
        let name = match written.partitioned {
            true => metaindex::PARTITIONED_FILTER,
            false => metaindex::FULL_FILTER,
        };
        meta.add(name, written.handle);
        Ok(())
    }

    fn write_index(&mut self, meta: &mut MetaHandles) -> Result<BlockHandle> {
        let serial = self.pipeline.serial()?;
        let mut index =
            std::mem::replace(&mut serial.sink.index, IndexBuilder::new(&self.context)?);
        if let Some(trie) = index.trie.take() {
            let primary = self.context.table.use_udi_as_primary_index;
            match trie.finish() {
                Some(block) => meta.add(metaindex::TRIE_INDEX, serial.sink.out.write_raw(block)?),
                None if primary => {
                    return Err(Error::not_supported(
                        "a trie index as the primary one of a table of more than 4 GiB or with a \
                         key of more than 65536 bytes",
                    ));
                }
                None => {}
            }
        }
        let compress = self.context.table.enable_index_compression;
        let mut blocks = MetaBlocks::for_cache(&serial.sink.prepopulate);
        let written = index.finish(&mut |block| {
            blocks.pass(block, |block| match compress {
                true => serial.write_compressed(block),
                false => serial.sink.out.write(block, CompressionType::None),
            })
        })?;
        if let Some(prepopulate) = &serial.sink.prepopulate {
            let (user_keys, delta) = (written.stores_user_keys, written.delta_handles);
            prepopulate.index(blocks, written.handle, user_keys, delta);
        }
        for (name, mut block) in written.meta_blocks {
            meta.add(name, serial.write_compressed(&mut block)?);
        }
        let properties = &mut self.properties;
        properties.index_size = written.size + BLOCK_TRAILER_LEN as u64;
        properties.index_partitions = written.partitions;
        properties.num_uniform_blocks = written.even_blocks;
        properties.top_level_index_size = written.top_level_size;
        properties.index_key_is_user_key = u64::from(written.stores_user_keys);
        properties.index_value_is_delta_encoded = u64::from(written.delta_handles);
        Ok(written.handle)
    }

    fn write_dictionary(&mut self, meta: &mut MetaHandles) -> Result<()> {
        let serial = self.pipeline.serial()?;
        let Some(dictionary) = &serial.codec.dictionary else { return Ok(()) };
        let contents = dictionary.write.bytes().to_vec();
        meta.add(metaindex::DICTIONARY, serial.sink.out.write_raw(contents)?);
        Ok(())
    }

    fn write_tombstones(&mut self, meta: &mut MetaHandles) -> Result<()> {
        if self.tombstones.is_empty() {
            return Ok(());
        }
        let cmp = &self.context.comparator;
        self.tombstones.sort_by(|a, b| cmp.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
        let mut block = MetaBlockBuilder::new(1, self.context.limits.block_bytes());
        for (start, end) in &self.tombstones {
            block.add(start, end);
        }
        let handle = self.pipeline.out()?.write_raw(block.finish("range deletions")?)?;
        meta.add(metaindex::RANGE_DELETIONS, handle);
        Ok(())
    }

    fn write_properties(&mut self, meta: &mut MetaHandles) -> Result<()> {
        if self.properties.num_entries > 0 {
            let (smallest, largest) = self.totals.seqno_bounds();
            self.properties.key_smallest_seqno = smallest;
            self.properties.key_largest_seqno = largest;
            if let Some(times) = &self.context.seqno_times {
                self.properties.seqno_time_map = times.of_table(smallest, largest).encode();
            }
        }
        self.properties.raw_value_size = self.totals.value_bytes();
        self.note_compression()?;
        if let Some(sampling) = &self.sampling {
            sampling.note(&mut self.properties);
        }
        let mut block = MetaBlockBuilder::new(u32::MAX, self.context.limits.block_bytes());
        for (name, value) in self.properties.encode() {
            block.add(&name, &value);
        }
        let handle = self.pipeline.out()?.write_raw(block.finish("properties")?)?;
        meta.add(metaindex::PROPERTIES, handle);
        Ok(())
    }

    /// The properties about what was done, with a manager also by which of its compressors.
    fn note_compression(&mut self) -> Result<()> {
        let kind = self.context.compression;
        let serial = self.pipeline.serial()?;
        let used = serial.sink.types_used;
        let dictionary = serial.codec.dictionary.is_some();
        let version = self.context.table.format_version;
        self.properties.compression = compression_name(kind, used, version);
        if let Some(manager) = self.context.compression_manager {
            let name = manager.compressor_name(kind, dictionary);
            self.properties.compression_options += &format!("_compressor={name}; ");
        }
        Ok(())
    }
}

/// The compression property of a table with codec `kind`, whose blocks have the types in the set
/// `used`: from format 7 on all of these. Before, one codec: readers must know that zstd is among
/// them, and otherwise it does not matter which.
fn compression_name(kind: CompressionType, used: u16, format_version: u32) -> String {
    let mut used_kinds = (1..16u8).filter(|number| used & (1 << number) != 0);
    if format_version < 7 {
        let zstd = used & (1 << CompressionType::Zstd as u8) != 0;
        let first = used_kinds.next().and_then(CompressionType::from_u8);
        return first.filter(|_| !zstd).unwrap_or(kind).property_name().to_string();
    }
    if kind == CompressionType::None {
        return ";;".to_string();
    }
    let digits: String = used_kinds.map(|number| format!("{number:02X}")).collect();
    format!("{};{digits};", CompressionManager::COMPATIBILITY_NAME)
}
