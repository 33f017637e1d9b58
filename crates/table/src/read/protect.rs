//! `block_protection_bytes_per_key`: data blocks that change in memory are found.
//!
//! A block gets a checksum of 64 bits over all that is kept of it, when it has been read and
//! decoded. Each lookup compares it for each block that it searches, and each cursor when it enters
//! a block: so a bit that flips in the block cache is an error, never another value or a missing
//! key. RocksDB has 1, 2, 4 or 8 bytes for each entry, as the option says, and checks the entries
//! on which it lands; here any of these numbers means the same.
//!
//! Thread safety: immutable once made. Not here: other kinds of blocks, and what changes while a
//! cursor is in a block.

use crate::handle::BlockKind;
use crate::read::cached_block::{CachedBlock, Decoded};
use crate::read::read_amp::ReadAmp;

/// The checksum of a block, and its use, if that is measured.
#[derive(Debug)]
pub(crate) struct Protection {
    sum: u64,
    pub(crate) read_amp: Option<Box<ReadAmp>>,
}

impl Protection {
    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.read_amp.as_ref().map_or(0, |read_amp| read_amp.memory_bytes())
    }
}

impl CachedBlock {
    /// Changes of a data block are found from now on.
    pub(crate) fn protect(&mut self) {
        if self.kind() != BlockKind::Data {
            return;
        }
        let read_amp = match std::mem::replace(&mut self.decoded, Decoded::Plain) {
            Decoded::Measured(read_amp) => Some(read_amp),
            _ => None,
        };
        let sum = self.block.memory_sum();
        self.decoded = Decoded::Protected(Box::new(Protection { sum, read_amp }));
    }

    /// It is what it was, as far as that is known.
    pub(crate) fn is_intact(&self) -> bool {
        match &self.decoded {
            Decoded::Protected(protection) => protection.sum == self.block.memory_sum(),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;
    use std::sync::Arc;

    use pumice_base::ValueType;
    use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, seek_key};
    use pumice_cache::{CacheOptions, Priority};
    use pumice_env::{BufferedWriter, FileOptions, MemFs, WriterOptions};

    use super::*;
    use crate::read::block::{Block, KeyForm};
    use crate::read::cached_block::BlockCache;
    use crate::read::context::{TableReadContext, TableReadOptions};
    use crate::read::table::Table;
    use crate::{TableBuildContext, TableBuilder, TableOptions};
    use pumice_base::Result;

    /// A table of 100 keys in blocks of 512 bytes, and its cache.
    fn table(protected: bool) -> (Arc<Table>, Arc<BlockCache>) {
        let cache = BlockCache::new(CacheOptions::new(1 << 20));
        let options = Arc::new(TableOptions {
            block_cache: Some(Arc::clone(&cache)),
            block_size: 512,
            block_protection: protected,
            ..TableOptions::default()
        });
        let (fs, path) = (MemFs::new(1).shared(), Path::new("/t.sst"));
        let file = fs.create(path, &FileOptions::default()).unwrap();
        let context = TableBuildContext { table: Arc::clone(&options), ..Default::default() };
        let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
        let mut builder = TableBuilder::new(context, writer).unwrap();
        for n in 0..100 {
            builder.add(&internal_key(&name(n), 7, ValueType::Value), &[b'v'; 40]).unwrap();
        }
        builder.finish_file(true, false).unwrap();
        let context = TableReadContext { options, ..TableReadContext::default() };
        let file = fs.open_random(path).unwrap();
        let len = file.len();
        (Table::open(context, file, len).unwrap(), cache)
    }

    fn name(n: u32) -> Vec<u8> {
        format!("k{n:03}").into_bytes()
    }

    fn get(table: &Arc<Table>, n: u32) -> Result<Option<Vec<u8>>> {
        let (options, target) = (TableReadOptions::default(), seek_key(&*name(n), MAX_SEQUENCE));
        let mut found = None;
        table.get(&options, InternalKey::new(&target), &mut |_, value, _| {
            found = Some(value.to_vec());
            false
        })?;
        Ok(found)
    }

    fn scan(table: &Arc<Table>, backward: bool) -> Result<usize> {
        let mut iter = table.iter(&TableReadOptions::default());
        if backward {
            iter.seek_to_last()
        } else {
            iter.seek_to_first()
        }
        let mut count = 0;
        while iter.valid() {
            count += 1;
            if backward { iter.prev() } else { iter.next() }
        }
        iter.status().map(|()| count)
    }

    /// Flips a bit of what the cache has of the second data block: every byte of it.
    #[pumice_test_macros::test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let (table, cache) = table(true);
        assert_eq!((scan(&table, false).unwrap(), scan(&table, true).unwrap()), (100, 100));
        let top = table.meta(&table.index, BlockKind::Index, &TableReadOptions::default()).unwrap();
        let handle = table.index_of(&top).unwrap().handle(1);
        let key = table.cache_key(handle);
        let bytes = cache.lookup_owned(&key).unwrap().block.data().to_vec();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            // What the block was protected as, with other bytes.
            let whole = Block::decode(bytes.clone(), KeyForm::Internal).unwrap();
            let mut flipped = CachedBlock::entries(whole, BlockKind::Data);
            flipped.protect();
            flipped.block = Block::opaque(changed);
            cache.erase(&key);
            let charge = flipped.charge();
            drop(cache.insert(key, flipped, charge, Priority::Low).unwrap());
            for error in [
                scan(&table, false).map(drop).unwrap_err(),
                scan(&table, true).map(drop).unwrap_err(),
                get(&table, 12).map(drop).unwrap_err(),
            ] {
                let text = error.to_string();
                assert!(error.is_corruption(), "{at}: {text}");
                assert!(text.contains("per key-value checksum verification failed"), "{text}");
                assert!(text.contains(&format!("offset {} of", handle.offset)), "{text}");
            }
            assert!(get(&table, 0).unwrap().is_some() && get(&table, 99).unwrap().is_some());
        }
    }

    #[pumice_test_macros::test]
    fn blocks_without_the_option_have_no_checksum() {
        let (table, cache) = table(false);
        assert_eq!(scan(&table, false).unwrap(), 100);
        let top = table.meta(&table.index, BlockKind::Index, &TableReadOptions::default()).unwrap();
        let handle = table.index_of(&top).unwrap().handle(1);
        let block = cache.lookup_owned(&table.cache_key(handle)).unwrap();
        assert!(matches!(block.decoded, Decoded::Plain));
        assert!(block.is_intact());
    }
}
