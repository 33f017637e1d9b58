//! Indexes and hash indexes of data blocks that RocksDB 10.10 wrote, byte for byte.
//!
//! RocksDB writes a table; the keys of its data blocks, and where it cut index partitions, go into
//! our builders; the output is compared with the blocks in the file. Then the table builder writes
//! the same entries, and the data blocks must be the same bytes at the same places.
//!
//! Skipped, with a message, where the library is missing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;
use std::sync::Arc;

use pumice_base::extension::FixedPrefix;
use pumice_base::{Comparator, InternalIterator, InternalKeyComparator};
use pumice_env::{BufferedWriter, FileOptions, FileSystem, MemFs, WriterOptions};
use pumice_peer::{Db, Options, Peer, WriteOptions, WriteSettings};

use super::*;
use crate::build::BlockBasedTableBuilder;
use crate::build::block_keys::BlockKeys;
use crate::build::setup;
use crate::data_block_hash::DataBlockHash;
use crate::handle::BlockKind;
use crate::metaindex::MetaIndex;
use crate::options::{DataBlockIndexType, IndexShortening, TableOptions};
use crate::read::block::{Block, GlobalSeqno, KeyForm};
use crate::read::context::{TableReadContext, TableReadOptions};
use crate::read::cursor::BlockCursor;
use crate::read::file::BlockRead;
use crate::read::index::{IndexBlock, IndexEncoding};
use crate::read::table::Table;

const KEYS: u32 = 3000;

/// RocksDB's expected output, and the same settings of ours.
struct Case {
    name: String,
    settings: String,
    table: String,
    context: TableBuildContext,
    /// Versions of each key, all kept by snapshots.
    versions: u32,
    value_len: usize,
}

impl Case {
    fn new(kind: IndexType, format_version: u32, interval: u32, versions: u32) -> Case {
        let index_type = match kind {
            IndexType::BinarySearch => "kBinarySearch",
            IndexType::HashSearch => "kHashSearch",
            IndexType::TwoLevel => "kTwoLevelIndexSearch",
            IndexType::BinarySearchWithFirstKey => "kBinarySearchWithFirstKey",
        };
        let table = format!(
            "index_type={index_type};format_version={format_version};block_size=400;\
             index_block_restart_interval={interval};metadata_block_size=1000;"
        );
        let options = TableOptions {
            index_type: kind,
            format_version,
            block_size: 400,
            index_block_restart_interval: interval,
            metadata_block_size: 1000,
            ..Default::default()
        };
        Case {
            name: format!("{kind:?} format {format_version} interval {interval} x{versions}"),
            settings: "compression=kNoCompression;prefix_extractor=rocksdb.FixedPrefix.6".into(),
            table,
            context: TableBuildContext {
                table: Arc::new(options),
                prefix_extractor: Some(Arc::new(FixedPrefix(6))),
                ..Default::default()
            },
            versions,
            value_len: 40,
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut TableOptions), table: &str) {
        change(Arc::make_mut(&mut self.context.table));
        self.table.push_str(table);
        self.name.push_str(table);
    }

    fn reverse(mut self) -> Case {
        self.settings.push_str(";comparator=rocksdb.ReverseBytewiseComparator");
        self.context.comparator = InternalKeyComparator::new(Comparator::ReverseBytewise);
        self.name.push_str(" reverse");
        self
    }

    /// RocksDB's file.
    fn write(&self, peer: &Peer) -> Vec<u8> {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut options = Options::new(peer);
        options.set_many("create_if_missing=true;disable_auto_compactions=true").unwrap();
        options.set_many(&self.settings).unwrap();
        options.set_table(&self.table).unwrap();
        let db = Db::open(&options, dir.path()).unwrap();
        let cf = db.default_column_family().clone();
        let wo = WriteOptions::new(peer, &WriteSettings::default());
        let mut snapshots = Vec::new();
        for version in 0..self.versions {
            for i in 0..KEYS / self.versions {
                let key = format!("key{:09}", u64::from(i) * 12_347 % 900_000_001);
                let value = format!("{key}/{version}").repeat(20);
                db.put(&wo, &cf, key.as_bytes(), &value.as_bytes()[..self.value_len]).unwrap();
            }
            snapshots.push(db.snapshot());
        }
        db.flush(&cf).unwrap();
        let files = db.live_files();
        assert_eq!(files.len(), 1);
        pumice_port::os::read_file(&dir.path().join(files[0].name.trim_start_matches('/'))).unwrap()
    }

    fn open(&self, bytes: &[u8]) -> Arc<Table> {
        let fs = MemFs::new(1);
        let path = Path::new("/t.sst");
        let mut file = fs.create(path, &FileOptions::default()).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
        let context = TableReadContext {
            options: Arc::clone(&self.context.table),
            comparator: self.context.comparator.clone(),
            ..Default::default()
        };
        Table::open(context, fs.shared().open_random(path).unwrap(), bytes.len() as u64).unwrap()
    }

    /// The same entries through the table builder.
    fn rebuild(&self, table: &Arc<Table>) -> Vec<u8> {
        let fs = MemFs::new(1);
        let path = Path::new("/t.sst");
        let file = fs.create(path, &FileOptions::default()).unwrap();
        let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
        let mut builder = BlockBasedTableBuilder::new(self.context.clone(), writer).unwrap();
        let mut iter = table.iter(&TableReadOptions::default());
        InternalIterator::seek_to_first(&mut iter);
        while iter.valid() {
            builder.add(iter.key().as_bytes(), iter.value()).unwrap();
            iter.next();
        }
        iter.status().unwrap();
        builder.finish_file(false, false).unwrap();
        fs.read_file(path).unwrap()
    }
}

/// The index of a file: its blocks as `finish` writes them, and the data blocks.
struct FileIndex {
    blocks: Vec<(BlockHandle, Vec<u8>)>,
    data: Vec<BlockHandle>,
    /// Number of the data block after each partition.
    cuts: Vec<usize>,
    meta: Vec<(String, Vec<u8>)>,
}

fn file_index(table: &Table, kind: IndexType) -> FileIndex {
    let read = |handle, kind| table.file.read(handle, kind, BlockRead::ONCE).unwrap();
    let meta = MetaIndex::decode_all(read(table.footer.metaindex, BlockKind::MetaIndex)).unwrap();
    let named = |name: &str| meta.iter().find(|(n, _)| n == name).map(|(_, h)| *h);
    let top_handle = table.footer.index.or(named(metaindex::INDEX)).unwrap();
    let encoding = table.index_encoding;
    let decode = |bytes: &[u8], encoding: IndexEncoding| {
        IndexBlock::decode(bytes, encoding, &table.comparator).unwrap()
    };
    let top_bytes = read(top_handle, BlockKind::Index);
    let top = decode(&top_bytes, encoding);
    let mut index =
        FileIndex { blocks: Vec::new(), data: Vec::new(), cuts: Vec::new(), meta: vec![] };
    if kind == IndexType::TwoLevel {
        for handle in top.handles() {
            let bytes = read(handle, BlockKind::Index);
            index.data.extend(decode(&bytes, encoding).handles());
            index.cuts.push(index.data.len());
            index.blocks.push((handle, bytes));
        }
    } else {
        index.data.extend(top.handles());
    }
    index.blocks.push((top_handle, top_bytes));
    for name in [metaindex::HASH_INDEX_PREFIXES, metaindex::HASH_INDEX_METADATA] {
        if let Some(handle) = named(name) {
            index.meta.push((name.to_string(), read(handle, BlockKind::Index)));
        }
    }
    index
}

fn keys_of(contents: Vec<u8>) -> BlockKeys {
    let block = Block::decode(contents, KeyForm::Internal).unwrap();
    let mut keys = BlockKeys::default();
    let mut cursor = BlockCursor::new(GlobalSeqno::default());
    cursor.seek_to_first(&block);
    while cursor.valid() {
        keys.push(cursor.key());
        cursor.next(&block);
    }
    assert!(!cursor.damaged());
    keys
}

/// Feeds the data blocks of RocksDB's file to our builders and compares all index blocks.
fn check_index(case: &Case, table: &Table) -> FileIndex {
    let name = &case.name;
    let mut context = case.context.clone();
    let kind = context.table.index_type;
    let found = file_index(table, kind);
    assert!(kind != IndexType::TwoLevel || found.cuts.len() > 3, "{name}: partitions");
    // Partitions are cut where RocksDB cut them.
    let options = Arc::make_mut(&mut context.table);
    (options.partition_filters, options.decouple_partitioned_filters) = (true, false);
    let separators = Separators::new(&context);
    let mut builder = IndexBuilder::new(&context).unwrap();
    let mut entry = IndexEntry::default();
    let mut hash = setup::data_block_hash(&context);
    let blocks: Vec<Vec<u8>> = found
        .data
        .iter()
        .map(|h| table.file.read(*h, BlockKind::Data, BlockRead::ONCE).unwrap())
        .collect();
    let all: Vec<BlockKeys> = blocks.iter().map(|block| keys_of(block.clone())).collect();
    let mut hashed = 0;
    for (i, keys) in all.iter().enumerate() {
        let next = all.get(i + 1).map(|keys| keys.first());
        separators.prepare(keys.last(), next, keys.first(), &mut entry);
        separators.note_prefixes(keys.user_keys(), &mut entry);
        entry.cut_after = found.cuts.contains(&(i + 1));
        builder.push(&entry, found.data[i]);
        if let Some(hash) = &mut hash {
            hashed += usize::from(check_hash(name, hash, &blocks[i], keys));
        }
    }
    if case.table.contains("data_block_index_type") && !case.name.contains("no hash") {
        assert!(hashed * 2 > all.len(), "{name}: {hashed} of {} blocks hashed", all.len());
    } else {
        // The last block may be small enough.
        assert!(hashed <= usize::from(hash.is_some()), "{name}");
    }
    let mut written = found.blocks.iter();
    let result = builder.finish(&mut |block| {
        let (handle, want) = written.next().unwrap();
        assert!(block == want, "{name}: index block at {}", handle.offset);
        Ok(*handle)
    });
    let result = result.unwrap();
    assert!(written.next().is_none(), "{name}");
    let meta: Vec<(String, Vec<u8>)> =
        result.meta_blocks.into_iter().map(|(name, block)| (name.to_string(), block)).collect();
    assert_eq!(meta, found.meta, "{name}");
    assert_eq!(meta.is_empty(), kind != IndexType::HashSearch, "{name}");
    let properties = &table.properties;
    assert_eq!(properties.index_size, result.size + 5, "{name}");
    assert_eq!(properties.index_partitions, result.partitions, "{name}");
    assert_eq!(properties.top_level_index_size, result.top_level_size, "{name}");
    assert_eq!(properties.index_key_is_user_key != 0, result.stores_user_keys, "{name}");
    found
}

/// Takes the hash index off a block and lets ours be added.
fn check_hash(name: &str, hash: &mut DataBlockHash, block: &[u8], keys: &BlockKeys) -> bool {
    let packed_at = block.len() - 4;
    let has_hash = block[packed_at + 3] & 0x80 != 0;
    let mut plain = block.to_vec();
    if has_hash {
        let count = u16::from_le_bytes([block[packed_at - 2], block[packed_at - 1]]);
        plain.truncate(packed_at - 2 - usize::from(count));
        plain.extend_from_slice(&block[packed_at..]);
        *plain.last_mut().unwrap() &= 0x7f;
    }
    assert_eq!(hash.add_to(&mut plain, 0, keys), has_hash, "{name}: {} keys", keys.len());
    assert!(plain == block, "{name}: hash index of {} keys", keys.len());
    has_hash
}

fn check(peer: &Peer, case: &Case) {
    let bytes = case.write(peer);
    let table = case.open(&bytes);
    let found = check_index(case, &table);
    let ours = case.rebuild(&table);
    let end = table.properties.data_size as usize;
    assert!(end > 10_000 && found.data.len() > 3, "{}", case.name);
    let data = found.data.last().and_then(|last| last.end()).unwrap() as usize;
    assert!(ours[..data] == bytes[..data], "{}: data blocks differ", case.name);
    let rebuilt = case.open(&ours);
    let again = file_index(&rebuilt, case.context.table.index_type);
    assert_eq!(again.data, found.data, "{}", case.name);
    if case.context.table.index_type != IndexType::TwoLevel {
        assert_eq!(again.blocks[0].1, found.blocks[0].1, "{}: index", case.name);
        assert_eq!(again.meta, found.meta, "{}", case.name);
    }
}

const KINDS: [IndexType; 4] = [
    IndexType::BinarySearch,
    IndexType::HashSearch,
    IndexType::TwoLevel,
    IndexType::BinarySearchWithFirstKey,
];

/// Every kind of index, with and without delta handles and user keys.
#[pumice_test_macros::test]
fn indexes_are_those_of_rocksdb() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    for kind in KINDS {
        // With a longer interval RocksDB's own search of a hash index goes wrong; ours ignores it.
        let hash = kind == IndexType::HashSearch;
        let interval = |n, versions| if hash || versions == 1 { 1 } else { n };
        for format_version in [2, 3, 4, 5] {
            for versions in [1, 30] {
                check(&peer, &Case::new(kind, format_version, interval(5, versions), versions));
            }
        }
        check(&peer, &Case::new(kind, 5, 1, 1).reverse());
        let mut case = Case::new(kind, 5, if hash { 1 } else { 3 }, 1);
        case.change(
            |o| o.index_shortening = IndexShortening::SeparatorsAndSuccessor,
            "index_shortening=kShortenSeparatorsAndSuccessor;",
        );
        check(&peer, &case);
        let mut case = Case::new(kind, 5, if hash { 1 } else { 2 }, 1);
        case.change(
            |o| o.index_shortening = IndexShortening::None,
            "index_shortening=kNoShortening;",
        );
        check(&peer, &case);
    }
}

/// Data-block hash indexes: utilisation, restart intervals, several versions, large blocks.
#[pumice_test_macros::test]
fn hash_indexes_of_data_blocks_are_those_of_rocksdb() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    for (ratio, interval, block_size, versions, what) in [
        (0.75, 16, 4096, 1, ""),
        (0.75, 1, 400, 1, ""),
        (0.5, 3, 1000, 30, ""),
        (0.91, 16, 16 << 10, 1, ""),
        (4.0, 16, 4096, 7, ""),
        // More than 254 restart points, and more than 64 KiB.
        (0.75, 1, 32 << 10, 1, " no hash"),
        (0.75, 64, 80 << 10, 1, " no hash"),
    ] {
        let mut case = Case::new(IndexType::BinarySearch, 5, 1, versions);
        case.change(
            |o| {
                o.data_block_index_type = DataBlockIndexType::BinaryAndHash;
                o.data_block_hash_table_util_ratio = ratio;
                o.block_restart_interval = interval;
                o.block_size = block_size;
            },
            &format!(
                "data_block_index_type=kDataBlockBinaryAndHash;block_size={block_size};\
                 data_block_hash_table_util_ratio={ratio};block_restart_interval={interval};"
            ),
        );
        case.name.push_str(what);
        if what.is_empty() {
            check(&peer, &case);
            check(&peer, &case.reverse());
        } else {
            case.value_len = 70;
            check(&peer, &case);
        }
    }
}
