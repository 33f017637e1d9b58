//! Log files that are used again: what is cleared in them, and how they are written over.
//!
//! A file keeps its pages and blocks, so nothing is allocated for the records to come. Readers must
//! find the end of those among older records:
//!
//! 1. The file is cleared first (`clear`): each block begins with a page of zeros. A header of
//!    zeros is an end in every version of RocksDB and in every recovery mode: it skips the block.
//! 2. After each flush a header of zeros follows, in the same write. So whoever reads a file whose
//!    writer was killed finds whole records and then zeros.
//! 3. A kill may end a write between two pages. The rest of such a record is then zeros or an older
//!    use's, and its checksum wrong: it was not acknowledged, and is no more than a torn record.
//! 4. A power cut may undo all of that. Then the log number in each header tells what is older
//!    (`record`): all records of such a file, old and new, have one.
//!
//! Thread safety: plain functions.

use crate::record::{BLOCK_BYTES, HEADER_BYTES};
use pumice_base::Result;
use pumice_env::{OldContent, WritableFile};

/// Whole pages are written without being read first.
const PAGE_BYTES: usize = 4 << 10;

/// How `bytes` bytes of older records are written over.
pub(crate) fn old_content(bytes: u64) -> OldContent {
    OldContent { bytes, end_mark_bytes: HEADER_BYTES, block_bytes: BLOCK_BYTES as u64 }
}

/// Clears the `bytes` bytes of `file`, which is at its start, for another use: afterwards readers
/// find no record. The file keeps its length. Nothing is durable.
///
/// # Errors
/// I/O; NotSupported where files are not used again.
pub fn clear(file: &mut dyn WritableFile, bytes: u64) -> Result<()> {
    let zeros = [0; PAGE_BYTES];
    for start in (0..bytes).step_by(BLOCK_BYTES) {
        let page = usize::try_from(bytes - start).unwrap_or(usize::MAX).min(PAGE_BYTES);
        file.overwrite(start, &zeros[..page], 0)?;
    }
    Ok(())
}
