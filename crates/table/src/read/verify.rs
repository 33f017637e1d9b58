//! Reads a whole table and verifies every block.
//!
//! Data blocks are taken out of windows of the file that are read in one go, so that a table whose
//! blocks are small costs few reads. Nothing goes through the block cache, except the top of the
//! index if it is kept there.
//!
//! Thread safety: shared; each call is independent. Suspends.

use pumice_base::Result;

use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle, BlockKind};
use crate::metaindex::MetaIndex;
use crate::read::context::TableReadOptions;
use crate::read::file::Tail;
use crate::read::open::read;
use crate::read::table::Table;

/// Default bytes read at a time: what RocksDB's automatic readahead grows to.
const WINDOW_BYTES: usize = 256 << 10;

/// Part of the file that was read ahead.
struct Window {
    bytes: usize,
    here: Tail,
}

impl Table {
    /// Reads every block of the table and verifies its checksum and form.
    ///
    /// # Errors
    /// The first failure.
    pub fn verify_checksums(&self) -> Result<()> {
        self.verify_checksums_ahead(0)
    }

    /// [`Table::verify_checksums`] reading `readahead` bytes at a time, 0 for 256 KiB; a block that
    /// is larger is read as a whole.
    ///
    /// # Errors
    /// As [`Table::verify_checksums`].
    pub fn verify_checksums_ahead(&self, readahead: usize) -> Result<()> {
        self.verify_meta()?;
        let options = TableReadOptions { fill_cache: false, ..Default::default() };
        let top = self.meta(&self.index, BlockKind::Index, &options)?;
        let bytes = if readahead == 0 { WINDOW_BYTES } else { readahead };
        let mut window = Window { bytes, here: Tail::default() };
        let mut verified_to = 0;
        for handle in top.get().as_index().into_iter().flat_map(|index| index.handles()) {
            if !self.index_partitioned {
                self.verify_data(handle, &mut verified_to, &mut window)?;
                continue;
            }
            let contents = read(&self.file, &Tail::default(), handle, BlockKind::Index)?;
            let partition = self.decode(contents, handle, BlockKind::Index)?;
            for handle in partition.as_index().into_iter().flat_map(|index| index.handles()) {
                self.verify_data(handle, &mut verified_to, &mut window)?;
            }
        }
        Ok(())
    }

    /// Reads the blocks that the metaindex names, except the index, and verifies them.
    ///
    /// # Errors
    /// The first failure.
    pub fn verify_meta(&self) -> Result<()> {
        let no_tail = Tail::default();
        let contents = read(&self.file, &no_tail, self.footer.metaindex, BlockKind::MetaIndex)?;
        let handles = MetaIndex::decode_all(contents).map_err(|what| {
            self.file.bad_block(self.footer.metaindex, BlockKind::MetaIndex, what)
        })?;
        for (name, handle) in handles {
            let kind = MetaIndex::kind_of(&name);
            if kind == BlockKind::Properties {
                // Verified, with its exception, when the table was opened.
                continue;
            }
            let contents = read(&self.file, &no_tail, handle, kind)?;
            if kind == BlockKind::FilterIndex {
                let top = self.decode(contents, handle, kind)?;
                for partition in top.as_index().into_iter().flat_map(|index| index.handles()) {
                    read(&self.file, &no_tail, partition, BlockKind::Filter)?;
                }
            }
        }
        Ok(())
    }

    /// Verifies a data block; they follow each other in the file, so that none is read twice.
    fn verify_data(
        &self,
        handle: BlockHandle,
        verified_to: &mut u64,
        window: &mut Window,
    ) -> Result<()> {
        if handle.offset < *verified_to {
            return Err(self.file.bad_block(handle, BlockKind::Data, "blocks out of order"));
        }
        self.read_ahead(handle, window)?;
        let contents = read(&self.file, &window.here, handle, BlockKind::Data)?;
        let block = self.decode(contents, handle, BlockKind::Data)?;
        if self.embeds {
            self.verify_embedded(&block.block, handle)?;
        }
        *verified_to = handle.end().unwrap_or(u64::MAX);
        Ok(())
    }

    /// Moves the window to the block if it is not inside. A block that fills the window is read
    /// separately; so is one beyond the end of the file, which then fails.
    fn read_ahead(&self, handle: BlockHandle, window: &mut Window) -> Result<()> {
        let len = self.file.stored_len(handle, BlockKind::Data)?;
        if len + BLOCK_TRAILER_LEN >= window.bytes || window.here.get(handle.offset, len).is_some()
        {
            return Ok(());
        }
        let left = usize::try_from(self.file.len - handle.offset).unwrap_or(usize::MAX);
        let mut bytes = std::mem::take(&mut window.here).into_bytes();
        bytes.resize(window.bytes.min(left), 0);
        let got = self.file.file.read_at(handle.offset, &mut bytes)?;
        bytes.truncate(got);
        window.here = Tail::new(handle.offset, bytes);
        Ok(())
    }
}
