//! Reads tables of other formats, `plain` and `cuckoo`, as block-based ones.
//!
//! ```text
//! file ── rows (plain, cuckoo) ──▶ layout ──▶ image: data block* ‖ filter ‖ index ‖ ..
//! ```
//!
//! Such a table is read once when it is opened: its rows are cut into blocks, and the index, the
//! filter and the rest of the tail are made from them and kept. The `image` is a file like that of
//! a block-based table. It makes a data block out of rows of the real file whenever one is read, so
//! that the reader above knows nothing of other formats: lookups, iterators, readahead, the block
//! cache and its charges are those of every table.
//!
//! | part | is |
//! |---|---|
//! | `file` | footer, metaindex and properties of the other formats |
//! | `layout` | cuts rows into blocks and makes the tail |
//! | `image` | the file that the reader reads |
//! | here | opens a table of any format |
//!
//! These formats have no checksums. What can be checked when a table is opened is: every row lies
//! within the data, keys ascend, types are known, and there are as many rows as the properties say.
//!
//! Thread safety: an image is immutable and shared. Suspends where the file is read.

pub(crate) mod file;
pub(crate) mod image;
pub(crate) mod layout;

use std::sync::Arc;

use pumice_base::{ErrorKind, Result};
use pumice_env::RandomAccessFile;

use crate::cuckoo;
use crate::footer::OtherFormat;
use crate::plain;
use crate::properties::TableProperties;
use crate::read::context::TableReadContext;
use crate::read::table::Table;
use crate::translated::file::OtherFile;

impl Table {
    /// Opens the table in `file`, which has `file_size` bytes, in any format.
    ///
    /// # Errors
    /// Corruption, naming file and offset; `NotSupported` for formats that nothing reads;
    /// `InvalidArgument` for tables in another key order; I/O errors.
    pub fn open(
        context: TableReadContext,
        file: Arc<dyn RandomAccessFile>,
        file_size: u64,
    ) -> Result<Arc<Table>> {
        // The format is looked at only if it is not the usual one: that costs a read.
        let error = match Table::open_blocks(context.clone(), Arc::clone(&file), file_size) {
            Err(error) if error.kind() == ErrorKind::NotSupported => error,
            opened => return opened,
        };
        let Some(other) = OtherFile::open(&file, file_size)? else { return Err(error) };
        let (image, origin) = match other.format {
            OtherFormat::Plain => plain::translate(&context, other)?,
            OtherFormat::Cuckoo => cuckoo::translate(&context, other)?,
        };
        Table::open_image(context, Arc::new(image), origin)
    }

    /// The properties of the table in `file`, which has `file_size` bytes; nothing that depends on
    /// its key order is read.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn read_properties(
        file: Arc<dyn RandomAccessFile>,
        file_size: u64,
    ) -> Result<TableProperties> {
        let error = match Table::read_properties_of_blocks(Arc::clone(&file), file_size) {
            Err(error) if error.kind() == ErrorKind::NotSupported => error,
            read => return read,
        };
        match OtherFile::open(&file, file_size)? {
            Some(other) => Ok(other.properties),
            None => Err(error),
        }
    }
}
