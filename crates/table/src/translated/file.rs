//! What plain and cuckoo tables have in common: footer, metaindex, properties. Their blocks have no
//! trailers.
//!
//! ```text
//! data ‖ blocks of the format ‖ properties ‖ metaindex ‖ footer
//! ```
//!
//! Thread safety: values. Suspends where the file is read.

use std::sync::Arc;

use pumice_base::narrow::to_usize;
use pumice_base::{Error, Result};
use pumice_env::RandomAccessFile;

use crate::footer::{FOOTER_LEN, OtherFooter, OtherFormat};
use crate::handle::BlockHandle;
use crate::metaindex::{self, MetaIndex};
use crate::properties::{self, TableProperties};
use crate::read::open::decode_properties;

/// A table of another format with its metadata.
pub(crate) struct OtherFile {
    pub file: Arc<dyn RandomAccessFile>,
    pub len: u64,
    pub format: OtherFormat,
    pub properties: TableProperties,
    /// The properties as they are stored, and where.
    pub stored_properties: (Vec<u8>, u64),
}

impl OtherFile {
    /// Reads the metadata of the table in `file`, which has `len` bytes; `None` if it has none of
    /// these formats.
    ///
    /// # Errors
    /// Corruption, I/O errors.
    pub fn open(file: &Arc<dyn RandomAccessFile>, len: u64) -> Result<Option<OtherFile>> {
        let name = file.path().display().to_string();
        let at = len.saturating_sub(FOOTER_LEN as u64);
        let bytes = read_exactly(&**file, at, to_usize(len - at))?;
        let Some(footer) = OtherFooter::decode(&bytes, &name)? else { return Ok(None) };
        let metaindex = read_block(&**file, len, footer.metaindex, "metaindex")?;
        let bad = |what: &str| Error::corruption(format!("{what}: metaindex block of {name}"));
        let handles = MetaIndex::decode_all(metaindex).map_err(bad)?;
        let handle = handles.iter().find(|(name, _)| name == metaindex::PROPERTIES);
        let Some((_, handle)) = handle else {
            return Err(Error::corruption(format!("no properties block in {name}")));
        };
        let stored = read_block(&**file, len, *handle, "properties")?;
        let (properties, _) = decode_properties(stored.clone())
            .map_err(|what| Error::corruption(format!("{what}: properties block of {name}")))?;
        let foreign = properties.index_key_is_user_key != 0
            || properties.index_value_is_delta_encoded != 0
            || properties.collected(properties::INDEX_TYPE).is_some()
            || properties.collected(properties::EMBEDDED_BLOBS).is_some();
        if foreign {
            let what = "properties of a block-based table in a table of another format";
            return Err(Error::corruption(format!("{what}: {name}")));
        }
        Ok(Some(OtherFile {
            file: Arc::clone(file),
            len,
            format: footer.format,
            properties,
            stored_properties: (stored, handle.offset),
        }))
    }

    /// Corruption of this file.
    #[cold]
    pub fn bad(&self, what: impl std::fmt::Display) -> Error {
        Error::corruption(format!("{what} in {}", self.file.path().display()))
    }

    /// Bytes of the rows, which are at the start of the file.
    ///
    /// # Errors
    /// Corruption if the file is shorter.
    pub fn data_bytes(&self) -> Result<u64> {
        let bytes = self.properties.data_size;
        let end = self.stored_properties.1;
        if bytes <= end {
            return Ok(bytes);
        }
        Err(self.bad(format_args!("data of {bytes} bytes before offset {end}")))
    }
}

/// Reads all of that range.
///
/// # Errors
/// Corruption if the file is shorter; I/O errors.
pub(crate) fn read_exactly(
    file: &dyn RandomAccessFile,
    offset: u64,
    bytes: usize,
) -> Result<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    let got = file.read_at(offset, &mut buffer)?;
    if got == bytes {
        return Ok(buffer);
    }
    Err(Error::corruption(format!(
        "truncated read of {bytes} bytes at offset {offset}: {got} in {}",
        file.path().display()
    )))
}

fn read_block(
    file: &dyn RandomAccessFile,
    len: u64,
    handle: BlockHandle,
    what: &str,
) -> Result<Vec<u8>> {
    match handle.offset.checked_add(handle.size) {
        Some(end) if end <= len => read_exactly(file, handle.offset, to_usize(handle.size)),
        _ => Err(Error::corruption(format!(
            "block beyond the end of the file of {len} bytes: {what} block at offset {} of {} \
             bytes in {}",
            handle.offset,
            handle.size,
            file.path().display()
        ))),
    }
}
