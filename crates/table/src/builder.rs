//! Chooses the builder of a table by the format of its options.
//!
//! Cuckoo tables hold rows of one size and one version of each key. What they cannot hold makes the
//! table a block-based one, with the rows before it: nothing is lost, and no flush fails for it.
//!
//! Thread safety: one owner. Invariant: after a failed `add` or `finish` the table is incomplete
//! and the file must be removed.

use std::mem;

use pumice_base::file_checksum::FileChecksum;
use pumice_base::{Error, ErrorKind, Result};
use pumice_env::BufferedWriter;

use crate::build::context::TableBuildContext;
use crate::build::{BlockBasedTableBuilder, BuildStats};
use crate::cuckoo::CuckooTable;
use crate::formats::RowTable;
use crate::plain::PlainTable;
use crate::properties::TableProperties;
use crate::row_builder::{RowFormat, RowTableBuilder};

/// Builds one table, in the format of its options.
#[allow(clippy::large_enum_variant)] // One per file, and the large one is the usual one.
pub enum TableBuilder {
    /// A block-based table.
    BlockBased(BlockBasedTableBuilder),
    /// A table of another format.
    Rows(Box<RowTableBuilder>),
}

/// The same method of either builder.
macro_rules! either {
    ($self:expr, $builder:ident => $value:expr) => {
        match $self {
            TableBuilder::BlockBased($builder) => $value,
            TableBuilder::Rows($builder) => $value,
        }
    };
}

impl TableBuilder {
    /// A builder that writes to `writer`, an empty file.
    ///
    /// # Errors
    /// `InvalidArgument` or `NotSupported` for settings that cannot be written.
    pub fn new(context: TableBuildContext, writer: BufferedWriter) -> Result<Self> {
        let rows: Box<dyn RowFormat> = match &context.table.row_table {
            None => {
                return BlockBasedTableBuilder::new(context, writer).map(TableBuilder::BlockBased);
            }
            Some(RowTable::Plain(format)) => Box::new(PlainTable::new(*format, &context)),
            Some(RowTable::Cuckoo(format)) => Box::new(CuckooTable::new(*format, &context)),
        };
        let builder = RowTableBuilder::new(rows, &context, writer);
        Ok(TableBuilder::Rows(Box::new(builder)))
    }

    /// Adds an entry. Point entries come in internal-key order; range tombstones (value = end
    /// key) may come at any time. May suspend, once per block.
    ///
    /// # Errors
    /// `Corruption` for keys out of order or malformed; `NotSupported` and `InvalidArgument` for
    /// what the format cannot hold; I/O errors, also of earlier blocks, and then on every later
    /// call.
    #[inline]
    pub fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let added = either!(self, builder => builder.add(ikey, value));
        match added {
            Err(error) if self.needs_blocks(&error) => {
                self.become_block_based(error)?;
                self.add(ikey, value)
            }
            added => added,
        }
    }

    /// `error` says what the format cannot hold, and a block-based table can.
    #[cold]
    fn needs_blocks(&self, error: &Error) -> bool {
        match self {
            TableBuilder::BlockBased(_) => false,
            TableBuilder::Rows(builder) => {
                builder.writes_at_end() && error.kind() == ErrorKind::NotSupported
            }
        }
    }

    /// Goes on as a block-based table in the same file, with the rows so far.
    #[cold]
    fn become_block_based(&mut self, why: Error) -> Result<()> {
        let TableBuilder::Rows(builder) = self else { return Err(why) };
        let blocks = TableBuilder::BlockBased(builder.block_based()?);
        match mem::replace(self, blocks) {
            TableBuilder::Rows(rows) => {
                rows.rows().try_for_each(|(key, value)| self.add(key, value))
            }
            TableBuilder::BlockBased(_) => Err(why),
        }
    }

    /// Adds a property of that name; before `finish`.
    pub fn collect_property(&mut self, name: &str, value: &[u8]) {
        either!(self, builder => builder.collect_property(name, value));
    }

    /// Writes everything that is not written yet and flushes to the operating system. May suspend.
    ///
    /// # Errors
    /// I/O errors, also of earlier blocks; `NotSupported` for what the format cannot hold. The file
    /// is then incomplete, and only `abandon` may follow.
    pub fn finish(&mut self) -> Result<()> {
        let finished = either!(self, builder => builder.finish());
        match finished {
            Err(error) if self.needs_blocks(&error) => {
                self.become_block_based(error)?;
                self.finish()
            }
            finished => finished,
        }
    }

    /// `finish`, then makes the file durable if `sync` is set, and closes it. May suspend.
    ///
    /// # Errors
    /// As [`TableBuilder::finish`].
    pub fn finish_file(&mut self, sync: bool, use_fsync: bool) -> Result<()> {
        if let TableBuilder::Rows(rows) = self
            && !rows.is_finished()
        {
            self.finish()?;
        }
        either!(self, builder => builder.finish_file(sync, use_fsync))
    }

    /// Abandons the table: closes the file as it is. The caller removes it. May suspend.
    ///
    /// # Errors
    /// I/O errors of closing.
    pub fn abandon(self) -> Result<()> {
        either!(self, builder => builder.abandon())
    }

    /// Entries so far, range tombstones included.
    #[inline]
    pub fn num_entries(&self) -> u64 {
        either!(self, builder => builder.num_entries())
    }

    /// Nothing was added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }

    /// Bytes of the file; before `finish`, as [`TableBuilder::estimated_file_size`].
    #[inline]
    pub fn file_size(&self) -> u64 {
        either!(self, builder => builder.file_size())
    }

    /// Approximate bytes of the file if it were finished now. A function of the entries and
    /// settings: it does not depend on how much has been written already.
    #[inline]
    pub fn estimated_file_size(&self) -> u64 {
        either!(self, builder => builder.estimated_file_size())
    }

    /// The part of [`TableBuilder::estimated_file_size`] that is entries. Before `finish`.
    #[inline]
    pub fn estimated_data_size(&self) -> u64 {
        either!(self, builder => builder.estimated_data_size())
    }

    /// Approximate size of what follows the entries, rather over- than underestimated. Before
    /// `finish`.
    pub fn estimated_tail_size(&self) -> u64 {
        either!(self, builder => builder.estimated_tail_size())
    }

    /// The properties. Complete after `finish`.
    pub fn properties(&self) -> &TableProperties {
        either!(self, builder => builder.properties())
    }

    /// The cost of the build. Complete after `finish`.
    pub fn stats(&self) -> &BuildStats {
        either!(self, builder => builder.stats())
    }

    /// Bytes after the entries. Requires `finish`.
    pub fn tail_size(&self) -> u64 {
        either!(self, builder => builder.tail_size())
    }

    /// Smallest and largest sequence number added; `None` for an empty table. Requires `finish`.
    pub fn seqno_bounds(&self) -> Option<(u64, u64)> {
        either!(self, builder => builder.seqno_bounds())
    }

    /// The internal key of the last point entry; empty before the first, and after `finish`.
    #[inline]
    pub fn last_key(&self) -> &[u8] {
        either!(self, builder => builder.last_key())
    }

    /// The checksum of the file, if the writer computes one. Requires `finish`.
    pub fn file_checksum(&self) -> Option<&FileChecksum> {
        either!(self, builder => builder.file_checksum())
    }
}
