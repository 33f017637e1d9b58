//! Builds tables of rows without blocks: what the formats `plain` and `cuckoo` have in common.
//!
//! ```text
//! rows ‖ blocks of the format ‖ properties ‖ metaindex ‖ footer
//! ```
//!
//! Thread safety: one owner. Invariant: after a failed `add` or `finish` every later call fails.

use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::file_checksum::FileChecksum;
use pumice_base::key::{InternalKey, ValueType, parse_internal_key, unpack};
use pumice_base::{Error, InternalKeyComparator, Result, SizeLimits};
use pumice_env::BufferedWriter;

use crate::build::block_builder::MetaBlockBuilder;
use crate::build::context::TableBuildContext;
use crate::build::tail::MetaHandles;
use crate::build::{BlockBasedTableBuilder, BuildStats};
use crate::footer::{OtherFooter, OtherFormat};
use crate::handle::BlockHandle;
use crate::metaindex;
use crate::options::TableOptions;
use crate::properties::TableProperties;

/// Room for properties, metaindex and footer of a format without blocks.
const META_BYTES: u64 = 3 << 10;

/// What is said of a file that another builder has taken over.
const OTHER_BUILDER: &str = "the table has another builder";

/// Internal keys and values.
pub(crate) type Rows<'a> = Box<dyn Iterator<Item = (&'a [u8], &'a [u8])> + 'a>;

/// How a format other than block-based stores rows.
pub(crate) trait RowFormat: Send {
    fn format(&self) -> OtherFormat;
    /// Notes what is known before the first row.
    fn describe(&self, properties: &mut TableProperties);
    /// Takes the next row, which is in order.
    ///
    /// # Errors
    /// What the format cannot hold; I/O errors.
    fn add(&mut self, out: &mut FileOutput, ikey: &[u8], value: &[u8]) -> Result<()>;
    /// Writes all rows that are not written, calls [`FileOutput::end_data`], and writes blocks.
    ///
    /// # Errors
    /// As `add`.
    fn finish(&mut self, out: &mut FileOutput) -> Result<()>;
    /// Approximate bytes of the rows so far in the file.
    fn estimated_bytes(&self, out: &FileOutput) -> u64;
    /// The rows in order, if the format writes none before the end: they may go into a table of
    /// another format then.
    fn rows(&self) -> Option<Rows<'_>>;
}

/// The file of a table of another format, and its properties.
pub(crate) struct FileOutput {
    /// None once another builder has it.
    writer: Option<BufferedWriter>,
    /// Bytes so far.
    len: u64,
    properties: TableProperties,
    handles: MetaHandles,
}

impl FileOutput {
    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    fn writer(&mut self) -> Result<&mut BufferedWriter> {
        self.writer.as_mut().ok_or_else(|| Error::invalid_argument(OTHER_BUILDER))
    }

    pub fn properties_mut(&mut self) -> &mut TableProperties {
        &mut self.properties
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer()?.append(bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// All rows are written.
    pub fn end_data(&mut self) {
        self.properties.data_size = self.len();
    }

    /// Appends a block of that name. Blocks of these formats have no trailers.
    pub fn add_block(&mut self, name: &'static str, block: &[u8]) -> Result<()> {
        let handle = self.append_block(block)?;
        self.handles.add(name, handle);
        Ok(())
    }

    fn append_block(&mut self, block: &[u8]) -> Result<BlockHandle> {
        let handle = BlockHandle::new(self.len(), block.len() as u64);
        self.append(block)?;
        Ok(handle)
    }

    /// Writes properties, metaindex and footer.
    fn end(&mut self, format: OtherFormat) -> Result<()> {
        let bytes_max = SizeLimits::FORMAT.block_bytes();
        let mut block = MetaBlockBuilder::new(u32::MAX, bytes_max);
        for (name, value) in self.properties.encode() {
            block.add(&name, &value);
        }
        self.add_block(metaindex::PROPERTIES, &block.finish("properties")?)?;
        let block = self.handles.finish(bytes_max)?;
        let metaindex = self.append_block(&block)?;
        self.append(&OtherFooter { format, metaindex }.encode())?;
        self.writer()?.flush()
    }
}

/// Builds a table of another format than block-based.
pub struct RowTableBuilder {
    rows: Box<dyn RowFormat>,
    out: FileOutput,
    comparator: InternalKeyComparator,
    context: TableBuildContext,
    path: PathBuf,
    /// The internal key of the last row.
    last_key: Vec<u8>,
    /// Smallest and largest trailer.
    trailers: (u64, u64),
    /// The error of an earlier call.
    failed: Option<Error>,
    finished: bool,
    file_bytes: u64,
    file_checksum: Option<FileChecksum>,
    stats: BuildStats,
}

impl RowTableBuilder {
    pub(crate) fn new(
        rows: Box<dyn RowFormat>,
        context: &TableBuildContext,
        writer: BufferedWriter,
    ) -> Self {
        let mut properties = initial_properties(context);
        rows.describe(&mut properties);
        RowTableBuilder {
            rows,
            path: writer.path().to_path_buf(),
            out: FileOutput {
                len: writer.len(),
                writer: Some(writer),
                properties,
                handles: MetaHandles::default(),
            },
            comparator: context.comparator.clone(),
            context: context.clone(),
            last_key: Vec::new(),
            trailers: (u64::MAX, 0),
            failed: None,
            finished: false,
            file_bytes: 0,
            file_checksum: None,
            stats: BuildStats::default(),
        }
    }

    pub(crate) fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(!self.finished, "add after finish");
        self.check()?;
        let added = self.add_row(ikey, value);
        self.keep(added)
    }

    fn add_row(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let key = parse_internal_key(ikey)?;
        if key.value_type == ValueType::RangeDeletion {
            return Err(Error::not_supported("Range deletion unsupported"));
        }
        let (last, next) = (self.last_key.as_slice(), InternalKey::new(ikey));
        if !last.is_empty() && self.comparator.compare(InternalKey::new(last), next).is_ge() {
            return Err(Error::corruption(format!(
                "Keys must be added in strict ascending order: {ikey:02x?} after {last:02x?} in {}",
                self.path.display()
            )));
        }
        self.rows.add(&mut self.out, ikey, value)?;
        let trailer = next.trailer();
        self.trailers = (self.trailers.0.min(trailer), self.trailers.1.max(trailer));
        self.last_key.clear();
        self.last_key.extend_from_slice(ikey);
        let properties = &mut self.out.properties;
        properties.num_entries += 1;
        properties.raw_key_size += ikey.len() as u64;
        let deletes = matches!(
            key.value_type,
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp
        );
        properties.num_deletions += u64::from(deletes);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn keep(&mut self, done: Result<()>) -> Result<()> {
        self.failed = done.as_ref().err().cloned();
        done
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        assert!(!self.finished, "a table is finished once");
        self.check()?;
        let finished = self.write_tail();
        self.keep(finished)?;
        self.file_bytes = self.out.len();
        self.file_checksum = self.out.writer()?.end_checksum();
        self.finished = true;
        Ok(())
    }

    fn write_tail(&mut self) -> Result<()> {
        if let Some((smallest, largest)) = self.seqno_bounds() {
            self.out.properties.key_smallest_seqno = smallest;
            self.out.properties.key_largest_seqno = largest;
        }
        self.rows.finish(&mut self.out)?;
        self.out.end(self.rows.format())
    }

    pub(crate) fn finish_file(&mut self, sync: bool, use_fsync: bool) -> Result<()> {
        if !self.finished {
            self.finish()?;
        }
        let writer = self.out.writer()?;
        if sync { writer.sync_and_close(use_fsync) } else { writer.close() }
    }

    pub(crate) fn abandon(mut self) -> Result<()> {
        // Without a writer the file is closed.
        self.out.writer.as_mut().map_or(Ok(()), BufferedWriter::close)
    }

    /// No row is written before the end, so that all may go into a table of another format.
    pub(crate) fn writes_at_end(&self) -> bool {
        self.rows.rows().is_some()
    }

    /// The rows so far, in order, where none is written before the end.
    pub(crate) fn rows(&self) -> Rows<'_> {
        self.rows.rows().unwrap_or_else(|| Box::new(std::iter::empty()))
    }

    /// A block-based table in the same file, still without the rows. This builder has no file then.
    ///
    /// # Errors
    /// What that builder says of the settings; afterwards nothing but `abandon` may be called.
    pub(crate) fn block_based(&mut self) -> Result<BlockBasedTableBuilder> {
        let other_has_it = || Error::invalid_argument(OTHER_BUILDER);
        let writer = self.out.writer.take().ok_or_else(other_has_it)?;
        let mut context = self.context.clone();
        context.table = Arc::new(TableOptions { row_table: None, ..(*context.table).clone() });
        let mut builder = BlockBasedTableBuilder::new(context, writer)?;
        for (name, value) in &self.out.properties.user_collected {
            builder.collect_property(&String::from_utf8_lossy(name), value);
        }
        Ok(builder)
    }

    pub(crate) fn collect_property(&mut self, name: &str, value: &[u8]) {
        self.out.properties.collect(name, value);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    pub(crate) fn num_entries(&self) -> u64 {
        self.out.properties.num_entries
    }

    pub(crate) fn file_size(&self) -> u64 {
        self.estimated_file_size()
    }

    pub(crate) fn estimated_file_size(&self) -> u64 {
        if self.finished { self.file_bytes } else { self.estimated_data_size() }
    }

    pub(crate) fn estimated_data_size(&self) -> u64 {
        self.rows.estimated_bytes(&self.out)
    }

    pub(crate) fn estimated_tail_size(&self) -> u64 {
        META_BYTES
    }

    pub(crate) fn properties(&self) -> &TableProperties {
        &self.out.properties
    }

    pub(crate) fn stats(&self) -> &BuildStats {
        &self.stats
    }

    pub(crate) fn tail_size(&self) -> u64 {
        self.file_bytes - self.out.properties.data_size
    }

    pub(crate) fn seqno_bounds(&self) -> Option<(u64, u64)> {
        let (smallest, largest) = self.trailers;
        (self.num_entries() > 0).then(|| (unpack(smallest).0, unpack(largest).0))
    }

    pub(crate) fn last_key(&self) -> &[u8] {
        if self.finished { &[] } else { &self.last_key }
    }

    pub(crate) fn file_checksum(&self) -> Option<&FileChecksum> {
        self.file_checksum.as_ref()
    }
}

/// Facts known before the first row. Nothing here says how block-based tables are read.
fn initial_properties(context: &TableBuildContext) -> TableProperties {
    let or_null = |name: Option<String>| name.unwrap_or_else(|| "nullptr".to_string());
    let order = || context.comparator.user.name().to_string();
    let mut properties = TableProperties {
        column_family_id: u64::from(context.column_family_id),
        column_family_name: context.column_family_name.clone(),
        comparator: context.stripped_of.clone().unwrap_or_else(order),
        user_timestamps_persisted: u64::from(context.stripped_of.is_none()),
        creation_time: context.oldest_ancestor_time,
        oldest_key_time: context.oldest_key_time,
        newest_key_time: context.newest_key_time,
        file_creation_time: context.file_creation_time,
        original_file_number: context.original_file_number,
        db_id: context.db_id.clone(),
        db_session_id: context.db_session_id.clone(),
        db_host_id: context.db_host_id.clone(),
        merge_operator: or_null(context.merge_operator_name.clone()),
        prefix_extractor: or_null(context.prefix_extractor.as_ref().map(|e| e.name())),
        property_collectors: format!("[{}]", context.property_collectors.join(",")),
        ..Default::default()
    };
    for (name, value) in &context.user_collected {
        properties.collect(name, value);
    }
    properties
}
